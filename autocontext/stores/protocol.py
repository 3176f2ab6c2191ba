"""The store of a memory's log: its protocol, and what a store says about sessions."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar

from autocontext.errors import ConfigError, Conflict, InvalidMessage, SessionGone, short
from autocontext.history.entries import Entry
from autocontext.stores.checks import check_id

T = TypeVar("T")


class SessionKey(NamedTuple):
    """Whose session, and which. Two users with the same session id never meet."""

    user_id: str
    session_id: str


def storable(session: SessionKey) -> SessionKey:
    """A key that every store can hold. Raises InvalidMessage for NUL, halves of surrogate pairs and what is no text."""
    if type(session) is SessionKey and _plain(*session):
        return session
    if not isinstance(session, tuple) or len(session) != len(SessionKey._fields):
        raise InvalidMessage(f"session must be a SessionKey(user_id, session_id) (got {short(session)})")
    for field, value in zip(SessionKey._fields, session, strict=True):
        check_id(field, value, InvalidMessage)
    return SessionKey(*session)


def _plain(user_id: object, session_id: object) -> bool:
    """Whether these are texts of printable ASCII, of which every store takes all."""
    return (
        type(user_id) is type(session_id) is str
        and user_id.isascii()
        and session_id.isascii()
        and (user_id + session_id).isprintable()
    )


class Version(NamedTuple):
    """Which session, and in which version."""

    identity: int
    """A random number: a session that is made anew under the name of a deleted one has another."""
    edition: int = 0
    """How often entries of it were rewritten."""


class Position(int):
    """A number of entries in a session, and of which version of it.

    A plain number stands for the session that has the name now. At 0 the version is that of the session to begin.
    """

    version: Version | None

    def __new__(cls, entries: int, version: Version | None = None) -> Self:
        """The place after so many entries of this version (None: of whichever is there)."""
        self = super().__new__(cls, entries)
        self.version = version
        return self


class Entries(list[T]):
    """Entries of a session in order, and its version; None if there is no such session."""

    def __init__(self, entries: Iterable[T] = (), version: Version | None = None) -> None:
        super().__init__(entries)
        self.version = version


def new_version() -> Version:
    """The version of a session that begins: 63 random bits."""
    return Version(secrets.randbits(63))


def version_of(value: object) -> Version | None:
    """The version that a Position or Entries has; None for a plain number or list."""
    return value.version if isinstance(value, (Position, Entries)) else None


def check_identity(session: SessionKey, expected: Version | None, found: Version | None) -> None:
    """Raise SessionGone when the session that was expected (None: any) is not the one that was found (None: none)."""
    if expected is not None and (found is None or expected.identity != found.identity):
        done = "deleted" if found is None else "deleted and made anew: it is another one now"
        raise SessionGone(
            f"session {session[1]!r} was {done}; nothing of this memory was written to it. Open a new memory to go on"
        )


def check_version(session: SessionKey, expected: Version | None, found: Version | None) -> None:
    """`check_identity`, and raise Conflict when entries of the session were rewritten."""
    check_identity(session, expected, found)
    if expected is not None and expected != found:
        raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")


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
    stays: bool = False
    """Whether `expire(key, None)` said that it never expires: a store's `ttl` does not change that."""

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

        Raises Conflict when the session is not `after` entries long, or when `after` is a Position in a version of it
        that was rewritten since; SessionGone when it is one in a session that is there no more.
        """
        ...

    def read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> list[Entry]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session.

        The list should be Entries: with a plain one a memory cannot know when its session was deleted or rewritten.
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
        """Replace entries by their number, all or none: for `swap`, with which `erase` removes what was stored."""
        ...

    def scrub(self) -> None:
        """Remove from the store's files what was rewritten or deleted, where that does not happen by itself."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def checked_store(store: SessionStore | None, owner: str) -> SessionStore | None:
    """The store, if it has the methods of a SessionStore. Raises ConfigError naming the `owner` otherwise."""
    if store is None or all(callable(getattr(store, name, None)) for name in ("append", "read")):
        return store
    url = isinstance(store, str) or hasattr(store, "__fspath__")
    hint = (
        f"write SqliteSessionStore({str(store)!r}), or {owner}.open({str(store)!r}, ...)"
        if url
        else "see SessionStore in autocontext.stores"
    )
    raise ConfigError(f"{owner}.store: {short(store)} is not a store of sessions; {hint}")
