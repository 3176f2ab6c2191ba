"""The entries of a log in memory: those that only add a message, which nearly all do, are kept as that message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

from autocontext.history.entries import Added, Entry
from autocontext.messages import Msg

E = TypeVar("E")


class Recorded(Sequence[Entry]):
    """Entries in order; equal to a list of equal ones."""

    __slots__ = ("_kept",)

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._kept: list[Entry | Msg] = []
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        """Add an entry at the end."""
        self._kept.append(entry.message if isinstance(entry, Added) else entry)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The entries of a kind other than Added, without looking into messages."""
        return (entry for entry in self._kept if isinstance(entry, kind))

    def copy(self) -> Recorded:
        """Another list of the same entries."""
        copy = Recorded()
        copy._kept = self._kept.copy()
        return copy

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Entry]:
        return map(_entry, self._kept)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return [*map(_entry, self._kept[place])] if isinstance(place, slice) else _entry(self._kept[place])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Recorded | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list


def _entry(kept: Entry | Msg) -> Entry:
    return Added.model_construct(message=kept) if isinstance(kept, Msg) else kept
