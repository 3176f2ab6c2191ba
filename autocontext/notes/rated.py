"""What was read in a history by how much its values are used, kept from pass to pass.

Most lines of a note are those of the note before it. A text is read again when a value in it was used since, or when
others stand around it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar

MOST_READINGS = 8_000
"""Readings that are kept: those of the calls, remarks and sentences of one note, and some of others."""
_MOST_CHANGES = 20_000
"""Changes after which everything is read again: it is rarely so many that their list would take more than it saves."""

T = TypeVar("T")
Used: TypeAlias = Callable[[str], float]
"""How much a value was used."""


class _Reading:
    """What was found, beside what, and by which values."""

    __slots__ = ("around", "checked", "found", "values")

    def __init__(self, found: Any, around: Hashable, values: Iterable[str], checked: int) -> None:
        self.found, self.around = found, around
        self.values = array("q", map(hash, values))
        """The hashes of those that it was asked of how much they were used: an answer has hundreds."""
        self.checked = checked
        """The number of changes up to which it holds."""


class Rated:
    """The newest readings of one history."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, _Reading] = {}
        self._changes: list[int] = []
        """The hashes of values of which the use has changed, in order."""
        self._newest: tuple[int, int, frozenset[int]] = 0, 0, frozenset()
        """Of some of them, from which to which."""

    def of(self, key: Hashable, around: Hashable, used: Used, read: Callable[[Used], T]) -> T:
        """What `read` finds, kept under a key until something else is `around` or the use of a value has changed."""
        kept = self._readings.get(key)
        if kept is not None and kept.around == around and self._holds(kept):
            known: T = kept.found
            return known
        values: set[str] = set()

        def noted(value: str) -> float:
            values.add(value)
            return used(value)

        found = read(noted)
        self._keep(key, _Reading(found, around, values, len(self._changes)))
        return found

    def once(self, key: Hashable, read: Callable[[], T]) -> T:
        """What `read` finds whatever the use of any value, kept under a key."""
        kept = self._readings.get(key)
        if kept is None:
            kept = _Reading(read(), (), (), 0)
            self._keep(key, kept)
        found: T = kept.found
        return found

    def _keep(self, key: Hashable, reading: _Reading) -> None:
        self._readings.pop(key, None)
        self._readings[key] = reading
        if len(self._readings) > MOST_READINGS:
            del self._readings[next(iter(self._readings))]

    def used_again(self, values: Iterable[str]) -> None:
        """What was read by how much these values were used holds no more: that has changed."""
        self._changes += map(hash, values)
        if len(self._changes) > _MOST_CHANGES:
            self._readings, self._changes, self._newest = {}, [], (0, 0, frozenset())

    def _holds(self, reading: _Reading) -> bool:
        """Whether no value in it was used again since it was checked last."""
        first, last = reading.checked, len(self._changes)
        if first == last:
            return True
        if self._newest[:2] != (first, last):
            self._newest = first, last, frozenset(self._changes[first:])
        if not self._newest[2].isdisjoint(reading.values):
            return False
        reading.checked = last
        return True
