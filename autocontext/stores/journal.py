"""Keeps a memory's log and its store in step, also with other processes that write to the session."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from autocontext.errors import AutoContextError, Conflict, SessionGone
from autocontext.history.entries import Entry, same_entries
from autocontext.history.log import Log, ViewChange
from autocontext.stores import SessionKey, SessionStore
from autocontext.stores.protocol import (
    Entries,
    Position,
    check_identity,
    new_version,
    storable,
    stored_entries,
    version_of,
)

_PATIENCE = 15.0
"""Seconds of retries after conflicts; each means that another process has added a message."""
_ATTEMPTS = 100
"""Attempts at least, so that a slow machine gives up no earlier than others."""
_LONGEST_WAIT = 0.05
"""Seconds."""


class Journal:
    """Stores entries, then applies them and calls `changed` for each. The lock is the memory's.

    An interrupt (Ctrl-C, a signal handler that raises) may appear anywhere in that. So a mark is set before and taken
    away after, and whoever finds it rebuilds all readings from the entries, and reads what the store has of them.
    """

    def __init__(
        self,
        store: SessionStore | None,
        session: SessionKey,
        lock: threading.RLock,
        changed: Callable[[Entry | None, ViewChange], None],
    ) -> None:
        storable(session)
        entries = stored_entries(store, session) if store is not None else []
        self._log = Log(entries)
        self.whole = True
        """The mark: False while entries are stored and applied, and after an interrupt of that."""
        self._version = version_of(entries)
        """The version of the session; None before its first entry, or if the store has no versions."""
        self.lock = lock
        self._store, self._session, self._changed = store, session, changed
        self._unsure: tuple[tuple[Entry, ...], ...] = ()
        """What did not end, or raised, when it was appended here; the store may have one of them all the same."""
        self._arrived: tuple[tuple[Entry, ...], ...] = ()
        """What was unsure and the store had: to be committed once more, it needs nothing."""

    @property
    def log(self) -> Log:
        """The log, whole; the caller holds the lock."""
        if not self.whole:
            self.mend()
        return self._log

    def mend(self) -> None:
        """Bring log and store in step again after an interrupt."""
        if self.whole:
            return
        with self.lock:  # not whole without it: another thread is in the middle of a commit
            if self.whole:
                return
            self._changed(None, self._log.replace([*self._log.entries.as_kept()]))
            with suppress(Exception):  # a store that cannot be read now is asked again at the next call
                self._read_on()
                self.whole = True

    def commit(self, *entries: Entry) -> None:
        """Store entries, then apply them; if storing fails, nothing changes here.

        Raises Conflict if another process has written to the session, after applying what it wrote. Raises SessionGone
        if the session was deleted, even if there is a new one of its name.
        """
        with self.lock:
            if not self.whole:
                self.mend()
            if not entries or (self._arrived and self._has_arrived(entries)):
                return
            self.whole = False
            if self._store is not None:
                try:
                    self._append(self._store, entries)
                except AutoContextError as e:  # the store's own answer, and no interrupt
                    self.whole = True
                    if isinstance(e, Conflict) and not isinstance(e, SessionGone):
                        self._read_on()
                        if self._has_arrived(entries):
                            return
                    raise
            self._record(entries)
            if self._arrived:
                # Messages may still be repeated; not what says the same each time, nor behind what has taken some away.
                may = {"added", "edited"}
                if any(e.type == "added" and e.message.role == "assistant" for e in entries):
                    self._arrived = ()  # it was answered: who says the same now says it anew
                self._arrived = tuple(b for b in self._arrived if may.issuperset(e.type for e in (*b, *entries)))
            self.whole = True

    def _append(self, store: SessionStore, entries: tuple[Entry, ...]) -> None:
        before, known = self._unsure, len(self._log.entries)
        version = self._version if known else new_version()
        self._unsure = before if entries in before else (*before, entries)
        try:
            store.append(self._session, entries, after=Position(known, version))
        except Conflict:
            self._unsure = before
            raise
        self._unsure, self._version = (), version

    def append_with_retry(self, *entries: Entry) -> None:
        """Commit entries that do not depend on what other processes write; retry after a Conflict."""
        self.commit_anew(lambda: entries)

    def commit_anew(self, entries: Callable[[], Sequence[Entry]]) -> None:
        """Commit what `entries` returns, with the lock held; after a Conflict it is asked again, as the log has grown.

        Raises Conflict after 15 seconds, or 100 attempts if these take longer.
        """
        until = time.monotonic() + _PATIENCE
        for attempt in count():
            try:
                with self.lock:
                    return self.commit(*entries())
            except Conflict as e:
                if isinstance(e, SessionGone) or (attempt >= _ATTEMPTS and time.monotonic() > until):
                    raise
                # A random pause: writers that wait equally long collide again. What was written during the pause is
                # read before the next attempt: beside a writer without pauses it would come too late every time.
                time.sleep(random.random() * min(_LONGEST_WAIT, 0.001 * attempt))
                with self.lock:
                    self.catch_up()
        raise AssertionError("unreachable")

    def catch_up(self) -> list[Entry]:
        """Apply what other processes have stored since; the caller holds the lock. Raises SessionGone.

        If they have rewritten entries, as erasing does, the log is rebuilt from the store.
        """
        self.mend()
        return self._read_on()

    def _read_on(self) -> list[Entry]:
        if self._store is None:
            return []
        known, version = len(self._log.entries), self._version
        entries = self._store.read(self._session, after=known)
        if not isinstance(entries, Entries) or version in (None, entries.version):
            self._find_unsure(entries)
            self.whole = False
            self._version = version_of(entries) or version
            self._record(entries)
            self.whole = True
            return entries
        entries = self._store.read(self._session)
        check_identity(self._session, version, version_of(entries))
        self._find_unsure(entries[known:])
        self.whole = False
        change = self._log.replace(entries)
        self._version = version_of(entries)
        self._changed(None, change)
        self.whole = True
        return entries[known:]

    def _find_unsure(self, new: Sequence[Entry]) -> None:
        """Note which unsure entries have arrived: each was to stand where the new ones begin."""
        if new and self._unsure:
            self._arrived += tuple(batch for batch in self._unsure if same_entries(new[: len(batch)], batch))
            self._unsure = ()

    def _has_arrived(self, entries: tuple[Entry, ...]) -> bool:
        """Whether an earlier attempt has stored these entries, and only the answer was lost."""
        arrived = self._arrived
        self._arrived = tuple(batch for batch in arrived if not same_entries(batch, entries))
        return len(self._arrived) < len(arrived)

    def _record(self, entries: Sequence[Entry]) -> None:
        self._log.append(entries)
        for entry in entries:
            self._changed(entry, self._log.follow(entry))
