"""Texts as a search index keeps them: word by word, and asked for words.

A block is its texts again: of each the runs of CJK characters, and a character for each of its other chunks, which says
on which line of the vocabulary the chunk stands. So building one takes no longer than splitting the texts. What takes
long, finding words and their stems in the chunks, is left to the question, which looks at few chunks: those that hold
the root of a word that is asked for.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import Any

from autocontext.caches import cached
from autocontext.text.stems import roots, stem
from autocontext.text.stop_words import STOP_WORDS
from autocontext.text.words import is_cjk, rarity, split, terms_of_chunk

_K1, _B = 1.2, 0.5
"""BM25's k1 and b, as in `autocontext.ranking`."""
_WEAK = {stem(word) for word in STOP_WORDS}
_SURROGATES = range(0xD800, 0xE000)
_MOST_CHUNKS = 1_000_000
"""Different ones of a block, before the last stretch: there are 1,112,064 characters."""
_UTF8 = "utf-8", "surrogatepass"
_ENDS = bytes(byte == ord("\n") for byte in range(256))
"""Of a vocabulary: what tells where its lines end."""
_STEP = 1024
"""Bytes of a vocabulary after which its lines are counted once."""
_FEW = 8
"""Different chunks that a text is looked through for one after the other; more are looked for at once."""
_MANY = 1_000
"""Different chunks that no regular expression is made of, which takes 10 us for each."""
_WORDS_KEPT = 256
"""Words whose roots are kept: a query asks each segment for the same ones."""


class Block:
    """Texts that follow each other; one that is too long for it goes on as the first one of the next block."""

    ENCODINGS = (None, "utf-16-le", "utf-16-le", "utf-8")
    """Of what is stored: the vocabulary, the chunks, the runs, and where each text begins and ends. None: as it is."""

    def __init__(self, load: Callable[[int], Any]) -> None:
        """`load` gives what is stored, by its place in ENCODINGS: texts, and the vocabulary in UTF-8."""
        self._load = load

    @cached_property
    def _vocabulary(self) -> bytes:
        return bytes(self._load(0))

    @cached_property
    def _lowered(self) -> bytes:
        # Of what lower case depends on its neighbours, there is only the sigma.
        return utf8(f"\n{self._vocabulary.decode(*_UTF8)}\n".lower().replace("ς", "σ"))

    @cached_property
    def _lines(self) -> Sequence[int]:
        """How many lines begin before every so many bytes."""
        text = self._lowered
        counts = (text.count(b"\n", at, at + _STEP) for at in range(0, len(text), _STEP))
        return array("i", accumulate(counts, initial=-1))

    def _line(self, at: int) -> int:
        """The number of the line of the vocabulary with this byte."""
        step = at // _STEP
        return self._lines[step] + self._lowered.count(b"\n", step * _STEP, at)

    @cached_property
    def _aligned(self) -> bool:
        """Whether each line is as long in lower case."""
        return self._lowered.translate(_ENDS) == (b"\n%b\n" % self._vocabulary).translate(_ENDS)

    @cached_property
    def _chunks(self) -> list[bytes]:
        return self._vocabulary.split(b"\n")

    def _chunk(self, at: int, end: int) -> str:
        """The chunk on a line that has a byte here, and that ends there."""
        if self._aligned:
            chunk = self._vocabulary[self._lowered.rfind(b"\n", 0, at) : end - 1]
        else:
            chunk = self._chunks[self._line(at)]
        return chunk.decode(*_UTF8)

    @cached_property
    def _text(self) -> str:
        return str(self._load(1))

    @cached_property
    def _runs(self) -> str:
        return str(self._load(2))

    @cached_property
    def _places(self) -> tuple[int, Sequence[int], Sequence[int]]:
        """The number of the first text, and where each ends in `_text` and in `_runs`."""
        first, ends, run_ends = json.loads(self._load(3))
        return first, array("I", ends), array("I", run_ends)  # a seventh of a list of numbers

    def words(self) -> bytes:
        """A text with one of a term's `signs` in it if a text of the block holds the term."""
        return self._lowered + utf8(self._runs)

    def holders(self, term: str, among: Iterable[int] | None = None) -> Counter[int]:
        """How often each text (`among`: of these) that holds a term holds it, by the text's number.

        A single sign of a script without spaces is found in any run.
        """
        if is_cjk(term):
            return self._count({term: 1}, self._runs, self._places[2], among) if term in self._runs else Counter()
        codes = self._codes(term)
        return self._count(codes, self._text, self._places[1], among) if codes else Counter()

    def containing(self, piece: str) -> Counter[int]:
        """How often each text holds a chunk with these characters in it, in any case, by the text's number."""
        if is_cjk(piece):
            return self.holders(piece)
        codes = self._codes_with(piece)
        return self._count(codes, self._text, self._places[1]) if codes else Counter()

    def occurrences(self, text: str, *, piece: bool = False) -> int:
        """How often the chunks with a term occur, or those with a piece; a line break in it begins a chunk."""
        if is_cjk(text):
            return self._runs.count(text)
        return sum(map(self._times.__getitem__, self._codes_with(text) if piece else self._codes(text)))

    @cached_property
    def _times(self) -> Counter[str]:
        return Counter(self._text)

    def _codes_with(self, piece: str) -> dict[str, int]:
        """The characters that stand for the chunks with a piece."""
        return {_code(self._line(at + 1)): 1 for at, _ in self._found(utf8(piece))}

    def _codes(self, term: str) -> dict[str, int]:
        """The characters that stand for the chunks with this term, and how often each chunk has it."""
        chunks = ((at, self._chunk(at, end)) for root in signs(term) for at, end in self._found(root))
        counts = ((at, terms_of_chunk(chunk).count(term)) for at, chunk in chunks)
        return {_code(self._line(at)): times for at, times in counts if times}

    def _found(self, sign: bytes) -> Iterator[tuple[int, int]]:
        """Where the chunks with this sign have it first, and where they end."""
        at = self._lowered.find(sign)
        while at >= 0:
            end = self._lowered.find(b"\n", at + 1)
            yield at, end
            at = self._lowered.find(sign, end)

    def texts(self, step: int) -> Iterator[str]:
        """Every so manyth text as its words: the chunks, and the runs."""
        chunks = self._vocabulary.split(b"\n")
        _, ends, run_ends = self._places
        for n in range(0, len(ends), step):
            words = (chunks[_number(code)].decode(*_UTF8) for code in self._text[ends[n - 1] if n else 0 : ends[n]])
            yield " ".join((*words, self._runs[run_ends[n - 1] if n else 0 : run_ends[n]]))

    def _count(
        self, signs: Mapping[str, int], text: str, ends: Sequence[int], among: Iterable[int] | None = None
    ) -> Counter[int]:
        first = self._places[0]
        counts: Counter[int] = Counter()
        few = len(signs) <= _FEW
        if few and among is None:
            for sign, times in signs.items():
                at = text.find(sign)
                while at >= 0:
                    i = bisect_right(ends, at)
                    counts[first + i] += times * text.count(sign, at, ends[i])
                    at = text.find(sign, ends[i])
            return counts
        either = None
        if among is None and len(signs) <= _MANY:
            either = re.compile(f"[{''.join(map(re.escape, signs))}]")
        for n in range(len(ends)) if among is None else [i - first for i in among if first <= i < first + len(ends)]:
            start, end = ends[n - 1] if n else 0, ends[n]
            if few:
                held = sum(times * text.count(sign, start, end) for sign, times in signs.items())
            else:
                found = either.findall(text, start, end) if either else text[start:end]
                held = sum(map(signs.get, found, repeat(0)))
            if held:
                counts[first + n] = held
        return counts


@cached(_WORDS_KEPT)
def signs(term: str) -> tuple[bytes, ...]:
    """Texts, one of which the chunks or runs with a term have, in lower case and UTF-8."""
    return (utf8(term),) if is_cjk(term) else tuple(utf8(root.replace("ς", "σ")) for root in roots(term))


def utf8(text: str) -> bytes:
    """A text as it is looked through: a `str` takes up to four times as much for a single rare character."""
    return text.encode(*_UTF8)


def telling(words: list[str]) -> list[str]:
    """The words that say something about the subject of a text; all of them if none does."""
    return [word for word in words if word not in _WEAK] or words


def bm25(
    found: Iterable[tuple[float, Sequence[Mapping[int, int]]]],
    lengths: Callable[[int], Sequence[int]],
    texts: int,
    total: int,
) -> tuple[dict[tuple[int, int], float], float]:
    """The scores of texts by their part and place in it, and the limit that no score reaches.

    `found` has, for each word, how many texts hold it, and for each part how often which text does; `lengths` gives
    those of a part's texts, in words, and `total` is the length of all `texts`. BM25 (Robertson and Walker 1994) with
    the inverse document frequency of Lucene.
    """
    mean = total / texts if total else 1.0
    scores: dict[tuple[int, int], float] = {}
    limit = 0.0
    for holders, parts in found:
        weight = rarity(holders, texts)
        limit += weight
        for n, counts in enumerate(parts):
            for i, times in counts.items():
                damping = _K1 * (1 - _B + _B * lengths(n)[i] / mean)
                scores[n, i] = scores.get((n, i), 0.0) + weight * times / (times + damping)
    return scores, limit


class BlockWriter:
    """Makes blocks of texts; a block takes up to `most` different chunks and those of one more stretch."""

    def __init__(self, most: int = _MOST_CHUNKS) -> None:
        self._most = most
        self._blocks: list[tuple[bytes, str, str, str]] = []
        self.count = 0
        """Texts."""
        self._begin()

    def _begin(self) -> None:
        self._first = self.count
        # No halves of a pair: UTF-16 would take two of them for one character.
        points = chain(range(_SURROGATES.start), range(_SURROGATES.stop, 0x110000))
        self._codes: defaultdict[str, str] = defaultdict(map(chr, points).__next__)
        self._words: list[str] = []
        self._runs: list[str] = []

    def add(self, text: str) -> int:
        """Take in a text; its length in words, where a CJK character counts as one."""
        length = 0
        words: list[str] = []
        runs: list[str] = []
        for cjk, chunks in split(text):
            if len(self._codes) > self._most:
                self._end_text(words, runs)
                self._end_block()
                words, runs = [], []
            words.append("".join(map(self._codes.__getitem__, chunks)))
            length += len(chunks)
            if cjk:
                runs += cjk
                length += sum(map(len, cjk))
        self._end_text(words, runs)
        self.count += 1
        return length

    def blocks(self) -> list[tuple[bytes, str, str, str]]:
        """What `load` gives of each block of the texts that were added."""
        self._end_block()
        return self._blocks

    def _end_text(self, words: Sequence[str], runs: Sequence[str]) -> None:
        self._words.append(words[0] if len(words) == 1 else "".join(words))
        # Each with a blank behind it, so that none goes on in the next one.
        self._runs.append(" ".join((*runs, "")) if runs else "")

    def _end_block(self) -> None:
        if self._words:
            ends, run_ends = (list(accumulate(map(len, texts))) for texts in (self._words, self._runs))
            places = json.dumps([self._first, ends, run_ends])
            self._blocks.append((utf8("\n".join(self._codes)), "".join(self._words), "".join(self._runs), places))
        self._begin()


def _code(line: int) -> str:
    """The character for a line of the vocabulary."""
    return chr(line if line < _SURROGATES.start else line + len(_SURROGATES))


def _number(code: str) -> int:
    """The line of a character."""
    return ord(code) - (len(_SURROGATES) if ord(code) >= _SURROGATES.stop else 0)
