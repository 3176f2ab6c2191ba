"""Long-term memories of many users in one database."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from autocontext.errors import InvalidMemory
from autocontext.memories import changes, exchange, statements
from autocontext.memories.changes import Limits
from autocontext.memories.exchange import ImportReport
from autocontext.memories.finding import UserIndex, in_use, make_query
from autocontext.memories.records import Memory, MemoryStats, ScoredMemory, checked_user
from autocontext.memories.schema import SCHEMA
from autocontext.memories.twins import Steps, read, twins, write
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Database

_USERS_KEPT = 32


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore(DatabasePart):
    """Memories with tags, importance, confidence and expiry, on SQLite or PostgreSQL.

    Every call names the user; nothing of one user is ever found or changed for another. Each method has an
    asynchronous twin with an `a` before its name. `max_memories` limits what one user has in use: beyond it the
    memory least worth keeping is archived, not deleted. `ranker` makes the ranker of each user. `clock` gives
    milliseconds since 1970.
    """

    def __init__(
        self,
        url: Database | str | Path,
        *,
        max_memories: int | None = None,
        ranker: Callable[[], RelevanceRanker] = default_ranker,
        clock: Callable[[], int] = _milliseconds,
    ) -> None:
        if max_memories is not None and (isinstance(max_memories, bool) or max_memories < 1):
            raise InvalidMemory(f"max_memories must be at least 1 (got {max_memories!r})")
        super().__init__(url, SCHEMA)
        self._limits = Limits(max_memories)
        self._ranker, self._clock = ranker, clock
        self._users: OrderedDict[str, UserIndex] = OrderedDict()
        self._lock = threading.Lock()

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
        """Remember something; the same content again confirms what is there. `ttl` is in seconds.

        Raises InvalidMemory naming the field.
        """
        now = self._clock()
        new = changes.checked(
            Memory(
                id="", user_id=user_id, content=content, category=category, tags=tuple(changes.listed(tags)),
                importance=importance, confidence=confidence, context=context, source=source,
                source_error=source_error, metadata=metadata or {}, created_at=now, updated_at=now,
                last_accessed=now, expires_at=changes.expiry(ttl, now),
            )
        )  # fmt: skip
        return (yield from write(lambda: changes.add(new, self._limits)))

    add, aadd = twins(_add)

    def _get(self, memory_id: str, *, user_id: str) -> Steps[Memory | None]:
        """One memory, also an expired or archived one; None when this user has none with that id."""
        owner = checked_user(user_id)
        return (yield from read(lambda: statements.find(owner, memory_id)))

    get, aget = twins(_get)

    def _update(
        self, memory_id: str, /, *, user_id: str, expected_revision: int | None = None, **fields: Any
    ) -> Steps[Memory | None]:
        """Change fields of a memory: those of `add`, and `archived` (a reason, or None to use it again).

        None when this user has none with that id. Raises InvalidMemory naming the field, Conflict when
        `expected_revision` is given and is not the memory's.
        """
        owner, now = checked_user(user_id), self._clock()
        changed = changes.changed_fields(fields, now)
        return (yield from write(lambda: changes.update(owner, memory_id, changed, expected_revision)))

    update, aupdate = twins(_update)

    def _delete(self, memory_id: str, *, user_id: str) -> Steps[bool]:
        """Delete a memory for good; False when this user has none with that id."""
        owner = checked_user(user_id)
        return (yield from write(lambda: statements.remove(owner, memory_id)))

    delete, adelete = twins(_delete)

    def _clear(self, *, user_id: str) -> Steps[int]:
        """Delete everything that is known about a user; how many memories there were."""
        owner = checked_user(user_id)
        return (yield from write(lambda: statements.remove_all(owner)))

    clear, aclear = twins(_clear)

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
        """The memories most relevant to a query, best first; of an empty query the most important ones.

        Filters come first, then the ranking, then the limit. `since` and `until` (inclusive) look at when a memory was
        made: an aware datetime, an ISO text or milliseconds. A memory that shares nothing with the query is not
        found. What is found counts as accessed.
        """
        wanted = make_query(
            query, limit=limit, min_importance=min_importance, min_score=min_score, tags=changes.listed(tags),
            tag_match=tag_match, categories=changes.listed(categories), since=since, until=until, explain=explain,
        )  # fmt: skip
        index = yield from self._current(user_id)
        now = self._clock()
        hits = index.search(wanted, now)
        if hits:
            found = [hit.memory.id for hit in hits]
            yield from write(lambda: statements.touch(user_id, found, now))
            index.touched(found, now)
        return hits

    search, asearch = twins(_search)

    def _all(self, *, user_id: str, archived: bool = False) -> Steps[list[Memory]]:
        """All memories in use, oldest first; with `archived` the expired and archived ones as well."""
        index = yield from self._current(user_id)
        now = self._clock()
        return [m for m in index.listed() if archived or in_use(m, now)]

    all, aall = twins(_all)

    def _stats(self, *, user_id: str) -> Steps[MemoryStats]:
        """How many memories are in use, how important they are on average, and the five most used tags."""
        owner, now = checked_user(user_id), self._clock()
        return (yield from read(lambda: statements.stats(owner, now)))

    stats, astats = twins(_stats)

    def _document(self, *, user_id: str) -> Steps[dict[str, Any]]:
        """What an injector needs: facts in use and section summaries, in the form of memory.json."""
        index = yield from self._current(user_id)
        sections = yield from read(lambda: statements.sections(user_id))
        now = self._clock()
        return exchange.for_injection((m for m in index.listed() if in_use(m, now)), sections)

    document, adocument = twins(_document)

    def _import_json(
        self, source: str | Path | Mapping[str, Any], *, user_id: str, expected_revision: int | None = None
    ) -> Steps[ImportReport]:
        """Take in a memory.json, from a file or as a dict, as one transaction.

        Known facts (by id or content) are confirmed, summaries replaced; what the store has changed after the
        document's `lastUpdated` stays as it is, and so does what cannot be read: both are named in the report. Raises
        StoreCorruptError for a damaged file, StateError for another version, Conflict when `expected_revision` is not
        the user's: then nothing is imported.
        """
        owner, now = checked_user(user_id), self._clock()
        document = exchange.read_document(source)
        return (yield from write(lambda: exchange.take_in(document, owner, now, self._limits, expected_revision)))

    import_json, aimport_json = twins(_import_json)

    def _export_json(self, path: str | Path | None = None, *, user_id: str) -> Steps[dict[str, Any]]:
        """The memory.json document of a user; with a `path` it is written there in one piece."""
        index = yield from self._current(user_id)
        sections = yield from read(lambda: statements.sections(user_id))
        now = self._clock()
        used = [m for m in index.listed() if in_use(m, now)]
        document = exchange.document_of(used, sections, index.revision, now)
        if path is not None:
            exchange.write_whole(path, document)
        return document

    export_json, aexport_json = twins(_export_json)

    def _current(self, user_id: str) -> Steps[UserIndex]:
        """The user's index, brought up to what the database holds now."""
        with self._lock:
            index = self._users.setdefault(checked_user(user_id), UserIndex(self._ranker))
            self._users.move_to_end(user_id)
            while len(self._users) > _USERS_KEPT:
                self._users.popitem(last=False)
        known, held = index.state()
        revision, changed, everything = yield from read(lambda: statements.changes(user_id, known, held))
        index.apply(revision, changed, everything=everything)
        return index
