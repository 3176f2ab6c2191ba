"""A session store in the process's memory, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from autocontext.errors import Conflict, InvalidMessage
from autocontext.flows.forking import fork_lock
from autocontext.history.entries import Entry
from autocontext.stores.checks import check_id, checked_limit, checked_seconds
from autocontext.stores.lifecycle import Lifecycle
from autocontext.stores.protocol import (
    Entries,
    Page,
    Revision,
    SessionInfo,
    SessionKey,
    Version,
    check_version,
    new_version,
    storable,
    version_of,
)
from autocontext.stores.records import NEVER, expiry, now


class InMemorySessionStore(Lifecycle):
    """Keeps each session's entries in a list; safe to use from several threads. `ttl` as in the other stores."""

    def __init__(self, *, ttl: float | None = None) -> None:
        self._ttl = checked_seconds("ttl", ttl)
        self._sessions: dict[SessionKey, _Session] = {}
        self._lock = fork_lock()

    def append(self, session: SessionKey, entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones. Raises Conflict if the session is longer."""
        if not entries:
            return
        with self._lock:
            found = self._sessions.get(storable(session))
            if after > 0:
                check_version(session, version_of(after), found.version if found else None)
            kept = found or _Session(version_of(after) or new_version())
            if len(kept.entries) != after:
                raise Conflict(f"session {session[1]!r} has {len(kept.entries)} entries, not {after}: read it again")
            self._sessions[storable(session)] = kept
            kept.entries.extend(entries)
            kept.revisions.append(Revision(len(kept.entries), now()))
            if self._ttl is not None:
                kept.expires_at = max(expiry(self._ttl) or 0, kept.expires_at or 0)

    def read(self, session: SessionKey, *, after: int = 0, until: int | None = None) -> list[Entry]:
        """The entries from number `after` on, before number `until` (None: all); [] for an unknown session."""
        with self._lock:
            kept = self._sessions.get(storable(session))
            return Entries(kept.entries[after:until], kept.version) if kept else Entries()

    def revisions(self, session: SessionKey) -> list[Revision]:
        """The earlier states of a session, oldest first."""
        with self._lock:
            kept = self._sessions.get(storable(session))
            return list(kept.revisions) if kept else []

    def sessions(self, user_id: str | None = None, **page: Unpack[Page]) -> list[SessionInfo]:
        """The sessions of a user (None: of all users), most recently written first; all, or a page of them."""
        if user_id is not None:
            check_id("user_id", user_id, InvalidMessage)
        with self._lock:
            infos = [
                SessionInfo(
                    *key,
                    len(s.entries),
                    s.revisions[0].time,
                    s.revisions[-1].time,
                    None if s.expires_at == NEVER else s.expires_at,
                    stays=s.expires_at == NEVER,
                )
                for key, s in self._sessions.items()
                if user_id in (None, key.user_id)
            ]
        infos.sort(key=_place)
        if (after := page.get("after")) is not None:
            infos = [info for info in infos if _place(info) > _place(after)]
        return infos[: checked_limit(page.get("limit"))]

    def delete(self, session: SessionKey) -> bool:
        """Delete a session; False if there was none."""
        with self._lock:
            return self._sessions.pop(storable(session), None) is not None

    def rewrite(self, session: SessionKey, entries: Mapping[int, Entry]) -> None:
        """Replace entries by their number, all or none."""
        with self._lock:
            self._sessions[storable(session)].rewrite(entries)

    def swap(self, session: SessionKey, old: Mapping[int, Entry], new: Mapping[int, Entry]) -> None:
        """`rewrite` with `new` if the entries at its numbers are still those of `old`. Raises Conflict otherwise."""
        with self._lock:
            kept = self._sessions.get(storable(session))
            if kept is None or any(kept.entries[number : number + 1] != [old[number]] for number in new):
                raise Conflict(f"session {session[1]!r} was rewritten since it was read: read it again")
            kept.rewrite(new)

    def expire(self, session: SessionKey, ttl: float | None) -> bool:
        """Let a session expire in `ttl` seconds, or never (None); False for an unknown session."""
        expires_at = NEVER if ttl is None else expiry(ttl)
        with self._lock:
            if (kept := self._sessions.get(storable(session))) is None:
                return False
            kept.expires_at = expires_at
            return True

    def purge_expired(self) -> int:
        """Delete expired sessions, and return their number."""
        at = now()
        with self._lock:
            expired = [key for key, s in self._sessions.items() if s.expires_at is not None and s.expires_at <= at]
            for key in expired:
                del self._sessions[key]
            return len(expired)


def _place(info: SessionInfo) -> tuple[int, SessionKey]:
    return -info.updated_at, info.key


class _Session:
    def __init__(self, version: Version) -> None:
        self.version = version
        self.entries: list[Entry] = []
        self.revisions: list[Revision] = []
        self.expires_at: int | None = None

    def rewrite(self, entries: Mapping[int, Entry]) -> None:
        for number, entry in entries.items():
            self.entries[number] = entry
        self.version = self.version._replace(edition=self.version.edition + 1)
