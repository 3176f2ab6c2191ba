"""A call that was interrupted, or a result whose call is unknown, is history once the work has gone on."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.view import View, passed
from autocontext.messages import is_note
from autocontext.steering import marking
from autocontext.testing import assert_valid_chat, assistant, tool_call, tool_exchange, tool_result, user
from tests.conversations import histories
from tests.invariants import check, unreachable

KINDS = {
    "code": ("bash", "command", "pytest tests/test_{n}.py", "src/part_{n}.py:{n}: {words} AssertionError"),
    "desk": ("get_order_details", "order_id", "#W{n}", '{{"order": "#W{n}", "items": "{words}"}}'),
    "Recherche": ("suche", "frage", "Wie hoch ist Brücke {n}?", "Brücke {n}: {words} Meter hoch"),
}


def work(kind: str, first: int, last: int) -> list[Msg]:
    """Steps with results of which each says something else."""
    name, key, argument, answer = KINDS[kind]
    words = random.Random(kind)
    messages: list[Msg] = []
    for n in range(first, last):
        said = " ".join(f"{words.choice('abcdefghij')}{words.randrange(10**6)}" for _ in range(40))
        messages += [
            user(f"Go on with number {n}, please."),
            *tool_exchange(name, {key: argument.format(n=n)}, answer.format(n=n, words=said), id=f"{kind}-{n}"),
            assistant(f"Number {n} is done: {said[:40]}."),
        ]
    return messages


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flaw", ["call", "result"])
def test_it_does_not_split_what_is_condensed_later(kind: str, flaw: str) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages([user("We have 46 parts."), *work(kind, 0, 6)])
    alone = {"call": tool_call("deploy", {"to": "staging"}, id="x1"), "result": tool_result("x1", "deployed 7")}[flaw]
    memory.add_messages([alone, user("Stop that."), assistant("Stopped.")])
    for n in range(6, 46, 4):
        memory.add_messages(work(kind, n, n + 4))
        assert_valid_chat(memory.to_openai())
    assert alone not in memory.messages
    assert len([m for m in memory.messages if is_note(m)]) == 1
    assert alone in memory.reload("m26")
    check(memory)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_it_in_a_run_that_goes_on_without_a_new_question(kind: str) -> None:
    """As after a crash, where the model reads that the call was interrupted, and goes on."""

    def steps(first: int, last: int) -> list[Msg]:
        return [m for m in work(kind, first, last) if m.role != "user" and (m.tool_uses or m.tool_results)]

    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages([user("Go through all 86."), *steps(0, 6), alone := tool_call("deploy", {}, id="x1")])
    for n in range(6, 86, 4):
        memory.add_messages(steps(n, n + 4))
        assert_valid_chat(memory.to_openai())
    assert len([m for m in memory.messages if is_note(m)]) == 1
    assert alone in memory.reload("m14")
    check(memory)
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


def test_a_call_waits_until_the_model_has_read_what_a_later_one_returned() -> None:
    history = [user("Go."), tool_call("deploy", {}, id="x1"), *tool_exchange("look", {}, "nothing yet", id="x2")]
    assert View.of(history).is_waiting
    assert not View.of([*history, assistant("I go on.")]).is_waiting


def test_its_result_may_still_come_when_the_call_is_condensed() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    memory.add_messages([user("Go."), tool_call("deploy", {}, id="x1"), user("Never mind."), assistant("Fine.")])
    for n in range(0, 40, 4):
        memory.add_messages(work("code", n, n + 4))
        memory.get_messages()
    memory.add_messages([late := tool_result("x1", "deployed release 7.4"), user("What came back?")])
    context = memory.to_openai()
    assert_valid_chat(context)
    assert late in memory.messages
    assert "deployed release 7.4" in str(context)


def test_the_agent_can_note_something_again() -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("Go."), tool_call("deploy", {}, id="x1")])
    with pytest.raises(marking.Refusal, match="still running"):
        marking.note(memory._parts(), "keep the lock")
    memory.add_messages([user("Never mind; go on."), assistant("Good.")])
    assert marking.note(memory._parts(), "keep the lock").startswith("Noted")


@given(histories(min_moves=1), st.data())
def test_what_waits_is_what_stands_after_the_last_step_that_was_passed(history: list[Msg], data: st.DataObject) -> None:
    start = passed(history)
    view = View.of(history)
    waits = [i for i in range(len(history)) if view._pairs.first[i] < 0 or view._pairs.last[i] >= len(history)]
    assert all(i >= start for i in waits)
    at = data.draw(st.integers(0, len(history)))
    assert view.closed(0, at) == all(max(view.exchange(i)) < at and i not in waits for i in range(at))
