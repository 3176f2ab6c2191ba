"""The content store: large texts in a database, found by their hash or a key, read back in pages."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from autocontext.content import queries
from autocontext.content.contents import FOREVER, Metadata, Pages, StoredContent, Upload
from autocontext.content.paging import packed, payload, unpack
from autocontext.content.records import ContentHit, ContentInfo, ContentStats, Page
from autocontext.content.search import best_passages
from autocontext.errors import ConfigError, StoreCorruptError, short
from autocontext.flows import DoesSteps, Flow, compute, sync_and_async
from autocontext.flows.forking import fork_lock
from autocontext.stores.checks import check_texts, check_whole, checked_seconds, need_texts
from autocontext.stores.closing import Closing, DatabasePart
from autocontext.stores.database import Database, Work, read, write
from autocontext.stores.records import now as milliseconds


class Operations(Protocol):
    """The operations, which yield statements of SQL or requests to a bucket, and receive the answers.

    The module `queries` has them as functions, `objects.Objects` as methods.
    """

    def find(self, namespace: str, ref_or_key: str, now: int) -> Flow[StoredContent | None]:
        """The content with a handle or key."""

    def named(self, namespace: str, name: str, now: int) -> Flow[list[StoredContent]]:
        """All contents with a file name."""

    def keys(self, namespace: str, now: int, limit: int) -> Flow[list[str]]:
        """The first keys in alphabetical order."""

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Flow[Pages | None]:
        """The pages that hold a stretch of a content."""

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Flow[list[tuple[StoredContent, int, bytes]]]:
        """All pages of text, or those of one content, each with the position of its first character."""

    def already(self, upload: Upload) -> Flow[StoredContent | None]:
        """The content if a put would write nothing."""

    def put(self, upload: Upload) -> Flow[str]:
        """Store a content and return its handle."""

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Flow[bool]:
        """Delete a content by its handle, or one key."""

    def clear(self, namespace: str | None, now: int, /) -> Flow[None]:
        """Delete everything of one namespace, or of all."""

    def purge(self, now: int) -> Flow[int]:
        """Delete what has expired; the number of contents deleted."""

    def stats(self, namespace: str | None) -> Flow[ContentStats]:
        """The sums over the contents of one namespace, or of all."""


@runtime_checkable
class ContentStore(Protocol):
    """Stores texts and bytes by their hash. Namespaces are separate: one never sees the contents of another."""

    def put(
        self, content: str | bytes, *, key: str | None = None, name: str = "", path: str = "", type: str = "text",  # noqa: A002 (the record's field)
        summary: str = "", namespace: str = "", ttl: float | None = None,
    ) -> ContentInfo:  # fmt: skip
        """Store a content; it is durable when this returns. The same content is stored once."""

    def read(self, ref_or_key: str, offset: int = 0, limit: int | None = None, *, namespace: str = "") -> Page | None:
        """A part of a content; None for an unknown handle or key."""

    def info(self, ref_or_key: str, *, namespace: str = "") -> ContentInfo | None:
        """The metadata of a content; None for an unknown handle or key."""

    def find(self, name: str, *, namespace: str = "") -> list[ContentInfo]:
        """The content with this handle or key, or else all contents with this file name."""

    def keys(self, *, namespace: str = "", limit: int = 100) -> list[str]:
        """The first keys in alphabetical order."""

    def search(self, query: str, ref: str | None = None, limit: int = 10, *, namespace: str = "") -> list[ContentHit]:
        """The passages that match best."""

    def delete(self, ref_or_key: str, *, namespace: str = "") -> bool:
        """Delete a content by its handle, or one of its keys."""


def checked_content_store(store: ContentStore, owner: str) -> ContentStore:
    """The store, if it has a method `put` or `read`. Raises ConfigError naming the `owner` otherwise."""
    if any(callable(getattr(store, name, None)) for name in ("put", "read")):
        return store
    url = isinstance(store, str) or hasattr(store, "__fspath__")
    hint = f"write SqliteContentStore({str(store)!r})" if url else 'for one in memory, SqliteContentStore(":memory:")'
    raise ConfigError(f"{owner}.store: {short(store)} is not a content store; {hint}")


class PagedContentStore(DoesSteps, Closing):
    """What all content stores have in common; each method has an asynchronous form with an `a` before its name.

    `clock` returns milliseconds since 1970; contents with a `ttl` expire by it.
    """

    def __init__(self, operations: Operations, *, clock: Callable[[], int] | None = None) -> None:
        self._operations = operations
        self._clock = clock or milliseconds
        self._usage: Counter[str] = Counter()
        self._lock = fork_lock()

    # ------------------------------------------------------------------------------------------------------ storing
    def _put(
        self, content: str | bytes, *, key: str | None = None, name: str = "", path: str = "", type: str = "text",  # noqa: A002 (the record's field)
        summary: str = "", namespace: str = "", ttl: float | None = None,
    ) -> Flow[ContentInfo]:  # fmt: skip
        """Store a text or bytes; it is durable when this returns.

        The same content is stored once, however often you put it. `key` (default: `path`) is a name for `read`; if it
        named another content before, that one loses the name. The content expires after `ttl` seconds. Raises
        StoreError.
        """
        check_texts(key=key, name=name, path=path, type=type, summary=summary)
        need_texts(namespace=namespace)
        body = yield from compute(lambda: packed(content))
        seconds, now = checked_seconds("ttl", ttl), self._clock()
        until = FOREVER if seconds is None else now + round(seconds * 1000)
        metadata = Metadata(name, path, type, summary)
        upload = Upload(namespace, (path or None) if key is None else key, body, [], metadata, now, until)
        if upload.key is None and upload.expires_at == FOREVER:
            existing = yield from read(lambda: self._operations.already(upload))
            if existing is not None:
                return self._stored(upload, existing.ref, new=False)
        pages = yield from compute(body.pages)
        ref = yield from write(lambda: self._putting(upload._replace(pages=pages)))
        return self._stored(upload, ref, new=True)

    put, aput = sync_and_async(_put)

    def _delete(self, ref_or_key: str, *, namespace: str = "") -> Flow[bool]:
        """Delete a content with all its keys (by its handle), or one key; False when there is nothing to delete.

        A content goes with the last key that leads to it, unless it was also put without a key.
        """
        need_texts(ref_or_key=ref_or_key, namespace=namespace)
        return (yield from write(lambda: self._operations.delete(namespace, ref_or_key, self._clock())))

    delete, adelete = sync_and_async(_delete)

    def _clear(self, namespace: str | None = None) -> Flow[None]:
        """Delete everything of one namespace; without one, of all namespaces."""
        check_texts(namespace=namespace)
        yield from write(lambda: self._operations.clear(namespace, self._clock()))

    clear, aclear = sync_and_async(_clear)

    def _purge_expired(self) -> Flow[int]:
        """Delete what has expired, and return the number of contents deleted."""
        return (yield from write(lambda: self._operations.purge(self._clock())))

    purge_expired, apurge_expired = sync_and_async(_purge_expired)

    # ------------------------------------------------------------------------------------------------------ reading
    def _read(
        self, ref_or_key: str, offset: int = 0, limit: int | None = None, *, namespace: str = ""
    ) -> Flow[Page | None]:
        """Characters [offset, offset + limit) of a content, without a limit all to its end; None for an unknown one.

        A range outside the content is clamped, and `notice` says so. A character made of several code points is never
        split, so `end` may be a little smaller; continue at `next_offset`. Raises StoreCorruptError for damaged rows.
        """
        pages = yield from self._pages(ref_or_key, offset, limit, namespace)
        return (yield from compute(lambda: self._page(pages)))

    read, aread = sync_and_async(_read)

    def _read_bytes(self, ref_or_key: str, *, namespace: str = "") -> Flow[bytes | None]:
        """The whole content as the bytes that were put, after a check of its hash; None for an unknown one."""
        pages = yield from self._pages(ref_or_key, 0, None, namespace)
        return None if pages is None else (yield from compute(lambda: self._payload(pages)))

    read_bytes, aread_bytes = sync_and_async(_read_bytes)

    def _info(self, ref_or_key: str, *, namespace: str = "") -> Flow[ContentInfo | None]:
        """The metadata of a content; None for an unknown one."""
        need_texts(ref_or_key=ref_or_key, namespace=namespace)
        content = yield from read(lambda: self._operations.find(namespace, ref_or_key, self._clock()))
        return None if content is None else content.info()

    info, ainfo = sync_and_async(_info)

    def _has(self, ref_or_key: str, *, namespace: str = "") -> Flow[bool]:
        """Whether there is a content with this handle or key."""
        return (yield from self._info(ref_or_key, namespace=namespace)) is not None

    has, ahas = sync_and_async(_has)

    def _summary(self, ref_or_key: str, *, namespace: str = "") -> Flow[str | None]:
        """The summary that was stored with a content; None for an unknown one."""
        info = yield from self._info(ref_or_key, namespace=namespace)
        return None if info is None else info.summary

    summary, asummary = sync_and_async(_summary)

    # ----------------------------------------------------------------------------------------------------- searching
    def _find(self, name: str, *, namespace: str = "") -> Flow[list[ContentInfo]]:
        """The content with this handle or key, or else all contents with this file name (the last part of a path)."""
        need_texts(name=name)
        exact = yield from self._info(name, namespace=namespace)
        if exact is not None:
            return [exact]
        contents = yield from read(lambda: self._operations.named(namespace, name, self._clock()))
        return [content.info() for content in contents]

    find, afind = sync_and_async(_find)

    def _keys(self, *, namespace: str = "", limit: int = 100) -> Flow[list[str]]:
        """The first keys in alphabetical order."""
        need_texts(namespace=namespace)
        return (yield from read(lambda: self._operations.keys(namespace, self._clock(), limit)))

    keys, akeys = sync_and_async(_keys)

    def _search(
        self, query: str, ref: str | None = None, limit: int = 10, *, namespace: str = ""
    ) -> Flow[list[ContentHit]]:
        """The passages that match best, in all texts or in that of `ref` (a handle or key).

        Reads all texts that it searches, about 20 MB a second.
        """
        check_texts(ref=ref)
        need_texts(query=query, namespace=namespace)
        pages = yield from read(lambda: self._operations.all_pages(namespace, ref, self._clock()))
        return (yield from compute(lambda: best_passages(pages, query, limit)))

    search, asearch = sync_and_async(_search)

    def _stats(self, namespace: str | None = "") -> Flow[ContentStats]:
        """How much a namespace holds (None: all of them)."""
        check_texts(namespace=namespace)
        sums: ContentStats = yield from read(lambda: self._operations.stats(namespace))
        return replace(sums, usage=dict(self._usage))

    stats, astats = sync_and_async(_stats)

    # ---------------------------------------------------------------------------------------------------------------
    def _pages(self, ref_or_key: str, offset: int, limit: int | None, namespace: str) -> Flow[Pages | None]:
        need_texts(ref_or_key=ref_or_key, namespace=namespace)
        check_whole("offset", offset, -math.inf)
        check_whole("limit", limit, -math.inf, none="all")
        return (yield from read(lambda: self._operations.read(namespace, ref_or_key, offset, limit, self._clock())))

    def _putting(self, upload: Upload) -> Flow[str]:
        return self._operations.put(upload)

    def _stored(self, upload: Upload, ref: str, *, new: bool) -> ContentInfo:
        self._count(puts=1, duplicates=int(not new))
        body, metadata = upload.content, upload.metadata.dumped()
        return StoredContent(
            ref, body.sha256, body.encoding, len(body.text), upload.expires_at, upload.now, metadata, upload.key
        ).info()

    def _page(self, pages: Pages | None) -> Page | None:
        if pages is None:
            self._count(misses=1)
            return None
        self._count(reads=1)
        return pages.window.page(pages.content.ref, unpack(pages.content.ref, pages.bodies))

    def _count(self, **uses: int) -> None:
        with self._lock:
            self._usage.update(uses)

    def _payload(self, pages: Pages) -> bytes:
        body = payload(unpack(pages.content.ref, pages.bodies), pages.content.encoding)
        if packed(body).sha256 != pages.content.sha256:
            raise StoreCorruptError(
                f"content {pages.content.ref} is not what was stored (its hash differs): delete it, then put it again"
            )
        return body


class DatabaseContentStore(DatabasePart, PagedContentStore):
    """A content store in a database. `url`: a path, `:memory:`, a URL or an open Database."""

    _first: Callable[[], Work[None]] | None = None

    def __init__(self, url: Database | str | Path, *, clock: Callable[[], int] | None = None) -> None:
        DatabasePart.__init__(self, url, queries.SCHEMA)
        PagedContentStore.__init__(self, queries, clock=clock)

    def checking(self, first: Callable[[], Work[None]]) -> Self:
        """The same store, where the transaction of each put begins with `first`; what that raises ends the put."""
        view = copy.copy(self)
        view._first = first  # noqa: SLF001 (the same class)
        return view

    def _putting(self, upload: Upload) -> Work[str]:
        if self._first is not None:
            yield from self._first()
        return (yield from queries.put(upload))


class SqliteContentStore(DatabaseContentStore):
    """A content store in a SQLite file (or an open database); safe to use from several threads and processes."""


class SqlContentStore(DatabaseContentStore):
    """A content store in PostgreSQL, by its URL (or an open database); needs the extra `sql`."""
