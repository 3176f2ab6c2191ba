"""Sessions in a database: a row per session, a row per log entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack
from zlib import crc32

from autocontext.errors import InvalidMessage, StoreCorruptError
from autocontext.flows import sync_and_async
from autocontext.history.collector import collector_paused
from autocontext.history.entries import Entry, same_entries
from autocontext.history.recorded import Stored
from autocontext.messages import Msg
from autocontext.stores import postgres_sessions, records
from autocontext.stores import session_statements as statements
from autocontext.stores.checks import check_whole, checked_seconds
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Database, Row, Steps, Work, read, write
from autocontext.stores.indexing import SearchIndex, Span
from autocontext.stores.lifecycle import Lifecycle
from autocontext.stores.protocol import Entries, Page, Revision, SessionInfo, SessionKey, storable, version_of
from autocontext.stores.records import intact
from autocontext.stores.search import EntryAt, Filters, Found, best_hits, question, with_snippets
from autocontext.stores.search_statements import bodies
from autocontext.stores.session_statements import FIRST, Rows

T = TypeVar("T")


class DatabaseSessionStore(DatabasePart, Lifecycle):
    """Log entries in a SQLite file or PostgreSQL. `url`: a path, `:memory:`, a URL or an open Database.

    With `ttl`, a session expires that many seconds after its last entry, unless `expire` has set a later time; so does
    one that was written without. `purge_expired` deletes expired sessions.
    """

    def __init__(self, url: Database | str | Path, *, ttl: float | None = None) -> None:
        self._ttl = checked_seconds("ttl", ttl)
        super().__init__(url, statements.SCHEMA)
        self._append = (postgres_sessions if self.database.dialect == "postgresql" else statements).append
        self._index = SearchIndex(self.database, self._read_spans)

    def append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones, all or none. Raises Conflict if the session is longer."""
        if entries:
            self.database.write(self._appending(session, entries, after))

    async def aappend(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """`append` without blocking the event loop."""
        if entries:
            await self.database.awrite(self._appending(session, entries, after))

    def _appending(self, session: SessionKey, entries: Sequence[Entry], after: int) -> Callable[[], Work[None]]:
        """The transaction that appends entries."""
        storable(session)
        batch = records.batch_number()
        rows = [_row(session, number, entry, batch) for number, entry in enumerate(entries, after)]
        return partial(self._append, rows, version_of(after), None if self._ttl is None else records.expiry(self._ttl))

    def _read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> Steps[list[Entry]]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session.

        Raises StoreCorruptError naming session and sequence; the entries before that can be read with `until`. Raises
        InvalidMessage for numbers below 0. Unpacking takes about 30 us per entry.
        """
        check_whole("read: after", after, error=InvalidMessage)
        check_whole("read: until", until, error=InvalidMessage, none="all")
        try:
            rows = yield from read(partial(statements.read, session, after, until))
        except StoreCorruptError as e:
            lost = end = after
            while end != until and (until is None or until > after + 1):
                # In growing parts, as an entry before it that was changed is reported first.
                end = 2 * lost - after + 1 if until is None else min(until, 2 * lost - after + 1)
                lost += len((yield from self._read(session, after=lost, until=end)))
                if lost < end:
                    break
            raise StoreCorruptError(f"{self._place(session, lost)}: {e}") from e
        return self._unpacked(session, after, rows, _entry)

    read, aread = sync_and_async(_read)

    def _read_spans(self, spans: Sequence[Span]) -> list[list[Entry]]:
        """The entries of each span, from one transaction."""

        def work() -> Work[list[statements.Rows]]:
            found = []
            for span in spans:
                rows = yield from statements.read(*span)
                found.append(rows)
            return found

        found = self.database.read(work)
        return [self._unpacked(span.session, span.after, rows, _entry) for span, rows in zip(spans, found, strict=True)]

    def read_lazily(self, session: SessionKey) -> Sequence[Entry | Stored]:
        """`read` for a Log: added messages are parsed later, but all checksums and the chain are checked now."""
        if getattr(self.read, "__func__", None) is not DatabaseSessionStore.read:
            return self.read(session)  # a subclass gives other entries
        try:
            rows = self.database.read(partial(statements.read, session, 0, None))
        except StoreCorruptError:
            return self.read(session)  # finds and reports the damaged entry

        def message(number: int, body: bytes) -> Msg:
            return self._at(session, number, records.added, body)

        def entry(number: int, body: bytes) -> Entry | Stored:
            id_ = records.id_of_added(body)
            return records.from_bytes(body) if id_ is None else Stored(id_, number, body, message, records.entry_json)

        return self._unpacked(session, 0, rows, entry)

    def _sessions(self, user_id: str | None = None, **page: Unpack[Page]) -> Steps[list[SessionInfo]]:
        """The sessions of a user (None: of all users), most recently written first; all, or a page of them."""
        infos = yield from read(partial(statements.sessions, user_id, **page))
        return [*map(self._expiring, infos)]

    sessions, asessions = sync_and_async(_sessions)

    def info(self, session: SessionKey) -> SessionInfo | None:
        """A session as it stands in the list of sessions; None for an unknown one."""
        infos = self.database.read(partial(statements.sessions, session[0], session_id=session[1]))
        return self._expiring(infos[0]) if infos else None

    def _expiring(self, info: SessionInfo) -> SessionInfo:
        """What was written before the store had a `ttl` expires by it, too."""
        if self._ttl is None or info.stays or info.expires_at is not None:
            return info
        return info._replace(expires_at=info.updated_at + records.milliseconds(self._ttl))

    def _delete(self, session: SessionKey) -> Steps[bool]:
        """Delete a session; False if there was none."""
        return (yield from write(partial(statements.delete, session)))

    delete, adelete = sync_and_async(_delete)

    def rewrite(self, session: SessionKey, entries: Mapping[int, Entry]) -> None:
        """Replace entries by their number, all or none."""
        rows = [_row(session, number, entry) for number, entry in entries.items()]
        self.database.write(partial(statements.rewrite, session, rows))

    def reseal(self, session: SessionKey, old: Mapping[int, Entry], new: Mapping[int, Entry]) -> None:
        """`swap` with the same entries, encrypted with another key."""
        self.swap(session, old, new, resealed=True)

    def swap(
        self, session: SessionKey, old: Mapping[int, Entry], new: Mapping[int, Entry], *, resealed: bool = False
    ) -> None:
        """`rewrite` with `new` if the entries at its numbers are still those of `old`. Raises Conflict otherwise."""

        def unchanged(stored: list[Row]) -> bool:
            found = {}
            for sequence, checksum, body in stored:
                if sequence in new:
                    found[sequence] = self._at(session, sequence, records.unpack, body, checksum)
            return found.keys() == new.keys() and same_entries(found.values(), (old[number] for number in found))

        if new:
            rows = [_row(session, number, entry) for number, entry in new.items()]
            self.database.write(partial(statements.rewrite, session, rows, unchanged, resealed=resealed))

    def expire(self, session: SessionKey, ttl: float | None) -> bool:
        """Let a session expire in `ttl` seconds, or never (None); False for an unknown session."""
        return self.database.write(partial(statements.expire, session, records.expiry(ttl)))

    def purge_expired(self) -> int:
        """Delete expired sessions, and return their number."""
        at = records.now()
        due = statements.due(at, None if self._ttl is None else at - records.milliseconds(self._ttl))
        expired = self.database.read(partial(statements.expired, due))
        # One transaction per session: a distributed database has all rows of a session in one place.
        return sum(self.database.write(partial(statements.delete, session, due)) for session in expired)

    def revisions(self, session: SessionKey) -> list[Revision]:
        """The earlier states of a session, oldest first; `fork(at=)` takes their `entries`."""
        rows = self.database.read(partial(statements.batches, session))
        return [Revision(int(last) + 1, records.batch_time(batch)) for batch, last in rows]

    def search(
        self, text: str, *, user_id: str, session_id: str | None = None, limit: int = 10, **filters: Unpack[Filters]
    ) -> list[Found]:
        """The messages of a user, or of one session, that match a text best, as in `Lifecycle.search`, with an index.

        Indexes first what was added since the last search: about 25 us per message of 400 characters. So saving is not
        slowed down. A damaged index is rebuilt. Raises StoreCorruptError for a damaged entry.
        """
        asked = question(text, limit, **filters)
        try:
            index = self._index.segments(user_id, session_id, asked.terms or None)
        except StoreCorruptError:
            # The entries may be intact, and then they are enough. If they are not, reading them raises.
            return super().search(text, user_id=user_id, session_id=session_id, limit=limit, **filters)
        hits = collector_paused(len(index.segments), lambda: best_hits(asked, index.segments, index[1:]))
        return with_snippets(text, hits, self._entries)

    def _entries(self, places: Sequence[EntryAt]) -> dict[EntryAt, Entry]:
        entries = {}
        for user_id, session_id, number, checksum, body in self.database.read(partial(bodies, places)):
            session = SessionKey(user_id, session_id)
            entries[session, number] = self._at(session, number, records.unpack, body, checksum)
        for session, number in set(places) - entries.keys():
            # Deleted meanwhile, or hidden by damage; then reading in order raises.
            for entry in self.read(session, after=number, until=number + 1):
                entries[session, number] = entry
        return entries

    def scrub(self) -> None:
        """Remove replaced and deleted data from the files; see `Database.scrub`."""
        self.database.scrub()

    def _unpacked(
        self, session: SessionKey, after: int, result: statements.Rows, read: Callable[[int, bytes], T]
    ) -> Entries[T]:
        entries: Entries[T] = Entries(version=result.version)
        try:
            collector_paused(len(result.rows), lambda: follow(entries, after, result, read))
        except StoreCorruptError as e:
            raise StoreCorruptError(f"{self._place(session, after + len(entries))}: {e}") from e
        return entries

    def _at(self, session: SessionKey, number: int, read: Callable[..., T], *stored: Any) -> T:
        """What `read` makes of what is stored of an entry. Raises StoreCorruptError naming its place."""
        try:
            return read(*stored)
        except StoreCorruptError as e:
            raise StoreCorruptError(f"{self._place(session, number)}: {e}") from e

    def _place(self, session: SessionKey, number: int) -> str:
        return f"{self.database.name}: user {session[0]!r}, session {session[1]!r}, sequence {number}"


def _entry(_number: int, body: bytes) -> Entry:
    return records.from_bytes(body)


def _row(session: SessionKey, number: int, entry: Entry, batch: int | None = None) -> dict[str, Any]:
    """The parameters of a stored entry; rewriting it leaves its batch."""
    body = records.to_bytes(entry)
    return {
        "user_id": session[0], "session_id": session[1], "sequence": number, "batch": batch, "checksum": crc32(body),
        "body": body,
    }  # fmt: skip


class SqliteSessionStore(DatabaseSessionStore):
    """Sessions in one SQLite file (or `:memory:`), for many threads and processes."""


class SqlSessionStore(DatabaseSessionStore):
    """Sessions in PostgreSQL by its URL, for agents on several machines; needs the extra `sql`."""


class InMemorySessionStore(DatabaseSessionStore):
    """Sessions for as long as this object lives, in a `:memory:` database of SQLite. `ttl` as in the other stores."""

    def __init__(self, *, ttl: float | None = None) -> None:
        super().__init__(":memory:", ttl=ttl)


def follow(entries: list[T], after: int, found: Rows, read: Callable[[int, bytes], T]) -> None:
    """Append to `entries` what `read` makes of each row; the rows begin at number `after`, or one before it.

    Raises StoreCorruptError at the first row that is missing or wrong; the entries before it are in the list then.
    """
    rows = found.rows
    link = None if after else FIRST
    """The checksum of the entry before; None for rows of version 1, which have no chain."""
    if rows and rows[0][0] == after - 1:
        _, checksum, previous, _ = rows[0]
        link = None if previous is None else checksum
        rows = rows[1:]
    for number, row in enumerate(rows, after):
        sequence, checksum, previous, body = row
        if sequence != number:
            raise StoreCorruptError("it is missing")
        if number >= found.entries:
            raise StoreCorruptError(f"the session should end before it; read it with until={number + 1}")
        if previous != link and previous is not None and link is not None:
            raise StoreCorruptError("another one was written there (chain)")
        entries.append(read(number, intact(body, checksum)))
        link = None if previous is None else checksum
    end = after + len(rows)
    if end < found.entries:
        raise StoreCorruptError("it is missing")
    if rows and link is not None and found.head not in (None, link):
        raise StoreCorruptError(
            f"the session went on here, or its row is damaged (chain); what is there can be read with until={end}"
        )
