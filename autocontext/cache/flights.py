"""One computation per key in a process: who comes while it is under way waits for its outcome.

A flight is waited for by threads and by coroutines alike. It ends with an outcome, or is given up when who led it was
cancelled or ended; those who waited then look for a new leader among themselves.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from enum import Enum
from typing import Any, NamedTuple


class Landing(Enum):
    """How a computation ended."""

    TEXT = "text"
    """With a result that is JSON, in `body`: everyone who waited makes a copy of it."""
    ERROR = "error"
    """With an exception."""
    PRIVATE = "private"
    """With a result that cannot be copied; it belongs to who computed it, others compute their own."""
    GIVEN_UP = "given up"


class Outcome(NamedTuple):
    """What came of a computation."""

    landing: Landing
    body: str = ""
    value: Any = None
    """The exception, or the private result."""


class Flight:
    """One computation under way."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.landed: Future[Outcome] = Future()
        # A waiting coroutine that is cancelled must not cancel the flight for the others.
        self.landed.set_running_or_notify_cancel()
        self._thread = threading.get_ident()
        self._loop, self._task = _here()

    def would_wait_for_itself(self) -> bool:
        """Whether waiting here could never end: the leader is further up this stack, or needs this very loop."""
        if self._thread != threading.get_ident():
            return False
        loop, task = _here()
        if self._loop is None or loop is None:
            return True
        return loop is not self._loop or task is self._task

    def blocks_its_loop(self) -> bool:
        """Whether blocking this thread would stop the leader."""
        return self._thread == threading.get_ident()


class Flights:
    """The computations under way in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Flight] = {}
        self._pid = os.getpid()

    def join(self, key: str) -> tuple[Flight, bool]:
        """The flight of a key, and whether the caller leads it; a leader must `land` it."""
        with self._lock:
            if self._pid != os.getpid():
                # After a fork the leaders are in the other process.
                self._under_way, self._pid = {}, os.getpid()
            flight = self._under_way.get(key)
            if flight is not None:
                return flight, False
            flight = self._under_way[key] = Flight(key)
            return flight, True

    def land(self, flight: Flight, outcome: Outcome) -> None:
        """End a flight; a second ending of the same one does nothing."""
        with self._lock:
            if self._under_way.get(flight.key) is flight:
                del self._under_way[flight.key]
            if not flight.landed.done():
                flight.landed.set_result(outcome)


def _here() -> tuple[asyncio.AbstractEventLoop | None, asyncio.Task[Any] | None]:
    try:
        return asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        return None, None
