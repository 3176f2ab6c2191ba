"""Encryption around any session store: the disk, the server and backups never see a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Unpack

from autocontext.errors import Conflict, StoreError
from autocontext.flows import DoesSteps, Flow, method, sync_and_async
from autocontext.history.entries import Entry, Sealed, same_entries
from autocontext.stores.lifecycle import Attempts, Lifecycle, info_of, swap_in
from autocontext.stores.protocol import (
    Entries,
    Page,
    Revision,
    SessionInfo,
    SessionKey,
    SessionStore,
    storable,
    version_of,
)
from autocontext.stores.sealing import Keyring

_AT_ONCE = 500
"""Entries that one transaction encrypts with the current key."""


class EncryptedSessionStore(DoesSteps, Lifecycle):
    """Encrypts every entry with AES-256-GCM before `store` sees it; needs the extra `crypto`.

    `key` is 32 random bytes, or several such keys by their ids: `current` encrypts new entries, the others only
    decrypt. User, session and sequence are authenticated: records cannot be swapped, nor moved between sessions.
    `store` still sees user and session ids, times, and the number and sizes of entries.
    """

    def __init__(
        self, store: SessionStore, key: bytes | Mapping[str, bytes] | Keyring, *, current: str | None = None
    ) -> None:
        self._keys = key if isinstance(key, Keyring) else Keyring(key, current)
        self.store = store

    def __repr__(self) -> str:
        return f"EncryptedSessionStore({self.store!r}, {self._keys!r})"

    def _append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> Flow[None]:
        """Store entries after the first `after` ones, all or none. Raises Conflict if the session is longer."""
        storable(session)
        sealed = [self._keys.seal(entry, session, number) for number, entry in enumerate(entries, after)]
        yield method(self.store, "append", session, sealed, after=after)

    append, aappend = sync_and_async(_append)

    def _read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> Flow[list[Entry]]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session.

        Raises StoreError if the key of an entry is missing, StoreCorruptError if a key is wrong or a record was
        changed.
        """
        entries: list[Entry] = yield method(self.store, "read", session, after=after, until=until)
        opened = [self._open(session, entry, number) for number, entry in enumerate(entries, after)]
        return Entries(opened, version_of(entries)) if isinstance(entries, Entries) else opened

    read, aread = sync_and_async(_read)

    def rotate(self, session: SessionKey) -> int:
        """Encrypt with the current key the entries that have another; returns their number. May be run again."""
        done = after = 0
        attempts = Attempts(f"rotate: session {session[1]!r}")
        while entries := self.store.read(session, after=after, until=after + _AT_ONCE):
            old = {
                after + i: entry
                for i, entry in enumerate(entries)
                if not (isinstance(entry, Sealed) and entry.key_id == self._keys.current)
            }
            new = {n: self._keys.seal(self._open(session, entry, n), session, n) for n, entry in old.items()}
            try:
                # A store that keeps nothing else of its entries needs no `reseal`.
                getattr(self.store, "reseal", partial(swap_in, self.store))(session, old, new)
            except Conflict as e:  # somebody has erased messages meanwhile: seal what is there now
                attempts.pause_after(e)
                continue
            done += len(old)
            after += len(entries)
        return done

    def swap(self, session: SessionKey, old: Mapping[int, Entry], new: Mapping[int, Entry]) -> None:
        """`rewrite` with `new` if the entries at its numbers are still those of `old`. Raises Conflict otherwise."""
        if not new:
            return
        first, last = min(new), max(new)
        stored = enumerate(self.store.read(session, after=first, until=last + 1), first)
        sealed = {n: entry for n, entry in stored if n in new}
        opened = (self._open(session, entry, n) for n, entry in sealed.items())
        if sealed.keys() != new.keys() or not same_entries(opened, (old[n] for n in sealed)):
            raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")
        swap_in(self.store, session, sealed, self._sealed(session, new))

    def rewrite(self, session: SessionKey, entries: Mapping[int, Entry]) -> None:
        """Replace entries by their number, all or none."""
        self.store.rewrite(session, self._sealed(session, entries))

    def _sessions(self, user_id: str | None = None, **page: Unpack[Page]) -> Flow[list[SessionInfo]]:
        """All sessions of a user (None: of all users), most recently written first; all, or a page of them."""
        return list((yield method(self.store, "sessions", user_id, **page)))

    sessions, asessions = sync_and_async(_sessions)

    def info(self, session: SessionKey) -> SessionInfo | None:
        """A session as it stands in the list of sessions; None for an unknown one."""
        return info_of(self.store, session)

    def _delete(self, session: SessionKey) -> Flow[bool]:
        """Delete a session; False if there was none."""
        return bool((yield method(self.store, "delete", session)))

    delete, adelete = sync_and_async(_delete)

    def revisions(self, session: SessionKey) -> list[Revision]:
        """The earlier states of a session, oldest first."""
        return self.store.revisions(session)

    def expire(self, session: SessionKey, ttl: float | None) -> bool:
        """Let a session expire in `ttl` seconds, or never (None); False for an unknown session."""
        return self.store.expire(session, ttl)

    def purge_expired(self) -> int:
        """Delete expired sessions, and return their number."""
        return self.store.purge_expired()

    def scrub(self) -> None:
        """Remove replaced and deleted data from the files of `store`."""
        self.store.scrub()

    def _close(self) -> Flow[None]:
        """Close `store`."""
        yield method(self.store, "close")

    close, aclose = sync_and_async(_close)

    def _sealed(self, session: SessionKey, entries: Mapping[int, Entry]) -> dict[int, Entry]:
        return {number: self._keys.seal(entry, session, number) for number, entry in entries.items()}

    def _open(self, session: SessionKey, entry: Entry, sequence: int) -> Entry:
        if not isinstance(entry, Sealed):
            # Accepting it would let anybody with write access put words into the agent's memory.
            raise StoreError(
                f"user {session[0]!r}, session {session[1]!r}, sequence {sequence}: it is not encrypted; copy the "
                "session with copy_sessions(plain_store, encrypted_store), then delete the plain one"
            )
        return self._keys.open(entry, session, sequence)
