"""The running token sum of the working view: each message is counted once, and only when it has to be.

A text never has more tokens than UTF-8 bytes, so while that upper bound stays under a limit nothing is tokenized.
A message that no window as large as the memory's can hold is not tokenized either, except for a sample: a pass cuts it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from copy import copy

from autocontext.caches import cached
from autocontext.compression.request_sum import RequestSum
from autocontext.history.log import Log, ViewChange
from autocontext.messages import Msg
from autocontext.tokens import TokenCounter, VocabularyCounter
from autocontext.tokens.counters import BYTES_OF_TOKEN

_REMEMBERED = 4_096
"""Texts whose tokens are remembered."""

_LEVER = 0.1
"""Share by which two views must differ to tell a fixed part of what a provider counts more."""


class _Counts(ChainMap[str, int]):
    """The counts of a fork before those that it shares: every view asks for all of them, so no exception per miss."""

    def __getitem__(self, id_: str) -> int:
        own, shared = self.maps
        found = own.get(id_)
        return shared[id_] if found is None else found


class TokenSum:
    """Token counts by message id, and the sum over the working view and what is sent with it.

    A mark is set while several of its fields change; who finds it, after an interrupt, starts again from the view.
    """

    def __init__(
        self, counter: TokenCounter, log: Log, wait: Callable[[], None] = lambda: None, *, window: int | None = None
    ) -> None:
        self._whole = True
        """The mark."""
        self.correction = 0
        """A provider's count less ours. Once something has left the view, what remains has its share of it, but for
        the fixed part: then it is an estimate, until the next count. One below 0 ends there: our own count is the safe
        one."""
        self._fixed = 0
        """The part of corrections that does not change with the view, as of tools that nobody has told of."""
        self._told: tuple[int, int] | None = None
        """Our own count and the correction when a provider's count last taught what is fixed."""
        self.counter = counter
        self._window = window
        """Tokens; None: every message is counted, however large."""
        self._sampled = False
        """Whether a count was made from a sample."""
        self._wait = wait
        """Called before anything is tokenized: waits for a vocabulary that is being loaded."""
        self._overhead_texts: Sequence[str] = ()
        """What is sent with the messages: system text, tool schemas."""
        self._overhead = 0
        """Its tokens, or their upper bound until they are counted."""
        self._overhead_is_bound = False
        self._overhead_anchored = False
        """Whether `correction` was computed with that bound."""
        # Line by line, where the counter can: most lines of a note are those of the note before it.
        by_line = counter.count_lines if isinstance(counter, VocabularyCounter) else counter.count_text
        self.count_text = cached(_REMEMBERED)(by_line)
        """Tokens of a text of a note."""
        self.request = RequestSum(log)
        """Images and bytes of the view."""
        self._log = log
        self._counts: MutableMapping[str, int] = {}
        """Every message counted so far, also those that have left the view; a fork has its own before the others."""
        self._bounds: dict[str, int] = {}
        """Messages in view that are not counted yet, with their upper bound."""
        self._anchored: set[str] = set()
        """Messages with whose bounds `correction` was computed, not with their tokens."""
        self._counted = 0
        self._bounded = 0
        self._without_bound: Sequence[str] = tuple(log.view_ids)
        """Messages in view that have neither yet: those of a session that was just opened."""

    def update(self, change: ViewChange) -> None:
        """Follow a change of the view, in time proportional to the change."""
        if change.all_new or not self._whole:
            self._start_again()
            return
        corrected = bool(change.removed and self._corrected)
        own = self.own if corrected else 0
        if change.removed:
            self._bound_all()
        self._whole = False
        for id_ in change.removed:
            if id_ in self._bounds:
                self._bounded -= self._bounds.pop(id_)
            else:
                self._counted -= self._counts[id_]
        self._bound(change.added)
        self._whole = True
        if corrected:
            self._share_correction(own)

    def _start_again(self) -> None:
        """Forget all counts and bounds: those of the log's view are made when they are needed."""
        self._whole = False
        self._forget_correction()
        self._counts, self._bounds = {}, {}  # a fork may still use the others
        self._counted = self._bounded = 0
        self._without_bound = tuple(self._log.view_ids)
        self._whole = True

    def _forget_correction(self) -> None:
        self.correction = 0
        self._anchored.clear()
        self._overhead_anchored = False

    @property
    def _corrected(self) -> bool:
        return bool(self.correction or self._anchored or self._overhead_anchored)

    def _share_correction(self, before: int) -> None:
        """Leave what is in view now its share of a correction; `before`: our own count when it was all there."""
        now = self.own
        fixed = self._fixed_now
        shared = max(0, self.correction) - fixed
        correction = fixed - (-shared * min(now, before) // max(1, before))  # rounded up
        self._forget_correction()
        self.correction = correction

    def _bound_all(self) -> None:
        """Make the sum complete: bounds for all messages in view that have neither a count nor a bound."""
        if not self._whole:
            self._start_again()
        if self._without_bound:
            self._whole = False
            self._bound(self._without_bound)
            self._without_bound = ()
            self._whole = True

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
    def behind(self) -> bool:
        """Whether messages have to be read first, which may take time."""
        return bool(self._without_bound) or not self._whole

    @property
    def at_most(self) -> int:
        """Upper bound of the view's tokens; exact once all are counted."""
        self._bound_all()
        return self._counted + self._bounded + self._overhead + self.correction

    @property
    def roughly(self) -> int:
        """Tokens of the view without tokenizing and without a provider's count; of bytes, a quarter."""
        self._bound_all()
        bound = self._bounded + (self._overhead if self._overhead_is_bound else 0)
        counted = self._counted + (0 if self._overhead_is_bound else self._overhead)
        return counted + (bound // 4 if isinstance(self.counter, VocabularyCounter) else bound)

    def total(self) -> int:
        """Tokens of the view."""
        self._bound_all()
        self._count_overhead()
        for id_ in list(self._bounds):
            self._settle(id_)
        self._bounds.clear()  # empty, but as slow to read as when it was largest
        return self.at_most

    @property
    def own(self) -> int:
        """Tokens of the view by our own counter, whatever a provider has counted."""
        total = self.total()
        return total - self.correction

    def in_own(self, limit: int) -> int:
        """A limit of the total by our own counter, by which all that may leave the view is measured.

        They differ where a provider has counted more.
        """
        return limit if self.correction <= 0 else self.own - self.over(limit)

    def over(self, limit: int) -> int:
        """Tokens by our own counter that have to leave the view for the total to be `limit`."""
        total = self.total()
        excess = total - limit
        return excess if self.correction <= 0 else -(-excess * self.own // max(1, total - self._fixed_now))

    @property
    def _fixed_now(self) -> int:
        return max(0, min(self._fixed, self.correction))

    @property
    def overhead(self) -> int:
        """Tokens of what is sent with the messages: system text, tool schemas."""
        self._count_overhead()
        return self._overhead

    def set_overhead(self, texts: Sequence[str]) -> None:
        """Set the texts that are sent with the messages; they are counted when a count is needed."""
        if texts == self._overhead_texts:
            return
        if self._overhead_anchored:
            self._count_overhead()
        is_bound = isinstance(self.counter, VocabularyCounter) and bool(texts)
        size = self.counter.bound_text if isinstance(self.counter, VocabularyCounter) else self.counter.count_text
        # In one step: no call in between.
        self._overhead, self._overhead_texts, self._overhead_is_bound = sum(map(size, texts)), texts, is_bound

    def _count_overhead(self) -> None:
        if self._overhead_is_bound:
            self._wait()
            tokens = sum(map(self.counter.count_text, self._overhead_texts))
            correction = self.correction + (self._overhead - tokens if self._overhead_anchored else 0)
            self._overhead, self._overhead_is_bound, self.correction = tokens, False, correction
            self._overhead_anchored = False

    def count(self, id_: str, msg: Msg) -> int:
        """Tokens of one message, counted now or earlier."""
        self._bound_all()
        if id_ in self._bounds:
            return self._settle(id_)
        try:
            return self._counts[id_]
        except KeyError:
            self._wait()
            self._counts[id_] = n = self.counter.count(msg)
            return n

    def of(self, msg: Msg) -> int:
        """`count` of a message under its own id."""
        return self.count(msg.id, msg)

    def measure(self, msg: Msg, bound: int) -> int:
        """Tokens of a message with this bound: counted, or from a sample if they surely exceed the window."""
        counter, window = self.counter, self._window
        if window is None or not isinstance(counter, VocabularyCounter) or bound // BYTES_OF_TOKEN <= window:
            return counter.count(msg)
        self._sampled = True
        return max(counter.sampled(msg), bound // BYTES_OF_TOKEN)

    def resize(self, window: int) -> None:
        """Go by another window; what was too large for the old one may fit."""
        self._window = window
        if self._sampled:
            self._start_again()
            self._sampled = False

    def waiting(self, size: int) -> list[tuple[str, Msg, int]]:
        """The messages in view that are not counted yet, with ids and bounds, if the bounds together exceed `size`."""
        self._bound_all()
        if self._bounded <= size:
            return []
        return [(id_, self._log.messages[id_], bound) for id_, bound in self._bounds.items()]

    def learn(self, id_: str, msg: Msg, tokens: int) -> None:
        """Take over a count that was made elsewhere, unless the id means another message by now."""
        self._bound_all()
        if id_ in self._bounds and self._log.messages[id_] is msg:
            self._keep(id_, tokens)

    def _keep(self, id_: str, tokens: int) -> None:
        """Put the count of a message in the place of its bound."""
        self._whole = False
        bound = self._bounds.pop(id_)
        self._bounded -= bound
        self._counts[id_] = tokens
        self._counted += tokens
        if id_ in self._anchored:
            self.correction += bound - tokens
        self._whole = True

    def fork(self, log: Log) -> TokenSum:
        """A copy that counts for a fork of the log."""
        self._bound_all()
        fork = copy(self)
        fork._log, fork._bounds = log, self._bounds.copy()  # noqa: SLF001 (its own)
        fork._counts = _Counts({}, self._counts)  # noqa: SLF001 (as many as there are messages, so not copied)
        fork._anchored = self._anchored.copy()  # noqa: SLF001
        fork.request = self.request.fork(log)
        return fork

    def learn_from(self, fork: TokenSum) -> None:
        """Take over what a fork has counted."""
        self._bound_all()
        known = fork._counts
        self._sampled |= fork._sampled
        for id_ in [id_ for id_ in self._bounds if id_ in known and id_ in fork._log.messages]:
            self.learn(id_, fork._log.messages[id_], known[id_])

    def correct_like(self, other: TokenSum) -> None:
        """Take over what a provider has taught another sum, of the same view and overhead."""
        if other._corrected:
            self.correction = other.total() - self.own
        self._fixed, self._told = other._fixed, other._told

    def anchor(self, tokens: int) -> None:
        """Use a provider's count as the sum; what is added is counted on top."""
        self._bound_all()
        self._whole = False
        self._anchored, self._overhead_anchored = set(self._bounds), self._overhead_is_bound
        self.correction = tokens - (self._counted + self._bounded + self._overhead)
        self._whole = True
        if not (self._anchored or self._overhead_anchored):
            self._learn_fixed()

    def try_at_least(self, tokens: int) -> Callable[[], bool]:
        """Count the view as so many tokens, unless it is more: what a service that refuses it says.

        Returns what takes the correction back, or what a pass has left of it, and says whether there was one.
        """
        own, before = self.own, self.correction
        self.correction = tried = max(before, tokens - own)

        def take_back() -> bool:
            if tried != before:
                self.correction = before if self.correction == tried else min(self.correction, max(0, before))
            return tried != before

        return take_back

    def _learn_fixed(self) -> None:
        """Tell from two counts of views of different size which part of the correction is fixed."""
        own, correction = self.own, self.correction
        if self._told is not None:
            own_before, correction_before = self._told
            more = own - own_before
            if abs(more) <= _LEVER * max(own, own_before):
                return
            fixed = (correction_before * own - correction * own_before) // more
            self._fixed = max(0, min(fixed, correction, correction_before))
        self._told = own, correction

    def _settle(self, id_: str) -> int:
        self._wait()
        n = self.measure(self._log.messages[id_], self._bounds[id_])
        self._keep(id_, n)
        return n
