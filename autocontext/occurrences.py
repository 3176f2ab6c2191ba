"""Where values stand: in texts that come and go, and in the lines that were chosen for the evidence ledger."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sized
from typing import TypeAlias

from autocontext.entries import Entry, Seen
from autocontext.values import occurs, word_lists, words

_NOWHERE: dict[int, str] = {}


class Texts:
    """Texts, each with a number that grows, and where their words stand."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._times: dict[str, int] = {}
        self._words: dict[int, set[str]] = {}
        self._by_word: dict[str, dict[int, str]] = {}
        self._next = 0

    def add(self, text: str) -> set[str]:
        """Take in a text; its words. One that is there already counts once more and has no new words."""
        times = self._times[text] = self._times.get(text, 0) + 1
        if times > 1:
            return set()
        number = self._numbers[text] = self._next
        self._next += 1
        self._texts[number] = text
        found = self._words[number] = _bag(text)
        for word in found:
            texts = self._by_word.get(word)
            if texts is None:
                self._by_word[word] = {number: text}
            else:
                texts[number] = text
        return found

    def remove(self, text: str) -> int:
        """Take out a text that was added, once; its number when it is gone now, else -1."""
        self._times[text] -= 1
        if self._times[text]:
            return -1
        del self._times[text]
        number = self._numbers.pop(text)
        del self._texts[number]
        for word in self._words.pop(number):
            found = self._by_word[word]
            del found[number]
            if not found:
                del self._by_word[word]
        return number

    def holding(self, entry: Entry) -> int:
        """The number of the newest text in which the entry's value occurs; -1 when none does."""
        # A dict keeps its order, and numbers grow: the newest texts stand last.
        found = self._by_word.get(_rarest(entry, self._by_word), _NOWHERE)
        return next((number for number in reversed(found) if occurs(entry.value, found[number])), -1)


def _bag(text: str) -> set[str]:
    """The different words of a text."""
    found: set[str] = set()
    for some in word_lists(text):
        found.update(some)
    return found


def _rarest(entry: Entry, by_word: Mapping[str, Sized]) -> str:
    """The word of its value that stands in the fewest places; "" when it has no words."""
    return min(entry.words, key=lambda word: len(by_word.get(word, ())), default="")


class Line:
    """A line that was chosen to quote an entry's value."""

    __slots__ = (
        "chosen",
        "contains",
        "entry",
        "held",
        "inner",
        "key",
        "place",
        "seen",
        "shown",
        "text",
        "tokens",
        "within",
        "words",
    )

    def __init__(self, entry: Entry, seen: Seen, tokens: int) -> None:
        self.entry, self.seen, self.tokens = entry, seen, tokens
        self.held: dict[str, Entry] = {}
        """Other entries whose values occur in it, by value, which therefore need no line of their own."""
        self.text = seen[3]
        self.place = (-seen[1], seen[2], self.text)
        """Where it stands among the lines: message, order in the message."""
        found = words(self.text)
        self.words = tuple(set(found))
        self.inner = tuple(found[1:-1])
        """Those that are whole wherever the line is a part of another one: at its ends it may begin inside a word."""
        self.chosen = True
        self.shown = False
        self.within: Line | None = None
        """Another chosen one that it is a part of; then it is not shown."""
        self.contains: list[Line] = []
        self.key = ""
        """The word under which the value that it quotes is found."""


_Index: TypeAlias = dict[str, dict[str, Line]]
"""Lines by a word and their text."""
_NO_LINES: dict[str, Line] = {}


class Lines:
    """The lines that are chosen at present."""

    def __init__(self) -> None:
        self._by_text: dict[str, Line] = {}
        self._by_word: _Index = {}
        self._by_inner: _Index = {}
        """By one inner word; "" for those that have none."""
        self._by_value: _Index = {}
        """By the word of the value that they quote which stood in the fewest lines when they were chosen."""
        self._new: list[Line] = []
        """Those that have to be compared with the others."""
        self._shown: list[tuple[int, int, str]] = []
        self.tokens = 0
        """Of all of them."""

    def add(self, line: Line) -> None:
        """Choose a line; no other has its text."""
        self._by_text[line.text] = line
        line.key = _rarest(line.entry, self._by_word)
        for index, word in self._indexed(line):
            index.setdefault(word, {})[line.text] = line
        self._new.append(line)
        self.tokens += line.tokens

    def remove(self, line: Line) -> None:
        """Choose a line no longer."""
        line.chosen = False
        del self._by_text[line.text]
        for index, word in self._indexed(line):
            del index[word][line.text]
            if not index[word]:
                del index[word]
        if line.shown:
            del self._shown[bisect_left(self._shown, line.place)]
        self._new += [other for other in line.contains if other.within is line]
        self.tokens -= line.tokens

    def _indexed(self, line: Line) -> Iterator[tuple[_Index, str]]:
        for word in line.words:
            yield self._by_word, word
        yield self._by_inner, next(iter(line.inner), "")
        yield self._by_value, line.key

    def holding(self, entry: Entry) -> Iterator[Line]:
        """The lines in which the entry's value occurs; first the one that would be its own, if it is chosen."""
        if own := self._by_text.get(entry.snippet):
            yield own
        found = self._by_word.get(_rarest(entry, self._by_word), _NO_LINES)
        yield from (line for line in found.values() if occurs(entry.value, line.text))

    def quoting(self, some: set[str]) -> list[Line]:
        """The lines that quote a value whose words are all among these."""
        found = [line for word in some & self._by_value.keys() for line in self._by_value[word].values()]
        return [line for line in found if some.issuperset(line.entry.words)]

    def visible(self) -> list[str]:
        """The lines that are no part of another one, in the order of the log."""
        new, self._new = [line for line in self._new if line.chosen], []
        for line in new:
            self._show(line, self._container(line))
        texts = "\n".join([line.text for line in new])
        for word in {"", *(word for line in new for word in line.words)}:
            for other in self._by_inner.get(word, _NO_LINES).values():
                if other.shown and other.text in texts:
                    self._show(
                        other, next((line for line in new if other.text in line.text and line is not other), None)
                    )
        return [text for _, _, text in self._shown]

    def _container(self, line: Line) -> Line | None:
        """A line that this one is a part of."""
        among: Mapping[str, Line] = self._by_text
        if line.inner:
            among = min((self._by_word[word] for word in line.inner), key=len)
        return next((other for text, other in among.items() if line.text in text and other is not line), None)

    def _show(self, line: Line, container: Line | None) -> None:
        """Show the line if there is no other one that it is a part of."""
        line.within = container
        if container is not None:
            container.contains.append(line)
        if container is None and not line.shown:
            insort(self._shown, line.place)
        elif container is not None and line.shown:
            del self._shown[bisect_left(self._shown, line.place)]
        line.shown = container is None
