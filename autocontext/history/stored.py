"""Messages in their stored form, read at first use: so a long session opens at once."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.messages import Msg, interned


class Stored:
    """An `Added` entry as its stored bytes, whose checksum was checked before.

    Not for a message with a provider's compaction, which a Log has to know at once.
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
        """The message. Raises StoreCorruptError if the bytes are not an entry, although their checksum was right."""
        message = interned(self._read(self.number, self._body))
        vars(message)["id"] = self.id  # the same text, held once
        return message
