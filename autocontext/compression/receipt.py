"""The receipt of a pass: one line that says what left the view, under which numbers, and that it can be restored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from autocontext.events import READ_ONCE, CompressionReport
from autocontext.history.log import Log
from autocontext.history.numbering import names
from autocontext.history.runs import Runs
from autocontext.messages import Msg
from autocontext.text import rendering

_MOST_NOTES = 3
"""Notes with a part of their own in the line."""
_MOST_RANGES = 8
"""Numbers and ranges in a list."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A message that the pass has made, and what it replaced of the view before."""

    id: str
    left: Runs
    """Numbers of the originals that left the view for it, in full or what was still shown of them."""
    covers: Runs
    """Numbers of all originals that it stands for."""
    before: int
    """Tokens of what it replaced."""
    after: int
    """Its own tokens."""


def receipt(log: Log, before: Sequence[str], tokens: Callable[[str], int]) -> str:
    """What has left the view since its ids were `before`; "" for nothing. `tokens` counts a message by its id.

    "m12-m40 folded into one note (9,812 -> 1,204 tokens), m44 read again later; 30 messages out of view, all can be
    restored"
    """
    known = set(before)
    changes = [_change(log, id_, known, tokens) for id_ in log.view_ids if id_ not in known and id_ in log.replaced]
    if not changes:
        return ""
    kinds = {event.compressed_message_id: event.event_type for event in log.events}
    repeated = [c for c in changes if kinds.get(c.id) == READ_ONCE]
    others = [c for c in changes if kinds.get(c.id) != READ_ONCE]
    notes = [c for c in others if _is_about_others(log.messages[c.id])]
    parts = list(_notes(notes))
    if stubs := [c for c in others if not _is_about_others(log.messages[c.id])]:
        parts.append(f"{_list(Runs.union(c.covers for c in stubs))} shortened{_sizes(stubs)}")
    parts += _read_again(log, repeated)
    out = len(log.original) - sum(id_ in log.place for id_ in log.view_ids)
    end = f"{out:,} message{'' if out == 1 else 's'} out of view, all can be restored"
    return f"{', '.join(parts)}; {end}"


def told(report: CompressionReport) -> str:
    """What came of a pass that somebody asked for, for the one who did."""
    if not report:
        return f"Nothing was condensed: {report.reason}."
    done = f"Condensed from {report.tokens_before:,} to {report.tokens_after:,} tokens: {report.receipt}."
    return f"{done} It still does not fit: {report.reason}." if report.outcome == "impossible" else done


def _change(log: Log, id_: str, before: Collection[str], tokens: Callable[[str], int]) -> _Change:
    replaced: list[str] = []
    todo = [id_]
    while todo:
        inner = todo.pop()
        if inner in before:
            replaced.append(inner)
        else:
            todo += log.behind(inner)
    left = log.numbers(i for i in replaced if not _is_about_others(log.messages[i]))
    return _Change(id_, left, log.numbers([id_]), sum(map(tokens, replaced)), tokens(id_))


def _is_about_others(msg: Msg) -> bool:
    """Whether a message stands for several: a note or a summary."""
    return msg.origin is not None and msg.origin.kind != "stub"


def _notes(changes: Sequence[_Change]) -> Iterator[str]:
    for change in changes[:_MOST_NOTES]:
        whole = _list(change.covers)
        if not change.left:
            yield f"the note about {whole} shortened{_sizes([change])}"
        elif change.left == change.covers:
            yield f"{_list(change.left)} folded into one note{_sizes([change])}"
        else:
            yield f"{_list(change.left)} folded into the note about {whole}{_sizes([change])}"
    if more := changes[_MOST_NOTES:]:
        left = Runs.union(change.left for change in more)
        yield f"{_list(left)} folded into {len(more)} more note{'s' if len(more) > 1 else ''}{_sizes(more)}"


def _read_again(log: Log, changes: Sequence[_Change]) -> Iterator[str]:
    """Which readings and calls gave way to newer ones."""
    made_again = [(change.left, rendering.made_again(log.messages[change.id])) for change in changes]
    for verb in ("read", "called"):
        if again := [left for left, verbs in made_again if verb in verbs]:
            yield f"{_list(Runs.union(again))} {verb} again later"


def _sizes(changes: Sequence[_Change]) -> str:
    return f" ({sum(c.before for c in changes):,} -> {sum(c.after for c in changes):,} tokens)"


def _list(numbers: Runs) -> str:
    """The numbers as ranges, of many only the first."""
    if len(numbers.pairs) <= _MOST_RANGES:
        return names(numbers)
    return f"{names(Runs(numbers.pairs[:_MOST_RANGES]))},… ({len(numbers):,} in all)"
