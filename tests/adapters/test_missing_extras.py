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
    "agent_framework": ("agent_framework", "agent-framework"),
    "agentscope_v1": ("agentscope", "agentscope1"),
    "agentscope_v2": ("agentscope", "agentscope"),
    "mcp_server": ("mcp", "mcp"),
}


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_the_extra_is_named(adapter: str) -> None:
    package, extra = FRAMEWORKS[adapter]
    if find_spec(package) is not None:
        pytest.skip(f"{package} is installed here; tests/adapters/frameworks imports the adapter")
    with pytest.raises(MissingExtraError, match=rf"pip install -e '\.\[{extra}\]' in your clone"):
        importlib.import_module(f"autocontext.adapters.{adapter}")
