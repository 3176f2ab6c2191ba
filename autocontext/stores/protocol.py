"""The protocol of session stores, and the values that they take and return."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self, TypedDict, TypeVar

from autocontext.errors import ConfigError, Conflict, InvalidMessage, SessionGone, short
from autocontext.history.entries import Entry
from autocontext.history.recorded import Stored
from autocontext.stores.checks import check_id, plain

T = TypeVar("T")


class SessionKey(NamedTuple):
    """A user and a session id. Sessions of two users with the same id are different sessions."""

    user_id: str
    session_id: str


def storable(session: SessionKey) -> SessionKey:
    """The key, if every store can hold it. Raises InvalidMessage for NUL, lone surrogates and anything but texts."""
    if type(session) is SessionKey:
        user_id, session_id = session
        if type(user_id) is type(session_id) is str:
            both = user_id + session_id
            if both.isascii() and both.isprintable():  # what every store can hold
                return session
    if not isinstance(session, tuple) or len(session) != len(SessionKey._fields):
        raise InvalidMessage(f"session must be a SessionKey(user_id, session_id) (got {short(session)})")
    for field, value in zip(SessionKey._fields, session, strict=True):
        check_id(field, value, InvalidMessage)
    return SessionKey(*map(plain, session))


class Version(NamedTuple):
    """The identity of a session, and its version."""

    identity: int
    """A random number: a session created under the name of a deleted one has another."""
    edition: int = 0
    """How often entries were rewritten."""


class Position(int):
    """A number of entries in one version of a session.

    A plain int stands for the session that has the name now. At 0 the version is that of the new session.
    """

    version: Version | None

    def __new__(cls, entries: int, version: Version | None = None) -> Self:
        """The position after `entries` entries of a version (None: any version)."""
        self = super().__new__(cls, entries)
        self.version = version
        return self


class Entries(list[T]):
    """Entries of a session in order, and its version (None without such a session)."""

    def __init__(self, entries: Iterable[T] = (), version: Version | None = None) -> None:
        super().__init__(entries)
        self.version = version


def new_version() -> Version:
    """The version of a new session: 63 random bits."""
    return Version(secrets.randbits(63))


def version_of(value: object) -> Version | None:
    """The version that a Position or Entries has; None for a plain number or list."""
    return value.version if isinstance(value, (Position, Entries)) else None


def check_identity(session: SessionKey, expected: Version | None, found: Version | None) -> None:
    """Raise SessionGone unless the session that was found (None: none) is the one expected (None: any)."""
    if expected is not None and (found is None or expected.identity != found.identity):
        done = "deleted" if found is None else "deleted and created again: it is another one now"
        raise SessionGone(
            f"session {session[1]!r} was {done}; nothing of this memory was written to it. Open a new memory to go on"
        )


def check_version(session: SessionKey, expected: Version | None, found: Version | None) -> None:
    """`check_identity`; also raise Conflict if entries of the session were rewritten."""
    check_identity(session, expected, found)
    if expected is not None and expected != found:
        raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")


class SessionInfo(NamedTuple):
    """A session in a list; times are milliseconds since 1970 (UTC)."""

    user_id: str
    session_id: str
    entries: int
    """Number of entries in its log; also its current revision."""
    created_at: int
    updated_at: int
    expires_at: int | None
    """When `purge_expired` may delete it; None: never."""
    stays: bool = False
    """Whether `expire(key, None)` was called; the store's `ttl` does not apply then."""

    @property
    def key(self) -> SessionKey:
        """The key that the store's methods take."""
        return SessionKey(self.user_id, self.session_id)


class Page(TypedDict, total=False):
    """Which sessions a store lists, by default all. A session that is written meanwhile moves to the front."""

    limit: int | None
    """At most so many."""
    after: SessionInfo | None
    """Those after this one: the last of the page before."""


class Revision(NamedTuple):
    """An earlier state of a session: its first `entries` entries, stored at `time` (milliseconds since 1970)."""

    entries: int
    time: int


class SessionStore(Protocol):
    """An append-only sequence of log entries per session. Methods may be called from any thread."""

    def append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones, all or none; they are durable when this returns.

        Raises Conflict unless the session has exactly `after` entries. If `after` is a Position, raises Conflict also
        if that version was rewritten since, and SessionGone if that session was deleted.
        """

    def read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> list[Entry]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session.

        The list should be Entries: with a plain list a memory does not notice that its session was deleted or
        rewritten. Raises StoreCorruptError naming session and sequence of a damaged entry.
        """

    def revisions(self, session: SessionKey) -> list[Revision]:
        """The earlier states of a session, oldest first."""

    def sessions(self, user_id: str | None = None) -> list[SessionInfo]:
        """All sessions of a user (None: of all users), most recently written first."""

    def delete(self, session: SessionKey) -> bool:
        """Delete a session; False if there was none."""

    def expire(self, session: SessionKey, ttl: float | None) -> bool:
        """Let a session expire in `ttl` seconds, or never (None); False for an unknown session."""

    def purge_expired(self) -> int:
        """Delete expired sessions, and return their number."""

    def rewrite(self, session: SessionKey, entries: Mapping[int, Entry]) -> None:
        """Replace entries by their number, all or none. `erase` needs it."""

    def scrub(self) -> None:
        """Remove rewritten and deleted data from the store's files, unless that happens by itself."""

    def close(self) -> None:
        """Close files and connections."""


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


def stored_entries(store: SessionStore, session: SessionKey) -> Sequence[Entry | Stored]:
    """All entries of a session; messages are parsed when needed, if the store can do that."""
    # The class is asked, because a wrapper that forwards unknown methods may read something else.
    lazily = getattr(type(store), "read_lazily", None)
    return store.read(session) if lazily is None else lazily(store, session)
