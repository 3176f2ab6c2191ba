"""The entries of the evidence ledger: values with their occurrences, what they are worth, and their order by that."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from autocontext.values import words

if TYPE_CHECKING:
    from autocontext.occurrences import Line

CALL, USER, ASSISTANT, TOOL, ERROR = range(5)
"""Who wrote what a value stands in."""
# Error lines are long, and the names in them count for themselves.
_WEIGHTS = (4.0, 3.0, 2.0, 1.0, 0.5)
_HALF_LIFE = 40
"""Messages after which a value not seen again has lost half of its weight."""
_FLOOR = 0.1
"""Share of its weight that a value keeps for ever."""
_SHORT_NUMBER = 0.6
"""Factor for numbers of up to four digits: line numbers and sizes are mostly about states that are gone."""
_PHRASE = 0.5
"""Factor for quoted phrases that no call has used."""

Seen: TypeAlias = tuple[int, int, int, str, int]
"""One message's best occurrence of a value: the length of its snippet, its message's position with a minus, the order
in the message, the snippet, the kind. So the smallest is the one to quote: the shortest, of these the newest."""


class Entry:
    """A value with its occurrences by message id, and what follows from them."""

    __slots__ = (
        "_words",
        "best",
        "last",
        "line",
        "messages",
        "ranked",
        "seen",
        "shown_in",
        "tokens",
        "value",
        "weight",
    )

    def __init__(self, value: str) -> None:
        self.value = value
        self._words: tuple[str, ...] | None = None
        self.seen: dict[str, Seen] = {}
        self.messages = [0] * len(_WEIGHTS)
        """How many hold it, by kind."""
        self.last = -1
        self.best: Seen | None = None
        self.tokens: int | None = None
        """Of the best occurrence's line."""
        self.weight = 0.0
        """What it is worth when it is new; set when it is ranked."""
        self.ranked: tuple[Ranking, float, int] | None = None
        """The ranking in which it stands, and the weight and position under which it does."""
        self.line: Line | None = None
        """The chosen line that holds it."""
        self.shown_in = -1
        """Number of a text in view that holds it, once that was found out."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its value, found when they are first asked for."""
        if self._words is None:
            self._words = tuple(words(self.value))
        return self._words

    @property
    def snippet(self) -> str:
        """The text of the line that it would get; "" when no message holds it."""
        return self.best[3] if self.best is not None else ""

    def add(self, id_: str, seen: Seen) -> None:
        """Take in a message that holds it."""
        self.seen[id_] = seen
        self.messages[seen[4]] += 1
        self.last = max(self.last, -seen[1])
        if self.best is None or seen < self.best:
            self.best, self.tokens = seen, None

    def remove(self, id_: str) -> None:
        """Take out a message that was taken in."""
        gone = self.seen.pop(id_)
        self.messages[gone[4]] -= 1
        self.last = max((-seen[1] for seen in self.seen.values()), default=-1)
        if gone is self.best:
            self.best, self.tokens = min(self.seen.values(), default=None), None

    def weigh(self) -> None:
        """Find its weight anew."""
        # The root: the fourth message that holds a value says less than the second.
        weight = sum([w * math.sqrt(n) for w, n in zip(_WEIGHTS, self.messages, strict=True) if n])
        if len(self.value) < 5 and self.value.isdigit():
            weight *= _SHORT_NUMBER
        if " " in self.value and not self.messages[CALL] and not self.messages[ERROR]:
            weight *= _PHRASE
        self.weight = weight

    def worth(self, now: int) -> float:
        """What it is worth at a moment; `now` is the number of messages so far."""
        return _worth(self.weight, self.last, now)


class Ranking:
    """Entries by what they are worth at any moment.

    Entries of one weight rank by when they were last seen, whatever the moment; so each weight has its own order, which
    a change costs next to nothing, and asking for the best merges as much of these as is asked for.
    """

    def __init__(self) -> None:
        self._found: dict[float, dict[int, dict[str, Entry]]] = {}
        """By weight and position."""
        self._positions: dict[float, list[int]] = {}
        """The positions of each weight, ascending."""

    @staticmethod
    def place(entry: Entry, ranking: Ranking | None) -> None:
        """Let an entry stand in this ranking, or in none, and in no other."""
        new = None if ranking is None else (ranking, entry.weight, entry.last)
        if new == entry.ranked:
            return
        if entry.ranked is not None:
            old, weight, last = entry.ranked
            old._take_out(entry, weight, last)  # noqa: SLF001 (another one of this class)
        if ranking is not None:
            ranking._put_in(entry)  # noqa: SLF001 (another one of this class)
        entry.ranked = new

    def _take_out(self, entry: Entry, weight: float, last: int) -> None:
        group = self._found[weight]
        del group[last][entry.value]
        if not group[last]:
            del group[last]
            positions = self._positions[weight]
            del positions[bisect_left(positions, last)]
            if not positions:
                del self._found[weight], self._positions[weight]

    def _put_in(self, entry: Entry) -> None:
        group = self._found.setdefault(entry.weight, {})
        if entry.last not in group:
            group[entry.last] = {}
            insort(self._positions.setdefault(entry.weight, []), entry.last)
        group[entry.last][entry.value] = entry

    def best_first(self, now: int) -> Iterator[tuple[float, Entry]]:
        """All entries with what they are worth, best first; `now` is the number of messages so far.

        Nothing may be placed until the last one that is wanted was given.
        """
        return self._in_order(now, best=True)

    def worst_first(self, now: int) -> Iterator[tuple[float, Entry]]:
        """The same, worst first."""
        return self._in_order(now, best=False)

    def _in_order(self, now: int, *, best: bool) -> Iterator[tuple[float, Entry]]:
        sign, step = (-1, -1) if best else (1, 1)
        orders = [(w, at, self._found[w]) for w, at in self._positions.items()]
        start = [len(at) - 1 if best else 0 for _, at, _ in orders]
        heap = [
            (sign * _worth(w, at[k], now), n, k) for n, ((w, at, _), k) in enumerate(zip(orders, start, strict=True))
        ]
        heapify(heap)
        while heap:
            key = heap[0][0]
            some: list[Entry] = []
            # Mostly one; by chance, entries whose weight and position differ are worth the same.
            while heap and heap[0][0] == key:
                _, n, k = heap[0]
                weight, positions, group = orders[n]
                some += group[positions[k]].values()
                k += step
                if 0 <= k < len(positions):
                    heapreplace(heap, (sign * _worth(weight, positions[k], now), n, k))
                else:
                    heappop(heap)
            some.sort(key=attrgetter("value"))
            for entry in some:
                yield sign * key, entry


def _worth(weight: float, last: int, now: int) -> float:
    return weight * (1 / (1 + max(0, now - last) / _HALF_LIFE) + _FLOOR)
