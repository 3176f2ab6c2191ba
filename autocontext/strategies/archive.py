"""The agent's archive: the messages that it names leave the view for a note about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from autocontext.config import AutoContextConfig
from autocontext.history.numbering import names, short_list
from autocontext.history.proposals import Proposal
from autocontext.history.runs import Runs
from autocontext.history.view import Span, View
from autocontext.messages import is_note, is_pinned
from autocontext.notes.writer import NoteWriter
from autocontext.text import rendering

ARCHIVED_BY_AGENT = "ARCHIVED_BY_AGENT"
_SHARE = 0.2
"""Largest note, as a share of what it replaces."""
_LEAST_NOTE = 96
"""Tokens of the smallest note without its frame."""
_REASON = 200
"""Characters of the reason in a note."""


class Archive:
    """Replaces the messages with some numbers by notes, one for each stretch of the view; used for one pass.

    Calls go with their results. What has to stay is a `problem`, and then nothing is proposed.
    """

    name = "archive"

    def __init__(self, numbers: Runs, reason: str, config: AutoContextConfig) -> None:
        self.problem = ""
        """Why nothing was proposed, as a sentence with the way out."""
        self.widened = Runs()
        """Numbers that were not asked for and go along."""
        self.spans: list[tuple[Span, Runs]] = []
        """What was proposed: a span of the view and the numbers of the originals behind it."""
        self._numbers, self._reason, self._config = numbers, reason, config

    def bound(self, hand_over: NoteWriter) -> Self:
        """Itself, for the pass that writes its notes with `hand_over`."""
        self._hand_over = hand_over
        return self

    def propose(self, view: View) -> list[Proposal]:
        """One note for each stretch of consecutive messages."""
        self.problem, self.spans = "", []
        own = [self._hand_over.numbers(id_) for id_ in view.ids]
        asked = [i for i, numbers in enumerate(own) if numbers and self._numbers.covers(numbers)]
        if all(is_note(view.messages[i]) for i in asked):
            self.problem = (
                f"{short_list(self._numbers)}: nothing of that is in view in full, so there is nothing to put away."
            )
            return []
        chosen = _whole(view, asked)
        stays = {i: why for i in chosen if (why := self._stays(view, i))}
        if stays:
            self.problem = self._way_out(view, own, asked, stays)
            return []
        self.widened = Runs.union(own[i] for i in chosen - set(asked))
        for start, stop in Runs.of(i + 1 for i in chosen).pairs:
            self.spans.append((view.span(start - 1, stop), Runs.union(own[start - 1 : stop])))
        return [self._proposal(view, span) for span, _ in self.spans]

    def _stays(self, view: View, index: int) -> str:
        """Why a message stays; "" if it may go."""
        m = view.messages[index]
        if m.role == "system":
            return "is a system message"
        if is_pinned(m):
            return "is pinned"
        if index in (view.first_user, view.latest_user):
            return "is what the user asked for"
        if view.is_running(index):
            return "is a call without a result"
        if index >= view.unread or index == len(view) - 1:
            return "is part of the current step"
        return ""

    def _way_out(self, view: View, own: list[Runs], asked: list[int], stays: dict[int, str]) -> str:
        first = min(stays)
        rest = [i for i in asked if stays.keys().isdisjoint(_whole(view, [i]))]
        problem = f"{short_list(own[first])} {stays[first]} and stays in view"
        if first not in asked:
            problem += f"; it belongs to {short_list(Runs.union(own[i] for i in asked if first in _whole(view, [i])))}"
        left = Runs.union(own[i] for i in rest if not is_note(view.messages[i]))
        return f"{problem}. " + (f'Pass "{names(left)}" instead.' if left else "Nothing else of that can be put away.")

    def _proposal(self, view: View, span: Span) -> Proposal:
        start = view.position[span.ids[0]]
        tokens = view.tokens(start, start + len(span))
        room = max(_LEAST_NOTE, min(int(tokens * _SHARE), self._hand_over.share))
        reason = rendering.one_line(self._reason)
        ledger = self._hand_over.writing(view, span, self._hand_over.frame + room)
        footer = f"Put away by the agent: {reason[:_REASON]}" if reason else ""
        event, role = ARCHIVED_BY_AGENT, self._config.note_role
        return Proposal(span, "", ledger=ledger, footer=footer, event_type=event, kind="archive", role=role)


def _whole(view: View, indices: Iterable[int]) -> set[int]:
    """The indices, with all that their calls and results need to stay together, and what stands in between."""
    chosen: set[int] = set()
    for i in indices:
        exchange = view.exchange(i)
        chosen.update(range(exchange[0], exchange[-1] + 1))
    more = {j for i in chosen for j in view.exchange(i)} - chosen
    return _whole(view, chosen | more) if more else chosen
