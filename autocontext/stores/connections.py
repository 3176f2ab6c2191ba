"""Connections that callers share: idle ones are lent, and whoever drops one instead of giving it back closes it.

An interrupt (Ctrl-C, a signal handler that raises) may come between any two lines, also in a `finally`. So nothing is
counted up and down: what is in use are the leases that somebody still refers to.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class Lease(Generic[C]):
    """One connection, or the right to open one. It is closed with its lease, but never in a child of its process."""

    connection: C | None = None
    closed = False

    def __init__(self, close: Callable[[C], None], generation: int = 0) -> None:
        self._close, self._pid, self.since = close, os.getpid(), time.monotonic()
        self.generation = generation

    def close(self) -> None:
        """Close the connection, unless it belongs to the parent of this process."""
        self.closed = True
        if self.connection is not None and self._pid == os.getpid():
            self._close(self.connection)

    __del__ = close


class Connections(Generic[C]):
    """Lends connections, the one used last first; opens at most `most`, keeps at most `kept` that are idle."""

    def __init__(self, close: Callable[[C], None], *, most: float, kept: float) -> None:
        self._close, self._most, self._kept = close, most, kept
        self._lock = threading.RLock()  # a lock in C: no interrupt comes between it and its `with`
        self._idle: list[Lease[C]] = []
        self._leases: list[weakref.ref[Lease[C]]] = []
        self._paused = False
        # Closes them if nobody calls `close`, also at the end of the program.
        weakref.finalize(self, _close_all, self._idle)

    def take(self, generation: int, oldest: float = math.inf, spare: int = 0) -> Lease[C] | None:
        """A lease, whose connection is None if it is to be opened; None if there is nothing to lend now.

        Connections of another generation, and those that are older than so many seconds, are closed.
        """
        while True:
            with self._lock:
                if self._paused:
                    return None
                try:
                    lease = self._idle.pop()
                except IndexError:  # there are none, or another thread has closed them
                    self._leases = [ref for ref in self._leases if (used := ref()) is not None and not used.closed]
                    if len(self._leases) >= self._most + spare:
                        return None
                    lease = Lease(self._close, generation)
                    self._leases.append(weakref.ref(lease))
                    return lease
            if lease.generation == generation and time.monotonic() - lease.since < oldest:
                return lease
            lease.close()

    def give(self, lease: Lease[C]) -> None:
        """Keep a connection for the next caller, or close it."""
        if len(self._idle) < self._kept:
            self._idle.append(lease)
        else:
            lease.close()
        if not self._kept:  # closed meanwhile
            _close_all(self._idle)

    def lent(self) -> list[Lease[C]]:
        """The leases that somebody has."""
        leases = [lease for ref in self._leases if (lease := ref()) is not None and not lease.closed]
        idle = {id(lease) for lease in self._idle.copy()}
        return [lease for lease in leases if id(lease) not in idle]

    def pause(self, until: float) -> None:
        """Lend nothing, wait for what is lent, at most until this time, and close the rest."""
        with self._lock:
            self._paused = True
        while self.lent() and time.monotonic() < until:
            time.sleep(0.001)
        _close_all(self._idle)

    def resume(self) -> None:
        """Lend again."""
        self._paused = False

    def close(self) -> None:
        """Close what is idle, and what is lent when it is given back."""
        self._kept = 0
        _close_all(self._idle)


def _close_all(idle: list[Lease[C]]) -> None:
    with contextlib.suppress(IndexError):  # another thread may close them, too
        while True:
            idle.pop().close()
