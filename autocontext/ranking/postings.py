"""An inverted index that is updated text by text: which texts hold a feature, and how strongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from autocontext.ranking.features import features


class Postings:
    """Strengths by feature and text.

    `strength` maps the weight of a feature in a text to what `sums` adds up, and `size` all weights of a text to its
    size. Updating a text costs as much as the features of that text, however many others there are. An update that was
    interrupted is mended by doing it again.
    """

    def __init__(self, strength: Callable[[float], float], size: Callable[[Iterable[float]], float]) -> None:
        self._strength, self._size = strength, size
        self.slots: dict[str, int] = {}
        """The slot of each id, oldest id first."""
        self._free_slots: list[int] = []
        self._features: list[tuple[str, ...]] = []
        self.sizes: list[float] = []
        """The size of each text, by slot."""
        self.lists: dict[str, dict[int, float]] = {}
        """For each feature the slots of the texts that hold it, and its strength there."""

    @property
    def total(self) -> float:
        """Sum of all sizes."""
        return math.fsum(self.sizes)

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the protocol's name)
        """Add a text, replace the one under this id, or remove it (None); then an unknown id is ignored."""
        slot = self.slots.get(id)
        if slot is not None:
            self._clear(slot)
        if text is not None:
            self._put(id, slot, features(text))
        elif slot is not None:
            del self.slots[id]
            self._free_slots.append(slot)

    def _put(self, id_: str, slot: int | None, weights: Mapping[str, float]) -> None:
        if slot is None and self._free_slots:
            slot = self._free_slots.pop()
        elif slot is None:
            slot = len(self._features)
            self._features.append(())
        self.sizes += [0.0] * (len(self._features) - len(self.sizes))
        self.slots[id_] = slot
        self._features[slot], self.sizes[slot] = tuple(weights), self._size(weights.values())
        for feature, weight in weights.items():
            self.lists.setdefault(feature, {})[slot] = self._strength(weight)

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
