"""The stored index of users with many memories: a search reads what is new, and the memories that it ranks.

Memories are indexed in blocks, each a row with the words of up to 1,024 of them. When a memory changes or goes, its
block goes with it, and the next search makes a new one of those that are left.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection
from functools import partial

from autocontext.errors import StoreCorruptError
from autocontext.flows.forking import fork_lock
from autocontext.memories import statements
from autocontext.memories.candidates import MemoryBlock, candidates
from autocontext.memories.finding import Query, UserIndex
from autocontext.memories.records import Memory, ScoredMemory
from autocontext.ranking import TfidfRanker
from autocontext.stores.database import Database, Work

FEW = 512
"""With more memories than these a user is indexed in blocks; so many may be in none."""
MOST = 1024
"""Memories of a block: it is made anew when one of them changes."""
_MOST_KEPT = 16_000_000
"""Stored bytes of the blocks that a process keeps: more than 100,000 memories, 90 MB when unpacked."""
_RANKED = 100
"""Memories to rank first; more if these are too few."""


class LargeIndex:
    """The blocks of all users, and the memories that they lead to. Reads and writes the database itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = fork_lock()
        self._kept: OrderedDict[tuple[str, int], tuple[MemoryBlock, int]] = OrderedDict()
        self._size = 0

    def search(self, user_id: str, query: Query, now: int) -> list[ScoredMemory]:
        """The best memories for a query, ranked among the candidates; for an empty query the most important ones."""
        text, count, done = query.text.strip(), max(_RANKED, 4 * query.limit), 0
        ids = candidates(self._blocks(user_id), text) if text else []
        index, admitted = UserIndex(TfidfRanker), list[Memory]()
        while True:
            if text:
                read = partial(statements.some, user_id, ids[done : done + count])
            else:
                read = partial(statements.foremost, user_id, "importance", query.min_importance, count, done)
            memories = self._database.read(read)
            admitted += [memory for memory in memories if query.admits(memory, now)]
            done += count
            index.apply(done - count, done, admitted, everything=True)
            hits = index.search(query, now)
            if len(hits) >= query.limit or (done >= len(ids) if text else len(memories) < count):
                return hits
            count = done  # twice as many, so that ranking again costs no more than the last time

    def near(self, user_id: str, text: str, categories: Collection[str], count: int, now: int) -> list[Memory]:
        """So many memories in use that are near a text, as many of these categories, and some of the surest."""
        blocks = self._blocks(user_id)
        ids = dict.fromkeys(candidates(blocks, text)[:count]) if text.strip() else {}
        ids |= dict.fromkeys([id_ for block in blocks for id_ in block.of_categories(categories)][:count])
        found = [
            *self._database.read(partial(statements.some, user_id, ids)),
            *self._database.read(partial(statements.foremost, user_id, "confidence", 1, count // 4, 0)),
        ]
        by_id = {memory.id: memory for memory in found if memory.in_use(now)}
        return sorted(by_id.values(), key=lambda m: (m.created_at, m.id))

    def _blocks(self, user_id: str) -> list[MemoryBlock]:
        """The blocks of a user, up to date, and one of what is in none."""
        while True:
            try:
                blocks = self._database.read(partial(self._current, user_id))
            except StoreCorruptError:
                self._database.write(partial(statements.drop_blocks, user_id))
                continue
            if blocks is not None:
                return blocks
            self._database.write(partial(_indexing, user_id))

    def _current(self, user_id: str) -> Work[list[MemoryBlock] | None]:
        """The blocks; None if too many memories are in none."""
        numbers = yield from statements.blocks(user_id)
        rest = yield from statements.outside(user_id, FEW + 1)
        if len(rest) > FEW:
            return None
        found = self._known(user_id, numbers)
        for number in numbers:
            if number not in found:
                body = yield from statements.block(user_id, number)
                found[number] = MemoryBlock.unpacked(body)
                self._keep((user_id, number), found[number], len(body))
        return [*found.values(), MemoryBlock.of(rest)]

    def _known(self, user_id: str, numbers: Collection[int]) -> dict[int, MemoryBlock]:
        """The kept ones of these blocks; others of this user are forgotten, because they went."""
        found = {}
        with self._lock:
            for key in [key for key in self._kept if key[0] == user_id]:
                if key[1] in numbers:
                    self._kept.move_to_end(key)
                    found[key[1]] = self._kept[key][0]
                else:
                    self._size -= self._kept.pop(key)[1]
        return found

    def _keep(self, key: tuple[str, int], block: MemoryBlock, size: int) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = block, size
                self._size += size
            while self._size > _MOST_KEPT:
                _, (_, gone) = self._kept.popitem(last=False)
                self._size -= gone


def _indexing(user_id: str) -> Work[None]:
    """Make the next block of the memories that are in none, if they are many."""
    yield from statements.lock(user_id)
    rest = yield from statements.outside(user_id, MOST)
    if len(rest) > FEW:
        yield from statements.put_block(user_id, secrets.randbits(62), rest[-1][0], MemoryBlock.of(rest).packed())
