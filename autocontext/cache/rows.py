"""The cache's tables and what is asked of them: one generator per operation, without a driver.

An entry is found by namespace and key, and counts as found only if its task, version and arguments are those asked for.
`used` is in microseconds and grows with each use: it orders the entries from the least to the most recently used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from autocontext.content import queries as contents
from autocontext.content.contents import Put
from autocontext.content.paging import unpack
from autocontext.errors import StoreCorruptError
from autocontext.stores.database import Schema, Statement, Work
from autocontext.stores.escaping import safe, unsafe

SCHEMA = Schema(
    "cache",
    (
        (
            """CREATE TABLE autocontext_cache (
                namespace TEXT NOT NULL, key TEXT NOT NULL, task TEXT NOT NULL, version TEXT NOT NULL,
                args TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, cost BIGINT NOT NULL,
                created BIGINT NOT NULL, expires BIGINT NOT NULL, gone BIGINT NOT NULL, used BIGINT NOT NULL,
                size BIGINT NOT NULL, tags TEXT NOT NULL, PRIMARY KEY (namespace, key))""",
            # Holds all that counting and eviction ask for, so that these never read the bodies.
            "CREATE INDEX autocontext_cache_by_use ON autocontext_cache (namespace, used, size, gone, key)",
            """CREATE TABLE autocontext_cache_tag (
                namespace TEXT NOT NULL, key TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (namespace, key, tag))""",
            "CREATE INDEX autocontext_cache_by_tag ON autocontext_cache_tag (namespace, tag, key)",
            """CREATE TABLE autocontext_cache_lease (
                namespace TEXT NOT NULL, key TEXT NOT NULL, holder TEXT NOT NULL, until BIGINT NOT NULL,
                PRIMARY KEY (namespace, key))""",
            """CREATE TABLE autocontext_cache_invalidated (
                namespace TEXT NOT NULL, scope TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (namespace, scope))""",
        ),
    ),
)


class Entry(NamedTuple):
    """One result with what it was computed from; times are milliseconds since 1970."""

    key: str
    task: str
    version: str
    args: str
    """Canonical JSON of the arguments; "" under a key that the caller has chosen."""
    kind: str
    """`value`, `error`, or `content`: a value whose text is in the content store; read as `corrupt` if it cannot be."""
    body: str
    cost: int
    """Microseconds that it took to compute."""
    created: int
    expires: int
    gone: int
    """From here on it may not even be shown while another is computed."""
    used: int = 0
    size: int = 0
    tags: str = "[]"


class Wanted(NamedTuple):
    """Where to look, and what the entry there must have been computed from; None when any is right."""

    key: str
    origin: tuple[str, str, str] | None = None
    """Task, version and arguments."""


_FOUND = ", ".join(Entry._fields[:10])
_ALL = ", ".join(Entry._fields)
_LOOKUP = f"SELECT {_FOUND} FROM autocontext_cache WHERE namespace = :ns AND key = :key"
_PUT = (
    f"INSERT INTO autocontext_cache (namespace, {_ALL}) "
    f"VALUES (:ns, {', '.join(':' + field for field in Entry._fields)}) ON CONFLICT (namespace, key) DO UPDATE SET "
    + ", ".join(f"{field} = excluded.{field}" for field in Entry._fields[1:])
)


def lookup(ns: str, wanted: Wanted, now: int) -> Work[Entry | None]:
    """The entry under a key, however old."""
    rows = yield Statement(_LOOKUP, {"ns": ns, "key": safe(wanted.key)})
    if not rows:
        return None
    entry = Entry._make((*rows[0], 0, 0, "[]"))
    if wanted.origin is not None and wanted.origin != (unsafe(entry.task), entry.version, entry.args):
        return None
    if entry.kind != "content":
        return entry
    try:
        found = yield from contents.read(content_space(ns), content_key(wanted.key), 0, None, now)
        return None if found is None else entry._replace(kind="value", body=unpack(found.found.ref, found.bodies))
    except StoreCorruptError as error:
        return entry._replace(kind="corrupt", body=str(error))


def content_space(ns: str) -> str:
    """The content store's namespace for large results, apart from what its users keep there."""
    return f"autocontext.cache:{ns}"


def content_key(key: str) -> str:
    """The content store's key of a large result; never of the form of a handle."""
    return f"result:{key}"


def put(ns: str, entry: Entry, large: Put | None) -> Work[None]:
    """Store an entry in place of what was under its key; `large` is its body when that goes to the content store."""
    at = {"ns": ns, "key": safe(entry.key)}
    before = yield Statement("SELECT kind, tags FROM autocontext_cache WHERE namespace = :ns AND key = :key", at)
    yield Statement(_PUT, {**entry._asdict(), "task": safe(entry.task), **at})
    if before and before[0][1] != "[]":
        yield Statement("DELETE FROM autocontext_cache_tag WHERE namespace = :ns AND key = :key", at)
    if entry.tags != "[]":
        each = [{**at, "tag": safe(tag)} for tag in json.loads(entry.tags)]
        yield Statement("INSERT INTO autocontext_cache_tag (namespace, key, tag) VALUES (:ns, :key, :tag)", each)
    if large is not None:
        yield from contents.put(large)
    elif before and before[0][0] == "content":
        yield from contents.delete(content_space(ns), content_key(entry.key), entry.created)


def remove(ns: str, where: str, params: Mapping[str, Any], now: int) -> Work[int]:
    """Delete the entries for which a condition holds, with their tags and contents; how many they were."""
    rows = yield Statement(
        f"DELETE FROM autocontext_cache WHERE namespace = :ns AND ({where}) RETURNING key, kind, tags",
        {"ns": ns, **params},
    )
    if tagged := [{"ns": ns, "key": key} for key, _, tags in rows if tags != "[]"]:
        yield Statement("DELETE FROM autocontext_cache_tag WHERE namespace = :ns AND key = :key", tagged)
    for key, kind, _ in rows:
        if kind == "content":
            yield from contents.delete(content_space(ns), content_key(unsafe(key)), now)
    return len(rows)


def touch(ns: str, used: Mapping[str, int]) -> Work[None]:
    """Note when entries were last used."""
    yield Statement(
        "UPDATE autocontext_cache SET used = :used WHERE namespace = :ns AND key = :key AND used < :used",
        [{"ns": ns, "key": safe(key), "used": at} for key, at in sorted(used.items())],
    )


class Room(NamedTuple):
    """How much a namespace may hold; None is no limit."""

    entries: int | None
    size: int | None


def fit(ns: str, room: Room, now: int) -> Work[int]:
    """Delete what is past its time, and then the least recently used, until the namespace keeps to its limits."""
    count, size, late = yield from _extent(ns, now)
    removed = 0
    if late and _over(room, count, size):
        removed = yield from remove(ns, "gone <= :now", {"now": now}, now)
        count, size, _ = yield from _extent(ns, now)
    while _over(room, count, size):
        batch = min(_BATCH, count - room.entries) if room.entries is not None and count > room.entries else _BATCH
        rows = yield Statement(
            "SELECT key, size FROM autocontext_cache WHERE namespace = :ns ORDER BY used, key LIMIT :n",
            {"ns": ns, "n": batch},
        )
        if not rows:
            break
        for key, its_size in rows:
            if not _over(room, count, size):
                break
            removed += yield from remove(ns, "key = :key", {"key": key}, now)
            count, size = count - 1, size - its_size
    return removed


_BATCH = 500


def _over(room: Room, count: int, size: int) -> bool:
    return (room.entries is not None and count > room.entries) or (room.size is not None and size > room.size)


def _extent(ns: str, now: int) -> Work[tuple[int, int, int]]:
    rows = yield Statement(
        "SELECT COUNT(*), COALESCE(SUM(size), 0), COALESCE(SUM(CASE WHEN gone <= :now THEN 1 ELSE 0 END), 0) "
        "FROM autocontext_cache WHERE namespace = :ns",
        {"ns": ns, "now": now},
    )
    # PostgreSQL sums whole numbers as decimals.
    return int(rows[0][0]), int(rows[0][1]), int(rows[0][2])


def extent(ns: str) -> Work[tuple[int, int]]:
    """Entries and bytes of a namespace."""
    count, size, _ = yield from _extent(ns, 0)
    return count, size


def every(ns: str, now: int) -> Work[list[Entry]]:
    """All results that can still be found, by key."""
    rows = yield Statement(
        f"SELECT {_ALL} FROM autocontext_cache "
        "WHERE namespace = :ns AND expires > :now AND kind <> 'error' ORDER BY key",
        {"ns": ns, "now": now},
    )
    entries = []
    for row in rows:
        entry = Entry._make(row)._replace(key=unsafe(row[0]), task=unsafe(row[1]))
        if entry.kind == "content":
            entry = (yield from lookup(ns, Wanted(entry.key), now)) or entry
        entries.append(entry._replace(tags=row[12]))
    return entries
