"""Undoing a compression: the entries that put back what a note, or a shortened message, replaced."""

from __future__ import annotations

from autocontext.history.entries import Restored
from autocontext.history.log import Log
from autocontext.messages import is_recall


def undo_entry(log: Log, note: str) -> Restored | None:
    """The entry that undoes the compression that made this message of the view; None if that is no longer possible."""
    ids, origin = log.behind(note), log.messages[note].origin
    if origin is None or not set(ids).isdisjoint(log.view_ids):
        return None
    if not ids and not (note in log.replaced and is_recall(log.messages[note])):
        return None
    return Restored(uuid=origin.uuid, note=note, ids=ids)


def later_compression(log: Log, uuid: str) -> str:
    """The UUID of the compression in view that stands for the note of an earlier one; "" if there is none."""
    holder = {id_: note for note, ids in log.replaced.items() for id_ in ids}
    in_view = {*log.view_ids}
    for id_ in log.replaced:
        origin = log.messages[id_].origin if id_ in log.messages else None
        if origin is None or origin.uuid != uuid:
            continue
        above = holder.get(id_)
        while above is not None and above not in in_view:
            above = holder.get(above)
        if above is not None and (found := log.messages[above].origin) is not None:
            return found.uuid
    return ""
