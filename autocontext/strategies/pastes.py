"""Shortens what the user pasted when the view is over the window and nothing else is left to cut."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.history.proposals import MESSAGE_TEXT, Proposal
from autocontext.history.view import View
from autocontext.messages import is_pinned, is_user_turn
from autocontext.notes.sentences import CLAUSE, PASTE, of_piece, pasted_lines
from autocontext.notes.writer import NoteWriter
from autocontext.text import rendering
from autocontext.text.excerpts import excerpt
from autocontext.text.pieces import pieces
from autocontext.text.signs import ERROR

PASTE_SHORTENED = "PASTE_SHORTENED"
_LEAST_CUT = 400
"""Tokens; a shorter message stays whole."""
_LEAST_KEPT = 200
"""Tokens that are kept of a message."""
_MARK_TOKENS = 90
"""Tokens of the lines around the gap and of the tag."""
_LINE = 400
"""Characters of a line that is left out where the two ends meet."""
_GAP = "\n…\n"
_READ, _OF_KEPT = 1_000_000, 2
"""Characters of a message that are read, and how many times those that are kept; of a longer one its ends."""
_BEGINNING, _FIRST = 1_000, 1.5
"""Characters at the beginning of a message, at most a third, and worth of what is said there: what is to be done."""
_INSTRUCTION, _OWN, _EXAMPLE, _PASTED, _REASON = 2.5, 2.0, 1.6, 0.1, 0.8
"""Worth of the user's instructions, their other words, their short examples, what they pasted, a line like an error."""


class Pastes:
    """Shows the longest messages of the user in part, until `excess` tokens are gone.

    The user's own words stay, and of what they pasted the lines that tell most. The newest one stays whole unless
    `latest` is cut, too.
    """

    name = "pastes"

    def __init__(self, hand_over: NoteWriter, excess: int, *, latest: bool = True) -> None:
        self._hand_over, self._excess, self._latest = hand_over, excess, latest

    def propose(self, view: View) -> list[Proposal]:
        """One shortened message per long message of the user, the longest first."""
        turns = (i for i, m in enumerate(view.messages) if is_user_turn(m) and not is_pinned(m))
        users = [i for i in turns if self._latest or i != view.latest_user]
        sizes = {i: text_tokens(view, i, self._hand_over) for i in users}
        excess, proposals = self._excess, []
        for i in sorted(sizes, key=lambda i: -sizes[i]):
            if excess <= 0 or sizes[i] < _LEAST_CUT:
                break
            keep = max(_LEAST_KEPT, sizes[i] - excess - _MARK_TOKENS)
            excess -= sizes[i] - keep - _MARK_TOKENS
            proposals.append(shortened(view, i, keep, self._hand_over, event=PASTE_SHORTENED))
        return proposals


def shortened(view: View, at: int, keep: int, hand_over: NoteWriter, *, event: str, repeats: bool = True) -> Proposal:
    """A message of the user with about `keep` tokens of its text, cut anew from the original.

    Without `repeats` it may be shorter: of pasted lines that differ in hours and ids only, a few are shown.
    """
    text = rendering.untagged(view.messages[at].text)
    characters = len(text) * keep // max(1, text_tokens(view, at, hand_over))
    original = hand_over.original(view.ids[at])
    text = (original.text if original is not None else "") or text
    shorter = in_part(text, characters, hand_over.number(view.ids[at]), repeats=repeats)
    return Proposal(view.span(at, at + 1), blocks={MESSAGE_TEXT: shorter}, event_type=event, kind="stub")


def text_tokens(view: View, at: int, hand_over: NoteWriter) -> int:
    """Tokens of a message without its images and the like."""
    m = view.messages[at]
    return view.tokens(at, at + 1) if all(b.type == "text" for b in m.content) else hand_over.tokens(m.text)


def in_part(text: str, characters: int, number: int | None, *, repeats: bool = True) -> str:
    """About `characters` of a user's message, with the mark of what is left out.

    Their own words go before what they have pasted, such as code between fences, diffs and logs; instructions first.
    """
    most = max(_READ, _OF_KEPT * characters)
    read = text if len(text) <= most else _ends(text, most // 2)
    short = excerpt(read, characters, _worth_in(read), repeats=repeats)
    if not short.text:
        return rendering.head_and_tail(text, characters)
    if read is not text:
        short = short._replace(missing=len(text) - len(read) + len(_GAP) + short.missing, characters=len(text))
    return f"{short.text}\n{rendering.left_out(number, short)}"


def _ends(text: str, characters: int) -> str:
    """So many characters from the beginning and from the end of a text, less what would be part of a line."""
    first = text.rfind("\n", characters - _LINE, characters)
    last = text.find("\n", len(text) - characters, len(text) - characters + _LINE)
    head, tail = text[: first if first > 0 else characters], text[last + 1 if last > 0 else len(text) - characters :]
    return f"{head}{_GAP}{tail}"


def _worth_in(text: str) -> Callable[[str], float]:
    """A function that rates the pieces of a message."""
    pasted = pasted_lines(text)
    begins = frozenset(p.said for p in pieces(text[: min(_BEGINNING, len(text) // 3)]))

    def worth(piece: str) -> float:
        first = _FIRST if piece in begins else 1.0
        if piece in pasted.examples:
            return _EXAMPLE * first
        kind = PASTE if piece in pasted.others else of_piece(piece)
        words = _INSTRUCTION * first if kind >= CLAUSE else _OWN * first if kind > PASTE else _PASTED
        return words + _REASON * (ERROR.search(piece) is not None)

    return worth
