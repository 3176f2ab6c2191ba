"""Long pauses: told before the message that ends them, and in notes; by the messages' times, never by a clock."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import is_recall
from autocontext.stores import InMemorySessionStore
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from autocontext.text.gaps import gap, moment
from tests import invariants
from tests.invariants import ESTIMATE

START = datetime(2026, 11, 23, 9, 12, tzinfo=UTC)
THREE_DAYS = "3 days later, 2026-11-26 09:12 UTC"
LINE = f"{THREE_DAYS}. Look up again what may have changed meanwhile."


def at(time: datetime, msg: Msg) -> Msg:
    return msg.model_copy(update={"timestamp": time.isoformat()})


def new(store: InMemorySessionStore | None = None, **fields: object) -> AutoContextMemory:
    config = AutoContextConfig.for_window(4_000, **{**ESTIMATE, **fields})
    return AutoContextMemory(config, store=store, session_id=store and "42")


def paused(memory: AutoContextMemory, pause: timedelta, question: str = "Is it still open?") -> list[Msg]:
    memory.add_messages([at(START, user("Please look at case 7.")), at(START, assistant("It is open."))])
    memory.get_messages()
    memory.add_message(at(START + pause, user(question)))
    return memory.get_messages()


# -------------------------------------------------------------------------------------------------------- the words
@pytest.mark.parametrize(
    ("pause", "words"),
    [
        (timedelta(hours=1), ""),
        (timedelta(hours=1, seconds=1), "1 hour later, 2026-11-23 10:12 UTC"),
        (timedelta(hours=23, minutes=59), "23 hours later, 2026-11-24 09:11 UTC"),
        (timedelta(days=1), "1 day later, 2026-11-24 09:12 UTC"),
        (timedelta(days=48), "48 days later, 2027-01-10 09:12 UTC"),
        (timedelta(days=-3), ""),
    ],
)
def test_words_of_a_pause(pause: timedelta, words: str) -> None:
    assert gap(START.isoformat(), (START + pause).isoformat()) == words


def test_times_are_in_utc_and_what_is_none_says_nothing() -> None:
    assert moment("2026-11-23T09:12:59+02:00") == "2026-11-23 07:12 UTC"
    assert moment("2026-11-23T09:12:59") == "2026-11-23 09:12 UTC"
    assert moment("yesterday") == gap("yesterday", START.isoformat()) == gap(START.isoformat(), "") == ""


# --------------------------------------------------------------------------------------------------------- the view
def test_a_line_stands_before_the_message_that_ends_a_long_pause() -> None:
    memory = new()
    view = paused(memory, timedelta(days=3))
    assert [is_recall(m) for m in view] == [False, False, True, False]
    assert LINE in view[2].text
    assert memory.get_messages() == view
    assert_valid_chat(memory.to_openai())
    assert [m.text for m in memory.reload(view[2].origin.uuid)] == ["It is open."]  # type: ignore[union-attr]
    invariants.check(memory)


@pytest.mark.parametrize(("late", "where"), [("result", "2026-11-26 09:12"), ("reply", "2026-11-26 09:13")])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_pause_within_a_request_stands_before_the_model_s_next_message(
    late: str, where: str, *, interrupted: bool
) -> None:
    """A tool that took days, or a program that was killed, also inside a tool, and started again days later."""
    memory, days = new(), timedelta(days=3)
    call, result = tool_exchange("wait", {"job": "J-7"}, "done")
    later = tool_exchange("look", {}, "roses")
    memory.add_messages([at(START, user("Go on.")), at(START, call)])
    if not interrupted:
        memory.add_message(at(START + (days if late == "result" else timedelta()), result))
    sent = memory.get_messages()
    after = START + days + timedelta(minutes=late == "reply" or interrupted)
    memory.add_messages(at(after, m) for m in later)
    view = memory.get_messages()
    assert view[: len(sent)] == sent
    assert [is_recall(m) for m in view[len(sent) :]] == [True, False, False]
    assert f"3 days later, {moment(after.isoformat()) if interrupted else where + ' UTC'}. Look" in view[len(sent)].text
    assert memory.get_messages() == view
    assert_valid_chat(memory.to_openai())
    memory.add_messages(at(after, m) for m in tool_exchange("look", {}, "maps"))
    assert memory.get_messages()[: len(view)] == view
    assert sum(map(is_recall, memory.messages)) == 1
    assert memory.open_request == view[0]
    assert memory.undo(view[len(sent)].origin.uuid)  # type: ignore[union-attr]
    invariants.check(memory)


@pytest.mark.parametrize("fields", [{"show_gaps": False}, {"max_token": 600}])
def test_none_stands_there_without_the_option_and_where_it_has_no_room(fields: dict[str, object]) -> None:
    assert not any(map(is_recall, paused(new(**fields), timedelta(days=3))))


def test_a_short_pause_and_messages_without_times_have_none() -> None:
    assert not any(map(is_recall, paused(new(), timedelta(minutes=59))))
    memory = new()
    memory.add([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}])
    memory.add({"role": "user", "content": "Go on."})
    assert not any(map(is_recall, memory.get_messages()))


def test_it_stays_after_reopening_and_goes_with_undo_for_good() -> None:
    store = InMemorySessionStore()
    view = paused(new(store), timedelta(days=3))
    again = new(store)
    assert again.get_messages() == view
    assert again.undo(view[2].origin.uuid)  # type: ignore[union-attr]
    assert again.get_messages() == [view[0], view[1], view[3]]
    assert new(store).get_messages() == [view[0], view[1], view[3]]


def test_it_goes_with_the_message_that_is_removed_and_comes_before_the_next_one() -> None:
    memory = new()
    view = paused(memory, timedelta(days=3))
    assert memory.delete_message(3) == view[3:]
    assert memory.get_messages() == view[:2]
    memory.add_message(at(START + timedelta(days=3), user("Is it closed?")))
    again = memory.get_messages()
    assert [is_recall(m) for m in again] == [False, False, True, False]
    assert LINE in again[2].text
    memory.add_message(at(START + timedelta(days=3), assistant("Yes.")))
    memory.delete_message(0)  # what stands elsewhere stays
    assert memory.get_messages() == [*again[1:], memory.messages[-1]]
    invariants.check(memory)


def test_it_stays_when_a_list_takes_its_message_back() -> None:
    memory = new()
    view = paused(memory, timedelta(days=3))
    memory.follow([m.id for m in view[:2]])
    assert memory.get_messages() == view[:3]
    memory.add_message(at(START + timedelta(days=3), user("Is it closed?")))
    assert sum(map(is_recall, memory.get_messages())) == 1


def test_it_comes_with_the_lines_that_the_message_names() -> None:
    memory = new(ledger_ratio=0.02, note_state=False)
    memory.add_messages(at(START, m) for m in long_work())
    memory.get_messages()
    memory.add_message(at(START + timedelta(days=3), user("What was the order in the first mail, A-7714?")))
    note = memory.get_messages()[-2]
    assert is_recall(note)
    assert note.text.index(LINE) < note.text.index("Order A-7714: two red lamps, to Lyon")


def long_work() -> Iterator[Msg]:
    yield user("Let us begin.")
    yield from tool_exchange("get_mail", {"n": 1}, "Order A-7714: two red lamps, to Lyon\n" + "nothing else\n" * 60)
    yield assistant("Done.")
    for n in range(40):
        yield user(f"Another customer asks about delivery times in part {n}, and is told when to expect it.")
        yield from tool_exchange("look", {"n": n}, "Roses and maps\n" * 60)
        yield assistant(f"Part {n} is done.")


# ---------------------------------------------------------------------------------------------------------- the note
def test_a_note_says_how_long_the_pauses_were_and_until_when_it_reaches() -> None:
    messages = [at(START + timedelta(days=n // 4), m) for n, m in enumerate(long_work())]
    for shows in (True, False):
        memory = new(show_gaps=shows)
        memory.add_messages(messages)
        note = next(m.text for m in memory.get_messages() if "earlier messages" in m.text)
        last = int(note.partition("earlier messages (m3-m")[2].partition(")")[0] or 0) or None
        assert ("1 day later, 2026-11-24" in note or " (1 day later, 2026-" in note) is shows
        assert ("; until 2026-" in note) is shows
        assert last is None or not shows or f"until {moment(messages[last - 1].timestamp)}" in note


@pytest.mark.parametrize("shows", [True, False])
def test_a_note_names_pauses_that_no_message_of_the_user_ended(shows: bool) -> None:
    """A tool that took days, or a program that was killed and started again days later."""
    messages = [user("Watch the queue until it is empty."), *tool_exchange("wait", {"job": "J-7"}, "It is done. " * 9)]
    for n in range(90):
        messages += tool_exchange("look", {"n": n}, "Roses and maps\n" * 60)
    memory = new(show_gaps=shows)
    times = [timedelta(minutes=n) + timedelta(days=3 * (n > 1) + 2 * (n > 13)) for n in range(len(messages))]
    memory.add_messages(at(START + time, m) for time, m in zip(times, messages, strict=True))
    head = next(m.text.splitlines()[1] for m in memory.get_messages() if "earlier messages" in m.text)
    told = "; m3 3 days later, 2026-11-26 09:14 UTC; m15 2 days later, 2026-11-28 09:26 UTC; until 2026-11-28 "
    assert (told in head) is shows


def test_a_pause_that_the_user_s_sentence_names_is_said_once() -> None:
    memory = new()
    memory.add_messages(at(START + timedelta(days=n // 40), m) for n, m in enumerate(long_work()))
    note = next(m.text for m in memory.get_messages() if "earlier messages" in m.text)
    pauses = [words for words in note.replace("(", "\n").splitlines() if "1 day later" in words]
    moments = [words.partition("later, ")[2][:20] for text in pauses for words in text.split("; ") if "later" in words]
    assert moments
    assert len(set(moments)) == len(moments)


def test_a_note_about_less_than_an_hour_has_no_clock() -> None:
    memory = new()
    memory.add_messages(at(START + timedelta(seconds=n), m) for n, m in enumerate(long_work()))
    note = next(m.text for m in memory.get_messages() if "earlier messages" in m.text)
    assert "2026" not in note


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=12))
def test_any_pauses_leave_what_was_sent_and_give_a_valid_context(turns: list[tuple[int, bool]]) -> None:
    memory, time, sent = new(), START, list[Msg]()
    for hours, works in turns:
        time += timedelta(hours=hours)
        work = [*tool_exchange("look", {}, "roses"), assistant("Seen.")] if works else [assistant("Yes.")]
        memory.add_message(at(time, user("Go on.")))
        now = memory.get_messages()
        assert now[: len(sent)] == sent  # nothing of this is long enough for a pass
        assert is_recall(now[-2] if len(now) > 1 else now[-1]) is (hours > 1 and len(sent) > 0)
        memory.add_messages(at(time, m) for m in work)
        sent = memory.get_messages()
    invariants.check(memory)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["ask", "step", "killed", "answer"]))))
def test_pauses_within_requests_leave_what_was_sent_and_give_a_valid_context(
    turns: list[tuple[int, int, str]],
) -> None:
    memory, time = new(), START
    memory.add_message(at(time, user("Watch the queue.")))
    sent = memory.get_messages()
    for hours, more, kind in turns:
        time += timedelta(hours=hours)
        call, result = tool_exchange("look", {}, "roses")
        memory.add_message(at(time, {"ask": user("Go on."), "answer": assistant("Seen.")}.get(kind, call)))
        time += timedelta(hours=more)
        if kind == "step":
            memory.add_message(at(time, result))
        now = memory.get_messages()
        if len(memory.get_original_memory_msgs()) < 20:  # nothing of this is long enough for a pass
            assert now[: len(sent)] == sent
        assert_valid_chat(memory.to_openai())
        sent = now
    times = [m.timestamp for m in memory.get_original_memory_msgs()]
    assert sum(map(is_recall, sent)) <= sum(bool(gap(*pair)) for pair in pairwise(times))
    invariants.check(memory)
