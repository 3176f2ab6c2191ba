"""Looks a call's result up and gets it computed when it is not there, for threads and for coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from autocontext.cache import rows
from autocontext.cache.driving import acalled, arun, called, run
from autocontext.cache.flights import Flights, Landing, Outcome
from autocontext.cache.flow import Call, Found, Make, judged, missed, shared_part
from autocontext.cache.options import Options
from autocontext.cache.rows import Entry
from autocontext.cache.shelf import Shelf, wanted
from autocontext.cache.values import decoded
from autocontext.errors import UncacheableError
from autocontext.stores.database import Database

_CLOSING = 5.0
"""Seconds for which closing waits for computations in the background."""


class Computing:
    """Gets results of one shelf; without a database each call computes."""

    def __init__(self, shelf: Shelf, database: Database | None) -> None:
        self._shelf, self._database = shelf, database
        self._flights = Flights()
        self._threads: set[threading.Thread] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, task: str, params: Mapping[str, Any], make: Make, options: Options) -> Any:
        """The stored result, or that of the function that `make` makes, with what belongs to this call."""
        call = self._call(task, params, make, options)
        if call is None or self._database is None:
            return _with_own(called(make()), params, options)
        place, shelf = call.wanted, self._shelf
        entry = self._database.read(lambda: rows.lookup(shelf.ns, place, shelf.now()))
        found = self._found(call, entry)
        if found is None:
            return _with_own(_given(run(missed(call), call, self._database)), params, options)
        if found.due and entry is not None:
            self._refresh_in_thread(call, entry, self._database)
        if shelf.use(place.key):
            self._database.write(shelf.noting_uses)
        return _with_own(found.given(), params, options)

    async def aget(self, task: str, params: Mapping[str, Any], make: Make, options: Options) -> Any:
        """`get` for coroutines."""
        call = self._call(task, params, make, options)
        if call is None or self._database is None:
            return _with_own(await acalled(make()), params, options)
        place, shelf = call.wanted, self._shelf
        entry = await self._database.aread(lambda: rows.lookup(shelf.ns, place, shelf.now()))
        found = self._found(call, entry)
        if found is None:
            return _with_own(_given(await arun(missed(call), call, self._database)), params, options)
        if found.due and entry is not None:
            task_ = asyncio.get_running_loop().create_task(self._arefresh(call, entry, self._database))
            self._tasks.add(task_)
            task_.add_done_callback(self._tasks.discard)
        if shelf.use(place.key):
            await self._database.awrite(shelf.noting_uses)
        return _with_own(found.given(), params, options)

    def wait(self) -> None:
        """Wait a few seconds for what is computed in threads in the background."""
        for thread in list(self._threads):
            thread.join(_CLOSING)

    async def await_(self) -> None:
        """Wait a few seconds for what is computed in the background."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSING)
        await asyncio.to_thread(self.wait)

    def _call(self, task: str, params: Mapping[str, Any], make: Make, options: Options) -> Call | None:
        """What to look for; None when this call can be neither found nor stored."""
        if self._database is None:
            return None
        try:
            key = options.key(task, params)
        except UncacheableError:
            self._shelf.count("uncacheable")
            return None
        return Call(key, wanted(key), make, options, self._shelf, self._flights)

    def _found(self, call: Call, entry: Entry | None) -> Found | None:
        now = self._shelf.now()
        found = judged(entry, call.options, now)
        self._shelf.count("misses" if found is None else "hits")
        if found is not None and entry is not None and entry.expires <= now:
            self._shelf.count("stale")
        return found

    def _refresh_in_thread(self, call: Call, entry: Entry, database: Database) -> None:
        def refresh() -> None:
            try:
                self._refreshed(run(missed(call, newer_than=entry.created, behind=True), call, database))
            except Exception:  # noqa: BLE001 (nobody waits for it: the next call after the end computes itself)
                self._shelf.count("refresh_failed")
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=refresh, name="autocontext cache", daemon=True)
        self._threads.add(thread)
        thread.start()

    async def _arefresh(self, call: Call, entry: Entry, database: Database) -> None:
        try:
            self._refreshed(await arun(missed(call, newer_than=entry.created, behind=True), call, database))
        except Exception:  # noqa: BLE001 (nobody waits for it: the next call after the end computes itself)
            self._shelf.count("refresh_failed")

    def _refreshed(self, outcome: Outcome) -> None:
        if outcome.landing is Landing.ERROR:
            self._shelf.count("refresh_failed")


def _given(outcome: Outcome) -> Any:
    if outcome.landing is Landing.ERROR:
        raise outcome.value
    return outcome.value if outcome.landing is Landing.PRIVATE else decoded(outcome.body, "a result")


def _with_own(value: Any, params: Mapping[str, Any], options: Options) -> Any:
    """A result that is a dict, with the fields that belong to one call exchanged for those of this one."""
    prefix = options.per_call
    if prefix is None or not isinstance(value, dict):
        return value
    own = {name: item for name, item in params.items() if name.startswith(prefix)}
    return shared_part(value, prefix) | own
