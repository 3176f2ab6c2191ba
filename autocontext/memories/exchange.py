"""Import and export of memory.json documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autocontext.errors import InvalidMemory, StateError, StoreCorruptError
from autocontext.memories import statements
from autocontext.memories.changes import confirmed
from autocontext.memories.document import SECTIONS, summaries_of
from autocontext.memories.records import Memory, as_number, checked, iso, millis, storable
from autocontext.memories.relevance import coerced_confidence
from autocontext.memories.updating import apply_update, ids_to_remove
from autocontext.stores.checks import whole_or
from autocontext.stores.database import Work

VERSION = "1.0"
_MOST_CONFIRMED = 1_000_000
_KNOWN = {
    "id", "content", "category", "confidence", "createdAt", "source", "sourceError", "lastConfirmedAt",
    "confirmationCount", "tags", "importance", "expiresAt", "context",
}  # fmt: skip


@dataclass(frozen=True)
class ImportReport:
    """The result of an import."""

    added: int
    confirmed: int
    """Facts that the store already had, by id or content."""
    skipped: tuple[tuple[int, str], ...]
    """Index (from 0) of each entry of `facts` (of an update: of the new ones that count) that was left out, and why."""
    sections: int
    removed: int = 0
    """Facts that an update has archived."""


def read_document(source: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """A memory.json document from a file or a dict. Raises StoreCorruptError for a damaged one, and OSError."""
    if isinstance(source, Mapping):
        document: Any = source
        name = "the document"
    else:
        name = str(source)
        try:
            document = json.loads(Path(source).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, ValueError, RecursionError) as e:
            raise StoreCorruptError(f"{name}: is not JSON ({e}); nothing was imported") from None
    if not isinstance(document, Mapping) or not isinstance(document.get("facts", []), list):
        raise StoreCorruptError(f"{name}: is not a memory.json, an object with a list `facts`; nothing was imported")
    version = str(document.get("version", VERSION))
    if version.split(".", maxsplit=1)[0] != VERSION.split(".", maxsplit=1)[0]:
        raise StateError(f"{name}: has version {version}, this library reads {VERSION}; nothing was imported")
    return document


def take_in(
    document: Mapping[str, Any], user_id: str, now: int, most: int | None, expected: int | None
) -> Work[ImportReport]:
    """Import a document; memories that the store has changed since the document was written stay."""
    revision = yield from statements.expect_revision(user_id, expected)
    written_at = _moment(document.get("lastUpdated"), now + 1)
    # What was changed in the same millisecond may be newer. What has this `revision` was changed by the import itself.
    added_ids, confirmed_count, skipped = set[str](), 0, list[tuple[int, str]]()
    back = set[str]()  # memories that were archived and are learned again
    for place, entry in enumerate(document.get("facts", [])):
        try:
            memory = _memory_of(entry, user_id, now)
        except InvalidMemory as e:
            skipped.append((place, str(e)))
            continue
        same = yield from statements.find_same(user_id, memory.content)
        old = ((yield from statements.find(user_id, memory.id)) if memory.id else None) or same
        if old is None:
            stored = replace(memory, id=memory.id or (yield from statements.free_id(user_id)), revision=revision)
            yield from statements.put(stored, None)
            added_ids.add(stored.id)
        elif old.updated_at >= written_at and old.content != memory.content and old.revision != revision:
            skipped.append((place, f"memory {old.id} was changed after this document was written"))
        else:
            merged = replace(confirmed(old, memory), revision=revision)
            if old.content != memory.content and (same is None or same.id == old.id):
                merged = replace(merged, content=memory.content, category=memory.category)
            yield from statements.put(merged, old)
            confirmed_count += 1
            if not old.in_use(now):
                back.add(merged.id)
    sections = {f"{key}.{name}": (storable(text), _moment(at, now)) for key, name, text, at in summaries_of(document)}
    yield from statements.put_sections(user_id, sections)
    yield from statements.archive_least(user_id, most, now, revision, added_ids | back)
    return ImportReport(len(added_ids), confirmed_count, tuple(skipped), len(sections))


def take_update(
    update: Mapping[str, Any], user_id: str, now: int, most: int | None, expected: int | None, **rules: Any
) -> Work[ImportReport]:
    """Apply what a model learned: archive what it removes, then take in what is new. `rules` are `apply_update`'s."""
    revision = yield from statements.expect_revision(user_id, expected)
    removed = 0
    for memory_id in ids_to_remove(update):
        old = yield from statements.find(user_id, storable(memory_id))
        if old is not None and old.in_use(now):
            gone = replace(old, archived="removed by an update", updated_at=now, revision=revision)
            yield from statements.put(gone, old)
            removed += 1
    learned = apply_update({}, update, now=now, max_facts=sys.maxsize, **rules)
    facts = [{key: value for key, value in fact.items() if key != "id"} for fact in learned["facts"]]
    # Without a time it is newer than all that is stored.
    report = yield from take_in({**learned, "facts": facts, "lastUpdated": None}, user_id, now, most, None)
    return replace(report, removed=removed)


def document_of(
    memories: list[Memory], sections: Mapping[str, tuple[str, int]], revision: int, now: int
) -> dict[str, Any]:
    """A user's memories as a memory.json document, oldest first."""
    document: dict[str, Any] = {"version": VERSION, "lastUpdated": iso(now), "revision": revision}
    for key, (_, labels) in SECTIONS.items():
        document[key] = {}
        for name in labels:
            summary, at = sections.get(f"{key}.{name}", ("", 0))
            document[key][name] = {"summary": summary, "updatedAt": iso(at) if at else ""}
    document["facts"] = [_fact_of(memory) for memory in memories]
    return document


def for_injection(memories: Iterable[Memory], sections: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """The parts of a memory.json document that a prompt needs."""
    document: dict[str, Any] = {key: {} for key in SECTIONS}
    for name, (summary, _) in sections.items():
        key, _, label = name.partition(".")
        document.setdefault(key, {})[label] = {"summary": summary}
    document["facts"] = [
        {
            "id": m.id,
            "content": m.content,
            "category": m.category,
            "confidence": m.confidence,
            "sourceError": m.source_error,
            "expiresAt": None if m.expires_at is None else iso(m.expires_at),
        }
        for m in memories
    ]
    return document


def _memory_of(entry: Any, user_id: str, now: int) -> Memory:
    if not isinstance(entry, Mapping):
        raise InvalidMemory(f"an entry must be an object (got {type(entry).__name__})")
    created = _moment(entry.get("createdAt"), now)
    confirmed_at = entry.get("lastConfirmedAt")
    return checked(
        Memory(
            id=entry["id"].replace("\x00", "") if isinstance(entry.get("id"), str) else "",
            user_id=user_id,
            content=entry.get("content"),  # type: ignore[arg-type]  # checked right away
            category=str(entry["category"]) if isinstance(entry.get("category"), str) else "context",
            tags=entry.get("tags") or (),
            importance=as_number(entry.get("importance", 5)),
            confidence=coerced_confidence(entry.get("confidence", 1.0)),
            context=entry.get("context"),
            source=entry.get("source") if isinstance(entry.get("source"), str) else None,
            source_error=entry.get("sourceError") if isinstance(entry.get("sourceError"), str) else None,
            created_at=created,
            updated_at=now,
            last_accessed=created,
            last_confirmed_at=_moment(confirmed_at, now) if confirmed_at else None,
            confirmation_count=whole_or(0, entry.get("confirmationCount"), 0, _MOST_CONFIRMED),
            expires_at=millis("expiresAt", entry.get("expiresAt") or None),
            metadata={key: value for key, value in entry.items() if key not in _KNOWN},
        )
    )


def _fact_of(memory: Memory) -> dict[str, Any]:
    optional = {
        "sourceError": memory.source_error,
        "lastConfirmedAt": iso(memory.last_confirmed_at) if memory.last_confirmed_at is not None else None,
        "confirmationCount": memory.confirmation_count or None,
        "expiresAt": iso(memory.expires_at) if memory.expires_at is not None else None,
        "context": memory.context,
        "tags": list(memory.tags) or None,
    }
    return {
        **memory.metadata,
        "id": memory.id,
        "content": memory.content,
        "category": memory.category,
        "confidence": memory.confidence,
        "importance": memory.importance,
        "createdAt": iso(memory.created_at),
        "source": memory.source or "unknown",
        **{key: value for key, value in optional.items() if value is not None},
    }


def _moment(value: Any, otherwise: int) -> int:
    """A time of a document, `otherwise` when it cannot be read: a bad time must not cost a fact."""
    if isinstance(value, str):
        with suppress(InvalidMemory):
            return millis("time", value) or otherwise
    return otherwise
