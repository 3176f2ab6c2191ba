"""The figures that `ResultCache.stats()` returns."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds, and what this process did since opening it; `stats["hits"]` is `stats.hits`."""

    entries: int
    bytes: int
    hits: int
    misses: int
    stale: int
    """Hits on results past their expiry."""
    computed: int
    waited: int
    """Calls that waited for the result of another caller."""
    stored: int
    evicted: int
    uncacheable: int
    """Calls whose arguments or result cannot be stored; they compute each time."""
    refresh_failed: int
    damaged: int
    """Look-ups of results that have changed since they were stored; `get` raises, `get_or_compute` computes again."""
    unstored: int
    """Writes that the database did not take, for instance while another process holds its lock; no result is lost."""

    def __getitem__(self, name: str) -> int:
        if name not in FIGURES:
            raise KeyError(name)
        return int(getattr(self, name))


FIGURES = tuple(field.name for field in fields(CacheStats))
