"""Runs the misses of a cache, for threads and coroutines, also in the background."""

from __future__ import annotations

import asyncio
import threading

from autocontext import flows
from autocontext.cache.flights import FlightResult, FlightState, Owner, detach
from autocontext.cache.misses import Miss, miss
from autocontext.cache.namespace import CacheNamespace
from autocontext.cache.watching import Flights
from autocontext.flows import Operation, operation
from autocontext.stores.database import Database

_CLOSING = 5.0
"""Seconds that closing waits for computations in the background."""
_IN_BACKGROUND = 8
"""Results of a cache that are recomputed in the background at a time; others are due at their next hit."""


class Computing:
    """Runs the misses of one cache."""

    def __init__(self, namespace: CacheNamespace, database: Database) -> None:
        self._namespace, self._database = namespace, database
        self.flights = Flights.of(database)
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def miss(self, step: Miss) -> Operation:
        """Compute a result, or wait for it, as a step of a flow."""
        return operation(self._miss, self._amiss, step)

    def refresh(self, step: Miss) -> Operation:
        """`miss` in the background, as a step of a flow that goes on at once."""
        return operation(self._in_thread, self._in_task, step)

    def wait(self) -> None:
        """Wait up to five seconds for each thread in the background, and give back what was abandoned."""
        for thread in list(self._threads):
            if thread.is_alive():
                thread.join(_CLOSING)
        self.flights.settle()

    async def await_(self) -> None:
        """Wait up to five seconds for the tasks in the background, then `wait`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSING)
        await asyncio.to_thread(self.wait)

    def _miss(self, step: Miss) -> FlightResult:
        """Run a miss in a generator: when it is not running any more it has ended, whatever has happened."""
        owner = Owner()
        owner.runs = (flows.run(flow, self._database.do) for flow in [miss(step, owner)])
        result: FlightResult = next(owner.runs)
        owner.runs = None
        return result

    async def _amiss(self, step: Miss) -> FlightResult:
        owner = Owner()
        owner.runs = flows.arun(miss(step, owner), self._database.ado)
        result: FlightResult = await owner.runs
        owner.runs = None
        return result

    def _in_thread(self, step: Miss) -> None:
        def work() -> None:
            try:
                self._count_failure(self._miss(step))
            except Exception:  # noqa: BLE001 (nobody waits for it: the first call after expiry computes itself)
                self._namespace.count("refresh_failed")

        # An interrupt may have kept one from starting, so those that live are counted.
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        if len(self._threads) < _IN_BACKGROUND:
            thread = threading.Thread(target=work, name="autocontext cache", daemon=True)
            self._threads.add(thread)
            thread.start()

    async def _in_task(self, step: Miss) -> None:
        async def work() -> None:
            detach()
            try:
                self._count_failure(await self._amiss(step))
            except Exception:  # noqa: BLE001 (as above)
                self._namespace.count("refresh_failed")

        if len(self._tasks) < _IN_BACKGROUND:
            task = asyncio.get_running_loop().create_task(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _count_failure(self, result: FlightResult) -> None:
        if result.state is FlightState.ERROR:
            self._namespace.count("refresh_failed")
