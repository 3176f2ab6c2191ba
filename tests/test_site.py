"""The documentation site: every public name has a reference and an example, every page a place in the navigation."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.test_public_names import PUBLIC

pytestmark = pytest.mark.repo

ROOT = Path(__file__).parent.parent
PAGES = {page.name: page.read_text("utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md"))}
CODE = {
    word
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    for code in re.findall(r"```\w*\n.*?```|``.+?``|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
    for word in re.findall(r"\w+", code)
}
"""All words in the code of the pages."""
BLOCKS = [
    block
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]
REFERENCE = {name: page for page, text in PAGES.items() for name in re.findall(r"^::: ([\w.]+)", text, re.MULTILINE)}
ROOMS = (
    "autocontext", "autocontext.cache", "autocontext.compat", "autocontext.content",
    "autocontext.loop", "autocontext.memories", "autocontext.models", "autocontext.ranking", "autocontext.sessions",
    "autocontext.stores", "autocontext.strategies", "autocontext.suite", "autocontext.tokens",
    "autocontext.adapters.anthropic_messages", "autocontext.adapters.openai_chat",
    "autocontext.adapters.openai_responses", "autocontext.adapters.sendable",
)  # fmt: skip
NAMES = sorted(
    {f"{module}.{name}" for module, names in PUBLIC.items() for name in names}
    | {f"{room}.{name}" for room in ROOMS for name in importlib.import_module(room).__all__}
)


def value(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def pages_of(path: str) -> set[str]:
    """The pages that have the reference of a name, wherever else the same object can be imported from."""
    if path in REFERENCE:
        return {REFERENCE[path]}
    name = path.rpartition(".")[2]
    same = [known for known in REFERENCE if known.rpartition(".")[2] == name and ".adapters." not in known]
    return {REFERENCE[known] for known in same if value(known) is value(path)}


@pytest.mark.parametrize("path", NAMES)
def test_every_public_name_has_a_reference_with_an_example(path: str) -> None:
    assert pages_of(path), f"::: {path} is missing in docs/api"
    name = path.rpartition(".")[2]
    assert any(re.search(rf"\b{name}\b", block) for block in BLOCKS), f"no example of {path}"


@pytest.mark.parametrize("path", [path for path in REFERENCE if ".adapters." not in path])
def test_a_reference_is_of_something_that_is_there(path: str) -> None:
    assert path == "autocontext.errors" or value(path) is not None


VALUES = {
    "Memory", "InjectionReport", "ContentInfo", "ModelReply", "Plan", "SubTask", "Proposal", "Question", "SaveReport",
    "SelectedFact", "SessionState", "Version",
}  # fmt: skip
"""Classes whose parameters are fields of a value and no options."""
INTERNAL = {"compose", "steps"}
"""Functions whose parameters the library itself passes."""


@pytest.mark.parametrize("path", [path for path in NAMES if path.rpartition(".")[2] not in VALUES | INTERNAL])
def test_every_option_is_named_on_a_page(path: str) -> None:
    """In a code block or a code span, so that no everyday word passes for an option."""
    made = value(path)
    ways = [made, getattr(made, "open", made)] if inspect.isclass(made) else [made]
    options = {name for way in ways for name in _options(way)}
    assert sorted(options - CODE) == []


def _options(way: object) -> set[str]:
    if not callable(way):
        return set()
    if inspect.isclass(way) and issubclass(way, BaseModel):  # its signature has them only once it was used
        return {name for name, field in way.model_fields.items() if not field.is_required()}
    try:
        parameters = inspect.signature(way).parameters.values()
    except ValueError:  # of a builtin
        return set()
    return {p.name for p in parameters if p.default is not p.empty and not p.name.startswith("_")}


def test_every_page_stands_in_the_navigation() -> None:
    listed = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").glob("**/*.md")}
    assert pages <= set(listed)
    assert len(listed) == len(set(listed))
    assert all((ROOT / "docs" / page).is_file() or (ROOT / page).is_file() for page in listed)
