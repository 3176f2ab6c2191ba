"""Sets of message numbers as runs of consecutive ones: ten thousand messages in a row are one pair."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Runs:
    """An immutable set of numbers; a membership test takes time logarithmic in the number of runs."""

    __slots__ = ("_starts", "pairs")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        runs: list[tuple[int, int]] = []
        for start, stop in sorted(pairs):
            if runs and start <= runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
            else:
                runs.append((start, stop))
        self.pairs = tuple(runs)
        """First and last number of each run, ascending."""
        self._starts = [start for start, _ in runs]

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Runs:
        """The set of these numbers."""
        return cls((n, n) for n in numbers)

    @classmethod
    def union(cls, sets: Iterable[Runs]) -> Runs:
        """The numbers in any of these sets."""
        return cls(pair for some in sets for pair in some.pairs)

    def without(self, numbers: Iterable[int]) -> Runs:
        """The numbers of this set that are not among these."""
        cuts = [n for n in {*numbers} if n in self]
        starts = sorted([*self._starts, *(n + 1 for n in cuts)])
        stops = sorted([*(stop for _, stop in self.pairs), *(n - 1 for n in cuts)])
        return Runs((start, stop) for start, stop in zip(starts, stops, strict=True) if start <= stop)

    def covers(self, other: Runs) -> bool:
        """Whether all numbers of another set are in this one."""
        places = ((bisect_right(self._starts, start) - 1, stop) for start, stop in other.pairs)
        return all(at >= 0 and stop <= self.pairs[at][1] for at, stop in places)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self.pairs[at][1]

    def __len__(self) -> int:
        return sum(stop - start + 1 for start, stop in self.pairs)

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.pairs:
            yield from range(start, stop + 1)

    def __reversed__(self) -> Iterator[int]:
        for start, stop in reversed(self.pairs):
            yield from range(stop, start - 1, -1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Runs({list(self.pairs)})"
