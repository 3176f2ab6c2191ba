"""The entries of the evidence ledger: values with their occurrences, what they are worth, and their order by that."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter
from typing import TypeAlias

from autocontext.occurrences import Sought

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


class Entry(Sought):
    """A value with its occurrences by message id, and what follows from them."""

    __slots__ = ("apart", "best", "last", "messages", "quoted", "ranked", "seen", "tokens", "weight")

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.seen: dict[str, Seen] = {}
        self.messages = [0] * len(_WEIGHTS)
        """How many hold it, by kind."""
        self.last = -1
        self.best: Seen | None = None
        self.tokens: int | None = None
        """Of the best occurrence's line."""
        self.weight = 0.0
        """What it is worth when it is new; set when it is ranked."""
        self.ranked: tuple[float, int] | None = None
        """Weight and position under which it stands in the ranking."""
        self.apart = False
        """Whether it is kept beside the ranking: seen in view, or looked at in every turn."""
        self.quoted = -1
        """The turn in which its line was chosen, or another line held it."""

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


def worths(entries: list[Entry], now: int) -> list[tuple[float, str, Entry]]:
    """Entries with what they are worth (with a minus) and their values, best first."""
    # `_worth` written out: this is done for every quoted entry in every turn.
    found = [
        (-(e.weight * (1 / (1 + (now - e.last if now > e.last else 0) / _HALF_LIFE) + _FLOOR)), e.value, e)
        for e in entries
    ]
    found.sort()
    return found


_Order: TypeAlias = tuple[float, list[int], dict[int, dict[str, Entry]]]
"""A weight, its positions in ascending order, and its entries by position and value."""


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

    def place(self, entry: Entry) -> None:
        """Put an entry where it belongs, or take it out when no message holds it any more or it is kept apart."""
        place = (entry.weight, entry.last) if entry.seen and not entry.apart else None
        if place == entry.ranked:
            return
        if entry.ranked is not None:
            self._take_out(entry, *entry.ranked)
        if place is not None:
            self._put_in(entry, *place)
        entry.ranked = place

    def _take_out(self, entry: Entry, weight: float, last: int) -> None:
        group = self._found[weight]
        del group[last][entry.value]
        if not group[last]:
            del group[last]
            positions = self._positions[weight]
            del positions[bisect_left(positions, last)]
            if not positions:
                del self._found[weight], self._positions[weight]

    def _put_in(self, entry: Entry, weight: float, last: int) -> None:
        group = self._found.setdefault(weight, {})
        if last not in group:
            group[last] = {}
            insort(self._positions.setdefault(weight, []), last)
        group[last][entry.value] = entry

    def best_first(self, now: int) -> Iterator[tuple[float, list[Entry]]]:
        """All entries by what they are worth (with a minus), those worth the same in one list, by value.

        `now` is the number of messages so far.
        """
        orders = [(w, at, self._found[w]) for w, at in self._positions.items()]
        heap = [(-_worth(w, at[-1], now), n, len(at) - 1) for n, (w, at, _) in enumerate(orders)]
        heapify(heap)
        while heap:
            worth, n, k = heap[0]
            weight, positions, group = orders[n]
            best = list(group[positions[k]].values())
            if k:
                heapreplace(heap, (-_worth(weight, positions[k - 1], now), n, k - 1))
            else:
                heappop(heap)
            if heap and heap[0][0] == worth:
                self._as_good(best, orders, heap, now)
            if len(best) > 1:
                best.sort(key=value_of)
            yield worth, best

    @staticmethod
    def _as_good(best: list[Entry], orders: list[_Order], heap: list[tuple[float, int, int]], now: int) -> None:
        """Take the entries from the heap that are worth as much by chance, though weight and position differ."""
        worth = heap[0][0]
        while heap and heap[0][0] == worth:
            _, n, k = heappop(heap)
            weight, positions, group = orders[n]
            best += group[positions[k]].values()
            if k:
                heappush(heap, (-_worth(weight, positions[k - 1], now), n, k - 1))


value_of = attrgetter("value")


def _worth(weight: float, last: int, now: int) -> float:
    return weight * (1 / (1 + max(0, now - last) / _HALF_LIFE) + _FLOOR)
