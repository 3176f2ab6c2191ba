"""Gives notes their room back: a note that a large result has pushed together is written anew where there is room."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.fold import OLDEST_ROUNDS_FOLD

_WORTHWHILE = 0.25
"""A note that would grow by a smaller share stays: a change costs the provider's cache what stands behind it."""


class Regrow:
    """Writes folds' notes anew where they have less than they need and the view is under the target of its pass."""

    name = "regrow"

    def __init__(self, hand_over: NoteWriter, room: Callable[[], int]) -> None:
        """`room` returns the tokens by which the view may grow."""
        self._hand_over, self._room = hand_over, room

    def propose(self, view: View) -> list[Proposal]:
        """Longer notes about the same messages; together they take at most their share of the window."""
        lacks = self._lacks(view)
        part = min(1.0, max(0, self._room()) / max(1, sum(lacks.values())))
        return [
            self._longer(view, i, view.tokens(i, i + 1) + int(lack * part), last=i == max(lacks))
            for i, lack in lacks.items()
            if lack * part >= _WORTHWHILE * view.tokens(i, i + 1)
        ]

    def wanted(self, view: View) -> int:
        """Tokens by which notes should grow."""
        return sum(lack for i, lack in self._lacks(view).items() if lack >= _WORTHWHILE * view.tokens(i, i + 1))

    def _lacks(self, view: View) -> dict[int, int]:
        """By place of a fold's note, the tokens it lacks: together at most what their share of the window leaves."""
        return view.remembered(self, lambda: self._measured(view))

    def _measured(self, view: View) -> dict[int, int]:
        places = [i for i, m in enumerate(view.messages) if m.origin is not None and m.origin.kind == "fold"]
        sizes = [view.tokens(i, i + 1) for i in places]
        most = self._hand_over.share
        if not places or most - sum(sizes) < _WORTHWHILE * min(sizes):
            return {}
        needs = [self._hand_over.frame + self._hand_over.needed(view, view.span(i, i + 1), most) for i in places]
        lacks = [max(0, need - size) for need, size in zip(needs, sizes, strict=True)]
        part = min(1.0, (most - sum(sizes)) / max(1, sum(lacks)))
        return {i: int(lack * part) for i, lack in zip(places, lacks, strict=True)}

    def _longer(self, view: View, place: int, size: int, *, last: bool) -> Proposal:
        span, note = view.span(place, place + 1), view.messages[place]
        return Proposal(
            span,
            self._hand_over.earlier_notes(span),
            ledger=self._hand_over.writing(view, span, size, plan=last),
            event_type=OLDEST_ROUNDS_FOLD,
            kind="fold",
            role="assistant" if note.role == "assistant" else "user",
            fallback=note.origin is not None and note.origin.fallback,
        )
