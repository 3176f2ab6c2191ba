"""Appends one entry to a session on SQLite in one statement, which is the transaction, too.

A trigger of the table advances the session's counter. `session_statements.append` handles several entries, and an entry
that this statement does not insert, for which it raises the reason.
"""

from __future__ import annotations

from typing import Any

from autocontext.stores import session_statements
from autocontext.stores.database import Alone, Work
from autocontext.stores.protocol import Version
from autocontext.stores.session_statements import ANY


def append(rows: list[dict[str, Any]], version: Version | None, expires_at: int | None) -> Work[None]:
    """Append the rows if the session ends exactly where they begin."""
    row = rows[0]
    if len(rows) == 1 and row["sequence"] and expires_at is None:
        identity, edition = version or ANY
        if (yield Alone(_ADD_ONE, {**row, "identity": identity, "edition": edition})):
            return
    yield from session_statements.append(rows, version, expires_at)


_ADD_ONE = (
    "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) "
    "SELECT user_id, session_id, entries, :batch, :checksum, head, :body FROM autocontext_sessions "
    "WHERE user_id = :user_id AND session_id = :session_id AND entries = :sequence "
    f"AND {session_statements.OF_VERSION}"
)
