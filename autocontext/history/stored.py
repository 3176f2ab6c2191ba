"""Messages in their stored form, read at first use: so a long session opens at once."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.messages import Msg, interned


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
