"""Classifies the errors of a PostgreSQL server: which transactions to retry, and the error if that does not help.

Codes: PostgreSQL documentation, appendix A, "PostgreSQL Error Codes"; CockroachDB documentation, "Transaction Retry
Error Reference" and "Common Errors" (40003).
"""

from __future__ import annotations

import random
import time

import psycopg

from autocontext.errors import StoreCorruptError, StoreError, headline

_FIRST_PAUSE, _SHORT_PAUSE, _LAST_PAUSE = 0.005, 0.02, 0.5
_RETRYABLE = {
    "40001": "serialization failure",
    # The server does not know whether a commit succeeded; a repeated append recognizes its first attempt.
    "40003": "statement completion unknown",
    "40P01": "deadlock",
    "55P03": "the server's lock_timeout was over before another transaction ended",
    # Two processes create the same table or row at once: the second one sees it on its next attempt.
    "23505": "unique violation",
    "42P07": "duplicate table",
    "42710": "duplicate type",
}
_LOST = ("08", "57P", "53300", "25P03", "25P04")
"""Connection failures, a server that shuts down or starts up, too many connections, and transactions that the server
ended because this process was idle."""
_WAYS_OUT = {
    "53100": "its disk is full: free some space and try again",
    "53": "it has run out of memory or another resource: try again later",
    "57014": (
        "it stopped a statement that took longer than its statement_timeout (or somebody cancelled it): allow more, "
        'for instance "?options=-cstatement_timeout%3D60s" in the URL; nothing was changed'
    ),
    "25006": "it takes no writes (read-only or standby): connect to the primary server",
    "42501": "this user may not do that: grant it the rights to the tables",
    "28": "the login was refused: check user and password",
    "3D": "there is no such database: create it first",
    "3F": "the schema of the URL's search_path is missing: create it first (CREATE SCHEMA name)",
    "22": "it does not take a value of this kind or size; nothing was changed",
    "54": "a value is larger than it takes; nothing was changed",
    "42P01": "a table is missing; open the part again, which makes it, or restore a backup",
}
_CORRUPT = ("XX001", "XX002")


class AllInUse(Exception):
    """The pool has no more connections to lend."""


class Attempts:
    """The retries of one transaction, and the error if they do not help."""

    def __init__(self, name: str, patience: float) -> None:
        self._name = name
        self._until = time.monotonic() + patience
        self._pause = _FIRST_PAUSE

    def pause_after(self, failure: Exception, *, reached: bool) -> float:
        """Seconds to wait before the next attempt. Raises the library's error if there is none."""
        state = getattr(failure, "sqlstate", None) or ""  # of five characters; psycopg gives a failed connection none
        lost = state.startswith(_LOST) or (
            isinstance(failure, psycopg.OperationalError | psycopg.InterfaceError) and not state
        )
        waits = isinstance(failure, AllInUse)
        if ((lost and reached) or waits or state in _RETRYABLE) and time.monotonic() < self._until:
            self._pause = min(2 * self._pause, _SHORT_PAUSE if waits else _LAST_PAUSE)
            return self._pause * (0.5 + random.random() / 2)
        raise self._told(failure, state, lost=lost) from failure

    def _told(self, error: Exception, state: str, *, lost: bool) -> StoreError | StoreCorruptError:
        reason = headline(error)
        if state in _RETRYABLE:
            return StoreError(f"{self._name}: transactions kept colliding ({_RETRYABLE[state]}: {reason}): try again")
        if state in _CORRUPT:
            return StoreCorruptError(f"{self._name}: {reason}; restore it from a backup")
        for prefix, way_out in _WAYS_OUT.items():
            if state.startswith(prefix):
                return StoreError(f"{self._name}: {way_out} ({reason})")
        if lost:
            return StoreError(f"{self._name}: cannot be reached ({reason})")
        if isinstance(error, AllInUse):
            return StoreError(f"{self._name}: all its connections are in use; allow more: SqlDatabase(url, pool_size=)")
        code = f", SQLSTATE {state}" if state else ""
        return StoreError(f"{self._name}: a statement failed, nothing was changed ({reason}{code})")
