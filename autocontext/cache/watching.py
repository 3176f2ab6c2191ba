"""Watches the computations of all caches on one database, in one thread, as long as there are any.

It renews the leases of those that run, gives back those of calls that were cancelled or interrupted, and tells other
processes which of their computations they wait for. A lease is given back here and not where a call ends, because
nothing can be awaited, and no line is sure to run, where a call ends by an interrupt.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue

from autocontext.cache import leases
from autocontext.cache.flights import Flight, FlightResult, FlightState, Owner
from autocontext.cache.namespace import CacheNamespace
from autocontext.errors import AutoContextError
from autocontext.flows.forking import fork_lock
from autocontext.stores.database import Database

_LOOK = 0.05
"""Seconds between looks at the computations."""
_IDLE = 20
"""Looks without a computation after which the thread ends."""
_PER_LEASE = 3
"""Renewals per lease time: two of them may fail."""
_AGAIN = 1.0
"""Seconds after which a lease is given back again: the server may have granted it when its caller was gone already."""

_all: weakref.WeakKeyDictionary[Database, Flights] = weakref.WeakKeyDictionary()
_all_lock = fork_lock()


class Flights:
    """The running computations of this process in one database."""

    def __init__(self, database: Database) -> None:
        self._database = weakref.ref(database)
        self._lock = fork_lock()
        self._begin()

    @classmethod
    def of(cls, database: Database) -> Flights:
        """The flights of a database, the same for all caches on it."""
        with _all_lock:
            return _all.get(database) or _all.setdefault(database, cls(database))

    def _begin(self) -> None:
        """Begin without any: also in a child process, as the computations and the thread are in its parent."""
        self._pid = os.getpid()
        self._running: dict[tuple[CacheNamespace, str], Flight] = {}
        self._watched: set[Flight] = set()
        """Those that run, and those that may have left a lease behind."""
        self._thread: threading.Thread | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()

    def join(self, namespace: CacheNamespace, key: str, owner: Owner) -> tuple[Flight, bool]:
        """The flight of a key, and whether the caller leads it; a leader must `end` it."""
        with self._lock:
            if self._pid != os.getpid():
                self._begin()
            flight = self._running.get((namespace, key))
            leads = flight is None or not flight.open
            if flight is None or leads:
                flight = Flight(namespace, key, owner)
                self._watched.add(flight)
                self._running[namespace, key] = flight
            # Nobody begins to compute, or waits, unwatched.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="autocontext leases", daemon=True)
                self._thread.start()
        return flight, leads

    def leave(self, flight: Flight) -> None:
        """Let later callers begin another flight; this one continues for those who wait already."""
        with self._lock:
            if self._running.get((flight.namespace, flight.key)) is flight:
                del self._running[flight.namespace, flight.key]

    def leave_unleased(self) -> None:
        """Let later callers begin other flights than those that an invalidation did not find: they have no row."""
        with self._lock:
            self._running = {place: flight for place, flight in self._running.items() if flight.leased}

    def end(self, flight: Flight, outcome: FlightResult) -> None:
        """End a flight; its lease is given back soon unless that is done. Ending it a second time does nothing."""
        flight.end(outcome)
        self.leave(flight)
        if flight.settled or not flight.asked:
            self._watched.discard(flight)
        else:
            self._wake.put(None)

    def settle(self) -> None:
        """End what was abandoned, give back its leases, renew the others and note who waits for whom."""
        database = self._database()
        with self._lock:
            flights = set(self._watched)
        running = {flight for flight in flights if flight.open}
        for flight in flights - running:
            self.end(flight, FlightResult(FlightState.GIVEN_UP))
        if self._pid != os.getpid() or database is None or database.closed:
            self._watched -= flights - running
            return
        now = time.monotonic()
        ended = {f for f in (flights & self._watched) - running if f.given_back is None or now - f.given_back >= _AGAIN}
        with suppress(AutoContextError):  # the next attempt may do
            if ended:
                database.write(lambda: leases.give_back_all((f.namespace.text, f.holder) for f in ended))
                self._watched -= {flight for flight in ended if flight.given_back is not None}
                for flight in ended:
                    flight.given_back = now
            due = {f for f in running if f.lease_left(now) < 1 - 1 / _PER_LEASE}
            if due:
                database.write(lambda: leases.renew((f.namespace, f.holder) for f in due))
                for flight in due:
                    flight.granted = now
            waiting = {f: other.waits_for for other in running if other.waits_for for f in other.needing()}
            changed = {f: waiting.get(f, "") for f in running if f.granted and f.noted != waiting.get(f, "")}
            if changed:
                database.write(lambda: leases.note_waiting((f.holder, other) for f, other in changed.items()))
                for flight, other in changed.items():
                    flight.noted = other

    def _watch(self) -> None:
        looks = 0
        while True:
            with suppress(Empty):
                self._wake.get(timeout=_LOOK)
            self.settle()
            with self._lock:
                looks = 0 if self._watched else looks + 1
                if self._thread is not threading.current_thread():
                    return
                if looks > _IDLE:
                    self._thread = None
                    return


@atexit.register
def _settle_all() -> None:
    """Before the program ends, because its threads end with it: other processes need not wait for its leases."""
    for flights in list(_all.values()):
        flights.settle()
