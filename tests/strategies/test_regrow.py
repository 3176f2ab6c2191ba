"""A note that a large result has pushed together gets its room back where there is room again."""

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.events import CompressionReport
from autocontext.history.proposals import build
from autocontext.messages import is_note
from autocontext.strategies.regrow import Regrow
from autocontext.testing import assistant, conversation, tool_exchange, user
from tests.conversations import histories
from tests.desk import Desk
from tests.invariants import CONFIGS, ESTIMATE, assert_pairs_kept, check

COUNTED = {"token_counter": "bytes4"}
CONFIG = AutoContextConfig.for_window(4_000, **COUNTED)
WORK = {
    "en": ("Please look at order #W{0}.", "The fee of order #W{0} is wrong because the rate was taken twice."),
    "de": ("Bitte prüfe Rechnung {0}.", "Der Grund für den Fehler in Rechnung {0} ist der doppelte Rabatt."),
    "zh": ("请检查文件 src/a{0}.py。", "文件 src/a{0}.py 的问题是缓存没有更新，原因在第 {0} 行。"),
}


def size(msg: Msg) -> int:
    # Not of the blocks' repr: there a line break counts twice.
    return sum(map(len, (*msg.texts(), *(str(use.input) for use in msg.tool_uses)))) // 4 + 1


def rounds(language: str, first: int, count: int) -> list[Msg]:
    asked, found = WORK[language]
    return [
        m
        for n in range(first, first + count)
        for m in (
            user(asked.format(n)),
            *tool_exchange("get_record", {"id": f"R{n}"}, f"record R{n}: total {n * 17} EUR, state open\n" * 4),
            assistant(found.format(n)),
        )
    ]


@pytest.mark.parametrize("language", WORK)
def test_a_small_note_is_written_anew_as_far_as_there_is_room(language: str) -> None:
    desk = Desk([user("Go."), *rounds(language, 1, 20), user("Go on."), assistant("Yes.")], CONFIG, size)
    desk.make(desk.fold(tokens=10**6, last_resort=True))
    [place] = [i for i, m in enumerate(desk.messages) if is_note(m)]
    small = desk.messages[place]
    for room in (10, 100, 10_000):
        proposals = Regrow(desk.hand_over, lambda room=room: room).propose(desk.view)  # type: ignore[misc]
        if room == 10:
            assert proposals == []
            continue
        longer = build(proposals[0], []).messages[0]
        assert size(small) * 1.2 < size(longer) <= size(small) + room
        assert longer.role == small.role
        assert size(longer) <= desk.hand_over.share * 1.05
    assert len(numbers(longer)) > len(numbers(small))
    desk.make(proposals, spare=10_000)
    assert numbers(desk.messages[place]) == numbers(longer)
    assert Regrow(desk.hand_over, lambda: 10_000).propose(desk.view) == []


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_note_wants_what_it_needs_and_no_more(language: str) -> None:
    desk = Desk([user("Go."), *rounds(language, 1, 5), user("Go on."), assistant("Yes.")], CONFIG, size)
    desk.make(desk.fold(tokens=10**6, last_resort=True))
    [place] = [i for i, m in enumerate(desk.messages) if is_note(m)]
    needed = desk.hand_over.needed(desk.view, desk.view.span(place, place + 1), desk.hand_over.share)
    lacks = desk.hand_over.frame + needed - size(desk.messages[place])
    assert Regrow(desk.hand_over, lambda: 10_000).wanted(desk.view) == lacks > 0


def test_a_note_that_lacks_less_than_a_quarter_stays_as_it_is() -> None:
    wanted = set[bool]()
    for tokens in range(200, 900, 50):
        desk = Desk([user("Go."), *rounds("en", 1, 20), user("Go on."), assistant("Yes.")], CONFIG, size)
        desk.make(desk.fold(tokens=tokens))
        [place] = [i for i, m in enumerate(desk.messages) if is_note(m)]
        regrow = Regrow(desk.hand_over, lambda: 10_000)
        needed = desk.hand_over.needed(desk.view, desk.view.span(place, place + 1), desk.hand_over.share)
        lacks = desk.hand_over.frame + needed - size(desk.messages[place])
        wants = lacks >= 0.25 * size(desk.messages[place])
        assert lacks > 0
        assert (regrow.wanted(desk.view) > 0) is wants
        assert bool(regrow.propose(desk.view)) is wants
        wanted.add(wants)
    assert wanted == {True, False}


def test_two_notes_that_need_more_share_the_room_of_all_notes() -> None:
    reads = [m for n in range(41, 81) for m in rounds("en", n, 1)[1:]]
    last = tool_exchange("get_record", {"id": "R99"}, "no such record")
    desk = Desk([user("Go."), *rounds("en", 1, 40), user("Go on."), *reads, *last], CONFIG, size)
    desk.make(desk.fold(tokens=10**6, last_resort=True))
    small = [size(m) for m in desk.messages if is_note(m)]
    longer = [size(build(p, []).messages[0]) for p in Regrow(desk.hand_over, lambda: 10_000).propose(desk.view)]
    assert len(small) == len(longer) == 2
    assert all(old * 2 < new for old, new in zip(small, longer, strict=True))
    assert sum(longer) <= desk.hand_over.share


@pytest.mark.slow
@pytest.mark.parametrize("language", WORK)
def test_what_a_large_result_took_from_a_note_comes_back(language: str) -> None:
    asked, found = WORK[language]
    memory = AutoContextMemory(CONFIG)
    memory.add_messages([user(asked.format(1)), *rounds(language, 2, 60), user("Go on.")])
    before = notes(memory)
    big = tool_exchange("read", {"path": "log"}, "\n".join(f"line {n} of the log" for n in range(740)))
    memory.add_messages(big)
    assert notes(memory) < before * 0.6  # the newest result is more important
    seen = []
    for n in range(40):
        memory.add_messages([assistant(found.format(n)), *tool_exchange("read", {"n": n}, "a line of output\n" * 60)])
        seen.append(notes(memory))
        assert memory.token_count <= 4_000
    assert max(seen) > before * 0.9


def numbers(note: Msg) -> set[str]:
    """The messages that a note tells something of."""
    return set(re.findall(r"\bm\d+", note.text))


def notes(memory: AutoContextMemory) -> int:
    """Characters of the first note in the context."""
    return next(len(m.text) for m in memory.get_messages() if is_note(m))


@pytest.mark.slow
@given(histories(), st.integers(0, 4))
def test_whatever_grows_the_context_stays_valid_and_under_the_target(history: list[Msg], times: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500))
    reports: list[CompressionReport] = []
    memory.on_compression(reports.append)
    for n in range(times + 1):
        memory.add_messages([m.model_copy(update={"id": f"{m.id}-{n}"}) for m in history])
        assert_pairs_kept(memory.get_messages(), memory.get_original_memory_msgs())
        check(memory)
    for report in reports:
        assert report.tokens_after <= report.tokens_before


@given(st.integers(0, 3), st.integers(1, 4), st.sampled_from(["roomy", "window"]))
def test_a_pass_on_demand_never_makes_the_context_larger(start: int, count: int, config: str) -> None:
    """There is room for longer notes from the start, and little that the pass can save."""
    memory = AutoContextMemory(CONFIGS[config].model_copy(update=ESTIMATE))
    memory.add_messages(conversation(rounds=2))
    for _ in range(3):
        before = memory.token_count
        report = memory.compress_if_needed(force=True)
        assert memory.token_count < before if report else memory.token_count == before
        memory.add_messages(memory.messages[start:][:count])


@pytest.mark.parametrize("rounds_of_words", [8, 12, 20])
def test_a_note_takes_seven_tenths_of_what_it_replaces_at_most(rounds_of_words: int) -> None:
    told = [
        m
        for n in range(rounds_of_words)
        for m in (
            user(f"Never touch the folder src/part_{n}/ before {n + 1} May, and ask Ann_{n} first."),
            assistant(f"The reason is that part_{n} fails because of order W{n}77."),
        )
    ]
    desk = Desk([user("Go."), *told, user("Go on."), assistant("Yes.")], CONFIG, size)
    [proposal] = desk.fold(tokens=50)
    replaced = sum(map(size, proposal.span.messages))
    assert replaced * 0.5 < size(build(proposal, []).messages[0]) <= replaced * 0.7


class Failing:
    model = "failing"

    def complete(self, request: object) -> None:
        raise RuntimeError("no")


def test_a_note_that_was_written_without_the_model_keeps_its_mark() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(4_000, model_retries=0), Failing())  # type: ignore[arg-type]
    for i in range(36):
        words = (f"word{(i * 977 + n * 7919) % 3000}" for n in range(50))
        memory.add_messages([user(f"Question {i} " + " ".join(islice(words, 20))), assistant(" ".join(words))])
    report = memory.compress_if_needed()
    assert report.fallbacks == 1
    assert [s.name for s in report.strategies if s.applied] == ["fold", "regrow"]
    assert [m.origin.fallback for m in memory.messages if m.origin is not None] == [True]
