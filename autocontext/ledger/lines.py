"""Which lines of the originals are quoted: whole lines that hold the values likely to be needed again, under their source."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from autocontext.ledger.values import find
from autocontext.ledger.work import texts_of, worth

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

LONG = 160
"""Characters; of a longer line a piece around the value is quoted."""
_PIECE = 100
"""Characters of a piece beside its value."""
_UNDER_ONE_SOURCE = 28
"""Lines after which the source is named again."""
_CONSIDERED = 6
"""How many more values are looked at than there is room for."""


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
    line = text.rstrip().replace("\t", " ")
    line = line if line.isprintable() else "".join(ch if ch.isprintable() else " " for ch in line)
    return line.replace("<!-- CONTEXT_OFFLOAD", "<! CONTEXT_OFFLOAD")


class Quotes:
    """The choice of lines for one rendering."""

    def __init__(
        self, ledger: WorkLedger, only: Container[int], elsewhere: str, source: Callable[[int], str]
    ) -> None:
        self._ledger, self._only, self._elsewhere, self._source = ledger, only, elsewhere, source
        self._stale = self._superseded()

    def _superseded(self) -> set[int]:
        """Messages with a reading that was made again later."""
        last: dict[tuple[str, int], int] = {}
        stale: set[int] = set()
        for call in self._ledger.calls:
            if call.effect == "changes" or not call.result:
                continue
            if call.key in last:
                stale.add(last[call.key])
            last[call.key] = call.result
        return stale

    def choose(self, room: Spending) -> list[str]:
        """Lines under their sources, in the order of the history; takes the room that they need."""
        chosen: dict[int, dict[int, str]] = {}
        blob = self._elsewhere
        most = max(64, room.left // 8 * _CONSIDERED)
        now = len(self._ledger.messages)
        ranked = nlargest(most, self._ledger.values.items(), key=lambda item: worth(item[1], now))
        full = 0
        for value, seen in ranked:
            if room.left < 8 or full > 24:
                break
            if value in blob:
                continue
            quote = min(self._candidates(value, seen.numbers), key=lambda q: (len(q.text), -q.number), default=None)
            if quote is None:
                continue
            line = f"> {quote.text}"
            own = chosen.get(quote.number)
            cost = room.cost(line) + (room.cost(self._source(quote.number)) if not own else 0)
            if cost > room.left:
                full += 1
                continue
            room.left -= cost
            chosen.setdefault(quote.number, {})[quote.order] = line
            blob += "\n" + line
        return [line for number in sorted(chosen) for line in self._listed(number, chosen[number])]

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
                    yield Quote(number, offset + at, _line_around(text, at, len(value)))
                    break
                offset += len(text)


def _line_around(text: str, at: int, size: int) -> str:
    """The whole line, or of a long one a piece with the value in it, cut between words, with "…" where cut."""
    begin = text.rfind("\n", max(0, at - 20_000), at) + 1
    stop = text.find("\n", at + size, at + size + 20_000)
    stop = len(text) if stop < 0 else stop
    if stop - begin <= LONG or len(text[begin:stop].strip()) <= LONG:
        return quoted(text[begin:stop])
    first = max(begin, at - _PIECE // 3)
    last = min(stop, max(first + _PIECE, at + size + _PIECE // 3))
    first = _word_start(text, first, begin, at)
    last = _word_end(text, last, at + size, stop)
    return ("…" if first > begin else "") + quoted(text[first:last]).strip() + ("…" if last < stop else "")


def _word_start(text: str, place: int, begin: int, value: int) -> int:
    """The nearest place from here on towards the value at which a word begins."""
    if place <= begin:
        return begin
    while place < value and text[place - 1].isalnum() and text[place].isalnum():
        place += 1
    return place


def _word_end(text: str, place: int, value_end: int, stop: int) -> int:
    """The nearest place from here back to the value at which a word ends."""
    if place >= stop:
        return stop
    while place > value_end and text[place - 1].isalnum() and text[place].isalnum():
        place -= 1
    return place
