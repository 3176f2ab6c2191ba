"""The evidence ledger during a pass: what it learns, how much room it gets, when it is made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from autocontext.config import AutoContextConfig
from autocontext.edits import ledger, ledger_place
from autocontext.log import Log
from autocontext.log_entries import Noted
from autocontext.messages import Msg
from autocontext.tally import Tally
from autocontext.view import View

if TYPE_CHECKING:
    from autocontext.ledger import Evidence, Found

_MARGIN = 8
"""Tokens that lines may take more together than one by one."""
_LEARNED_AT_ONCE = 80_000
"""Tokens of messages that are searched for values after one strategy, newest first: about 0.1 s of work. More leaves
the view at once only where a long history is taken over, and its oldest lines would hardly be chosen."""
_FILLING = 1.25
"""How far it may go beyond its share where the pass, which leaves exchanges whole, has left room."""
_GROWING = 1.25
"""A ledger that did not fill its share hardly grows by more than this from pass to pass."""


class Upkeep:
    """Keeps the ledger of one log within its share of the window."""

    def __init__(self, log: Log, tally: Tally, evidence: Evidence, config: AutoContextConfig) -> None:
        self._log, self._tally, self._evidence, self._config = log, tally, evidence, config
        self._share = int(config.max_token * config.ledger_ratio)
        """Tokens that the ledger may take; 0 means that there is none."""
        self._found: dict[str, Found] = {}
        """Values of messages that are prepared to be learned."""

    def learn(self, ids: Iterable[str]) -> None:
        """Take in what notes now stand for; after a load or an undo, everything that they do."""
        if not self._share:
            return
        if not self._evidence.ids:
            # Not what was deleted: nothing in view stands for it, and its caller may have had a reason.
            ids = self._log.covered(self._log.view_ids)
        for id_, msg, place in self._newest(ids):
            self._evidence.learn(id_, msg, place, self._found.pop(id_, None))
        self._found.clear()

    def preparation(self, ids: Iterable[str]) -> Callable[[], None] | None:
        """Most of the work of learning messages that are likely to go; None when there is none.

        It may be done in another thread while the pass waits, as it reads nothing that changes, or not at all.
        """
        todo = self._newest(ids) if self._share else []
        if not todo:
            return None
        from autocontext.ledger import found_in  # noqa: PLC0415 (its patterns: 15 ms that `import autocontext` spares)

        def prepare() -> None:
            while todo:
                id_, msg, place = todo.pop()
                self._found[id_] = found_in(msg, place)

        return prepare

    def _newest(self, ids: Iterable[str]) -> list[tuple[str, Msg, int]]:
        """The originals among some messages, with their places, newest first, as many as are learned at once."""
        found: list[tuple[str, Msg, int]] = []
        left = _LEARNED_AT_ONCE
        for id_ in reversed([id_ for id_ in ids if id_ in self._log.place]):
            left -= self._tally.count(id_, self._log.messages[id_])
            if left < 0:
                break
            if id_ not in self._evidence.ids:
                found.append((id_, self._log.messages[id_], self._log.place[id_]))
        return found

    @property
    def to_come(self) -> bool:
        """Whether a pass may put a message into the view for it."""
        return bool(self._share) and self._log.ledger is None

    @property
    def tokens(self) -> int:
        """What the ledger in view takes."""
        return self._tally.count(self._log.ledger, self._log.messages[self._log.ledger]) if self._log.ledger else 0

    def reserve(self, saved: int) -> int:
        """Tokens that it will need after a pass that has saved so many: lines are a part of what goes out of view."""
        return min(self._share, int(self.tokens * _GROWING) + saved // 2)

    def renewed(self, view: View, room: int, saved: int) -> Noted | None:
        """The entry that makes it anew in a view without it; None when there is nothing to do.

        It gets the `room` that the pass has left, but hardly more than its share, and of what the pass has saved at
        most a half.
        """
        if not saved or not self._share:
            return None
        place = ledger_place(view)
        budget = min(int(self._share * _FILLING), room, self.tokens + saved // 2)
        message = self._message(view, budget) if place is not None else None
        if message is None or place is None:
            return Noted(message=None) if self._log.ledger is not None else None
        return Noted(message=message, after=view.ids[place - 1] if place else None)

    def _message(self, view: View, budget: int) -> Msg | None:
        """The ledger of at most `budget` tokens; None when nothing is worth a line."""
        handle = self._log.ledger_handle
        role = self._config.note_role
        count = self._tally.counter
        frame = count.count(ledger((), role, handle))
        made: Msg | None = None

        def whole(lines: list[str]) -> int:
            nonlocal made
            made = ledger(lines, role, handle)
            return self._tally.count(made.id, made) - frame

        # Most lines stay from pass to pass: a counter that remembers counts them once.
        tokens = getattr(count, "count_lines", count.count_text)
        original = len(self._log.original)
        lines = self._evidence.lines(view.messages, original, budget - frame - _MARGIN, tokens, whole)
        return made if lines else None
