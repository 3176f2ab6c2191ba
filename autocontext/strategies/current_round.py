"""Strategy 5, for the current round: first its large messages one by one, then everything the model has read."""

from __future__ import annotations

from autocontext.config import AutoContextConfig
from autocontext.events import CURRENT_ROUND_LARGE_MESSAGE_SUMMARY, CURRENT_ROUND_MESSAGE_COMPRESS
from autocontext.history.proposals import MESSAGE_TEXT, Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, is_compressed, is_note
from autocontext.strategies.selection import answer_size, is_large, note, recent, stays
from autocontext.text import rendering


def _readable(view: View, config: AutoContextConfig) -> tuple[int, int]:
    """The part [start, stop) of the current round that may be changed; empty if stop <= start.

    A final reply is not among them: it ends the round, and the user will refer to it.
    """
    if view.latest_user < 0:
        return 0, 0
    start = max(view.latest_user, view.latest_reply) + 1
    # A note in the user's role must never come last: it would read as the question to answer.
    until = view.unread if config.keep_unread or config.note_role == "user" else len(view)
    return start, min(until, recent(view, config))


class CurrentRoundLargeMessages:
    """First step: each large message keeps its place and structure and gets the model's summary as its text."""

    name = "current_round_large_messages"

    def __init__(self, config: AutoContextConfig) -> None:
        self.config = config

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per large message that has been read: by the model, or a final reply by the user."""
        stop = _readable(view, self.config)[1]
        keep = stays(self.config, view)
        proposals = []
        for i in range(view.latest_user + 1 if view.latest_user >= 0 else stop, stop):
            m = view.messages[i]
            if (i == view.latest_reply and self.config.keep_unread) or is_compressed(m) or keep(m):
                continue
            blocks = self._questions(m, view.tokens(i, i + 1))
            if blocks:
                span = view.span(i, i + 1)
                proposals.append(
                    Proposal(span, blocks=blocks, event_type=CURRENT_ROUND_LARGE_MESSAGE_SUMMARY, kind="stub")
                )
        return proposals

    def _questions(self, m: Msg, tokens: int) -> dict[int, str | Question]:
        texts = {MESSAGE_TEXT: m.text} if is_large(m.text, self.config) else {}
        large = texts if m.text else self._large_results(m)
        own = tokens // max(1, len(large))
        size = answer_size(own, self.config.current_round_compression_ratio, self.config)
        return {i: Question("large_message", (rendering.escape_tags(text),), size, (own,)) for i, text in large.items()}

    def _large_results(self, m: Msg) -> dict[int, str]:
        """The results to condense if the message as a whole is large: the large ones, or all if none is large."""
        results = {i: b for i, b in enumerate(m.content) if isinstance(b, ToolResultBlock) and b.text}
        if not is_large("".join(b.name + b.id + b.text for b in results.values()), self.config):
            return {}
        large = {i: b.text for i, b in results.items() if is_large(b.name + b.id + b.text, self.config)}
        return large or {i: b.text for i, b in results.items()}


class CurrentRound:
    """Second step: everything after the user's message that is paired and read becomes one note."""

    name = "current_round"

    def __init__(self, config: AutoContextConfig) -> None:
        self.config = config

    def propose(self, view: View) -> list[Proposal]:
        """One note, or several around messages that must stay. Existing notes are left alone."""
        start, stop = _readable(view, self.config)
        keep = stays(self.config, view)
        share, event = self.config.current_round_compression_ratio, CURRENT_ROUND_MESSAGE_COMPRESS
        return [
            note("current_round", event, view, a, b, share=share, config=self.config)
            for a, b in view.closed_spans(start, stop, lambda m: keep(m) or is_note(m))
        ]
