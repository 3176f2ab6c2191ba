"""What a framework's list no longer holds goes out of view, unless a turn was cut off that its tools had acted in.

What it holds again comes back to its place.
"""

import json
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters._following import first_new, with_guests
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_compressed, is_note, is_pinned, is_recall
from autocontext.stores import InMemorySessionStore, SqliteSessionStore
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user

OLD = [user("one", id="u1"), assistant("Very well.", id="a1")]
DONE = [user("two", id="u2"), tool_call("send", id="c2"), tool_result("c2", "sent"), assistant("Sent.", id="a2")]
OPEN = [user("three", id="u3"), tool_call("send", id="c3")]
READ = [user("four", id="u4"), tool_call("send", id="c4"), tool_result("c4", "sent")]
FAILED = [user("five", id="u5")]


def left_in_view(*turns: list[Msg]) -> list[Msg]:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *(msg for turn in turns for msg in turn)])
    memory.follow([m.id for m in [*OLD, user("again")]])
    return memory.messages


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=8))
def test_what_passes_through_a_request_keeps_its_place_before_what_is_in_view_and_nothing_of_it_is_lost(
    ids: list[str | None],
) -> None:
    request = [(f"{id_ or 'guest'}{n}", id_) for n, id_ in enumerate(ids)]
    guests = [name for name, id_ in request if id_ is None]
    sent = with_guests([("a", ["A"]), ("b", ["B", "B."])], request)
    assert [name for name in sent if name in ("A", "B", "B.")] == ["A", "B", "B."]
    assert sorted(name for name in sent if name.startswith("guest")) == sorted(guests)
    for (guest, id_), (_, behind) in pairwise(request):
        if id_ is None and behind in ("a", "b"):
            assert sent.index(guest) < sent.index(str(behind).upper())


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


def test_what_the_system_says_behind_an_answer_is_of_the_next_turn() -> None:
    now = system("It is noon.", id="s1")
    assert left_in_view(DONE, [now], FAILED) == OLD
    assert left_in_view(OPEN, [now], DONE) == [*OLD, *OPEN, now]
    # It may also ask for an answer where one was empty.
    empty = [*DONE[:-1], assistant("", id="a0"), now]
    assert left_in_view(empty) == [*OLD, *empty]


def test_what_a_user_says_in_several_messages_begins_one_turn() -> None:
    said = [user("six", id="u6"), user("and seven", id="u7")]
    assert left_in_view([*said, *OPEN[1:]]) == [*OLD, *said, *OPEN[1:]]
    assert left_in_view([*said, *DONE[1:]]) == OLD


def test_a_list_that_shares_nothing_takes_nothing_back() -> None:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *DONE])
    memory.follow(["new"])
    assert memory.messages == [*OLD, *DONE]


def test_a_list_that_shares_only_the_first_message_takes_back_the_rest() -> None:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, *DONE])
    memory.follow(["u1", "new"])
    assert memory.messages == OLD[:1]


@pytest.mark.parametrize("turn", [DONE, OPEN, READ, FAILED])
def test_within_a_run_only_what_came_from_the_list_is_taken_back(turn: list[Msg]) -> None:
    memory, said = AutoContextMemory(), user("by the way", id="s1")
    memory.add_messages([*OLD, *turn[:2], said, *turn[2:]])
    memory.follow([m.id for m in [*OLD, *turn[:1]]], own=[m.id for m in [*OLD, *turn]])
    assert memory.messages == [*OLD, *turn[:1], said]


# ------------------------------------------------------------------------------------------------------ coming back
def run(memory: AutoContextMemory, history: Sequence[Msg], *new: Msg, had: Sequence[Msg] = ()) -> list[Msg]:
    """A run of a framework that holds `history`, and `had` before, with what it adds; gives the history after it."""
    after = [*history, *new]
    memory.follow([m.id for m in after[: len(history) + 1]], gone=[m.id for m in had])
    for stop in range(len(history) + 1, len(after) + 1):
        ids = [m.id for m in after[:stop]]
        memory.add_messages(after[first_new(memory, ids) : stop])
        memory.bring_back(ids)
    return after


def turn(name: str, output: str = "sent") -> list[Msg]:
    call = Msg(id=f"{name}.c", role="assistant", content=[ToolUseBlock(id=f"call {name}", name="send")])
    result = Msg(id=f"{name}.r", role="tool", content=[ToolResultBlock(id=f"call {name}", name="send", output=output)])
    return [user(f"ask {name}", id=f"{name}.u"), call, result, assistant("Sent.", id=f"{name}.a")]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=8))
def test_the_view_is_the_branch_of_the_last_run(steps: list[tuple[int, int]]) -> None:
    """Each run goes on from any earlier one, whole or without its last messages, as when a turn is tried again."""
    memory = AutoContextMemory()
    histories = [run(memory, [], *OLD)]
    for n, (at, without) in enumerate(steps):
        earlier = histories[at % len(histories)]
        earlier = earlier[: max(len(OLD), len(earlier) - without)]
        histories.append(run(memory, earlier, *turn(f"t{n}")))
        assert [m.id for m in memory.messages] == [m.id for m in histories[-1]]
    said = {m.id for history in histories for m in history}
    assert {m.id for m in memory.get_original_memory_msgs()} == said


def test_a_saved_state_knows_what_was_taken_back() -> None:
    memory, again = AutoContextMemory(), AutoContextMemory()
    first = run(memory, OLD, *turn("A"))
    run(memory, OLD, *turn("B"))
    again.load_state_dict(memory.state_dict())
    assert again.state_dict() == memory.state_dict()
    assert run(again, first, user("again", id="u9")) == again.messages


def test_another_process_knows_what_was_taken_back(tmp_path: Path) -> None:
    def opened() -> AutoContextMemory:
        return AutoContextMemory(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s")

    first = run(opened(), OLD, *turn("A"))
    run(opened(), OLD, *turn("B"))
    memory = opened()
    whole = run(memory, first, user("again", id="u9"))
    assert memory.messages == opened().messages == whole


def test_a_run_whose_question_another_run_has_taken_back_has_it_again() -> None:
    memory = AutoContextMemory()
    run(memory, [], *OLD)
    one = run(memory, OLD, user("one of two", id="one"))
    two = run(memory, OLD, user("two of two", id="two"), assistant("Two.", id="a"))
    assert memory.messages == two
    memory.bring_back([m.id for m in one])
    assert memory.messages == [*one, *two[len(OLD) :]]


def test_what_the_caller_has_deleted_does_not_come_back() -> None:
    memory = AutoContextMemory()
    history = run(memory, OLD, *DONE)
    memory.delete_message(2)
    run(memory, history, user("again", id="u9"))
    assert memory.messages == [*history[:2], *history[3:], memory.messages[-1]]


@pytest.mark.parametrize(
    "lost", ["u1", "a1", "u1 a1", "A.c A.r", "A.u A.a", "u1 A.u A.c A.r A.a", "u1 a1 A.u A.c A.r A.a"]
)
def test_what_a_list_has_lost_is_taken_wherever_it_stands(lost: str) -> None:
    memory = AutoContextMemory()
    history = run(memory, [], *OLD, *turn("A"))
    left = [m for m in history if m.id not in lost.split()]
    new = run(memory, left, user("again", id="u9"), had=history)
    assert memory.messages == new
    assert run(memory, history, user("back", id="u10"), had=new) == memory.messages


def test_what_is_in_the_list_stays_also_if_it_was_said_twice() -> None:
    memory = AutoContextMemory()
    memory.add_messages([*OLD, user("and this", id="u2"), assistant("Done.", id="a2")])
    memory._move_to_end(["u2"])
    ids = [m.id for m in memory.messages]
    memory.follow(ids)
    assert [m.id for m in memory.messages] == ids == ["u1", "a1", "a2", "u2"]
    memory.follow(ids[:-1], gone=ids)
    assert [m.id for m in memory.messages] == ids[:-1]
    memory.follow(ids)
    assert [m.id for m in memory.messages] == ids


def test_a_list_that_lost_everything_and_has_it_again_is_in_view(tmp_path: Path) -> None:
    memory = AutoContextMemory(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s")
    memory.add_messages(OLD)
    ids = [m.id for m in OLD]
    memory.follow([], gone=ids)
    assert memory.messages == []
    memory.follow(ids)
    again = AutoContextMemory(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s")
    assert memory.messages == again.messages == OLD
    assert memory.token_count == again.token_count


def test_what_was_lost_goes_also_in_its_short_form_and_as_a_note_and_comes_back_as_it_was() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000))
    paste = user("A paste:\n" + "".join(f"line {i}: value {i * 7} of a log\n" for i in range(900)), id="u2")
    memory.add_messages([*OLD, paste])
    assert "u2" not in {m.id for m in memory.get_messages()}
    memory.add_message(assistant("Read.", id="a2"))
    ids = ["u1", "a1", "u2", "a2"]
    memory.follow(ids[:2], gone=ids)
    assert memory.messages == OLD
    memory.follow(ids)
    assert [m.id for m in memory.messages] == ids
    for turn_ in range(40):
        memory.add_messages([user(f"{turn_} " + "word " * 90, id=f"v{turn_}"), assistant("Yes. " * 90, id=f"b{turn_}")])
    memory.get_messages()
    assert any(is_compressed(m) for m in memory.messages)
    memory.follow([], gone=[m.id for m in memory.get_original_memory_msgs()])
    assert memory.messages == []


def test_what_comes_back_is_pinned_as_it_was() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000, steering=True))
    history = run(memory, [], *OLD, *turn("A"))
    pin = memory.tools("pin")[0]
    assert "Pinned: m3." in pin(messages="m3")
    memory.follow([m.id for m in OLD])
    assert "Pinned: m1." in pin(messages="m1")
    memory.follow([m.id for m in history])
    assert [m.id for m in memory.messages if is_pinned(m)] == ["u1", "A.u"]


# ---------------------------------------------------------------------------------------- behind notes about others
PAGE = "".join(f"line {i}: value-{i * 7} of a log\n" for i in range(60))


def with_a_note(*names: str, **options: Any) -> tuple[AutoContextMemory, list[Msg], list[Msg], str]:
    """A memory with a note about three turns, of which the list has lost the second; both lists, the note's UUID."""
    memory = AutoContextMemory(AutoContextConfig.for_window(8_000), **options)
    turns = [turn(name, PAGE.replace("value", f"order-{name}")) for name in names or "ABC"]
    history = run(memory, OLD, *chain(*turns), user("last", id="u9"), assistant("Very well.", id="a9"))
    assert "Put away m3-m14" in memory.tools("archive")[0](messages="m3-m14", reason="done")
    [uuid] = memory.get_offload_context()
    left = [m for m in history if m not in turns[1]]
    memory.follow([m.id for m in left], gone=[m.id for m in history])
    assert [m.origin is not None for m in memory.messages] == [False, False, True, False, False]
    return memory, history, left, uuid


def test_what_was_lost_behind_a_note_stays_out_of_view_when_that_is_undone() -> None:
    memory, history, left, uuid = with_a_note()
    assert memory.reload(uuid) == history[2:14]
    assert memory.undo(uuid)
    assert memory.messages == left
    memory.follow([m.id for m in history])
    assert memory.messages == memory.get_original_memory_msgs() == history


def test_so_it_is_in_another_process_a_fork_and_a_saved_state(tmp_path: Path) -> None:
    store = SqliteSessionStore(tmp_path / "agent.db")
    memory, _, left, uuid = with_a_note(store=store, session_id="s")
    fork, saved = store.fork(memory.session), json.loads(json.dumps(memory.state_dict()))
    others = [
        AutoContextMemory(store=SqliteSessionStore(tmp_path / "agent.db"), session_id=session)
        for session in ("s", fork.session_id, "new")
    ]
    others[-1].load_state_dict(saved)
    for other in others:
        assert other.undo(uuid)
        assert other.messages == left


def test_what_comes_back_behind_a_note_is_in_view_when_that_is_undone() -> None:
    memory, history, _, uuid = with_a_note()
    view = memory.messages
    memory.bring_back([m.id for m in history])
    assert memory.messages == view
    assert memory.undo(uuid)
    assert memory.messages == history


def test_a_note_goes_when_the_last_that_it_tells_of_is_lost() -> None:
    memory, history, left, _ = with_a_note()
    rest = [*OLD, *left[-2:]]
    memory.follow([m.id for m in rest], gone=[m.id for m in left])
    assert memory.messages == rest
    memory.follow([m.id for m in history])
    assert memory.messages == history


def test_what_the_caller_deletes_as_a_note_does_not_come_back() -> None:
    memory, history, left, _ = with_a_note()
    memory.delete_message(2)
    memory.follow([m.id for m in history])
    assert memory.messages == [*OLD, *left[-2:]]


def test_the_next_note_does_not_tell_of_it() -> None:
    memory, history, left, _ = with_a_note("Anna", "Berta", "Clara")
    assert "Berta" in memory.messages[2].text
    run(memory, left, user("more", id="u10"), assistant("Very well.", id="a10"))
    memory.add_messages([user("And now?", id="u11"), assistant("Now?", id="a11")])
    assert "Put away" in memory.tools("archive")[0](messages="m3-m18", reason="done")
    [note] = [m for m in memory.messages if m.origin is not None]
    assert all(name in note.text for name in ("Anna", "Clara"))
    assert "Berta" not in note.text
    while any(m.origin is not None and memory.undo(m.origin.uuid) for m in memory.messages):
        pass
    assert not {m.id for m in memory.messages} & {m.id for m in history[6:10]}


def test_lines_of_it_are_not_recalled() -> None:
    memory, *_ = with_a_note()
    for name, recalled in (("B", False), ("A", True)):
        memory.add_message(user(f"What was order-{name}-371?", id=f"q{name}"))
        assert is_recall(memory.get_messages()[-2]) is recalled
        memory.delete_message(len(memory.messages) - 1)


def test_the_agent_puts_back_what_the_list_still_has() -> None:
    memory, _, left, _ = with_a_note()
    restore = memory.tools("restore")[0]
    assert "not behind a note in view" in restore(messages="m8")
    assert "Put back m3-m6,m11-m14" in restore(messages="m5-m9")
    assert memory.messages == left


def test_a_larger_window_does_not_show_it() -> None:
    store = InMemorySessionStore()
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000), store=store, session_id="s")
    words = [user(f"{n} " + "word " * 90) if n % 2 else assistant("Yes. " * 90) for n in range(80)]
    history = run(memory, OLD, *words, user("last"))
    assert any(is_note(m) for m in memory.get_messages())
    left = [*history[:6], *history[8:]]
    memory.follow([m.id for m in left], gone=[m.id for m in history])
    memory = AutoContextMemory(AutoContextConfig.for_window(64_000), store=store, session_id="s")
    assert memory.get_messages() == left


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
