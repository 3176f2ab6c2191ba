"""The statements of the search index: which sessions have grown, and their segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from autocontext.errors import StoreCorruptError
from autocontext.stores.database import Row, Statement, Work
from autocontext.stores.protocol import SessionKey, Version, storable
from autocontext.stores.search_index import FULL


class Known(NamedTuple):
    """A session and how far it is indexed; `start` is where its next segment begins."""

    key: SessionKey
    start: int
    until: int
    entries: int
    version: Version


def known(user_id: str, session_id: str | None) -> Work[list[Known]]:
    """The sessions of a user; those with `until < entries` have grown since the last search."""
    rows = yield Statement(
        "SELECT s.session_id, s.entries, COALESCE(MAX(x.start), 0), COALESCE(MAX(x.until), 0), "
        "COALESCE(s.identity, s.created_at), s.edition "
        "FROM autocontext_sessions s LEFT JOIN autocontext_search x "
        "ON x.user_id = s.user_id AND x.session_id = s.session_id WHERE s.user_id = :user_id"
        + ("" if session_id is None else " AND s.session_id = :session_id")
        + " GROUP BY s.session_id, s.entries, s.identity, s.created_at, s.edition",
        _scope(user_id, session_id),
    )
    if not all(isinstance(number, int) for row in rows for number in row[1:]):  # SQLite's columns hold any type
        raise StoreCorruptError("the search index or the row of a session is damaged")
    return [
        # Rebuild the last segment until it is full, so that small additions make no segments of their own.
        Known(SessionKey(user_id, id_), start if until - start < FULL else until, until, entries, Version(*version))
        for id_, entries, start, until, *version in rows
    ]


def put(session: SessionKey, version: Version, segments: list[tuple[int, int, bytes]]) -> Work[None]:
    """Store segments (start, until, body), unless the session was rewritten or deleted since they were built."""
    key = {"user_id": session[0], "session_id": session[1]}
    same = yield Statement(
        # Changes nothing, but locks the row, so that nobody erases messages in between.
        "UPDATE autocontext_sessions SET edition = :edition "
        "WHERE user_id = :user_id AND session_id = :session_id AND edition = :edition "
        "AND COALESCE(identity, created_at) = :identity RETURNING edition",
        {**key, **version._asdict()},
    )
    if same:
        yield Statement(
            "INSERT INTO autocontext_search (user_id, session_id, start, until, body) "
            "VALUES (:user_id, :session_id, :start, :until, :body) "
            "ON CONFLICT (user_id, session_id, start) DO UPDATE SET until = excluded.until, body = excluded.body "
            "WHERE autocontext_search.until < excluded.until",
            [{**key, "start": start, "until": until, "body": body} for start, until, body in segments],
        )


def segments(user_id: str, session_id: str | None, *, bodies: bool = True) -> Work[list[Row]]:
    """The segments of a user, or of one session, in order: session id, start, until, and with `bodies` the body."""
    return (
        yield Statement(
            f"SELECT session_id, start, until{', body' if bodies else ''} FROM autocontext_search "
            "WHERE user_id = :user_id"
            + ("" if session_id is None else " AND session_id = :session_id")
            + " ORDER BY session_id, start",
            _scope(user_id, session_id),
        )
    )


def bodies(places: Sequence[tuple[SessionKey, int]]) -> Work[list[Row]]:
    """The rows of some entries: user id, session id, sequence, checksum, body. Unknown ones are left out."""
    found: list[Row] = []
    for session, those in groupby(places, key=lambda place: place[0]):
        numbers = {f"number_{i}": number for i, (_, number) in enumerate(those)}
        found += yield Statement(
            "SELECT user_id, session_id, sequence, checksum, body FROM autocontext_entries "
            "WHERE user_id = :user_id AND session_id = :session_id "
            f"AND sequence IN ({', '.join(f':{name}' for name in numbers)})",
            {**_scope(*session), **numbers},
        )
    return found


def forget(user_id: str) -> Work[None]:
    """Delete the segments of a user."""
    yield Statement("DELETE FROM autocontext_search WHERE user_id = :user_id", {"user_id": user_id})


def _scope(user_id: str, session_id: str | None) -> dict[str, str]:
    storable(SessionKey(user_id, session_id or ""))
    return {"user_id": user_id} if session_id is None else {"user_id": user_id, "session_id": session_id}
