"""Which lines of the originals are quoted: whole ones with values that are likely to be needed again, by source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from autocontext.history.runs import Runs
from autocontext.ledger.calls import Call, Key, shortened
from autocontext.ledger.doings import ERROR, LEAST_ERROR, MOST
from autocontext.ledger.fading import fading
from autocontext.ledger.room import Room
from autocontext.ledger.shapes import shape, shapes
from autocontext.ledger.values import find, values_in
from autocontext.text.rendering import one_line, printable

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

LONG = 160
"""Characters; of a longer line a piece around the value is quoted."""
_PIECE = 90
"""Characters of a piece at least."""
_SEEN = 20_000
"""Characters on either side of a value in which the ends of its line are looked for."""
_UNDER_ONE_SOURCE = 28
"""Lines after which the source is named again."""
_CONSIDERED = 3
"""How many more values are looked at than there is room for."""
_OUTLIER = 12.0
"""What a line is worth that stands out of a repetitive text, while it is new."""
_ALIKE = 3
"""So many lines of one shape are no repetition yet."""
_LEAST_CONSIDERED = 128
_MISSES = 24
"""Lines in a row that are too long for what is left; after so many the room is too small for nearly all."""
_LEAST = 6
"""Tokens; less room holds no line."""
_MOST_ERRORS = 20
"""Results whose error lines are quoted although they did not fail."""
_MOST_OUTLIERS = 300
"""Lines that stand out which are considered."""


class Quote(NamedTuple):
    """A line of a message, or a piece of a long one."""

    number: int
    order: int
    """Where it stands in the message."""
    text: str


def quoted(text: str) -> str:
    """A line as it stands, its indentation too, without characters that could end it or pretend to be structure."""
    return printable(text.rstrip())


class Quotes:
    """The choice of lines for one rendering."""

    def __init__(
        self,
        ledger: WorkLedger,
        only: Runs,
        seen: frozenset[str],
        told: str,
        *,
        source: Callable[[int], str],
        count: Callable[[str], int],
    ) -> None:
        self._ledger, self._only, self._source = ledger, only, source
        self._cost = count
        self._stale = self._superseded()
        self._texts: dict[int, str] = {}
        self._shapes: dict[int, Counter[str]] = {}
        self._seen = seen | values_in(told)
        """Values that the reader sees anyway."""
        self._blob = told
        """The text so far, in which a line need not stand again."""
        self._chosen: dict[int, dict[int, str]] = {}
        """Per message, the chosen lines by their places in it."""
        self._wanted: dict[str, float] = {}
        """Values that no line tells yet, with what they are worth."""
        self._lines: list[tuple[Quote, frozenset[str], int]] = []
        """Lines that may be chosen, each with the values it holds and its price."""
        self._heap: list[tuple[float, int]] = []

    def _superseded(self) -> set[int]:
        """Messages with a reading that was made again later."""
        last: dict[tuple[str, int], int] = {}
        stale: set[int] = set()
        for call in self._ledger.calls[-MOST:]:
            if call.effect == "changes" or not call.result:
                continue
            same = call.name, call.digest
            if same in last:
                stale.add(last[same])
            last[same] = call.result
        return stale

    def choose(self, room: Room) -> None:
        """Choose the best lines that fit, and take their room."""
        for number, order, text in self._errors():
            if text not in self._blob and self._take(room, number, order, text):
                self._blob += "\n" + text
        now = len(self._ledger.messages)
        most = max(_LEAST_CONSIDERED, room.left // 8 * _CONSIDERED)
        best = self._ledger.best_values(most)
        self._wanted = {v: worth for worth, v in best if v not in self._seen and not (_spaced(v) and v in self._blob)}
        self._lines = self._holding(self._wanted)
        for quote in self._outliers():
            # A value of its own: the line itself.
            self._wanted[quote.text] = _OUTLIER * fading(quote.number, now)
            self._lines.append((quote, frozenset({quote.text}), self._cost(quote.text) + 2))
        self._heap = [(-self._gain(i), i) for i in range(len(self._lines))]
        heapify(self._heap)
        self.go_on(room)

    def go_on(self, room: Room) -> bool:
        """Choose further lines, where there is more room than there was; whether any were."""
        before = sum(map(len, self._chosen.values()))
        too_long: list[tuple[float, int]] = []
        while self._heap and self._wanted and room.left >= _LEAST and len(too_long) < _MISSES:
            gain, i = heappop(self._heap)
            quote, values, _ = self._lines[i]
            now = -self._gain(i)
            if now > gain:
                # Others have told a part of what it holds: it waits for its new turn.
                if now < 0:
                    heappush(self._heap, (now, i))
            elif self._take(room, quote.number, quote.order, quote.text):
                for value in values:
                    self._wanted.pop(value, None)
            elif now < 0:
                too_long.append((now, i))
        self._heap += too_long
        heapify(self._heap)
        return sum(map(len, self._chosen.values())) > before

    def _take(self, room: Room, number: int, order: int, text: str) -> bool:
        line = f"> {text}"
        cost = room.cost(line) + (room.cost(self._source(number)) if number not in self._chosen else 0)
        if cost > room.left:
            return False
        room.left -= cost
        self._chosen.setdefault(number, {})[order] = line
        return True

    def lines(self) -> list[str]:
        """What was chosen, under its sources, in the order of the history."""
        return [line for number in sorted(self._chosen) for line in self._listed(number, self._chosen[number])]

    def _gain(self, i: int) -> float:
        """What a line tells of wanted values, for its price."""
        _, values, price = self._lines[i]
        # Exact, as a set has another order in every process.
        return fsum(self._wanted.get(value, 0.0) for value in values) / price

    def _holding(self, wanted: Mapping[str, float]) -> list[tuple[Quote, frozenset[str], int]]:
        """The lines that hold wanted values, each with those and its price: its tokens, more where many are like it."""
        found: dict[tuple[int, int], Quote] = {}
        for value in wanted:
            for quote in self._candidates(value, self._ledger.values[value].numbers):
                found[quote.number, quote.order] = quote
        return [
            (quote, self._held(quote, wanted), (self._cost(quote.text) + 2) * self._alike(quote))
            for quote in found.values()
            if quote.text.strip() not in self._source(quote.number)  # which stands above it anyway
        ]

    def _held(self, quote: Quote, wanted: Mapping[str, float]) -> frozenset[str]:
        return frozenset(v for v in _line_values(quote.text) if v in wanted)

    def _alike(self, quote: Quote) -> int:
        """How many lines of its message are like it: each of them is worth the less."""
        if quote.number not in self._shapes:
            self._shapes[quote.number] = shapes(self._text(quote.number))
        return max(1, self._shapes[quote.number][shape(quote.text)] // _ALIKE)

    def _outliers(self) -> Iterator[Quote]:
        """Lines that stand out of repetitive results, newest first."""
        for number, i, at in self._ledger.outliers[: -_MOST_OUTLIERS - 1 : -1]:
            block = self._ledger.messages[number - 1].content[i]
            if number in self._only and number not in self._stale and block.type == "tool_result":
                text = _line_around(block.text, at, 1)[1]
                if text not in self._blob:
                    yield Quote(number, at, text)

    def _errors(self) -> Iterator[tuple[int, int, str]]:
        """Lines about errors in results that are no failures, newest first."""
        newest: dict[Key, Call] = {}
        for call in self._ledger.calls[-MOST:]:
            newest.pop(call.key, None)
            newest[call.key] = call
        shown = [c for c in newest.values() if c.outcome is not None and c.outcome.error and not c.outcome.failed]
        for call in shown[: -_MOST_ERRORS - 1 : -1]:
            if call.result in self._only and call.outcome is not None:
                yield call.result, -1, shortened(one_line(call.outcome.error), ERROR, LEAST_ERROR)

    def _listed(self, number: int, lines: dict[int, str]) -> Iterator[str]:
        for i, order in enumerate(sorted(lines)):
            if i % _UNDER_ONE_SOURCE == 0:
                yield self._source(number)
            yield lines[order]

    def _candidates(self, value: str, numbers: tuple[int, ...]) -> Iterator[Quote]:
        """The lines that hold the value in the newest messages which do and may be quoted."""
        for number in numbers:
            if number in self._only and number not in self._stale:
                text = self._text(number)
                if (at := find(value, text)) >= 0:
                    begin, line = _line_around(text, at, len(value))
                    yield Quote(number, begin, line)

    def _text(self, number: int) -> str:
        """All texts of a message, one below the other."""
        if number not in self._texts:
            self._texts[number] = "\n".join(self._ledger.messages[number - 1].texts())
        return self._texts[number]


def _spaced(value: str) -> bool:
    """Whether a value is no single run of ASCII, so that the values of a text do not name it as a whole."""
    return " " in value or not value.isascii()


@lru_cache(maxsize=4_096)
def _line_values(line: str) -> frozenset[str]:
    """The values of a line; most lines are considered at every rendering."""
    return frozenset(values_in(line) | {line.strip()})


def _line_around(text: str, at: int, size: int) -> tuple[int, str]:
    """Where it begins, and the whole line, or of a long one the piece with the value, with "…" where cut."""
    begin = text.rfind("\n", max(0, at - _SEEN), at) + 1
    stop = text.find("\n", at + size, at + size + _SEEN)
    stop = len(text) if stop < 0 else stop
    if stop - begin <= LONG or len(text[begin:stop].strip()) <= LONG:
        return begin, quoted(text[begin:stop])
    first = last = begin if at - begin < _SEEN else at - at % _SEEN
    # Pieces are cut from the front, so that values that stand together are quoted together, and nothing twice.
    while last < at + size:
        first, last = last, _piece_end(text, last, stop)
    first = min(first, at)
    return first, ("…" if first > begin else "") + quoted(text[first:last]).strip() + ("…" if last < stop else "")


def _piece_end(text: str, start: int, stop: int) -> int:
    """Where a piece that begins here ends: between two fields or sentences, else between words."""
    if stop - start <= LONG:
        return stop
    for ends in (('", "', ", ", "; ", ". ", "。", "，"), (" ",)):
        place = max(text.rfind(end, start + _PIECE, start + LONG) + len(end.rstrip('"')) for end in ends)
        if place > start + _PIECE:
            return place
    place = start + LONG
    while place > start + _PIECE and text[place - 1].isalnum() and text[place].isalnum():
        place -= 1
    return place
