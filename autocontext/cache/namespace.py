"""One namespace of a cache: looks up results and decides whether they are still valid.

An entry belongs to a namespace and key, and counts only if it was computed from the same task, version and arguments.
Times in the database are milliseconds since 1970. Ticks are microseconds since 1970, no two of a process the same; they
order entries by their last use.
"""

from __future__ import annotations

import json
import math
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from autocontext.cache.canonical import CacheKey, canonical_key, text_of
from autocontext.cache.options import DEFAULTS, CacheOptions, Seconds, check_options, seconds, tag_list
from autocontext.cache.stats import FIGURES, CacheStats
from autocontext.cache.values import rebuilt_error
from autocontext.content import queries as contents
from autocontext.content.contents import FOREVER, Pages
from autocontext.content.paging import unpack
from autocontext.errors import AutoContextError, ConfigError, StoreCorruptError
from autocontext.flows.forking import fork_lock
from autocontext.flows.logs import logger
from autocontext.stores.checks import LONGEST, check_whole
from autocontext.stores.database import Statement, Work, safe, unsafe
from autocontext.stores.records import check_row, text_hash

_log = logger("autocontext.cache")
_USES_IN_MEMORY = 1024
"""Number of hits whose times are kept in memory before they are written together."""
_SKEW = 300_000
"""Milliseconds by which the clocks of hosts may differ."""
_LARGE = 128 * 1024
"""Characters of JSON that take about a millisecond to read."""


class CacheEntry(NamedTuple):
    """One stored result, and what it was computed from."""

    key: str
    task: str
    version: str
    args: str
    """Canonical JSON of the arguments; "" under a key that the caller chose."""
    kind: str
    """`value`, `error`, `content` (a value in the content store) or `corrupt` (a damaged one there)."""
    body: str
    """JSON; of a `content` its SHA-256, or "" from earlier versions."""
    cost: int
    """Microseconds of computing time."""
    created: int
    expires: int
    gone: int
    """The time after which it may not be returned even while a new one is computed."""
    checksum: str | None = None
    """Over the columns before; None in rows of earlier versions."""
    used: int = 0
    size: int = 0
    tags: str = "[]"
    marks: str | None = None
    """What erasing finds it by (see `marks`); None: erasing looks at the entry itself."""
    pages: Pages | None = None
    """Not a column: the text of a `content`."""

    def is_ahead(self, now: int) -> bool:
        """Whether it is void: stored by a clock that was ahead by more than its ttl, and more than clocks differ."""
        return self.created - now > max(self.expires - self.created, _SKEW)

    @property
    def is_large(self) -> bool:
        """Whether `value` takes milliseconds."""
        return self.pages is not None or len(self.body) > _LARGE

    def text(self) -> str:
        """The result as JSON. Raises StoreCorruptError when it cannot be read."""
        if self.kind == "corrupt":
            raise StoreCorruptError(self.body)
        if self.pages is None:
            return self.body
        text = unpack(self.pages.content.ref, self.pages.bodies)
        if self.body not in ("", text_hash(text)):
            raise StoreCorruptError(f"{self.key}: its text is not the one that was stored; delete(key) removes it")
        return text

    def value(self) -> Any:
        """The result, a new copy at each call. Raises StoreCorruptError when it cannot be read."""
        text = self.text()
        try:
            return json.loads(text)
        except ValueError as error:
            raise StoreCorruptError(f"{self.key} cannot be read ({error}); delete(key) removes it") from None


class Match(NamedTuple):
    """A stored result that answers a call."""

    entry: CacheEntry
    result: Any
    """The value; of a stored exception, the exception."""
    stale: bool
    due: bool
    """Recompute it in the background."""


class CacheNamespace:
    """The clock, limits and counters of one namespace; `lookup`, `match` and `entry` read and create entries."""

    server_now: str
    """SQL for the server's time in milliseconds since 1970; set once the cache has opened its database."""

    def __init__(
        self, namespace: str | Sequence[str], *, default_ttl: Seconds | None, max_entries: int | None,
        max_bytes: int | None, lease_seconds: Seconds | None, large_bytes: int, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.text = namespace_text(namespace)
        self.lease = (
            None if lease_seconds is None else round(min(seconds(lease_seconds, "lease_seconds"), LONGEST) * 1000)
        )
        """Milliseconds; None when processes do not wait for each other."""
        if default_ttl is not None:
            seconds(default_ttl, "default_ttl")
        self._default_ttl = default_ttl
        for field, limit in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            check_whole(field, limit, 1, none="no limit")
        self.max_entries = FOREVER if max_entries is None else max_entries
        self.max_bytes = FOREVER if max_bytes is None else max_bytes
        self.limited = (max_entries, max_bytes) != (None, None)
        self.large_bytes, self._clock = large_bytes, clock
        self._unchecked = FOREVER, FOREVER
        """Entries and bytes stored since the limits were last checked. At first more than any limit."""
        self._lock = fork_lock()
        self._last_tick = 0
        self._uses: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._holder = uuid.uuid4().hex

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def tick(self) -> int:
        """Microseconds since 1970, more at each call."""
        with self._lock:
            self._last_tick = max(self._last_tick + 1, int(self._clock() * 1_000_000))
            return self._last_tick

    def holder(self) -> str:
        """A new name for a computation, unique among all processes."""
        return f"{self._holder}-{os.getpid()}-{self.tick()}"  # with the process, as a child has the same `_holder`

    # ------------------------------------------------------------------------------------------------------- reading
    def lookup(self, key: CacheKey | str) -> Work[CacheEntry | None]:
        """The entry of a key, expired or not; of a CacheKey only one that was computed from the same."""
        rows = yield Statement(_LOOKUP, {"ns": self.text, "key": safe(str(key))})
        if not rows:
            return None
        entry = CacheEntry(*rows[0])
        if isinstance(key, CacheKey) and entry[1:4] != (safe(key.task), key.version, key.args):
            return None
        if entry.is_ahead(self.now()):
            return None
        return (yield from self.completed(entry))

    def completed(self, entry: CacheEntry) -> Work[CacheEntry | None]:
        """A stored entry with its text; `corrupt` if it is damaged, None if its text is gone."""
        try:
            check_row(entry.key, entry.checksum, self.text, *entry[:CHECKED])
            if entry.kind == "content":
                space, key = content_space(self.text), content_key(unsafe(entry.key))
                pages = yield from contents.read(space, key, 0, None, self.now())
                if pages is None:
                    return None
                entry = entry._replace(pages=pages)
        except StoreCorruptError as error:
            self._tell(error)
            return entry._replace(kind="corrupt", body=f"{error}; delete(key) removes it")
        return entry

    def _tell(self, error: StoreCorruptError) -> None:
        self.count("damaged")
        _log.warning("%s: %s", self.text, error)

    def failed(self, error: AutoContextError) -> None:
        """Count and tell that the database did not take something, which costs a computation and no result."""
        self.count("unstored")
        _log.warning("%s: a result was not stored: %s", self.text, error)

    def match(self, entry: CacheEntry | None, options: CacheOptions) -> Match | None:
        """The result to return from an entry; None when there is none to return now."""
        if entry is None or entry.kind == "corrupt":
            return None
        now = self.now()
        stale = entry.expires <= now
        if stale and (options["stale_while_revalidate"] is None or entry.gone <= now):
            return None
        try:
            result = entry.value()
        except StoreCorruptError as damage:
            self._tell(damage)
            return None  # computing replaces it
        if entry.kind == "error":
            error = rebuilt_error(result, options["cache_exceptions"])
            return None if error is None else Match(entry, error, stale, due=stale)
        beta = options["early_beta"]
        # Vattani et al., VLDB 2015, algorithm XFetch: now - cost * beta * log(random) >= expiry.
        due = stale or (
            beta is not None and now - entry.cost / 1000 * beta * math.log(1.0 - random.random()) >= entry.expires
        )
        return Match(entry, result, stale, due)

    def use(self, key: str) -> bool:
        """Note the use of an entry if there are limits; returns whether to call `write_uses`."""
        if not self.limited:
            return False
        tick = self.tick()
        with self._lock:
            self._uses[key] = tick
            return len(self._uses) >= _USES_IN_MEMORY

    def limits_due(self, size: int, spare: tuple[int, int]) -> bool:
        """Count a stored entry; returns whether more than these entries or bytes were stored since the last check."""
        with self._lock:
            entries, total = self._unchecked[0] + 1, self._unchecked[1] + size
            due = entries > spare[0] or total > spare[1]
            # Reset now: entries that others store meanwhile count for the next check.
            self._unchecked = (0, 0) if due else (entries, total)
            return due

    def write_uses(self) -> Work[None]:
        """Write the noted uses."""
        with self._lock:
            uses = sorted(self._uses.items())
        if uses:
            yield Statement(
                "UPDATE autocontext_cache SET used = :used WHERE namespace = :ns AND key = :key AND used < :used",
                [{"ns": self.text, "key": safe(key), "used": tick} for key, tick in uses],
            )
        with self._lock:  # deleted last, because the transaction may be repeated
            for key, tick in uses:
                if self._uses.get(key) == tick:
                    del self._uses[key]

    # ------------------------------------------------------------------------------------------------------ counting
    def count(self, name: str, by: int = 1) -> None:
        """Count an event for `stats`."""
        with self._lock:
            self._counts[name] += by

    def stats(self, entries: int, size: int) -> CacheStats:
        """The counts, together with the entries and bytes of the namespace."""
        with self._lock:
            return CacheStats(entries=entries, bytes=size, **{name: self._counts[name] for name in FIGURES[2:]})

    # ------------------------------------------------------------------------------------------------------- writing
    def entry(
        self, key: CacheKey | str, kind: str, body: str, options: CacheOptions, *, cost: float = 0.0
    ) -> CacheEntry:
        """A new entry, created now; `cost` is in seconds."""
        now, stale, ttl = self.now(), options["stale_while_revalidate"], options["ttl"]
        if kind == "error":
            stale, ttl = None, options["exception_ttl"]
        expires = _after(now, self._default_ttl if ttl is None else ttl)
        gone = expires if stale is None else _after(expires, stale)
        name = str(key)
        if isinstance(key, CacheKey):
            task, version, args = key.task, key.version, key.args
        else:  # in the form in which `invalidate` looks for a task
            task, version, args = text_of(key.partition(":")[0]), "", ""
        return CacheEntry(
            name, task, version, args, kind, body, round(cost * 1_000_000), now, expires, gone,
            None, self.tick(), len(name) + len(args) + len(body), json.dumps(tag_list(options["tags"])),
        )  # fmt: skip


COLUMNS = CacheEntry._fields[:-1]
CHECKED = 10
"""So many columns the checksum covers, after the namespace: all but those that change, and what only lists need."""
_LOOKUP = f"SELECT {', '.join(COLUMNS[: CHECKED + 1])} FROM autocontext_cache WHERE namespace = :ns AND key = :key"


def content_space(namespace: str) -> str:
    """The content store's namespace for large results, separate from those of users."""
    return f"autocontext.cache:{namespace}"


def content_key(key: str) -> str:
    """The content store's key of a large result; it never looks like a handle."""
    return f"result:{key}"


def check_key(key: object) -> None:
    """Raise ConfigError for what is not a key."""
    if not isinstance(key, CacheKey | str) or not key:
        raise ConfigError(f"key: give a CacheKey or a text that is not empty (got {type(key).__name__})")


def namespace_text(namespace: str | Sequence[str]) -> str:
    """A namespace as one text. Raises ConfigError unless each part is a text that is not empty."""
    parts = [namespace] if isinstance(namespace, str) else list(namespace) if isinstance(namespace, Sequence) else []
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise ConfigError("namespace: give a text or a tuple of texts, none empty, e.g. (user_id, agent_id)")
    return json.dumps(parts)


def without_call_fields(value: Any, prefix: str | None) -> Any:
    """A result without the fields that belong to one call."""
    if prefix is None or not isinstance(value, dict):
        return value
    return {name: item for name, item in value.items() if not (isinstance(name, str) and name.startswith(prefix))}


# ----------------------------------------------------------------------------------------------------------- options
def completed(options: Mapping[str, object], **defaults: object) -> CacheOptions:
    """The options with defaults for the rest. Raises ConfigError that names a wrong value, TypeError for its name."""
    merged = cast("CacheOptions", {**DEFAULTS, **defaults, **options})
    if options:
        check_options(merged)
    return merged


def call_key(task: str, params: Mapping[str, Any], options: CacheOptions) -> CacheKey:
    """The key of a call, without the parameters of this call only. Raises UncacheableError, ConfigError."""
    prefix, normalizer = options["per_call"], options["normalizer"]
    if prefix is not None and [name for name in params if str(name).startswith(prefix)]:
        params = {name: value for name, value in params.items() if not str(name).startswith(prefix)}
    if normalizer is not None:
        params = normalizer(dict(params))
    return canonical_key(
        task,
        params,
        ignore=options["ignore"],
        quantize=options["quantize"],
        version=options["version"],
        hashed=options["hashed"],
        float_digits=options["float_digits"],
    )


def _after(start: int, length: Seconds | None) -> int:
    duration = math.inf if length is None else seconds(length, "ttl")
    return FOREVER if duration * 1000 >= FOREVER - start else start + max(1, round(duration * 1000))
