"""Adding and changing memories: each function is one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autocontext.errors import Conflict, InvalidMemory
from autocontext.memories import statements
from autocontext.memories.records import Memory, checked
from autocontext.stores.checks import checked_seconds
from autocontext.stores.database import Work


def add(new: Memory, most: int | None) -> Work[Memory]:
    """Store a memory, or confirm the one with the same content; beyond `most` the least of the others is archived."""
    revision = yield from statements.next_revision(new.user_id)
    same = yield from statements.find_same(new.user_id, new.content)
    if same is None:
        stored = replace(new, id=new.id or (yield from statements.free_id(new.user_id)), revision=revision)
        yield from statements.put(stored, None)
    else:
        stored = replace(confirmed(same, new), revision=revision)
        yield from statements.put(stored, same)
    yield from statements.archive_least(new.user_id, most, new.updated_at, revision, {stored.id})
    return stored


def confirmed(old: Memory, new: Memory) -> Memory:
    """A memory after its content was added again: everything stays, and the higher values win."""
    return replace(
        old,
        tags=tuple(dict.fromkeys([*old.tags, *new.tags])),
        importance=max(old.importance, new.importance),
        confidence=max(old.confidence, new.confidence),
        context=old.context if new.context is None else new.context,
        source=old.source or new.source,
        source_error=new.source_error or old.source_error,
        expires_at=_later(old.expires_at, new.expires_at),
        archived=None,
        updated_at=new.updated_at,
        last_confirmed_at=new.updated_at,
        confirmation_count=old.confirmation_count + 1,
    )


def update(user_id: str, memory_id: str, fields: Mapping[str, Any], expected: int | None) -> Work[Memory | None]:
    """Change fields of a memory; None when the user has none with this id. Raises Conflict, InvalidMemory."""
    known = yield from statements.lock(user_id)
    old = (yield from statements.find(user_id, memory_id)) if known else None
    if old is None:
        return None
    if expected is not None and old.revision != expected:
        raise Conflict(
            f"memory {memory_id} is at revision {old.revision}, not {expected}: read it again, then repeat the change"
        )
    changed = replace(old, **fields)
    yield from statements.require_unique(changed)
    revision = yield from statements.next_revision(user_id)
    return (yield from statements.put(replace(changed, revision=revision), old))


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


_CHANGEABLE = frozenset(
    {"content", "category", "tags", "importance", "confidence", "context", "source", "source_error", "metadata",
     "archived"}
)  # fmt: skip


def changed_fields(fields: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The fields of `update` as fields of Memory. Raises InvalidMemory for a wrong or an unknown one.

    Others are not checked: an earlier version may have stored what this one refuses.
    """
    columns = dict(fields)
    if "ttl" in columns:
        columns["expires_at"] = expiry(columns.pop("ttl"), now)
    if unknown := fields.keys() - _CHANGEABLE - {"ttl"}:
        raise InvalidMemory(
            f"{', '.join(sorted(unknown))}: no such field; there are {', '.join(sorted(_CHANGEABLE))}, ttl"
        )
    valid = checked(Memory(**{"id": "", "user_id": "-", "content": "-", **columns}))
    return {**{name: getattr(valid, name) for name in columns}, "updated_at": now}


def expiry(ttl: Any, now: int) -> int | None:
    """When a memory with this `ttl` (seconds) expires, None for never. Raises InvalidMemory."""
    seconds = checked_seconds("ttl", ttl, InvalidMemory)
    return None if seconds is None else now + round(seconds * 1000)
