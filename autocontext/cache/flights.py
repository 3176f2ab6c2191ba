"""One computation per key in a process: callers that come while it is under way wait for its outcome.

Threads and coroutines wait alike. A flight ends with an outcome, or without one when its leader is cancelled; then
those who wait choose a new leader.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from enum import Enum
from typing import Any, NamedTuple


class FlightState(Enum):
    """How a computation ended."""

    VALUE = "value"
    """With a result that is JSON, in `body`: every caller decodes a copy of its own."""
    ERROR = "error"
    """With an exception."""
    PRIVATE = "private"
    """With a result that cannot be copied: it belongs to the caller that computed it."""
    GIVEN_UP = "given up"
    """Without a result: the leader was cancelled."""


class FlightResult(NamedTuple):
    """What came of a computation."""

    state: FlightState
    body: str = ""
    value: Any = None
    """The exception, or the private result."""


class Flight:
    """One computation under way."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.result: Future[FlightResult] = Future()
        # A waiting coroutine that is cancelled must not cancel the flight for the others.
        self.result.set_running_or_notify_cancel()
        self._thread = threading.get_ident()
        self._loop, self._task = _current()

    def waits_for_itself(self) -> bool:
        """Whether a coroutine would wait for ever: the leader is its own caller, or needs this event loop."""
        if self._thread != threading.get_ident():
            return False
        loop, task = _current()
        if self._loop is None or loop is None:
            return True
        return loop is not self._loop or task is self._task

    def is_of_this_thread(self) -> bool:
        """Whether blocking this thread would stop the leader."""
        return self._thread == threading.get_ident()


class Flights:
    """The computations under way in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
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

    def end(self, flight: Flight, result: FlightResult) -> None:
        """End a flight. Ending it a second time does nothing."""
        with self._lock:
            if self._flights.get(flight.key) is flight:
                del self._flights[flight.key]
            if not flight.result.done():
                flight.result.set_result(result)


def _current() -> tuple[asyncio.AbstractEventLoop | None, asyncio.Task[Any] | None]:
    try:
        return asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        return None, None
