"""A failure at every model call, every store write and every await of a conversation with several passes."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from autocontext import AutoContextMemory, Msg
from tests.faults.script import MESSAGES, Fault, FaultyStore, check, model, opened, stepped, views_on_the_way

Turn = Callable[[AutoContextMemory], list[Msg]]


def in_loop(memory: AutoContextMemory) -> list[Msg]:
    return asyncio.run(memory.aget_messages())


DRIVERS: dict[str, Turn] = {"sync": AutoContextMemory.get_messages, "async": in_loop}
drivers = pytest.mark.parametrize("turn", list(DRIVERS.values()), ids=list(DRIVERS))
AFTERWARDS = 5
"""Messages that are still added after a failure: a round."""


def points(fault: Fault) -> range:
    """What a run without a failure has counted."""
    return range(1, fault.seen + 1)


def play(store: FaultyStore, fault: Fault, memory: AutoContextMemory, turn: Turn) -> list[Msg]:
    """Add message by message and have a turn after each, as an agent does; what failed is done again.

    Ends some messages after the failure; without one at the end.
    """
    added: list[Msg] = []
    left = AFTERWARDS
    for msg in MESSAGES:
        try:
            memory.add_message(msg)
        except OSError:
            assert memory.get_original_memory_msgs() == added
            memory.add_message(msg)
        added.append(msg)
        done = len(memory._log.entries)
        try:
            turn(memory)
        except OSError:
            assert memory.messages in views_on_the_way(memory, done)
            check(memory, store, added)
            turn(memory)
        left -= fault.struck
        if not left:
            break
    check(memory, store, added)
    return added


@pytest.mark.slow
@drivers
@pytest.mark.parametrize("error", [ConnectionError, asyncio.CancelledError], ids=["an error", "its own cancellation"])
def test_a_failure_at_every_model_call_costs_no_turn(turn: Turn, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    dry, store = Fault(), FaultyStore()
    memory = opened(store, model(dry))
    assert play(store, dry, memory, turn) == MESSAGES
    assert memory.usage.passes >= 3
    assert memory.usage.fallbacks == 0
    for n in points(dry):
        fault, store = Fault(n, fail), FaultyStore()
        memory = opened(store, model(fault))
        play(store, fault, memory, turn)
        assert fault.struck
        assert memory.usage.fallbacks == 1


@pytest.mark.sampled
@drivers
def test_a_model_that_fails_at_every_call_costs_no_turn(turn: Turn) -> None:
    fault, store = Fault(1), FaultyStore()
    memory = opened(store, model(fault))

    def again(memory: AutoContextMemory) -> list[Msg]:
        fault.at = fault.seen + 1
        return turn(memory)

    memory = opened(store, model(fault))
    play(store, Fault(), memory, again)
    assert memory.usage.fallbacks >= 3


@pytest.mark.slow
@drivers
def test_a_failure_at_every_store_write_changes_nothing(turn: Turn) -> None:
    dry = Fault()
    store = FaultyStore(dry)
    play(store, dry, opened(store), turn)
    assert dry.seen > len(MESSAGES) + 3
    for n in points(dry):
        fault = Fault(n)
        store = FaultyStore(fault)
        play(store, fault, opened(store), turn)
        assert fault.struck


@pytest.mark.slow
def test_a_write_that_is_done_but_reported_as_failed_counts_once() -> None:
    """A lost connection: whoever adds the message again, as callers do, finds it there once, without reopening."""
    dry = Fault()
    store = FaultyStore(after=dry)
    play(store, dry, opened(store), AutoContextMemory.get_messages)
    for n in points(dry):
        store = FaultyStore(after=Fault(n))
        memory = opened(store)
        added: list[Msg] = []
        for msg in MESSAGES:
            try:
                memory.add_message(msg)
            except OSError:
                memory.add_message(msg)
            added.append(msg)
            with contextlib.suppress(OSError):
                memory.get_messages()
        assert store.after.struck
        memory.compress_if_needed(force=True)
        check(memory, store, added)


@pytest.mark.slow
def test_a_failure_at_every_await_leaves_a_view_that_was_on_the_way() -> None:
    async def turn(memory: AutoContextMemory, fault: Fault) -> None:
        await stepped(memory.aget_messages(), fault)

    dry, store = Fault(), FaultyStore()
    play(store, Fault(), opened(store), lambda memory: asyncio.run(turn(memory, dry)) or [])
    assert dry.seen > 20
    places = points(dry)
    struck = 0
    for n in places:
        fault, store = Fault(n), FaultyStore()
        play(store, fault, opened(store), lambda memory, fault=fault: asyncio.run(turn(memory, fault)) or [])
        struck += fault.struck
    # How often a loop waits for a thread depends on who is faster: the last places may not come in each run.
    assert struck > len(places) / 2
