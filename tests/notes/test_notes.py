"""The agent's own notes: every work ledger has them word for word, whatever the tool is called behind a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext.messages import Msg
from autocontext.notes.notes import LONGEST_NOTE, is_note_tool
from autocontext.notes.page import LINES, NOTES
from autocontext.notes.work import WorkLedger
from autocontext.testing import conversation, tool_exchange, user
from autocontext.tokens import get_counter
from tests.notes.pages import page

COUNT = get_counter("o200k_base").count_text
DECISION = "decision: keep the old lock; the new one deadlocks under fork (see pool.py:41)"


def noted(text: object, name: str = "context_note") -> list[Msg]:
    return [*tool_exchange(name, {"text": text}, "Noted.", id="note-1")]


def part(text: str) -> str:
    return text.partition(f"{NOTES}\n")[2].partition(f"\n{LINES}\n")[0]


@pytest.mark.parametrize("name", ["context_note", "mcp__autocontext__context_note", "autocontext.context_note"])
def test_a_note_stands_in_the_ledger_word_for_word_and_is_no_call(name: str) -> None:
    ledger = WorkLedger.of([user("Fix the pool."), *noted(DECISION, name)])
    assert part(page(ledger, 400, COUNT)).splitlines() == [f"m2: {DECISION}"]
    assert page(ledger, 400, COUNT).count("context_note") == 0


def test_the_lines_of_a_note_stay_lines() -> None:
    text = "tried:\n- a bigger pool: no\n- WAL: no"
    assert part(page(WorkLedger.of(noted(text)), 400, COUNT)) == "m1:\n> tried:\n> - a bigger pool: no\n> - WAL: no"


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(150, 600))
def test_the_newest_notes_stay_whole_as_long_as_there_is_room(count: int, budget: int) -> None:
    history = [m for n in range(count) for m in (*noted(f"finding {n}: value {n * 7919}"), *conversation(rounds=1))]
    text = page(WorkLedger.of(history), budget, COUNT)
    assert COUNT(text) <= budget
    shown = [n for n in range(count) if f"finding {n}: value {n * 7919}\n" in f"{part(text)}\n"]
    assert shown == list(range(count - len(shown), count))
    assert shown


@pytest.mark.parametrize("text", ["", "  \n", None, 7, "x" * (LONGEST_NOTE + 1)])
def test_what_the_tool_refuses_is_no_note(text: object) -> None:
    assert WorkLedger.of(noted(text)).notes == []


def test_another_tool_with_such_a_name_is_none() -> None:
    assert not is_note_tool("mycontext_note")
    assert not is_note_tool("context_notes")
