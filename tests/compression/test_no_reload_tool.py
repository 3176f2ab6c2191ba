"""A request without the reload tool: nothing in view offers it, and one warning says how to register it."""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.testing import assistant, conversation, system, user
from tests.conversations import valid_histories

PARAMETERS = {"type": "object", "properties": {}}
FORMATS: dict[str, Callable[[str], dict[str, Any]]] = {
    "chat completions": lambda name: {"type": "function", "function": {"name": name, "parameters": PARAMETERS}},
    "responses": lambda name: {"type": "function", "name": name, "parameters": PARAMETERS},
    "messages": lambda name: {"name": name, "description": "A tool.", "input_schema": PARAMETERS},
}
WAYS: dict[str, Callable[[AutoContextMemory], Any]] = {
    "sync": AutoContextMemory.to_openai,
    "async": lambda memory: asyncio.run(memory.ato_openai()),
}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMATS)
def test_it_is_warned_of_once_when_something_is_condensed(
    way: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages(conversation(rounds=1))
    for rounds in (1, 30, 1):
        memory.set_overhead("You help.", FORMATS[form]("read_log"), FORMATS[form]("bash"))
        WAYS[way](memory)
        assert len(warnings(caplog)) == bool(memory.get_compression_events())
        memory.add_messages(conversation(rounds=rounds))
    WAYS[way](memory)
    [told] = warnings(caplog)
    for word in (memory.session.session_id, "context_reload", "memory.tools('reload')", "docs/reload.md"):
        assert word in told


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("You help.",),
        ({"type": "json_schema", "json_schema": {"name": "answer", "schema": PARAMETERS}},),
        *[("You help.", form("read_log"), form("context_reload")) for form in FORMATS.values()],
        (FORMATS["messages"]("mcp__autocontext__context_reload"), FORMATS["messages"]("bash")),
    ],
)
def test_it_is_not_warned_of_where_it_is_there_or_nobody_knows(
    parts: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages(conversation(rounds=30))
    memory.set_overhead(*parts)
    memory.to_openai()
    assert memory.get_compression_events()
    assert warnings(caplog) == []


def test_it_is_said_as_soon_as_the_tool_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """An agent that a handoff leads to."""
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages(conversation(rounds=30))
    bash, reload = FORMATS["responses"]("bash"), memory.tools("reload")[0].schema()
    for parts, told in (([bash, reload], 0), ([bash], 1), ([bash, reload], 1), ([bash], 1)):
        memory.set_overhead(*parts)
        memory.to_openai()
        assert len(warnings(caplog)) == told


@given(valid_histories(), st.integers(500, 3_000), st.integers(0, 400))
def test_no_text_in_view_names_the_tool(history: list[Msg], window: int, pasted: int) -> None:
    assume(not any(use.name == "context_reload" for m in history for use in m.tool_uses))  # a note names each call
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    paste = "\n".join(f"{n:04} WARN pool_{n} has no connection" for n in range(pasted))
    memory.add_messages([user(f"What is wrong here?\n{paste}"), assistant("The pool."), *history, user("Go on.")])
    memory.compress_if_needed(force=True)
    said = [text for m in memory.messages for text in m.texts()]
    assert not any("context_reload" in text for text in said)


def test_a_paste_that_is_cut_names_the_message_that_has_all_of_it() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    paste = "\n".join(f"{n:04} WARN pool_{n} has no connection" for n in range(400))
    memory.add_messages([system("You help."), user(paste), assistant("Read."), user("And now?")])
    assert re.search(r"\[m2: [\d,]+ of [\d,]+ characters left out\]", memory.get_messages()[1].text)
