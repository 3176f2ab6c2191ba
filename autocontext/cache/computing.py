"""Runs misses, in threads and in coroutines, and recomputes results in the background."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from autocontext import flows
from autocontext.cache.flights import FlightResult, FlightState
from autocontext.cache.misses import CachedCall, Compute, MissFlow, MissStep, Pause, WaitFor, miss, value_of
from autocontext.cache.namespace import CacheEntry, CacheNamespace
from autocontext.errors import ConfigError
from autocontext.flows.threads import in_thread
from autocontext.stores.database import Database

_CLOSING = 5.0
"""Seconds that closing waits for computations in the background."""


class Computing:
    """Computes the results of one namespace that are not in the database."""

    def __init__(self, namespace: CacheNamespace, database: Database) -> None:
        self._namespace, self._database = namespace, database
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def miss(self, call: CachedCall) -> Any:
        """Compute a result, or wait for the caller that does. Raises what the function raises."""
        return value_of(self._run(call.make(), miss(call)))

    async def amiss(self, call: CachedCall) -> Any:
        """`miss` without blocking the event loop."""
        return value_of(await self._arun(call.make(), miss(call)))

    def refresh(self, call: CachedCall, entry: CacheEntry) -> None:
        """Recompute an entry in a thread."""

        def work() -> None:
            try:
                flow = miss(call, newer_than=entry.created, in_background=True)
                self._count_failure(self._run(call.make(), flow))
            except Exception:  # noqa: BLE001 (nobody waits for it: the first call after expiry computes itself)
                self._namespace.count("refresh_failed")
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=work, name="autocontext cache", daemon=True)
        self._threads.add(thread)
        thread.start()

    def arefresh(self, call: CachedCall, entry: CacheEntry) -> None:
        """Recompute an entry in a task of the running event loop."""

        async def work() -> None:
            try:
                flow = miss(call, newer_than=entry.created, in_background=True)
                self._count_failure(await self._arun(call.make(), flow))
            except Exception:  # noqa: BLE001 (nobody waits for it: the first call after expiry computes itself)
                self._namespace.count("refresh_failed")

        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def wait(self) -> None:
        """Wait up to five seconds for each thread in the background."""
        for thread in list(self._threads):
            thread.join(_CLOSING)

    async def await_(self) -> None:
        """Wait up to five seconds for the tasks in the background, then `wait`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSING)
        await asyncio.to_thread(self.wait)

    def _run(self, fn: Callable[[], Any], flow: MissFlow) -> FlightResult:
        def do(step: MissStep) -> Any:
            match step:
                case Pause(length):
                    return time.sleep(length)
                case WaitFor(flight):
                    return None if flight.is_of_this_thread() else flight.result.result()
                case Compute():
                    return called(fn)
                case _:
                    return self._database.do(step)

        return flows.run(flow, do)

    async def _arun(self, fn: Callable[[], Any], flow: MissFlow) -> FlightResult:
        async def do(step: MissStep) -> Any:
            match step:
                case Pause(length):
                    return await asyncio.sleep(length)
                case WaitFor(flight):
                    return None if flight.waits_for_itself() else await asyncio.wrap_future(flight.result)
                case Compute():
                    return await acalled(fn)
                case _:
                    return await self._database.ado(step)

        return await flows.arun(flow, do)

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
    """The result of a function; a synchronous one runs in a thread, as it must not hold up the event loop."""
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004 (what the call returns matters)
        return await fn()
    value = await in_thread(fn)
    return await value if isinstance(value, Awaitable) else value
