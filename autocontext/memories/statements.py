"""The SQL of the memory store: transactions as generators, the same on SQLite and PostgreSQL.

Every transaction that writes first changes or locks the user's row (`next_revision`, `lock`): what it reads after that
stays as it is until it has written.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from autocontext.errors import Conflict, InvalidMemory, StoreCorruptError
from autocontext.memories.records import Memory, digest_of, retention
from autocontext.stores.database import AtOnce, Row, Statement, Work, rows_of
from autocontext.stores.records import check_row, row_checksum

_COLUMNS = (
    "user_id, id, content, category, tags, importance, confidence, context, source, source_error, created_at, "
    "updated_at, last_accessed, access_count, last_confirmed_at, confirmation_count, expires_at, archived, metadata, "
    "revision"
)
_NAMES = _COLUMNS.split(", ")
_SELECT = f"SELECT {_COLUMNS}, digest, checksum FROM autocontext_memories WHERE user_id = :user_id"
_COUNT = "SELECT COUNT(*) FROM autocontext_memories WHERE user_id = :user_id"
_PUT = (
    f"INSERT INTO autocontext_memories ({_COLUMNS}, digest, checksum) "
    f"VALUES ({', '.join(':' + n for n in _NAMES)}, :digest, :checksum) ON CONFLICT (user_id, id) DO UPDATE SET "
    + ", ".join(f"{n} = excluded.{n}" for n in (*_NAMES[2:], "digest", "checksum"))
)


_AT_ONCE = 500
"""Ids of one statement."""
_PROTECTED = "correction"
"""The category for which a tenth of a user's memories is reserved."""


def next_revision(user_id: str) -> Work[int]:
    """Increment the user's change counter; concurrent changes of the same user wait here."""
    rows = yield Statement(
        "INSERT INTO autocontext_memory_users (user_id, revision) VALUES (:user_id, 1) ON CONFLICT (user_id) "
        "DO UPDATE SET revision = autocontext_memory_users.revision + 1 RETURNING revision",
        {"user_id": user_id},
    )
    return int(rows[0][0])


def lock(user_id: str, kind: type[Statement] = Statement) -> Work[bool]:
    """Make other changes of this user wait, without a new revision; False when there is no such user."""
    rows = yield kind(
        "UPDATE autocontext_memory_users SET revision = revision WHERE user_id = :user_id RETURNING revision",
        {"user_id": user_id},
    )
    return bool(rows)


def expect_revision(user_id: str, expected: int | None) -> Work[int]:
    """`next_revision`, if nobody has changed anything since `expected`. Raises Conflict."""
    revision = yield from next_revision(user_id)
    if expected is not None and revision != expected + 1:
        raise Conflict(
            f"the memories of user {user_id!r} are at revision {revision - 1}, not {expected}: read them again, then "
            "repeat the change"
        )
    return revision


def find(user_id: str, memory_id: str) -> Work[Memory | None]:
    """One memory, expired and archived ones included."""
    found = yield from _memories(user_id, "AND id = :id", id=memory_id)
    return found[0] if found else None


def find_same(user_id: str, content: str) -> Work[Memory | None]:
    """The memory with the same content."""
    found = yield from _memories(user_id, "AND digest = :digest", digest=digest_of(content))
    return found[0] if found else None


def revision(user_id: str) -> Work[int]:
    """The user's change counter, 0 without one."""
    rows = yield Statement(
        "SELECT revision FROM autocontext_memory_users WHERE user_id = :user_id", {"user_id": user_id}
    )
    return int(rows[0][0]) if rows else 0


def changes(user_id: str, known_revision: int, held_ids: Collection[str]) -> Work[tuple[int, list[Memory], bool]]:
    """The latest revision, the memories changed since, and whether these are all memories of the user."""
    latest = yield from revision(user_id)
    if latest == known_revision:
        return latest, [], False
    memories = yield from _memories(user_id, "AND revision > :known ORDER BY created_at, id", known=known_revision)
    [(count,)] = yield Statement(_COUNT, {"user_id": user_id})
    if count == len({*held_ids, *(m.id for m in memories)}) and known_revision:
        return latest, memories, False
    return latest, (yield from _memories(user_id, "ORDER BY created_at, id")), True


def some(user_id: str, memory_ids: Iterable[str]) -> Work[list[Memory]]:
    """These memories; unknown ones are left out."""
    return list(map(_memory, (yield from _rows(user_id, memory_ids))))


def _rows(user_id: str, memory_ids: Iterable[str]) -> Work[list[Row]]:
    every, found = list(memory_ids), list[Row]()
    for start in range(0, len(every), _AT_ONCE):
        ids = {f"id_{i}": memory_id for i, memory_id in enumerate(every[start : start + _AT_ONCE])}
        found += yield Statement(
            f"{_SELECT} AND id IN ({', '.join(f':{name}' for name in ids)})", {"user_id": user_id, **ids}
        )
    return found


def foremost(
    user_id: str, by: Literal["importance", "confidence"], least: float, count: int, skip: int
) -> Work[list[Memory]]:
    """The memories with the highest importance or confidence, of at least that importance, the newest first."""
    condition, order = "AND archived IS NULL AND importance >= :least", f"ORDER BY {by} DESC, created_at DESC, id"
    rest = f"{condition} {order} LIMIT :count OFFSET :skip"
    return _memories(user_id, rest, least=least, count=count, skip=skip)


def more_than(user_id: str, few: int) -> Work[bool]:
    """Whether a user has blocks, or more memories than these."""
    rows = yield Statement(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM autocontext_memory_block WHERE user_id = :user_id) "
        "OR EXISTS (SELECT 1 FROM autocontext_memories WHERE user_id = :user_id LIMIT 1 OFFSET :few)",
        {"user_id": user_id, "few": few},
    )
    return bool(rows)


def blocks(user_id: str) -> Work[list[int]]:
    """The numbers of a user's blocks."""
    rows = yield Statement("SELECT block FROM autocontext_memory_block WHERE user_id = :user_id", {"user_id": user_id})
    return [int(number) for (number,) in rows]


def block(user_id: str, number: int) -> Work[bytes]:
    """The body of a block."""
    [(body,)] = yield Statement(
        "SELECT body FROM autocontext_memory_block WHERE user_id = :user_id AND block = :block",
        {"user_id": user_id, "block": number},
    )
    return cast("bytes", body)


def outside(user_id: str, most: int) -> Work[list[Row]]:
    """Memories that are in no block, at most so many, by id: id, content, tags, category."""
    return rows_of(
        "SELECT id, content, tags, category FROM autocontext_memories WHERE user_id = :user_id AND block IS NULL "
        "ORDER BY id LIMIT :most",
        {"user_id": user_id, "most": most},
    )


def put_block(user_id: str, number: int, last: str, body: bytes) -> Work[None]:
    """Store the block of the memories that were outside, up to the last of them."""
    params = {"user_id": user_id, "block": number}
    yield Statement(
        "INSERT INTO autocontext_memory_block (user_id, block, body) VALUES (:user_id, :block, :body)",
        {**params, "body": body},
    )
    yield Statement(
        "UPDATE autocontext_memories SET block = :block WHERE user_id = :user_id AND block IS NULL AND id <= :id",
        {**params, "id": last},
    )


def drop_blocks(user_id: str, number: int | None = None) -> Work[None]:
    """Delete a block (None: all of them); what it has is in none until the next search."""
    one, params = ("", {}) if number is None else (" AND block = :block", {"block": number})
    for change in ("DELETE FROM autocontext_memory_block", "UPDATE autocontext_memories SET block = NULL"):
        yield Statement(f"{change} WHERE user_id = :user_id{one}", {"user_id": user_id, **params})


def put(memory: Memory, was: Memory | None) -> Work[Memory]:
    """Write one memory; `was` is what is stored of it now."""
    if was is not None and (was.content, was.tags, was.category) != (memory.content, memory.tags, memory.category):
        [(number,)] = yield Statement(
            "SELECT block FROM autocontext_memories WHERE user_id = :user_id AND id = :id",
            {"user_id": memory.user_id, "id": memory.id},
        )
        if number is not None:
            yield from drop_blocks(memory.user_id, number)
    yield Statement(_PUT, _row(memory))
    return memory


def free_id(user_id: str) -> Work[str]:
    """An unused id in the format of memory.json."""
    while True:
        memory_id = f"fact_{uuid.uuid4().hex[:8]}"
        if (yield from find(user_id, memory_id)) is None:
            return memory_id


def remove(user_id: str, memory_id: str) -> Work[bool]:
    """Delete one memory permanently; whether it existed."""
    yield from lock(user_id)
    gone = yield Statement(
        "DELETE FROM autocontext_memories WHERE user_id = :user_id AND id = :id RETURNING block",
        {"user_id": user_id, "id": memory_id},
    )
    if gone:
        if gone[0][0] is not None:
            yield from drop_blocks(user_id, gone[0][0])
        yield from next_revision(user_id)
    return bool(gone)


def remove_all(user_id: str) -> Work[int]:
    """Delete everything of one user; returns the number of memories. The change counter is kept."""
    yield from next_revision(user_id)
    user = {"user_id": user_id}
    [(count,)] = yield Statement(_COUNT, user)
    for table in ("autocontext_memories", "autocontext_memory_block", "autocontext_memory_sections"):
        yield Statement(f"DELETE FROM {table} WHERE user_id = :user_id", user)
    return int(count)


def touch(user_id: str, memory_ids: Iterable[str], now: int) -> Work[None]:
    """Count an access to memories; the revision stays, because their content does. Waits for no other writer."""
    yield from lock(user_id, AtOnce)
    rows = yield from _rows(user_id, memory_ids)
    yield Statement(
        "UPDATE autocontext_memories SET access_count = :access_count, last_accessed = :last_accessed, "
        "checksum = :checksum WHERE user_id = :user_id AND id = :id",
        [_touched(_values(row), now) for row in rows],
    )


def _touched(values: dict[str, Any], now: int) -> dict[str, Any]:
    values["access_count"] += 1
    values["last_accessed"] = max(values["last_accessed"], now)
    key = ("user_id", "id", "access_count", "last_accessed")
    return {**{name: values[name] for name in key}, "checksum": row_checksum(*values.values())}


def archive_least(user_id: str, most: int | None, now: int, revision: int, new_ids: Collection[str]) -> Work[None]:
    """Archive what exceeds `most` (None: no limit), lowest `retention` first; a tenth is reserved for corrections.

    Of the new ones only what exceeds it alone.
    """
    if most is None:
        return
    in_use = "archived IS NULL AND (expires_at IS NULL OR expires_at > :now)"
    params = {"user_id": user_id, "now": now}
    [(count,)] = yield Statement(f"{_COUNT} AND {in_use}", params)
    if count <= most:
        return
    memories = yield from _memories(user_id, f"AND {in_use}", now=now)
    by_value = sorted(memories, key=lambda m: (m.id in new_ids, retention(m, now), m.created_at, m.id), reverse=True)
    protected_ids = {m.id for m in [m for m in by_value if m.category == _PROTECTED][: most // 10]}
    excess = [m for m in reversed(by_value) if m.id not in protected_ids][: len(memories) - most]
    for memory in excess:
        yield from put(replace(memory, archived="over max_memories", revision=revision), memory)


def sections(user_id: str) -> Work[dict[str, tuple[str, int]]]:
    """Each summary and its time, by name ("user.workContext")."""
    rows = yield Statement(
        "SELECT user_id, name, summary, updated_at, checksum FROM autocontext_memory_sections "
        "WHERE user_id = :user_id ORDER BY name",
        {"user_id": user_id},
    )
    for row in rows:
        check_row(f"memory section {row[1]!r} of user {row[0]!r}", row[4], *row[:4])
    return {str(name): (str(summary), int(at)) for _, name, summary, at, _ in rows}


def put_sections(user_id: str, summaries: Mapping[str, tuple[str, int]]) -> Work[None]:
    """Write summaries, replacing earlier ones."""
    yield Statement(
        "INSERT INTO autocontext_memory_sections (user_id, name, summary, updated_at, checksum) "
        "VALUES (:user_id, :name, :summary, :updated_at, :checksum) ON CONFLICT (user_id, name) "
        "DO UPDATE SET summary = excluded.summary, updated_at = excluded.updated_at, checksum = excluded.checksum",
        [
            {
                "user_id": user_id, "name": name, "summary": text, "updated_at": at,
                "checksum": row_checksum(user_id, name, text, at),
            }
            for name, (text, at) in summaries.items()
        ],
    )  # fmt: skip


def require_unique(memory: Memory) -> Work[None]:
    """Raises InvalidMemory when another memory of the user has the same content."""
    same = yield from find_same(memory.user_id, memory.content)
    if same is not None and same.id != memory.id:
        raise InvalidMemory(f"content equals that of memory {same.id}: change that one, or delete one of the two")


def _memories(user_id: str, rest: str, **params: Any) -> Work[list[Memory]]:
    """The memories of a user that the rest of a statement selects. Raises StoreCorruptError."""
    rows = yield Statement(f"{_SELECT} {rest}", {"user_id": user_id, **params})
    return list(map(_memory, rows))


def _row(memory: Memory) -> dict[str, Any]:
    row = {
        **{name: getattr(memory, name) for name in _NAMES},
        "tags": json.dumps(memory.tags),
        "context": None if memory.context is None else json.dumps(memory.context),
        "metadata": json.dumps(dict(memory.metadata)),
        "digest": digest_of(memory.content),
    }
    return {**row, "checksum": row_checksum(*row.values())}


def _values(row: Row) -> dict[str, Any]:
    """The values of a row by their columns. Raises StoreCorruptError."""
    *values, checksum = row
    check_row(f"memory {row[1]!r} of user {row[0]!r}", checksum, *values)
    return dict(zip((*_NAMES, "digest"), values, strict=True))


def _memory(row: Row) -> Memory:
    fields = _values(row)
    del fields["digest"]
    try:
        fields["tags"] = tuple(json.loads(fields["tags"]))
        fields["context"] = None if fields["context"] is None else json.loads(fields["context"])
        fields["metadata"] = json.loads(fields["metadata"])
    except (ValueError, TypeError) as e:  # without a checksum: of an earlier version
        place = f"memory {fields['id']!r} of user {fields['user_id']!r}"
        raise StoreCorruptError(f"{place}: the row cannot be read ({e})") from e
    return Memory(**fields)
