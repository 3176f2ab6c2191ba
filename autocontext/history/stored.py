"""Stored messages that are read when they are needed: a long session is open long before all of it is looked at."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.messages import Msg, sparing


class Stored:
    """An entry that adds a message, as the bytes it was stored as; whoever makes it has checked their checksum.

    The message holds no provider's compaction: a Log has to know those at once.
    """

    __slots__ = ("_body", "_read", "id", "number")

    def __init__(self, id_: str, number: int, body: bytes, read: Callable[[int, bytes], Msg]) -> None:
        """`read` makes the message of the entry's number and bytes."""
        self.id = id_
        """The message's own id."""
        self.number = number
        """The entry's place in its session."""
        self._body = body
        self._read = read

    def message(self) -> Msg:
        """The message. Raises StoreCorruptError if the bytes are none, whatever their checksum says."""
        message = sparing(self._read(self.number, self._body))
        vars(message)["id"] = self.id  # the same text, held once
        return message
