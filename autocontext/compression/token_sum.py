"""The running token sum of the working view: each message is counted once, and only when it has to be.

UTF-8 bytes bound tokens from above, so as long as the sum of bounds stays under a limit nothing is tokenized at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache

from autocontext.history.log import Log, ViewChange
from autocontext.messages import Msg
from autocontext.tokens import TokenCounter, VocabularyCounter

_REMEMBERED = 4_096
"""Texts whose tokens are remembered."""


class TokenSum:
    """Token counts by message id, and the sum over the working view and what is sent with it."""

    def __init__(self, counter: TokenCounter, log: Log, wait: Callable[[], None] = lambda: None) -> None:
        self.correction = 0
        """What a provider's own count had more than ours; void after the next edit."""
        self.counter = counter
        self._wait = wait
        """Called before anything is tokenized: returns when a vocabulary that is being loaded is there."""
        self._besides: Sequence[str] = ()
        """What is sent besides the messages: system text, tool schemas."""
        self._fixed = 0
        """Its tokens; their upper bound as long as it waits to be counted."""
        self._fixed_waits = False
        self._fixed_anchored = False
        """Whether `correction` holds that bound."""
        self.count_text = lru_cache(maxsize=_REMEMBERED)(counter.count_text)
        """Tokens of a text; most lines of a note are those of the note before it."""
        self._log = log
        self._counts: dict[str, int] = {}
        """Every message counted so far, also those that have left the view."""
        self._bounds: dict[str, int] = {}
        """Messages in view that are not counted yet, with their upper bound."""
        self._anchored: set[str] = set()
        """Messages whose bounds `correction` holds instead of their tokens."""
        self._counted = 0
        self._bounded = 0
        self._without_bound: Sequence[str] = tuple(log.view_ids)
        """Messages in view that have neither yet: those of a session that was just opened, which nobody may need."""

    def update(self, change: ViewChange) -> None:
        """Follow a change of the view; costs what changed, not what is there."""
        if change.all_new:
            self._without_bound = ()
            self._counts.clear()
            self._bounds.clear()
            self._counted = self._bounded = 0
        if change.removed or change.all_new:
            self.correction = 0
            self._anchored.clear()
            self._fixed_anchored = False
        if change.removed:
            self._bound_all()
        for id_ in change.removed:
            if id_ in self._bounds:
                self._bounded -= self._bounds.pop(id_)
            else:
                self._counted -= self._counts[id_]
        self._bound(change.added)

    def _bound_all(self) -> None:
        ids, self._without_bound = self._without_bound, ()
        self._bound(ids)

    def _bound(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            if id_ in self._counts:
                self._counted += self._counts[id_]
            else:
                self._bounds[id_] = bound = self.counter.bound(self._log.messages[id_])
                self._bounded += bound

    def reaches(self, limit: int) -> bool:
        """Whether the view has at least `limit` tokens; tokenizes only when the bounds cannot tell."""
        if self.at_most < limit:
            return False
        return self.total() >= limit

    @property
    def at_most(self) -> int:
        """Upper bound of the view's tokens; their number once all are counted."""
        if self._without_bound:
            self._bound_all()
        return self._counted + self._bounded + self._fixed + self.correction

    def total(self) -> int:
        """Tokens of the view."""
        self._count_besides()
        self._bound_all()
        for id_ in list(self._bounds):
            self._settle(id_)
        return self.at_most

    @property
    def fixed(self) -> int:
        """Tokens that are sent besides the messages: system text, tool schemas."""
        self._count_besides()
        return self._fixed

    def send_besides(self, texts: Sequence[str]) -> None:
        """Let `fixed` be the tokens of these texts; they are counted when that is asked for."""
        if texts == self._besides:
            return
        if self._fixed_anchored:
            self._count_besides()
        self._besides = texts
        if isinstance(self.counter, VocabularyCounter):
            self._fixed, self._fixed_waits = sum(map(self.counter.bound_text, texts)), bool(texts)
        else:
            self._fixed, self._fixed_waits = sum(map(self.counter.count_text, texts)), False

    def _count_besides(self) -> None:
        if self._fixed_waits:
            self._wait()
            tokens = sum(map(self.counter.count_text, self._besides))
            if self._fixed_anchored:
                self.correction += self._fixed - tokens
            self._fixed, self._fixed_waits, self._fixed_anchored = tokens, False, False

    def count(self, id_: str, msg: Msg) -> int:
        """Tokens of one message, counted now or earlier."""
        if self._without_bound:
            self._bound_all()
        if id_ in self._bounds:
            return self._settle(id_)
        if id_ not in self._counts:
            self._wait()
            self._counts[id_] = self.counter.count(msg)
        return self._counts[id_]

    def waiting(self, size: int) -> list[tuple[str, Msg]]:
        """Messages in view that are not counted yet, with their ids, if their bounds come to more than `size`."""
        self._bound_all()
        return [(id_, self._log.messages[id_]) for id_ in self._bounds] if self._bounded > size else []

    def learn(self, id_: str, msg: Msg, tokens: int) -> None:
        """Take over a count that was made elsewhere; void when the id means another message by now."""
        self._bound_all()
        if id_ in self._bounds and self._log.messages[id_] is msg:
            bound = self._bounds.pop(id_)
            self._bounded -= bound
            self._counts[id_] = tokens
            self._counted += tokens
            if id_ in self._anchored:
                self.correction += bound - tokens

    def fork(self, log: Log) -> TokenSum:
        """A copy that counts for a fork of the log."""
        self._bound_all()
        twin = copy(self)
        twin._log, twin._counts, twin._bounds = log, self._counts.copy(), self._bounds.copy()  # noqa: SLF001 (its own)
        twin._anchored = self._anchored.copy()  # noqa: SLF001
        return twin

    def learn_from(self, fork: TokenSum) -> None:
        """Take over what a fork has counted."""
        self._bound_all()
        known = fork._counts
        for id_ in [id_ for id_ in self._bounds if id_ in known]:
            self.learn(id_, fork._log.messages[id_], known[id_])

    def anchor(self, tokens: int) -> None:
        """Let the sum be what a provider has counted; holds until something leaves the view."""
        self._bound_all()
        self._anchored, self._fixed_anchored = set(self._bounds), self._fixed_waits
        self.correction = 0
        self.correction = tokens - self.at_most

    def _settle(self, id_: str) -> int:
        self._wait()
        msg = self._log.messages[id_]
        n = self.counter.count(msg)
        self.learn(id_, msg, n)
        return n
