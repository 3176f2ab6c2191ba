"""Strategy 4: each finished round before the latest reply becomes its user message and one summary."""

from __future__ import annotations

from autocontext.events import PREVIOUS_ROUND_CONVERSATION_SUMMARY
from autocontext.history.proposals import Proposal
from autocontext.history.view import Round, View
from autocontext.messages import is_fold, is_note
from autocontext.plan import plan_line
from autocontext.strategies.selection import OfSize, question, recent, stays

_SHARE = 0.3
"""Size of the summary as a share of the round."""


class Rounds(OfSize):
    """Summarises rounds with messages between the user's and the final reply; asks for all summaries at once."""

    name = "rounds"

    def propose(self, view: View) -> list[Proposal]:
        """One summary per round that is large enough, or several around messages that must stay.

        A fold follows the first user message but is no part of its round.
        """
        proposals = []
        keep = stays(self.config, view)
        for r in view.rounds():
            if r.stop - 1 >= min(view.latest_reply, recent(view, self.config)):
                continue
            spans = view.closed_spans(r.start, r.stop, lambda m: keep(m) or is_fold(m))
            spans = [(a, b) for a, b in spans if b - a > 1 and not all(map(is_note, view.messages[a:b]))]
            if spans and self.fits(view.tokens(r.user, r.stop)):
                proposals += [self._summary(view, r, a, b) for a, b in spans]
        return proposals

    def _summary(self, view: View, r: Round, start: int, stop: int) -> Proposal:
        user, span = view.span(r.user, r.user + 1), view.span(start, stop)
        return Proposal(
            span,
            question("round_summary", view, (r.user, *range(start, stop)), _SHARE, self.config) or "",
            footer=plan_line(span.messages),
            event_type=PREVIOUS_ROUND_CONVERSATION_SUMMARY,
            kind="round_summary",
            role="assistant",
            context=user,
        )
