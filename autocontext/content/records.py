"""What a content store returns: frozen records."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

REF = re.compile(r"c_[0-9a-f]{12,64}")
"""A handle: "c_" and the first 12 hexadecimal digits of the content's SHA-256, more where two contents share them."""


@dataclass(frozen=True, slots=True)
class ContentInfo:
    """The metadata of a stored content."""

    ref: str
    """The handle that the reload tool takes."""
    key: str | None
    """The caller's name for it; None if it was stored without one."""
    name: str
    path: str
    type: str
    summary: str
    chars: int
    """Characters (code points) of the text, or of the base64 text if the content is not UTF-8."""
    sha256: str
    """Of the bytes that were put, or of a text's UTF-8 bytes (a lone surrogate is three bytes)."""
    created_at: int
    """Milliseconds since 1970, UTC."""
    expires_at: int | None = None
    """Milliseconds since 1970, UTC; None: never."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """base64 for bytes that are not UTF-8; `read` then pages through their base64 text."""


@dataclass(frozen=True, slots=True)
class Page:
    """The characters [offset, end) of a content."""

    ref: str
    text: str
    offset: int
    end: int
    total: int
    has_more: bool
    next_offset: int | None
    """Where the next page begins; None at the end."""
    notice: str = ""
    """How the request was changed, in words, for example an offset before the beginning."""


@dataclass(frozen=True, slots=True)
class ContentHit:
    """A passage that matches a query."""

    ref: str
    key: str | None
    name: str
    offset: int
    """Position in the content at which `text` begins, in characters."""
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ContentStats:
    """How much a store holds, and how it was used since you opened it."""

    contents: int
    """Different contents."""
    keys: int
    """Keys of these contents; several keys may name one content."""
    chars: int
    pages: int
    stored_bytes: int
    """Bytes of the compressed pages."""
    payload_bytes: int
    """Bytes of the contents, each counted once."""
    usage: dict[str, int] = field(default_factory=dict)
    """puts, duplicates (puts of a stored content), reads, misses; by this object only."""

    @property
    def compression_ratio(self) -> float:
        """Stored bytes per byte of payload; 0.0 when nothing is stored."""
        return self.stored_bytes / self.payload_bytes if self.payload_bytes else 0.0
