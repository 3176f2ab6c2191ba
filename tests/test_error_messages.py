"""Errors as a user reads them: the field, the value, and the way out."""

from collections.abc import Callable
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool, Msg, TextBlock
from autocontext.errors import AutoContextError
from autocontext.loop.tools import Toolset
from autocontext.memories import MemoryStore
from autocontext.stores import SqliteSessionStore
from autocontext.tokens import get_counter
from tests.keys import KEYS


def takes_an_object(what: object, where: AutoContextMemory) -> None: ...


def memory() -> AutoContextMemory:
    made = AutoContextMemory(AutoContextConfig())
    made.add({"role": "user", "content": "hello"})
    return made


def remember(**fields: Any) -> object:
    with MemoryStore(":memory:") as memories:
        return memories.add("x", user_id="ann", **fields)


def search(text: Any) -> object:
    with SqliteSessionStore(":memory:") as store:
        return store.search(text, user_id="ann")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Msg(role="user", content=5), "Msg.content: must be a text or a list of blocks (got 5)"),
        (
            lambda: Msg(role="user", content=TextBlock(text="x")),
            "Msg.content: must be a text or a list of blocks (got ",
        ),
        (lambda: Msg(role="user", content=["x"]), "Msg.content.0: must be an object (got 'x')"),
        (lambda: Msg(role="user", content=[{"text": "x"}]), "Msg.content.0: the field 'type' is missing (got "),
        (lambda: Msg(role="user", content=[{"type": "x"}]), "Msg.content.0: 'type' must be one of 'text', "),
        (lambda: memory().delete_message("x"), "delete_message: index must be a whole number (got 'x')"),
        (lambda: memory().load_state_dict({}), "state.version is missing: this is not an object made by state_dict()"),
        (lambda: get_counter(5), "token_counter: 5 is neither a name nor a TokenCounter"),
        (lambda: Toolset([takes_an_object]), "tools[0]: takes_an_object: its signature has no JSON schema"),
        (lambda: remember(tags="a"), "tags must be a list of strings such as ['a'] (got 'a')"),
        (lambda: remember(metadata="a"), "metadata must be an object with string keys (got 'a')"),
        (lambda: search(5), "search: text must be a text (got 5)"),
    ],
)
def test_an_error_names_the_field_the_value_and_the_way_out(call: Callable[[], object], message: str) -> None:
    with pytest.raises(AutoContextError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_a_page_of_no_characters_is_refused() -> None:
    assert ContextOffloadTool(memory())("m1", limit=0).startswith("Error: offset and limit must be whole numbers")


@pytest.mark.parametrize("kind", KEYS)
def test_a_value_that_holds_a_key_is_named_without_it(kind: str) -> None:
    key = KEYS[kind]
    with pytest.raises(AutoContextError) as error:
        AutoContextConfig(max_token=key)  # type: ignore[arg-type]
    assert "[redacted]" in str(error.value)
    assert key[-20:] not in str(error.value)
    assert key[:30] not in str(error.value)
