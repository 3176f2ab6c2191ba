"""The driver of a cache's flows, for threads and coroutines; recomputes results in the background."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autocontext import flows
from autocontext.cache.flights import Flight, FlightState, outside
from autocontext.cache.misses import CacheStep, Compute, MissFlow, Pause, Refresh, SlowCall, WaitFor, miss
from autocontext.cache.namespace import CacheNamespace
from autocontext.cache.renewing import Renewing
from autocontext.errors import ConfigError
from autocontext.flows.threads import in_thread
from autocontext.stores.database import Database, Read, Write

_CLOSING = 5.0
"""Seconds that closing waits for computations in the background."""
_MUCH = 2_000
"""Values, or pieces of 64 characters, that the event loop handles itself: one to three milliseconds."""


class Computing:
    """Runs the steps of one cache's flows."""

    def __init__(self, namespace: CacheNamespace, database: Database | None) -> None:
        self._namespace, self._database = namespace, database
        self._renewing = None if database is None else Renewing(namespace, database)
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, step: CacheStep) -> Any:
        """Run a step and return its answer."""
        match step:
            case Pause(length):
                return time.sleep(length)
            case WaitFor(flight):
                return None if flight.is_of_this_thread() else flight.result.result()
            case Compute(fn, flight):
                with self._part_of(flight):
                    return called(fn)
            case SlowCall(fn):
                return fn()
            case Refresh():
                return self._in_thread(step)
            case Read() | Write() if self._database is not None:
                return self._database.do(step)

    async def ado(self, step: CacheStep) -> Any:
        """`do` without blocking the event loop."""
        match step:
            case Pause(length):
                return await asyncio.sleep(length)
            case WaitFor(flight):
                return None if flight.waits_for_itself() else await asyncio.wrap_future(flight.result)
            case Compute(fn, flight):
                with self._part_of(flight):
                    return await acalled(fn)
            case SlowCall(fn, about):
                return await in_thread(fn) if about is ... or is_large(about) else fn()
            case Refresh():
                return self._in_task(step)
            case Read() | Write() if self._database is not None:
                return await self._database.ado(step)

    def wait(self) -> None:
        """Wait up to five seconds for each thread in the background."""
        for thread in list(self._threads):
            thread.join(_CLOSING)
        if self._renewing is not None:
            self._renewing.stop()

    async def await_(self) -> None:
        """Wait up to five seconds for the tasks in the background, then `wait`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSING)
        await asyncio.to_thread(self.wait)

    @contextmanager
    def _part_of(self, flight: Flight | None) -> Iterator[None]:
        """The context in which a function computes: part of the flight, and the lease is renewed."""
        if flight is None or self._renewing is None:
            yield
            return
        with flight.inside(), self._renewing.kept(flight.holder):
            yield

    def _in_thread(self, step: Refresh) -> None:
        def work() -> None:
            with self._failing_quietly():
                self._count_failure(flows.run(_refreshing(step), self.do))
            self._threads.discard(thread)

        thread = threading.Thread(target=work, name="autocontext cache", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _in_task(self, step: Refresh) -> None:
        async def work() -> None:
            outside()
            with self._failing_quietly():
                self._count_failure(await flows.arun(_refreshing(step), self.ado))

        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextmanager
    def _failing_quietly(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 (nobody waits for it: the first call after expiry computes itself)
            self._namespace.count("refresh_failed")

    def _count_failure(self, result: Any) -> None:
        if result.state is FlightState.ERROR:
            self._namespace.count("refresh_failed")


def _refreshing(step: Refresh) -> MissFlow:
    return miss(step.call, known=step.created, in_background=True)


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
