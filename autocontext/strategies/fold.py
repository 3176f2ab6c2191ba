"""The fold: the oldest part of the view becomes one note, with the model's summary and its work ledger.

A later fold includes the earlier note, so there is one such note however long the conversation gets. It follows the
user's first message, which stays in view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate
from typing import NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import is_note
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.selection import stays
from autocontext.text import rendering

OLDEST_ROUNDS_FOLD = "OLDEST_ROUNDS_FOLD"
_LEAST_MESSAGES = 2
"""Folding a single message saves nothing."""
_OF_REPLACED = 0.7
"""Largest note, as a share of what it replaces and is no note itself."""
_EXPECTED = 0.7
"""Share of its room that a first note is expected to need."""
_GROWTH = 1.15
"""Expected growth of a note from one fold to the next."""
_WORTHWHILE = 0.95
"""A note with a larger share of the tokens it replaces is not worth writing."""
_CURRENT = 0.15
"""Least note about the current round, as a share of what it replaces or, if that is less, of the room for all notes."""
_LEAST_CURRENT = 400
"""Tokens; if that share has less room, the newest messages are worth more than a longer note."""
_LEAST_NOTE = 128
"""Tokens of the smallest note without its frame: room for the user's rules."""
_ANSWERED = 0.15
"""Largest message of the agent that stays because the user answers it, as a share of the window."""
_FULL = 0.9
"""A note with that share of the most it may have is known to need all of it, and is not written to find out."""
_MODEL_SHARE = 0.06
"""The model is asked for at most this share of the window."""


class _Piece(NamedTuple):
    """A closed span of the view that becomes a note."""

    start: int
    stop: int
    tokens: int


@dataclass
class Fold:
    """Folds the oldest closed spans until enough messages and tokens have left the view."""

    name = "fold"
    config: AutoContextConfig
    hand_over: NoteWriter
    excess: tuple[float, int]
    """How many messages and tokens."""
    _: KW_ONLY
    asks: bool = False
    """Whether a model writes the first part of each note."""
    shortens: bool = False
    """Also shortens single notes, down to a quarter of their share."""
    last_resort: bool = False
    """Also folds results of protected tools."""
    bare: bool = False
    """Also folds the user's first message; a note keeps what there is room for, at least its first line."""
    savings: Sequence[int] = ()
    """By place, the tokens that leave later if a message stays."""

    def __post_init__(self) -> None:
        self.last_resort |= self.bare
        self.shortens |= self.last_resort
        self.excess_messages, self.excess_tokens = self.excess
        self._savings = [0, *accumulate(self.savings)]
        """By place, the sum of the savings before it."""

    def propose(self, view: View) -> list[Proposal]:
        """Folds before the latest user message, then, if needed, between it and the first unread message."""
        share = most = self.hand_over.share
        model_tokens = int(self.config.max_token * min(_MODEL_SHARE, self.config.note_ratio)) if self.asks else 0
        areas = self._areas(view)
        alone = [_Piece(a, b, view.tokens(a, b)) for a, b in areas if b - a == 1 and is_note(view.messages[a])]
        note_tokens = sum(note.tokens for note in alone)
        all_note_tokens = sum(_notes(view, 0, len(view)))
        if self.shortens and not self.bare:
            share = max(share // 4, min(share // 2, note_tokens - self.excess_tokens))
        expected = min(share, max(int(all_note_tokens * _GROWTH), int(share * _EXPECTED)))
        if self.bare:
            expected = self.hand_over.frame
        pieces = self._pieces(view, areas, max(expected - note_tokens, share // 3) + model_tokens)
        if not pieces and not self.shortens:
            return []  # single notes are not shortened just to reach a target
        if self.shortens and not self.bare:
            freed = sum(piece.tokens for piece in pieces)
            share = max(share, min(most, note_tokens + freed - self.excess_tokens))
        # If more is replaced than needed, the notes may use the difference, up to their share.
        saved = sum(self._saved_from(piece.stop) for piece in pieces[-1:])
        spare = sum(piece.tokens for piece in pieces) + saved - max(0, self.excess_tokens) - model_tokens - 1
        share = min(share, max(expected, spare + note_tokens))
        all_pieces = sorted([*alone, *pieces])
        sizes = self._sizes(view, all_pieces, share)
        # Until the last, a note stays that is hardly longer than the smallest which says something.
        least = 0 if self.bare else self.hand_over.frame + _LEAST_NOTE
        target = model_tokens // max(1, len(pieces))
        return [
            self._note(view, piece, int(share * size), 0 if piece in alone else target, last=piece is all_pieces[-1])
            for piece, size in zip(all_pieces, sizes, strict=True)
            if piece in pieces or (piece.tokens > least and share * size < piece.tokens * _WORTHWHILE)
        ]

    def _sizes(self, view: View, pieces: Sequence[_Piece], most: int) -> list[float]:
        """Each piece's share of the room, in proportion to the size its note needs."""
        if len(pieces) < 2:
            return [1.0] * len(pieces)
        needs = [self._needed(view, piece, most) for piece in pieces]
        for i, p in enumerate(pieces if most * _CURRENT >= _LEAST_CURRENT else ()):
            if p.start > view.latest_user >= 0:  # its results are what the next steps need
                needs[i] = max(needs[i], int(min(p.tokens, most) * _CURRENT))
        return [size / sum(needs) for size in needs]

    def _needed(self, view: View, piece: _Piece, most: int) -> int:
        """What the note about a span needs of `most` tokens; with an earlier one that is as long, all of it."""
        if max(_notes(view, piece.start, piece.stop), default=0) >= most * _FULL:
            return most
        return self.hand_over.needed(view, view.span(piece.start, piece.stop), most)

    def _pieces(self, view: View, areas: Sequence[tuple[int, int]], note: int) -> list[_Piece]:
        """Spans that together free the excess even after notes of `note` tokens replace them."""
        pieces: list[_Piece] = []
        messages, tokens = self.excess_messages, self.excess_tokens + note
        place = 0
        for a, b in areas:
            if messages <= 0 and tokens <= self._saved_from(place):
                break
            place = end = self._end(view, a, b, messages, tokens)
            if self._is_worth_a_note(view, a, end):
                pieces.append(_Piece(a, end, view.tokens(a, end)))
                messages -= end - a - 1
                tokens -= view.tokens(a, end)
        return pieces

    def _is_worth_a_note(self, view: View, start: int, stop: int) -> bool:
        """Whether a note about a span can be shorter than the span and say something."""
        frame = self.hand_over.frame
        if not self.bare:
            # Unless messages must leave too, a nearly empty note is worth less than the few tokens that it saves.
            says_something = view.tokens(start, stop) * _WORTHWHILE >= frame + _LEAST_NOTE
            takes_any = self.excess_messages > 0 or not self.config.ledger_ratio
            return stop - start >= _LEAST_MESSAGES and (says_something or takes_any)
        if stop - start >= _LEAST_MESSAGES:
            return True
        return not is_note(view.messages[start]) and view.tokens(start, stop) > 2 * frame

    def _areas(self, view: View) -> list[tuple[int, int]]:
        """The closed spans that may be folded, oldest first."""
        must_stay = stays(self.config, view, protected=not self.last_resort)
        first = None if self.bare or view.first_user < 0 else view.messages[view.first_user]
        user = view.latest_user
        # A note in the user's role must never come last: it would read as the question to answer.
        until = min(view.unread, len(view) - 1) if self.config.note_role == "user" else view.unread
        # A user may write before the model has read the tools' results: only the last resort folds those.
        before = user if self.last_resort else min(user, view.unread)
        if not self.shortens and self._is_answered(view, user):
            before = min(before, user - 1)
        areas = [(0, before), (user + 1, until)] if user >= 0 else [(0, until)]
        return [
            span
            for start, stop in areas
            for span in view.closed_spans(start, stop, lambda m: m is first or must_stay(m))
        ]

    def _is_answered(self, view: View, user: int) -> bool:
        """Whether the user's latest message follows a short one of the agent: "yes, do 1 to 5" means nothing alone."""
        if user < 1 or view.messages[user - 1].role != "assistant" or view.messages[user - 1].tool_uses:
            return False
        return view.tokens(user - 1, user) <= self.config.max_token * _ANSWERED and self.hand_over.used

    def _saved_from(self, place: int) -> int:
        """Tokens that leave the view later if the messages from a place on stay."""
        return self._savings[-1] - self._savings[min(place, len(self._savings) - 1)]

    def _end(self, view: View, start: int, stop: int, messages: float, tokens: float) -> int:
        """The first possible end at which enough is folded, otherwise the last possible end."""
        tokens_so_far, enough = 0, stop
        for i in range(start, stop):
            tokens_so_far += view.tokens(i, i + 1)
            if i - start > messages and tokens_so_far + self._saved_from(i + 1) >= tokens:
                enough = i + 1
                break
        ends = view.ends(start, stop)
        return next((i for i in ends if i >= enough), stop)

    def _note(self, view: View, piece: _Piece, share: int, target: int, *, last: bool) -> Proposal:
        span = view.span(piece.start, piece.stop)
        earlier = "" if self.bare else self.hand_over.earlier_notes(span)
        noted = sum(_notes(view, piece.start, piece.stop))
        most = noted + int((piece.tokens - noted) * _OF_REPLACED)
        size = max(self.hand_over.frame + (0 if self.bare else _LEAST_NOTE), min(share, most - target))
        budget = min(size, int(piece.tokens * _WORTHWHILE))
        asked = _question(view, piece, max(target, _LEAST_NOTE), earlier) if target else None
        # Some services require the first message to be the user's.
        is_first = self.bare and not 0 <= view.first_user < piece.start
        role = "user" if is_first else self.config.note_role
        ledger = self.hand_over.writing(view, span, budget, plan=last)
        return Proposal(span, asked or earlier, ledger=ledger, event_type=OLDEST_ROUNDS_FOLD, kind="fold", role=role)


def _notes(view: View, start: int, stop: int) -> list[int]:
    """Tokens of the notes in a span."""
    return [view.tokens(i, i + 1) for i in range(start, stop) if is_note(view.messages[i])]


def _question(view: View, piece: _Piece, target: int, earlier: str) -> Question | None:
    """Asks the model to update the earlier note with everything since."""
    parts, sizes = [], []
    for i in range(piece.start, piece.stop):
        m = view.messages[i]
        model_text = rendering.written_note(m)
        part = f"[earlier note] {model_text}" if model_text else "" if is_note(m) else rendering.section(m)
        if part:
            parts.append(rendering.escape_tags(part))
            sizes.append(len(part) // 4 if is_note(m) else view.tokens(i, i + 1))
    return Question("fold", tuple(parts), target, tuple(sizes), otherwise=earlier) if parts else None
