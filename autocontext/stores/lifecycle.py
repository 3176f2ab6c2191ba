"""What every session store can do with whole sessions, written once over the store's own few methods."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from autocontext.errors import Conflict, InvalidMessage, StoreCorruptError
from autocontext.log import Entry, dump_entry, load_entry
from autocontext.stores.erasing import erased
from autocontext.stores.protocol import SessionKey

if TYPE_CHECKING:
    from autocontext.stores.protocol import SessionStore

_AT_ONCE = 500
"""Entries that go into one transaction when a session is copied."""


class Lifecycle:
    """Copies, exports and erases sessions of the store that inherits it."""

    def fork(
        self: SessionStore, session: SessionKey, *, at: int | None = None, new_id: str | None = None
    ) -> SessionKey:
        """Copy a session, as it was after its first `at` entries (None: all), to a new one of the same user.

        Returns the new key. Raises Conflict when `new_id` is taken, InvalidMessage when there is nothing to copy.
        """
        to = SessionKey(session[0], new_id or str(uuid.uuid4()))
        entries = self.read(session, until=at)
        if not entries:
            raise InvalidMessage(f"fork: session {session[1]!r} of user {session[0]!r} has no entries to copy")
        if self.read(to, until=1):
            raise Conflict(f"fork: session {to.session_id!r} exists already; choose another new_id")
        for i in range(0, len(entries), _AT_ONCE):
            self.append(to, entries[i : i + _AT_ONCE], after=i)
        return to

    def redact(self: SessionStore, session: SessionKey, ids: Iterable[str]) -> int:
        """Erase what messages say, wherever it is stored, and leave tombstones so that calls stay paired.

        Notes and ledgers that may quote them lose their text as well. Returns how many of the ids were found; open
        memories of the session have to be opened anew.
        """
        wanted = frozenset(ids)
        entries = self.read(session)
        changed, found = erased(entries, wanted)
        if changed:
            self.rewrite(session, changed)
        return len(found)

    def export_jsonl(self: SessionStore, session: SessionKey, to: str | Path | TextIO) -> int:
        """Write a session's entries as JSON lines to a file (replaced whole or not at all); returns how many."""
        lines = [dump_entry(entry) + "\n" for entry in self.read(session)]
        if isinstance(to, str | Path):
            part = Path(f"{to}.part")
            part.write_text("".join(lines), encoding="utf-8")
            part.replace(to)
        else:
            to.writelines(lines)
        return len(lines)

    def import_jsonl(self: SessionStore, session: SessionKey, source: str | Path | TextIO) -> int:
        """Make a session of exported lines; returns how many.

        Raises InvalidMessage naming the line at fault, or Conflict when the session exists: nothing is stored then.
        """
        if isinstance(source, str | Path):
            with Path(source).open(encoding="utf-8") as file:
                entries = list(_parsed(file, str(source)))
        else:
            entries = list(_parsed(source, "line"))
        if self.read(session, until=1):
            raise Conflict(f"import: session {session[1]!r} exists already; import it under another id")
        self.append(session, entries, after=0)
        return len(entries)


def _parsed(lines: Iterable[str], name: str) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield load_entry(line.rstrip("\n"))
            except StoreCorruptError as e:
                raise InvalidMessage(f"{name}:{number}: {e}") from None
