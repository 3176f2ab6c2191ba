"""The content store: large texts in a database, found by their hash or a key, read back in pages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

from autocontext.content import queries
from autocontext.content.contents import FOREVER, Metadata, Pages, StoredContent, Upload
from autocontext.content.operations import Backend, Operations
from autocontext.content.paging import Packed, packed, payload, unpack
from autocontext.content.records import ContentHit, ContentInfo, ContentStats, Page
from autocontext.content.search import Passages
from autocontext.errors import ConfigError, StoreCorruptError
from autocontext.flows.threads import in_thread
from autocontext.stores.closing import Closing, DatabasePart
from autocontext.stores.database import Database


@runtime_checkable
class ContentStore(Protocol):
    """Keeps texts and bytes by their hash, per namespace; nothing of one namespace is seen from another."""

    def put(
        self, content: str | bytes, *, key: str | None = None, name: str = "", path: str = "", type: str = "text",  # noqa: A002 (the record's field)
        summary: str = "", namespace: str = "", ttl: float | None = None,
    ) -> ContentInfo:  # fmt: skip
        """Store a content; when this returns it is durable. The same content is stored once."""
        ...

    def read(self, ref_or_key: str, offset: int = 0, limit: int | None = None, *, namespace: str = "") -> Page | None:
        """A stretch of a content; None when nothing has this handle or key."""
        ...

    def info(self, ref_or_key: str, *, namespace: str = "") -> ContentInfo | None:
        """What is known about a content; None when nothing has this handle or key."""
        ...

    def find(self, name: str, *, namespace: str = "") -> list[ContentInfo]:
        """The content of this handle or key, or else all whose file name it is."""
        ...

    def keys(self, *, namespace: str = "", limit: int = 100) -> list[str]:
        """The first keys in order."""
        ...

    def search(self, query: str, ref: str | None = None, limit: int = 10, *, namespace: str = "") -> list[ContentHit]:
        """The passages that match best."""
        ...

    def delete(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """Delete a content by its handle, or let go of it by a key."""
        ...


class PagedContentStore(Closing):
    """What every content store does; each method has an asynchronous twin with an `a` before its name.

    `clock` gives milliseconds since 1970; it decides when a content with a `ttl` is over.
    """

    def __init__(self, backend: Backend, operations: Operations, *, clock: Callable[[], int] | None = None) -> None:
        self._backend, self._operations = backend, operations
        self._clock = clock or _now
        self._usage: Counter[str] = Counter()

    # ------------------------------------------------------------------------------------------------------ storing
    def put(
        self, content: str | bytes, *, key: str | None = None, name: str = "", path: str = "", type: str = "text",  # noqa: A002 (the record's field)
        summary: str = "", namespace: str = "", ttl: float | None = None,
    ) -> ContentInfo:  # fmt: skip
        """Store a text or bytes; when this returns it is durable, and until then the old one is there.

        The same content is stored once, however often it is put. `key` (default: `path`) names it for `read`; a
        content that it named before is let go. After `ttl` seconds the content is gone. Raises StoreError.
        """
        upload = self._upload(packed(content), key, Metadata(name, path, type, summary), namespace, ttl)
        if upload.key is None and upload.expires_at == FOREVER:
            existing = self._backend.read(lambda: self._operations.already(upload))
            if existing is not None:
                return self._stored(upload, existing.ref, new=False)
        upload = upload._replace(pages=upload.content.pages())
        return self._stored(upload, self._backend.write(lambda: self._operations.put(upload)), new=True)

    async def aput(
        self, content: str | bytes, *, key: str | None = None, name: str = "", path: str = "", type: str = "text",  # noqa: A002 (the record's field)
        summary: str = "", namespace: str = "", ttl: float | None = None,
    ) -> ContentInfo:  # fmt: skip
        """`put` without blocking the event loop."""
        body = await in_thread(lambda: packed(content))
        upload = self._upload(body, key, Metadata(name, path, type, summary), namespace, ttl)
        if upload.key is None and upload.expires_at == FOREVER:
            existing = await self._backend.aread(lambda: self._operations.already(upload))
            if existing is not None:
                return self._stored(upload, existing.ref, new=False)
        upload = upload._replace(pages=await in_thread(body.pages))
        return self._stored(upload, await self._backend.awrite(lambda: self._operations.put(upload)), new=True)

    def delete(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """Delete a content with all its keys (by its handle), or one key; False when there is nothing to delete.

        A content goes with the last key that leads to it, unless it was also put without a key.
        """
        return self._backend.write(lambda: self._operations.delete(namespace, ref_or_key, self._clock()))

    async def adelete(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """`delete` without blocking the event loop."""
        return await self._backend.awrite(lambda: self._operations.delete(namespace, ref_or_key, self._clock()))

    def clear(self, namespace: str | None = None) -> None:
        """Delete everything of one namespace; without one, of all namespaces."""
        self._backend.write(lambda: self._operations.clear(namespace))

    async def aclear(self, namespace: str | None = None) -> None:
        """`clear` without blocking the event loop."""
        await self._backend.awrite(lambda: self._operations.clear(namespace))

    def purge_expired(self) -> int:
        """Free the space of what is past its `ttl`; the number of contents that went."""
        return self._backend.write(lambda: self._operations.purge(self._clock()))

    async def apurge_expired(self) -> int:
        """`purge_expired` without blocking the event loop."""
        return await self._backend.awrite(lambda: self._operations.purge(self._clock()))

    # ------------------------------------------------------------------------------------------------------ reading
    def read(self, ref_or_key: str, offset: int = 0, limit: int | None = None, *, namespace: str = "") -> Page | None:
        """The characters [offset, offset + limit) of a content, to its end without a limit; None when it is unknown.

        What lies outside is clamped and said in `notice`; a sign of several characters is never cut, so `end` may be
        a little less than asked for, and pages that are read on from `next_offset` join to the content. Raises
        StoreCorruptError when the stored rows cannot be read back.
        """
        pages = self._backend.read(lambda: self._operations.read(namespace, ref_or_key, offset, limit, self._clock()))
        return self._page(pages)

    async def aread(
        self, ref_or_key: str, offset: int = 0, limit: int | None = None, *, namespace: str = ""
    ) -> Page | None:
        """`read` without blocking the event loop."""
        pages = await self._backend.aread(
            lambda: self._operations.read(namespace, ref_or_key, offset, limit, self._clock())
        )
        return self._page(pages) if limit is not None else await in_thread(lambda: self._page(pages))

    def read_bytes(self, ref_or_key: str, *, namespace: str = "") -> bytes | None:
        """The whole content as the bytes that were put, its hash checked; None when it is unknown."""
        pages = self._backend.read(lambda: self._operations.read(namespace, ref_or_key, 0, None, self._clock()))
        return None if pages is None else self._payload(pages)

    async def aread_bytes(self, ref_or_key: str, *, namespace: str = "") -> bytes | None:
        """`read_bytes` without blocking the event loop."""
        pages = await self._backend.aread(lambda: self._operations.read(namespace, ref_or_key, 0, None, self._clock()))
        return None if pages is None else await in_thread(lambda: self._payload(pages))

    def info(self, ref_or_key: str, *, namespace: str = "") -> ContentInfo | None:
        """What is known about a content; None when it is unknown."""
        return _info(self._backend.read(lambda: self._operations.find(namespace, ref_or_key, self._clock())))

    async def ainfo(self, ref_or_key: str, *, namespace: str = "") -> ContentInfo | None:
        """`info` without blocking the event loop."""
        return _info(await self._backend.aread(lambda: self._operations.find(namespace, ref_or_key, self._clock())))

    def has(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """Whether the handle or key leads to a content."""
        return self.info(ref_or_key, namespace=namespace) is not None

    async def ahas(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """`has` without blocking the event loop."""
        return await self.ainfo(ref_or_key, namespace=namespace) is not None

    def summary(self, ref_or_key: str, *, namespace: str = "") -> str | None:
        """The summary that came with a content; None when it is unknown."""
        info = self.info(ref_or_key, namespace=namespace)
        return None if info is None else info.summary

    async def asummary(self, ref_or_key: str, *, namespace: str = "") -> str | None:
        """`summary` without blocking the event loop."""
        info = await self.ainfo(ref_or_key, namespace=namespace)
        return None if info is None else info.summary

    # ----------------------------------------------------------------------------------------------------- searching
    def find(self, name: str, *, namespace: str = "") -> list[ContentInfo]:
        """The content of this handle or key, or else all whose file name (last part of the path) it is."""
        exact = self.info(name, namespace=namespace)
        if exact is not None:
            return [exact]
        contents = self._backend.read(lambda: self._operations.named(namespace, name, self._clock()))
        return [content.info() for content in contents]

    async def afind(self, name: str, *, namespace: str = "") -> list[ContentInfo]:
        """`find` without blocking the event loop."""
        exact = await self.ainfo(name, namespace=namespace)
        if exact is not None:
            return [exact]
        contents = await self._backend.aread(lambda: self._operations.named(namespace, name, self._clock()))
        return [content.info() for content in contents]

    def keys(self, *, namespace: str = "", limit: int = 100) -> list[str]:
        """The first keys in order."""
        return self._backend.read(lambda: self._operations.keys(namespace, self._clock(), limit))

    async def akeys(self, *, namespace: str = "", limit: int = 100) -> list[str]:
        """`keys` without blocking the event loop."""
        return await self._backend.aread(lambda: self._operations.keys(namespace, self._clock(), limit))

    def search(self, query: str, ref: str | None = None, limit: int = 10, *, namespace: str = "") -> list[ContentHit]:
        """The passages that match best, of all texts or of the one behind `ref` (a handle or key).

        Reads every page it searches: about 20 MB of text a second.
        """
        pages = self._backend.read(lambda: self._operations.all_pages(namespace, ref, self._clock()))
        return Passages(pages).best(query, limit)

    async def asearch(
        self, query: str, ref: str | None = None, limit: int = 10, *, namespace: str = ""
    ) -> list[ContentHit]:
        """`search` without blocking the event loop."""
        pages = await self._backend.aread(lambda: self._operations.all_pages(namespace, ref, self._clock()))
        return await in_thread(lambda: Passages(pages).best(query, limit))

    def stats(self, namespace: str | None = "") -> ContentStats:
        """How much is stored in a namespace (None: in all)."""
        return self._counted(*self._backend.read(lambda: self._operations.stats(namespace)))

    async def astats(self, namespace: str | None = "") -> ContentStats:
        """`stats` without blocking the event loop."""
        return self._counted(*await self._backend.aread(lambda: self._operations.stats(namespace)))

    def close(self) -> None:
        """Let go of what this store has opened."""
        self._backend.close()

    async def aclose(self) -> None:
        """`close` for asynchronous callers."""
        await self._backend.aclose()

    # ---------------------------------------------------------------------------------------------------------------
    def _upload(self, body: Packed, key: str | None, metadata: Metadata, namespace: str, ttl: float | None) -> Upload:
        if ttl is not None and not ttl > 0:
            raise ConfigError(f"ttl must be more than 0 seconds, or None to keep the content (got {ttl!r})")
        now = self._clock()
        until = FOREVER if ttl is None else now + round(ttl * 1000)
        return Upload(namespace, (metadata.path or None) if key is None else key, body, [], metadata, now, until)

    def _stored(self, upload: Upload, ref: str, *, new: bool) -> ContentInfo:
        self._usage["puts"] += 1
        self._usage["duplicates"] += not new
        body, metadata = upload.content, upload.metadata.dumped()
        return StoredContent(
            ref, body.sha256, body.encoding, len(body.text), upload.expires_at, upload.now, metadata, upload.key
        ).info()

    def _page(self, pages: Pages | None) -> Page | None:
        self._usage["misses" if pages is None else "reads"] += 1
        if pages is None:
            return None
        return pages.window.page(pages.content.ref, unpack(pages.content.ref, pages.bodies))

    def _payload(self, pages: Pages) -> bytes:
        body = payload(unpack(pages.content.ref, pages.bodies), pages.content.encoding)
        if packed(body).sha256 != pages.content.sha256:
            raise StoreCorruptError(
                f"content {pages.content.ref} is not what was stored (its hash differs): put it again"
            )
        return body

    def _counted(self, contents: tuple[int, ...], pages: tuple[int, ...], keys: tuple[int, ...]) -> ContentStats:
        count, chars, stored, size, held = map(int, contents)
        return ContentStats(count, int(keys[0]), chars, int(pages[0]), stored, size, held, dict(self._usage))


class DatabaseContentStore(DatabasePart, PagedContentStore):
    """A content store in a database. `url`: a path, `:memory:`, a URL or an open Database."""

    def __init__(self, url: Database | str | Path, *, clock: Callable[[], int] | None = None) -> None:
        DatabasePart.__init__(self, url, queries.SCHEMA)
        PagedContentStore.__init__(self, self.database, queries, clock=clock)


class SqliteContentStore(DatabaseContentStore):
    """A content store in a SQLite file (or an open database); safe to use from several threads and processes."""


class SqlContentStore(DatabaseContentStore):
    """A content store in PostgreSQL, by its URL (or an open database); needs the extra `sql`."""


def _info(content: StoredContent | None) -> ContentInfo | None:
    return None if content is None else content.info()


def _now() -> int:
    return time.time_ns() // 1_000_000
