"""A budget of tokens, and the claims that the parts of a text make on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Room:
    """A budget of tokens; `left` is what remains of it."""

    def __init__(self, tokens: int, count: Callable[[str], int]) -> None:
        self.left = tokens
        self.count = count

    def cost(self, line: str) -> int:
        """Tokens of a line with its newline."""
        return self.count(line) + 1


class Claim(Generic[T]):
    """What a part may tell, the most important first; the first `size` of it have room."""

    def __init__(self, room: Room, items: Iterable[T], cost: Callable[[T], int], *, least: int = 0) -> None:
        """`cost`: tokens of one of them; `least`: how many are never given back."""
        self._room, self._items, self._cost, self._least = room, iter(items), cost, least
        self._measured: list[tuple[T, int]] = []
        """Those that were asked for, each with its tokens: most would not fit, and are never written."""
        self.size = 0

    @property
    def chosen(self) -> list[T]:
        """What has room."""
        return [item for item, _ in self._measured[: self.size]]

    def take(self, most: int) -> None:
        """Take room for more, in order, up to `most` tokens."""
        while self._has_next() and (cost := self._measured[self.size][1]) <= min(self._room.left, most):
            self._room.left -= cost
            most -= cost
            self.size += 1

    def _has_next(self) -> bool:
        """Whether there is more, and what it costs is known."""
        if self.size == len(self._measured):
            self._measured += [(item, self._cost(item)) for item in islice(self._items, 1)]
        return self.size < len(self._measured)

    def give_back(self, tokens: int) -> bool:
        """Give back the room of the last ones, at least `tokens` if possible; False if there is none to give."""
        before = self.size
        while self.size > self._least and tokens > 0:
            self.size -= 1
            cost = self._measured[self.size][1]
            tokens -= cost
            self._room.left += cost
        return self.size < before
