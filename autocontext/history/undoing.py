"""Undoing a compression: the entries that put back what a note, or a shortened message, replaced."""

from __future__ import annotations

from autocontext.history.entries import NoteReplaced, Restored
from autocontext.history.log import Log
from autocontext.messages import is_compressed, is_ledger


def undo_entries(log: Log, note: str) -> list[Restored | NoteReplaced]:
    """The entries that undo the compression that made this message of the view; [] if that is no longer possible."""
    ids, origin = log.behind(note), log.messages[note].origin
    if not ids or origin is None or not set(ids).isdisjoint(log.view_ids):
        return []
    entries: list[Restored | NoteReplaced] = [Restored(uuid=origin.uuid, note=note, ids=ids)]
    then = (*log.view_messages, *log.read(ids))
    notes = [m for m in then if is_compressed(m) and not is_ledger(m) and m.id != note]
    # Without notes the ledger note is obsolete; otherwise the next pass renews it.
    if log.ledger is not None and not notes:
        entries.append(NoteReplaced(message=None))
    return entries
