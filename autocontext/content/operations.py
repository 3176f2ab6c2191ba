"""What a content store needs from its backend: a driver for flows, and the operations."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from autocontext.content.contents import Pages, StoredContent, Upload
from autocontext.content.records import ContentStats
from autocontext.stores.database import Read, Write

T = TypeVar("T")
Run: TypeAlias = Generator[Any, Any, T]
"""One operation: yields what its backend understands (SQL statements, object requests) and receives the answers."""


class Backend(Protocol):
    """Runs operations in sync and async code: a `Database` or a `Bucket`."""

    def do(self, step: Read | Write) -> Any:
        """Run the operation of a step."""

    async def ado(self, step: Read | Write) -> Any:
        """`do` without blocking the event loop."""


class Operations(Protocol):
    """The operations. The module `queries` has them as functions, `objects.Objects` as methods."""

    def find(self, namespace: str, ref_or_key: str, now: int) -> Run[StoredContent | None]:
        """The content with a handle or key."""

    def named(self, namespace: str, name: str, now: int) -> Run[list[StoredContent]]:
        """All contents with a file name."""

    def keys(self, namespace: str, now: int, limit: int) -> Run[list[str]]:
        """The first keys in alphabetical order."""

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Run[Pages | None]:
        """The pages that hold a stretch of a content."""

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Run[list[tuple[StoredContent, int, bytes]]]:
        """All pages of text, or those of one content, each with the position of its first character."""

    def already(self, upload: Upload) -> Run[StoredContent | None]:
        """The content if a put would write nothing."""

    def put(self, upload: Upload) -> Run[str]:
        """Store a content and return its handle."""

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Run[bool]:
        """Delete a content by its handle, or one key."""

    def clear(self, namespace: str | None, now: int, /) -> Run[None]:
        """Delete everything of one namespace, or of all."""

    def purge(self, now: int) -> Run[int]:
        """Delete what has expired; the number of contents deleted."""

    def stats(self, namespace: str | None) -> Run[ContentStats]:
        """The sums over the contents of one namespace, or of all."""
