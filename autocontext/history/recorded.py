"""The entries and messages of a log in memory.

Nearly all entries only add a message, and are kept as that message, or in its stored form until it is read: so a long
session opens at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

from autocontext.history.entries import Added, Entry
from autocontext.messages import Msg, interned

E = TypeVar("E")
T = TypeVar("T")

_ESCAPED = re.compile(r"\\(?:[bfnrt]|u[0-9a-fA-F]{4})")
"""The n of a line's end would be the first letter of the next line's first word."""
_BACKSLASH = "\0"
"""Stands in for a backslash of the text: JSON has no such character."""


class Stored:
    """An `Added` entry as its stored bytes, whose checksum was checked before.

    Not for a message with a provider's compaction, which a Log has to know at once.
    """

    __slots__ = ("_body", "_json", "_read", "id", "number")

    def __init__(
        self, id_: str, number: int, body: bytes, read: Callable[[int, bytes], Msg], json: Callable[[bytes], bytes]
    ) -> None:
        """`read` makes the message of the entry's number and bytes; `json` the entry's JSON, which takes less time."""
        self.id = id_
        """The message's own id."""
        self.number = number
        """The entry's place in its session."""
        self._body = body
        self._read, self._json = read, json

    def message(self) -> Msg:
        """The message. Raises StoreCorruptError if the bytes are not an entry, although their checksum was right."""
        message = interned(self._read(self.number, self._body))
        vars(message)["id"] = self.id  # the same text, held once
        return message

    def json(self) -> str:
        """The entry's JSON. Raises StoreCorruptError as `message` does."""
        return self._json(self._body).decode(errors="replace")


class Recorded(Sequence[Entry]):
    """Entries in order; equal to a list of equal ones."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[Entry | Msg | Stored] = []

    def extend(self, entries: Iterable[Entry | Stored]) -> None:
        """Add entries at the end, in one step: after an interrupt all of them are there, or none."""
        self._kept.extend([entry.message if isinstance(entry, Added) else entry for entry in entries])

    def as_kept(self) -> Iterator[Entry | Stored]:
        """The entries; messages that nobody has read yet in their stored form."""
        return (kept if isinstance(kept, Stored) else self._entry(kept) for kept in self._kept)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The entries of a kind other than Added, without looking into messages."""
        return (entry for entry in self._kept if isinstance(entry, kind))

    def read(self, stored: Stored) -> Msg:
        """The message of a stored entry, which is kept in its place."""
        kept = self._kept[stored.number]
        if isinstance(kept, Msg):  # read as an entry before
            return kept
        message = self._kept[stored.number] = stored.message()
        return message

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, self._kept)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return [*map(self._entry, self._kept[place])] if isinstance(place, slice) else self._entry(self._kept[place])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Recorded | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list

    def _entry(self, kept: Entry | Msg | Stored) -> Entry:
        if isinstance(kept, Stored):
            kept = self.read(kept)
        return Added.model_construct(message=kept) if isinstance(kept, Msg) else kept


class First(Sequence[T]):
    """The first items of what only grows, as many as it had when this was made; each is read when it is asked for."""

    __slots__ = ("_read", "_size")

    def __init__(self, size: int, read: Callable[[int], T]) -> None:
        self._size, self._read = size, read

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        places = range(self._size)[place]
        return self._read(places) if isinstance(places, int) else [*map(self._read, places)]


class Messages(Mapping[str, Msg]):
    """Messages by id; stored ones are read at their first use. None is ever taken out."""

    def __init__(self, entries: Recorded, messages: Mapping[str, Msg | Stored] | None = None) -> None:
        self._entries = entries
        self._kept: dict[str, Msg | Stored] = dict(messages or {})

    def __setitem__(self, id_: str, message: Msg | Stored) -> None:
        self._kept[id_] = message

    def searchable(self, id_: str) -> str:
        """All texts of a message in one; those of a stored one, with what stands around them, without reading it."""
        kept = self._kept[id_]
        if isinstance(kept, Stored):
            text = _ESCAPED.sub(" ", kept.json().replace("\\\\", _BACKSLASH))
            return text.replace(_BACKSLASH, "\\")
        return "\n".join(kept.texts())

    def __getitem__(self, id_: str) -> Msg:
        message = self._kept[id_]
        if isinstance(message, Stored):
            message = self._kept[id_] = self._entries.read(message)
        return message

    def __contains__(self, id_: object) -> bool:
        return id_ in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
