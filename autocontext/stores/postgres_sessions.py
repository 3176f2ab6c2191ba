"""Adding entries to a session on PostgreSQL: one statement, which is the transaction too, so one round trip.

It moves the session's counter on from exactly where the entries begin, and adds them if that moved. It does what
`session_statements.append` does in two statements, which SQLite needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from autocontext.stores.database import Alone, Array, Statement, Work
from autocontext.stores.protocol import Version
from autocontext.stores.session_statements import moving, refused

_AT_ONCE = 4_000_000
"""Bytes of bodies in one statement: the server holds all of it at once, CockroachDB takes 16 MB by default."""


def append(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> Work[None]:
    """Move the session's counter on from exactly where the rows begin, and add them; see `session_statements`."""
    move, params = moving(rows, version, expires_at)
    parts = list(_parts(rows))
    one = len(parts) == len(rows) == 1
    params |= {"batch": rows[0]["batch"], "body": rows[0]["body"]} if one else _columns(parts[0], None)
    sql = f"WITH moved AS ({move}) {_ONE if one else _MANY} RETURNING 1"
    if not (yield (Alone if len(parts) == 1 else Statement)(sql, params)):
        yield from refused(rows[0], version)
        return
    for before, part in pairwise(parts):
        yield Statement(_MORE, _columns(part, before[-1]["checksum"]))


def _parts(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in parts of so many bytes, or of one row that is longer."""
    start = size = 0
    for end, row in enumerate(rows):
        size += len(row["body"])
        if size > _AT_ONCE and end > start:
            yield rows[start:end]
            start, size = end, len(row["body"])
    yield rows[start:]


def _columns(rows: list[dict[str, Any]], link: int | None) -> dict[str, Any]:
    """The parameters of rows in a chain; `link` is the checksum before them, None for the session's own."""
    checksums = [row["checksum"] for row in rows]
    return {
        "user_id": rows[0]["user_id"],
        "session_id": rows[0]["session_id"],
        "batch": rows[0]["batch"],
        "sequences": Array(row["sequence"] for row in rows),
        "checksums": Array(checksums),
        "links": Array([link, *checksums[:-1]]),
        "bodies": Array(row["body"] for row in rows),
    }


# What CockroachDB knows no type of is cast: it takes a parameter's type from where it stands, not from what is given.
_INTO = (
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) "
    "SELECT CAST(:user_id AS TEXT), CAST(:session_id AS TEXT), "
)
_ONE = (
    f"{_INTO}CAST(:then AS BIGINT) - 1, CAST(:batch AS BIGINT), CAST(:head AS BIGINT), previous, CAST(:body AS BYTEA) "
    "FROM moved"
)
_LISTED = (
    "UNNEST(CAST(:sequences AS BIGINT[]), CAST(:checksums AS BIGINT[]), CAST(:links AS BIGINT[]), "
    "CAST(:bodies AS BYTEA[])) AS listed (sequence, checksum, link, body)"
)
_MANY = (
    f"{_INTO}listed.sequence, CAST(:batch AS BIGINT), listed.checksum, COALESCE(listed.link, moved.previous), "
    f"listed.body FROM moved, {_LISTED}"
)
_MORE = f"{_INTO}listed.sequence, CAST(:batch AS BIGINT), listed.checksum, listed.link, listed.body FROM {_LISTED}"
