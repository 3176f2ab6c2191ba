"""Flights: the computations of this process. Callers that arrive during a flight wait for its result.

Threads and coroutines wait alike. A flight belongs to whoever runs it, and counts as long as that call is running: an
interrupt or a cancellation may end the call anywhere, so no clean-up of its own is relied on. `watching` ends flights
that were abandoned; then one of the waiting callers becomes the leader. Each flight knows which others need its result,
so waiting in a circle is an error and not a deadlock. Threads and tasks that a computation starts in its context are
part of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from queue import Empty, SimpleQueue
from types import CoroutineType, GeneratorType
from typing import Any, NamedTuple

from autocontext.cache.namespace import CacheNamespace
from autocontext.errors import CacheCycle
from autocontext.flows.forking import fork_lock

_LOOK = 1.0
"""Seconds after which a waiting caller looks by itself whether the flight has ended: waking it may be interrupted."""
_graph = fork_lock()
"""Held while `_needed_by` of any flight is read or changed."""
_around: ContextVar[tuple[Flight, ...]] = ContextVar("autocontext_cache_flights", default=())
"""The flights in which the current code runs, outermost first; some may have ended."""


class FlightState(Enum):
    """How a computation ended."""

    VALUE = "value"
    """With a result as JSON in `body`: every caller decodes its own copy."""
    ERROR = "error"
    PRIVATE = "private"
    """With a result that cannot be copied: it belongs to the caller that computed it."""
    GIVEN_UP = "given up"
    """Without a result: the leader was cancelled."""


class FlightResult(NamedTuple):
    """The outcome of a computation."""

    state: FlightState
    body: str = ""
    value: Any = None
    """The exception, or the private result."""


class Owner:
    """One call of a thread or task. It is alive until the generator or coroutine that runs it ends, however it ends."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.loop, self.task = _current()
        self.runs: Any = None
        """The generator, or coroutine."""

    @property
    def alive(self) -> bool:
        """Whether the call is still running, or waiting in an event loop that runs."""
        runs = self.runs  # once, as the call may end meanwhile
        if isinstance(runs, CoroutineType):
            return runs.cr_frame is not None and self.loop is not None and self.loop.is_running()
        return isinstance(runs, GeneratorType) and runs.gi_running


class Flight:
    """One running computation."""

    def __init__(self, namespace: CacheNamespace, key: str, owner: Owner) -> None:
        self.namespace, self.key, self.owner = namespace, key, owner
        self.holder = namespace.holder()
        """The name of its row in the database."""
        self.asked = 0
        """How often its leader has asked the database for a lease or a result: from then on it may have a row."""
        self.granted: float | None = None
        """When the leader got its lease, or renewed it, by the monotonic clock; None while it does not compute."""
        self.leased = True
        """False while it computes without a row, because the database took none: no invalidation finds one to end."""
        self.settled = False
        """Whether its row is gone again."""
        self.given_back: float | None = None
        """When its row was deleted after its leader had gone."""
        self.waits_for = ""
        """The computation of another process that the leader waits for."""
        self.noted = ""
        """What its row says that it waits for."""
        self.outcome: FlightResult | None = None
        """The first that is set counts."""
        self._wake: list[Callable[[], object]] = []
        """For each caller that waits."""
        self._needed_by: dict[Owner, Flight] = {}
        """The computations that need this one, each with the call that waits."""
        if around := _around.get():
            self._needed_by[owner] = around[-1]

    @property
    def open(self) -> bool:
        """Whether there is, or will be, a result to wait for."""
        return self.outcome is None and self.owner.alive

    def lease_left(self, now: float) -> float:
        """How much of the lease is left, 0 to 1; 1 if it has none."""
        length = self.namespace.lease
        return 1.0 if self.granted is None or length is None else 1 - (now - self.granted) * 1000 / length

    def end(self, outcome: FlightResult) -> None:
        """Set the outcome and wake all who wait. Ending it again only wakes them again."""
        if self.outcome is None:
            self.outcome = outcome
        for wake in self._wake:
            with suppress(RuntimeError):  # its event loop is closed
                wake()

    def wait(self) -> FlightResult | None:
        """Wait for the outcome in this thread; None if that would stop the leader."""
        if self.owner.thread == threading.get_ident():
            return None
        ended: SimpleQueue[None] = SimpleQueue()
        self._wake.append(lambda: ended.put(None))
        while self.outcome is None:
            with suppress(Empty):
                ended.get(timeout=_LOOK)
        return self.outcome

    async def await_(self) -> FlightResult | None:
        """`wait` in a coroutine; None if the leader is its own caller, or needs this event loop."""
        owner, (loop, task) = self.owner, _current()
        if owner.thread == threading.get_ident() and (loop is not owner.loop or loop is None or task is owner.task):
            return None
        ended = asyncio.Event()
        if loop is not None:
            self._wake.append(lambda: loop.call_soon_threadsafe(ended.set))
        while self.outcome is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _LOOK)
        return self.outcome

    def is_around(self) -> bool:
        """Whether the current code is part of the flight. Raises CacheCycle if it has asked for itself before."""
        times = _around.get().count(self)
        if times > 1:
            raise CacheCycle(f"{self.key}: computing it asks for the same key again and again")
        return times == 1

    @contextmanager
    def needed_by(self, owner: Owner) -> Iterator[None]:
        """A call waits. Raises CacheCycle if the code that calls is part of what the flight waits for."""
        caller = next(reversed(_around.get()), None)
        if caller is not None:
            with _graph:
                if self in caller.needing():
                    raise self.cycle_with(caller.key)
                self._needed_by[owner] = caller
        try:
            yield
        finally:
            with _graph:
                self._needed_by.pop(owner, None)

    def needing(self) -> set[Flight]:
        """The flights that cannot end before this one, itself included."""
        with _graph:
            found, new = {self}, {self}
            while new:
                new = {f for each in new for owner, f in each._needed_by.items() if owner.alive and f.open}  # noqa: SLF001 (of this class)
                new -= found
                found |= new
            return found

    def cycle_with(self, key: str) -> CacheCycle:
        """The error for two computations that need each other."""
        return CacheCycle(f"{self.key} and {key} need each other's results while they are computed; neither could end")


@contextmanager
def within(flight: Flight | None) -> Iterator[None]:
    """Make the current code part of a flight, if there is one."""
    before = _around.get()
    if flight is not None:
        _around.set((*before, flight))
    try:
        yield
    finally:
        _around.set(before)


def detach() -> None:
    """Make the current code part of no flight any more."""
    _around.set(())


def _current() -> tuple[asyncio.AbstractEventLoop | None, asyncio.Task[Any] | None]:
    try:
        return asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        return None, None
