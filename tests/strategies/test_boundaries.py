"""Each limit of a strategy at its boundary: the last value that changes nothing, and the first that does."""

import re

import pytest

from autocontext import AutoContextConfig, Msg
from autocontext.messages import PINNED
from autocontext.strategies import View, steps
from autocontext.strategies.first_message import FirstMessage
from autocontext.strategies.last_resort import Previews
from autocontext.strategies.pastes import Pastes, in_part
from autocontext.strategies.selection import is_large
from autocontext.testing import assistant, tool_exchange, user


def spans(messages: list[Msg], tokens: int = 10, **fields: object) -> list[int]:
    """The sizes of the spans that the one strategy would replace, where each message has so many tokens."""
    config = AutoContextConfig(min_compression_token_threshold=0, **fields)
    view = View.of(messages, lambda _: tokens)
    return [len(p.span) for strategy in steps(config) for p in strategy.propose(view)]


def calls(count: int, text: str = "ok") -> list[Msg]:
    return [m for n in range(count) for m in tool_exchange("read", {"n": n}, text)]


@pytest.mark.parametrize(("last_keep", "found"), [(2, [8]), (3, [])])
def test_a_tool_run_ends_before_the_newest_messages_that_are_kept(last_keep: int, found: list[int]) -> None:
    history = [user("Go."), *calls(4), assistant("Done."), user("And?")]
    assert spans(history, strategies=("tool_runs",), last_keep=last_keep, min_consecutive_tool_messages=7) == found


def test_each_part_of_a_tool_run_around_a_pinned_exchange_must_be_long_enough() -> None:
    pinned = [m.model_copy(update={"metadata": {PINNED: True}}) for m in calls(1)]
    history = [user("Go."), *calls(3), *pinned, *calls(4), assistant("Done."), user("And?")]
    assert spans(history, strategies=("tool_runs",), last_keep=0, min_consecutive_tool_messages=6) == [8]


def test_a_pass_condenses_five_tool_runs_the_oldest_first() -> None:
    history = [m for n in range(4, 10) for m in (user("Go."), *calls(n), assistant("Done."))]
    fields = {"strategies": ("tool_runs",), "last_keep": 0, "min_consecutive_tool_messages": 6}
    assert spans([*history, user("And?")], **fields) == [8, 10, 12, 14, 16]


@pytest.mark.parametrize(("least", "found"), [(80, [8]), (81, [])])
def test_a_tool_run_of_just_enough_tokens_is_condensed(least: int, found: list[int]) -> None:
    config = AutoContextConfig(strategies=("tool_runs",), last_keep=0, min_compression_token_threshold=least)
    view = View.of([user("Go."), *calls(4), assistant("Done."), user("And?")], lambda _: 10)
    assert [len(p.span) for s in steps(config) for p in s.propose(view)] == found


@pytest.mark.parametrize(("least", "found"), [(40, [3]), (41, [])])
def test_a_round_of_just_enough_tokens_is_summarised(least: int, found: list[int]) -> None:
    config = AutoContextConfig(strategies=("rounds",), min_compression_token_threshold=least)
    history = [user("Go."), *calls(1), assistant("Done."), user("And?"), *calls(1), assistant("Done."), user("So?")]
    view = View.of(history, lambda _: 10)
    assert [len(p.span) for s in steps(config) for p in s.propose(view)] == found


@pytest.mark.parametrize(("size", "large"), [(300, False), (301, True)])
def test_a_text_is_large_above_the_threshold(size: int, large: bool) -> None:
    config = AutoContextConfig(large_payload_threshold=300)
    for text in ("x" * size, "👍" * (size // 2) + "x" * (size % 2)):
        assert is_large(text, config) is large
    history = [user("x" * size), assistant("Seen."), user("And?"), assistant("So.")]
    assert spans(history, strategies=("large_messages",), large_payload_threshold=300) == [1] * large


@pytest.mark.parametrize(("last_keep", "found"), [(3, [1]), (4, [])])
def test_a_large_message_outside_the_newest_ones_is_cut(last_keep: int, found: list[int]) -> None:
    history = [user("x" * 6_000), assistant("Seen."), user("And?"), assistant("So.")]
    assert spans(history, strategies=("large_messages_protected",), last_keep=last_keep) == found


class Numbers:
    """What the first message asks of the writer of notes."""

    def number(self, id_: str) -> int:
        return 1

    def original(self, id_: str) -> None:
        return None


@pytest.mark.parametrize(
    ("tokens", "latest", "found"),
    [(538, 1, 0), (539, 1, 1), (180, 300, 0), (181, 300, 1), (134, 400, 0), (135, 400, 1)],
)
def test_the_first_and_the_latest_message_may_take_45_percent_of_the_window(
    tokens: int, latest: int, found: int
) -> None:
    """The latest takes what it needs, and leaves the first one a quarter of that at least; a fifth more is left."""
    first = FirstMessage(AutoContextConfig(max_token=1_000), Numbers(), 0)  # type: ignore[arg-type]
    history = [user("word " * tokens), assistant("Seen."), user("And?")]
    sizes = dict(zip((m.id for m in history), (tokens, 1, latest), strict=True))
    assert len(first.propose(View.of(history, lambda m: sizes[m.id]))) == found


def test_a_message_of_the_user_that_nobody_has_answered_stays_whole() -> None:
    first = FirstMessage(AutoContextConfig(max_token=1_000), Numbers(), 0)  # type: ignore[arg-type]
    asked = [user("word " * 800), user("And " * 10)]
    for answers, found in (([], 0), ([assistant("Seen.")], 1)):
        view = View.of([*asked, *answers, user("Go on.")], lambda m: len(m.text) // 5)
        assert len(first.propose(view)) == found


def test_the_larger_a_new_result_is_the_less_the_first_message_keeps_and_never_less_than_its_least() -> None:
    first = FirstMessage(AutoContextConfig(max_token=1_000), Numbers(), 0)  # type: ignore[arg-type]
    words = "\n".join(f"Check what the page {'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}ort says." for n in range(100))
    kept = []
    for size in (0, 300, 450, 550, 590, 610, 700, 890):
        history = [user(words), assistant("Seen."), *tool_exchange("get", {"id": 1}, "x")]
        sizes = dict(zip((m.id for m in history), (900, 1, 1, size), strict=True))
        [proposal] = first.propose(View.of(history, lambda m, sizes=sizes: sizes[m.id]))
        kept.append(sum(map(len, (proposal.blocks or {}).values())))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 1.3 * kept[-1]
    assert kept[-1] > len(words) * 0.2
    assert kept[-1] == kept[-2] == kept[-3]


@pytest.mark.parametrize(("size", "kept"), [(899, 0.3), (900, 0.45)])
def test_beside_a_result_that_leaves_no_room_at_all_the_first_message_keeps_what_it_may(size: int, kept: float) -> None:
    first = FirstMessage(AutoContextConfig(max_token=1_000), Numbers(), 0)  # type: ignore[arg-type]
    words = "\n".join(f"Check what the page {'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}ort says." for n in range(100))
    history = [user(words), assistant("Seen."), *tool_exchange("get", {"id": 1}, "x")]
    sizes = dict(zip((m.id for m in history), (900, 1, 1, size), strict=True))
    [proposal] = first.propose(View.of(history, lambda m: sizes[m.id]))
    shown = sum(map(len, (proposal.blocks or {}).values())) / len(words)
    assert kept - 0.12 < shown * 0.9 < kept + 0.02


@pytest.mark.parametrize(("characters", "cut"), [(200, False), (201, True)])
def test_the_last_resort_cuts_a_text_that_is_longer_than_what_stays_with_its_mark(characters: int, cut: bool) -> None:
    previews = Previews(AutoContextConfig(), lambda _: 1, 10**6, unread=False, least=80)
    history = [user("Go."), *tool_exchange("get", {}, "x" * characters), assistant("Seen."), user("And?")]
    assert len(previews.propose(View.of(history, lambda m: len(m.text)))) == cut


@pytest.mark.parametrize(("tokens", "excess", "found"), [(399, 1_000, 0), (400, 1_000, 1), (400, 1, 1), (400, 0, 0)])
def test_a_message_of_the_user_is_cut_from_400_tokens_on_if_something_is_in_excess(
    tokens: int, excess: int, found: int
) -> None:
    pastes = Pastes(Numbers(), excess)  # type: ignore[arg-type]
    assert len(pastes.propose(View.of([user("word " * tokens)], lambda _: tokens))) == found


def test_the_longest_messages_of_the_user_are_cut_and_no_more_than_needed() -> None:
    history = [user("word " * tokens) for tokens in (500, 900, 700)]
    sizes = {m.id: len(m.text) // 5 for m in history}
    pastes = Pastes(Numbers(), 900)  # type: ignore[arg-type]
    cut = pastes.propose(View.of(history, lambda m: sizes[m.id]))
    assert [proposal.span.ids for proposal in cut] == [(history[1].id,), (history[2].id,)]


@pytest.mark.slow
def test_of_a_message_of_more_than_a_million_characters_the_mark_counts_all_that_is_left_out() -> None:
    text = "\n".join(f"line {n} of the log that was pasted here" for n in range(40_000))
    assert len(text) > 1_000_000
    shown, _, mark = in_part(text, 4_000, 3).rpartition("\n[m3: ")
    missing, of = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", mark)[:2])
    assert of == len(text)
    assert missing == pytest.approx(len(text) - len(shown), abs=200)
