"""When the five strategies do not get under the target: the oldest part of the view becomes one note, without a model.

The note quotes what the user said, verbatim and newest first inside a budget, and the first lines of what came of it.
A later fold takes the earlier note in, so there is one such note however long the conversation gets.
"""

from __future__ import annotations

from collections.abc import Iterable

from autocontext import rendering
from autocontext.config import AutoContextConfig
from autocontext.edits import Proposal
from autocontext.messages import Msg, TextBlock, is_note, is_user_turn
from autocontext.strategies.selection import stays
from autocontext.view import View

OLDEST_ROUNDS_FOLD = "OLDEST_ROUNDS_FOLD"
_OUTCOME_CHARACTERS = 200
"""Characters kept of a reply or a note."""
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
        more = self.config.max_token * _TO_ROUND
        for i in range(enough, stop):
            if is_user_turn(view.messages[i]) and view.closed(start, i):
                return i
            more -= view.tokens(i, i + 1)
            if more < 0:
                break
        return next((i for i in range(enough, stop) if view.closed(start, i)), stop)

    def _size(self, proposal: Proposal) -> int:
        return sum(len(item.text) for item in proposal.items) // 4

    def _note(self, view: View, start: int, stop: int) -> Proposal:
        span = view.span(start, stop)
        share = 0.5 if self.last_resort else 1.0
        quotes = min(self.config.user_message_budget, self.config.max_token // 4)
        outcomes = self.config.max_token * self.config.note_ratio / 2
        items = _items(span.messages, int(quotes * share), int(outcomes * share))
        text = rendering.fold_head(span.messages)
        return Proposal(span, text, items=items, event_type=OLDEST_ROUNDS_FOLD, kind="fold", role=self.config.note_role)


def _items(messages: Iterable[Msg], quote_budget: int, outcome_budget: int) -> tuple[TextBlock, ...]:
    """What the note says of each message, in order, newest first inside the budgets (tokens, by four characters)."""
    left = {True: quote_budget * 4, False: outcome_budget * 4}
    kept: list[TextBlock] = []
    for m in reversed(list(messages)):
        for item in reversed(_said(m)):
            quote = item.metadata.get("quote") is True
            if len(item.text) <= left[quote]:
                left[quote] -= len(item.text)
                kept.append(item)
            elif quote:
                left[quote] = 0  # an older message must not be quoted where a newer one is left out
    return tuple(reversed(kept))


def _said(m: Msg) -> list[TextBlock]:
    if m.origin is not None and m.origin.kind == "fold":
        return [b for b in m.content if isinstance(b, TextBlock) and "quote" in b.metadata]
    text = rendering.untagged(m.text)
    if not text:
        return []
    if is_user_turn(m):
        return [TextBlock(text=f"User: {text}", metadata={"quote": True})]
    if m.role == "assistant" or is_note(m):
        body = rendering.unmarked(text)
        short = body if len(body) <= _OUTCOME_CHARACTERS else rendering.preview(body, _OUTCOME_CHARACTERS)
        return [TextBlock(text=f"Then: {short}", metadata={"quote": False})]
    return []
