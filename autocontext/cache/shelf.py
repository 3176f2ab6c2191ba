"""What one cache knows besides its rows: namespace, clock and limits, what was used when, and how often it helped."""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from autocontext.cache import leases, rows
from autocontext.cache.options import Options, seconds, tags_of
from autocontext.cache.rows import Entry, Room, Wanted
from autocontext.canonical import CacheKey
from autocontext.content.contents import FOREVER, About, Put
from autocontext.content.paging import packed
from autocontext.errors import ConfigError
from autocontext.stores.database import Work

_SLACK = 64
"""Limits are checked once in so many times the room that is left, so that a write need not count all entries."""
_TOUCHED = 1024
"""Uses that are noted in memory before they are written down together; a hit by itself writes nothing."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds, and how it did in this process since it was opened; `stats["hits"]` is `stats.hits`."""

    entries: int
    bytes: int
    hits: int
    misses: int
    stale: int
    """Hits that were past their end."""
    computed: int
    waited: int
    """Calls that got what another one computed at that time."""
    stored: int
    evicted: int
    uncacheable: int
    """Calls whose arguments or result cannot be stored; they compute each time."""
    refresh_failed: int

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that found something; 0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def __getitem__(self, name: str) -> int:
        if name not in _COUNTED:
            raise KeyError(name)
        return int(getattr(self, name))


_COUNTED = tuple(field.name for field in fields(CacheStats))


class Shelf:
    """One namespace of a cache; makes the transactions, and leaves running them to its owner."""

    def __init__(
        self, namespace: str | Sequence[str], *, default_ttl: Any, max_entries: int | None, max_bytes: int | None,
        lease_seconds: Any, large_bytes: int, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.ns = namespace_text(namespace)
        self.lease = None if lease_seconds is None else round(seconds(lease_seconds, "lease_seconds") * 1000)
        self._default_ttl = default_ttl
        if default_ttl is not None:
            seconds(default_ttl, "default_ttl")
        self._max_entries = _limit(max_entries, "max_entries")
        self._max_bytes = _limit(max_bytes, "max_bytes")
        self._slack = Room((self._max_entries or 0) // _SLACK, (self._max_bytes or 0) // _SLACK)
        self._large_bytes, self._clock = large_bytes, clock
        self._lock = threading.Lock()
        self._last_tick = 0
        self._touched: dict[str, int] = {}
        self._since: tuple[float, float] = (math.inf, math.inf)
        """Entries and bytes stored since the limits were checked."""
        self.counts: Counter[str] = Counter()
        self._holder = uuid.uuid4().hex

    # --------------------------------------------------------------------------------------------------------- time
    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def tick(self) -> int:
        """Microseconds since 1970, later with each call."""
        with self._lock:
            self._last_tick = max(self._last_tick + 1, int(self._clock() * 1_000_000))
            return self._last_tick

    def count(self, name: str, by: int = 1) -> None:
        """Count an event for `stats`."""
        with self._lock:
            self.counts[name] += by

    def holder(self) -> str:
        """A name for one who computes."""
        return f"{self._holder}-{self.tick()}"

    # ------------------------------------------------------------------------------------------------------ entries
    def entry(self, key: CacheKey | str, kind: str, body: str, options: Options, *, cost: float = 0.0) -> Entry:
        """A new entry, as of now."""
        now = self.now()
        ttl = (
            options.exception_ttl if kind == "error" else options.ttl if options.ttl is not None else self._default_ttl
        )
        expires = _after(now, ttl)
        stale = options.stale_while_revalidate
        gone = expires if stale is None or kind == "error" else _after(expires, stale)
        task, version, args = (key.task, key.version, key.args) if isinstance(key, CacheKey) else ("", "", "")
        name = str(key)
        return Entry(
            name, task or name.split(":", 1)[0], version, args, kind, body, round(cost * 1_000_000), now, expires, gone,
            self.tick(), len(name) + len(args) + len(body), json.dumps(tags_of(options.tags)),
        )  # fmt: skip

    def fits(self, entry: Entry) -> bool:
        """Whether there is room for the entry at all."""
        return self._max_bytes is None or entry.size <= self._max_bytes - (self._slack.size or 0)

    def storing(self, entry: Entry, *, begun: int | None = None, holder: str | None = None) -> Callable[[], Work[bool]]:
        """The transaction that stores an entry; one `begun` earlier only if it was not invalidated meanwhile."""
        large = None
        if len(entry.body) >= self._large_bytes and entry.kind == "value":
            text = packed(entry.body)
            about = About(name=entry.task, path="", type="json", summary="")
            space, key = rows.content_space(self.ns), rows.content_key(entry.key)
            large = Put(space, key, text, text.pages(), about, entry.created, FOREVER)
            entry = entry._replace(kind="content", body="")
        scopes = ["all", f"task {entry.task}", f"key {entry.key}", *(f"tag {tag}" for tag in json.loads(entry.tags))]

        def work() -> Work[bool]:
            stored = True
            if begun is None:
                yield from rows.put(self.ns, entry, large)
            else:
                stored = yield from leases.put_if_valid(self.ns, entry, large, begun, scopes)
            if stored:
                yield from self._keep_to_limits(entry)
            if holder is not None:
                yield from leases.give_back(self.ns, entry.key, holder)
            return stored

        return work

    # ------------------------------------------------------------------------------------------------------- limits
    def use(self, key: str) -> bool:
        """Note that an entry was used; True when it is time to write down such notes."""
        if self._max_entries is None and self._max_bytes is None:
            return False
        tick = self.tick()
        with self._lock:
            self._touched[key] = tick
            return len(self._touched) >= _TOUCHED

    def noting_uses(self) -> Work[None]:
        """The transaction that writes down what was used."""
        with self._lock:
            touched, self._touched = self._touched, {}
        if touched:
            yield from rows.touch(self.ns, touched)

    def _keep_to_limits(self, entry: Entry) -> Work[None]:
        if self._max_entries is None and self._max_bytes is None:
            return
        self._since = (self._since[0] + 1, self._since[1] + entry.size)
        entries, size = self._slack.entries or 0, self._slack.size or 0
        over_entries = self._max_entries is not None and self._since[0] > entries
        if not over_entries and not (self._max_bytes is not None and self._since[1] > size):
            return
        yield from self.noting_uses()
        room = Room(
            None if self._max_entries is None else self._max_entries - entries,
            None if self._max_bytes is None else self._max_bytes - size,
        )
        self.count("evicted", (yield from rows.fit(self.ns, room, entry.created)))
        self._since = (0, 0)

    def stats(self, entries: int, size: int) -> CacheStats:
        """The counts together with what the namespace holds."""
        with self._lock:
            return CacheStats(entries=entries, bytes=size, **{name: self.counts[name] for name in _COUNTED[2:]})


def wanted(key: CacheKey | str) -> Wanted:
    """Where to look for a key. Raises ConfigError when it is none."""
    if isinstance(key, CacheKey):
        return Wanted(str(key), (key.task, key.version, key.args))
    if not isinstance(key, str) or not key:
        raise ConfigError(f"key: a CacheKey, or a text that is not empty (got {type(key).__name__})")
    return Wanted(key)


def namespace_text(namespace: str | Sequence[str]) -> str:
    """A namespace as one text, each another. Raises ConfigError unless all its parts are texts that are not empty."""
    parts = [namespace] if isinstance(namespace, str) else list(namespace or ())
    if not parts or not all(isinstance(part, str) and part for part in parts):
        raise ConfigError("namespace: a text or a tuple of texts, none empty, e.g. (user_id, agent_id)")
    return json.dumps(parts)


def _after(start: int, length: Any) -> int:
    duration = math.inf if length is None else seconds(length, "ttl")
    return FOREVER if duration * 1000 >= FOREVER - start else start + max(1, round(duration * 1000))


def _limit(value: int | None, field: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigError(f"{field} must be a whole number above 0, or None for no limit (got {value!r})")
    return value
