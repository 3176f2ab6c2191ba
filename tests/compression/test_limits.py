"""When a pass is due, when it rests, and when the model is left alone: at each boundary."""

from typing import Any

import pytest

from autocontext import AutoContextConfig, CompressionReport
from autocontext.compression.limits import Limits, Pacing, Target
from autocontext.compression.token_sum import TokenSum
from autocontext.events import Outcome
from autocontext.history.entries import Added
from autocontext.history.log import Log
from autocontext.messages import Msg

CONFIG = AutoContextConfig(max_token=1_000, msg_threshold=20, token_ratio=0.5, target_ratio=0.8)


class Characters:
    """Counts a token per character."""

    name = "characters"
    exact = True

    def count_text(self, text: str) -> int:
        return len(text)

    def count(self, msg: Msg) -> int:
        return len(msg.text)

    bound = count


def view(messages: int, tokens: int, *, fixed: int = 0) -> tuple[Log, TokenSum]:
    """A log with so many messages, of so many tokens together; `fixed`: those of the user's first message."""
    texts = ["a" * (tokens - messages + 1 - fixed), *["a"] * (messages - 1)]
    log = Log(Added(message=Msg(role="assistant", content=text)) for text in texts)
    if fixed:
        log.record(Added(message=Msg(role="user", content="a" * fixed)))
    return log, TokenSum(Characters(), log)


@pytest.mark.parametrize(("messages", "tokens", "due"), [(19, 499, False), (20, 499, True), (19, 500, True)])
def test_a_pass_is_due_at_either_trigger(messages: int, tokens: int, due: bool) -> None:
    assert Limits.of(CONFIG).reached(*view(messages, tokens)) is due


@pytest.mark.parametrize(("messages", "tokens", "met"), [(15, 399, True), (16, 399, False), (15, 400, False)])
def test_the_target_is_met_under_its_share_of_both_triggers(messages: int, tokens: int, met: bool) -> None:
    assert Target(*view(messages, tokens), CONFIG).met() is met


@pytest.mark.parametrize(("fixed", "target"), [(1, 400), (100, 420), (200, 440), (250, 450), (400, 450)])
def test_the_target_leaves_a_share_of_what_the_first_message_leaves_and_half_at_least(fixed: int, target: int) -> None:
    assert Target(*view(4, target - 1, fixed=fixed), CONFIG).met()
    assert not Target(*view(4, target, fixed=fixed), CONFIG).met()


def test_it_leaves_less_beside_results_that_the_model_has_not_read() -> None:
    log, _ = view(4, 300)
    for size in (40, 60):
        log.record(Added(message=Msg(role="tool", content="a" * size)))
    assert Target(log, TokenSum(Characters(), log), CONFIG).excess()[1] == 400 - (400 + 100 // 5)
    log.record(Added(message=Msg(role="assistant", content="Read.")))
    assert Target(log, TokenSum(Characters(), log), CONFIG).excess()[1] == 405 - 400


def test_a_window_without_room_for_a_trigger_has_a_target() -> None:
    config = AutoContextConfig(max_token=1, token_ratio=0.5)
    assert Target(*view(3, 9, fixed=2), config).excess()[1] == 9


def test_system_text_schemas_and_pins_count_as_what_stays() -> None:
    log, tokens = view(4, 300)
    log.record(Added(message=Msg(role="system", content="a" * 50)))
    log.record(Added(message=Msg(role="assistant", content="a" * 40, metadata={"pinned": True})))
    tokens = TokenSum(Characters(), log)
    tokens.set_overhead(("a" * 30,))
    assert Target(log, tokens, CONFIG).excess()[1] == 300 + 50 + 40 + 30 - (400 + 120 // 5)


@pytest.mark.parametrize(("messages", "more"), [(15, False), (16, True), (17, True)])
def test_messages_are_over_the_target_as_long_as_it_is_not_met(messages: int, more: bool) -> None:
    for share in (0.8, 0.77, 0.78):  # 16, 15.4 and 15.6 messages
        budget = Target(*view(messages, 100), CONFIG.model_copy(update={"target_ratio": share}))
        assert (budget.excess()[0] > 0) is more is not budget.met()


@pytest.mark.parametrize(("tokens", "over", "over_window"), [(1_000, 0, 0), (1_001, 501, 31)])
def test_a_view_of_the_window_s_size_is_not_over_it(tokens: int, over: int, over_window: int) -> None:
    budget = Target(*view(3, tokens), CONFIG)
    assert (budget.overflow(), budget.over_window()) == (over, over_window)


@pytest.mark.parametrize(
    ("messages", "tokens", "rests"), [(21, 449, True), (22, 449, False), (21, 450, False), (21, 1_001, False)]
)
def test_a_rest_ends_with_a_growth_of_a_tenth_of_a_trigger(messages: int, tokens: int, rests: bool) -> None:
    assert Pacing(messages=20, tokens=400).should_wait(messages, view(messages, tokens)[1], CONFIG) is rests


@pytest.mark.parametrize(("messages", "rests"), [(19, True), (20, False)])
def test_more_messages_end_a_rest_only_where_so_many_call_for_a_pass(messages: int, rests: bool) -> None:
    assert Pacing(messages=6, tokens=400).should_wait(messages, view(messages, 449)[1], CONFIG) is rests


@pytest.mark.parametrize(
    ("fruitless", "messages", "tokens", "is_open"),
    [(2, 124, 1_249, True), (1, 124, 1_249, False), (2, 125, 1_249, False), (2, 124, 1_250, False)],
)
def test_the_breaker_closes_with_a_growth_of_a_quarter(
    fruitless: int, messages: int, tokens: int, is_open: bool
) -> None:
    assert Pacing(fruitless=fruitless, opened=(100, 1_000)).breaker_open(messages, tokens, CONFIG) is is_open


def test_fewer_messages_than_call_for_a_pass_say_nothing() -> None:
    assert Pacing(fruitless=2, opened=(6, 1_000)).breaker_open(19, 1_010, CONFIG)
    few = report("partly", (6, 990)).model_copy(update={"messages_before": 16})
    assert Pacing().after(few, CONFIG).fruitless == 1


@pytest.mark.parametrize(
    ("after", "fruitless"),
    [((100, 951), 1), ((100, 950), 0), ((95, 1_000), 1), ((94, 1_000), 0)],
    ids=["4.9 % of tokens", "5 % of tokens", "5 % of messages", "6 % of messages"],
)
def test_a_pass_that_saves_less_than_a_twentieth_is_fruitless(after: tuple[int, int], fruitless: int) -> None:
    pacing = Pacing().after(report("partly", after), CONFIG)
    assert (pacing.messages, pacing.tokens, pacing.fruitless) == (*after, fruitless)
    assert Pacing(fruitless=3).after(report("applied", after), CONFIG) == Pacing()


@pytest.mark.parametrize("outcome", ["not_needed", "busy"])
def test_a_pass_that_did_nothing_teaches_nothing(outcome: Outcome) -> None:
    pacing = Pacing(messages=3, tokens=5, fruitless=1)
    assert pacing.after(report(outcome, (100, 1_000)), CONFIG) is pacing


def report(outcome: Any, after: tuple[int, int]) -> CompressionReport:
    """A pass over 100 messages of 1,000 tokens together, and what it left."""
    return CompressionReport(
        outcome=outcome, messages_before=100, tokens_before=1_000, messages_after=after[0], tokens_after=after[1]
    )
