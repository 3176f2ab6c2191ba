"""The cache's tables, and what stores, counts, evicts and lists results; all within the limits of the namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from autocontext.cache import leases
from autocontext.cache.leases import Claim
from autocontext.cache.marks import marks_of
from autocontext.cache.namespace import CHECKED, COLUMNS, CacheEntry, CacheNamespace, content_key, content_space
from autocontext.content import queries as contents
from autocontext.content.contents import FOREVER, Metadata, Upload
from autocontext.content.paging import packed
from autocontext.stores.database import Row, Schema, Statement, Work, safe, unsafe
from autocontext.stores.records import row_checksum

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
        (
            "ALTER TABLE autocontext_cache ADD COLUMN checksum TEXT",
            # What the tool calls of a session have asked for, so that it is found when they are erased.
            """CREATE TABLE autocontext_cache_call (
                user_id TEXT NOT NULL, session_id TEXT NOT NULL, call TEXT NOT NULL, namespace TEXT NOT NULL,
                key TEXT NOT NULL, PRIMARY KEY (user_id, session_id, call, namespace, key))""",
            # The JSON files that were read once.
            """CREATE TABLE autocontext_cache_file (
                namespace TEXT NOT NULL, file TEXT NOT NULL, PRIMARY KEY (namespace, file))""",
        ),
        (
            # NULL in rows of version 3.
            "ALTER TABLE autocontext_cache ADD COLUMN marks TEXT",
            "CREATE INDEX autocontext_cache_unmarked ON autocontext_cache (namespace, key) WHERE marks IS NULL",
            """CREATE TABLE autocontext_cache_mark (
                namespace TEXT NOT NULL, mark TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (namespace, mark, key))""",
        ),
    ),
)

_CHECKS_PER_LIMIT = 64
"""The limits are checked once per 1/64 of them written, because counting costs more than a write."""
_BATCH = 500
"""Entries that one round of eviction looks at, and parameters of a statement that looks for texts."""
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
_LOCK = "UPDATE autocontext_cache SET cost = cost WHERE namespace = :ns AND key = :key RETURNING kind, tags, marks"


def fits(namespace: CacheNamespace, entry: CacheEntry) -> bool:
    """Whether an empty namespace has room for the entry."""
    return entry.size <= namespace.max_bytes - namespace.max_bytes // _CHECKS_PER_LIMIT


def storing(namespace: CacheNamespace, entry: CacheEntry, claim: Claim | None = None) -> Callable[[], Work[bool]]:
    """The transaction that stores an entry; returns whether it was stored.

    With a claim it also ends that computation; if that has ended before, it stores nothing.
    """
    large = None
    entry = entry._replace(marks=marks_of(entry))
    if len(entry.body) >= namespace.large_bytes and entry.kind == "value":
        content = packed(entry.body)
        metadata = Metadata(name=entry.task, path="", type="json", summary="")
        space, key = content_space(namespace.text), content_key(entry.key)
        large = Upload(space, key, content, content.pages(), metadata, entry.created, FOREVER)
        entry = entry._replace(kind="content", body=content.sha256)

    def work() -> Work[bool]:
        # First, so that an invalidation either finds the stored entry or has ended the computation.
        if claim is not None and not (yield from leases.give_back(namespace.text, claim)):
            return False
        yield from put(namespace.text, entry, large)
        yield from _keep_to_limits(namespace, entry)
        return True

    return work


def _keep_to_limits(namespace: CacheNamespace, entry: CacheEntry) -> Work[None]:
    limits = namespace.max_entries, namespace.max_bytes
    spare = limits[0] // _CHECKS_PER_LIMIT, limits[1] // _CHECKS_PER_LIMIT
    if namespace.limited and namespace.limits_due(entry.size, spare):
        yield from namespace.write_uses()
        removed = yield from evict(namespace.text, limits[0] - spare[0], limits[1] - spare[1], entry.created)
        namespace.count("evicted", removed)


def put(ns: str, entry: CacheEntry, large: Upload | None) -> Work[None]:
    """Store an entry in place of the one under its key; `large` is its body when that goes to the content store."""
    place = {"ns": ns, "key": safe(entry.key)}
    entry = entry._replace(key=safe(entry.key), task=safe(entry.task))
    row: dict[str, Any] = dict(zip(COLUMNS, entry, strict=False))
    row |= {"checksum": row_checksum(ns, *list(row.values())[:CHECKED]), "ns": ns}
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
    # Mostly the same as before: a result that is stored again says the same, or is of the same arguments.
    before = set((replaced[0][2] or "").split()) if replaced else set[str]()
    marks = (entry.marks or "").split()
    if gone := before.difference(marks):
        yield from _unmark([{**place, "mark": mark} for mark in sorted(gone)])
    if new := [{**place, "mark": mark} for mark in marks if mark not in before]:
        insert = "INSERT INTO autocontext_cache_mark (namespace, mark, key) VALUES (:ns, :mark, :key) "
        yield Statement(f"{insert}ON CONFLICT DO NOTHING", new)
    if large is not None:
        yield from contents.put(large)
    elif replaced and replaced[0][0] == "content":
        yield from contents.delete(content_space(ns), content_key(entry.key), entry.created)


def remove(condition: str, params: Mapping[str, Any], now: int) -> Work[int]:
    """Delete the entries that meet an SQL condition, with their tags and contents; returns their number."""
    rows = yield Statement(
        f"DELETE FROM autocontext_cache WHERE {condition} RETURNING namespace, key, kind, tags, marks", params
    )
    if tagged := [{"ns": ns, "key": key} for ns, key, _, tags, _ in rows if tags != "[]"]:
        yield Statement("DELETE FROM autocontext_cache_tag WHERE namespace = :ns AND key = :key", tagged)
    if gone := [{"ns": ns, "key": key, "mark": mark} for ns, key, *_, marks in rows for mark in (marks or "").split()]:
        yield from _unmark(gone)
    for ns, key, kind, *_ in rows:
        if kind == "content":
            yield from contents.delete(content_space(ns), content_key(unsafe(key)), now)
    return len(rows)


def _unmark(marks: list[dict[str, str]]) -> Work[None]:
    yield Statement("DELETE FROM autocontext_cache_mark WHERE namespace = :ns AND mark = :mark AND key = :key", marks)


def evict(ns: str, entries: int, size: int, now: int) -> Work[int]:
    """Delete expired entries, then the least recently used, until the rest fits; returns their number."""
    count, total, expired = yield from totals(ns, now)
    removed = 0
    if expired and (count > entries or total > size):
        removed = yield from remove("namespace = :ns AND gone <= :now", {"ns": ns, "now": now}, now)
        count, total, _ = yield from totals(ns, now)
    while count > entries or total > size:
        rows = yield Statement(
            "SELECT key, size, used FROM autocontext_cache WHERE namespace = :ns ORDER BY used, key LIMIT :n",
            {"ns": ns, "n": min(_BATCH, count - entries) if count > entries else _BATCH},
        )
        if not rows:
            break
        for key, key_size, used in rows:
            if count <= entries and total <= size:
                break
            # Entries that were stored again or used since they were listed stay.
            removed += yield from remove(
                "namespace = :ns AND key = :key AND used <= :used", {"ns": ns, "key": key, "used": used}, now
            )
            count, total = count - 1, total - key_size
    return removed


def every(namespace: CacheNamespace, *, whole: bool = False) -> Work[list[CacheEntry]]:
    """All results that have not expired, by key; with `whole` everything that is stored, exceptions too."""
    now = -1 if whole else namespace.now()
    rows = yield Statement(
        f"SELECT {_ALL} FROM autocontext_cache WHERE namespace = :ns AND expires > :now "
        + ("" if whole else "AND kind <> 'error' ")
        + "ORDER BY key",
        {"ns": namespace.text, "now": now},
    )
    return (yield from _entries(namespace, (row for row in rows if whole or not CacheEntry(*row).is_ahead(now))))


def marked(namespace: CacheNamespace, marks: Collection[str]) -> Work[list[CacheEntry]]:
    """The results with one of these marks, and those without any; also expired ones and exceptions."""
    ns, every = {"ns": namespace.text}, sorted(marks)
    rows = yield Statement(f"SELECT {_ALL} FROM autocontext_cache WHERE namespace = :ns AND marks IS NULL", ns)
    for start in range(0, len(every), _BATCH):
        names = {f"mark_{i}": mark for i, mark in enumerate(every[start : start + _BATCH])}
        rows += yield Statement(
            f"SELECT {_ALL} FROM autocontext_cache WHERE namespace = :ns AND key IN (SELECT key FROM "
            f"autocontext_cache_mark WHERE namespace = :ns AND mark IN ({', '.join(f':{name}' for name in names)}))",
            {**ns, **names},
        )
    return (yield from _entries(namespace, {row[0]: row for row in rows}.values()))


def _entries(namespace: CacheNamespace, rows: Iterable[Row]) -> Work[list[CacheEntry]]:
    entries = []
    for row in rows:
        entry = CacheEntry(*row)
        entry = (yield from namespace.completed(entry)) or entry
        entries.append(entry._replace(key=unsafe(entry.key), task=unsafe(entry.task)))
    return entries


def totals(ns: str, now: int) -> Work[tuple[int, int, int]]:
    """Entries, bytes and expired entries of a namespace."""
    rows = yield Statement(
        "SELECT COUNT(*), COALESCE(SUM(size), 0), COALESCE(SUM(CASE WHEN gone <= :now THEN 1 ELSE 0 END), 0) "
        "FROM autocontext_cache WHERE namespace = :ns",
        {"ns": ns, "now": now},
    )
    # PostgreSQL sums whole numbers as decimals.
    return int(rows[0][0]), int(rows[0][1]), int(rows[0][2])
