"""Adding and changing memories: each function is one transaction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autocontext.errors import Conflict, InvalidMemory
from autocontext.memories import statements
from autocontext.memories.records import (
    Memory,
    checked_confidence,
    checked_content,
    checked_importance,
    checked_json,
    checked_user,
    normalised_tags,
)
from autocontext.stores.database import Work


@dataclass(frozen=True)
class Limits:
    """What a user's memories may amount to."""

    most: int | None = None
    """Memories in use; beyond that the least worth keeping is archived, never deleted."""
    protected: str = "correction"
    """The category for which a tenth of the places is kept."""


def checked(memory: Memory) -> Memory:
    """The memory with its fields in the form in which they are stored. Raises InvalidMemory naming the field."""
    for name in ("category", "source", "source_error"):
        value = getattr(memory, name)
        if not isinstance(value, str) and (value is not None or name == "category"):
            raise InvalidMemory(f"{name} must be a text (got {value!r})")
        if value is not None and "\x00" in value:
            raise InvalidMemory(f"{name} holds a NUL character")
    return replace(
        memory,
        user_id=checked_user(memory.user_id),
        content=checked_content(memory.content),
        category=memory.category.strip().lower() or "context",
        tags=normalised_tags(memory.tags),
        importance=checked_importance(memory.importance),
        confidence=checked_confidence(memory.confidence),
        context=checked_json("context", memory.context),
        metadata=checked_json("metadata", dict(memory.metadata)),
    )


def add(new: Memory, limits: Limits) -> Work[Memory]:
    """Store a memory, or confirm the one with the same content."""
    revision = yield from statements.next_revision(new.user_id)
    known = yield from statements.find_same(new.user_id, new.content)
    if known is None:
        made = replace(new, id=new.id or (yield from statements.free_id(new.user_id)), revision=revision)
        yield from statements.put(made)
    else:
        made = replace(confirmed(known, new), revision=revision)
        yield from statements.put(made, known.tags)
    if limits.most is not None:
        gone = yield from statements.archive_least(new.user_id, limits.most, new.updated_at, revision, limits.protected)
        if made.id in gone:
            return replace(made, archived="over max_memories")
    return made


def confirmed(known: Memory, new: Memory) -> Memory:
    """A memory that was said again: nothing of it is lost, and the better values win."""
    return replace(
        known,
        tags=tuple(dict.fromkeys([*known.tags, *new.tags])),
        importance=max(known.importance, new.importance),
        confidence=max(known.confidence, new.confidence),
        context=known.context if new.context is None else new.context,
        source=known.source or new.source,
        source_error=new.source_error or known.source_error,
        expires_at=_later(known.expires_at, new.expires_at),
        archived=None,
        updated_at=new.updated_at,
        last_confirmed_at=new.updated_at,
        confirmation_count=known.confirmation_count + 1,
    )


def update(user_id: str, memory_id: str, fields: Mapping[str, Any], expected: int | None) -> Work[Memory | None]:
    """Change fields of a memory; None when the user has none with that id. Raises Conflict, InvalidMemory."""
    known = yield from statements.find(user_id, memory_id)
    if known is None:
        return None
    if expected is not None and known.revision != expected:
        raise Conflict(
            f"memory {memory_id} is at revision {known.revision}, not {expected}: read it again, then repeat the change"
        )
    changed = checked(replace(known, **fields))
    yield from statements.require_unique(changed)
    revision = yield from statements.next_revision(user_id)
    return (yield from statements.put(replace(changed, revision=revision), known.tags))


def _later(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


_CHANGEABLE = frozenset(
    {"content", "category", "tags", "importance", "confidence", "context", "source", "source_error", "metadata",
     "archived"}
)  # fmt: skip


def changed_fields(fields: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The fields of `update` as fields of the record. Raises InvalidMemory for one that there is not."""
    changed = dict(fields)
    ttl_given = "ttl" in changed
    ttl = changed.pop("ttl", None)
    unknown = changed.keys() - _CHANGEABLE
    if unknown:
        raise InvalidMemory(
            f"{', '.join(sorted(unknown))}: no such field; there are {', '.join(sorted(_CHANGEABLE))}, ttl"
        )
    if ttl_given:
        changed["expires_at"] = expiry(ttl, now)
    if "tags" in changed:
        changed["tags"] = tuple(listed(changed["tags"]))
    return {**changed, "updated_at": now}


def expiry(ttl: Any, now: int) -> int | None:
    """When something that lives `ttl` seconds ends, None for what stays. Raises InvalidMemory."""
    if ttl is None:
        return None
    number = isinstance(ttl, int | float) and not isinstance(ttl, bool) and math.isfinite(ttl)
    if not number or ttl <= 0:
        raise InvalidMemory(f"ttl must be a number of seconds over 0, or None for what stays (got {ttl!r})")
    return now + int(min(round(ttl * 1000), _FOREVER))


_FOREVER = 10**15
"""Milliseconds, some 30,000 years: what a database holds as a whole number, and still far enough."""


def listed(value: Any) -> list[Any]:
    """A list of what is given, but not of the letters of a text. Raises InvalidMemory."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidMemory(f"expected a list of texts such as [{str(value)!r}] (got {value!r})")
    return list(value)
