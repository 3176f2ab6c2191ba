"""Checks the chain of a session's stored entries: each row has the checksum of the row before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from autocontext.errors import StoreCorruptError
from autocontext.stores.records import intact
from autocontext.stores.session_statements import FIRST, Rows

T = TypeVar("T")


def follow(entries: list[T], after: int, found: Rows, read: Callable[[int, bytes], T]) -> None:
    """Append to `entries` what `read` makes of each row; the rows begin at number `after`, or one before it.

    Raises StoreCorruptError at the first row that is missing or wrong; the entries before it are in the list then.
    """
    rows = found.rows
    link = None if after else FIRST
    """The checksum of the entry before; None for rows of version 1, which have no chain."""
    if rows and rows[0][0] == after - 1:
        _, checksum, previous, _ = rows[0]
        link = None if previous is None else checksum
        rows = rows[1:]
    for number, row in enumerate(rows, after):
        sequence, checksum, previous, body = row
        if sequence != number:
            raise StoreCorruptError("it is missing")
        if number >= found.entries:
            raise StoreCorruptError(f"the session should end before it; read it with until={number + 1}")
        if previous != link and previous is not None and link is not None:
            raise StoreCorruptError("another one was written there (chain)")
        entries.append(read(number, intact(body, checksum)))
        link = None if previous is None else checksum
    end = after + len(rows)
    if end < found.entries:
        raise StoreCorruptError("it is missing")
    if rows and link is not None and found.head not in (None, link):
        raise StoreCorruptError(
            f"the session went on here, or its row is damaged (chain); what is there can be read with until={end}"
        )
