"""A budget of tokens, and the claims that the parts of a text make on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Room:
    """A budget of tokens; `left` is what remains of it."""

    def __init__(self, tokens: int, count: Callable[[str], int]) -> None:
        self.left = tokens
        self.count = count

    def cost(self, line: str) -> int:
        """Tokens of a line with its newline."""
        return self.count(line) + 1


class Claim:
    """The lines of a part, the most important first; the first `size` of them have room."""

    def __init__(
        self, room: Room, lines: Iterable[str], *, least: int = 0, cost: Callable[[str], int] | None = None
    ) -> None:
        """`least`: how many lines are never given back; `cost`: tokens of a line, by default with its newline."""
        self._room, self._lines, self._least, self._cost = room, iter(lines), least, cost or room.cost
        self.costs: list[int] = []
        """Of the lines that were asked for: most would not fit, and are never written."""
        self.size = 0
        self._left = room.left

    def take(self, most: int) -> None:
        """Take room for further lines, in order, up to `most` tokens."""
        while self._has_next() and self.costs[self.size] <= min(self._room.left, most):
            self._room.left -= self.costs[self.size]
            most -= self.costs[self.size]
            self.size += 1

    def _has_next(self) -> bool:
        """Whether there is another line, and what it costs is known."""
        if self.size < len(self.costs):
            return True
        # Behind lines that together never had room, none counts.
        line = next(self._lines, None) if self._left >= 0 else None
        if line is not None:
            self.costs.append(self._cost(line))
            self._left -= self.costs[-1]
        return line is not None

    def give_back(self, tokens: int) -> bool:
        """Give back the room of the last lines, at least `tokens` if possible; False if the claim has none to give."""
        if self.size <= self._least:
            return False
        while self.size > self._least and tokens > 0:
            self.size -= 1
            tokens -= self.costs[self.size]
            self._room.left += self.costs[self.size]
        return True
