"""An inverted index that grows and shrinks text by text: which texts hold a feature, and how strongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Postings:
    """Feature to text to strength, for texts under ids.

    `strength` turns the weight of a feature in a text into what is summed up for it. Updating one text costs what
    that text holds, never what others do.
    """

    def __init__(self, strength: Callable[[float], float]) -> None:
        self._strength = strength
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._held: list[tuple[str, ...]] = []
        self.sizes: list[float] = []
        """By slot, what `put` was given."""
        self.total = 0.0
        """Sum of all sizes."""
        self.lists: dict[str, dict[int, float]] = {}
        """By feature the slots that hold it, with their strength."""

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def slots(self) -> Mapping[str, int]:
        """Where each id stands in `sizes`, in the order in which ids came."""
        return self._slots

    def put(self, id: str, features: Mapping[str, float], size: float) -> None:  # noqa: A002 (the protocol's name)
        """Add a text, or put another in its place."""
        slot = self._slots.get(id)
        if slot is not None:
            self._clear(slot)
        elif self._free:
            slot = self._free.pop()
        else:
            slot = len(self._held)
            self._held.append(())
            self.sizes.append(0.0)
        self._slots[id] = slot
        self._held[slot], self.sizes[slot] = tuple(features), size
        self.total += size
        for feature, weight in features.items():
            self.lists.setdefault(feature, {})[slot] = self._strength(weight)

    def drop(self, id: str) -> None:  # noqa: A002 (the protocol's name)
        """Forget a text; nothing happens if it is not there."""
        slot = self._slots.pop(id, None)
        if slot is not None:
            self._clear(slot)
            self._free.append(slot)

    def _clear(self, slot: int) -> None:
        for feature in self._held[slot]:
            holders = self.lists[feature]
            del holders[slot]
            if not holders:
                del self.lists[feature]
        self.total -= self.sizes[slot]
        self._held[slot], self.sizes[slot] = (), 0.0

    def sums(self, wanted: Mapping[str, float]) -> list[float]:
        """By slot the sum over the wanted features of their weight times the text's strength."""
        found = [0.0] * len(self._held)
        for feature, weight in wanted.items():
            for slot, strength in self.lists[feature].items():
                found[slot] += weight * strength
        return found
