"""The content store in object storage: S3, Google Cloud Storage, Azure, or a folder.

`object_layout` says where everything lies. There are no transactions: a content is written before what names it, and
deleted after. A crash in between leaves a content that nothing names, which `purge_expired` removes, never a name
without its content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext.content import object_layout as layout
from autocontext.content.bucket import Bucket, Delete, Flow, Get, List, Put
from autocontext.content.contents import FOREVER, Pages, StoredContent, Upload, basename, candidates
from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.store import PagedContentStore
from autocontext.errors import StoreCorruptError


class ObjectContentStore(PagedContentStore):
    """A content store under a URL such as s3://bucket/folder, or in a folder by its path; needs the extra `cloud`.

    `options` go to obstore: region, endpoint, access_key_id, client_options and so on. Searching reads every content,
    and figures read every head: keep a namespace for what belongs together.
    """

    def __init__(self, url: str | Path, *, clock: Callable[[], int] | None = None, **options: Any) -> None:
        super().__init__(Bucket(url, **options), _Objects(), clock=clock)

    def close(self) -> None:
        """Nothing to let go of."""

    async def aclose(self) -> None:
        """Nothing to let go of."""


class _Objects:
    """The operations, each a flow of requests."""

    def find(self, namespace: str, ref_or_key: str, now: int) -> Flow[StoredContent | None]:
        """The content of a handle or a key."""
        head = yield from layout.look_up(namespace, ref_or_key, now)
        return None if head is None else head.content

    def named(self, namespace: str, name: str, now: int) -> Flow[list[StoredContent]]:
        """All contents whose file name it is."""
        file_name = basename(name)
        contents = []
        for key in (yield from layout.all_keys(namespace, now)):
            if basename(key["key"]) == file_name:
                head = yield from layout.head_of(namespace, key["ref"])
                contents += [layout.keyed(head.content, key)] if head else []
        for ref in (yield from layout.all_refs(namespace)):
            head = yield from layout.head_of(namespace, ref)
            until = (yield from layout.holders_of(namespace, ref)).get(layout.HELD, 0)
            if head and until > now and json.loads(head.content.metadata)[0] == file_name:
                contents.append(head.content._replace(expires_at=until))
        return contents

    def keys(self, namespace: str, now: int, limit: int) -> Flow[list[str]]:
        """The first keys in order."""
        records = yield from layout.all_keys(namespace, now)
        return [str(record["key"]) for record in records[:limit]]

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Flow[Pages | None]:
        """The pages that hold a stretch of a content."""
        head = yield from layout.look_up(namespace, ref_or_key, now)
        if head is None:
            return None
        span = window(head.content.chars, offset, limit)
        bodies = yield from layout.bodies(namespace, head, span.first, span.last)
        return Pages(head.content, span, bodies)

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Flow[list[tuple[StoredContent, int, bytes]]]:
        """Every page of text, or those of one content."""
        refs = (yield from layout.all_refs(namespace)) if ref is None else [ref]
        names: dict[str, str] = {}
        for key in (yield from layout.all_keys(namespace, now)):
            names.setdefault(key["ref"], key["key"])
        pages: list[tuple[StoredContent, int, bytes]] = []
        for each in refs:
            head = yield from layout.look_up(namespace, each, now)
            if head is not None and head.content.encoding == "utf-8":
                content = head.content._replace(key=names.get(head.content.ref))
                bodies = yield from layout.bodies(namespace, head, 0, len(head.places) - 2)
                pages += [(content, i * PAGE_CHARS, body) for i, body in enumerate(bodies)]
        return pages

    def already(self, upload: Upload) -> Flow[StoredContent | None]:
        """The content, if it is there and held without a key and without an end."""
        for ref in candidates(upload.content.sha256):
            head = yield from layout.head_of(upload.namespace, ref)
            if head is None:
                return None
            if head.content.sha256 == upload.content.sha256:
                holders = yield from layout.holders_of(upload.namespace, ref)
                return head.content if holders.get(layout.HELD) == FOREVER else None
        return None

    def put(self, upload: Upload) -> Flow[str]:
        """Store a content, then its holder, then its key; then see that nobody has deleted it meanwhile."""
        body = layout.packed(upload)
        ref = yield from _write(upload, body)
        name = layout.HELD if upload.key is None else layout.digest(upload.key)
        before = yield from layout.holders_of(upload.namespace, ref)
        if upload.key is not None or upload.expires_at > before.get(layout.HELD, 0):
            yield Put(layout.holder_path(upload.namespace, ref, name, upload.expires_at), b"")
            if before.get(name, upload.expires_at) != upload.expires_at:
                yield Delete(layout.holder_path(upload.namespace, ref, name, before[name]))
        if (yield Get(layout.content_path(upload.namespace, ref), 0, len(layout.MAGIC))) is None:
            yield Put(layout.content_path(upload.namespace, ref), body)
        if upload.key is not None:
            path = layout.key_path(upload.namespace, name)
            old = yield Get(path)
            yield Put(path, json.dumps(layout.key_record(upload, ref)).encode())
            if old is not None and json.loads(old)["ref"] != ref:
                yield from _let_go(upload.namespace, json.loads(old)["ref"], name)
        return ref

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Flow[bool]:
        """Delete a content by its handle, or a key."""
        head = yield from layout.look_up(namespace, ref_or_key, now)
        if head is None:
            return False
        ref, key = head.content.ref, head.content.key
        if key is not None:
            yield Delete(layout.key_path(namespace, layout.digest(key)))
            yield from _let_go(namespace, ref, layout.digest(key))
            return True
        holders = yield from layout.holders_of(namespace, ref)
        for name, until in holders.items():
            if name != layout.HELD:
                yield Delete(layout.key_path(namespace, name))
            yield Delete(layout.holder_path(namespace, ref, name, until))
        yield Delete(layout.content_path(namespace, ref))
        return True

    def clear(self, namespace: str | None) -> Flow[None]:
        """Delete everything of one namespace, or of all: names first."""
        prefix = layout.ROOT if namespace is None else layout.folder(namespace)
        paths = [path for path, _ in (yield List(prefix))]
        for path in sorted(paths, key=lambda p: "/keys/" not in p):
            yield Delete(path)

    def purge(self, now: int) -> Flow[int]:
        """Delete keys and contents that are past their time."""
        gone = 0
        paths = [path for path, _ in (yield List(layout.ROOT))]
        folders = sorted({path.rsplit("/content/", 1)[0] for path in paths if "/content/" in path})
        for folder in folders:
            for path, _ in (yield List(f"{folder}/keys")):
                record = yield Get(path)
                if record is not None and json.loads(record)["expires_at"] <= now:
                    yield Delete(path)
            for path, _ in (yield List(f"{folder}/content")):
                ref = path.split("/")[-1]
                held = yield List(f"{folder}/holders/{ref}")
                late = [p for p, _ in held if int(p.rsplit("@", 1)[1]) <= now]
                for holder in late:
                    yield Delete(holder)
                if len(late) == len(held):
                    yield Delete(path)
                    gone += 1
        return gone

    def stats(self, namespace: str | None) -> Flow[tuple[Any, Any, Any]]:
        """What the heads say, summed up."""
        paths = [path for path, _ in (yield List(layout.ROOT if namespace is None else layout.folder(namespace)))]
        kinds = Counter(path.split("/")[2] for path in paths)
        holders = Counter(path.rsplit("/", 1)[0] for path in paths if "/holders/" in path)
        chars = stored = size = held = pages = 0
        for path in paths:
            raw = (yield from layout.raw_head(path)) if "/content/" in path else None
            if raw is not None:
                head, _ = raw
                chars, size = chars + int(head["chars"]), size + int(head["size"])
                held += int(head["size"]) * holders[path.replace("/content/", "/holders/")]
                stored, pages = stored + sum(head["pages"]), pages + len(head["pages"])
        return (kinds["content"], chars, stored, size, held), (pages,), (kinds["keys"],)


def _write(upload: Upload, body: bytes) -> Flow[str]:
    """Write the content unless it is there; a longer handle where another content has this one."""
    for ref in candidates(upload.content.sha256):
        if (yield Put(layout.content_path(upload.namespace, ref), body, new=True)):
            return ref
        head = yield from layout.head_of(upload.namespace, ref)
        if head is None:  # deleted since
            yield Put(layout.content_path(upload.namespace, ref), body)
            return ref
        if head.content.sha256 == upload.content.sha256:
            return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {upload.content.sha256}; one of their objects is damaged")


def _let_go(namespace: str, ref: str, name: str) -> Flow[None]:
    """Take one holder away; the content goes with its last one, and comes back if somebody has put it meanwhile."""
    holders = yield from layout.holders_of(namespace, ref)
    if name in holders:
        yield Delete(layout.holder_path(namespace, ref, name, holders[name]))
    # Ask only now who is left: of two that let go at once, the later one sees that nobody is.
    if (yield from layout.holders_of(namespace, ref)):
        return
    body = yield Get(layout.content_path(namespace, ref))
    yield Delete(layout.content_path(namespace, ref))
    if body is not None and (yield from layout.holders_of(namespace, ref)):
        yield Put(layout.content_path(namespace, ref), body)
