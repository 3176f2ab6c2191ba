"""An asynchronous pass cancelled at any await: the view is old or new, the lock is free, the next call works."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from autocontext import AutoContextMemory, ModelReply, ModelRequest, Msg
from autocontext.testing import ScriptedModel
from tests.faults.script import (
    CONFIG,
    MESSAGES,
    PATIENCE,
    Fault,
    FaultyStore,
    cancel_this_task,
    check,
    model,
    opened,
    stepped,
    views_on_the_way,
)

HALF = MESSAGES[:40]


class BlockingModel:
    """Answers in threads only."""

    def __init__(self, fault: Fault) -> None:
        self._inner = model(fault)

    def complete(self, request: ModelRequest) -> ModelReply:
        return self._inner.complete(request)


def filled(store: FaultyStore, answering: Any) -> AutoContextMemory:
    memory = opened(store, answering)
    memory.add_messages(HALF)
    return memory


async def given_up(memory: AutoContextMemory, store: FaultyStore, work: Coroutine[Any, Any, Any]) -> bool:
    """Whether the pass was cancelled; checks the memory, and that the next turn works."""
    done = len(memory._log.entries)
    task = asyncio.ensure_future(work)
    cancelled = await asyncio.wait([task], timeout=PATIENCE) and task.cancelled()
    assert task.done(), "the pass hangs"
    if not cancelled:
        assert task.result().messages_before == len(HALF)
        return False
    assert not memory._pass_runner._pass_lock.taken
    messages = memory.messages
    assert messages in views_on_the_way(memory, done)
    check(memory, store, HALF)
    assert memory.messages == messages
    later = Msg(role="user", content="And now?")
    memory.add_message(later)
    view = await asyncio.wait_for(memory.aget_messages(), PATIENCE)
    assert view[-1] == later
    check(memory, store, [*HALF, later])
    return True


@pytest.mark.slow
@pytest.mark.parametrize("blocking", [False, True], ids=["async model", "blocking model"])
def test_cancelled_at_every_await_of_the_pass(blocking: bool) -> None:
    def attempt(fault: Fault) -> bool:
        store = FaultyStore()
        memory = filled(store, BlockingModel(Fault()) if blocking else model())

        async def run() -> bool:
            return await given_up(memory, store, stepped(memory.acompress_if_needed(force=True), fault))

        return asyncio.run(run())

    dry = Fault()
    assert not attempt(dry)
    assert dry.seen >= 5
    struck = 0
    for n in range(1, dry.seen + 1):
        fault = Fault(n, cancel_this_task)
        assert attempt(fault) == fault.struck, n
        struck += fault.struck
    # How often a loop waits for a thread depends on who is faster: the last places may not come in each run.
    assert struck >= (5 if blocking else dry.seen)


@pytest.mark.slow
@pytest.mark.parametrize("blocking", [False, True], ids=["async model", "blocking model"])
def test_cancelled_during_every_model_call(blocking: bool) -> None:
    def attempt(n: int) -> tuple[bool, int]:
        store = FaultyStore()

        async def run() -> tuple[bool, int]:
            loop = asyncio.get_running_loop()
            fault = Fault(n, lambda: loop.call_soon_threadsafe(task.cancel))  # type: ignore[arg-type]
            memory = filled(store, BlockingModel(fault) if blocking else model(fault))
            task = asyncio.ensure_future(memory.acompress_if_needed(force=True))
            return await given_up(memory, store, task), fault.seen

        return asyncio.run(run())

    _, calls = attempt(0)
    assert calls >= 3
    cancelled = [attempt(n)[0] for n in range(1, calls + 1)]
    assert all(cancelled[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True], ids=["the write succeeds", "the write fails"])
def test_cancelled_during_every_store_write(fails: bool) -> None:
    """The thread is in the store when the pass is cancelled, and continues only then."""
    waited: list[bool] = []

    def attempt(n: int) -> tuple[bool, int]:
        gone = threading.Event()

        def cancel_and_wait() -> None:
            loop.call_soon_threadsafe(task.cancel)
            waited.append(gone.wait(PATIENCE))
            if fails:
                raise OSError("no space left on device")

        loop = asyncio.new_event_loop()
        fault = Fault(n, cancel_and_wait)
        store = FaultyStore()
        memory = filled(store, model())
        store.before = fault
        task = loop.create_task(memory.acompress_if_needed(force=True))
        task.add_done_callback(lambda _: gone.set())
        try:
            return loop.run_until_complete(given_up(memory, store, _same(task))), fault.seen
        finally:
            loop.close()

    _, writes = attempt(0)
    assert writes >= 2
    assert [attempt(n)[0] for n in range(1, writes + 1)] == [True] * writes
    assert waited == [True] * writes


async def _same(task: asyncio.Task[Any]) -> Any:
    return await task


def test_a_timeout_around_the_turn_frees_it_for_the_next() -> None:
    answering = ScriptedModel("Short.", latency=5)

    async def expire(limit: asyncio.Timeout, turn: int) -> None:
        while len(answering.requests) < turn:  # noqa: ASYNC110 (a scripted model tells nobody that it was asked)
            await asyncio.sleep(0.001)
        limit.reschedule(asyncio.get_running_loop().time())

    async def run() -> None:
        memory = AutoContextMemory(CONFIG, answering)
        memory.add_messages(HALF)
        for turn in range(1, 4):
            with pytest.raises(TimeoutError):  # noqa: PT012 (the limit must be known to what lets it expire)
                async with asyncio.timeout(None) as limit:
                    expiring = asyncio.create_task(expire(limit, turn))
                    await memory.aget_messages()
            await expiring
            assert memory.messages == HALF
            assert not memory._pass_runner._pass_lock.taken

    asyncio.run(run())
    assert len(answering.requests) >= 3


@pytest.mark.slow
def test_a_turn_cancelled_while_another_thread_has_the_memory_leaves_the_next_one_free() -> None:
    """At whichever of its attempts to get at the memory."""

    async def attempt(n: int) -> bool:
        memory = AutoContextMemory(CONFIG, ScriptedModel("Short."))
        memory.add_messages(HALF)
        held, free = threading.Event(), threading.Event()

        def hold() -> None:
            with memory._lock:
                held.set()
                assert free.wait(PATIENCE)

        holder = threading.Thread(target=hold)
        fault = Fault(n, cancel_this_task)
        holder.start()
        assert held.wait(PATIENCE)
        turn = asyncio.ensure_future(stepped(memory.acompress_if_needed(force=True), fault))
        while not fault.struck:  # noqa: ASYNC110 (counted, not told)
            await asyncio.sleep(0)
        free.set()
        with contextlib.suppress(asyncio.CancelledError):
            await turn
        holder.join()
        later = await asyncio.wait_for(memory.acompress_if_needed(force=True), PATIENCE)
        assert later.outcome != "busy"
        return fault.struck

    for n in range(1, 6):
        assert asyncio.run(attempt(n)), n


class Waiting(ScriptedModel):
    """Answers threads at once, and event loops when it is let go."""

    def __init__(self) -> None:
        super().__init__("Short.")
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.go.wait()
        return await super().acomplete(request)


@pytest.mark.slow
def test_a_background_pass_of_a_loop_that_ended_leaves_the_turn_free() -> None:
    """Whether the loop was closed without clean-up or only paused between two runs."""
    for close in (True, False):
        store = FaultyStore()
        answering = Waiting()
        memory = opened(store, answering, background=True, max_token=100_000)
        memory.add_messages(HALF)
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(memory.aget_messages()) == HALF
        pending = set(memory._pass_runner._tasks)
        loop.run_until_complete(asyncio.wait_for(answering.asked.wait(), PATIENCE))
        assert len(pending) == 1
        assert memory._pass_runner._pass_lock._holder is not None
        if close:
            for task in asyncio.all_tasks(loop):
                task.get_coro().close()
                task._log_destroy_pending = False
            loop.close()
        done = threading.Event()
        thread = threading.Thread(target=lambda memory=memory, done=done: (memory.compress_if_needed(), done.set()))
        thread.start()
        assert done.wait(PATIENCE), "a turn waits for a pass that nobody drives"
        thread.join()
        assert memory.get_compression_events()
        if not close:
            answering.go.set()
            report = loop.run_until_complete(pending.pop())
            assert report.outcome == "busy"
            loop.close()
        check(memory, store, HALF)
