"""The oldest part of the view becomes one note: what the model writes of it, and its work ledger.

A later fold takes the earlier note in, so there is one such note however long the conversation gets. It stands after
the first message of the user, which stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, is_note, is_user_turn
from autocontext.strategies.selection import stays
from autocontext.text import rendering

if TYPE_CHECKING:
    from autocontext.strategies.notes import NoteWriter

OLDEST_ROUNDS_FOLD = "OLDEST_ROUNDS_FOLD"
_LEAST = 2
"""Messages; folding one makes nothing shorter."""
_OF_REPLACED = 0.7
"""Largest note, as a share of what it replaces."""
_EXPECTED = 0.7
"""Share of its room that a first note is expected to need."""
_GROWTH = 1.15
"""By how much a note is expected to grow from one fold to the next."""
_WORTHWHILE = 0.95
"""A note that would keep more of what it replaces is not worth writing."""
_LEAST_NOTE = 128
"""Tokens of the smallest note, beside its frame: room for the rules that the user gave."""
_MODEL_SHARE = 0.06
"""Share of the window that the model is asked to write at most."""


class _Piece(NamedTuple):
    """A closed stretch of the view that becomes a note."""

    start: int
    stop: int
    tokens: int


class Fold:
    """The oldest closed stretches, as long as is needed to get `excess` messages and tokens out of the view."""

    name = "fold"

    def __init__(
        self,
        config: AutoContextConfig,
        hand_over: NoteWriter,
        *,
        excess_messages: float,
        excess_tokens: float,
        asks: bool = False,
        shortens: bool = False,
        last_resort: bool = False,
    ) -> None:
        self.config = config
        self.excess_messages = excess_messages
        self.excess_tokens = excess_tokens
        self.asks = asks
        """Whether a model writes the first part of the notes."""
        self.shortens = shortens or last_resort
        """Also notes alone, down to a quarter of their share."""
        self.last_resort = last_resort
        """Also what protected tools gave."""
        self._hand_over = hand_over

    def propose(self, view: View) -> list[Proposal]:
        """Folds before the latest user message, then, if they are not enough, between it and what is unread."""
        share = self._hand_over.share
        asked = int(self.config.max_token * min(_MODEL_SHARE, self.config.note_ratio)) if self.asks else 0
        areas = self._areas(view)
        alone = [_Piece(a, b, view.tokens(a, b)) for a, b in areas if b - a == 1 and is_note(view.messages[a])]
        standing = sum(note.tokens for note in alone)
        earlier = sum(view.tokens(i, i + 1) for i, m in enumerate(view.messages) if is_note(m))
        if self.shortens:
            share = max(share // 4, min(share // 2, standing - int(self.excess_tokens)))
        expected = min(share, max(int(earlier * _GROWTH), int(share * _EXPECTED)))
        pieces = self._pieces(view, areas, max(expected - standing, share // 3) + asked)
        if not pieces and not self.shortens:
            return []  # notes alone are not ground down to reach a target
        # The notes may take what is replaced beyond what is needed, up to their share.
        spare = sum(piece.tokens for piece in pieces) - int(max(0, self.excess_tokens)) - asked - 1
        share = min(share, max(expected, spare + standing))
        quotes = self._hand_over.quotes_of_spare if spare + standing >= share else None
        every = sorted([*alone, *pieces])
        sizes = self._sizes(view, every, share)
        return [
            self._note(
                view,
                piece,
                int(share * size),
                0 if piece in alone else asked // len(pieces),
                quotes=quotes,
                last=piece is every[-1],
            )
            for piece, size in zip(every, sizes, strict=True)
            if piece in pieces or share * size < piece.tokens * _WORTHWHILE
        ]

    def _sizes(self, view: View, pieces: Sequence[_Piece], most: int) -> list[float]:
        """Each piece's part of the room, by what its note has to say."""
        if len(pieces) < 2:
            return [1.0] * len(pieces)
        needed = [self._hand_over.needed(view, view.span(p.start, p.stop), most) for p in pieces]
        return [size / sum(needed) for size in needed]

    def _pieces(self, view: View, areas: Sequence[tuple[int, int]], note: int) -> list[_Piece]:
        """Stretches that together are large enough to be replaced by notes of `note` tokens in all."""
        found: list[_Piece] = []
        messages, tokens = self.excess_messages, self.excess_tokens + note
        for a, b in areas:
            if messages <= 0 and tokens <= 0:
                break
            end = self._end(view, a, b, messages, tokens)
            if end - a >= _LEAST:
                found.append(_Piece(a, end, view.tokens(a, end)))
                messages -= end - a - 1
                tokens -= view.tokens(a, end)
        return found

    def _areas(self, view: View) -> list[tuple[int, int]]:
        """Where may be folded, oldest first."""
        held = stays(self.config, view, protected=not self.last_resort)
        first = next((m for m in view.messages if is_user_turn(m)), None)
        user = view.latest_user
        # A note in the user's role must never come last: it would read as the question to answer.
        until = min(view.unread, len(view) - 1) if self.config.note_role == "user" else view.unread
        # A user may write before the model has read what the tools gave: only the last resort takes that.
        before = user if self.last_resort else min(user, view.unread)
        areas = [(0, before), (user + 1, until)] if user >= 0 else [(0, until)]
        return [
            span for start, stop in areas for span in view.closed_spans(start, stop, lambda m: m is first or held(m))
        ]

    def _end(self, view: View, start: int, stop: int, messages: float, tokens: float) -> int:
        """The first end of an exchange where enough is folded; where there is none, the last one."""
        saved, enough = 0, stop
        for i in range(start, stop):
            saved += view.tokens(i, i + 1)
            if i - start > messages and saved >= tokens:
                enough = i + 1
                break
        ends = view.ends(start, stop)
        return next((i for i in ends if i >= enough), stop)

    def _note(self, view: View, piece: _Piece, share: int, asked: int, *, quotes: float | None, last: bool) -> Proposal:
        span = view.span(piece.start, piece.stop)
        earlier = self._hand_over.earlier_notes(span)
        most = piece.tokens if len(span) == 1 else int(piece.tokens * _OF_REPLACED)
        wanted = max(self._hand_over.frame + _LEAST_NOTE, min(share, most - asked))
        budget = min(wanted, int(piece.tokens * _WORTHWHILE))
        text: str | Question = earlier
        if asked and (question := self._question(span.messages, view, piece, max(asked, _LEAST_NOTE))):
            text = Question(question.purpose, question.parts, question.target_tokens, question.sizes, otherwise=earlier)
        return Proposal(
            span,
            text,
            ledger=self._hand_over.writing(view, span, budget, plan=last, quotes=quotes),
            event_type=OLDEST_ROUNDS_FOLD,
            kind="fold",
            role=self.config.note_role,
        )

    def _question(self, messages: Sequence[Msg], view: View, piece: _Piece, target: int) -> Question | None:
        """What the model is asked: to bring the earlier note up to what has happened since."""
        parts, sizes = [], []
        for i, m in enumerate(messages, piece.start):
            written = rendering.written_note(m)
            part = f"[earlier note] {written}" if written else "" if is_note(m) else rendering.section(m)
            if part:
                parts.append(rendering.escape_tags(part))
                sizes.append(len(part) // 4 if is_note(m) else view.tokens(i, i + 1))
        return Question("fold", tuple(parts), target, tuple(sizes)) if parts else None
