"""Long-term memories of many users in one database."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from autocontext.errors import InvalidMemory, StoreError
from autocontext.flows import compute, sync_and_async
from autocontext.flows.forking import fork_lock
from autocontext.memories import changes, exchange, statements
from autocontext.memories.exchange import ImportReport
from autocontext.memories.finding import Query, UserIndex
from autocontext.memories.large import FEW, LargeIndex
from autocontext.memories.records import (
    Memory,
    MemoryStats,
    ScoredMemory,
    checked,
    checked_moment,
    checked_user,
    stats_of,
)
from autocontext.memories.schema import SCHEMA
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.stores.checks import check_id, check_whole
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Database, Steps, read, write
from autocontext.stores.kept import Kept
from autocontext.stores.private_files import write_private
from autocontext.stores.records import now as milliseconds

_USERS_KEPT = 32


class MemoryStore(DatabasePart):
    """Memories with tags, importance, confidence and expiry, on SQLite or PostgreSQL.

    Every call names the user and reaches the memories of that user only. Each method has an asynchronous version with
    an `a` before its name. `max_memories` limits the memories in use of each user: beyond it the one with the lowest
    retention, but for the new one, is archived, not deleted. `ranker` creates a ranker for each user. `clock` returns
    milliseconds since 1970.

        store = MemoryStore("agent.db")
        store.add("Prefers pytest", user_id="ann")
        store.search("tests", user_id="ann")[0].memory.content
    """

    def __init__(
        self,
        url: Database | str | Path,
        *,
        max_memories: int | None = None,
        ranker: Callable[[], RelevanceRanker] = default_ranker,
        clock: Callable[[], float] = milliseconds,
    ) -> None:
        check_whole("max_memories", max_memories, 1, InvalidMemory, none="no limit")
        super().__init__(url, SCHEMA)
        self._most = max_memories
        self._ranker, self._clock = ranker, clock
        self._users: Kept[str, UserIndex] = Kept(_USERS_KEPT, forgotten=False)
        self._large = LargeIndex(self.database)
        self._lock = fork_lock()

    def now(self) -> int:
        """The time of `clock`, in whole milliseconds. Raises InvalidMemory if it gives none."""
        return checked_moment("clock", self._clock())

    def _add(
        self,
        content: str,
        *,
        user_id: str,
        category: str = "context",
        tags: Iterable[str] = (),
        importance: int = 5,
        confidence: float = 1.0,
        context: Any = None,
        source: str | None = None,
        ttl: float | None = None,
        source_error: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Steps[Memory]:
        """Add a memory; adding the same content again confirms it. `ttl` is in seconds.

        Raises InvalidMemory naming the field.
        """
        now = self.now()
        new = checked(
            Memory(
                id="", user_id=user_id, content=content, category=category, importance=importance,
                tags=tags,  # type: ignore[arg-type]  # checked right away
                confidence=confidence, context=context, source=source, source_error=source_error,
                metadata=metadata or {}, created_at=now, updated_at=now, last_accessed=now,
                expires_at=changes.expiry(ttl, now),
            )
        )  # fmt: skip
        return (yield from write(lambda: changes.add(new, self._most)))

    add, aadd = sync_and_async(_add)

    def _get(self, memory_id: str, *, user_id: str) -> Steps[Memory | None]:
        """One memory, even an expired or archived one; None when this user has none with this id."""
        check_id("memory_id", memory_id, InvalidMemory)
        owner = checked_user(user_id)
        return (yield from read(lambda: statements.find(owner, memory_id)))

    get, aget = sync_and_async(_get)

    def _update(
        self, /, memory_id: str, *, user_id: str, expected_revision: int | None = None, **fields: Any
    ) -> Steps[Memory | None]:
        """Change fields of a memory: those of `add`, and `archived` (a reason, or None to use it again).

        None when this user has none with this id. Raises InvalidMemory naming a wrong field, and Conflict when the
        memory is not at `expected_revision`.
        """
        check_id("memory_id", memory_id, InvalidMemory)
        owner, now = checked_user(user_id), self.now()
        columns = changes.changed_fields(fields, now)
        return (yield from write(lambda: changes.update(owner, memory_id, columns, expected_revision)))

    update, aupdate = sync_and_async(_update)

    def _delete(self, memory_id: str, *, user_id: str) -> Steps[bool]:
        """Delete a memory permanently; False when this user has none with this id."""
        check_id("memory_id", memory_id, InvalidMemory)
        owner = checked_user(user_id)
        return (yield from write(lambda: statements.remove(owner, memory_id)))

    delete, adelete = sync_and_async(_delete)

    def _clear(self, *, user_id: str) -> Steps[int]:
        """Delete everything about a user; returns the number of memories."""
        owner = checked_user(user_id)
        return (yield from write(lambda: statements.remove_all(owner)))

    clear, aclear = sync_and_async(_clear)

    def _search(
        self,
        query: str,
        *,
        user_id: str,
        limit: int = 5,
        min_importance: float = 1,
        min_score: float = 0.0,
        tags: Iterable[str] = (),
        tag_match: Literal["any", "all"] = "any",
        categories: Collection[str] = (),
        since: datetime | str | int | None = None,
        until: datetime | str | int | None = None,
        explain: bool = False,
    ) -> Steps[list[ScoredMemory]]:
        """The memories most relevant to a query, best first; for an empty query the most important ones.

        Filters apply before the ranking, the limit after it. `since` and `until` (inclusive) compare the creation time:
        an aware datetime, an ISO 8601 string or milliseconds. A memory that shares nothing with the query is not found.
        Results count as accessed if the database can be written to, a SQLite file at once. Raises InvalidMemory naming
        a wrong argument.
        """
        owner = checked_user(user_id)
        search = Query(
            query, limit, min_importance, min_score, tags, tag_match, categories, since, until, explain
        )  # fmt: skip
        large = yield from self._is_large(owner)
        find = partial(self._large.search, owner) if large else (yield from self._current(owner)).search
        now = self.now()
        hits = yield from compute(lambda: find(search, now))
        if hits:
            memory_ids = [hit.memory.id for hit in hits]
            try:
                yield from write(lambda: statements.touch(owner, memory_ids, now))
            except StoreError:  # somebody else writes, or nobody may: the hits are found all the same
                return hits
            if (known := self._users.get(owner)) is not None:
                known.touched(memory_ids, now)
        return hits

    search, asearch = sync_and_async(_search)

    def _all(self, *, user_id: str, archived: bool = False) -> Steps[list[Memory]]:
        """All memories in use, oldest first; with `archived=True` expired and archived ones too."""
        memories, _ = yield from self._listed(checked_user(user_id))
        now = self.now()
        return [m for m in memories if archived or m.in_use(now)]

    all, aall = sync_and_async(_all)

    def _stats(self, *, user_id: str) -> Steps[MemoryStats]:
        """Number of memories in use, their mean importance, and the five most used tags."""
        return stats_of((yield from self._all(user_id=user_id)))

    stats, astats = sync_and_async(_stats)

    def _revision(self, *, user_id: str) -> Steps[int]:
        """The user's change counter, 0 without one: what `expected_revision` of an import is compared with."""
        owner = checked_user(user_id)
        return (yield from read(lambda: statements.revision(owner)))

    revision, arevision = sync_and_async(_revision)

    def _document(self, *, user_id: str) -> Steps[dict[str, Any]]:
        """Facts in use and section summaries for an injector, in the form of memory.json."""
        owner = checked_user(user_id)
        memories = yield from self._all(user_id=owner)
        return exchange.for_injection(memories, (yield from read(lambda: statements.sections(owner))))

    document, adocument = sync_and_async(_document)

    def _document_about(
        self,
        text: str,
        *,
        user_id: str,
        categories: Collection[str] = (),
        ids: Collection[str] = (),
        count: int = 500,
    ) -> Steps[dict[str, Any]]:
        """`document`; of many memories only `count` near the text, as many of these categories, some of the surest.

        And those with these ids.
        """
        owner = checked_user(user_id)
        if not (yield from self._is_large(owner)):
            return (yield from self._document(user_id=owner))
        now = self.now()
        memories = yield from compute(lambda: self._large.near(owner, text, categories, count, now, ids=ids))
        return exchange.for_injection(memories, (yield from read(lambda: statements.sections(owner))))

    document_about, adocument_about = sync_and_async(_document_about)

    def _import_json(
        self, source: str | Path | Mapping[str, Any], *, user_id: str, expected_revision: int | None = None
    ) -> Steps[ImportReport]:
        """Import a memory.json, a file or a dict, in one transaction.

        Facts that the store has (by id or content) are confirmed, and summaries replaced. The report lists entries that
        cannot be read and facts that the store has changed after the document's `lastUpdated`; both are skipped.
        Imports nothing and raises StoreCorruptError for a damaged file, StateError for another version, Conflict when
        the user is not at `expected_revision`.
        """
        owner, now = checked_user(user_id), self.now()
        document = exchange.read_document(source)
        return (yield from write(lambda: exchange.take_in(document, owner, now, self._most, expected_revision)))

    import_json, aimport_json = sync_and_async(_import_json)

    def _apply_update(
        self,
        update: Mapping[str, Any],
        *,
        user_id: str,
        source: str = "unknown",
        threshold: float = 0.7,
        expected_revision: int | None = None,
    ) -> Steps[ImportReport]:
        """Apply what a model learned (`parse_update`) by the rules of `apply_update`, in one transaction.

        Facts in `factsToRemove` are archived, new ones that the store has are confirmed, and all others stay as they
        are. Raises Conflict when the user is not at `expected_revision`.
        """
        owner, now = checked_user(user_id), self.now()
        take = partial(exchange.take_update, update, owner, now, self._most, expected_revision)
        return (yield from write(lambda: take(source=source, threshold=threshold)))

    apply_update, aapply_update = sync_and_async(_apply_update)

    def _export_json(self, path: str | Path | None = None, *, user_id: str) -> Steps[dict[str, Any]]:
        """The memory.json document of a user; written atomically to `path` if there is one."""
        owner = checked_user(user_id)
        memories, revision = yield from self._listed(owner)
        sections = yield from read(lambda: statements.sections(owner))
        now = self.now()
        document = exchange.document_of([m for m in memories if m.in_use(now)], sections, revision, now)
        if path is not None:
            write_private(path, json.dumps(document, ensure_ascii=False, indent=2))
        return document

    export_json, aexport_json = sync_and_async(_export_json)

    def _is_large(self, user_id: str) -> Steps[bool]:
        """Whether a user's memories are indexed in blocks. A ranker of one's own may find what shares no word."""
        return self._ranker is default_ranker and (yield from read(lambda: statements.more_than(user_id, FEW)))

    def _listed(self, user_id: str) -> Steps[tuple[list[Memory], int]]:
        """All memories, oldest first, and the revision. Those of a user with many are not kept in memory."""
        if (yield from self._is_large(user_id)):
            revision, memories, _ = yield from read(partial(statements.changes, user_id, 0, ()))
            return memories, revision
        index = yield from self._current(user_id)
        return index.listed(), index.revision

    def _current(self, user_id: str) -> Steps[UserIndex]:
        """The user's index, in step with the database."""
        with self._lock:
            index = self._users.get(user_id) or UserIndex(self._ranker)
            self._users.put(user_id, index)
        while True:
            since, ids = index.state()
            revision, memories, everything = yield from read(partial(statements.changes, user_id, since, ids))
            if (yield from compute(partial(index.apply, since, revision, memories, everything=everything))):
                return index
