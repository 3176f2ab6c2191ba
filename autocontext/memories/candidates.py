"""Which of many memories may answer a query, by the words in them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property

from autocontext.errors import StoreCorruptError
from autocontext.memories.records import indexed_text
from autocontext.stores.database import Row
from autocontext.stores.search_blocks import Block, BlockWriter, bm25, telling
from autocontext.text.words import is_cjk, terms

_FORMAT = 1
"""Increase it when `terms` changes."""
_LEVEL = 2
"""Of zlib."""
_MOST_TERMS = 128
"""Words of a query that count: the last ones, each once, since what a conversation is about now stands at its end."""
_SHARE = 0.05
"""Share of the memories that the rarest words of a query lead to; more frequent words choose only some candidates."""
_ENOUGH = 200
"""With fewer candidates, also memories are candidates that share only a piece of a word with the query."""
_PIECE = 4
"""Characters of a piece, as in `ranking.features`."""


class DamagedBlock(StoreCorruptError):
    """A block is damaged or of another format; it is made anew from the memories."""


class MemoryBlock:
    """The words of some memories, and their ids."""

    def __init__(
        self, ids: list[str], lengths: list[int], categories: dict[str, list[int]], parts: Sequence[Sequence[str]]
    ) -> None:
        self.ids, self.lengths, self._categories, self._parts = ids, lengths, categories, parts

    @classmethod
    def of(cls, rows: Sequence[Row]) -> MemoryBlock:
        """The block of memories by their id, content, tags (JSON) and category."""
        writer, categories = BlockWriter(), dict[str, list[int]]()
        for i, (*_, category) in enumerate(rows):
            categories.setdefault(category, []).append(i)
        lengths = [writer.add(indexed_text(content, _tags(tags))) for _, content, tags, _ in rows]
        return cls([row[0] for row in rows], lengths, categories, writer.blocks())

    @cached_property
    def _blocks(self) -> list[Block]:
        return [Block(part.__getitem__) for part in self._parts]

    @cached_property
    def total(self) -> int:
        """The length of all texts in words."""
        return sum(self.lengths)

    def holders(self, term: str) -> Counter[int]:
        """How often each memory that holds a term holds it, by place."""
        return _sum([block.holders(term) for block in self._blocks])

    def containing(self, piece: str) -> Counter[int]:
        """How often each memory holds a word with these characters in it."""
        return _sum([block.containing(piece) for block in self._blocks])

    def of_categories(self, categories: Collection[str]) -> Iterator[str]:
        """The ids of the memories of these categories."""
        return (self.ids[i] for category in categories for i in self._categories.get(category, ()))

    def packed(self) -> bytes:
        """The stored form."""
        fields = [_FORMAT, self.ids, self.lengths, self._categories, self._parts]
        return zlib.compress(json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass"), _LEVEL)

    @classmethod
    def unpacked(cls, body: bytes) -> MemoryBlock:
        """The block in these bytes. Raises DamagedBlock if they have changed, or are of another format."""
        try:
            version, *fields = json.loads(zlib.decompress(body).decode("utf-8", "surrogatepass"))
        except (ValueError, TypeError, zlib.error) as e:
            raise DamagedBlock(f"the index of memories is damaged ({e})") from e
        if version != _FORMAT:
            raise DamagedBlock("the index of memories is old")
        return cls(*fields)


def _tags(text: str) -> list[str]:
    """The tags in a JSON text; none if it is damaged, which whoever reads the memory is told."""
    if text == "[]":  # of most memories
        return []
    try:
        tags = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def _sum(counts: Sequence[Counter[int]]) -> Counter[int]:
    return counts[0] if len(counts) == 1 else sum(counts, Counter[int]())  # mostly one


def candidates(blocks: Sequence[MemoryBlock], text: str, *, everything: bool = False) -> list[str]:
    """The ids of the memories that share words with a text, by BM25 over these words, best first.

    `everything`: frequent words lead to all memories that hold them, too.
    """
    count = sum(len(block.ids) for block in blocks)
    if not count:
        return []
    different = list(dict.fromkeys(reversed(list(terms(text)))))[:_MOST_TERMS]
    words = telling(different)
    rare = words if everything else _rare(blocks, words, MemoryBlock.holders)
    scores = Counter(_scores(blocks, {term: [block.holders(term) for block in blocks] for term in rare}))
    if len(scores) < _ENOUGH:
        every = dict.fromkeys(piece for word in words for piece in _pieces(word))
        pieces = _rare(blocks, every, MemoryBlock.containing)
        found = {piece: [block.containing(piece) for block in blocks] for piece in pieces}
        scores.update({place: score / len(pieces) for place, score in _scores(blocks, found).items()})
    for word in words:
        if word not in rare and len(scores) < _ENOUGH:
            scores.update(_scores(blocks, {word: _some(blocks, word)}))
    return [blocks[n].ids[i] for _, n, i in sorted((-score, n, i) for (n, i), score in scores.items())]


def _rare(
    blocks: Sequence[MemoryBlock], words: Iterable[str], held_by: Callable[[MemoryBlock, str], Sized]
) -> list[str]:
    """The rarest words, judged by the largest block: so many that they lead to enough memories."""
    sample = max(blocks, key=lambda block: len(block.ids))
    share = max(_SHARE, 2 * _ENOUGH / sum(len(block.ids) for block in blocks))
    chosen: list[str] = []
    left = share * len(sample.ids)
    for held, word in sorted((len(held_by(sample, word)), word) for word in words):
        left -= held
        if left < 0:
            break
        chosen.append(word)
    return chosen


def _some(blocks: Sequence[MemoryBlock], word: str) -> list[Counter[int]]:
    """Enough of the memories that hold a frequent word: the blocks after these are not looked at."""
    found: list[Counter[int]] = []
    for block in blocks:
        found.append(block.holders(word) if sum(map(len, found)) < _ENOUGH else Counter())
    return found


def _pieces(word: str) -> Iterator[str]:
    if is_cjk(word):
        yield from word
    elif len(word) >= _PIECE:
        yield from (word[i : i + _PIECE] for i in range(len(word) - _PIECE + 1))


def _scores(
    blocks: Sequence[MemoryBlock], found: Mapping[str, Sequence[Mapping[int, int]]]
) -> dict[tuple[int, int], float]:
    texts, total = sum(len(block.ids) for block in blocks), sum(block.total for block in blocks)
    return bm25(found.values(), lambda n: blocks[n].lengths, texts, total)[0]
