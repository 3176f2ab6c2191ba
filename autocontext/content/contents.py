"""Contents on their way into and out of a store of any kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from autocontext.content.paging import Packed, Window
from autocontext.content.records import ContentInfo

FOREVER = 2**62
"""Expires at: never."""


def basename(key: str) -> str:
    """The last part of a path, with slashes of either kind."""
    return re.split(r"[/\\]", key.rstrip("/\\"))[-1]


def candidates(sha256: str) -> Iterator[str]:
    """The possible handles of a content, shortest first."""
    return (f"c_{sha256[:digits]}" for digits in (12, 16, 24, 64))


class Metadata(NamedTuple):
    """What the caller says about a content."""

    name: str
    path: str
    type: str
    summary: str

    def dumped(self) -> str:
        """As JSON in ASCII."""
        return json.dumps(self)


class Upload(NamedTuple):
    """A content that is to be stored."""

    namespace: str
    key: str | None
    content: Packed
    pages: list[bytes]
    metadata: Metadata
    now: int
    expires_at: int


class StoredContent(NamedTuple):
    """A content in the store, and the key it was found by, if any."""

    ref: str
    sha256: str
    encoding: str
    chars: int
    expires_at: int
    created_at: int
    metadata: str
    """Metadata as JSON."""
    key: str | None = None

    def info(self) -> ContentInfo:
        """The record that callers get."""
        metadata = Metadata(*json.loads(self.metadata))
        until = None if self.expires_at >= FOREVER else self.expires_at
        return ContentInfo(
            self.ref, self.key, *metadata, self.chars, self.sha256, self.created_at, until,
            "base64" if self.encoding == "base64" else "utf-8",
        )  # fmt: skip


class Pages(NamedTuple):
    """A content, the requested part of it, and the rows with that part."""

    content: StoredContent
    window: Window
    bodies: list[bytes]
