"""What a content store gives back: frozen records."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

REF = re.compile(r"c_[0-9a-f]{12,64}")
"""A handle: "c_" and the first 12 hexadecimal digits of the content's SHA-256, more where two contents share them."""


@dataclass(frozen=True, slots=True)
class ContentInfo:
    """What is known about a stored content without reading it."""

    ref: str
    """The handle that the reload tool takes."""
    key: str | None
    """The caller's own name for it; None when it was stored without one."""
    name: str
    path: str
    type: str
    summary: str
    chars: int
    """Characters (code points) of the text; of the base64 text when the content is not UTF-8."""
    sha256: str
    """Of the UTF-8 bytes of a text (lone surrogates as three bytes each), or of the bytes as they were given."""
    created_at: int
    """Milliseconds since 1970, UTC."""
    expires_at: int | None = None
    """Milliseconds since 1970, UTC; None: never."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """base64: the content was bytes that are not UTF-8; `read` pages through their base64 text."""


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch [offset, end) of a content, in characters."""

    ref: str
    text: str
    offset: int
    end: int
    total: int
    has_more: bool
    next_offset: int | None
    """Where to read on; None at the end."""
    notice: str = ""
    """What was changed about the request, in words: an offset before the beginning, a cut that would split a sign."""


@dataclass(frozen=True, slots=True)
class ContentHit:
    """A passage that matches a query."""

    ref: str
    key: str | None
    name: str
    offset: int
    """Character of the content at which `text` starts."""
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ContentStats:
    """How much a store holds, and how it was used since it was opened."""

    contents: int
    """Different contents."""
    keys: int
    """Names that lead to them; several may lead to one."""
    chars: int
    pages: int
    stored_bytes: int
    """Bytes of the compressed pages."""
    payload_bytes: int
    """Bytes of the contents, each counted once."""
    held_bytes: int
    """Bytes that would be stored if each name had a copy of its own."""
    usage: dict[str, int] = field(default_factory=dict)
    """puts, duplicates (puts of what was there already), reads, misses: of this object, not of other processes."""

    @property
    def compression_ratio(self) -> float:
        """Stored bytes per byte of payload; 0.0 when nothing is stored."""
        return self.stored_bytes / self.payload_bytes if self.payload_bytes else 0.0
