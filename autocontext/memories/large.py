"""The stored index of users with many memories: a search reads what is new, and the memories that it ranks.

Memories are indexed in blocks, each a row with the words of up to 1,024 of them. When a memory changes or goes, its
block goes with it, and the next search makes a new one of those that are left.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial

from autocontext.errors import StoreError
from autocontext.memories import statements
from autocontext.memories.candidates import DamagedBlock, MemoryBlock, candidates
from autocontext.memories.finding import Query, UserIndex
from autocontext.memories.records import Memory, ScoredMemory
from autocontext.ranking import TfidfRanker
from autocontext.stores.database import Database, Work
from autocontext.stores.kept import Kept

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
        ids = candidates(blocks, text)
        index, admitted = UserIndex(TfidfRanker), list[Memory]()
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

    def near(self, user_id: str, text: str, categories: Collection[str], count: int, now: int) -> list[Memory]:
        """So many memories in use that are near a text, as many of these categories, and some of the surest."""
        blocks = self._blocks(user_id)

        def in_use(ids: Sequence[str]) -> list[Memory]:
            return self._in_use(lambda done: statements.some(user_id, ids[done : done + count]), count, now)

        ids = candidates(blocks, text) if text.strip() else []
        best = in_use(ids)
        if len(best) < min(count, len(ids)):  # others are no longer in use: frequent words lead to more
            best = in_use(candidates(blocks, text, everything=True))
        asked = in_use([id_ for block in blocks for id_ in block.of_categories(categories)])
        sure = self._in_use(lambda done: statements.foremost(user_id, "confidence", 1, count, done), count // 4, now)
        by_id = {memory.id: memory for memory in (*best, *asked, *sure)}
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
                made = self._database.write(partial(_indexing, user_id))
            except StoreError:  # somebody else writes, or nobody may: the index waits, and the search does not
                return self._database.read(partial(self._current, user_id, sys.maxsize)) or []
            if made is not None:
                number, block, size = made
                self._kept.put((user_id, number), block, size)

    def _current(self, user_id: str, few: int = FEW) -> Work[list[MemoryBlock] | None]:
        """The blocks; None if more memories than these are in none."""
        numbers = yield from statements.blocks(user_id)
        rest = yield from statements.outside(user_id, min(few + 1, sys.maxsize))
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


def _indexing(user_id: str) -> Work[tuple[int, MemoryBlock, int] | None]:
    """Make the next block of the memories that are in none, if they are many: its number, the block, stored bytes."""
    yield from statements.lock(user_id)
    rest = yield from statements.outside(user_id, MOST)
    if len(rest) <= FEW:
        return None
    number, block = secrets.randbits(62), MemoryBlock.of(rest)
    body = block.packed()
    yield from statements.put_block(user_id, number, rest[-1][0], body)
    return number, block, len(body)
