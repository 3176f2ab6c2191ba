"""The statements behind sessions in a database: each function is one transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

from autocontext.errors import Conflict, StoreCorruptError
from autocontext.stores.database import Row, Schema, Statement, Work
from autocontext.stores.protocol import SessionInfo, SessionKey
from autocontext.stores.records import now

SCHEMA = Schema(
    "sessions",
    (
        (
            (
                "CREATE TABLE autocontext_sessions (user_id TEXT NOT NULL, session_id TEXT NOT NULL, "
                "entries BIGINT NOT NULL, edition BIGINT NOT NULL, created_at BIGINT NOT NULL, "
                "updated_at BIGINT NOT NULL, expires_at BIGINT, PRIMARY KEY (user_id, session_id))"
            ),
            (
                "CREATE TABLE autocontext_entries (user_id TEXT NOT NULL, session_id TEXT NOT NULL, "
                "sequence BIGINT NOT NULL, batch BIGINT NOT NULL, checksum BIGINT NOT NULL, body BYTEA NOT NULL, "
                "PRIMARY KEY (user_id, session_id, sequence))"
            ),
            (
                "CREATE INDEX autocontext_sessions_expiry ON autocontext_sessions (expires_at) "
                "WHERE expires_at IS NOT NULL"
            ),
            (
                "CREATE TABLE autocontext_search (user_id TEXT NOT NULL, session_id TEXT NOT NULL, "
                "start BIGINT NOT NULL, until BIGINT NOT NULL, body BYTEA NOT NULL, "
                "PRIMARY KEY (user_id, session_id, start))"
            ),
        ),
    ),
)
_SESSION = "user_id = :user_id AND session_id = :session_id"


class Rows(NamedTuple):
    """How many entries there should be up to where was asked, and the rows there are: sequence, checksum, body."""

    entries: int
    rows: list[Row]


def append(rows: list[dict[str, Any]], expires_at: int | None) -> Work[None]:
    """Move the session's counter on from exactly where the rows begin, then add them."""
    first, after, then = rows[0], rows[0]["sequence"], rows[-1]["sequence"] + 1
    session = _params(SessionKey(first["user_id"], first["session_id"]))
    if after == 0:
        counters = yield Statement(_START, {**session, "at": now(), "expires_at": expires_at, "then": then})
    elif expires_at is None:
        counters = yield Statement(_GO_ON, {**session, "at": now(), "then": then, "after": after})
    else:
        counters = yield Statement(
            _GO_ON_EXPIRING, {**session, "at": now(), "expires_at": expires_at, "then": then, "after": after}
        )
    if counters:
        yield Statement(_ADD, rows if len(rows) > 1 else first)
        return
    known = yield Statement(f"SELECT entries FROM autocontext_sessions WHERE {_SESSION}", session)
    batch = yield Statement(
        f"SELECT batch FROM autocontext_entries WHERE {_SESSION} AND sequence = :after", {**session, "after": after}
    )
    # The same batch: an earlier attempt at this very append went through, and only its answer was lost.
    if batch != [(first["batch"],)]:
        size = known[0][0] if known else 0
        raise Conflict(f"session {first['session_id']!r} has {size} entries, not {after}: read it again")


def read(session: SessionKey, after: int, until: int | None) -> Work[Rows]:
    """The rows from `after` on, before `until`; None: all, also such as should not be there."""
    known = yield Statement(f"SELECT entries FROM autocontext_sessions WHERE {_SESSION}", _params(session))
    end = known[0][0] if known else 0
    if not isinstance(end, int):
        raise StoreCorruptError("the row of the session is damaged; restore the database from a backup")
    bounds = {"after": after}
    if until is not None:
        bounds["until"] = end = min(end, until)
    rows = yield Statement(
        f"SELECT sequence, checksum, body FROM autocontext_entries WHERE {_SESSION} AND sequence >= :after "
        + ("" if until is None else "AND sequence < :until ")
        + "ORDER BY sequence",
        {**_params(session), **bounds},
    )
    return Rows(end, rows)


def sessions(user_id: str | None) -> Work[list[SessionInfo]]:
    """All sessions of a user, or of everybody."""
    rows = yield Statement(
        "SELECT user_id, session_id, entries, created_at, updated_at, expires_at FROM autocontext_sessions "
        + ("" if user_id is None else "WHERE user_id = :user_id ")
        + "ORDER BY updated_at DESC, user_id, session_id",
        {} if user_id is None else {"user_id": user_id},
    )
    return [SessionInfo(*row) for row in rows]


def delete(session: SessionKey, expired_at: int | None = None) -> Work[bool]:
    """Drop a session; with `expired_at`, only when it had expired by then."""
    rows = yield Statement(
        f"DELETE FROM autocontext_sessions WHERE {_SESSION} "
        + ("" if expired_at is None else "AND expires_at <= :expired_at ")
        + "RETURNING entries",
        {**_params(session), **({} if expired_at is None else {"expired_at": expired_at})},
    )
    if rows:
        yield Statement(f"DELETE FROM autocontext_entries WHERE {_SESSION}", _params(session))
        yield Statement(f"DELETE FROM autocontext_search WHERE {_SESSION}", _params(session))
    return bool(rows)


def rewrite(session: SessionKey, rows: list[dict[str, Any]]) -> Work[None]:
    """Give rows other bodies; what was made of the old ones, an index, is dropped with them."""
    yield Statement(
        f"UPDATE autocontext_sessions SET edition = edition + 1 WHERE {_SESSION}",
        _params(session),
    )
    yield Statement(
        f"UPDATE autocontext_entries SET checksum = :checksum, body = :body WHERE {_SESSION} AND sequence = :sequence",
        rows,
    )
    yield Statement(f"DELETE FROM autocontext_search WHERE {_SESSION}", _params(session))


def expire(session: SessionKey, expires_at: int | None) -> Work[bool]:
    """Set when a session expires; False for an unknown one."""
    done = yield Statement(
        f"UPDATE autocontext_sessions SET expires_at = :expires_at WHERE {_SESSION} RETURNING entries",
        {**_params(session), "expires_at": expires_at},
    )
    return bool(done)


def expired(at: int) -> Work[list[SessionKey]]:
    """The sessions that had expired by a time."""
    rows = yield Statement("SELECT user_id, session_id FROM autocontext_sessions WHERE expires_at <= :at", {"at": at})
    return [SessionKey(*row) for row in rows]


def batches(session: SessionKey) -> Work[list[Row]]:
    """Each batch of a session with the sequence of its last entry, in order."""
    return (
        yield Statement(
            f"SELECT batch, MAX(sequence) FROM autocontext_entries WHERE {_SESSION} GROUP BY batch ORDER BY 2",
            _params(session),
        )
    )


def _params(session: SessionKey) -> dict[str, Any]:
    return {"user_id": session[0], "session_id": session[1]}


_START = (
    "INSERT INTO autocontext_sessions (user_id, session_id, entries, edition, created_at, updated_at, expires_at) "
    "VALUES (:user_id, :session_id, :then, 0, :at, :at, :expires_at) "
    "ON CONFLICT (user_id, session_id) DO NOTHING RETURNING entries"
)
_AFTER = f"WHERE {_SESSION} AND entries = :after RETURNING entries"
_GO_ON = f"UPDATE autocontext_sessions SET entries = :then, updated_at = :at {_AFTER}"
# Apart, since a column that is set has its index written, even to the same value.
_GO_ON_EXPIRING = (
    f"UPDATE autocontext_sessions SET entries = :then, updated_at = :at, expires_at = :expires_at {_AFTER}"
)
_ADD = (
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, body) "
    "VALUES (:user_id, :session_id, :sequence, :batch, :checksum, :body)"
)
