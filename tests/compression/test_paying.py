"""When a pass pays, and its cost: held against a naive replay that bills every request message by message."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.adapters.openai_chat import to_openai
from autocontext.errors import ConfigError
from autocontext.prices import RATIOS, Prices
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, assert_valid_chat, assistant, tool_exchange, user
from autocontext.tokens import get_counter
from tests.conversations import valid_histories

COUNTER = get_counter("bytes4")
WINDOW = 4_000
PAID = Prices(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)
TTL = 300.0


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def config(**fields: Any) -> AutoContextConfig:
    return AutoContextConfig.for_window(WINDOW, **{"token_counter": "bytes4", "target_ratio": 0.5, **fields})


def reading(n: int, size: int) -> list[Msg]:
    """An exchange whose result has about so many characters."""
    return tool_exchange("read", {"path": f"part_{n}.py"}, f"line {n} of it\n" * (size // 15))


def tokens(messages: Sequence[Msg]) -> int:
    return sum(map(COUNTER.count, messages))


def shared(before: Sequence[Msg], now: Sequence[Msg]) -> int:
    """Tokens of the messages that two prompts begin with alike."""
    same = 0
    for a, b in zip(before, now, strict=False):
        if a != b:
            break
        same += 1
    return tokens(now[:same])


@dataclass
class Replay:
    """An agent's requests, each billed by what it shares with the one before."""

    memory: AutoContextMemory
    prices: Prices
    sent: list[Msg] = field(default_factory=list)
    bill: float = 0.0
    reports: list[CompressionReport] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    warm: bool = True

    def __post_init__(self) -> None:
        self.memory.on_compression(self.reports.append)

    def costs(self, prompt: Sequence[Msg]) -> float:
        cached = shared(self.sent, prompt) if self.warm else 0
        return self.prices.request(cached, tokens(prompt) - cached)

    def request(self) -> tuple[list[Msg], list[Msg]]:
        """Ask for the context; what it was before, and what it is."""
        before = self.memory.messages
        now = self.memory.get_messages()
        self.bill += self.costs(now)
        self.sizes.append(tokens(now))
        self.sent = now
        return before, now

    def turns(self, n: int, size: int = 400) -> None:
        """An exchange of about so many characters, and a request, n times."""
        for _ in range(n):
            self.memory.add_messages(reading(len(self.sizes), size))
            self.request()


def replay(clock: Callable[[], float] | None = None, model: ScriptedModel | None = None, **fields: Any) -> Replay:
    prices = fields.get("prices") or RATIOS
    memory = AutoContextMemory(config(**fields), model, **({"clock": clock} if clock else {}))
    memory.add_message(user("Please read every part, and tell me what each is for. Do not change anything."))
    return Replay(memory, prices)


# ------------------------------------------------------------------------------------------------- what a pass cost
SIZES = st.lists(st.integers(20, 4_000), min_size=5, max_size=25)
PRICES = st.builds(
    lambda price, cached, write, paid: Prices(
        input=price, cached_input=price * cached, cache_write=price * write, output=paid
    ),
    st.floats(0.1, 20),
    st.just(0.0) | st.floats(0.01, 1),
    st.floats(0, 3),
    st.floats(0, 80),
)


@pytest.mark.slow
@given(sizes=SIZES, prices=st.none() | PRICES)
def test_a_report_s_figures_are_those_of_a_naive_replay(sizes: list[int], prices: Prices | None) -> None:
    run = replay(prices=prices)
    for n, size in enumerate(sizes):
        run.memory.add_messages(reading(n, size))
        sent, passes = run.sent, len(run.reports)
        before, now = run.request()
        if len(run.reports) == passes:
            assert now == before
            continue
        report = run.reports[-1]
        kept = shared(sent, now)
        extra = run.prices.request(kept, tokens(now) - kept)
        kept_before = shared(sent, before)
        extra -= run.prices.request(kept_before, tokens(before) - kept_before)
        saving = run.prices.request(tokens(before) - tokens(now), 0)
        assert report.tokens_saved == tokens(before) - tokens(now)
        assert report.tokens_uncached == tokens(now) - kept
        turn = report.break_even_turn
        if turn is None:
            assert saving <= 0 < extra
        else:
            assert turn * saving >= extra - 1e-12
            assert turn == 0 or (turn - 1) * saving < extra
        if prices is None:
            assert (report.extra_cost, report.saved_per_turn) == (None, None)
        else:
            assert report.extra_cost == pytest.approx(extra)
            assert report.saved_per_turn == pytest.approx(saving)


@pytest.mark.slow
def test_after_the_break_even_turn_the_pass_has_cost_less_than_none() -> None:
    run, none = replay(prices=PAID, target_ratio=0.7), replay(max_token=10**9, msg_threshold=10**9)
    none.prices = PAID
    while not run.reports:
        run.turns(1, 1_500)
        none.turns(1, 1_500)
    turn = run.reports[0].break_even_turn
    assert turn is not None
    assert turn > 1
    for _ in range(turn - 1):
        run.turns(1, 60)
        none.turns(1, 60)
    assert run.bill > none.bill
    run.turns(2, 60)
    none.turns(2, 60)
    assert len(run.reports) == 1  # a second pass would have a price of its own
    assert run.bill < none.bill


def test_what_the_model_s_notes_cost_is_part_of_what_the_pass_costs() -> None:
    reports = [
        replay(model=model, prices=PAID, strategies=()) for model in (None, ScriptedModel("In short: all is read."))
    ]
    for run in reports:
        run.turns(15, 1_500)
    free, paid = (run.reports[0] for run in reports)
    assert (free.cost, paid.tokens_before) == (0.0, free.tokens_before)
    assert paid.model_calls
    assert paid.cost == PAID.summaries(paid.usage) > 0
    without = PAID.request(paid.tokens_uncached - free.tokens_uncached, 0)  # a note of another size
    assert paid.extra_cost == pytest.approx((free.extra_cost or 0) + paid.cost + without * 12.5, rel=0.01)


# ------------------------------------------------------------------------------------------------------ when it pays
def test_without_prices_the_window_is_used_to_its_end() -> None:
    run = replay()
    run.turns(40)
    assert all(r.tokens_before >= run.memory.config.token_trigger for r in run.reports)
    assert max(run.sizes) > 0.9 * WINDOW


@pytest.mark.slow
@pytest.mark.parametrize("prices", [Prices(input=3.0, cached_input=0.0), Prices(input=0.0)], ids=["cached", "all"])
def test_where_cached_input_is_free_no_pass_is_made_before_it_must(prices: Prices) -> None:
    run, without = replay(prices=prices), replay()
    run.turns(40)
    without.turns(40)
    assert run.sizes == without.sizes


def test_without_a_cache_a_pass_is_made_as_soon_as_the_view_is_worth_one() -> None:
    run = replay(prices=Prices(input=3.0, cached_input=3.0, cache_write=3.0))
    run.turns(40)
    target = run.memory.config.token_trigger * run.memory.config.target_ratio
    # A tenth of the trigger over the target, and one exchange more.
    assert max(run.sizes) <= target + 0.1 * run.memory.config.token_trigger + 150


@pytest.mark.slow
@pytest.mark.parametrize("size", [150, 400, 1_500])
def test_prices_never_make_a_steady_conversation_dearer(size: int) -> None:
    run, late = replay(prices=PAID), replay()
    late.prices = PAID
    run.turns(max(20, 20_000 // size), size)
    late.turns(max(20, 20_000 // size), size)
    assert run.reports
    assert run.bill <= late.bill * 1.01


@pytest.mark.slow
def test_a_slow_conversation_is_compressed_earlier_and_costs_less() -> None:
    run, late = replay(prices=PAID), replay()
    late.prices = PAID
    run.turns(200, 60)
    late.turns(200, 60)
    assert max(run.sizes) < max(late.sizes)
    assert run.bill < 0.97 * late.bill


@pytest.mark.slow
def test_a_pass_below_the_limits_is_made_once_the_rent_has_reached_its_price() -> None:
    run = replay(prices=PAID)
    target = int(run.memory.config.token_trigger * run.memory.config.target_ratio)
    rent, early = 0.0, 0
    for _ in range(200):
        paid, passes = rent, len(run.reports)
        run.turns(1, 100)
        rent += PAID.request(max(0, run.sizes[-1] - target), 0)
        if len(run.reports) > passes:
            report = run.reports[-1]
            if report.tokens_before < run.memory.config.token_trigger:
                early += 1
                assert report.extra_cost is not None
                # The price was reckoned before the pass, for a view of the target's size.
                assert paid >= 0.8 * report.extra_cost
            rent = PAID.request(max(0, run.sizes[-1] - target), 0)
    assert early > 1


@pytest.mark.slow
def test_asking_twice_is_one_request() -> None:
    once, often = replay(prices=PAID), replay(prices=PAID)
    for _ in range(100):
        once.turns(1, 100)
        often.turns(1, 100)
        for _ in range(5):
            often.memory.get_messages()
    assert once.sizes == often.sizes


def test_a_pass_that_is_asked_for_by_name_knows_the_prices_too() -> None:
    run = replay(prices=PAID)
    passes = 0
    for n in range(100):
        run.memory.add_messages(reading(n, 100))
        report = run.memory.compress_if_needed()
        passes += bool(report) and report.tokens_before < run.memory.config.token_trigger
        run.memory.get_messages()
    assert passes


@pytest.mark.slow
def test_a_dear_summariser_makes_early_passes_rare() -> None:
    def early(prices: Prices) -> int:
        run = replay(model=ScriptedModel("In short: all is read."), prices=prices)
        run.turns(200, 60)
        return sum(r.tokens_before < run.memory.config.token_trigger for r in run.reports)

    dear = PAID.model_copy(update={"summary_input": 300.0, "summary_output": 1_500.0})
    assert early(PAID.model_copy(update={"summary_input": 0.1, "summary_output": 0.4})) > early(dear) == 0


@pytest.mark.slow
@given(history=valid_histories(), prices=PRICES, waits=st.lists(st.floats(0, 2 * TTL), min_size=1, max_size=8))
def test_no_price_and_no_pause_puts_a_view_over_the_window(
    history: list[Msg], prices: Prices, waits: list[float]
) -> None:
    clock = Clock()
    memory = AutoContextMemory(config(max_token=1_000, prices=prices, cache_ttl=TTL, target_ratio=0.6), clock=clock)
    reports: list[CompressionReport] = []
    memory.on_compression(reports.append)
    for n, msg in enumerate(history):
        memory.add_message(msg)
        clock.now += waits[n % len(waits)]
        if n % 3 == 2:
            memory.compress_if_idle()
        memory.get_messages()
        assert memory.token_count <= 1_000 or memory.compress_if_needed(force=True).outcome == "impossible"
    assert_valid_chat(to_openai(memory.messages))
    assert memory.get_original_memory_msgs() == history


# ------------------------------------------------------------------------------------------------- the cache expires
def half_full(clock: Clock, **fields: Any) -> Replay:
    """A view over its target, below the trigger, whose last request was just made."""
    run = replay(clock, cache_ttl=TTL, **fields)
    while run.memory.token_count < 0.7 * WINDOW:
        run.turns(1)
    assert not run.reports
    run.memory.add_message(assistant("All that is read so far is in order."))
    return run


def test_once_the_cache_has_expired_a_pass_is_made_and_pays_at_once() -> None:
    clock = Clock()
    run = half_full(clock, prices=PAID)
    run.memory.add_message(user("Go on."))
    clock.now += TTL
    run.warm = False
    before, now = run.request()
    report = run.reports[-1]
    assert report.break_even_turn == 0
    assert report.tokens_uncached == tokens(now)
    assert report.extra_cost == pytest.approx(PAID.request(0, tokens(now)) - PAID.request(0, tokens(before)))
    assert report.extra_cost < 0


def test_before_it_expires_none_is_made() -> None:
    clock = Clock()
    run = half_full(clock)
    clock.now += TTL - 1
    report = run.memory.compress_if_idle()
    assert (report.outcome, report.reason) == ("not_needed", "the provider's cache expires in 1 s")
    run.request()
    assert not run.reports


def test_a_timer_makes_the_pass_before_the_next_request() -> None:
    clock = Clock()
    run = half_full(clock)
    assert run.memory.cache_expires_in == TTL
    clock.now += run.memory.cache_expires_in
    assert run.memory.compress_if_idle()
    assert run.memory.token_count < WINDOW / 2
    again = run.memory.compress_if_idle()
    assert (again.outcome, again.reason) == (
        "not_needed",
        "the cache has expired, but the view is hardly over its target",
    )
    assert run.memory.cache_expires_in == 0  # no request was made


def test_asynchronous_code_gets_the_same() -> None:
    clocks = Clock(), Clock()
    one, other = half_full(clocks[0]), half_full(clocks[1])
    assert asyncio.run(other.memory.acompress_if_idle()).reason == one.memory.compress_if_idle().reason
    for clock in clocks:
        clock.now += TTL
    first, second = one.memory.compress_if_idle(), asyncio.run(other.memory.acompress_if_idle())
    assert first.tokens_before == second.tokens_before
    assert first.tokens_after == second.tokens_after
    assert first.break_even_turn == second.break_even_turn == 0


def test_asynchronous_requests_keep_the_cache_alive() -> None:
    clock = Clock()
    run = half_full(clock)
    clock.now += TTL - 1
    asyncio.run(run.memory.aget_messages())
    assert run.memory.cache_expires_in == TTL


def test_a_session_that_is_opened_again_goes_by_its_last_reply() -> None:
    clock, store = Clock(), InMemorySessionStore()
    memory = AutoContextMemory(config(cache_ttl=TTL), store=store, session_id="s", clock=clock)
    spoken = datetime.fromtimestamp(clock.now, UTC).isoformat()
    memory.add_messages([user("Go."), Msg(role="assistant", content="I go.", timestamp=spoken)])
    clock.now += 100
    again = AutoContextMemory(config(cache_ttl=TTL), store=store, session_id="s", clock=clock)
    assert again.cache_expires_in == pytest.approx(TTL - 100)


@pytest.fixture(params=["Asia/Shanghai", "America/New_York"])
def elsewhere(request, monkeypatch):
    """Lets the test run in another time zone."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_timestamp_without_a_zone_is_of_this_machine() -> None:
    """AgentScope writes its messages' times so."""
    clock = Clock()
    memory = AutoContextMemory(config(cache_ttl=TTL), clock=clock)
    spoken = datetime.fromtimestamp(clock.now).strftime("%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ006 (that is what is tested)
    memory.add_messages([user("Go."), Msg(role="assistant", content="I go.", timestamp=spoken)])
    assert memory.cache_expires_in == pytest.approx(TTL)


@pytest.mark.parametrize("timestamp", ["", "yesterday", "0001-01-01T00:00:00", "99999-01-01"])
def test_a_timestamp_that_is_none_means_that_nobody_knows(timestamp: str) -> None:
    memory = AutoContextMemory(config(cache_ttl=TTL), clock=Clock())
    memory.add_messages([user("Go."), Msg(role="assistant", content="I go.", timestamp=timestamp)])
    assert memory.cache_expires_in is None or memory.cache_expires_in < 0
    assert memory.compress_if_idle().outcome == "not_needed"


def test_without_a_lifetime_nothing_expires() -> None:
    memory = AutoContextMemory(config())
    memory.add_messages([user("Go."), assistant("I go.")])
    assert memory.cache_expires_in is None
    assert memory.compress_if_idle().reason == "cache_ttl is not set"


def test_a_pause_does_not_pay_for_a_summariser_that_costs_more_than_it_saves() -> None:
    dear = PAID.model_copy(update={"summary_input": 30.0, "summary_output": 150.0})
    for prices, passes in ((PAID.model_copy(update={"summary_input": 0.1, "summary_output": 0.4}), 1), (dear, 0)):
        clock = Clock()
        run = half_full(clock, model=ScriptedModel("In short: all is read."), prices=prices)
        clock.now += TTL
        assert bool(run.memory.compress_if_idle()) == passes


def test_a_pause_pays_for_a_pass_that_costs_exactly_nothing() -> None:
    clock = Clock()
    run = half_full(clock, prices=Prices(input=0.0))
    clock.now += TTL - 1
    assert not run.memory.compress_if_idle()
    clock.now += 1
    assert run.memory.compress_if_idle()


def test_what_requests_have_paid_before_a_pause_buys_no_pass_that_makes_the_next_one_dearer() -> None:
    prices = PAID.model_copy(update={"summary_input": 0.0, "summary_output": 20.0})
    clock = Clock()
    run = half_full(clock, model=ScriptedModel("In short: all is read."), prices=prices)
    run.turns(4, 20)
    run.memory.add_message(assistant("The rest is in order, too."))
    clock.now += TTL
    assert not run.memory.compress_if_idle()


# ------------------------------------------------------------------------------------------------------------ prices
@pytest.mark.parametrize(
    ("prices", "named"),
    [
        ({"input": -1}, "input"), ({"input": float("nan")}, "input"), ({"input": float("inf")}, "input"),
        ({"input": "cheap"}, "input"), ({}, "input"), ({"input": 1, "output": -1}, "output"),
        ({"input": 1, "cached_input": 2}, "cached_input"), ({"input": 1, "cached_input": -1}, "cached_input"),
        ({"input": 1, "cache_write": -1}, "cache_write"), ({"input": 1, "summary_input": -1}, "summary_input"),
        ({"input": 1, "summary_output": -1}, "summary_output"), ({"input": 1, "cached": 1}, "cached"),
    ],
)  # fmt: skip
def test_a_bad_price_is_refused_by_its_name(prices: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"prices.*\b{named}\b") as caught:
        AutoContextConfig(prices=prices)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=rf"^Prices.*\b{named}\b"):
        Prices(**prices)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "soon"])
def test_a_bad_lifetime_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigError, match=r"\bcache_ttl\b"):
        AutoContextConfig(cache_ttl=seconds)


def test_prices_that_are_not_named_are_shares_of_plain_input() -> None:
    prices = Prices(input=2.0, output=8.0)
    assert prices.request(1_000_000, 0) == pytest.approx(0.2)
    assert prices.request(0, 1_000_000) == pytest.approx(2.5)
    assert AutoContextConfig(prices={"input": 2.0, "output": 8.0}).prices == prices
    assert math.isclose(RATIOS.request(10, 10) * 1_000_000, 13.5)
