"""Under the limit after every pass, an honest report where that cannot be, and an end to trying."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import ContextOverflowError
from autocontext.messages import ToolUseBlock, is_user_turn
from autocontext.strategies import Proposal, Question, View
from autocontext.testing import (
    ScriptedModel,
    assert_valid_chat,
    assistant,
    system,
    tool_call,
    tool_exchange,
    tool_result,
    user,
)
from tests.conversations import valid_histories
from tests.invariants import ESTIMATE, unreachable
from tests.production.agents import day, notes, rounds_only, small, task, with_reports


# ------------------------------------------------------------------- one strategy a call, and still over the limit
def test_until_fit_one_pass_tries_strategy_after_strategy_until_the_target_is_met() -> None:
    memory = AutoContextMemory(small(max_token=4_000), ScriptedModel("In short."))
    memory.add_messages(day(30))
    report = memory.compress_if_needed()
    assert report.outcome == "applied"
    assert [s.name for s in report.strategies] == ["tool_runs", "large_messages_protected", "large_messages", "rounds"]
    assert memory.token_count < 4_000 * 0.75 * 0.8
    single = AutoContextMemory(small(max_token=4_000, escalation="single"), ScriptedModel("In short."))
    single.add_messages(day(30))
    assert len([s for s in single.compress_if_needed().strategies if s.applied]) == 1


def test_until_fit_measures_again_and_leaves_later_strategies_alone_once_it_fits() -> None:
    memory = AutoContextMemory(small(max_token=30_000, token_ratio=0.1), ScriptedModel([], strict_script=True))
    memory.add_messages([*day(1, size=300), *day(2, size=1)])
    report = memory.compress_if_needed()
    assert [s.name for s in report.strategies] == ["tool_runs", "large_messages_protected"]
    assert report.model_calls == 0


@pytest.mark.slow
def test_last_resort_reads_are_cut_then_unread_results_keep_both_ends_and_what_tells_most() -> None:
    memory = AutoContextMemory(small(strategies=()))
    between = [f"{n} things in between" for n in range(3_000)]
    log = "\n".join(["first line", *between[:1_500], "Error: disk 77 failed", *between[1_500:], "last line"])
    memory.add_messages([user("Why does it fail?"), tool_call("read_log", {}, id="c1"), tool_result("c1", log)])
    report = memory.compress_if_needed()
    assert memory.token_count <= 2_000
    assert [s.name for s in report.strategies if s.applied] == ["last_resort_unread"]
    shown = memory.messages[2].tool_results[0].text
    assert shown.startswith("first line\n")
    assert "\nError: disk 77 failed\n" in shown
    assert re.search(r"\nlast line\n\[m3: [\d,]+ of [\d,]+ characters left out\]\Z", shown)
    assert memory.reload("m3")[-1].tool_results[0].text == log
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


@pytest.mark.parametrize(
    "said", ["I found that the tax is 19 percent. ", "Die Steuer beträgt 19 Prozent. ", "税率为百分之十九。"]
)
def test_words_of_the_agent_that_the_last_resort_cuts_end_with_the_number_of_the_message(said: str) -> None:
    memory = AutoContextMemory(small(strategies=()))
    memory.add_messages([user("Why?"), assistant(said * 800), user("And now?")])
    memory.compress_if_needed(force=True)
    assert memory.token_count <= 2_000
    assert memory.messages[1].text.endswith("... [the rest: m2]")
    assert memory.reload("m2") == [memory.get_original_memory_msgs()[1]]


def test_row_32_notes_are_the_first_to_yield_and_what_the_user_said_stays_whole() -> None:
    memory = AutoContextMemory(small(strategies=(), ledger_ratio=0.4))
    first = "Cancel the two open orders, but ask me before you refund more than 50 dollars. " * 3
    memory.add_messages([user(first)])
    for n in range(40):
        memory.add_messages([assistant(f"Order {n} has the number #W48363{n}, shipped by courier {n}00-7. " * 2)])
        memory.add_messages([user(f"Please check order number {n + 1} too, and tell me where it is.")])
    memory.add_messages([assistant("All of them."), user("Go on, all six of them.")])
    memory.compress_if_needed(force=True)
    (standing,) = notes(memory)
    before = memory.counter.count(standing)
    uses = tuple(ToolUseBlock(id=f"c{n}", name="get_order", input={"order": n}) for n in range(3))
    results = [tool_result(f"c{n}", f"order {n}: paid, " * 90) for n in range(3)]
    memory.add_messages([Msg(role="assistant", content=uses), *results])
    report = memory.compress_if_needed()
    assert memory.token_count <= 2_000
    assert memory.messages[0].text == first
    (standing,) = notes(memory)
    assert memory.counter.count(standing) < before
    assert {s.name for s in report.strategies if s.applied} == {"fold"}
    assert list(memory.messages[-3:]) == results


def after_a_fold(said: Callable[[int], str], **fields: Any) -> tuple[Msg, list[str]]:
    """The note of the oldest of 30 rounds, and what the user said in them."""
    memory = AutoContextMemory(small(**{"msg_threshold": 40, "strategies": (), "ledger_ratio": 0.25, **fields}))
    for n in range(30):
        memory.add_messages([user(said(n)), assistant(f"Answer {n}. " * 10)])
    report = memory.compress_if_needed()
    assert report.outcome == "applied"
    (note,) = notes(memory)
    assert note.origin is not None
    assert note.origin.kind == "fold"
    assert unreachable(memory, memory.get_original_memory_msgs()) == []
    assert memory.messages[0].text == said(0)
    return note, [m.text for m in memory.reload(note.origin.uuid) if is_user_turn(m)]


def test_last_resort_folds_the_oldest_rounds_into_one_note_that_quotes_the_user_verbatim() -> None:
    note, folded = after_a_fold(lambda n: f"What does module_{n}.py compute?")
    assert len(folded) > 12
    assert all(text in note.text for text in folded)


def test_what_the_user_said_is_left_out_oldest_first_when_room_is_short() -> None:
    # Of different lengths, so that an older one would often fit where a newer one does not.
    fields = {"user_message_budget": 70}
    note, folded = after_a_fold(lambda n: f"What is in {n:02}{' and again' * (n % 5 * 4)}, the file?", **fields)
    quoted = [text in note.text for text in folded]
    assert any(quoted)
    assert quoted == sorted(quoted)
    assert not all(quoted)


def test_what_the_user_has_ruled_out_stays_longest_of_all() -> None:
    rule = "Never touch billing.py, only /srv/shop may change."
    note, folded = after_a_fold(lambda n: rule if n == 1 else f"What is in {n:02}{' and again' * 20}, the file?")
    assert rule in note.text
    assert not all(text in note.text for text in folded)


def test_a_fold_that_needs_everything_still_leaves_the_last_message() -> None:
    memory = AutoContextMemory(small(strategies=()))
    memory.add_messages([assistant(f"Step {n} of the count.") for n in range(30)])
    memory.add_message(last := assistant("The result of the count is this. " * 180))
    report = memory.compress_if_needed()
    assert report.messages_after == 2
    assert memory.messages[-1] == last


@pytest.mark.sampled
@pytest.mark.parametrize("part", ["system", "pinned", "system text and tool schemas"])
def test_impossible_says_which_fixed_part_is_too_large_and_shows_the_rest_as_small_as_it_got(part: str) -> None:
    giant = "All of this matters. " * 1_000
    fixed = {
        "system": system(giant, id="giant"),
        "pinned": assistant(giant, id="giant", metadata={"pinned": True}),
    }.get(part)
    memory = AutoContextMemory(small(), ScriptedModel("In short."))
    memory.add_messages(day(10))
    if fixed is None:
        memory.set_overhead(giant, {"name": "search"})
    else:
        memory.add_message(fixed)
    report = memory.compress_if_needed()
    assert report.outcome == "impossible"
    named = "system text and tool schemas" if fixed is None else f"the {fixed.role} message giant"
    assert named in report.reason
    assert report.tokens_after < report.tokens_before
    assert fixed is None or fixed in memory.messages
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize(("window", "share"), [(600, 0.6), (800, 0.75), (1_000, 0.8)])
def test_beside_a_system_text_that_takes_most_of_a_small_window_it_fits(window: int, share: float) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **ESTIMATE))
    memory.add_message(fixed := system("rule " * int(window * share * 4 / 5)))
    for n in range(20):
        asked, told = user(f"do {n} " * 30), assistant("So.")
        memory.add_messages([asked, *tool_exchange("get", {"n": n}, f"row {n} " * 50), told])
    memory.get_messages()
    assert memory.token_count <= window
    assert memory.messages[0] == fixed
    assert_valid_chat(memory.messages)


@pytest.mark.parametrize(("share", "empty"), [(0.95, True), (1.05, False)])
def test_notes_are_emptied_to_fit_and_not_where_nothing_would_fit(share: float, empty: bool) -> None:
    window = 1_000
    memory = AutoContextMemory(AutoContextConfig.for_window(window, **ESTIMATE))
    memory.set_overhead("rule " * int(window * share * 4 / 5))
    for n in range(20):
        read = tool_exchange("get", {"n": n}, f"row {n} " * 50)
        memory.add_messages([user(f"Never do {n} again."), *read, assistant("So.")])
    memory.get_messages()
    assert ("Never do 9 again." in notes(memory)[0].text) is not empty


def test_strict_fit_raises_where_the_context_cannot_fit_and_keeps_what_was_won() -> None:
    memory = AutoContextMemory(small(strict_fit=True), ScriptedModel("In short."))
    memory.add_messages(day(10))
    memory.add_message(user("All of this matters. " * 1_000, id="giant", metadata={"pinned": True}))
    before = memory.token_count
    with pytest.raises(ContextOverflowError, match="the user message giant"):
        memory.get_messages()
    assert memory.token_count < before
    assert unreachable(memory, memory.get_original_memory_msgs()) == []
    fits = AutoContextMemory(small(strict_fit=True), ScriptedModel("In short."))
    fits.add_messages(day(10))
    fits.get_messages()


# ----------------------------------------------------------------- AgentScope-Java's configuration in another window
def talk(size: int) -> Iterator[Msg]:
    """A talk with tools, without an end; results of up to `size` lines."""
    for n in count():
        yield user(f"Does point {n} of the plan touch module_{n % 37}.py?")
        lines = f"price_{n} = net * 1.{n}\n" * (1 + n * 7 % size)
        yield from tool_exchange("read_file", {"path": f"src/module_{n % 37}.py"}, lines, id=f"c{n}")
        yield assistant(f"It does; ticket SHOP-{4000 + n} explains why.")


@cache
def outcomes(config: AutoContextConfig, size: int, messages: int) -> Counter[str]:
    """Passes by their outcomes over so many messages, where the view is read at each turn of the model."""
    memory = AutoContextMemory(config)
    reports = with_reports(memory)
    for m in islice(talk(size), messages):
        memory.add_message(m)
        if m.role != "assistant":
            memory.get_messages()
    return Counter(report.outcome for report in reports)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "size", "messages"),
    [
        (4_000, 20, 400),
        (16_000, 100, 600),
        (16_000, 5, 2_000),
        (64_000, 400, 1_000),
    ],
)
@pytest.mark.parametrize("more", [{}, {"last_keep": 10}, {"token_ratio": 0.9}], ids=str)
def test_with_the_five_strategies_another_window_is_kept_too_and_not_by_a_pass_a_turn(
    window: int, size: int, messages: int, more: dict[str, Any]
) -> None:
    counter = {"token_counter": "bytes4"}
    recommended = outcomes(AutoContextConfig.for_window(window, **counter), size, messages)
    config = AutoContextConfig(max_token=window, **counter, **more)
    passes = outcomes(config, size, messages)
    room = int(config.msg_threshold * (1 - config.target_ratio))
    assert recommended.total() > 2
    assert passes.total() <= max(2 * recommended.total(), messages // room)
    assert passes["impossible"] == 0
    assert passes["partly"] <= passes.total() // 10


LOG = "".join(f"10:{n % 60:02d} step {n} compiled in {n * 7 % 900} ms\n" for n in range(8_000))
ERROR = "10:59 ERROR linker: undefined symbol foo_bar"


@pytest.mark.sampled
@pytest.mark.parametrize("window", [2_000, 16_000])
def test_row_31_a_paste_larger_than_the_window_is_shown_in_part(window: int) -> None:
    paste = f"Here is the log of last night:\n{LOG}{ERROR}\n{LOG}\nFix the linker error, but do not touch vendor/."
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    memory.add_messages([user("Please look at our build."), assistant("Sure."), user(paste)])
    shown = memory.get_messages()
    assert memory.token_count <= window
    (part,) = [m for m in shown if "linker error" in m.text and m.role == "user"]
    assert part.text.startswith("Here is the log of last night:\n10:00 step 0 compiled")
    assert f"\n{ERROR}\n" in part.text
    assert "Fix the linker error, but do not touch vendor/." in part.text
    assert re.search(r"\[m3: [\d,]+ of [\d,]+ characters left out\]", part.text)
    assert memory.numbered("m3")[3].text == paste
    assert memory.get_original_memory_msgs()[2].text == paste
    assert memory.token_count > window * 0.8
    memory.add_messages([assistant("I see."), user("Go on.")])
    shown = memory.get_messages()
    assert memory.token_count <= window
    assert any("Fix the linker error, but do not touch vendor/." in m.text for m in shown)


def test_the_java_preset_never_cuts_a_paste() -> None:
    memory = AutoContextMemory(AutoContextConfig.agentscope_java(max_token=2_000), ScriptedModel("In short."))
    memory.add_message(user(LOG))
    memory.compress_if_needed(force=True)
    assert memory.messages[0].text == LOG


@given(st.text(alphabet="aE \nERROR:x€\u0301", max_size=3_000), st.integers(1_000, 2_000))
def test_any_paste_is_cut_to_fit(text: str, repeats: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000))
    memory.add_message(user(f"{text} first words " * repeats))
    memory.get_messages()
    assert memory.token_count <= 2_000


@given(valid_histories(max_moves=14), st.sampled_from(("In short.", "", RuntimeError)))
def test_after_a_pass_it_fits_or_the_report_is_impossible(history: list[Msg], reply: str) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_500, model_retries=0), ScriptedModel(reply))
    memory.add_messages(history)
    report = memory.compress_if_needed(force=True)
    assert (memory.token_count > 1_500) == (report.outcome == "impossible")


# ------------------------------------------------------------- the count trigger stays true; every turn compresses
@pytest.mark.slow
def test_thousands_of_adds_take_a_bounded_number_of_passes_and_model_calls() -> None:
    adds = 6_000
    model = ScriptedModel("In short.")
    config = small(msg_threshold=200, max_token=1_000_000, **ESTIMATE)
    memory = AutoContextMemory(config, model)
    for n in range(adds // 4):
        memory.add_messages(task(n, size=1))
        memory.get_messages()
    assert memory.usage.passes <= adds / (200 * 0.2) + 1
    purposes = Counter(r.purpose for r in model.requests)
    assert set(purposes) == {"round_summary", "fold"}
    assert purposes["round_summary"] <= adds // 4
    assert purposes["fold"] <= memory.usage.passes
    assert len(memory.messages) < 200
    assert len(memory.get_original_memory_msgs()) == adds


@pytest.mark.slow
def test_folding_keeps_one_note_however_long_the_conversation_gets() -> None:
    memory = AutoContextMemory(small(msg_threshold=40, max_token=50_000), ScriptedModel("In short."))
    reports = with_reports(memory)
    for n in range(200):
        memory.add_messages([user(f"Question {n}?"), assistant(f"Answer {n}, " + "which takes a little longer. " * 10)])
        memory.get_messages()
        assert len([m for m in memory.messages if m.origin and m.origin.kind == "fold"]) <= 1
    assert {r.outcome for r in reports} == {"applied"}
    assert len(reports) <= 400 / 8 + 1


def fixed_load(model: ScriptedModel, **fields: object) -> AutoContextMemory:
    """A memory whose pinned messages alone are over the trigger, but not over the window: no pass can help."""
    memory = AutoContextMemory(small(**fields), model)
    memory.add_messages(user(f"Rule {n}: " + "never do that. " * 40, metadata={"pinned": True}) for n in range(10))
    assert 1_500 < memory.token_count < 1_800
    return memory


def test_after_a_pass_that_misses_the_target_none_runs_until_the_view_has_grown_by_a_tenth() -> None:
    memory = fixed_load(ScriptedModel("In short."))
    reports = with_reports(memory)
    memory.get_messages()
    assert [r.outcome for r in reports] == ["partly"]
    at = memory.token_count
    while len(reports) == 1:
        memory.add_message(user("And one more word?"))
        memory.get_messages()
    assert reports[1].tokens_before >= at + 150
    assert reports[1].tokens_before - at < 150 + 20
    assert memory.compress_if_needed().outcome == "not_needed"
    assert "hardly grown" in memory.compress_if_needed().reason
    assert memory.compress_if_needed(force=True).outcome == "partly"


def test_over_max_token_a_pass_does_not_wait_for_growth() -> None:
    memory = AutoContextMemory(small(), ScriptedModel("In short."))
    memory.add_message(system("All of this matters. " * 1_000))
    reports = with_reports(memory)
    for _ in range(3):
        memory.get_messages()
    assert [r.outcome for r in reports] == ["impossible"] * 3


def test_two_fruitless_passes_open_a_breaker_that_is_reported_and_leaves_the_model_alone() -> None:
    model = ScriptedModel("a reply that is far longer than what it should condense " * 50)
    memory = AutoContextMemory(rounds_only(extractive_fallback=False, max_token=5_000), model)
    reports = with_reports(memory)
    memory.add_messages(day(8))
    for _ in range(4):
        memory.compress_if_needed(force=True)
    assert [r.outcome for r in reports] == ["failed", "failed", "partly", "partly"]
    assert [r.model_calls for r in reports] == [7, 7, 0, 0]
    assert all("the breaker is open" in r.reason and "breaker" in r.strategies[0].reason for r in reports[2:])


def test_the_open_breaker_is_reported_also_where_the_context_cannot_fit() -> None:
    memory = AutoContextMemory(rounds_only(extractive_fallback=False, max_token=1_000), ScriptedModel(RuntimeError))
    memory.add_messages(day(8))
    reasons = [memory.compress_if_needed().reason for _ in range(3)]
    assert ["the breaker is open" in reason for reason in reasons] == [False, False, True]
    assert ["the model gave no usable answer" in reason for reason in reasons] == [True, True, False]
    assert all("are more than max_token (1000)" in reason for reason in reasons)


class Mixed:
    """Replaces the first round's answer with a fixed note, and asks the model about the second's."""

    name = "mixed"

    def propose(self, view: View) -> list[Proposal]:
        question = Question("round_summary", ("some text " * 40,), 50, (100,))
        places = [i for i, m in enumerate(view) if m.role == "assistant" and not m.tool_uses and not m.origin]
        spans = [view.span(i, i + 1) for i in places[:2]]
        return [Proposal(span, text) for span, text in zip(spans, ("", question), strict=False)]


def test_with_the_breaker_open_what_needs_no_model_goes_on() -> None:
    config = rounds_only(extractive_fallback=False, max_token=5_000, strategies=("rounds", Mixed()))
    memory = AutoContextMemory(config, ScriptedModel(RuntimeError))
    answer = assistant("It computes the price. " * 20)
    memory.add_messages(answer if m.role == "assistant" and m.text else m for m in day(8))
    reports = [memory.compress_if_needed(force=True) for _ in range(4)]
    assert "breaker" in reports[-1].strategies[0].reason
    assert [r.strategies[1].applied for r in reports] == [True] * 4


def test_passes_that_cannot_help_are_few_also_where_a_few_messages_come_and_go() -> None:
    memory = AutoContextMemory(AutoContextConfig(max_token=4_000, last_keep=0), ScriptedModel("In short."))
    reports = with_reports(memory)
    memory.add_message(system(" ".join(f"w{i * 7919 % 9973}" for i in range(1_150))))
    for i in range(200):
        memory.add_messages([user(f"q{i}"), assistant(f"a{i}")])
        memory.get_messages()
    growth = [b.tokens_before - a.tokens_after for a, b in pairwise(reports) if b.tokens_before <= 4_000]
    assert growth
    assert min(growth) >= memory.config.token_trigger // 10


def test_the_breaker_closes_when_a_pass_was_worth_it_or_much_is_new() -> None:
    model = ScriptedModel([RuntimeError] * 14 + ["In short."])
    memory = AutoContextMemory(rounds_only(extractive_fallback=False, max_token=5_000), model)
    memory.add_messages(day(8))
    for _ in range(3):
        memory.compress_if_needed(force=True)
    assert len(model.requests) == 14
    memory.add_messages(day(8))
    assert memory.compress_if_needed(force=True).model_calls == 15
    assert "breaker" not in memory.compress_if_needed(force=True).reason


# ------------------------------------------------------------------------- a skipped strategy is reported as applied
def test_a_strategy_reports_the_tokens_it_saved_and_a_skipped_one_says_why() -> None:
    memory = AutoContextMemory(small(max_token=4_000), ScriptedModel("In short."))
    memory.add_messages(day(30))
    report = memory.compress_if_needed()
    assert sum(s.tokens_saved for s in report.strategies) == report.tokens_before - report.tokens_after
    for strategy in report.strategies:
        assert (strategy.tokens_saved > 0) == strategy.applied
        assert strategy.reason
    assert any(not s.applied and s.reason == "nothing to do" for s in report.strategies)
