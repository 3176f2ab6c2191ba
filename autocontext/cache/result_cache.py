"""The result cache: finds a tool's earlier result by its parameters, in this process or any other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Unpack, overload

from autocontext.cache import files, rows
from autocontext.cache.canonical import CacheKey
from autocontext.cache.invalidating import Selection, calling, invalidating, noting, purging
from autocontext.cache.memoizing import call_with, memoized
from autocontext.cache.misses import CachedCall, Computing, MakeFunction, value_of
from autocontext.cache.namespace import (
    CacheEntry,
    CacheNamespace,
    Match,
    call_key,
    check_key,
    completed,
    without_call_fields,
)
from autocontext.cache.options import CacheOptions, Seconds
from autocontext.cache.rows import fits, storing
from autocontext.cache.stats import CacheStats
from autocontext.cache.steps import computed, slow
from autocontext.cache.values import MISS, encoded
from autocontext.content import queries as contents
from autocontext.errors import StoreCorruptError, StoreError, UncacheableError
from autocontext.flows import Flow, compute, method, operation, sync_and_async
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import SERVER_NOW, Database, Read, Work, Write, read, write

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_Path = str | Path


class ResultCache(DatabasePart):
    """Results of one namespace, in a SQLite file, in memory, in PostgreSQL, or in an open Database.

    - `url`: a file path, ":memory:", a `postgresql://` URL, or an open Database, which stays open.
    - `namespace`: a text or a tuple such as (user_id, agent_id). A cache never sees results of another namespace.
    - `enabled`: False computes everything, and neither reads nor writes.
    - `default_ttl`: seconds a result lives; None means for ever.
    - `max_entries`, `max_bytes`: limits of the namespace; the least recently used results go first.
    - `large_bytes`: results of this size and more go to the content store of the same database.
    - `lease_seconds`: how long other processes wait for the one that computes before another takes over; None lets
      processes compute the same result at the same time.
    - `clock`: returns seconds since 1970.

    Each method has an asynchronous form whose name begins with `a`. Raises ConfigError and StoreError.
    """

    def __init__(
        self, url: Database | _Path = ":memory:", *, namespace: str | Sequence[str], enabled: bool = True,
        default_ttl: Seconds | None = None, max_entries: int | None = None, max_bytes: int | None = None,
        large_bytes: int = 32 * 1024, lease_seconds: Seconds | None = 60.0, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        # First, so that a wrong option opens nothing.
        self._namespace = CacheNamespace(
            namespace, default_ttl=default_ttl, max_entries=max_entries, max_bytes=max_bytes,
            lease_seconds=lease_seconds, large_bytes=large_bytes, clock=clock,
        )  # fmt: skip
        super().__init__(url if enabled else ":memory:", contents.SCHEMA, rows.SCHEMA)
        self._namespace.server_now = SERVER_NOW[self.database.dialect]
        self.enabled = enabled
        """Whether results are looked up and stored; otherwise the database is an empty one in memory."""
        self._computing = Computing(self.database)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> ResultCache:
        """A cache from a dict with the keys agent_id, supervisor_id, ltm_path and enable_ltm_cache.

        For agents that have such a configuration: see docs/from-the-originals.md. If `ltm_path` is a JSON file, its
        results are read once, and the file stays as it is; a damaged one raises StoreCorruptError. `options` are those
        of the class.
        """
        enabled = bool(config.get("enable_ltm_cache", True))
        database, path = files.places(config)
        cache = cls(database, namespace=files.namespace_of(config), enabled=enabled, **options)
        try:
            if path is not None and enabled:
                files.import_once(path, cache._namespace, cache.database)
        except BaseException:
            cache.close()
            raise
        return cache

    @property
    def namespace(self) -> tuple[str, ...]:
        """The parts of the namespace."""
        return tuple(json.loads(self._namespace.text))

    # ---------------------------------------------------------------------------------------------- single results
    def _get(self, key: CacheKey | str, default: Any = MISS) -> Flow[Any]:
        """The result of a key, a new copy for each caller; `default` if there is none or it has expired.

        A CacheKey finds a result only if it was computed from the same arguments. Raises StoreCorruptError for a
        damaged result.
        """
        check_key(key)
        if not self.enabled:
            return default  # and counts nothing: a miss is a result that was looked for
        entry: CacheEntry | None = yield Read(lambda: self._namespace.lookup(key))
        if entry is None or entry.kind == "error" or entry.expires <= self._namespace.now():
            self._namespace.count("misses")
            return default
        value = (yield from compute(entry.value)) if entry.is_large else entry.value()
        self._namespace.count("hits")
        if self._namespace.use(str(key)):
            yield from self._write_uses()
        return value

    get, aget = sync_and_async(_get)

    def _set(
        self, key: CacheKey | str, value: Any, *, ttl: Seconds | None = None, tags: Iterable[str] | str = ()
    ) -> Flow[bool]:
        """Store a result, replacing an older one; it is durable when this returns.

        `ttl` is in seconds (None: `default_ttl`); `tags` are names for `invalidate(tag=)`. Returns False if the
        cache is off or the result is larger than `max_bytes`. Raises UncacheableError if the result is not JSON.
        """

        def prepared() -> Callable[[], Work[bool]] | None:
            check_key(key)
            entry = self._namespace.entry(key, "value", encoded(value), completed({"ttl": ttl, "tags": tags}))
            return storing(self._namespace, entry) if fits(self._namespace, entry) else None

        work = yield slow(prepared, value)
        if work is None or not self.enabled:
            return False
        asking = calling.get()

        def noted() -> Work[None]:
            yield from work()
            if asking is not None:
                yield from noting(self._namespace, key, asking)

        yield Write(noted)
        self._namespace.count("stored")
        return True

    set, aset = sync_and_async(_set)

    def _delete(self, key: CacheKey | str) -> Flow[bool]:
        """Remove one result. Returns False if there is none."""
        return (yield from self._invalidate(key)) > 0

    delete, adelete = sync_and_async(_delete)

    # --------------------------------------------------------------------------------------------------- computing
    def get_or_compute(
        self, task: str, params: Mapping[str, Any], fn: Callable[..., R], **options: Unpack[CacheOptions]
    ) -> R:
        """The stored result of a task with these parameters; on a miss the result of `fn(**params)`, which is stored.

        However many threads, coroutines and processes ask at the same time, one calls `fn`. All get the JSON form of
        the result, on a hit and on a miss. Exceptions of `fn` are raised, and stored only if `cache_exceptions` names
        them. When parameters or result cannot be stored, each call computes. Parameters that begin with `_` belong to
        one call: they are not part of the key, `fn` does not get them, and a result that is a dict gets them as
        fields. `options` are those of `CacheOptions`. Raises ConfigError for a wrong option, and when `fn` does not
        take the parameters.
        """
        chosen = completed(options, per_call="_")
        result: R = self._answer(task, params, lambda: call_with(fn, params, chosen["per_call"]), chosen)
        return result

    async def aget_or_compute(
        self, task: str, params: Mapping[str, Any], fn: Callable[..., Any], **options: Unpack[CacheOptions]
    ) -> Any:
        """`get_or_compute` without blocking the event loop. `fn` may be asynchronous; otherwise it runs in a thread."""
        chosen = completed(options, per_call="_")
        return await self._aanswer(task, params, lambda: call_with(fn, params, chosen["per_call"]), chosen)

    @overload
    def memoize(self, name: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def memoize(
        self, name: str | None = None, **options: Unpack[CacheOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def memoize(
        self, name: Any = None, ttl: Any = None, ignore: Any = (), version: Any = None, quantize: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """A decorator for functions, synchronous or asynchronous, whose result depends on their arguments only.

        All spellings of a call share a result: `f(1)`, `f(x=1)`, and with defaults written out. `name` is the task,
        by default module and qualified name. `version` defaults to a hash of qualified name and source: a changed
        function computes again. `options` are those of `CacheOptions`. `f.cache_key(...)` returns the key of a call.
        Raises ConfigError for generators, for unknown parameter names, and for a function without source when there
        is no `version`.
        """
        chosen = completed({"ttl": ttl, "ignore": ignore, "version": version, "quantize": quantize, **options})
        if callable(name):
            return memoized(self._answer, self._aanswer, name, None, chosen)
        return lambda fn: memoized(self._answer, self._aanswer, fn, name, chosen)

    # ----------------------------------------------------------------------------------------------- invalidating
    def _invalidate(
        self, key: CacheKey | str | None = None, task: str | None = None, tag: str | None = None, *,
        prefix: str | None = None, namespace: str | Sequence[str] | None = None,
    ) -> Flow[int]:  # fmt: skip
        """Remove the results of one key, task or tag, whose keys begin with `prefix`, or of a namespace.

        Returns their number. `namespace` is this cache's own or one below it, and includes those below. A result that
        is being computed goes to the callers that wait for it, but is not stored. Raises ConfigError unless you pass
        exactly one.
        """
        own = self._namespace.text
        return (
            yield from self._removed(Selection.of(own, key=key, task=task, tag=tag, prefix=prefix, namespace=namespace))
        )

    invalidate, ainvalidate = sync_and_async(_invalidate)

    def _clear(self) -> Flow[int]:
        """Remove all results of this namespace, and what is noted of who asked, not of those below it.

        Returns the number of results.
        """
        return (yield from self._removed(Selection.everything(self._namespace.text)))

    clear, aclear = sync_and_async(_clear)

    def _discard(self, chosen: Callable[[CacheEntry], bool], *, marks: Collection[str] | None = None) -> Flow[int]:
        """Remove the results that a function chooses, expired ones and exceptions too. Returns their number.

        With `marks` (see `autocontext.cache.marks`) it is asked only about results that may have one of them.
        """
        entries = yield from read(
            lambda: rows.every(self._namespace, whole=True) if marks is None else rows.marked(self._namespace, marks)
        )
        keys = yield from compute(lambda: [entry.key for entry in entries if chosen(entry)])
        removed = 0
        for key in keys:
            removed += yield from self._invalidate(key)
        return removed

    discard, adiscard = sync_and_async(_discard)

    def _purge_expired(self) -> Flow[int]:
        """Remove expired results from the database. Returns their number."""
        return (yield from write(lambda: purging(self._namespace)))

    purge_expired, apurge_expired = sync_and_async(_purge_expired)

    # ------------------------------------------------------------------------------------------------------- others
    def _stats(self) -> Flow[CacheStats]:
        """What the namespace holds, and how often it helped this process."""
        ns = self._namespace
        entries, size, _ = yield from read(lambda: rows.totals(ns.text, 0))
        return ns.stats(entries, size)

    stats, astats = sync_and_async(_stats)

    def _export_json(self, path: _Path) -> Flow[int]:
        """Write all results to a JSON file, `{"tasks": {key: result}}`, in one step. Returns their number."""
        entries = yield from read(lambda: rows.every(self._namespace))
        return (yield from compute(lambda: files.write(Path(path), entries)))

    export_json, aexport_json = sync_and_async(_export_json)

    def _import_json(self, path: _Path, *, on_corrupt: Literal["raise", "quarantine"] = "raise") -> Flow[int]:
        """Store the results of such a file, all or none. Returns their number.

        A damaged file raises StoreCorruptError and stays as it is. With `on_corrupt="quarantine"` it is renamed
        instead, with a warning, and 0 is returned.
        """
        entries = yield from compute(lambda: files.read(Path(path), self._namespace, on_corrupt=on_corrupt))
        if not entries or not self.enabled:
            return 0
        yield Write((yield from compute(lambda: files.importing(self._namespace, entries))))
        self._namespace.count("stored", len(entries))
        return len(entries)

    import_json, aimport_json = sync_and_async(_import_json)

    def _close(self) -> Flow[None]:
        """Wait up to five seconds for computations in the background; close the database if this cache opened it."""
        if not self.database.closed:
            yield operation(self._computing.wait, self._computing.await_)
            yield Write(self._namespace.write_uses)
            yield method(super(), "close")

    close, aclose = sync_and_async(_close)

    # -------------------------------------------------------------------------------------------------------- inner
    def _find(self, task: str, params: Mapping[str, Any], make: MakeFunction, options: CacheOptions) -> Flow[Any]:
        """The result of a call; `make` returns the function to call on a miss."""
        call: CachedCall | None = yield slow(lambda: self._call(task, params, make, options), params)
        if call is None:
            return _with_call_fields((yield computed(make())), params, options)
        try:
            if (asking := call.tool_call) is not None:  # before anything is stored
                yield Write(lambda: noting(self._namespace, call.key, asking))
            entry: CacheEntry | None = yield Read(lambda: self._namespace.lookup(call.key))
        except (StoreError, StoreCorruptError) as error:
            if self.database.closed:
                raise
            self._namespace.failed(error)
            return _with_call_fields((yield computed(make())), params, options)
        ns, large = self._namespace, entry is not None and entry.is_large
        found = partial(ns.match, entry, options)
        match: Match | None = (yield from compute(found)) if large else found()
        ns.count("misses" if match is None else "hits")
        if match is None:
            return _with_call_fields(value_of((yield method(self._computing, "miss", call))), params, options)
        if match.stale:
            ns.count("stale")
        if match.due:
            again = call._replace(known=match.entry.created, in_background=True)
            yield method(self._computing, "refresh", again)
        if ns.use(str(call.key)):
            yield from self._write_uses()
        if match.entry.kind == "error":
            raise match.result
        return _with_call_fields(match.result, params, options)

    _answer, _aanswer = sync_and_async(_find)

    def _call(
        self, task: str, params: Mapping[str, Any], make: MakeFunction, options: CacheOptions
    ) -> CachedCall | None:
        """What to look up; None if this call cannot be cached."""
        if not self.enabled:
            return None
        try:
            key = call_key(task, params, options)
        except UncacheableError:
            self._namespace.count("uncacheable")
            return None
        return CachedCall(key, make, options, self._namespace, self._computing.flights, tool_call=calling.get())

    def _write_uses(self) -> Flow[None]:
        """Write the notes of hits; what fails is tried again with later ones."""
        try:
            yield Write(self._namespace.write_uses)
        except StoreError as error:
            self._namespace.failed(error)

    def _removed(self, selection: Selection) -> Flow[int]:
        return (yield from write(lambda: invalidating(self._namespace, selection)))


def _with_call_fields(value: Any, params: Mapping[str, Any], options: CacheOptions) -> Any:
    """A dict result with the per-call fields of this call instead of those of the call that computed it."""
    prefix = options["per_call"]
    if prefix is None or not isinstance(value, dict):
        return value
    own = {name: item for name, item in params.items() if name.startswith(prefix)}
    return without_call_fields(value, prefix) | own
