"""How one log entry lies in a database: JSON, compressed when that pays, with a checksum."""

from __future__ import annotations

import secrets
import time
import zlib

from autocontext.errors import StoreCorruptError
from autocontext.log import Entry, dump_entry, load_entry

_WORTH_COMPRESSING = 512
"""Bytes; below that the time costs more than the space."""
_RANDOM_BITS = 21


def pack(entry: Entry) -> tuple[bytes, int]:
    """The bytes of an entry and their checksum."""
    body = dump_entry(entry).encode()
    if len(body) >= _WORTH_COMPRESSING:
        body = zlib.compress(body, 1)
    return body, zlib.crc32(body)


def unpack(body: bytes, checksum: int, *, where: str) -> Entry:
    """The entry of some bytes. Raises StoreCorruptError that begins with `where`."""
    if zlib.crc32(body) != checksum:
        raise StoreCorruptError(f"{where}: its bytes have changed since they were written (checksum)")
    try:
        # JSON begins with a brace, zlib's streams never do.
        text = (body if body[:1] == b"{" else zlib.decompress(body)).decode()
        return load_entry(text)
    except (zlib.error, UnicodeDecodeError, StoreCorruptError) as e:
        raise StoreCorruptError(f"{where}: {e}") from e


def batch_number() -> int:
    """A number for entries stored together: the milliseconds since 1970, then random bits; 63 bits in all."""
    return now() << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)


def batch_time(batch: int) -> int:
    """When a batch was stored, in milliseconds since 1970."""
    return batch >> _RANDOM_BITS


def now() -> int:
    """Milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000


def expiry(ttl: float | None) -> int | None:
    """When something expires that lives `ttl` seconds from now, in milliseconds since 1970; None: never."""
    return None if ttl is None else now() + int(ttl * 1000)
