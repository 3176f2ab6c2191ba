"""The view against naive readings of the same messages: pairs found one by one, rounds by a regular expression."""

import itertools
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import Msg
from autocontext.history.view import OpenPairs, Round, Span, View, exchange_of, open_pairs
from autocontext.messages import (
    Origin,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_final_reply,
    is_note,
    is_pinned,
    is_tool_message,
    is_user_turn,
)
from autocontext.testing import assistant, system, tool_call, tool_exchange, tool_result, user
from autocontext.text.chat_rules import first_violation
from tests.conversations import histories

bounds = st.tuples(st.integers(0, 40), st.integers(0, 40))


def pairs(messages: list[Msg]) -> list[tuple[int, int]]:
    """(call, result) by index; -1 stands for no call, len(messages) for no result.

    Each result looks back for the nearest message that calls its id and is not answered yet.
    """
    found: list[tuple[int, int]] = []
    free = [(i, use.id) for i, m in enumerate(messages) for use in m.tool_uses]
    for j, m in enumerate(messages):
        for result in m.tool_results:
            nearest = [n for n, (i, key) in enumerate(free) if key == result.id and i < j]
            found.append((free.pop(nearest[-1])[0] if nearest else -1, j))
    return found + [(i, len(messages)) for i, _ in free]


def cancelled(messages: list[Msg]) -> OpenPairs:
    """Per id, calls are opening and results closing brackets; what is left after all pairs have gone is owed."""
    text: dict[str, str] = {}
    for m in messages:
        for result in m.tool_results:
            text[result.id] = text.get(result.id, "") + ")"
        for use in m.tool_uses:
            text[use.id] = text.get(use.id, "") + "("
    left = []
    for key, brackets in sorted(text.items()):
        rest = brackets
        while "()" in rest:
            rest = rest.replace("()", "")
        left.append((key, rest))
    return OpenPairs(
        tuple(k for k, t in left for _ in range(t.count(")"))), tuple(k for k, t in left for _ in range(t.count("(")))
    )


def letters(messages: list[Msg]) -> str:
    """U: what the user wrote, F: a final reply, T: calls and results, x: anything else."""
    kinds = ((is_user_turn, "U"), (is_final_reply, "F"), (is_tool_message, "T"))
    return "".join(next((letter for test, letter in kinds if test(m)), "x") for m in messages)


def within(drawn: tuple[int, int], size: int) -> tuple[int, int]:
    a, b = sorted(min(n, size) for n in drawn)
    return a, b


# ------------------------------------------------------------------------------------------------------- interface
@given(histories(duplicates=True))
def test_the_interface_is_what_brackets_leave_over(history: list[Msg]) -> None:
    assert open_pairs(history) == cancelled(history)
    assert bool(open_pairs(history)) == bool(cancelled(history).unanswered_calls or cancelled(history).orphan_results)


@given(histories(min_moves=1), st.integers(0, 40))
def test_a_closed_stretch_can_be_taken_out_unnoticed(history: list[Msg], at: int) -> None:
    view = View.of(history)
    for stop in range(at, len(history) + 1):
        if view.closed(at, stop):
            assert not open_pairs(history[at:stop])
            assert open_pairs(history[:at] + history[stop:]) == open_pairs(history)


def test_an_id_may_be_used_again() -> None:
    call, result = tool_exchange("t", id="a")
    assert open_pairs([call, result, call, result]) == OpenPairs()
    assert open_pairs([call, call, result]) == OpenPairs(unanswered_calls=("a",))
    assert open_pairs([result, call]) == OpenPairs(orphan_results=("a",), unanswered_calls=("a",))


def test_results_of_a_message_come_before_its_calls() -> None:
    both = Msg(role="assistant", content=[*tool_call("t", id="a").content, *tool_result("a", "x").content])
    assert open_pairs([both]) == OpenPairs(orphan_results=("a",), unanswered_calls=("a",))


# ----------------------------------------------------------------------------------------------------------- spans
@given(histories(), bounds)
def test_closed_means_no_pair_crosses_the_border(history: list[Msg], drawn: tuple[int, int]) -> None:
    start, stop = within(drawn, len(history))
    inside = range(start, stop)
    touching = [(i, j) for i, j in pairs(history) if i in inside or j in inside]
    assert View.of(history).closed(start, stop) == all(i in inside and j in inside for i, j in touching)


@given(histories(min_moves=1), st.integers(0, 40))
def test_an_exchange_is_all_that_hangs_together(history: list[Msg], at: int) -> None:
    at %= len(history) or 1
    found = {at} if history else set()
    for _ in history:
        found |= {k for i, j in pairs(history) if {i, j} & found for k in (i, j) if 0 <= k < len(history)}
    assert not history or View.of(history).exchange(at) == exchange_of(at, history) == sorted(found)


blocks = st.one_of(
    st.builds(ToolUseBlock, id=st.sampled_from("ab"), name=st.just("t"), input=st.just({})),
    st.builds(ToolResultBlock, id=st.sampled_from("ab"), name=st.just("t"), output=st.just("")),
)


@given(st.lists(st.lists(blocks, max_size=4), min_size=1, max_size=8))
def test_read_locally_an_exchange_is_the_same_whatever_ids_are_used_again(drawn: list[list[ToolUseBlock]]) -> None:
    history = [Msg(role="assistant", content=content) for content in drawn]
    view = View.of(history)
    for at in range(len(history)):
        assert exchange_of(at, history) == view.exchange(at)


@given(histories(), bounds)
def test_pieces_are_the_largest_closed_stretches_between_what_stays(history: list[Msg], drawn: tuple[int, int]) -> None:
    start, stop = within(drawn, len(history))
    free = {i for i in range(start, stop) if not is_pinned(history[i])}
    size = -1
    while size != len(free):
        size = len(free)
        for i, j in pairs(history):
            # A pair must lie in one stretch: every message between its ends is free, too.
            if i < 0 or j == len(history) or not set(range(i, j + 1)) <= free:
                free -= {i, j}
    closed_spans = View.of(history).closed_spans(start, stop, is_pinned)
    assert [i for a, b in closed_spans for i in range(a, b)] == sorted(free)
    assert all(a < b for a, b in closed_spans)
    assert all(b < c for (_, b), (c, _) in itertools.pairwise(closed_spans))


@given(histories(), bounds)
def test_tool_runs_are_runs_of_tool_messages(history: list[Msg], drawn: tuple[int, int]) -> None:
    start, stop = within(drawn, len(history))
    runs = re.finditer("T+", letters(history)[start:stop])
    assert list(View.of(history).tool_runs(start, stop)) == [(start + r.start(), start + r.end()) for r in runs]


# ---------------------------------------------------------------------------------------------------------- places
@given(histories())
def test_rounds_go_from_a_user_message_to_the_first_final_reply(history: list[Msg]) -> None:
    found = re.finditer("U[^UF]+F", letters(history))
    assert list(View.of(history).rounds()) == [Round(r.start(), r.start() + 1, r.end()) for r in found]


@given(histories())
def test_the_latest_reply_and_user_message_are_the_last_ones(history: list[Msg]) -> None:
    view = View.of(history)
    assert view.latest_reply == letters(history).rfind("F")
    assert view.latest_user == letters(history).rfind("U")


@given(histories())
def test_unread_is_what_the_model_has_not_answered(history: list[Msg]) -> None:
    spoken = [i for i, m in enumerate(history) if m.role == "assistant" and not is_note(m)]
    after = spoken[-1] if spoken else -1
    waiting = [i if i >= 0 else j for i, j in pairs(history) if after < j < len(history)]
    assert View.of(history).unread == min(waiting, default=len(history))


def test_a_note_answers_nothing() -> None:
    call, result = tool_exchange("t")
    for kind, unread in (("tool_run", 0), ("round_summary", 3)):
        said = Msg(role="assistant", content="Earlier work.", origin=Origin(uuid="u", kind=kind))
        assert View.of([call, result, said]).unread == unread


def test_an_exchange_goes_on_through_shared_messages() -> None:
    first, second = tool_call("t", id="a"), tool_call("t", id="b")
    both = Msg(role="tool", content=[*tool_result("a", "x").content, *tool_result("b", "y").content])
    view = View.of([first, second, user("wait"), both])
    assert [view.exchange(i) for i in range(4)] == [[0, 1, 3], [0, 1, 3], [2], [0, 1, 3]]


@given(histories(), st.integers(0, 30))
def test_the_recent_messages_fit_the_budget_and_one_more_would_not(history: list[Msg], budget: int) -> None:
    view = View.of(history, lambda m: len(m.content) + 1)
    start = view.recent(budget)
    assert view.tokens(start, len(view)) <= budget
    assert start == 0 or view.tokens(start - 1, len(view)) > budget


def test_calls_of_unread_results_are_unread_too() -> None:
    call, result = tool_exchange("t")
    view = View.of([user("go"), call, result])
    assert view.unread == 1
    assert View.of([user("go"), call, result, assistant("done")]).unread == 4
    assert View.of([user("go"), call]).unread == 2


@pytest.mark.parametrize("id_", ["call", "stranger"], ids=["twice", "nobody asked"])
def test_row_33_a_result_nobody_asked_for_is_unread_from_its_own_place(id_: str) -> None:
    history = [system("Be brief."), user("go"), *tool_exchange("t", id="call"), assistant("done"), user("and?")]
    assert View.of([*history, tool_result(id_, "late")]).unread == len(history)
    asked = [*history, tool_call("t", id="c2"), tool_result("c2", "asked")]
    assert View.of([*asked, tool_result(id_, "late")]).unread == len(history)


# ---------------------------------------------------------------------------------------------------------- values
@given(histories(), bounds)
def test_spans_and_sums_go_by_index(history: list[Msg], drawn: tuple[int, int]) -> None:
    start, stop = within(drawn, len(history))
    view = View.of(history, lambda m: len(m.id))
    assert view.span(start, stop) == Span(tuple(m.id for m in history[start:stop]), tuple(history[start:stop]))
    assert len(view.span(start, stop)) == stop - start
    assert view.tokens(start, stop) == sum(len(m.id) for m in history[start:stop])
    assert View.of(history).tokens(start, stop) == 0
    assert list(view) == history
    assert [view.position[m.id] for m in history] == list(range(len(history)))


def thought() -> Msg:
    """Reasoning that was added by itself."""
    return Msg(role="assistant", content=[ThinkingBlock(thinking="Hm.")])


@pytest.mark.parametrize(
    ("messages", "rounds"),
    [
        ([user("a"), assistant("b")], []),
        ([user("a"), *tool_exchange("t"), assistant("b")], [(0, 4)]),
        ([user("a"), user("b"), system("s"), assistant("c")], [(1, 4)]),
        ([user("a"), system("s"), assistant("b"), *tool_exchange("t"), assistant("c")], [(0, 3)]),
        ([*tool_exchange("t"), assistant("a")], []),
        ([user("a"), thought(), *tool_exchange("t"), thought(), assistant("b")], [(0, 6)]),
    ],
    ids=["nothing between", "a round", "the nearer user message", "the first reply", "no user", "thoughts"],
)
def test_what_is_a_round(messages: list[Msg], rounds: list[tuple[int, int]]) -> None:
    assert [(r.user, r.stop) for r in View.of(messages).rounds()] == rounds


def test_reasoning_and_what_it_led_to_go_together() -> None:
    thought = Msg(role="assistant", content=[ThinkingBlock(thinking="x")])
    history = [
        user("a"),
        thought,
        *tool_exchange("read", {}, "r"),
        thought.model_copy(update={"id": "t2"}),
        assistant("b"),
    ]
    for exchange in ([1, 2, 3], [4, 5]):
        for at in exchange:
            assert View.of(history).exchange(at) == exchange_of(at, history) == exchange


def test_reasoning_and_what_it_led_to_are_closed_together() -> None:
    view = View.of([thought(), *tool_exchange("t"), thought(), user("a")])
    assert [view.closed(0, stop) for stop in range(1, 6)] == [False, False, True, True, True]


def test_a_stretch_is_closed_only_with_every_partner_inside() -> None:
    call, result = tool_exchange("t")
    view = View.of([user("a"), call, result, assistant("b"), tool_call("t", id="open")])
    assert [view.closed(0, stop) for stop in range(6)] == [True, True, False, True, True, False]
    assert [view.closed(start, 4) for start in range(5)] == [True, True, False, True, True]


def test_tool_runs_begin_at_the_first_message_too() -> None:
    run = [*tool_exchange("t"), *tool_exchange("t")]
    view = View.of([*run, user("a"), *run[:2], assistant("b")])
    assert list(view.tool_runs(0, len(view))) == [(0, 4), (5, 7)]
    assert list(view.tool_runs(0, 2)) == [(0, 2)]


@pytest.mark.slow
def test_row_24_calls_that_are_open_at_once_take_linear_time() -> None:
    exchanges = [tool_exchange("t", id=f"c{i}") for i in range(4_000)]

    def seconds(size: int) -> float:
        calls, results = zip(*exchanges[:size], strict=True)
        at_once = Msg(role="assistant", content=[use for m in calls for use in m.tool_uses])
        # Every call is answered after the next one: a message that stays takes all behind it with it, one by one.
        chain = [calls[0]]
        for call, result in zip(calls[1:], results, strict=False):
            chain += [call, result]
        view = View.of([*chain, results[-1], user("stays"), assistant("so")])
        began = time.thread_time()
        assert not open_pairs([*calls, *results])
        assert open_pairs(calls).unanswered_calls == open_pairs(results).orphan_results
        assert first_violation([user("go"), at_once, *reversed(results)]) is None
        assert view.closed_spans(0, len(view) - 1, lambda m: m.role == "user") == [(0, 2 * size)]
        assert view.closed_spans(0, len(view), lambda m: m is calls[0]) == [(2 * size, 2 * size + 2)]
        return time.thread_time() - began

    large, small = map(min, zip(*((seconds(4_000), seconds(500)) for _ in range(3)), strict=True))
    assert large < 30 * small  # were it quadratic: 64 times


def test_what_was_found_in_a_view_is_found_once() -> None:
    view, found = View.of([user("Hello")]), list[str]()

    def find() -> list[str]:
        found.append("x")
        return found

    assert view.remembered("key", find) is view.remembered("key", find)
    assert found == ["x"]
    assert View.of(view.messages).remembered("key", find) == ["x", "x"]
