"""The driver of a cache's flows, for threads and coroutines; recomputes results in the background."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from autocontext import flows
from autocontext.cache.flights import FlightResult, FlightState, Owner, enter, leave
from autocontext.cache.misses import CacheStep, Compute, Miss, Pause, SlowCall, WaitFor, miss
from autocontext.cache.namespace import CacheNamespace
from autocontext.cache.watching import Flights
from autocontext.errors import ConfigError
from autocontext.flows.threads import in_thread
from autocontext.stores.database import Database, Read, Write

_CLOSING = 5.0
"""Seconds that closing waits for computations in the background."""
_IN_BACKGROUND = 8
"""Results of a cache that are recomputed in the background at a time; others are due at their next hit."""
_MUCH = 2_000
"""Values, or pieces of 64 characters, that the event loop handles itself: one to three milliseconds."""


class Computing:
    """Runs the steps of one cache's flows."""

    def __init__(self, namespace: CacheNamespace, database: Database) -> None:
        self._namespace, self._database = namespace, database
        self.flights = Flights.of(database)
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, step: CacheStep) -> Any:  # noqa: PLR0911 (one for each kind)
        """Run a step and return its answer."""
        # First, because it is the only step of most hits.
        if isinstance(step, Read):
            return self._database.read(step.work)
        match step:
            case SlowCall(fn):
                return fn()
            case Write(work):
                return self._database.write(work)
            case Pause(length):
                return time.sleep(length)
            case WaitFor(flight):
                return flight.wait()
            case Compute(fn, flight):
                before = enter(flight)
                try:
                    return called(fn)
                finally:
                    leave(before)
            case Miss(in_background=True):
                return self._in_thread(step)
            case Miss():
                return self._miss(step)

    async def ado(self, step: CacheStep) -> Any:  # noqa: PLR0911 (as above)
        """`do` without blocking the event loop."""
        if isinstance(step, Read):
            return await self._database.aread(step.work)
        match step:
            case Write(work):
                return await self._database.awrite(work)
            case Pause(length):
                return await asyncio.sleep(length)
            case WaitFor(flight):
                return await flight.await_()
            case Compute(fn, flight):
                before = enter(flight)
                try:
                    return await acalled(fn)
                finally:
                    leave(before)
            case SlowCall(fn, about):
                return await in_thread(fn) if about is ... or is_large(about) else fn()
            case Miss(in_background=True):
                return self._in_task(step)
            case Miss():
                return await self._amiss(step)

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
        owner.runs = (flows.run(flow, self.do) for flow in [miss(step, owner)])
        result: FlightResult = next(owner.runs)
        owner.runs = None
        return result

    async def _amiss(self, step: Miss) -> FlightResult:
        owner = Owner()
        owner.runs = flows.arun(miss(step, owner), self.ado)
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

    def _in_task(self, step: Miss) -> None:
        async def work() -> None:
            leave()
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


def called(fn: Callable[[], Any]) -> Any:
    """The result of a synchronous function. Raises ConfigError for an asynchronous one."""
    value = fn()
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError("fn is asynchronous: use aget_or_compute, or memoize the async function itself")
    return value


async def acalled(fn: Callable[[], Any]) -> Any:
    """The result of a function; a synchronous one runs in a thread, to keep the event loop free."""
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004 (what the call returns matters)
        return await fn()
    value = await in_thread(fn)
    return await value if isinstance(value, Awaitable) else value


def is_large(value: Any) -> bool:
    """Whether a JSON value takes milliseconds to read or write."""
    size, waiting = 0, [value]
    while waiting and size <= _MUCH:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            size += len(item) // 64
        elif isinstance(item, list | tuple | set | frozenset | dict):
            size += len(item)
            if size <= _MUCH:
                waiting += item
                waiting += item.values() if isinstance(item, dict) else ()
    return size > _MUCH
