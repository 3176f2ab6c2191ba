"""The stored index of users with many memories: a search reads what is new, and the memories that it ranks.

Memories are indexed in blocks, each a row with the words of up to 1,024 of them. When a memory changes or goes, its
block goes with it, and the next search makes a new one of those that are left.
"""

from __future__ import annotations

import json
import secrets
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

from autocontext.errors import StoreCorruptError, StoreError
from autocontext.memories import statements
from autocontext.memories.finding import Query, UserIndex
from autocontext.memories.records import Memory, ScoredMemory, indexed_text
from autocontext.ranking import TfidfRanker
from autocontext.ranking.features import gram_of
from autocontext.stores.database import AtOnce, Database, Row, Work
from autocontext.stores.kept import Kept
from autocontext.stores.search_blocks import Block, BlockWriter, bm25, telling, utf8
from autocontext.text.words import is_cjk, rarity, terms

FEW = 512
"""With more memories than these a user is indexed in blocks; so many may be in none."""
MOST = 1024
"""Memories of a block: it is made anew when one of them changes."""
_MOST_KEPT = 16_000_000
"""Stored bytes of the blocks that a process keeps: more than 100,000 memories, 45 MB when unpacked."""
_RANKED = 100
"""Memories to rank first; more if these are too few."""


class LargeIndex:
    """The blocks of all users, and the memories that they lead to. Reads and writes the database itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: Kept[tuple[str, int], MemoryBlock] = Kept(_MOST_KEPT)

    def search(self, user_id: str, query: Query, now: int) -> list[ScoredMemory]:
        """The best memories for a query, ranked among the candidates; for an empty query the most important ones."""
        text, count, done, left_out = query.text.strip(), max(_RANKED, 4 * query.limit), 0, False
        blocks = self._blocks(user_id) if text else []
        # An id leads to its memory, if a database can ask for it.
        ids = ([text] if text.isprintable() else []) + candidates(blocks, text)
        index, admitted = UserIndex(lambda: _OfMany(blocks)), list[Memory]()
        while True:
            if text:
                read = partial(statements.some, user_id, ids[done : done + count])
            else:
                read = partial(statements.foremost, user_id, "importance", query.min_importance, count, done)
            memories = self._database.read(read)
            fitting = [memory for memory in memories if query.admits(memory, now)]
            left_out |= len(fitting) < len(memories)
            admitted += fitting
            done += count
            index.apply(done - count, done, admitted, everything=True)
            hits = index.search(query, now)
            if len(hits) >= query.limit:
                return hits
            if text and done >= len(ids) and left_out:
                # What the rarest words led to is left out: the frequent ones lead to the others.
                known, left_out = set(ids), False
                ids += [id_ for id_ in candidates(blocks, text, everything=True) if id_ not in known]
                done = len(known)
            if done >= len(ids) if text else len(memories) < count:
                return hits
            count = done  # twice as many, so that ranking again costs no more than the last time

    def near(
        self, user_id: str, text: str, categories: Collection[str], count: int, now: int, *, ids: Collection[str] = ()
    ) -> list[Memory]:
        """So many memories in use that are near a text, as many of these categories, and a quarter of the surest.

        And those with these ids. Where few are near, the surest take their places.
        """
        blocks = self._blocks(user_id)

        def in_use(ids: Sequence[str]) -> list[Memory]:
            return self._in_use(lambda done: statements.some(user_id, ids[done : done + count]), count, now)

        close = candidates(blocks, text)
        best = in_use(close)
        if len(best) < min(count, len(close)):  # others are no longer in use: frequent words lead to more
            best = in_use(candidates(blocks, text, everything=True))
        asked = in_use([id_ for block in blocks for id_ in block.of_categories(categories)])
        size = max(count // 4, count - len(best))
        sure = self._in_use(lambda done: statements.foremost(user_id, "confidence", 1, size, done), count // 4, now)
        by_id = {memory.id: memory for memory in (*best, *asked, *sure, *in_use(list(ids)))}
        return sorted(by_id.values(), key=lambda m: (m.created_at, m.id))

    def _in_use(self, read: Callable[[int], Work[list[Memory]]], count: int, now: int) -> list[Memory]:
        """At least so many memories in use, as far as there are, of what `read` gives from a place on."""
        found, done = list[Memory](), 0
        while len(found) < count and (memories := self._database.read(partial(read, done))):
            found += [memory for memory in memories if memory.in_use(now)]
            done += max(count, len(memories))
        return found

    def _blocks(self, user_id: str) -> list[MemoryBlock]:
        """The blocks of a user, up to date, and one of what is in none."""
        while True:
            try:
                blocks = self._database.read(partial(self._current, user_id))
            except DamagedBlock:
                self._database.write(partial(statements.drop_blocks, user_id))
                continue
            if blocks is not None:
                return blocks
            try:
                self._database.write(partial(self._indexing, user_id))
            except StoreError:  # somebody else writes, or nobody may: the index waits, and the search does not
                return self._database.read(partial(self._current, user_id, sys.maxsize - 1)) or []

    def _current(self, user_id: str, few: int = FEW) -> Work[list[MemoryBlock] | None]:
        """The blocks; None if more memories than these are in none."""
        numbers = yield from statements.blocks(user_id)
        rest = yield from statements.outside(user_id, few + 1)
        if len(rest) > few:
            return None
        found = []
        for number in numbers:
            block = self._kept.get((user_id, number))
            if block is None:
                body = yield from statements.block(user_id, number)
                block = MemoryBlock.unpacked(body)
                self._kept.put((user_id, number), block, len(body))
            found.append(block)
        return [*found, MemoryBlock.of(rest)]

    def _indexing(self, user_id: str) -> Work[None]:
        """Make the next block of the memories that are in none, if they are many."""
        yield from statements.lock(user_id, AtOnce)
        rest = yield from statements.outside(user_id, MOST)
        if len(rest) > FEW:
            number, block = secrets.randbits(62), MemoryBlock.of(rest)
            body = block.packed()
            yield from statements.put_block(user_id, number, rest[-1][0], body)
            self._kept.put((user_id, number), block, len(body))


class _OfMany(TfidfRanker):
    """Ranks a few of many memories as if it had them all: how rare a feature is, and how large a text, blocks say."""

    def __init__(self, blocks: Sequence[MemoryBlock]) -> None:
        super().__init__()
        self._blocks = blocks

    @property
    def mean_size(self) -> float:
        return _sample(self._blocks)[0].mean_size or super().mean_size

    def _rarities(self, features: Collection[str]) -> list[float]:
        if len(features) > _MOST_FEATURES:
            return super()._rarities(features)
        (sample, factor), texts = _sample(self._blocks), sum(len(block.ids) for block in self._blocks)
        # The sample may lack what these memories hold.
        return [rarity(max(len(self._lists.get(f, ())), factor * sample.holding(f)), texts) for f in features]


_FORMAT = 1
"""Increase it when `terms` changes."""
_LEVEL = 2
"""Of zlib."""
_MOST_TERMS = 128
"""Words of a query that count: the last ones, each once, since what a conversation is about now stands at its end."""
_SHARE = 0.05
"""Share of the memories that the rarest words of a query lead to; more frequent words only rank these."""
_ENOUGH = 200
"""With fewer candidates, more frequent words lead to some, too, and pieces that a memory shares with the query."""
_TELLING = 8
"""So many of the rarest words rank the candidates at least."""
_MOST_HOLDERS = 20_000
"""Of a frequent word: how many memories it leads to, about."""
_MOST_FEATURES = 500
"""Of a query that a block is asked for; each takes 50 us."""
_EVERY = 8
"""One in so many memories of a block tells how large they are."""
_PIECE = 4
"""Characters of a piece, as in `ranking.features`."""


class DamagedBlock(StoreCorruptError):
    """A block is damaged or of another format; it is made anew from the memories."""


@dataclass
class MemoryBlock:
    """The words of some memories, and their ids."""

    ids: list[str]
    lengths: list[int]
    categories: Mapping[str, Sequence[int]]
    """Places in `ids`."""
    parts: Sequence[Sequence[Any]]
    """What a `Block` loads, of each."""

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
        return [Block(part.__getitem__) for part in self.parts]

    @cached_property
    def total(self) -> int:
        """The length of all texts in words."""
        return sum(self.lengths)

    @cached_property
    def mean_size(self) -> float:
        """The size of a text for a ranker, on average."""
        ranker = TfidfRanker()
        for i, text in enumerate(text for block in self._blocks for text in block.texts(_EVERY)):
            ranker.update(str(i), text)
        return ranker.mean_size

    def holders(self, term: str, among: Collection[int] | None = None) -> Counter[int]:
        """How often each memory (`among`: of these) that holds a term holds it, by place."""
        return _sum([block.holders(term, among) for block in self._blocks])

    def containing(self, piece: str) -> Counter[int]:
        """How often each memory holds a word with these characters in it."""
        return _sum([block.containing(piece) for block in self._blocks])

    def holding(self, feature: str) -> int:
        """About how many memories hold a feature of a ranker."""
        gram = gram_of(feature)
        number = sum(block.occurrences(gram or feature, piece=bool(gram)) for block in self._blocks)
        return min(len(self.ids), number)

    def of_categories(self, categories: Collection[str]) -> Iterator[str]:
        """The ids of the memories of these categories."""
        return (self.ids[i] for category in categories for i in self.categories.get(category, ()))

    def packed(self) -> bytes:
        """The stored form."""
        parts = [(vocabulary.decode("utf-8", "surrogatepass"), *rest) for vocabulary, *rest in self.parts]
        fields = [_FORMAT, self.ids, self.lengths, self.categories, parts]
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
        ids, lengths, categories, parts = fields
        return cls(ids, lengths, categories, [(utf8(vocabulary), *rest) for vocabulary, *rest in parts])


_HeldBy: TypeAlias = Callable[[MemoryBlock, str], Counter[int]]
"""`MemoryBlock.holders` or `containing`."""


def _tags(text: str) -> list[str]:
    """The tags in a JSON text; none if it is damaged, which whoever reads the memory is told."""
    with suppress(ValueError, TypeError, RecursionError):
        return list(map(str, json.loads(text)))
    return []


def _sum(counts: Sequence[Counter[int]]) -> Counter[int]:
    return counts[0] if len(counts) == 1 else sum(counts, Counter[int]())  # mostly one


def candidates(blocks: Sequence[MemoryBlock], text: str, *, everything: bool = False) -> list[str]:
    """The ids of memories that share words with a text, by BM25 over these words, best first.

    The rarest words lead to them. `everything`: all words do.
    """
    count = sum(len(block.ids) for block in blocks)
    if not count:
        return []
    different = list(dict.fromkeys(reversed(list(terms(text)))))[:_MOST_TERMS]
    words = telling(different)
    held = _rarest_first(blocks, words, MemoryBlock.holders)
    few = max(_SHARE * count, 2 * _ENOUGH)
    rare = list(held) if everything else _within(held, few)
    scores = _led_to(blocks, rare, MemoryBlock.holders)
    if len(scores) < _ENOUGH:
        every = dict.fromkeys(piece for word in words for piece in _pieces(word))
        pieces = _within(_rarest_first(blocks, every, MemoryBlock.containing), few)
        of_pieces = _led_to(blocks, pieces, MemoryBlock.containing)
        scores.update({place: score / len(pieces) for place, score in of_pieces.items()})
    for n, word in enumerate(held):
        if word not in rare and (n < _TELLING or len(scores) < _ENOUGH):
            holders = _some(blocks, word) if len(scores) < _ENOUGH else _among(blocks, word, scores)
            scores.update(_scores(blocks, [(held[word], holders)]))
    return [blocks[n].ids[i] for _, n, i in sorted((-score, n, i) for (n, i), score in scores.items())]


def _sample(blocks: Sequence[MemoryBlock]) -> tuple[MemoryBlock, float]:
    """The largest block, and how many times as many memories there are."""
    largest = max(blocks, key=lambda block: len(block.ids))
    return largest, sum(len(block.ids) for block in blocks) / max(1, len(largest.ids))


def _rarest_first(blocks: Sequence[MemoryBlock], words: Iterable[str], held_by: _HeldBy) -> dict[str, float]:
    """About how many memories hold each word."""
    sample, factor = _sample(blocks)
    return {word: held * factor for held, word in sorted((len(held_by(sample, word)), word) for word in words)}


def _within(held: Mapping[str, float], most: float) -> list[str]:
    """The first words, which lead to so many memories at most."""
    chosen: list[str] = []
    for word, number in held.items():
        most -= number
        if most < 0:
            break
        chosen.append(word)
    return chosen


def _led_to(blocks: Sequence[MemoryBlock], words: Iterable[str], held_by: _HeldBy) -> Counter[tuple[int, int]]:
    """The scores of all memories that hold one of the words or pieces, by block and place in it."""
    found = [[held_by(block, word) for block in blocks] for word in words]
    return Counter(_scores(blocks, [(sum(map(len, parts)), parts) for parts in found]))


def _some(blocks: Sequence[MemoryBlock], word: str) -> list[Counter[int]]:
    """The memories that hold a word, up to a limit: the blocks after these are not looked at."""
    found, number = list[Counter[int]](), 0
    for block in blocks:
        found.append(block.holders(word) if number < _MOST_HOLDERS else Counter())
        number += len(found[-1])
    return found


def _among(blocks: Sequence[MemoryBlock], word: str, places: Iterable[tuple[int, int]]) -> list[Counter[int]]:
    """Those at these places, by block and place in it, that hold a word."""
    by_block: list[list[int]] = [[] for _ in blocks]
    for n, i in places:
        by_block[n].append(i)
    return [block.holders(word, those) for block, those in zip(blocks, by_block, strict=True)]


def _pieces(word: str) -> list[str]:
    return list(word) if is_cjk(word) else [word[i : i + _PIECE] for i in range(len(word) - _PIECE + 1)]


def _scores(
    blocks: Sequence[MemoryBlock], found: Iterable[tuple[float, Sequence[Mapping[int, int]]]]
) -> dict[tuple[int, int], float]:
    texts, total = sum(len(block.ids) for block in blocks), sum(block.total for block in blocks)
    return bm25(found, lambda n: blocks[n].lengths, texts, total)[0]
