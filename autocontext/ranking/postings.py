"""An inverted index that is updated text by text: which texts hold a feature, and how strongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping


class Postings:
    """Strengths by feature and text.

    `strength` maps the weight of a feature in a text to what `sums` adds up. Updating a text costs as much as the
    features of that text, however many others there are. An update that was interrupted is mended by doing it again.
    """

    def __init__(self, strength: Callable[[float], float]) -> None:
        self._strength = strength
        self._slots: dict[str, int] = {}
        self._free_slots: list[int] = []
        self._features: list[tuple[str, ...]] = []
        self.sizes: list[float] = []
        """The size of each text, by slot."""
        self.lists: dict[str, dict[int, float]] = {}
        """For each feature the slots of the texts that hold it, and its strength there."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def total(self) -> float:
        """Sum of all sizes."""
        return math.fsum(self.sizes)

    @property
    def slots(self) -> Mapping[str, int]:
        """The slot of each id, oldest id first."""
        return self._slots

    def put(self, id: str, features: Mapping[str, float], size: float) -> None:  # noqa: A002 (the protocol's name)
        """Add a text, or replace the one under this id."""
        slot = self._slots.get(id)
        if slot is not None:
            self._clear(slot)
        elif self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = len(self._features)
            self._features.append(())
        self.sizes += [0.0] * (len(self._features) - len(self.sizes))
        self._slots[id] = slot
        self._features[slot], self.sizes[slot] = tuple(features), size
        for feature, weight in features.items():
            self.lists.setdefault(feature, {})[slot] = self._strength(weight)

    def drop(self, id: str) -> None:  # noqa: A002 (the protocol's name)
        """Remove a text; an unknown id is ignored."""
        slot = self._slots.get(id)
        if slot is not None:
            self._clear(slot)
            del self._slots[id]
            self._free_slots.append(slot)

    def _clear(self, slot: int) -> None:
        for feature in self._features[slot]:
            strengths = self.lists.get(feature, {})
            strengths.pop(slot, None)
            if not strengths:
                self.lists.pop(feature, None)
        self._features[slot], self.sizes[slot] = (), 0.0

    def sums(self, query: Mapping[str, float]) -> list[float]:
        """For each slot the sum of query weight times strength over the features of the query."""
        totals = [0.0] * len(self._features)
        for feature, weight in query.items():
            for slot, strength in self.lists[feature].items():
                totals[slot] += weight * strength
        return totals
