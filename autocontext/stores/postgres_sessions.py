"""Appends entries to a session on PostgreSQL in one statement, which is the transaction, too: one round trip.

It advances the session's counter if it is exactly where the entries begin, and then inserts them. SQLite needs two
statements for that, those of `session_statements.append`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from autocontext.stores.database import Alone, Array, Statement, Work
from autocontext.stores.protocol import Version
from autocontext.stores.session_statements import moving, refused

_AT_ONCE = 4_000_000
"""Bytes of bodies per statement: the server has all of it in memory, and CockroachDB's default limit is 16 MB."""


def append(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> Work[None]:
    """Advance the session's counter if it is exactly where the rows begin, and insert them."""
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
    """The rows in parts of at most that many bytes, or of one longer row."""
    start = size = 0
    for end, row in enumerate(rows):
        size += len(row["body"])
        if size > _AT_ONCE and end > start:
            yield rows[start:end]
            start, size = end, len(row["body"])
    yield rows[start:]


def _columns(rows: list[dict[str, Any]], link: int | None) -> dict[str, Any]:
    """The parameters of rows in a chain; `link` is the checksum before them (None: the session's)."""
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


# The casts are for CockroachDB, which infers a parameter's type from its place, not from its value.
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
