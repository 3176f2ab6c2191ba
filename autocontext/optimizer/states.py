"""Saved working states: one row per revision of a session, of which the latest few are kept."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from autocontext.errors import Conflict, StateError, StoreCorruptError
from autocontext.flows import sync_and_async
from autocontext.optimizer.state import SessionState
from autocontext.stores.checks import json_text
from autocontext.stores.closing import DatabasePart
from autocontext.stores.database import Database, Row, Schema, Statement, Steps, Work, read, rows_of, write
from autocontext.stores.protocol import SessionKey, Version
from autocontext.stores.records import check_row, now, row_checksum
from autocontext.stores.session_statements import OF_SESSION, hold, params_of

SCHEMA = Schema(
    "states",
    (
        (
            """CREATE TABLE autocontext_states (
                user_id TEXT NOT NULL, session_id TEXT NOT NULL, revision BIGINT NOT NULL, created_at BIGINT NOT NULL,
                metadata TEXT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (user_id, session_id, revision))""",
        ),
        ("ALTER TABLE autocontext_states ADD COLUMN checksum TEXT",),
    ),
)
_REVISIONS = 5
"""Revisions kept per session, in case the newest is damaged or you want to compare."""


class SavedState(NamedTuple):
    """A revision of a saved state."""

    revision: int
    """1 for the first save, then one more for each."""
    metadata: dict[str, Any]
    """type, last_updated, optimization_applied, compression_ratio, original_length, optimized_length, originals (how
    many messages the session's log had), last (the id of the newest), bytes_before and bytes_after."""
    state: SessionState


class StateStore(DatabasePart):
    """Saved states in a database. `url`: a path, `:memory:`, a URL or an open Database."""

    def __init__(self, url: Database | str | Path) -> None:
        super().__init__(url, SCHEMA)

    def _save(
        self, state: SessionState, *, metadata: Mapping[str, Any], expected: int, version: Version | None = None
    ) -> Steps[int]:
        """Save a state and its metadata as the revision after `expected` (0: the first), in one transaction.

        Returns the new revision. Raises Conflict if another process saved first; load its state and save again. With
        the `version` of the session's log, raises Conflict as well if it was rewritten or deleted since.
        """
        row = _row(state, metadata, expected + 1)
        return (yield from write(lambda: _saved(row, version)))

    save, asave = sync_and_async(_save)

    def _load(self, session: SessionKey, revision: int | None = None) -> Steps[SavedState | None]:
        """Load the newest saved state of a session, or one revision; None if there is none.

        Raises StoreCorruptError for a damaged revision; earlier ones can still be loaded.
        """
        return _loaded(session, (yield from read(lambda: _found(session, revision))))

    load, aload = sync_and_async(_load)

    def revisions(self, session: SessionKey) -> list[int]:
        """The stored revisions, oldest first."""
        sql = f"SELECT revision FROM autocontext_states WHERE {OF_SESSION} ORDER BY revision"
        return [int(revision) for (revision,) in self.database.read(partial(rows_of, sql, params_of(session)))]


def _row(state: SessionState, metadata: Mapping[str, Any], revision: int) -> dict[str, Any]:
    row = {
        **params_of(SessionKey(state.user_id, state.session_id)),
        "revision": revision,
        "created_at": now(),
        "metadata": json_text("metadata", dict(metadata)),
        "body": zlib.compress(state.to_json().encode(), 6),
    }
    return {**row, "checksum": row_checksum(*row.values())}


def _saved(row: dict[str, Any], version: Version | None = None) -> Work[int]:
    session = {"user_id": row["user_id"], "session_id": row["session_id"]}
    if version is not None:
        yield from hold(SessionKey(**session), version)
    expected = int(row["revision"]) - 1
    # The lock of the state that this one follows: nobody deletes it meanwhile.
    known = yield Statement(
        f"UPDATE autocontext_states SET created_at = created_at WHERE {OF_SESSION} AND revision = :expected "
        "RETURNING revision",
        {**session, "expected": expected},
    )
    newest = yield Statement(f"SELECT MAX(revision) FROM autocontext_states WHERE {OF_SESSION}", session)
    latest = newest[0][0] or 0
    inserted: list[Row] = []
    if latest == expected and (known or not expected):
        inserted = yield Statement(
            "INSERT INTO autocontext_states (user_id, session_id, revision, created_at, metadata, body, checksum) "
            "VALUES (:user_id, :session_id, :revision, :created_at, :metadata, :body, :checksum) "
            "ON CONFLICT (user_id, session_id, revision) DO NOTHING RETURNING revision",
            row,
        )
    if not inserted:
        raise Conflict(
            f"the state of session {row['session_id']!r} is at revision {latest}, not {expected}; "
            "load it and save again"
        )
    yield Statement(
        f"DELETE FROM autocontext_states WHERE {OF_SESSION} AND revision <= :old",
        {**session, "old": row["revision"] - _REVISIONS},
    )
    return expected + 1


def _found(session: SessionKey, revision: int | None) -> Work[Row | None]:
    rows = yield Statement(
        f"SELECT revision, created_at, metadata, body, checksum FROM autocontext_states WHERE {OF_SESSION} "
        + ("" if revision is None else "AND revision = :revision ")
        + "ORDER BY revision DESC LIMIT 1",
        {**params_of(session), **({} if revision is None else {"revision": revision})},
    )
    return rows[0] if rows else None


def _loaded(session: SessionKey, row: Row | None) -> SavedState | None:
    if row is None:
        return None
    *values, checksum = row
    revision, _, metadata, body = values
    try:
        check_row("saved state", checksum, *session, *values)
        state = SessionState.from_json(zlib.decompress(body).decode())
        return SavedState(revision, json.loads(metadata), state)
    except (zlib.error, TypeError, ValueError, StateError, StoreCorruptError) as e:
        instead = f"load revision {revision - 1} instead" if revision > 1 else "there is none before it; save again"
        raise StoreCorruptError(
            f"the saved state of user {session[0]!r}, session {session[1]!r}, revision {revision} is damaged ({e}); "
            f"{instead}"
        ) from e
