"""Keeps a memory's log and its store in step, also with other processes that write to the session."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from autocontext.errors import Conflict, SessionGone
from autocontext.history.entries import Entry
from autocontext.history.log import Log, ViewChange
from autocontext.history.stored import Stored
from autocontext.stores import SessionKey, SessionStore
from autocontext.stores.protocol import Entries, Position, check_identity, new_version, storable, version_of

_PATIENCE = 15.0
"""Seconds of retries after conflicts; each means that another process has added a message."""
_ATTEMPTS = 100
"""Attempts at least, so that a slow machine gives up no earlier than others."""
_LONGEST_WAIT = 0.05
"""Seconds."""


def _stored(store: SessionStore | None, session: SessionKey) -> Sequence[Entry | Stored]:
    """All entries of the session; messages are parsed when needed, if the store can do that."""
    if store is None:
        return []
    # The class is asked, because a wrapper that forwards unknown methods may read something else.
    lazily = getattr(type(store), "read_lazily", None)
    return store.read(session) if lazily is None else lazily(store, session)


class Journal:
    """Stores entries, then applies them and calls `changed` for each. The lock is the memory's."""

    def __init__(
        self,
        store: SessionStore | None,
        session: SessionKey,
        lock: threading.RLock,
        changed: Callable[[Entry, ViewChange], None],
    ) -> None:
        storable(session)
        entries = _stored(store, session)
        self.log = Log(entries)
        self._version = version_of(entries)
        """The version of the session; None before its first entry, or if the store has no versions."""
        self._store, self._session, self._lock, self._changed = store, session, lock, changed
        self._unsure: tuple[Entry, ...] = ()
        """Entries whose append raised last; the store may have them all the same."""

    def commit(self, *entries: Entry) -> None:
        """Store entries, then apply them; if storing fails, nothing changes here.

        Raises Conflict if another process has written to the session, after applying what it wrote. Raises SessionGone
        if the session was deleted, even if there is a new one of its name.
        """
        with self._lock:
            if self._store is not None and entries:
                version = self._version if self.log.entries else new_version()
                try:
                    self._store.append(self._session, entries, after=Position(len(self.log.entries), version))
                except SessionGone:
                    raise
                except Conflict:
                    if self._was_stored(entries, self.catch_up()):
                        return
                    raise
                except BaseException:
                    self._unsure = entries
                    raise
                self._unsure = ()
                self._version = version
            self._record(entries)

    def append_with_retry(self, *entries: Entry) -> None:
        """Commit entries that do not depend on what other processes write; retry after a Conflict."""
        until = time.monotonic() + _PATIENCE
        for attempt in count():
            try:
                return self.commit(*entries)
            except Conflict as e:
                if isinstance(e, SessionGone) or (attempt >= _ATTEMPTS and time.monotonic() > until):
                    raise
                # A random pause: writers that wait equally long collide again. What was written during the pause is
                # read before the next attempt: beside a writer without pauses it would come too late every time.
                time.sleep(random.random() * min(_LONGEST_WAIT, 0.001 * attempt))
                with self._lock:
                    self.catch_up()
        raise AssertionError("unreachable")

    def catch_up(self) -> list[Entry]:
        """Apply what other processes have stored since; the caller holds the lock. Raises SessionGone.

        If they have rewritten entries, as erasing does, the log is rebuilt from the store.
        """
        if self._store is None:
            return []
        known, version = len(self.log.entries), self._version
        entries = self._store.read(self._session, after=known)
        if not isinstance(entries, Entries) or version in (None, entries.version):
            self._version = version_of(entries) or version
            self._record(entries)
            return entries
        entries = self._store.read(self._session)
        check_identity(self._session, version, version_of(entries))
        self._version = version_of(entries)
        self._changed(entries[-1], self.log.replace(entries))
        return entries[known:]

    def _was_stored(self, entries: tuple[Entry, ...], others: list[Entry]) -> bool:
        """Whether the first attempt stored these entries, and only the answer was lost."""
        again, self._unsure = entries == self._unsure, ()
        return again and tuple(others[: len(entries)]) == entries

    def _record(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._changed(entry, self.log.record(entry))
