"""Which lines of the originals are quoted: whole lines that hold the values likely to be needed again, under their source."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, nlargest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from autocontext.ledger.calls import Call, shortened
from autocontext.ledger.values import find, occurs, values_in
from autocontext.ledger.work import texts_of, worth

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
_WORTH = 0.0
_LEAST = 6
"""Tokens; less room holds no line."""


_MOST_ERRORS = 20
"""Results whose error lines are quoted although they did not fail."""
_ERROR = 110
"""Characters of such a line."""


class Spending(Protocol):
    """Room for lines."""

    left: int

    def cost(self, line: str) -> int:
        """Tokens of a line with its end."""
        ...


class Quote(NamedTuple):
    """A line of a message, or a piece of a long one."""

    number: int
    order: int
    """Where it stands in the message."""
    text: str


def cleaned(text: str) -> str:
    """A text on one line, without characters that could end it or pretend to be structure."""
    line = " ".join(text.split()) if not text.isprintable() else text.strip()
    line = line if line.isprintable() else "".join(ch if ch.isprintable() else " " for ch in line)
    return line.replace("<!-- CONTEXT_OFFLOAD", "<! CONTEXT_OFFLOAD")


def quoted(text: str) -> str:
    """A line as it stands, its indentation too, without characters that could end it or pretend to be structure."""
    line = text.rstrip()
    line = line if line.isprintable() else "".join(ch if ch.isprintable() or ch == "\t" else " " for ch in line)
    return line.replace("<!-- CONTEXT_OFFLOAD", "<! CONTEXT_OFFLOAD")


class Quotes:
    """The choice of lines for one rendering."""

    def __init__(
        self,
        ledger: WorkLedger,
        only: Container[int],
        elsewhere: str,
        source: Callable[[int], str],
        count: Callable[[str], int],
    ) -> None:
        self._ledger, self._only, self._elsewhere, self._source = ledger, only, elsewhere, source
        self._cost = count
        self._stale = self._superseded()

    def _superseded(self) -> set[int]:
        """Messages with a reading that was made again later."""
        last: dict[tuple[str, int], int] = {}
        stale: set[int] = set()
        for call in self._ledger.calls:
            if call.effect == "changes" or not call.result:
                continue
            same = call.name, call.digest
            if same in last:
                stale.add(last[same])
            last[same] = call.result
        return stale

    def choose(self, room: Spending) -> list[str]:
        """Lines under their sources, in the order of the history; takes the room that they need."""
        chosen: dict[int, dict[int, str]] = {}
        blob = self._elsewhere
        for number, error in self._errors():
            line = f"> {error}"
            cost = room.cost(line) + room.cost(self._source(number))
            if error not in blob and cost <= room.left:
                room.left -= cost
                chosen.setdefault(number, {})[-1] = line
                blob += "\n" + line
        now = len(self._ledger.messages)
        most = max(64, room.left // 8 * _CONSIDERED)
        ranked = nlargest(most, self._ledger.values.items(), key=lambda item: worth(item[1], now))
        wanted = {value: worth(seen, now) for value, seen in ranked if worth(seen, now) >= _WORTH and not occurs(value, blob)}
        lines = self._lines(wanted)
        heap = [(-gain(values, wanted) / cost, i) for i, (_, values, cost) in enumerate(lines)]
        heapify(heap)
        while heap and wanted and room.left >= _LEAST:
            density, i = heappop(heap)
            quote, values, cost = lines[i]
            now_density = -gain(values, wanted) / cost
            if now_density > density:
                # Others have told a part of what it holds: it waits for its new turn.
                if now_density < 0:
                    heappush(heap, (now_density, i))
                continue
            line = f"> {quote.text}"
            if quote.number not in chosen:
                cost += room.cost(self._source(quote.number))
            if cost > room.left:
                continue
            room.left -= cost
            chosen.setdefault(quote.number, {})[quote.order] = line
            for value in values:
                wanted.pop(value, None)
        return [line for number in sorted(chosen) for line in self._listed(number, chosen[number])]

    def _lines(self, wanted: Mapping[str, float]) -> list[tuple[Quote, frozenset[str], int]]:
        """The lines that hold wanted values, each with those and its tokens."""
        found: dict[tuple[int, int], Quote] = {}
        for value in wanted:
            for quote in self._candidates(value, self._ledger.values[value].numbers):
                found[quote.number, quote.order] = quote
        return [
            (quote, frozenset(v for v in values_in(quote.text) | {quote.text.strip()} if v in wanted), self._cost(quote.text) + 2)
            for quote in found.values()
        ]

    def _errors(self) -> Iterator[tuple[int, str]]:
        """Lines about errors in results that are no failures, newest first."""
        newest: dict[tuple[str, str], Call] = {}
        for call in self._ledger.calls:
            newest.pop(call.key, None)
            newest[call.key] = call
        shown = [c for c in newest.values() if c.outcome is not None and c.outcome.error and not c.outcome.failed]
        for call in shown[: -_MOST_ERRORS - 1 : -1]:
            if call.result in self._only and call.outcome is not None:
                yield call.result, shortened(cleaned(call.outcome.error), _ERROR, 44)

    def _listed(self, number: int, lines: dict[int, str]) -> Iterator[str]:
        for i, order in enumerate(sorted(lines)):
            if i % _UNDER_ONE_SOURCE == 0:
                yield self._source(number)
            yield lines[order]

    def _candidates(self, value: str, numbers: tuple[int, ...]) -> Iterator[Quote]:
        """The lines that hold the value in the newest messages which do and may be quoted."""
        for number in numbers:
            if number not in self._only or number in self._stale:
                continue
            offset = 0
            for text in texts_of(self._ledger.messages[number - 1]):
                if (at := find(value, text)) >= 0:
                    begin, line = _line_around(text, at, len(value))
                    yield Quote(number, offset + begin, line)
                    break
                offset += len(text)


def gain(values: Iterable[str], wanted: Mapping[str, float]) -> float:
    """What a line with these values is worth."""
    return sum(wanted.get(value, 0.0) for value in values)


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
