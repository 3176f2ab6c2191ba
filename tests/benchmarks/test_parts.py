"""The parts of the benchmarks that have no test of their own elsewhere, on tiny data."""

import cache
import facts
import injection
import optimiser
import pruning
import pytest
import turn

pytestmark = pytest.mark.repo


@pytest.mark.slow
def test_a_pruning_case_as_a_row():
    found = pruning.case_row(pruned := pruning.pruned("x", pruning.chat(6, 3_000), "1 to 2", 10_000))
    assert (found.retrievable, found.invalid) == (100, 0)
    assert found.value == pruned["chars_after"] < pruned["chars_before"]
    assert found.more["the original"] == "1 to 2"


def test_both_optimisers_as_rows():
    ours, theirs = optimiser.compared("x", optimiser.coding(4, result_chars=600))
    row, beside = optimiser.case_row(ours), optimiser.case_row(theirs, beside=ours)
    assert (row.retrievable, row.invalid) == (100, 0)
    assert beside.retrievable is None  # it makes no promise that could be broken
    assert beside.more["retrievable"] != "100 %"
    assert beside.ratio == beside.value / row.value


@pytest.mark.slow
def test_saving_at_each_turn_keeps_everything():
    [time, disk] = optimiser.saved(125)
    assert time.retrievable == disk.retrievable == 100
    assert disk.ratio < 1


def test_a_conversation_out_of_the_cache():
    [row] = cache.conversation()
    assert (row.value, row.retrievable, row.invalid) == (0, 100, 0)


def test_pairs_of_arguments_are_judged():
    [row] = cache.matrix()
    assert (row.value, row.retrievable) == (0, 100)


def test_facts_left_out_of_a_block_are_found():
    rows = list(facts.kept())
    assert rows
    assert {(row.retrievable, row.invalid) for row in rows} == {(100, 0)}


def test_an_injected_block_leaves_nothing_behind():
    [row] = injection.reachable()
    assert (row.retrievable, row.invalid) == (100, 0)
    assert row.value <= row.goal


@pytest.mark.slow
def test_what_a_turn_costs_without_peers():
    rows = [*turn.checking((20, 40))]
    assert [row.name for row in rows] == ["check at 20 messages: autocontext", "check at 40 messages: autocontext"]
    assert {(row.retrievable, row.invalid) for row in rows} == {(100, 0)}
    assert list(turn.growing(rows)) == []
    assert len(turn.messages(37)) == 37


async def _nothing():
    return None


def test_an_async_check_is_timed_in_one_loop():
    assert turn.each_of(_nothing, 10) >= 0
