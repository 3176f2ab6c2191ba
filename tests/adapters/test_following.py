"""What a framework's list no longer holds goes out of view, unless a turn was cut off that its tools had acted in."""

import pytest

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters._following import first_new, take_back
from autocontext.messages import Msg
from autocontext.testing import assistant, tool_call, tool_exchange, tool_result, user

OLD = [user("one", id="u1"), assistant("Very well.", id="a1")]
DONE = [user("two", id="u2"), tool_call("send", id="c2"), tool_result("c2", "sent"), assistant("Sent.", id="a2")]
OPEN = [user("three", id="u3"), tool_call("send", id="c3")]
READ = [user("four", id="u4"), tool_call("send", id="c4"), tool_result("c4", "sent")]
FAILED = [user("five", id="u5")]


def left_in_view(*turns: list[Msg]) -> list[Msg]:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *(msg for turn in turns for msg in turn)])
    take_back(memory, [m.id for m in [*OLD, user("again")]])
    return memory.messages


def test_a_turn_that_came_to_its_answer_or_called_nothing_is_taken_back() -> None:
    assert left_in_view(DONE) == OLD
    assert left_in_view(FAILED) == OLD
    assert left_in_view(DONE, FAILED) == OLD


def test_a_turn_that_was_cut_off_after_a_call_stays() -> None:
    assert left_in_view(OPEN) == [*OLD, *OPEN]
    assert left_in_view(READ) == [*OLD, *READ]
    assert left_in_view(DONE, OPEN) == [*OLD, *OPEN]
    # Also when a later turn is tried again.
    assert left_in_view(OPEN, DONE) == [*OLD, *OPEN]


def test_what_a_user_says_in_several_messages_begins_one_turn() -> None:
    said = [user("six", id="u6"), user("and seven", id="u7")]
    assert left_in_view([*said, *OPEN[1:]]) == [*OLD, *said, *OPEN[1:]]
    assert left_in_view([*said, *DONE[1:]]) == OLD


def test_a_list_that_shares_nothing_takes_nothing_back() -> None:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *DONE])
    take_back(memory, ["new"])
    assert memory.messages == [*OLD, *DONE]


def test_a_list_that_shares_only_the_first_message_takes_back_the_rest() -> None:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *DONE])
    take_back(memory, ["u1", "new"])
    assert memory.messages == OLD[:1]


def test_new_is_what_stands_behind_the_last_known_message() -> None:
    memory = AutoContextMemory()
    assert first_new(memory, ["u1", "a1"]) == 0
    memory.add_messages(OLD)
    assert first_new(memory, ["u1", "a1"]) == 2
    assert first_new(memory, ["u1", "a1", "u2", "a2"]) == 2
    assert first_new(memory, ["u2"]) == 0


def test_what_stands_before_known_messages_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    memory = AutoContextMemory()
    memory.add_messages(OLD)
    assert [first_new(memory, ["summary", "u1", "other", "a1", "u2"]) for _ in range(2)] == [4, 4]
    [told] = caplog.records
    assert ": 2 messages were put into the history before" in told.getMessage()


def test_what_a_pass_has_replaced_is_known_and_so_is_what_stands_in_its_place(caplog: pytest.LogCaptureFixture) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000))
    read = [msg for n in range(3) for msg in tool_exchange("read", {"n": n}, f"row {n} of the list\n" * 300)]
    memory.add_messages([*OLD, user("two"), *read, assistant("All read.")])
    said = memory.messages
    assert memory.compress_if_needed(force=True)
    for history in (said, memory.messages, [*said[:-1], user("new")], [*memory.messages[:-1], user("new")]):
        assert first_new(memory, [m.id for m in history]) == len(history) - (history[-1].text == "new")
    assert not caplog.records
