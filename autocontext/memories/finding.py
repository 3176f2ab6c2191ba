"""Search one user's memories: filter, then rank, then limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from autocontext.errors import InvalidMemory, short
from autocontext.flows.forking import fork_lock
from autocontext.memories import records
from autocontext.memories.records import Memory, ScoredMemory
from autocontext.ranking import RelevanceRanker
from autocontext.stores.checks import check_whole, is_number


@dataclass(frozen=True)
class Query:
    """A search; the fields are those of `MemoryStore.search`. Raises InvalidMemory naming a wrong one."""

    text: str
    limit: int
    min_importance: float
    min_score: float
    tags: Iterable[str]
    tag_match: str
    categories: Iterable[str]
    since: Any
    until: Any
    explain: bool

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidMemory(f"query must be a string (got {short(self.text)})")
        check_whole("limit", self.limit, error=InvalidMemory)
        for name, value in (("min_importance", self.min_importance), ("min_score", self.min_score)):
            if not is_number(value):
                raise InvalidMemory(f"{name} must be a number (got {short(value)})")
        if self.tag_match not in ("any", "all"):
            raise InvalidMemory(f"tag_match must be 'any' or 'all' (got {short(self.tag_match)})")
        object.__setattr__(self, "tags", records.normalised_tags(self.tags))
        categories = {c.strip().lower() for c in records.listed("categories", self.categories)}
        object.__setattr__(self, "categories", categories)
        object.__setattr__(self, "since", records.millis("since", self.since))
        object.__setattr__(self, "until", records.millis("until", self.until))

    def admits(self, memory: Memory, now: int) -> bool:
        """Whether a memory passes the filters."""
        if not memory.in_use(now) or memory.importance < self.min_importance:
            return False
        if self.categories and memory.category not in self.categories:
            return False
        if self.tags and not (all if self.tag_match == "all" else any)(tag in memory.tags for tag in self.tags):
            return False
        return (self.since is None or memory.created_at >= self.since) and (
            self.until is None or memory.created_at <= self.until
        )


class UserIndex:
    """The memories of one user at a revision, and a ranker over them."""

    def __init__(self, ranker: Callable[[], RelevanceRanker]) -> None:
        self.lock = fork_lock()
        self._ranker = ranker()
        self.revision = 0
        self.memories: dict[str, Memory] = {}

    def apply(self, since: int, revision: int, memories: Iterable[Memory], *, everything: bool) -> bool:
        """Bring the index to a revision; an older one is ignored. With `everything`, `memories` are all there are.

        Otherwise they are the changes after revision `since`. False when the index is no longer at that revision: what
        was deleted since is not among them.
        """
        with self.lock:
            if revision <= self.revision:
                return True
            if since != self.revision and not everything:
                return False
            if everything:
                fresh = {m.id: m for m in memories}
                for memory_id in self.memories.keys() - fresh.keys():
                    self._ranker.update(memory_id, None)
                    del self.memories[memory_id]
                memories = fresh.values()
            for memory in memories:
                old = self.memories.get(memory.id)
                if old is None or _indexed(old) != _indexed(memory):
                    self._ranker.update(memory.id, _indexed(memory))
                self.memories[memory.id] = memory
            self.revision = revision
            return True

    def state(self) -> tuple[int, frozenset[str]]:
        """The revision and the ids in the index."""
        with self.lock:
            return self.revision, frozenset(self.memories)

    def listed(self) -> list[Memory]:
        """All memories, oldest first."""
        with self.lock:
            return sorted(self.memories.values(), key=lambda m: (m.created_at, m.id))

    def search(self, query: Query, now: int) -> list[ScoredMemory]:
        """The best memories for a query; for an empty query the most important ones."""
        with self.lock:
            text = query.text.strip()
            # The block of memories names facts by their ids.
            similarities = {**self._ranker.scores(text), text: 1.0} if text else None
            results = [
                scored
                for memory in self.memories.values()
                if query.admits(memory, now)
                and (scored := _scored(memory, similarities, now, explain=query.explain))
                and scored.score >= query.min_score
            ]
        results.sort(key=lambda s: (-s.score, -s.memory.importance, -s.memory.created_at, s.memory.id))
        return results[: query.limit]

    def touched(self, memory_ids: Iterable[str], now: int) -> None:
        """Count an access to these memories, as the database does."""
        with self.lock:
            for memory_id in memory_ids:
                if (memory := self.memories.get(memory_id)) is not None:
                    self.memories[memory_id] = replace(memory, last_accessed=now, access_count=memory.access_count + 1)


def _indexed(memory: Memory) -> str:
    return records.indexed_text(memory.content, memory.tags)


def _scored(memory: Memory, similarities: dict[str, float] | None, now: int, *, explain: bool) -> ScoredMemory | None:
    """Similarity * (0.7 + 0.2 * importance + 0.1 * recency): importance decides between about equal matches."""
    similarity = 1.0 if similarities is None else similarities.get(memory.id, 0.0)
    if similarity <= 0:
        return None
    important, fresh = records.dynamic_importance(memory, now) / 10, records.recency(memory, now)
    score = similarity * (0.7 + 0.2 * important + 0.1 * fresh)
    if not explain:
        return ScoredMemory(memory, score)
    days = max(0, now - memory.created_at) / records.DAY
    parts = {"similarity": similarity, "importance": important, "recency": fresh, "age_days": days}
    return ScoredMemory(memory, score, parts)
