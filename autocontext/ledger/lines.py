"""Chooses the lines of the originals to quote: those with values that are likely to be needed again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from autocontext.history.runs import Runs
from autocontext.ledger.activity import ERROR, LEAST_ERROR, MOST
from autocontext.ledger.calls import Call, Key, shorten
from autocontext.ledger.pieces import LONG, line_around
from autocontext.ledger.room import Room
from autocontext.ledger.shapes import shape, shapes
from autocontext.ledger.shown import Shown
from autocontext.ledger.values import fading, find, values_in
from autocontext.text.rendering import one_line
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

_UNDER_ONE_SOURCE = 28
"""Lines after which the source is named again."""
_CANDIDATES = 3
"""Values to consider, as a multiple of those that fit."""
_OUTLIER = 12.0
"""Worth of a new line that stands out in a repetitive text."""
_EQUAL = 2
"""An outlier that is equal in more results than this belongs to all of them: "Exit code: 0"."""
_ALIKE = 3
"""More lines of one shape than this are a repetition."""
_LEAST_CANDIDATES = 128
_MISSES = 24
"""After so many lines that did not fit, hardly any other will."""
_FOCUSED = 60.0
"""Worth of a line with all terms of the focus."""
_MOST_FOCUSED = 400
"""Newest messages that are searched for terms of the focus."""
_FOCUSED_TEXT = 64_000
"""Characters of a message that are searched for them."""
_LEAST = 6
"""Tokens; no line fits into less."""
_MOST_ERRORS = 20
"""Most successful results whose error lines are quoted."""
_MOST_OUTLIERS = 300
"""Most outliers to consider."""


_BARE_NUMBER = re.compile(r"\s*\d*[\W_]*")
"""An empty line, or one of punctuation, in a listing with line numbers."""


class Quote(NamedTuple):
    """A line of a message, or a piece of a long one."""

    number: int
    order: int
    """Its position in the message."""
    text: str


class Quotes:
    """The choice of lines for one rendering."""

    def __init__(
        self,
        ledger: WorkLedger,
        only: Runs,
        shown: Shown,
        text: str,
        *,
        source: Callable[[int], str],
        count: Callable[[str], int],
        focus: frozenset[str] = frozenset(),
    ) -> None:
        self._ledger, self._only, self._source = ledger, only, source
        self._cost = count
        self._focus = focus
        """Terms of what the notes should keep first."""
        self._stale = self._stale_messages()
        self._texts: dict[int, str] = {}
        self._shapes: dict[int, Counter[str]] = {}
        self._shown = shown
        self._told = values_in(text)
        """Values in the text so far."""
        self._blob = text
        """The text so far; its lines are not repeated."""
        self._selection: dict[int, dict[int, str]] = {}
        """Per message, the chosen lines by position."""
        self._open_values: dict[str, float] = {}
        """Values without a chosen line, and their worth."""
        self._lines: list[tuple[Quote, frozenset[str], int]] = []
        """Candidates, each with its values and its price."""
        self._heap: list[tuple[float, int]] = []

    def _stale_messages(self) -> set[int]:
        """Messages with results of reading calls that were repeated later."""
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
        """Choose the best lines that fit into the room."""
        for number, order, text in self._errors():
            if text not in self._blob and self._take(room, number, order, text):
                self._blob += "\n" + text
        now = len(self._ledger.messages)
        most = max(_LEAST_CANDIDATES, room.left // 8 * _CANDIDATES)
        best = self._ledger.best_values(most)
        self._open_values = {v: worth for worth, v in best if not self._is_told(v)}
        self._lines = self._lines_with(self._open_values)
        for quote in self._outliers():
            # The line itself is its value.
            self._open_values[quote.text] = _OUTLIER * fading(quote.number, now)
            self._lines.append((quote, frozenset({quote.text}), self._cost(quote.text) + 2))
        for quote, share in self._focused():
            self._open_values[quote.text] = _FOCUSED * share
            self._lines.append((quote, frozenset({quote.text}), self._cost(quote.text) + 2))
        self._heap = [(-self._gain(i), i) for i in range(len(self._lines))]
        heapify(self._heap)
        self.choose_more(room)

    def _is_told(self, value: str) -> bool:
        """Whether the reader sees the value already."""
        return value in self._told or self._shown.has_value(value) or (_has_breaks(value) and value in self._blob)

    def choose_more(self, room: Room) -> bool:
        """Choose more lines after the room has grown; False if none fits."""
        before = sum(map(len, self._selection.values()))
        too_long: list[tuple[float, int]] = []
        while self._heap and self._open_values and room.left >= _LEAST and len(too_long) < _MISSES:
            gain, i = heappop(self._heap)
            quote, values, _ = self._lines[i]
            now = -self._gain(i)
            if now > gain:
                # Chosen lines hold some of its values: queue it again with its lower gain.
                if now < 0:
                    heappush(self._heap, (now, i))
            elif self._take(room, quote.number, quote.order, quote.text):
                for value in values:
                    self._open_values.pop(value, None)
            elif now < 0:
                too_long.append((now, i))
        self._heap += too_long
        heapify(self._heap)
        return sum(map(len, self._selection.values())) > before

    def _take(self, room: Room, number: int, order: int, text: str) -> bool:
        line = f"> {text}"
        cost = room.cost(line) + (room.cost(self._source(number)) if number not in self._selection else 0)
        if cost > room.left:
            return False
        room.left -= cost
        self._selection.setdefault(number, {})[order] = line
        return True

    def lines(self) -> list[str]:
        """The chosen lines under their sources, in the order of the history."""
        return [
            line for number in sorted(self._selection) for line in self._with_sources(number, self._selection[number])
        ]

    def _gain(self, i: int) -> float:
        """The worth of a line's open values, divided by its price."""
        _, values, price = self._lines[i]
        # fsum is exact: sets have a different order in each process.
        return fsum(self._open_values.get(value, 0.0) for value in values) / price

    def _lines_with(self, values: Mapping[str, float]) -> list[tuple[Quote, frozenset[str], int]]:
        """The lines with any of these values, with those and a price: its tokens, times its repetitions."""
        quotes: dict[tuple[int, int], Quote] = {}
        for value in values:
            for quote in self._candidates(value, self._ledger.values[value].numbers):
                quotes[quote.number, quote.order] = quote
        return [
            (quote, self._values_among(quote, values), (self._cost(quote.text) + 2) * self._alike(quote))
            for quote in quotes.values()
            if quote.text.strip() not in self._source(quote.number)  # the line above the quotes
            and (not _BARE_NUMBER.fullmatch(quote.text) or len(self._text(quote.number)) < LONG)
        ]

    def _values_among(self, quote: Quote, values: Mapping[str, float]) -> frozenset[str]:
        return frozenset(v for v in _line_values(quote.text) if v in values)

    def _alike(self, quote: Quote) -> int:
        """How often its shape repeats in its message; repeated lines are worth less."""
        if quote.number not in self._shapes:
            self._shapes[quote.number] = shapes(self._text(quote.number))
        return max(1, self._shapes[quote.number][shape(quote.text)] // _ALIKE)

    def _outliers(self) -> Iterator[Quote]:
        """Lines that stand out in repetitive results, newest first, unless other results have them, too."""
        quotes: list[Quote] = []
        for number, i, at in self._ledger.outliers[: -_MOST_OUTLIERS - 1 : -1]:
            block = self._ledger.messages[number - 1].content[i]
            if block.type == "tool_result":
                quotes.append(Quote(number, at, line_around(block.text, at, 1)[1]))
        equal = Counter(text for _, text in {(quote.number, quote.text) for quote in quotes})
        for quote in quotes:
            if quote.number not in self._only or quote.number in self._stale or _BARE_NUMBER.fullmatch(quote.text):
                continue
            if equal[quote.text] <= _EQUAL and quote.text not in self._blob:
                yield quote

    def _focused(self) -> Iterator[tuple[Quote, float]]:
        """Lines with terms of the focus in the newest messages, each with the share of the terms that it has."""
        newest = (n for n in range(len(self._ledger.messages), 0, -1) if n in self._only and n not in self._stale)
        for number in islice(newest, _MOST_FOCUSED if self._focus else 0):
            at = 0
            for line in self._text(number)[:_FOCUSED_TEXT].splitlines(keepends=True):
                found = self._focus & set(terms(line))
                if found and (text := line_around(self._text(number), at, 1)[1]) not in self._blob:
                    yield Quote(number, at, text), len(found) / len(self._focus)
                at += len(line)

    def _errors(self) -> Iterator[tuple[int, int, str]]:
        """Error lines in results of calls that did not fail, newest first."""
        newest: dict[Key, Call] = {}
        for call in self._ledger.calls[-MOST:]:
            newest.pop(call.key, None)
            newest[call.key] = call
        calls = [c for c in newest.values() if c.outcome is not None and c.outcome.error and not c.outcome.failed]
        for call in calls[: -_MOST_ERRORS - 1 : -1]:
            if call.result in self._only and call.outcome is not None:
                yield call.result, -1, shorten(one_line(call.outcome.error), ERROR, LEAST_ERROR)

    def _with_sources(self, number: int, lines: dict[int, str]) -> Iterator[str]:
        for i, order in enumerate(sorted(lines)):
            if i % _UNDER_ONE_SOURCE == 0:
                yield self._source(number)
            yield lines[order]

    def _candidates(self, value: str, numbers: tuple[int, ...]) -> Iterator[Quote]:
        """The lines with a value in these messages, unless they are stale or in view."""
        for number in numbers:
            if number in self._only and number not in self._stale:
                text = self._text(number)
                if (at := find(value, text)) >= 0:
                    begin, line = line_around(text, at, len(value))
                    yield Quote(number, begin, line)

    def _text(self, number: int) -> str:
        """All texts of a message, joined by newlines."""
        if number not in self._texts:
            self._texts[number] = "\n".join(self._ledger.messages[number - 1].texts())
        return self._texts[number]


def _has_breaks(value: str) -> bool:
    """Whether `values_in` splits the value: it has blanks or is not ASCII."""
    return " " in value or not value.isascii()


@lru_cache(maxsize=4_096)
def _line_values(line: str) -> tuple[str, ...]:
    """The values of a line, each once; cached, as most lines are candidates in every rendering."""
    return tuple(values_in(line) | {line.strip()})
