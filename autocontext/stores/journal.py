"""A memory's log and the store behind it, kept in step, also with other processes that write to the same session."""

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
"""Seconds in which an addition begins again after a conflict; each means that another process has added a message."""
_LONGEST_WAIT = 0.05
"""Seconds."""


def _stored(store: SessionStore | None, session: SessionKey) -> Sequence[Entry | Stored]:
    """All entries of the session, if the store can with messages that are read when they are needed."""
    if store is None:
        return []
    # Asked of the class: what wraps a store and passes on all that it has no method for may read something else.
    lazily = getattr(type(store), "read_lazily", None)
    return store.read(session) if lazily is None else lazily(store, session)


class Journal:
    """Stores entries first and then applies them; `changed` is called for each. The lock is the memory's."""

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
        """Of the session that these entries are of; None as long as there is none, or if the store knows of none."""
        self._store, self._session, self._lock, self._changed = store, session, lock, changed
        self._unsure: tuple[Entry, ...] = ()
        """What the store failed to acknowledge last; it may hold it all the same."""

    def commit(self, *entries: Entry) -> None:
        """Store entries, then apply them; if storing fails nothing changes here.

        Raises Conflict when another process has written to the session; what it wrote is applied. Raises SessionGone
        when the session was deleted, whether or not there is another one of its name by now.
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
        """Commit entries that mean the same whatever other processes have written, and retry after a Conflict."""
        until = time.monotonic() + _PATIENCE
        for attempt in count():
            try:
                return self.commit(*entries)
            except Conflict as e:
                if isinstance(e, SessionGone) or time.monotonic() > until:
                    raise
                # Writers that wait equally long collide again.
                time.sleep(random.random() * min(_LONGEST_WAIT, 0.001 * attempt))
        raise AssertionError("unreachable")

    def catch_up(self) -> list[Entry]:
        """Take over what other processes have stored since; the caller holds the lock. Raises SessionGone.

        If they have rewritten entries, which erases what was said, the log is made anew of what is there now.
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
        """Whether the store took these entries at the first attempt, and only its answer was lost."""
        again, self._unsure = entries == self._unsure, ()
        return again and tuple(others[: len(entries)]) == entries

    def _record(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._changed(entry, self.log.record(entry))
