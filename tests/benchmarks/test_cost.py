"""Cost arithmetic on tiny conversations."""

import pytest
from chat import Tokens
from cost import Bill, bill, measured, row, shared_prefix
from hypothesis import given
from policies import Library
from replays import turns

from autocontext.adapters.openai_chat import to_openai
from autocontext.testing import conversation
from tests.benchmarks.talk import answer, call, result, talks, user

pytestmark = pytest.mark.repo

TALK = [user("one"), answer("two"), user("three"), answer("four")]


def test_without_compression_everything_but_what_is_new_is_cached():
    count = Tokens()
    one, two, three, _ = map(count.message, TALK)
    found = bill(TALK, "everything", 1_000, count)
    assert (found.calls, found.cached, found.fresh, found.broken) == (2, one, one + two + three, 0)
    assert found.price() == pytest.approx(0.1 * one + one + two + three)
    assert found.price(cached=1.0) == one + (one + two + three)


def test_notes_are_read_at_full_price():
    assert Bill(cached=100, fresh=20, notes=7).price(fresh=1.25) == 10 + 25 + 7


def test_a_shared_prefix_is_of_whole_messages_as_they_are_sent():
    assert shared_prefix([], TALK) == 0
    assert shared_prefix(TALK, TALK[:2]) == 2
    assert shared_prefix(TALK[:2], [dict(m) for m in TALK]) == 2
    assert shared_prefix(TALK, [TALK[0], user("two"), *TALK[2:]]) == 1
    assert shared_prefix([{**TALK[0], "id": "x"}], [{**TALK[0], "id": "y"}]) == 1
    assert shared_prefix([call(path="/a")], [call(path="/b")]) == 0


def test_truncating_at_every_call_breaks_the_prefix():
    long = [m for n in range(8) for m in (user(f"message {n} " + "word " * 100), answer())]
    cut = bill(long, "truncate", 300, Tokens())
    assert cut.broken > 0
    assert cut.over == 0
    assert bill(long, "everything", 300, Tokens()).broken == 0


@given(talks())
def test_a_bill_is_what_was_sent(messages):
    count = Tokens()
    found = bill(messages, "hysteresis 50", 600, count)
    assert found.calls == sum(m["role"] == "assistant" for m in messages)
    assert found.price(cached=1.0) == found.cached + found.fresh
    assert found.invalid == found.over == 0
    assert found.broken <= found.calls


def test_rows_stand_beside_sending_everything():
    records = [{"messages": TALK}, {"messages": [user("go"), call(), result("x " * 500), answer()]}]
    everything, ours = measured(records, ["autocontext"], [2_000])
    assert (everything["cost"], everything["median"], everything["goal"]) == (1.0, 1.0, "")
    assert everything["calls"] == ours["calls"] == 4
    assert ours["cost"] == pytest.approx(1.0)  # nothing to compress here
    assert (ours["retrievable"], ours["invalid"], ours["notes"]) == (100.0, 0, 0)


def test_ratios_are_of_sums_and_the_median_of_ratios():
    without = [Bill(fresh=1_000, calls=1), Bill(fresh=10, calls=1), Bill(fresh=10, calls=1)]
    ours = [Bill(cached=1_000, calls=1), Bill(fresh=10, calls=1), Bill(fresh=20, calls=1, notes=10)]
    found = row("autocontext", 16_000, ours, without)
    assert found["cost"] == pytest.approx((100 + 10 + 30) / 1_020)
    assert found["without_cache"] == pytest.approx((1_000 + 10 + 30) / 1_020)
    assert found["median"] == 1.0
    assert found["goal"] == "0.22"


@pytest.mark.parametrize("paid", [True, False])
def test_only_a_paid_model_costs_what_it_reads(paid):
    talk = to_openai(conversation(rounds=30, tools_per_round=3, chars=300))
    policy = Library(4_000, Tokens(), paid=paid, strategies=("rounds",))
    for _, new in turns(talk):
        policy.step(new)
    assert policy.memory.get_compression_events()
    assert (policy.note_tokens > 0) is paid
