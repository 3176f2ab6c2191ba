"""Chooses the lines of the originals to quote: those that later messages took something from, or that are asked for."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from math import fsum
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from autocontext.caches import cached
from autocontext.history.runs import Runs
from autocontext.notes.calls import Call, lasting_texts
from autocontext.notes.pieces import line_around
from autocontext.notes.room import Room
from autocontext.notes.shown import Shown
from autocontext.notes.values import find, values_by_line, values_in
from autocontext.text.excerpts import defines, without_number
from autocontext.text.protocol_results import printed
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.notes.work import WorkLedger

_LEAST_CANDIDATES = 128
_CANDIDATES = 3
"""Values to consider, as a multiple of those that fit."""
_TOKENS = 8
"""Tokens of a short line."""
_LEAST = 6
"""Tokens; no line fits into less."""
_MISSES = 24
"""After so many lines that did not fit, hardly any other will."""
_FOCUSED = 60.0
"""Worth of a line with all terms of the focus."""
_MOST_FOCUSED = 400
"""Newest messages that are searched for terms of the focus."""
_MOST_EDITS = 1_000
"""Newest messages whose calls may have replaced a line."""
_FOCUSED_TEXT = 64_000
"""Characters of a message that are searched for them."""
_LEAST_LETTERS = 4
"""Letters and digits of a line; a shorter one says nothing by itself."""
_DULL = re.compile(
    r"\s*(?:\d*[\W_]*|(?:import|from|use|using|require|package|#include)\b.*|\*\*[^*]{1,80}\*\*:?)"
    r"|\s*(?:\d{1,2}[.)]\s)?[A-Z\W]+|\s*</?[\w-]{1,60}>\s*|\((?:Open file|Current directory): .*"
)
"""A bare number, brackets, an import, a heading in bold or in capitals, a tag, what a terminal prints each time."""
_OPENS = ("(", "[", "{")
"""At the end of a line of code whose statement goes on below it."""


class Quote(NamedTuple):
    """A line of a message, or a piece of a long one."""

    place: tuple[int, int]
    """Number of the message, and which of its texts."""
    order: int
    """Its position in that text."""
    text: str


class Quotes:
    """The choice of lines for one page."""

    def __init__(
        self,
        ledger: WorkLedger,
        only: Runs,
        shown: Shown,
        text: str,
        *,
        source: Callable[[int, int], str],
        count: Callable[[str], int],
        focus: frozenset[str] = frozenset(),
    ) -> None:
        """`text` is what the page says so far; `source` names the call of a result: message number, block."""
        self._ledger, self._only, self._shown, self._name, self._cost = ledger, only, shown, source, count
        self._focus = focus
        """Terms of what the notes should keep first."""
        self._stale = ledger.of_newest_calls(_stale_messages)
        self._replaced: dict[str, int] = ledger.remembered(_replaced_lines, lambda: _replaced_lines(ledger))
        """By line, the newest message with a call that has replaced it."""
        self._told, self._blob = values_by_line(text), text
        self._parts: dict[int, list[tuple[str, str]]] = {}
        self._selection: dict[tuple[int, int], dict[int, str]] = {}
        """Per text of a message, the chosen lines by position."""
        self._open_values: dict[str, float] = {}
        """Values without a chosen line, and their worth."""
        self._lines: list[tuple[Quote, frozenset[str], int]] = []
        """Candidates, each with its values and its price."""

    def choose(self, room: Room) -> None:
        """Choose the best lines that fit into the room."""
        most = max(_LEAST_CANDIDATES, room.left // _TOKENS * _CANDIDATES)
        best = self._ledger.best_values(most)
        self._open_values = {value: worth for worth, value in best if not self._is_told(value)}
        self._lines = list(self._lines_with(self._open_values))
        for quote, share in self._focused():
            self._open_values[quote.text] = _FOCUSED * share
            self._lines.append((quote, frozenset({quote.text}), self._cost(quote.text) + 2))
        heap = [(-self._gain(i), i) for i in range(len(self._lines))]
        heapify(heap)
        misses = 0
        while heap and self._open_values and room.left >= _LEAST and misses < _MISSES:
            gain, i = heappop(heap)
            quote, values, _ = self._lines[i]
            now = -self._gain(i)
            if now > gain:
                # Chosen lines hold some of its values: queue it again with its lower gain.
                if now < 0:
                    heappush(heap, (now, i))
            elif self._take(room, quote):
                for value in values:
                    self._open_values.pop(value, None)
            else:
                misses += 1

    def _is_told(self, value: str) -> bool:
        """Whether the reader sees the value already."""
        has_breaks = " " in value or not value.isascii()
        return value in self._told or self._shown.has_value(value) or (has_breaks and value in self._blob)

    def _take(self, room: Room, quote: Quote) -> bool:
        line = f"> {quote.text}"
        cost = room.cost(line)
        if quote.place not in self._selection:
            cost += room.cost(self._heading(quote.place))
        if cost > room.left:
            return False
        room.left -= cost
        self._selection.setdefault(quote.place, {})[quote.order] = line
        return True

    def lines(self) -> list[str]:
        """The chosen lines under their sources, in the order of the history."""
        return [
            line
            for place in sorted(self._selection)
            for line in (self._heading(place), *(text for _, text in sorted(self._selection[place].items())))
        ]

    def _gain(self, i: int) -> float:
        """The worth of a line's open values, divided by its price."""
        _, values, price = self._lines[i]
        # fsum is exact: sets have a different order in each process.
        return fsum(self._open_values.get(value, 0.0) for value in values) / price

    # ------------------------------------------------------------------------------------------------------ candidates
    def _lines_with(self, values: Mapping[str, float]) -> Iterator[tuple[Quote, frozenset[str], int]]:
        """The lines with any of these values, with those and a price in tokens."""
        quotes: dict[tuple[tuple[int, int], int], Quote] = {}
        for value in values:
            for quote in self._candidates(value, self._ledger.values[value].numbers):
                quotes[quote.place, quote.order] = quote
        for quote in quotes.values():
            letters, goes_on = sum(map(str.isalnum, quote.text)), quote.text.rstrip().endswith(_OPENS)
            if letters >= _LEAST_LETTERS and not _DULL.fullmatch(quote.text) and (not goes_on or defines(quote.text)):
                among = frozenset(v for v in _line_values(quote.text) if v in values)
                if quote.text.strip() not in self._heading(quote.place) and quote.text.strip() not in self._blob:
                    yield quote, among, self._cost(quote.text) + 2

    def _candidates(self, value: str, numbers: Iterable[int]) -> Iterator[Quote]:
        """The lines with a value in these messages, unless they are stale or in view."""
        for number in numbers:
            if number in self._only and number not in self._stale:
                for part, (_, text) in enumerate(self._texts(number)):
                    if (at := find(value, text)) >= 0:
                        begin, line = line_around(text, at, len(value))
                        if self._replaced.get(without_number(line), 0) <= number:
                            yield Quote((number, part), begin, line)

    def _focused(self) -> Iterator[tuple[Quote, float]]:
        """Lines with terms of the focus in the newest messages, each with the share of the terms that it has."""
        newest = (n for n in range(len(self._ledger.messages), 0, -1) if n in self._only and n not in self._stale)
        for number in islice(newest, _MOST_FOCUSED if self._focus else 0):
            for part, (_, text) in enumerate(self._texts(number)):
                at = 0
                for line in text[:_FOCUSED_TEXT].splitlines(keepends=True):
                    found = self._focus & set(terms(line))
                    if found and (around := line_around(text, at, 1)[1]) not in self._blob:
                        yield Quote((number, part), at, around), len(found) / len(self._focus)
                    at += len(line)

    def _texts(self, number: int) -> list[tuple[str, str]]:
        """The texts of a message, each with its source: who said it, which call it is part of, or what it answers."""
        if number not in self._parts:
            msg = self._ledger.messages[number - 1]
            who: str = "agent" if msg.role == "assistant" else msg.role
            parts = list[tuple[str, str]]()
            for i, block in enumerate(msg.content):
                if block.type == "text":
                    parts.append((who, block.text))
                elif block.type == "tool_use":
                    # What is short stands in the line about the call.
                    parts.append(("call", "\n".join(text for text in lasting_texts(block.input) if "\n" in text)))
                elif block.type == "tool_result":
                    parts.append((self._name(number, i) or "result", printed(block.text)))
            self._parts[number] = parts
        return self._parts[number]

    def _heading(self, place: tuple[int, int]) -> str:
        number, part = place
        return f"m{number} {self._texts(number)[part][0]}:"


def _replaced_lines(ledger: WorkLedger) -> dict[str, int]:
    """By line that one of the newest calls has replaced, the number of its message."""
    newest = bisect_left(ledger.replacing, len(ledger) - _MOST_EDITS + 1, key=itemgetter(0))
    return {line: number for number, lines in ledger.replacing[newest:] for line in lines}


def _stale_messages(calls: Iterable[Call]) -> set[int]:
    """Messages with results of calls that were made again later."""
    last: dict[int, int] = {}
    stale: set[int] = set()
    for call in calls:
        if call.result:
            if (before := last.get(call.digest)) is not None:
                stale.add(before)
            last[call.digest] = call.result
    return stale


@cached(4_096)
def _line_values(line: str) -> tuple[str, ...]:
    """The values of a line, each once; cached, as most lines are candidates in every rendering."""
    return tuple(values_in(line) | {line.strip()})
