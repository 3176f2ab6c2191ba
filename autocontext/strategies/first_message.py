"""Shortens the user's first message if it takes too much of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import MESSAGE_TEXT, Proposal
from autocontext.history.view import View
from autocontext.messages import is_compressed, is_pinned, is_user_turn
from autocontext.text import rendering

if TYPE_CHECKING:
    from autocontext.strategies.notes import NoteWriter

FIRST_MESSAGE_SHORTENED = "FIRST_MESSAGE_SHORTENED"
_SHARE = 0.45
"""Largest first message, as a share of the window without system messages."""
_HEAD = 0.7
"""Share of the kept text that comes from the beginning."""
_MARK_TOKENS = 70
"""Tokens of the gap's line and the tag."""


class FirstMessage:
    """Cuts the middle out of the user's first message if it takes more than 45 % of the window."""

    name = "first_message"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter, overhead: int) -> None:
        self.config, self._hand_over, self._overhead = config, hand_over, overhead

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message, or nothing."""
        at = next((i for i, m in enumerate(view.messages) if is_user_turn(m)), -1)
        if at < 0 or is_compressed(view.messages[at]) or is_pinned(view.messages[at]):
            return []
        if not any(m.role == "assistant" for m in view.messages[at + 1 :]):
            return []  # the model has not read it yet
        system = sum(view.tokens(i, i + 1) for i, m in enumerate(view.messages) if m.role == "system")
        room = int((self.config.max_token - self._overhead - system) * _SHARE)
        tokens, text = view.tokens(at, at + 1), view.messages[at].text
        if tokens <= room or not text:
            return []
        number = self._hand_over.number(view.ids[at])
        keep = int(len(text) * max(0, room - _MARK_TOKENS) / tokens)
        shorter = rendering.in_part(text, keep, head=_HEAD, number=number)
        span = view.span(at, at + 1)
        return [Proposal(span, blocks={MESSAGE_TEXT: shorter}, event_type=FIRST_MESSAGE_SHORTENED, kind="stub")]
