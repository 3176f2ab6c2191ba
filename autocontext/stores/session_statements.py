"""The statements of sessions in a database: each function is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from autocontext.errors import Conflict, InvalidMessage, StoreCorruptError
from autocontext.stores.checks import check_id, check_whole
from autocontext.stores.database import Alone, OnSqlite, Row, Schema, Statement, Work
from autocontext.stores.places import forget
from autocontext.stores.protocol import SessionInfo, SessionKey, Version, check_version, new_version, storable
from autocontext.stores.records import NEVER, now

SCHEMA = Schema(
    "sessions",
    (
        (
            """CREATE TABLE autocontext_sessions (
                user_id TEXT NOT NULL, session_id TEXT NOT NULL, entries BIGINT NOT NULL, edition BIGINT NOT NULL,
                created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, expires_at BIGINT,
                PRIMARY KEY (user_id, session_id))""",
            """CREATE TABLE autocontext_entries (
                user_id TEXT NOT NULL, session_id TEXT NOT NULL, sequence BIGINT NOT NULL, batch BIGINT NOT NULL,
                checksum BIGINT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (user_id, session_id, sequence))""",
            """CREATE INDEX autocontext_sessions_expiry ON autocontext_sessions (expires_at)
                WHERE expires_at IS NOT NULL""",
            """CREATE TABLE autocontext_search (
                user_id TEXT NOT NULL, session_id TEXT NOT NULL, start BIGINT NOT NULL, until BIGINT NOT NULL,
                body BYTEA NOT NULL, PRIMARY KEY (user_id, session_id, start))""",
        ),
        (
            # NULL in rows that a library of version 1 has written or still writes.
            "ALTER TABLE autocontext_sessions ADD COLUMN identity BIGINT",
            "ALTER TABLE autocontext_sessions ADD COLUMN head BIGINT",
            "ALTER TABLE autocontext_sessions ADD COLUMN previous BIGINT",
            "ALTER TABLE autocontext_entries ADD COLUMN previous BIGINT",
        ),
        (
            # Version 3 stores short entries with signs and long ones after an id; libraries of version 2 cannot read
            # them.
            OnSqlite(
                # Appends of several entries advance the counter first; then this changes nothing.
                "CREATE TRIGGER autocontext_entry_added AFTER INSERT ON autocontext_entries BEGIN "
                "UPDATE autocontext_sessions SET entries = NEW.sequence + 1, updated_at = NEW.batch >> 21, "
                "head = NEW.checksum "
                "WHERE user_id = NEW.user_id AND session_id = NEW.session_id AND entries = NEW.sequence; END"
            ),
        ),
    ),
)
OF_SESSION = "user_id = :user_id AND session_id = :session_id"
"""The condition of a statement about one session, whose parameters are those of `params_of`."""
_IDENTITY = "COALESCE(identity, created_at)"
"""Sessions of version 1 have no identity; no two of one name began in the same millisecond."""
FIRST = 0
"""The `previous` of the first entry."""


class Rows(NamedTuple):
    """The requested rows of a session."""

    entries: int
    """How many entries there should be, up to the requested end."""
    rows: list[Row]
    """Sequence, checksum, `previous` (the checksum of the entry before), body. The first may be the row before the
    requested ones, without its body."""
    head: int | None = None
    """The checksum of the session's last entry; None if it is unknown, or the request ends before."""
    version: Version | None = None


def append(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> Work[None]:
    """Advance the session's counter if it is exactly where the rows begin, then insert them; for SQLite.

    `version` is the session's (None: any), or that of the new session.
    """
    if len(rows) == 1 and rows[0]["sequence"] and expires_at is None:
        # The usual case, in one statement, which is the transaction, too. What it does not insert goes on below.
        identity, edition = version or ANY
        if (yield Alone(_ADD_ONE, {**rows[0], "identity": identity, "edition": edition})):
            return
    before = yield Statement(*moving(rows, version, expires_at))
    if not before:
        yield from refused(rows[0], version)
        return
    links = [before[0][0], *(row["checksum"] for row in rows[:-1])]
    yield Statement(_ADD, [{**row, "previous": link} for row, link in zip(rows, links, strict=True)])


def moving(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> tuple[str, dict[str, Any]]:
    """The statement that advances the session's counter, and its parameters.

    It returns the checksum of the entry before the rows, and no row if the counter is elsewhere.
    """
    first, last = rows[0], rows[-1]
    after = first["sequence"]
    version = version or (ANY if after else new_version())
    params = {
        "user_id": first["user_id"], "session_id": first["session_id"], "at": now(), "then": last["sequence"] + 1,
        "head": last["checksum"], "identity": version.identity, "edition": version.edition, "after": after,
        "expires_at": expires_at,
    }  # fmt: skip
    return (_START if after == 0 else _GO_ON if expires_at is None else _GO_ON_EXPIRING), params


def refused(first: dict[str, Any], version: Version | None) -> Work[None]:
    """Raise the reason why this row cannot be appended, unless it is stored already."""
    session, after = SessionKey(first["user_id"], first["session_id"]), first["sequence"]
    size, _, *found = yield from _counted(session)
    batch = yield Statement(
        f"SELECT batch FROM autocontext_entries WHERE {OF_SESSION} AND sequence = :after",
        {**params_of(session), "after": after},
    )
    # The same batch: an earlier attempt of this append succeeded, and only its answer was lost.
    if batch != [(first["batch"],)]:
        if after > 0:
            check_version(session, version, Version(*found) if found else None)
        raise Conflict(f"session {session.session_id!r} has {size} entries, not {after}: read it again")


def read(session: SessionKey, after: int, until: int | None) -> Work[Rows]:
    """The rows from `after` on, before `until`; None: all, even rows after the session's end."""
    size, head, *version = yield from _counted(session)
    if not isinstance(size, int):
        raise StoreCorruptError("the row of the session is damaged; restore the database from a backup")
    end = size if until is None else min(size, until)
    rows = yield Statement(
        "SELECT sequence, checksum, previous, CASE WHEN sequence >= :after THEN body END FROM autocontext_entries "
        f"WHERE {OF_SESSION} AND sequence >= :before AND sequence < :until ORDER BY sequence",
        {**params_of(session), "after": after, "before": after - 1, "until": NEVER if until is None else end},
    )
    return Rows(end, rows, head if until is None else None, Version(*version) if version else None)


def sessions(
    user_id: str | None, limit: int | None = None, after: SessionInfo | None = None, session_id: str | None = None
) -> Work[list[SessionInfo]]:
    """The sessions of a user (None: of all users), most recently written first; so many after one of them, or one."""
    if user_id is not None:
        check_id("user_id", user_id, InvalidMessage)
    ids = {"user_id": user_id, "session_id": session_id}
    params: dict[str, Any] = {name: id_ for name, id_ in ids.items() if id_ is not None}
    conditions = ["TRUE", *(f"{name} = :{name}" for name in params)]
    if after is not None:
        conditions.append(
            "(updated_at < :at OR (updated_at = :at AND (user_id > :owner OR (user_id = :owner AND session_id > :id))))"
        )
        params |= {"at": after.updated_at, "owner": after.user_id, "id": after.session_id}
    check_whole("limit", limit, 1, none="all")
    rows = yield Statement(
        "SELECT user_id, session_id, entries, created_at, updated_at, expires_at FROM autocontext_sessions "
        f"WHERE {' AND '.join(conditions)} ORDER BY updated_at DESC, user_id, session_id LIMIT :limit",
        {**params, "limit": NEVER if limit is None else limit},
    )
    infos = (SessionInfo(*row) for row in rows)
    return [info._replace(expires_at=None, stays=True) if info.expires_at == NEVER else info for info in infos]


Due: TypeAlias = tuple[str, dict[str, Any]]
"""The condition for which sessions have expired, and its parameters."""


def due(at: int, since: int | None) -> Due:
    """Those that have expired by a time; those without a time of their own if they were last written by `since`."""
    if since is None:
        return "expires_at <= :at", {"at": at}
    return "(expires_at <= :at OR (expires_at IS NULL AND updated_at <= :since))", {"at": at, "since": since}


def delete(session: SessionKey, due: Due = ("TRUE", {})) -> Work[bool]:
    """Delete a session; with `due`, only if it has expired."""
    condition, params = due
    rows = yield Statement(
        f"DELETE FROM autocontext_sessions WHERE {OF_SESSION} AND {condition} RETURNING entries",
        {**params_of(session), **params},
    )
    if rows:
        yield from forget(*session, whole=True)
    return bool(rows)


def rewrite(
    session: SessionKey,
    rows: list[dict[str, Any]],
    unchanged: Callable[[list[Row]], bool] | None = None,
    *,
    resealed: bool = False,
) -> Work[None]:
    """Replace the bodies of rows, and delete what is derived from the old ones (index, saved states).

    With `resealed` the entries are the same, in another encryption, and what is derived from them stays.

    `unchanged` is asked about the rows (sequence, checksum, body) between the first and the last of these, once nobody
    else can rewrite them. Raises Conflict when it says no.
    """
    last = max(rows, key=lambda row: row["sequence"])
    yield Statement(
        # The first statement, because it locks the session: of two rewriting transactions one waits here.
        f"UPDATE autocontext_sessions SET edition = edition + {0 if resealed else 1}, "
        f"head = CASE WHEN entries = :entries THEN :head ELSE head END WHERE {OF_SESSION}",
        {**params_of(session), "entries": last["sequence"] + 1, "head": last["checksum"]},
    )
    if unchanged is not None:
        numbers = [row["sequence"] for row in rows]
        stored = yield Statement(
            f"SELECT sequence, checksum, body FROM autocontext_entries WHERE {OF_SESSION} "
            "AND sequence >= :first AND sequence <= :last ORDER BY sequence",
            {**params_of(session), "first": min(numbers), "last": max(numbers)},
        )
        if not unchanged(stored):
            raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")
    change = "UPDATE autocontext_entries SET checksum = :checksum, body = :body"
    yield Statement(f"{change} WHERE {OF_SESSION} AND sequence = :sequence", rows)
    yield Statement(
        f"UPDATE autocontext_entries SET previous = :checksum WHERE {OF_SESSION} AND sequence = :next "
        "AND previous IS NOT NULL",
        [{**params_of(session), "checksum": row["checksum"], "next": row["sequence"] + 1} for row in rows],
    )
    if not resealed:
        yield from forget(*session, whole=False)


def version(session: SessionKey) -> Work[Version | None]:
    """The version of a session; None for an unknown one."""
    _, _, *version = yield from _counted(session)
    return Version(*version) if version else None


def hold(session: SessionKey, expected: Version) -> Work[None]:
    """Lock a session against rewriting and deleting until the transaction ends. Raises Conflict if it has changed."""
    held = yield Statement(
        # Changes nothing, but locks the row.
        f"UPDATE autocontext_sessions SET edition = edition WHERE {OF_SESSION} AND edition = :edition "
        f"AND {_IDENTITY} = :identity RETURNING edition",
        {**params_of(session), **expected._asdict()},
    )
    if not held:
        raise Conflict(f"session {session[1]!r} was rewritten or deleted since it was read: read it again")


def expire(session: SessionKey, expires_at: int | None) -> Work[bool]:
    """Set when a session expires (None: never); appends do not shorten that. False for an unknown one."""
    done = yield Statement(
        f"UPDATE autocontext_sessions SET expires_at = :expires_at WHERE {OF_SESSION} RETURNING entries",
        {**params_of(session), "expires_at": NEVER if expires_at is None else expires_at},
    )
    return bool(done)


def expired(due: Due) -> Work[list[SessionKey]]:
    """The sessions that have expired."""
    condition, params = due
    rows = yield Statement(f"SELECT user_id, session_id FROM autocontext_sessions WHERE {condition}", params)
    return [SessionKey(*row) for row in rows]


def batches(session: SessionKey) -> Work[list[Row]]:
    """Each batch of a session with the sequence of its last entry, in order. Raises StoreCorruptError."""
    sql = f"SELECT batch, MAX(sequence), COUNT(*) FROM autocontext_entries WHERE {OF_SESSION} GROUP BY batch ORDER BY 2"
    rows = yield Statement(sql, params_of(session))
    size, *_ = yield from _counted(session)
    if (found := sum(row[2] for row in rows)) != size or (rows and rows[-1][1] != found - 1):
        raise StoreCorruptError(
            f"user {session[0]!r}, session {session[1]!r}: its entries are not all there, or not in their places "
            f"({found} found, {size} expected); `read` names the first"
        )
    return [row[:2] for row in rows]


def _counted(session: SessionKey) -> Work[Row]:
    """Number of entries, head, identity and edition of a session; (0, None) for an unknown one."""
    sql = f"SELECT entries, head, {_IDENTITY}, edition FROM autocontext_sessions WHERE {OF_SESSION}"
    rows = yield Statement(sql, params_of(session))
    return rows[0] if rows else (0, None)


def params_of(session: SessionKey) -> dict[str, Any]:
    """The parameters of OF_SESSION. Raises InvalidMessage for a key that no store can hold."""
    return storable(session)._asdict()


_START = (
    "INSERT INTO autocontext_sessions "
    "(user_id, session_id, entries, edition, created_at, updated_at, expires_at, identity, head, previous) "
    f"VALUES (:user_id, :session_id, :then, :edition, :at, :at, :expires_at, :identity, :head, {FIRST}) "
    "ON CONFLICT (user_id, session_id) DO NOTHING RETURNING previous"
)
ANY = Version(-1, -1)
"""Stands for any version; no session has it."""
OF_VERSION = f":identity IN ({ANY.identity}, {_IDENTITY}) AND :edition IN ({ANY.edition}, edition)"
_MOVED = "UPDATE autocontext_sessions SET entries = :then, updated_at = :at, previous = head, head = :head"
_AFTER = f"WHERE {OF_SESSION} AND entries = :after AND {OF_VERSION} RETURNING previous"
_GO_ON = f"{_MOVED} {_AFTER}"
# A statement of its own, because setting a column writes its index, even with the same value.
_GO_ON_EXPIRING = (
    f"{_MOVED}, expires_at = CASE WHEN expires_at > :expires_at THEN expires_at ELSE :expires_at END {_AFTER}"
)
_ADD = (
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) "
    "VALUES (:user_id, :session_id, :sequence, :batch, :checksum, :previous, :body)"
)
_ADD_ONE = (  # the table's trigger advances the counter
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) "
    "SELECT user_id, session_id, entries, :batch, :checksum, head, :body FROM autocontext_sessions "
    f"WHERE {OF_SESSION} AND entries = :sequence AND {OF_VERSION}"
)
