"""The entries that keep the view in step with a list of messages that somebody else holds, such as a framework."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from autocontext.history.entries import Removed, Restored
from autocontext.history.log import Log
from autocontext.history.undoing import return_entries
from autocontext.history.view import exchange_of
from autocontext.messages import Msg


def follow_entries(
    log: Log, ids: Collection[str], gone: Collection[str], own: Collection[str] | None = None
) -> list[Restored | Removed]:
    """The entries that bring back what is in the list again, and take out of view what it has no more.

    `ids` are the list's at the start of a run, `gone` ids that it has had. Of those the lost ones go wherever they
    stand; else only what stands behind the last message that both share. A note goes once all that it stands for does;
    what is behind one that stays does not come into view when that is undone.

    A turn that called tools and was cut off before its answer stays: the list never heard of it, because its process
    ended or it was cancelled, and what its tools have done is done. With `own`, all that is among these ids goes, and
    nothing else.
    """
    entries: list[Restored | Removed] = [*return_entries(log, ids)]
    current = log.keys(ids)
    # What comes back from another branch does not count: this branch may share less of what is in view.
    shared = [i for i, id_ in enumerate(log.original) if id_ in current and id_ not in log.taken_back]
    back = [log.place[id_] for id_ in log.taken_back if id_ in current]
    left = log.keys(gone) - current
    if shared or back:
        start = shared[-1] + 1 if shared else min(back)
        behind_it = log.original[start:]
        if own is None:
            left.update(id_ for turn in _turns(log, behind_it) if not _cut_off(log.read(turn)) for id_ in turn)
        else:
            among = {*own}
            left.update(id_ for id_ in behind_it if id_ not in current and log.messages[id_].id in among)
    if not left:
        return entries
    view, lost = log.view(), left | log.taken_back - current
    exchanges = {i for id_, i in view.position.items() if log.stands_for(id_, lost) for i in view.exchange(i)}
    leaving = tuple(view.ids[i] for i in sorted(exchanges) if view.ids[i] not in current)
    told_of = {*log.covered(id_ for id_ in view.ids if id_ not in leaving)} - log.taken_back - current
    places = {at for id_ in left & told_of for at in exchange_of(log.place[id_], log.originals)}
    behind = tuple(id_ for at in sorted(places) if (id_ := log.original[at]) in told_of)
    if leaving or behind:
        entries.append(Removed(ids=leaving, taken_back=True, behind=behind))
    return entries


def _turns(log: Log, ids: Iterable[str]) -> list[list[str]]:
    """Each with what a user says at its beginning."""
    turns: list[list[str]] = []
    last = ""
    for id_ in ids:
        role = log.messages[id_].role
        if not turns or (role == "user" and last != "user"):
            turns.append([])
        turns[-1].append(id_)
        last = role
    return turns


def _cut_off(turn: Sequence[Msg]) -> bool:
    # What the system says behind an answer belongs to the next turn; behind an empty one, it asks for it again.
    last = next((m for m in reversed(turn) if m.role != "system"), turn[-1])
    answered = last.role == "assistant" and not last.tool_uses and (last is turn[-1] or last.text.strip() != "")
    return not answered and any(m.tool_uses for m in turn)
