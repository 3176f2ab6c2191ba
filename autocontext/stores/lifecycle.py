"""Operations on whole sessions, written once for all stores: fork, erase, search, export, import."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from autocontext.caches import forget_texts
from autocontext.errors import Conflict, InvalidMessage
from autocontext.history.children import ancestors
from autocontext.history.entries import Entry, same_entries
from autocontext.stores.checks import check_whole, checked_ids
from autocontext.stores.closing import awaitable
from autocontext.stores.erasing import erase_messages
from autocontext.stores.exported import dump_lines, load
from autocontext.stores.private_files import write_private
from autocontext.stores.protocol import SessionKey, storable, stored_entries

if TYPE_CHECKING:
    from typing import Unpack

    from autocontext.stores.protocol import SessionInfo, SessionStore
    from autocontext.stores.search import Filters, Found


_ATTEMPTS = 200
"""Retries of erasing and key rotation; each means that another process has rewritten entries."""
_LONGEST_WAIT = 0.05
"""Seconds."""


class Lifecycle:
    """Forks, erases, searches, exports and imports sessions of the store that inherits it."""

    def fork(
        self: SessionStore, session: SessionKey, *, at: int | None = None, new_id: str | None = None
    ) -> SessionKey:
        """Copy a session, as it was after its first `at` entries (None: all), to a new one of the same user.

        All or nothing, but for the expiry: it is the session's, or a later one by the store's `ttl`. Returns the new
        key. Raises Conflict if `new_id` is taken, InvalidMessage if there is nothing to copy or `at` is no number.
        """
        check_whole("fork: at", at, error=InvalidMessage, none="all")
        to = SessionKey(session[0], new_id or str(uuid.uuid4()))
        entries = self.read(session, until=at)
        if not entries:
            raise InvalidMessage(f"fork: session {session[1]!r} of user {session[0]!r} has no entries to copy")
        try:
            self.append(to, entries, after=0)
        except Conflict as e:
            raise Conflict(f"fork: session {to.session_id!r} exists already; choose another new_id") from e
        source, fork = info_of(self, session), info_of(self, to)
        if source and fork and (fork.expires_at is None or source.stays or fork.expires_at < (source.expires_at or 0)):
            expire_like(self, to, source)
        return to

    def delete_tree(self: SessionStore, session: SessionKey) -> int:
        """Delete a session and those of its children, theirs too; returns how many sessions that were.

        Repeat it if it fails in between: what is left is found again.
        """
        return sum(self.delete(key) for key in [*below(self, session), SessionKey(*session)])

    def erase(self: SessionStore, session: SessionKey, ids: Iterable[str]) -> int:
        """Erase the texts of messages wherever they are stored; tombstones stay, so calls keep their results.

        Notes, ledgers and results of the library's own tools that may quote them lose their texts, too; with the handle
        of a content among the ids, also its pages. Returns how many of the ids the session has messages with. Open
        memories of the session notice at their next write or `refresh`.
        """
        targets, erased = checked_ids(ids), frozenset[str]()
        attempts = Attempts(f"erase: session {session[1]!r}")
        while True:
            entries = stored_entries(self, session)
            old, new, matches = erase_messages(entries, targets)
            erased |= matches
            if not new:
                break
            try:
                swap_in(self, session, old, new)
            except Conflict as e:  # never write back what another process has erased meanwhile
                attempts.pause_after(e)
                continue
            if not self.read(session, after=len(entries), until=len(entries) + 1):
                break
            # Once more: while the session grew, a new note may have quoted a message.
        self.scrub()
        forget_texts()
        return len(erased)

    def search(
        self: SessionStore,
        text: str,
        *,
        user_id: str,
        session_id: str | None = None,
        limit: int = 10,
        **filters: Unpack[Filters],
    ) -> list[Found]:
        """The messages of a user, or of one session, that match a text best, in view or not.

        Words match by their stems, Chinese, Japanese and Korean by pairs of characters. `tool`, `after`, `before` and
        `numbers` filter; with a filter and no words the newest messages come first. Reads all messages, but stores in
        a database have an index. Raises InvalidMessage naming a wrong argument.
        """
        # Imported late: ranking takes longer to import than all the rest of a memory.
        from autocontext.stores.search import find  # noqa: PLC0415

        storable(SessionKey(user_id, session_id or ""))
        keys = [info.key for info in self.sessions(user_id) if session_id in (None, info.session_id)]
        return find({key: self.read(key) for key in keys}, text, limit=limit, **filters)

    asearch, aerase = awaitable(search), awaitable(erase)

    # The earlier names.
    redact, aredact = erase, aerase

    def export_jsonl(self: SessionStore, session: SessionKey, to: str | Path | TextIO) -> int:
        """Write a session's entries to a file as JSON lines, after a line with their number; returns that number.

        The file is replaced completely or not at all. Only its owner can read it (0600); it is not encrypted. Raises
        InvalidMessage if there is nothing to export, so that a session that is gone leaves its last export.
        """
        entries = self.read(session)
        if not entries:
            raise InvalidMessage(f"export: session {session[1]!r} of user {session[0]!r} has no entries to export")
        lines = dump_lines(entries)
        if isinstance(to, str | Path):
            write_private(to, "".join(lines))
        else:
            to.writelines(lines)
        return len(entries)

    def import_jsonl(self: SessionStore, session: SessionKey, source: str | Path | TextIO) -> int:
        """Create a session from exported lines; returns the number of entries.

        Raises InvalidMessage naming a wrong line, also if lines are missing or moved or there is none, and Conflict if
        the session exists; then nothing is stored.
        """
        entries = load(source)
        try:
            self.append(session, entries, after=0)
        except Conflict as e:
            raise Conflict(f"session {session[1]!r} exists already; import it under another id") from e
        return len(entries)


def below(store: SessionStore, session: SessionKey) -> list[SessionKey]:
    """The sessions of a session's children, and of theirs; lists the user's sessions."""
    storable(session)
    return [info.key for info in store.sessions(session[0]) if session[1] in ancestors(info.session_id)]


def info_of(store: SessionStore, session: SessionKey) -> SessionInfo | None:
    """A session as its store lists it; None for an unknown one. A store of your own may have no `info`."""
    find: Callable[[SessionKey], SessionInfo | None] | None = getattr(store, "info", None)
    if find is not None:
        return find(session)
    return next((info for info in store.sessions(session[0]) if info.session_id == session[1]), None)


def expire_like(store: SessionStore, session: SessionKey, info: SessionInfo) -> None:
    """Let a copy of a session expire when the session does."""
    if info.stays or info.expires_at is not None:
        store.expire(session, None if info.expires_at is None else info.expires_at / 1000 - time.time())


class Attempts:
    """Pauses between attempts to rewrite entries that others rewrite, too."""

    def __init__(self, what: str) -> None:
        self._what, self._left = what, _ATTEMPTS

    def pause_after(self, error: Conflict) -> None:
        """Wait for a random time; after too many attempts raise the error, naming what failed."""
        self._left -= 1
        if not self._left:
            raise Conflict(f"{self._what}: others kept rewriting it; call it again ({error})") from error
        time.sleep(random.random() * min(_LONGEST_WAIT, 0.001 * (_ATTEMPTS - self._left)))


def swap_in(store: SessionStore, session: SessionKey, old: Mapping[int, Entry], new: Mapping[int, Entry]) -> None:
    """`rewrite` with `new` if the entries at its numbers are still those of `old`. Raises Conflict otherwise.

    A store of your own that several processes share needs a method `swap`, which compares and writes in one step.
    """
    swap = getattr(store, "swap", None)
    if swap is not None:
        swap(session, old, new)
    elif not all(same_entries(store.read(session, after=number, until=number + 1), [old[number]]) for number in new):
        raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")
    else:
        store.rewrite(session, new)
