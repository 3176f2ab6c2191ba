"""Flights: one computation per key in a process. Callers that arrive during a flight wait for its result.

Threads and coroutines wait alike. A flight ends with a result, or without one if its leader is cancelled; then one of
the waiting callers becomes the leader. Each flight knows which others need its result, so waiting in a circle is an
error and not a deadlock. Threads and tasks that a computation starts in its context are part of it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, NamedTuple

from autocontext.errors import CacheCycle
from autocontext.flows.forking import fork_lock

_graph = fork_lock()
"""Held while `_needed_by` of any flight is read or changed."""
_around: ContextVar[tuple[Flight, ...]] = ContextVar("autocontext_cache_flights", default=())
"""The flights in which the current code runs, outermost first."""


class FlightState(Enum):
    """How a computation ended."""

    VALUE = "value"
    """With a result as JSON in `body`: every caller decodes its own copy."""
    ERROR = "error"
    """With an exception."""
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


class Flight:
    """One running computation."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.holder = ""
        """The name of its row in the database; "" while it has none."""
        self.asked = 0
        """How often its leader has asked the database for a lease or a result."""
        self.result: Future[FlightResult] = Future()
        # Cancelling one waiting coroutine must not cancel the flight for the others.
        self.result.set_running_or_notify_cancel()
        self._thread = threading.get_ident()
        self._loop, self._task = _current()
        self._needed_by: list[Flight] = list(_around.get()[-1:])

    def waits_for_itself(self) -> bool:
        """Whether a coroutine would wait forever: the leader is its own caller, or needs this event loop."""
        if self._thread != threading.get_ident():
            return False
        loop, task = _current()
        if self._loop is None or loop is None:
            return True
        return loop is not self._loop or task is self._task

    def is_of_this_thread(self) -> bool:
        """Whether blocking this thread would stop the leader."""
        return self._thread == threading.get_ident()

    def is_around(self) -> bool:
        """Whether the current code is part of the flight. Raises CacheCycle if it has asked for itself before."""
        times = _around.get().count(self)
        if times > 1:
            raise CacheCycle(f"{self.key}: computing it asks for the same key again and again")
        return times == 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Marks the code that computes."""
        before = _around.get()
        _around.set((*before, self))
        try:
            yield
        finally:
            _around.set(before)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Marks code that waits. Raises CacheCycle if that code is part of what the flight itself waits for."""
        caller = next(reversed(_around.get()), None)
        if caller is None:
            yield
            return
        with _graph:
            if self in caller.needing():
                raise self.cycle_with(caller.key)
            self._needed_by.append(caller)
        try:
            yield
        finally:
            with _graph:
                self._needed_by.remove(caller)

    def needing(self) -> set[Flight]:
        """The flights that cannot end before this one, itself included."""
        with _graph:
            found, new = {self}, {self}
            while new:
                new = {flight for each in new for flight in each._needed_by}  # noqa: SLF001 (of this class) - found
                found |= new
            return found

    def cycle_with(self, key: str) -> CacheCycle:
        """The error for two computations that need each other."""
        return CacheCycle(f"{self.key} and {key} need each other's results while they are computed; neither could end")


def outside() -> None:
    """Detach the current task or thread, which works in the background, from all flights."""
    _around.set(())


class Flights:
    """The running computations of this process."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._flights: dict[str, Flight] = {}
        self._pid = os.getpid()

    def join(self, key: str) -> tuple[Flight, bool]:
        """The flight of a key, and whether the caller leads it; a leader must `end` it."""
        with self._lock:
            if self._pid != os.getpid():
                # After a fork the leaders are in the other process.
                self._flights, self._pid = {}, os.getpid()
            flight = self._flights.get(key)
            if flight is not None:
                return flight, False
            flight = self._flights[key] = Flight(key)
            return flight, True

    def leave(self, flight: Flight) -> None:
        """Let later callers begin another flight; this one continues for those who wait already."""
        with self._lock:
            if self._flights.get(flight.key) is flight:
                del self._flights[flight.key]

    def end(self, flight: Flight, result: FlightResult) -> None:
        """End a flight. Ending it a second time does nothing."""
        self.leave(flight)
        with self._lock:
            if not flight.result.done():
                flight.result.set_result(result)


def _current() -> tuple[asyncio.AbstractEventLoop | None, asyncio.Task[Any] | None]:
    try:
        return asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        return None, None
