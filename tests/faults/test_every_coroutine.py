"""Every public coroutine can be cancelled at each of its awaits, and none blocks the event loop."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.extras import need

need("cloud")

from autocontext.errors import Conflict
from autocontext.testing import user
from tests.faults.coroutines import ALIKE, ELSEWHERE, INNER, NAMES, Desk, call_of, public_coroutines
from tests.faults.interrupts import cancelled_everywhere
from tests.faults.script import PATIENCE

QUICK = ("AutoContextMemory.", "Session.aadd", "Session.aprepare")
every_coroutine = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name.startswith(QUICK) else pytest.mark.slow) for name in NAMES]
)
CLOSES = "aclose"


def test_every_public_coroutine_is_here() -> None:
    left = {
        f"{owner}.{name}"
        for owner, name in public_coroutines()
        if owner not in {*ELSEWHERE, *INNER} and name not in ALIKE and f"{owner}.{name}" not in NAMES
    }
    assert left == set()


@pytest.mark.sampled
@every_coroutine
def test_after_a_cancellation_at_any_await_the_next_call_works(name: str) -> None:
    call = call_of(name)

    async def check(desk: Desk) -> None:
        if not name.endswith(CLOSES):
            with suppress(Conflict):  # the cancelled call was done all the same
                await call(desk)
        done = threading.Event()
        thread = threading.Thread(target=lambda: (turn(desk, name), done.set()), daemon=True)
        thread.start()
        while not done.is_set() and thread.is_alive():  # noqa: ASYNC110 (set by another thread)
            await asyncio.sleep(0.001)
        assert done.is_set()
        desk.close()

    cancelled_everywhere(Desk, call, check)


def turn(desk: Desk, name: str) -> None:
    """What an agent does next, in another thread, which may use no lock that was left behind."""
    if name.endswith((CLOSES, "adelete")):
        return
    desk.memory.refresh()
    desk.memory.add_message(user("Go on."))
    assert desk.memory.get_messages()
    assert desk.memory.compress_if_needed(force=True).outcome != "busy"


@contextmanager
def hogged(lock: threading.RLock, beats: list[int]) -> Iterator[list[str]]:
    """Another thread holds the lock nearly always, each time until the event loop has gone on."""
    over, faults = threading.Event(), list[str]()

    def hold() -> None:
        while not over.is_set() and not faults:
            with lock:
                begun, until = len(beats), time.monotonic() + PATIENCE
                while len(beats) < begun + 3 and not over.is_set():
                    if time.monotonic() > until:
                        faults.append("the event loop stands still while another thread holds the memory's lock")
                        break
                    time.sleep(0.0005)
            time.sleep(0.003)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield faults
    finally:
        over.set()
        thread.join()


@every_coroutine
def test_no_coroutine_blocks_its_event_loop(name: str) -> None:
    """Neither for the memory's lock nor for the database, nor to open a part at its first use."""
    desk = Desk()

    async def run() -> list[str]:
        beats: list[int] = []

        async def beat() -> None:
            while True:
                beats.append(1)
                await asyncio.sleep(0.0005)

        beating = asyncio.ensure_future(beat())
        coroutine = call_of(name)(desk)  # opens what the caller opens
        desk.database.loop_thread = threading.get_ident()
        with hogged(desk.memory._lock, beats) as faults:
            await asyncio.wait_for(coroutine, 10 * PATIENCE)
        desk.database.loop_thread = None
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        return faults

    assert asyncio.run(run()) == []
    assert desk.database.in_loop == []
    desk.close()
