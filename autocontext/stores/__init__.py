"""Where a memory's log is kept: the SessionStore protocol and its implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from autocontext.log import Entry
from autocontext.stores.in_memory import InMemorySessionStore


class SessionKey(NamedTuple):
    """Whose session, and which."""

    user_id: str
    session_id: str


class SessionStore(Protocol):
    """An append-only sequence of log entries per session."""

    def append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones, all or none; raises Conflict when the session is longer."""
        ...

    def read(self, session: SessionKey, *, after: int = 0) -> list[Entry]:
        """The entries from number `after` on; [] for an unknown session."""
        ...


__all__ = ["InMemorySessionStore", "SessionKey", "SessionStore"]
