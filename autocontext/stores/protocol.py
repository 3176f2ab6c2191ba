"""The store of a memory's log: its protocol, and what a store says about sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from autocontext.errors import InvalidMessage
from autocontext.history.entries import Entry


class SessionKey(NamedTuple):
    """Whose session, and which. Two users with the same session id never meet."""

    user_id: str
    session_id: str


def storable(session: SessionKey) -> None:
    """Check that every store can hold this key. Raises InvalidMessage for NUL and halves of surrogate pairs."""
    for field, value in zip(SessionKey._fields, session, strict=True):
        if "\0" in value or any("\ud800" <= sign <= "\udfff" for sign in ("" if value.isascii() else value)):
            raise InvalidMessage(f"{field} {value!r} holds NUL or half a surrogate pair, which databases do not take")


class SessionInfo(NamedTuple):
    """One session of a listing; times are milliseconds since 1970 (UTC)."""

    user_id: str
    session_id: str
    entries: int
    """How many entries its log has; also the revision it stands at."""
    created_at: int
    updated_at: int
    expires_at: int | None
    """When `purge_expired` may drop it; None: never."""

    @property
    def key(self) -> SessionKey:
        """What the store's methods take."""
        return SessionKey(self.user_id, self.session_id)


class Revision(NamedTuple):
    """A state a session was in: after its first `entries` entries, stored at `time` (milliseconds since 1970)."""

    entries: int
    time: int


class SessionStore(Protocol):
    """An append-only sequence of log entries per session; all of it may be called from any thread."""

    def append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones, all or none, durable when this returns.

        Raises Conflict when the session is longer than `after`.
        """
        ...

    def read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> list[Entry]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session.

        Raises StoreCorruptError naming session and sequence of an entry that cannot be read back.
        """
        ...

    def revisions(self, session: SessionKey) -> list[Revision]:
        """The states a session has been in, oldest first."""
        ...

    def sessions(self, user_id: str | None = None) -> list[SessionInfo]:
        """All sessions of a user (None: of everybody), the one written to last first."""
        ...

    def delete(self, session: SessionKey) -> bool:
        """Drop a session with everything in it; False when there was none."""
        ...

    def expire(self, session: SessionKey, ttl: float | None) -> bool:
        """Let a session expire `ttl` seconds from now, or never (None); False for an unknown one."""
        ...

    def purge_expired(self) -> int:
        """Drop the sessions that have expired; returns how many."""
        ...

    def rewrite(self, session: SessionKey, entries: Mapping[int, Entry]) -> None:
        """Replace entries by their number, all or none: for `erase`, which must remove what was stored."""
        ...

    def scrub(self) -> None:
        """Remove from the store's files what was rewritten or deleted, where that does not happen by itself."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
