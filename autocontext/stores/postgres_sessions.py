"""Appends entries to a session on PostgreSQL in one statement, which is the transaction, too: one round trip.

It advances the session's counter if it is exactly where the entries begin, and then inserts them. SQLite needs two
statements for that, those of `session_statements.append`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autocontext.stores.database import Alone, Array, Statement, Work
from autocontext.stores.protocol import Version
from autocontext.stores.session_statements import moving, refused

_AT_ONCE = 4_000_000
"""Bytes of bodies per statement: the server has all of it in memory, and CockroachDB's default limit is 16 MB."""


def append(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> Work[None]:
    """Advance the session's counter if it is exactly where the rows begin, and insert them."""
    parts = list(_parts(rows))
    for part in parts:
        move, params = moving(part, version, expires_at)
        params["batch"] = part[0]["batch"]
        if len(part) == 1:
            params["body"] = part[0]["body"]
        else:
            checksums = [row["checksum"] for row in part]
            params["sequences"] = Array(row["sequence"] for row in part)
            params["checksums"] = Array(checksums)
            params["links"] = Array([None, *checksums[:-1]])  # None: the session's
            params["bodies"] = Array(row["body"] for row in part)
        sql = f"WITH moved AS ({move}) {_ONE if len(part) == 1 else _MANY} RETURNING 1"
        if not (yield (Alone if len(parts) == 1 else Statement)(sql, params)):
            yield from refused(part[0], version)
            return


def _parts(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows in parts of at most that many bytes, or of one longer row."""
    start = size = 0
    for end, row in enumerate(rows):
        size += len(row["body"])
        if size > _AT_ONCE and end > start:
            yield rows[start:end]
            start, size = end, len(row["body"])
    yield rows[start:]


# The casts are for CockroachDB, which infers a parameter's type from its place, not from its value.
_INTO = (
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) "
    "SELECT CAST(:user_id AS TEXT), CAST(:session_id AS TEXT), "
)
_ONE = (
    f"{_INTO}CAST(:then AS BIGINT) - 1, CAST(:batch AS BIGINT), CAST(:head AS BIGINT), previous, CAST(:body AS BYTEA) "
    "FROM moved"
)
_MANY = (
    f"{_INTO}listed.sequence, CAST(:batch AS BIGINT), listed.checksum, COALESCE(listed.link, moved.previous), "
    "listed.body FROM moved, UNNEST(CAST(:sequences AS BIGINT[]), CAST(:checksums AS BIGINT[]), "
    "CAST(:links AS BIGINT[]), CAST(:bodies AS BYTEA[])) AS listed (sequence, checksum, link, body)"
)
