"""The evidence ledger: which values of the messages that left the view are worth a line of their own.

A value scores by who wrote it (what the user or the agent wrote weighs more than what a tool printed), in how many
messages it stands, and how long ago it was last seen. Of all its occurrences the one with the shortest surroundings is
quoted, so that the most values fit; lines are literal pieces of the originals. The weights were found by replaying
recorded conversations and measuring which values of later tool calls were still visible; all lie on plateaus.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter, itemgetter
from typing import TypeAlias

from autocontext.messages import Msg
from autocontext.occurrences import Lines, Sought, Texts
from autocontext.values import argument_values, errors_in, leaves, values_in

MOST_VALUES = 20_000
"""Distinct values that are kept."""
_AFTER_DROPPING = 15_000
"""Distinct values that are left when the worst had to go."""
_OF_ONE_MESSAGE = 2_000
"""Values that one message may add, so that a listing does not drive out everything else."""

_CALL, _USER, _ASSISTANT, _TOOL, _ERROR = range(5)
_BY_ROLE = {"user": _USER, "assistant": _ASSISTANT}
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


_Seen: TypeAlias = tuple[int, int, int, str, int]
"""One message's best occurrence of a value: the length of its snippet, its message's position with a minus, the order
in the message, the snippet, the kind. So the smallest is the one to quote: the shortest, of these the newest."""


class _Entry(Sought):
    """A value with its occurrences by message id, and what follows from them."""

    __slots__ = ("apart", "best", "last", "messages", "ranked", "seen", "tokens", "weight")

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.seen: dict[str, _Seen] = {}
        self.messages = [0] * len(_WEIGHTS)
        """How many hold it, by kind."""
        self.last = -1
        self.best: _Seen | None = None
        self.tokens: int | None = None
        """Of the best occurrence's line."""
        self.weight = 0.0
        """What it is worth when it is new; set when it is ranked."""
        self.ranked: tuple[float, int] | None = None
        """Weight and position under which it stands in the ranking."""
        self.apart = False
        """Whether it is kept beside the ranking: seen in view, or looked at in every turn."""

    def add(self, id_: str, seen: _Seen) -> None:
        self.seen[id_] = seen
        self.messages[seen[4]] += 1
        self.last = max(self.last, -seen[1])
        if self.best is None or seen < self.best:
            self.best, self.tokens = seen, None

    def remove(self, id_: str) -> None:
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
        if " " in self.value and not self.messages[_CALL] and not self.messages[_ERROR]:
            weight *= _PHRASE
        self.weight = weight

    def worth(self, now: int) -> float:
        """What it is worth at a moment; `now` is the number of messages so far."""
        return _worth(self.weight, self.last, now)


_Order: TypeAlias = tuple[float, list[int], dict[int, dict[str, _Entry]]]
"""A weight, its positions in ascending order, and its entries by position and value."""


class _Ranking:
    """Entries by what they are worth at any moment.

    Entries of one weight rank by when they were last seen, whatever the moment; so each weight has its own order, which
    a change costs next to nothing, and asking for the best merges as much of these as is asked for.
    """

    def __init__(self) -> None:
        self._found: dict[float, dict[int, dict[str, _Entry]]] = {}
        """By weight and position."""
        self._positions: dict[float, list[int]] = {}
        """The positions of each weight, ascending."""

    def place(self, entry: _Entry) -> None:
        """Put an entry where it belongs, or take it out when no message holds it any more or it is kept apart."""
        place = (entry.weight, entry.last) if entry.seen and not entry.apart else None
        if place == entry.ranked:
            return
        if entry.ranked is not None:
            self._take_out(entry, *entry.ranked)
        if place is not None:
            self._put_in(entry, *place)
        entry.ranked = place

    def _take_out(self, entry: _Entry, weight: float, last: int) -> None:
        group = self._found[weight]
        del group[last][entry.value]
        if not group[last]:
            del group[last]
            positions = self._positions[weight]
            del positions[bisect_left(positions, last)]
            if not positions:
                del self._found[weight], self._positions[weight]

    def _put_in(self, entry: _Entry, weight: float, last: int) -> None:
        group = self._found.setdefault(weight, {})
        if last not in group:
            group[last] = {}
            insort(self._positions.setdefault(weight, []), last)
        group[last][entry.value] = entry

    def best_first(self, now: int) -> Iterator[tuple[float, list[_Entry]]]:
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
                best.sort(key=_value)
            yield worth, best

    @staticmethod
    def _as_good(best: list[_Entry], orders: list[_Order], heap: list[tuple[float, int, int]], now: int) -> None:
        """Take the entries from the heap that are worth as much by chance, though weight and position differ."""
        worth = heap[0][0]
        while heap and heap[0][0] == worth:
            _, n, k = heappop(heap)
            weight, positions, group = orders[n]
            best += group[positions[k]].values()
            if k:
                heappush(heap, (-_worth(weight, positions[k - 1], now), n, k - 1))


_value = attrgetter("value")


def _worth(weight: float, last: int, now: int) -> float:
    return weight * (1 / (1 + max(0, now - last) / _HALF_LIFE) + _FLOOR)


class Evidence:
    """The values of the messages that left the view. Deterministic; does no I/O.

    Most that was quoted or seen in view in one turn is so in the next one. So these entries are kept beside the
    ranking: what is quoted is looked at in every turn, and what was seen in a text in view is not until that text goes.
    """

    def __init__(self) -> None:
        self.ids: dict[str, Sequence[str]] = {}
        """Values of each learned message, by its id."""
        self._shown: dict[int, Msg] = {}
        """The messages in view, by identity: they never change."""
        self._view, self._lines = Texts(), Lines()
        self._entries: dict[str, _Entry] = {}
        self._ranking = _Ranking()
        self._quoted: list[_Entry] = []
        """Those whose lines were chosen in the turn before, or that such a line holds."""
        self._seen: dict[int, list[_Entry]] = {}
        """Those that a text in view holds, by its number."""
        self._changed: dict[str, _Entry] = {}
        """Entries that have to be ranked anew."""
        self._count: Callable[[str], int] | None = None

    def learn(self, id_: str, msg: Msg, position: int) -> None:
        """Take in a message that left the view; `position` is its index in the original log. Once is enough."""
        if id_ in self.ids:
            return
        found = _found(msg, position)
        self.ids[id_] = tuple(found)
        for value, seen in found.items():
            entry = self._entries.get(value)
            if entry is None:
                entry = self._entries[value] = _Entry(value)
            entry.add(id_, seen)
            self._changed[value] = entry
        if len(self._entries) > MOST_VALUES:
            self._drop_the_worst()

    def forget(self, ids: Iterable[str]) -> None:
        """Take messages out again that are back in the view; unknown ids are ignored."""
        for id_ in ids:
            for value in self.ids.pop(id_, ()):
                entry = self._entries[value]
                entry.remove(id_)
                self._changed[value] = entry
                if not entry.seen:
                    del self._entries[value]
        self._rank()

    def lines(self, shown: Iterable[Msg], now: int, budget: int, count: Callable[[str], int]) -> list[str]:
        """The best lines whose text, joined by newlines, has at most `budget` tokens by `count`, oldest first.

        `now` is the number of messages so far. No line's value occurs in `shown`, no line is a part of another one.
        """
        if self._count != count:
            self._count = count
            for entry in self._entries.values():
                entry.tokens = None
        self._look_at(shown)
        self._rank()
        asked, new = self._view.asked, self._view.new
        chosen: list[_Seen] = []
        left = budget
        self._lines.begin()
        before = [(-entry.worth(now), entry.value, entry) for entry in self._quoted if entry.seen]
        before.sort(reverse=True)
        self._quoted, looked_at = [], []
        for entry in self._best_first(before, now):
            if entry.best is None:
                continue
            if entry.not_before == asked and entry.rare not in new:
                entry.not_before = self._view.next
            elif self._view.hold(entry):
                looked_at.append(entry)
                continue
            line = entry.best[3]
            if not self._lines.quote(entry, line):
                if entry.tokens is None:
                    entry.tokens = count(line) + 1
                left -= entry.tokens
                if left < 0:
                    before.append((0.0, entry.value, entry))
                    break
                chosen.append(entry.best)
                self._lines.choose(line)
            self._quoted.append(entry)
        self._view.end()
        self._keep_apart(looked_at, before)
        parts = self._lines.end()
        chosen = [seen for seen in {seen[3]: seen for seen in chosen}.values() if seen[3] not in parts]
        return _joined_within(chosen, budget, count)

    def _best_first(self, before: list[tuple[float, str, _Entry]], now: int) -> Iterator[_Entry]:
        """The entries of the ranking and those in `before`, best first; what is taken from `before` leaves it."""
        for worth, entries in self._ranking.best_first(now):
            for entry in entries:
                while before and before[-1][:2] < (worth, entry.value):
                    yield before.pop()[2]
                yield entry
        while before:
            yield before.pop()[2]

    def _keep_apart(self, in_view: Iterable[_Entry], unused: Iterable[tuple[float, str, _Entry]]) -> None:
        """Take from the ranking what need not be ranked before the next turn, and give back what is not quoted."""
        for entry in in_view:
            self._seen.setdefault(entry.held_in, []).append(entry)
            entry.apart = True
            self._ranking.place(entry)
        for entry in self._quoted:
            entry.apart = True
            self._ranking.place(entry)
        for _, _, entry in unused:
            entry.apart = False
            self._ranking.place(entry)

    def _look_at(self, shown: Iterable[Msg]) -> None:
        """From now on the view is these messages."""
        before, self._shown = self._shown, {id(m): m for m in shown}
        # What comes is added first: a fold that takes in the one before repeats most of its texts.
        for key, m in self._shown.items():
            if key not in before:
                for _, text in _texts(m):
                    self._view.add(text)
        for key, m in before.items():
            if key not in self._shown:
                for _, text in _texts(m):
                    for entry in self._seen.pop(self._view.remove(text), ()):
                        entry.apart = False
                        if self._entries.get(entry.value) is entry:
                            self._changed[entry.value] = entry

    def _rank(self) -> None:
        for entry in self._changed.values():
            entry.weigh()
            self._ranking.place(entry)
        self._changed.clear()

    def _drop_the_worst(self) -> None:
        self._rank()
        now = max(entry.last for entry in self._entries.values())
        kept = sorted(self._entries.values(), key=lambda entry: (-entry.worth(now), entry.value))[:_AFTER_DROPPING]
        self._entries = {entry.value: entry for entry in kept}
        self._ranking, self._quoted, self._seen = _Ranking(), [], {}
        for entry in kept:
            entry.ranked, entry.apart = None, False
            self._ranking.place(entry)
        self.ids = {id_: tuple(v for v in values if v in self._entries) for id_, values in self.ids.items()}


def _joined_within(chosen: list[_Seen], budget: int, count: Callable[[str], int]) -> list[str]:
    """The lines in their order in the log. Joined they may take a few tokens more than apart: then the worst go."""
    while chosen:
        lines = [seen[3] for seen in sorted(sorted(chosen, key=_IN_MESSAGE), key=_NEWNESS, reverse=True)]
        excess = count("\n".join(lines)) - budget
        if excess <= 0:
            return lines
        del chosen[-max(1, excess // 50) :]
    return []


_IN_MESSAGE, _NEWNESS = itemgetter(2, 3), itemgetter(1)


def _texts(msg: Msg) -> Iterator[tuple[int, str]]:
    """Each text of a message with who wrote it; reasoning is left out, it is no evidence."""
    for block in msg.content:
        if block.type == "text":
            yield _BY_ROLE.get(msg.role, _TOOL), block.text
        elif block.type == "tool_use":
            for text in leaves(block.input):
                yield _CALL, text
        elif block.type == "tool_result":
            yield _TOOL, block.text


def _found(msg: Msg, position: int) -> dict[str, _Seen]:
    """The values of one message: the weightiest writer and the shortest surroundings of each."""
    found: dict[str, _Seen] = {}
    for kind, text in _texts(msg):
        for value, snippet in argument_values(text) if kind == _CALL else values_in(text):
            _put(found, value, snippet, kind, position)
        if kind == _TOOL:
            for line in errors_in(text):
                _put(found, line, line, _ERROR, position)
    if len(found) > _OF_ONE_MESSAGE:
        half = _OF_ONE_MESSAGE // 2
        values = list(found)
        return {v: found[v] for v in values[:half] + values[-half:]}
    return found


def _put(found: dict[str, _Seen], value: str, snippet: str, kind: int, position: int) -> None:
    old = found.get(value)
    if old is None:
        found[value] = (len(snippet), -position, len(found), snippet, kind)
    elif kind < old[4] or len(snippet) < old[0]:
        shorter = snippet if len(snippet) < old[0] else old[3]
        found[value] = (len(shorter), -position, old[2], shorter, min(kind, old[4]))
