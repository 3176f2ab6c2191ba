"""What a content store needs of its backend: what does the steps of flows, and the operations in them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from autocontext.content.contents import Pages, StoredContent, Upload
from autocontext.stores.database import Read, Write

T = TypeVar("T")
Run: TypeAlias = Generator[Any, Any, T]
"""One operation: yields what its backend understands (SQL statements, object requests), is sent the answers."""


class Backend(Protocol):
    """Runs operations, in sync and in async code: a `Database`, or the objects of a bucket."""

    def do(self, step: Read | Write) -> Any:
        """Run the operation of a step."""

    async def ado(self, step: Read | Write) -> Any:
        """`do` without blocking the event loop."""


class Operations(Protocol):
    """The operations themselves; a module that has these functions will do."""

    def find(self, namespace: str, ref_or_key: str, now: int) -> Run[StoredContent | None]:
        """The content of a handle or a key."""

    def named(self, namespace: str, name: str, now: int) -> Run[list[StoredContent]]:
        """All contents whose file name it is."""

    def keys(self, namespace: str, now: int, limit: int) -> Run[list[str]]:
        """The first keys in order."""

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Run[Pages | None]:
        """The pages that hold a stretch of a content."""

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Run[list[tuple[StoredContent, int, bytes]]]:
        """Every page of text, or those of one content, with the character each starts at."""

    def already(self, upload: Upload) -> Run[StoredContent | None]:
        """The content, if a put of it has nothing to write."""

    def put(self, upload: Upload) -> Run[str]:
        """Store a content; its handle."""

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Run[bool]:
        """Delete a content by its handle, or a key."""

    def clear(self, namespace: str | None, now: int, /) -> Run[None]:
        """Delete everything of one namespace, or of all."""

    def purge(self, now: int) -> Run[int]:
        """Delete what is past its time; how many contents went."""

    def stats(self, namespace: str | None) -> Run[tuple[Any, Any, Any]]:
        """(contents, chars, stored, payload, held bytes), (pages,), (keys,)."""
