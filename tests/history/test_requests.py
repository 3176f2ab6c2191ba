"""`open_request`: what a program that starts again has to go on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import StateError
from autocontext.messages import is_final_reply, is_user_turn
from autocontext.stores import InMemorySessionStore
from autocontext.testing import assistant, system, tool_call, tool_result, user

CONFIGS = {
    "window": AutoContextConfig.for_window(1_000),
    "java": AutoContextConfig(msg_threshold=6, last_keep=2, large_payload_threshold=400),
}


def expected(originals: list[Msg]) -> Msg | None:
    """The same by the whole conversation: the user's last words, if no answer follows them."""
    for msg in reversed(originals):
        if is_final_reply(msg) and msg.text.strip():
            return None
        if is_user_turn(msg):
            return msg
    return None


def said(steps: list[str]) -> list[Msg]:
    """A conversation of these steps, each 600 characters long."""
    msgs: list[Msg] = []
    for number, step in enumerate(steps):
        text = " \n" if step == "blank" else f"{step} {number}: " + f"order A-{number:04} is on its way. " * 20
        if step == "tool":
            msgs += [tool_call("look", id=f"c{number}"), tool_result(f"c{number}", text)]
        elif step == "call":
            msgs.append(tool_call("look", id=f"c{number}"))
        else:
            msgs.append({"user": user, "answer": assistant, "blank": assistant, "system": system}[step](text))
    return msgs


@given(
    st.lists(st.sampled_from(["user", "answer", "tool", "tool", "call", "system", "blank"]), max_size=16),
    st.sampled_from(sorted(CONFIGS)),
)
@example(["user", *["tool"] * 15], "window")
@example(["user", "answer", "user", *["tool"] * 12], "java")
@example(["user", "answer", *["tool"] * 12], "window")
def test_it_is_what_the_user_said_last_unless_an_answer_follows(steps: list[str], config: str) -> None:
    memory = AutoContextMemory(CONFIGS[config])
    for msg in said(steps):
        memory.add_message(msg)
        memory.get_messages()
        assert memory.open_request == expected(memory.get_original_memory_msgs())
    memory.compress_if_needed(force=True)
    assert memory.open_request == expected(memory.get_original_memory_msgs())


def test_a_turn_that_was_taken_back_is_not_open() -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("Book a flight."), assistant("Booked."), user("And a hotel.")])
    assert (memory.open_request or user("")).text == "And a hotel."
    memory.delete_message(2)
    assert memory.open_request is None


@pytest.mark.parametrize(
    ("question", "call", "result"),
    [
        ("Why did the nightly build fail?", "bash", "FAILED tests/test_queue.py::test_lock"),
        ("Cancel order A-7714, please.", "find_order", '{"order": "A-7714", "state": "shipped"}'),
        ("What does the paper say about cello practice?", "read_page", "Practice an hour a day."),
    ],
)
def test_a_program_that_starts_again_asks_once(tmp_path: Path, question: str, call: str, result: str) -> None:
    def start(*then: Msg) -> int:
        with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as memory:
            if memory.open_request is None:
                memory.add({"role": "user", "content": question})
            memory.add_messages(then)
            return [m.text for m in memory.get_original_memory_msgs()].count(question)

    assert start() == 1  # and is killed
    assert start(tool_call(call, id="c1")) == 1  # within its tool
    assert start(tool_result("c1", result)) == 1
    assert start(assistant("Done.")) == 1
    assert start() == 2  # asked once more, as the first was answered


def test_a_run_that_ended_with_a_tool_s_result_leaves_nothing_open(tmp_path: Path) -> None:
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as memory:
        memory.add_messages([user("Which disks failed?"), tool_call("submit", id="c1")])
        memory.close_request()  # too early: the call waits
        assert memory.open_request is not None
        memory.add_message(tool_result("c1", "submitted"))
        memory.close_request()
        entries = len(memory.state_dict())
        memory.close_request()
        assert (memory.open_request, len(memory.state_dict())) == (None, entries)
        loaded = AutoContextMemory()
        loaded.load_state_dict(memory.state_dict())
        assert (loaded.open_request, memory.branch().open_request) == (None, None)
    with AutoContextMemory.open(tmp_path / "agent.db", session_id="42", window="16k") as memory:
        assert memory.open_request is None
        memory.add_message(user("And on Tuesday?"))
        assert (memory.open_request or user("")).text == "And on Tuesday?"
        memory.clear()
        memory.add_message(user("Something else."))
        assert memory.open_request is not None


@pytest.mark.parametrize("ended", [-1, 2, True, "1"])
def test_a_state_with_a_wrong_end_is_refused(ended: object) -> None:
    memory = AutoContextMemory()
    memory.add_message(user("Which disks failed?"))
    with pytest.raises(StateError, match=r"state\.ended must be a number of messages up to 1"):
        AutoContextMemory().load_state_dict({**memory.state_dict(), "ended": ended})


def test_a_call_that_was_cancelled_earlier_keeps_no_request_open() -> None:
    memory = AutoContextMemory()
    memory.add_messages([user("Which disks failed?"), tool_call("submit", id="c1")])  # and was cancelled
    memory.add_messages([tool_call("submit", id="c2"), tool_result("c2", "submitted")])
    memory.close_request()
    assert memory.open_request is None


def test_what_was_taken_back_opens_and_closes_requests() -> None:
    memory = AutoContextMemory()
    first, call, result, second = user("Q1"), tool_call("submit", id="c1"), tool_result("c1", "done"), user("Q2")
    memory.add_messages([first, call, result])
    memory.close_request()
    memory.add_message(second)
    memory.delete_message(3)
    assert memory.open_request is None  # Q1 is not asked again
    memory.follow([first.id], gone=[call.id, result.id])
    assert memory.open_request == first  # as its run goes on from before its end


def test_the_end_of_a_run_does_not_close_what_another_process_has_asked() -> None:
    store = InMemorySessionStore()
    one, other = (AutoContextMemory(store=store, session_id="s") for _ in range(2))
    one.add_messages([user("Q1"), tool_call("submit", id="c1"), tool_result("c1", "done")])
    other.refresh()
    other.add_message(user("Q2"))
    one.close_request()
    assert [(m.open_request or user("")).text for m in (one, other)] == ["Q2", "Q2"]
