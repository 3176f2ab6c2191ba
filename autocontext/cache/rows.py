"""The cache's tables, and the statements that write, count, evict and list rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from autocontext.cache.namespace import COLUMNS, CacheEntry, CacheNamespace, Target, content_key, content_space
from autocontext.content import queries as contents
from autocontext.content.contents import Upload
from autocontext.stores.database import Schema, Statement, Work, safe, unsafe

SCHEMA = Schema(
    "cache",
    (
        (
            """CREATE TABLE autocontext_cache (
                namespace TEXT NOT NULL, key TEXT NOT NULL, task TEXT NOT NULL, version TEXT NOT NULL,
                args TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, cost BIGINT NOT NULL,
                created BIGINT NOT NULL, expires BIGINT NOT NULL, gone BIGINT NOT NULL, used BIGINT NOT NULL,
                size BIGINT NOT NULL, tags TEXT NOT NULL, PRIMARY KEY (namespace, key))""",
            # Has all columns that counting and eviction read, so that these never load bodies.
            "CREATE INDEX autocontext_cache_by_use ON autocontext_cache (namespace, used, size, gone, key)",
            """CREATE TABLE autocontext_cache_tag (
                namespace TEXT NOT NULL, key TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (namespace, key, tag))""",
            "CREATE INDEX autocontext_cache_by_tag ON autocontext_cache_tag (namespace, tag, key)",
        ),
        (
            # Tables of version 1, which relied on the clocks of clients.
            "DROP TABLE IF EXISTS autocontext_cache_lease",
            "DROP TABLE IF EXISTS autocontext_cache_invalidated",
            """CREATE TABLE autocontext_cache_computation (
                namespace TEXT NOT NULL, key TEXT NOT NULL, slot TEXT NOT NULL, holder TEXT NOT NULL,
                task TEXT NOT NULL, until BIGINT NOT NULL, waits_for TEXT NOT NULL,
                PRIMARY KEY (namespace, key, slot))""",
            "CREATE INDEX autocontext_cache_computation_by_holder ON autocontext_cache_computation (holder)",
            """CREATE TABLE autocontext_cache_computation_tag (
                namespace TEXT NOT NULL, tag TEXT NOT NULL, holder TEXT NOT NULL,
                PRIMARY KEY (namespace, holder, tag))""",
        ),
    ),
)

_BATCH = 500
"""Entries that one round of eviction looks at."""
_ALL = ", ".join(COLUMNS)
_INSERT = (
    f"INSERT INTO autocontext_cache (namespace, {_ALL}) "
    f"VALUES (:ns, {', '.join(':' + field for field in COLUMNS)}) "
    "ON CONFLICT (namespace, key) DO NOTHING RETURNING key"
)
_REPLACE = (
    f"UPDATE autocontext_cache SET {', '.join(f'{field} = :{field}' for field in COLUMNS[1:])} "
    "WHERE namespace = :ns AND key = :key"
)
# Changes nothing, but locks the row and returns its current values; those of a SELECT could be replaced meanwhile.
_LOCK = "UPDATE autocontext_cache SET cost = cost WHERE namespace = :ns AND key = :key RETURNING kind, tags"


class Capacity(NamedTuple):
    """How much a namespace may hold; None is no limit."""

    entries: int | None
    bytes: int | None

    def exceeded(self, entries: int, size: int) -> bool:
        """Whether so many entries of so many bytes are too much."""
        return (self.entries is not None and entries > self.entries) or (self.bytes is not None and size > self.bytes)


def put(ns: str, entry: CacheEntry, large: Upload | None) -> Work[None]:
    """Store an entry in place of the one under its key; `large` is its body when that goes to the content store."""
    place = {"ns": ns, "key": safe(entry.key)}
    row = {**dict(zip(COLUMNS, entry, strict=False)), "task": safe(entry.task), **place}
    while not (replaced := (yield Statement(_LOCK, place))):
        if (yield Statement(_INSERT, row)):
            break
    else:
        yield Statement(_REPLACE, row)
    if replaced and replaced[0][1] != "[]":
        yield Statement("DELETE FROM autocontext_cache_tag WHERE namespace = :ns AND key = :key", place)
    if entry.tags != "[]":
        tags = [{**place, "tag": safe(tag)} for tag in json.loads(entry.tags)]
        yield Statement("INSERT INTO autocontext_cache_tag (namespace, key, tag) VALUES (:ns, :key, :tag)", tags)
    if large is not None:
        yield from contents.put(large)
    elif replaced and replaced[0][0] == "content":
        yield from contents.delete(content_space(ns), content_key(entry.key), entry.created)


def remove(condition: str, params: Mapping[str, Any], now: int) -> Work[int]:
    """Delete the entries that meet an SQL condition, with their tags and contents; returns their number."""
    rows = yield Statement(
        f"DELETE FROM autocontext_cache WHERE {condition} RETURNING namespace, key, kind, tags", params
    )
    if tagged := [{"ns": ns, "key": key} for ns, key, _, tags in rows if tags != "[]"]:
        yield Statement("DELETE FROM autocontext_cache_tag WHERE namespace = :ns AND key = :key", tagged)
    for ns, key, kind, _ in rows:
        if kind == "content":
            yield from contents.delete(content_space(ns), content_key(unsafe(key)), now)
    return len(rows)


def evict(ns: str, capacity: Capacity, now: int) -> Work[int]:
    """Delete expired entries, then the least recently used, until the rest fits; returns their number."""
    count, size, expired = yield from _totals(ns, now)
    removed = 0
    if expired and capacity.exceeded(count, size):
        removed = yield from remove("namespace = :ns AND gone <= :now", {"ns": ns, "now": now}, now)
        count, size, _ = yield from _totals(ns, now)
    while capacity.exceeded(count, size):
        surplus = 0 if capacity.entries is None else count - capacity.entries
        rows = yield Statement(
            "SELECT key, size, used FROM autocontext_cache WHERE namespace = :ns ORDER BY used, key LIMIT :n",
            {"ns": ns, "n": min(_BATCH, surplus) if surplus > 0 else _BATCH},
        )
        if not rows:
            break
        for key, key_size, used in rows:
            if not capacity.exceeded(count, size):
                break
            # Entries that were stored again or used since they were listed stay.
            removed += yield from remove(
                "namespace = :ns AND key = :key AND used <= :used", {"ns": ns, "key": key, "used": used}, now
            )
            count, size = count - 1, size - key_size
    return removed


def totals(ns: str) -> Work[tuple[int, int]]:
    """Entries and bytes of a namespace."""
    count, size, _ = yield from _totals(ns, 0)
    return count, size


def every(namespace: CacheNamespace, *, whole: bool = False) -> Work[list[CacheEntry]]:
    """All results that have not expired, by key; with `whole` everything that is stored, exceptions too."""
    rows = yield Statement(
        f"SELECT {_ALL} FROM autocontext_cache WHERE namespace = :ns AND expires > :now "
        + ("" if whole else "AND kind <> 'error' ")
        + "ORDER BY key",
        {"ns": namespace.text, "now": -1 if whole else namespace.now()},
    )
    entries = []
    for row in rows:
        entry = CacheEntry(*row)._replace(key=unsafe(row[0]), task=unsafe(row[1]))
        if entry.kind == "content":
            entry = (yield from namespace.lookup(Target(entry.key))) or entry
        entries.append(entry._replace(tags=row[12]))
    return entries


def _totals(ns: str, now: int) -> Work[tuple[int, int, int]]:
    """Entries, bytes and expired entries of a namespace."""
    rows = yield Statement(
        "SELECT COUNT(*), COALESCE(SUM(size), 0), COALESCE(SUM(CASE WHEN gone <= :now THEN 1 ELSE 0 END), 0) "
        "FROM autocontext_cache WHERE namespace = :ns",
        {"ns": ns, "now": now},
    )
    # PostgreSQL sums whole numbers as decimals.
    return int(rows[0][0]), int(rows[0][1]), int(rows[0][2])
