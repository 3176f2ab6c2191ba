"""An adapter without its framework says which extra to install."""

import importlib
from importlib.util import find_spec

import pytest

from autocontext.errors import MissingExtraError

FRAMEWORKS = {
    "langchain": ("langchain", "langchain"),
    "langchain_messages": ("langchain_core", "langchain"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "pydantic_ai_messages": ("pydantic_ai", "pydantic-ai"),
}


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_the_extra_is_named(adapter: str) -> None:
    package, extra = FRAMEWORKS[adapter]
    if find_spec(package) is not None:
        importlib.import_module(f"autocontext.adapters.{adapter}")
        return
    with pytest.raises(MissingExtraError, match=rf"pip install 'autocontext-memory\[{extra}\]'"):
        importlib.import_module(f"autocontext.adapters.{adapter}")
