"""The result cache: what a tool once computed is found again by its parameters, in this process or any other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

from autocontext.asking import in_thread
from autocontext.cache import files, rows
from autocontext.cache.computing import Computing
from autocontext.cache.functions import calling
from autocontext.cache.invalidating import Choice, invalidating, purging
from autocontext.cache.memoized import memoized
from autocontext.cache.options import CallOptions, Options, Seconds
from autocontext.cache.rows import Entry
from autocontext.cache.shelf import CacheStats, Shelf, wanted
from autocontext.cache.values import MISS, decoded, encoded
from autocontext.canonical import CacheKey
from autocontext.content import queries as contents
from autocontext.errors import StoreCorruptError
from autocontext.stores.closing import Closing
from autocontext.stores.database import Database, open_database

P = ParamSpec("P")
R = TypeVar("R")
_Path = str | Path


class ResultCache(Closing):
    """Results of one namespace, in a SQLite file, in memory, in PostgreSQL, or in an open Database.

    `namespace` is a text or a tuple such as (user_id, agent_id); nothing of another namespace is ever seen. With
    `enabled=False` everything is computed, nothing is read or written. `default_ttl` is in seconds, None for ever.
    Over `max_entries` or `max_bytes` the least recently used results go. Results of `large_bytes` and more are kept in
    the content store of the same database. `lease_seconds` is how long other processes wait for one that computes
    before one of them computes too; None lets processes compute apart. `clock` gives seconds since 1970. Each method
    has an asynchronous twin with an `a` before its name. Raises ConfigError and StoreError.
    """

    def __init__(
        self, path_or_url: Database | _Path = ":memory:", *, namespace: str | Sequence[str], enabled: bool = True,
        default_ttl: Seconds | None = None, max_entries: int | None = None, max_bytes: int | None = None,
        large_bytes: int = 32 * 1024, lease_seconds: Seconds | None = 60.0, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._shelf = Shelf(
            namespace, default_ttl=default_ttl, max_entries=max_entries, max_bytes=max_bytes,
            lease_seconds=lease_seconds, large_bytes=large_bytes, clock=clock,
        )  # fmt: skip
        self._owns = not isinstance(path_or_url, Database)
        self._database = open_database(path_or_url) if enabled else None
        if self._database is not None:
            self._database.ensure(contents.SCHEMA)
            self._database.ensure(rows.SCHEMA)
        self._computing = Computing(self._shelf, self._database)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> ResultCache:
        """A cache by the settings of the original: agent_id, supervisor_id, ltm_path (a folder), enable_ltm_cache."""
        return cls(files.place(config), namespace=files.namespace(config), enabled=files.enabled(config), **options)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The parts of the namespace."""
        return tuple(json.loads(self._shelf.ns))

    @property
    def enabled(self) -> bool:
        """Whether results are looked up and stored."""
        return self._database is not None

    # ---------------------------------------------------------------------------------------------- single results
    def get(self, key: CacheKey | str, default: Any = MISS) -> Any:
        """The result under a key, made anew for each caller; `default` when there is none or its time is over.

        A CacheKey finds only what was computed from its very arguments. Raises StoreCorruptError when the stored text
        cannot be read back.
        """
        if self._database is None:
            return default
        place = wanted(key)
        entry = self._database.read(lambda: rows.lookup(self._shelf.ns, place, self._shelf.now()))
        value = self._result(entry, default)
        if entry is not None and self._shelf.use(place.key):
            self._database.write(self._shelf.noting_uses)
        return value

    async def aget(self, key: CacheKey | str, default: Any = MISS) -> Any:
        """`get` without blocking the event loop."""
        if self._database is None:
            return default
        place = wanted(key)
        entry = await self._database.aread(lambda: rows.lookup(self._shelf.ns, place, self._shelf.now()))
        value = self._result(entry, default)
        if entry is not None and self._shelf.use(place.key):
            await self._database.awrite(self._shelf.noting_uses)
        return value

    def set(
        self, key: CacheKey | str, value: Any, *, ttl: Seconds | None = None, tags: Iterable[str] | str = ()
    ) -> bool:
        """Store a result in place of what is under the key; durable when this returns.

        False when the cache is off, or the result is larger than all of `max_bytes`. Raises UncacheableError when it
        is no JSON.
        """
        entry = self._made(key, value, ttl, tags)
        if self._database is None or entry is None:
            return False
        self._database.write(self._shelf.storing(entry))
        self._shelf.count("stored")
        return True

    async def aset(
        self, key: CacheKey | str, value: Any, *, ttl: Seconds | None = None, tags: Iterable[str] | str = ()
    ) -> bool:
        """`set` without blocking the event loop."""
        entry = self._made(key, value, ttl, tags)
        if self._database is None or entry is None:
            return False
        await self._database.awrite(self._shelf.storing(entry))
        self._shelf.count("stored")
        return True

    def delete(self, key: CacheKey | str) -> bool:
        """Remove one result; False when there is none."""
        return self.invalidate(key) > 0

    async def adelete(self, key: CacheKey | str) -> bool:
        """`delete` without blocking the event loop."""
        return await self.ainvalidate(key) > 0

    # --------------------------------------------------------------------------------------------------- computing
    def get_or_compute(
        self, task: str, params: Mapping[str, Any], fn: Callable[..., R], **options: Unpack[CallOptions]
    ) -> R:
        """The result of a task with these parameters: the stored one, or `fn` is called, and its result is stored.

        `fn` gets the parameters by name if it takes them, or none. However many threads, coroutines and processes ask
        at the same time, one computes. What is returned is always the stored form, so that a hit and a miss cannot be
        told apart. Exceptions of `fn` are raised and not stored. With parameters or results that cannot be stored, `fn`
        is called each time. Parameters that begin with `_` belong to one call: they are not in the key, and stand in
        a result that is a dict. The options are the fields of `Options`.
        """
        options.setdefault("per_call", "_")
        chosen = Options(**options)
        result: R = self._computing.get(task, params, lambda: calling(fn, params, chosen.per_call), chosen)
        return result

    async def aget_or_compute(
        self, task: str, params: Mapping[str, Any], fn: Callable[..., Any], **options: Unpack[CallOptions]
    ) -> Any:
        """`get_or_compute` without blocking the event loop; `fn` may be asynchronous, another runs in a thread."""
        options.setdefault("per_call", "_")
        chosen = Options(**options)
        return await self._computing.aget(task, params, lambda: calling(fn, params, chosen.per_call), chosen)

    @overload
    def memoize(self, name: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def memoize(
        self, name: str | None = None, **options: Unpack[CallOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def memoize(
        self, name: Any = None, ttl: Any = None, ignore: Any = (), version: Any = None, quantize: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """A decorator for functions, synchronous or asynchronous, whose results depend on their arguments only.

        All spellings of a call share a result: `f(1)`, `f(x=1)`, and with defaults written out. `name` is the task
        (default: module and qualified name), `version` defaults to a hash of the source. `cache_key(...)` of the
        decorated function gives the key of a call. Raises ConfigError for generators and unknown parameter names.
        """
        chosen = Options(ttl=ttl, ignore=ignore, version=version, quantize=quantize, **options)
        if callable(name):
            return memoized(self._computing, name, None, chosen)
        return lambda fn: memoized(self._computing, fn, name, chosen)

    # ----------------------------------------------------------------------------------------------- invalidating
    def invalidate(
        self, key: CacheKey | str | None = None, task: str | None = None, tag: str | None = None, *,
        prefix: str | None = None, namespace: str | Sequence[str] | None = None,
    ) -> int:  # fmt: skip
        """Remove the results of one key, one task, one tag, one beginning of keys, or one namespace; how many.

        The namespace is this cache's own or one below it. What is being computed meanwhile is returned to its callers
        but not stored. Raises ConfigError unless exactly one is named.
        """
        choice = Choice.of(self._shelf.ns, key=key, task=task, tag=tag, prefix=prefix, namespace=namespace)
        return 0 if self._database is None else self._database.write(invalidating(self._shelf, choice))

    async def ainvalidate(
        self, key: CacheKey | str | None = None, task: str | None = None, tag: str | None = None, *,
        prefix: str | None = None, namespace: str | Sequence[str] | None = None,
    ) -> int:  # fmt: skip
        """`invalidate` without blocking the event loop."""
        choice = Choice.of(self._shelf.ns, key=key, task=task, tag=tag, prefix=prefix, namespace=namespace)
        return 0 if self._database is None else await self._database.awrite(invalidating(self._shelf, choice))

    def purge_expired(self) -> int:
        """Free the space of results whose time is over; how many they were."""
        return 0 if self._database is None else self._database.write(purging(self._shelf))

    async def apurge_expired(self) -> int:
        """`purge_expired` without blocking the event loop."""
        return 0 if self._database is None else await self._database.awrite(purging(self._shelf))

    # ------------------------------------------------------------------------------------------------------- others
    def stats(self) -> CacheStats:
        """What the namespace holds, and how often it helped this process."""
        held = (0, 0) if self._database is None else self._database.read(lambda: rows.extent(self._shelf.ns))
        return self._shelf.stats(*held)

    async def astats(self) -> CacheStats:
        """`stats` without blocking the event loop."""
        held = (0, 0) if self._database is None else await self._database.aread(lambda: rows.extent(self._shelf.ns))
        return self._shelf.stats(*held)

    def export_json(self, path: _Path) -> int:
        """Write all results as the original's `{"tasks": {key: result}}`, atomically; how many they are."""
        now = self._shelf.now()
        entries = [] if self._database is None else self._database.read(lambda: rows.every(self._shelf.ns, now))
        return files.write(Path(path), entries)

    def import_json(self, path: _Path, *, on_corrupt: Literal["raise", "quarantine"] = "raise") -> int:
        """Read such a file into the cache, all or nothing; how many results it has.

        Raises StoreCorruptError when it is damaged and leaves it untouched; with `on_corrupt="quarantine"` it is
        renamed, a warning says so, and 0 is returned.
        """
        found = files.read(Path(path), self._shelf, quarantine=files.quarantines(on_corrupt))
        if self._database is None or not found:
            return 0
        self._database.write(files.importing(found))
        self._shelf.count("stored", len(found))
        return len(found)

    async def aexport_json(self, path: _Path) -> int:
        """`export_json` without blocking the event loop."""
        now = self._shelf.now()
        entries = [] if self._database is None else await self._database.aread(lambda: rows.every(self._shelf.ns, now))
        return await in_thread(lambda: files.write(Path(path), entries))

    async def aimport_json(self, path: _Path, *, on_corrupt: Literal["raise", "quarantine"] = "raise") -> int:
        """`import_json` without blocking the event loop."""
        quarantine = files.quarantines(on_corrupt)
        found = await in_thread(lambda: files.read(Path(path), self._shelf, quarantine=quarantine))
        if self._database is None or not found:
            return 0
        await self._database.awrite(files.importing(found))
        self._shelf.count("stored", len(found))
        return len(found)

    def close(self) -> None:
        """Wait a moment for computations in the background, note what was used, and close what this cache opened."""
        self._computing.wait()
        if self._database is not None:
            self._database.write(self._shelf.noting_uses)
            if self._owns:
                self._database.close()

    async def aclose(self) -> None:
        """`close` for asynchronous callers."""
        await self._computing.await_()
        if self._database is not None:
            await self._database.awrite(self._shelf.noting_uses)
            if self._owns:
                await self._database.aclose()

    def _made(self, key: CacheKey | str, value: Any, ttl: Seconds | None, tags: Iterable[str] | str) -> Entry | None:
        wanted(key)
        entry = self._shelf.entry(key, "value", encoded(value), Options(ttl=ttl, tags=tags))
        return entry if self._shelf.fits(entry) else None

    def _result(self, entry: Entry | None, default: Any) -> Any:
        if entry is None or entry.kind == "error" or entry.expires <= self._shelf.now():
            self._shelf.count("misses")
            return default
        if entry.kind == "corrupt":
            raise StoreCorruptError(entry.body)
        value = decoded(entry.body, entry.key)
        self._shelf.count("hits")
        return value
