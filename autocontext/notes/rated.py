"""What was read in a history by how much its values are used, kept from pass to pass.

Most lines of a note are those of the note before it. A text is read again when a value in it was used since, or when
others stand around it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeVar

MOST_READINGS = 8_000
"""Readings that are kept: those of the calls, remarks and sentences of one note, and some of others."""

T = TypeVar("T")
Used: TypeAlias = Callable[[str], float]
"""How much a value was used."""


class _Reading(NamedTuple):
    found: Any
    around: Hashable
    values: set[str]
    """Those that it was asked of how much they were used."""


class Rated:
    """The newest readings of one history."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, _Reading] = {}
        self._of: dict[str, set[Hashable]] = {}
        """Per value, the keys of the readings that depend on it."""

    def of(self, key: Hashable, around: Hashable, used: Used, read: Callable[[Used], T]) -> T:
        """What `read` finds, kept under a key until something else is `around` or the use of a value has changed."""
        kept = self._readings.get(key)
        if kept is not None and kept.around == around:
            known: T = kept.found
            return known
        values: set[str] = set()

        def noted(value: str) -> float:
            values.add(value)
            return used(value)

        self._forget(key)
        found = read(noted)
        self._readings[key] = _Reading(found, around, values)
        for value in values:
            self._of.setdefault(value, set()).add(key)
        if len(self._readings) > MOST_READINGS:
            self._forget(next(iter(self._readings)))
        return found

    def used_again(self, values: Iterable[str]) -> None:
        """Forget what was read by how much these values were used: that has changed."""
        for value in values:
            for key in tuple(self._of.get(value, ())):
                self._forget(key)

    def _forget(self, key: Hashable) -> None:
        kept = self._readings.pop(key, None)
        for value in kept.values if kept is not None else ():
            keys = self._of[value]
            keys.discard(key)
            if not keys:
                del self._of[value]
