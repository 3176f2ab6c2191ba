"""The entries that put messages back into view: what a compression replaced, and what was taken back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from autocontext.history.entries import Restored
from autocontext.history.log import Log


def undo_entry(log: Log, note: str) -> Restored | None:
    """The entry that undoes the compression that made this message of the view; None if that is no longer possible.

    What a framework's list had no more meanwhile stays out of view.
    """
    ids, origin = log.behind(note), log.messages[note].origin
    if origin is None or not set(ids).isdisjoint(log.view_ids):
        return None
    if not ids and not log.is_line(note):
        return None
    return Restored(uuid=origin.uuid, note=note, ids=still_held(log, ids))


def still_held(log: Log, ids: Iterable[str]) -> tuple[str, ...]:
    """These messages without those that stand only for what a framework's list had no more."""
    return tuple(id_ for id_ in ids if not log.stands_for(id_, log.taken_back))


def return_entries(log: Log, ids: Iterable[str]) -> list[Restored]:
    """The entries that bring those of these messages that were taken back into view again, in the order of the log.

    Those behind a note in view stay there, and come back with the others when it is undone.
    """
    if not log.taken_back:
        return []
    back = sorted(log.taken_back & log.keys(ids), key=log.place.__getitem__)
    if not back:
        return []
    if not log.view_ids:
        return [Restored(uuid="", note="", ids=tuple(back))]
    # A note of recalled lines stands for no original: it stays with the message after it.
    firsts = [runs[0][0] if (runs := log.runs_of(id_)) else len(log.original) + 1 for id_ in log.view_ids]
    smallest = list(accumulate(reversed(firsts), min))[::-1]
    behind: dict[int, list[str]] = {}
    for id_ in back:
        behind.setdefault(bisect_left(smallest, log.place[id_] + 1) - 1, []).append(id_)
    told_of = {*log.covered(log.view_ids)}
    entries = []
    for at, group in behind.items():
        place = log.view_ids[max(at, 0)]
        stay = tuple(id_ for id_ in group if id_ in told_of)
        new = [id_ for id_ in group if id_ not in told_of]
        ids = (place, *new) if at >= 0 else (*new, place)
        entries.append(Restored(uuid="", note=place, ids=ids, behind=stay))
    return entries


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
