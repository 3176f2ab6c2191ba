"""The stored form of a log entry: JSON with signs for common phrases, or compressed; with a checksum."""

from __future__ import annotations

import hashlib
import marshal
import os
import random
import re
import time
import zlib
from typing import Any

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Added, Entry, entry_bytes, load_entry
from autocontext.messages import COMPACTION, Msg
from autocontext.stores.checks import checked_seconds

_WORTH_COMPRESSING = 640
"""Bytes; shorter entries take longer to compress than to store, and signs save almost as much."""
_LONG = 4096
"""Bytes; up to this length a small window is enough, and its compressor is created in a tenth of the time."""
_RANDOM_BITS = 21
_FORMAT = 2
"""Of marshal, for checksums. Never change it, either."""
NEVER = 2**63 - 1
"""The stored expiry of a session that never expires by `expire(key, None)`; None if `expire` was not called."""
_KNOWN = b"""<!-- CONTEXT_OFFLOAD: uuid= -->"}],"metadata":{"_compress_meta":{"offloaduuid":""}},"origin":{"uuid":""\
,"kind":"tool_run"}}{"type":"edited","edits":[{"ids":[""],"offload":[""],"uuid":"","messages":[{"id":""\
{"type":"added","message":{"id":"","role":"system","name":"system","content":[{"type":"text","text":"\
{"type":"added","message":{"id":"","role":"tool","name":"tool","content":[{"type":"tool_result","id":"call_\
","name":"read_file","output":"\\n\\n","is_error":true}],"timestamp":"{"type":"added","message":{"id":"",\
"role":"assistant","name":"assistant","content":[{"type":"tool_use","id":"call_","name":"","input":{"path":"\
"}}],"timestamp":"2026-01-01T00:00:00.000+00:00"}}{"type":"added","message":{"id":"","role":"assistant",\
"name":"assistant","content":[{"type":"text","text":"{"type":"added","message":{"id":"","role":"user",\
"name":"user","content":[{"type":"text","text":"","timestamp":"2026-01-01T00:00:00.000+00:00"}}"""
"""The compressor's dictionary: common parts of entries. Never change it: stored entries need it."""

_PHRASES = (
    b'{"type":"added","message":{"id":"',
    b'","role":"user","name":"user","content":[{"type":"',
    b'","role":"assistant","name":"assistant","content":[{"type":"',
    b'","role":"tool","name":"tool","content":[{"type":"tool_result","id":"',
    b'text","text":"',
    b'tool_use","id":"',
    b'}],"timestamp":"',
)
_SIGNS = tuple((phrase, bytes((sign,))) for sign, phrase in enumerate(_PHRASES, 1))
"""Common phrases, each with the control character that replaces it: JSON has none. Never change these, either."""

_ADDED_SIGN = _SIGNS[0][1]
_UNCOMPRESSED = (b"{", _ADDED_SIGN)
"""The first bytes of JSON and of JSON with signs; zlib streams have others."""
_COMPRESSED = b"\0"
"""Separates the id of a message from the compressed entry."""
_ADDED = re.compile(rb'(?:\x01|\{"type":"added","message":\{"id":")([ !#-\[\]-~]+)(["\0\x02-\x04])').match
_COMPACTED = f'"{COMPACTION}"'.encode()


def to_bytes(entry: Entry) -> bytes:
    """An entry as JSON with signs, or, if that saves bytes, compressed after the id of the message that it adds."""
    body = entry_bytes(entry)
    if len(body) < _WORTH_COMPRESSING:
        for phrase, sign in _SIGNS:
            body = body.replace(phrase, sign)
        return body
    level, window, memory = (2, 12, 5) if len(body) <= _LONG else (1, 15, 8)
    compressor = zlib.compressobj(level, zlib.DEFLATED, window, memory, zdict=_KNOWN)
    compressed = compressor.compress(body) + compressor.flush()
    id_ = id_of_added(body)
    return compressed if id_ is None else b"".join((_ADDED_SIGN, id_.encode(), _COMPRESSED, compressed))


def from_bytes(body: bytes) -> Entry:
    """The entry in these bytes. Raises StoreCorruptError."""
    return load_entry(entry_json(body))


def added(body: bytes) -> Msg:
    """The message that the entry in these bytes adds. Raises StoreCorruptError."""
    entry = from_bytes(body)
    if not isinstance(entry, Added):
        raise StoreCorruptError(f"entry: it adds no message, it is {entry.type!r}")
    return entry.message


def id_of_added(body: bytes) -> str | None:
    """The id of the message that the entry adds, if a Log needs no more of it yet; otherwise None."""
    if body[:1] not in _UNCOMPRESSED:
        try:
            body = entry_json(body)
        except StoreCorruptError:
            return None
    found = _ADDED(body)
    if found is None or (found[2] != _COMPRESSED and _COMPACTED in body):
        return None
    return found[1].decode()


def entry_json(body: bytes) -> bytes:
    """The JSON of the entry in these bytes. Raises StoreCorruptError."""
    _, compressed, rest = body.partition(_COMPRESSED) if body[:1] == _ADDED_SIGN else (b"", b"", body)
    if compressed or body[:1] not in _UNCOMPRESSED:
        try:
            return zlib.decompressobj(zdict=_KNOWN).decompress(rest)
        except zlib.error as e:
            raise StoreCorruptError(f"entry: {e}") from e
    for phrase, sign in _SIGNS:
        body = body.replace(sign, phrase)
    return body


def unpack(body: Any, checksum: int) -> Entry:
    """The entry in bytes with this checksum. Raises StoreCorruptError."""
    return from_bytes(intact(body, checksum))


def intact(body: Any, checksum: int) -> bytes:
    """The bytes, if they have this checksum. Raises StoreCorruptError."""
    if not isinstance(body, bytes) or zlib.crc32(body) != checksum:  # SQLite's columns hold any type
        raise StoreCorruptError("its bytes have changed since they were written (checksum)")
    return body


def row_checksum(*fields: str | float | bytes | None) -> str:
    """A checksum over the values of a row, in order, as the database gives them back: 1.0 is not 1.

    A text, for a column among the `texts` of its Place: an encrypted database encrypts it with the rest, since it would
    tell who can guess a text whether the guess is right.
    """
    # Tells types and lengths apart, in a format that has not changed since Python 2.5 (a test pins it) and is fast.
    return f"{zlib.crc32(marshal.dumps(fields, _FORMAT)):08x}"


def text_hash(text: str) -> str:
    """The SHA-256 of any text, 64 hexadecimal digits; half a surrogate pair counts as three bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_row(place: str, checksum: str | None, *fields: Any) -> None:
    """Raise StoreCorruptError naming the place unless the values have this checksum; None: of an earlier version."""
    if checksum is not None and checksum != row_checksum(*fields):
        raise StoreCorruptError(f"{place}: the row has changed since it was written (checksum)")


_random = random.Random()
"""Of this process alone, whatever somebody seeds; asking the system takes as long as writing a short entry."""
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_random.seed)


def batch_number() -> int:
    """A number for entries that are stored together: milliseconds since 1970, then random bits; 63 bits in all."""
    return now() << _RANDOM_BITS | _random.getrandbits(_RANDOM_BITS)


def batch_time(batch: int) -> int:
    """When a batch was stored, in milliseconds since 1970."""
    return batch >> _RANDOM_BITS


def now() -> int:
    """Milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000


def expiry(ttl: float | None) -> int | None:
    """The time in `ttl` seconds, in milliseconds since 1970; None stays None."""
    seconds = checked_seconds("ttl", ttl, past=True)
    return None if seconds is None else now() + milliseconds(seconds)


def milliseconds(seconds: float) -> int:
    """A length of time in whole milliseconds."""
    return int(seconds * 1000)
