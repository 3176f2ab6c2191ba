"""When the five strategies do not get under the target: the oldest part of the view becomes one note, without a model.

The note quotes what the user said, verbatim and newest first inside a budget, and the first lines of what came of it.
A later fold takes the earlier note in, so there is one such note however long the conversation gets.
"""

from __future__ import annotations

from autocontext import rendering
from autocontext.config import AutoContextConfig
from autocontext.messages import is_user_turn
from autocontext.proposals import Proposal
from autocontext.strategies.digests import digests
from autocontext.strategies.selection import stays
from autocontext.view import View

OLDEST_ROUNDS_FOLD = "OLDEST_ROUNDS_FOLD"
_TO_ROUND = 0.05
"""Share of `max_token` that may be folded beyond what is needed, to end where a round does."""
_LEAST = 2
"""Messages; folding one makes nothing shorter."""


class Fold:
    """The oldest closed stretch, as long as is needed to get `excess` messages and tokens out of the view."""

    name = "fold"

    def __init__(
        self,
        config: AutoContextConfig,
        *,
        excess_messages: float,
        excess_tokens: float,
        last_resort: bool = False,
    ) -> None:
        self.config = config
        self.excess_messages = excess_messages
        self.excess_tokens = excess_tokens
        self.last_resort = last_resort
        """Also what protected tools gave; and quote half as much."""

    def propose(self, view: View) -> list[Proposal]:
        """Folds before the latest user message, then, if they are not enough, between it and what is unread."""
        found: list[Proposal] = []
        keep = stays(self.config, view, protected=not self.last_resort)
        user = view.latest_user
        # A note in the user's role must never come last: it would read as the question to answer.
        until = min(view.unread, len(view) - 1) if self.config.note_role == "user" else view.unread
        # A user may write before the model has read what the tools gave: only the last resort takes that.
        before = user if self.last_resort else min(user, view.unread)
        areas = [(0, before), (user + 1, until)] if user >= 0 else [(0, until)]
        messages, tokens = self.excess_messages, self.excess_tokens
        for start, stop in areas:
            for a, b in view.pieces(start, stop, keep):
                if messages <= 0 and tokens <= 0:
                    return found
                end = self._end(view, a, b, messages, tokens)
                if end - a < _LEAST:
                    continue
                proposal = self._note(view, a, end)
                found.append(proposal)
                messages -= end - a - 1
                tokens -= view.tokens(a, end) - self._size(proposal)
        return found

    def _end(self, view: View, start: int, stop: int, messages: float, tokens: float) -> int:
        """The first place where enough is folded: the start of a round if there is one, else the end of an exchange."""
        saved, enough = 0, stop
        for i in range(start, stop):
            saved += view.tokens(i, i + 1)
            if i - start > messages and saved >= tokens:
                enough = i + 1
                break
        ends = [i for i in view.ends(start, stop) if i >= enough]
        more = self.config.max_token * _TO_ROUND
        for i in ends:
            if view.tokens(enough, i) > more:
                break
            if i < stop and is_user_turn(view.messages[i]):
                return i
        return ends[0] if ends else stop

    def _size(self, proposal: Proposal) -> int:
        return sum(len(item.text) for item in proposal.items) // 4

    def _note(self, view: View, start: int, stop: int) -> Proposal:
        span = view.span(start, stop)
        share = 0.5 if self.last_resort else 1.0
        quotes = min(self.config.user_message_budget, self.config.max_token // 4)
        outcomes = self.config.max_token * self.config.note_ratio / 2
        items = digests(span.messages, int(quotes * share), int(outcomes * share))
        text = rendering.fold_head(span.messages)
        return Proposal(span, text, items=items, event_type=OLDEST_ROUNDS_FOLD, kind="fold", role=self.config.note_role)
