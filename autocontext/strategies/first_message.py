"""Shortens what the user pasted and the model has answered, if it takes too much of the window."""

from __future__ import annotations

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal
from autocontext.history.view import View
from autocontext.messages import Msg, is_note, is_pinned, is_recall, is_user_turn
from autocontext.notes.sentences import is_output
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.pastes import PASTE_SHORTENED, shortened, text_tokens

FIRST_MESSAGE_SHORTENED = "FIRST_MESSAGE_SHORTENED"
_SHARE = 0.45
"""Largest message that was answered, as a share of the window without system messages."""
_WORTHWHILE = 1.2
"""How many times its room a message must take to be cut: what it loses may be an order, and little room is won."""
_LEAST = 0.25
"""Of that, what is left where the open request is as large itself."""
_WITH_NEW, _BESIDE_NEW = 0.9, 0.3
"""Most of the window that a new result and the message may take together, and what the message keeps of it: to know
what is to be done matters more than all of a result."""
_LEAST_WORDS = 200
"""Tokens of a message's text that are kept; images alone may be larger, and are left out by number."""
_MARK_TOKENS = 70
"""Tokens of the gap's line and the tag."""


class FirstMessage:
    """Shows the user's messages in part that were answered and take clearly more than 45 % of the window.

    Those before the latest request may take what it leaves of that share, and what the newest results leave of the
    window: those are what the next step needs. It is nearly always the first message, which no fold takes. One that was
    cut before is cut anew from its original.
    """

    name = "first_message"

    def __init__(self, config: AutoContextConfig, hand_over: NoteWriter, overhead: int) -> None:
        self.config, self._hand_over, self._overhead = config, hand_over, overhead

    def applies(self, view: View) -> bool:
        """Whether a message is too large."""
        return bool(self._too_large(view))

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message for each that is too large."""
        proposals = []
        for at, room in self._too_large(view).items():
            event = FIRST_MESSAGE_SHORTENED if at == view.first_user else PASTE_SHORTENED
            keep = max(0, room - _MARK_TOKENS)
            proposals.append(shortened(view, at, keep, self._hand_over, event=event, repeats=False))
        return proposals

    def _too_large(self, view: View) -> dict[int, int]:
        """Where answered messages of the user stand that take more than they may, each with what its text may take.

        The latest request comes first: what it takes, earlier ones may not take.
        """
        system = sum(view.tokens(i, i + 1) for i, m in enumerate(view.messages) if m.role == "system")
        room, latest = self.config.max_token - self._overhead - system, _latest_request(view)
        most = int(room * _SHARE)
        earlier = most if latest < 0 else max(int(most * _LEAST), most - view.tokens(latest, latest + 1))
        beside_new = int(room * _WITH_NEW) - view.tokens(view.unread, len(view))
        # A result that is larger than both may be together must be cut whatever the message takes.
        beside_new = max(beside_new, int(room * _BESIDE_NEW)) if beside_new >= 0 else most
        # A note stands for answers, too: the replies to a first message may be folded by now.
        places = range(len(view) - 1, -1, -1)
        answered = next((i for i in places if _answers(view.messages[i])), 0)
        turns = {
            i: min(beside_new, earlier if i < latest else most)
            for i, m in enumerate(view.messages[:answered])
            if m.role == "user" and is_user_turn(m) and not is_pinned(m) and m.text
        }
        too_large = {i: room for i, room in turns.items() if view.tokens(i, i + 1) > room * _WORTHWHILE}
        return {i: words for i, room in too_large.items() if (words := self._room_for_text(view, i, room))}

    def _room_for_text(self, view: View, at: int, room: int) -> int:
        """What a message's images leave of its room; 0 if that is too little for a text: none is cut for them."""
        images = view.tokens(at, at + 1) - text_tokens(view, at, self._hand_over)
        return room if not images else room - images if room - images >= _LEAST_WORDS else 0


def _answers(m: Msg) -> bool:
    return m.role == "assistant" or (is_note(m) and not is_recall(m))


def _latest_request(view: View) -> int:
    """Where the user's latest message stands that is not what a terminal has printed; -1 for none."""
    users = (i for i in range(view.latest_user, -1, -1) if is_user_turn(view.messages[i]))
    return next((i for i in users if not is_output(view.messages[i].text)), view.latest_user)
