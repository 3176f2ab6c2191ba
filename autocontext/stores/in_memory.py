"""A session store in the process's memory, for tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from autocontext.errors import Conflict
from autocontext.log import Entry


class InMemorySessionStore:
    """Keeps each session's entries in a list; safe to use from several threads."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], list[Entry]] = {}
        self._lock = threading.Lock()

    def append(self, session: tuple[str, str], entries: Sequence[Entry], *, after: int) -> None:
        """Store entries after the first `after` ones; raises Conflict when the session is longer than that."""
        with self._lock:
            kept = self._sessions.setdefault(session, [])
            if len(kept) != after:
                raise Conflict(f"session {session[1]!r} has {len(kept)} entries, not {after}: read it again")
            kept.extend(entries)

    def read(self, session: tuple[str, str], *, after: int = 0) -> list[Entry]:
        """The entries from number `after` on; [] for an unknown session."""
        with self._lock:
            return self._sessions.get(session, [])[after:]
