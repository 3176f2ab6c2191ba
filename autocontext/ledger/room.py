"""Budgets: what is left of one, and what the parts of a text would like to take of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Room:
    """What is left of a budget of tokens."""

    def __init__(self, tokens: int, count: Callable[[str], int]) -> None:
        self.left = tokens
        self.count = count

    def cost(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self.count(line) + 1


class Claim:
    """The lines that a part would like to have, the most important first, and how many have found room."""

    def __init__(self, room: Room, lines: Iterable[str], *, more: int = 0) -> None:
        self._room = room
        self.costs: list[int] = []
        self.taken = 0
        total = 0
        for line in lines:
            # What can never fit need not be counted.
            if total > room.left:
                break
            self.costs.append(room.cost(line) + more)
            total += self.costs[-1]

    def take(self, most: int) -> None:
        """Take room for further lines, in order, of at most `most` tokens."""
        while self.taken < len(self.costs) and self.costs[self.taken] <= min(self._room.left, most):
            self._room.left -= self.costs[self.taken]
            most -= self.costs[self.taken]
            self.taken += 1

    def give_back(self, tokens: int) -> bool:
        """Give up the last lines that were taken, of at least so many tokens together; False when there are none."""
        if not self.taken:
            return False
        while self.taken and tokens > 0:
            self.taken -= 1
            tokens -= self.costs[self.taken]
            self._room.left += self.costs[self.taken]
        return True
