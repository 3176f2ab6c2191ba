"""Copies sessions between stores of any kind, and the rows of the other parts between databases of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from autocontext.errors import Conflict
from autocontext.history.entries import Entry, same_entries
from autocontext.stores.database import Database, Row, Schema, Work, rows_of
from autocontext.stores.lifecycle import expire_like
from autocontext.stores.places import PLACES, Place
from autocontext.stores.protocol import (
    Entries,
    Position,
    SessionInfo,
    SessionKey,
    SessionStore,
    Version,
    check_version,
    new_version,
    version_of,
)

_ENTRIES_AT_ONCE = 500
"""Entries per transaction."""


class Progress(NamedTuple):
    """The progress of a copy; reported after each session."""

    session: SessionInfo
    """The session just copied."""
    entries: int
    """How many of its entries were copied; fewer than it has if an earlier copy is continued."""
    done: int
    total: int
    """Number of sessions."""


def copy_sessions(
    source: SessionStore,
    to: SessionStore,
    *,
    user_id: str | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> int:
    """Copy all sessions of a user (None: of all users) with their expiry; returns the number of entries copied.

    Can be stopped and run again: incomplete and grown sessions are completed. Entries keep their numbers; `revisions`
    at the target are those of the copy. Raises Conflict if the target has another session of that name, or if a session
    is rewritten while it is copied, and SessionGone if it is deleted; what was copied before stays.
    """
    copied = 0
    sessions = source.sessions(user_id)
    for done, info in enumerate(sessions, 1):
        entries = _copy_session(source, to, info)
        copied += entries
        if progress is not None:
            progress(Progress(info, entries, done, len(sessions)))
    return copied


def _copy_session(source: SessionStore, to: SessionStore, info: SessionInfo) -> int:
    present, version = 0, new_version()
    originals = _Reader(source, info.key)
    for part in _Reader(to, info.key).parts(0):
        if not same_entries(part, originals.read(present, len(part))):
            raise Conflict(
                f"copy: session {info.session_id!r} of user {info.user_id!r} exists at the target with other entries; "
                "delete it there or copy into an empty store"
            )
        present += len(part)
        version = version_of(part) or version
    after = present
    for part in originals.parts(present):
        to.append(info.key, part, after=Position(after, version))
        after += len(part)
    expire_like(to, info.key, info)
    return after - present


class _Reader:
    """Reads one session in parts. Raises SessionGone if it is deleted between them, Conflict if it is rewritten."""

    def __init__(self, store: SessionStore, session: SessionKey) -> None:
        self._store, self._session = store, session
        self._version: Version | None = None

    def read(self, after: int, count: int) -> list[Entry]:
        part = self._store.read(self._session, after=after, until=after + count)
        if isinstance(part, Entries):
            check_version(self._session, self._version, part.version)
            self._version = part.version
        return part

    def parts(self, after: int) -> Iterator[list[Entry]]:
        while part := self.read(after, _ENTRIES_AT_ONCE):
            yield part
            after += len(part)


_ROWS_AT_ONCE = 200
"""Rows per transaction."""


def copy_parts(
    source: Database, to: Database, schemas: Sequence[Schema], progress: Callable[[str, int], object]
) -> None:
    """Copy all rows of these parts; rows that are there already stay as they are.

    It can be stopped and run again. `progress` gets the table and how many of its rows are done.
    """
    for schema in schemas:
        source.ensure(schema)
        to.ensure(schema)
        for place in PLACES:
            if place.part == schema.part and place.table not in schema.derived:
                columns = [c for c in place.columns if c not in schema.derived]
                for copied in _copy_table(source, to, place, columns):
                    progress(place.table, copied)


def _copy_table(source: Database, to: Database, place: Place, columns: Sequence[str]) -> Iterator[int]:
    """Copy the rows of a table; how many are done after each transaction."""
    key = [columns.index(name) for name in place.key]
    insert = (
        f"INSERT INTO {place.table} ({', '.join(columns)}) VALUES ({', '.join(f':{c}' for c in columns)}) "
        f"ON CONFLICT ({', '.join(place.key)}) DO NOTHING"
    )
    copied, after = 0, None
    while rows := source.read(partial(rows_after, place.table, place.key, columns, after)):
        to.write(partial(rows_of, insert, [dict(zip(columns, row, strict=True)) for row in rows]))
        copied += len(rows)
        after = [rows[-1][i] for i in key]
        yield copied


def rows_after(table: str, key: Sequence[str], columns: Sequence[str], after: Sequence[Any] | None) -> Work[list[Row]]:
    """The next rows by key, after the one with this key. Not by OFFSET, which gets slower towards the end."""
    names = ", ".join(key)
    condition = "" if after is None else f"WHERE ({names}) > ({', '.join(f':{name}' for name in key)}) "
    sql = f"SELECT {', '.join(columns)} FROM {table} {condition}ORDER BY {names} LIMIT {_ROWS_AT_ONCE}"
    return rows_of(sql, {} if after is None else dict(zip(key, after, strict=False)))
