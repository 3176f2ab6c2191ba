"""The content store in object storage: S3, Google Cloud Storage, Azure, or a folder.

`object_layout` has the paths. There are no transactions; the order of requests keeps the store consistent. A put writes
the content, then its holder, then the version of the key, and a delete goes the other way. A put that has written a
holder checks whether the content is still there, and one that has written a key whether its holder is. A delete copies
the content to the trash, deletes it, checks for holders, and puts it back if there is one. So a held content is always
in its place or in the trash, even after a crash, and `purge_expired` cleans up after crashes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext.content import object_layout as layout
from autocontext.content.bucket import Bucket, Copy, Delete, Get, List, Put
from autocontext.content.contents import FOREVER, Pages, StoredContent, Upload, basename, candidates
from autocontext.content.object_layout import Holder, Name
from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.records import ContentStats
from autocontext.content.store import PagedContentStore
from autocontext.errors import StoreCorruptError
from autocontext.flows import Flow

_UNDERWAY = 24 * 3_600_000
"""Milliseconds that a writer may take: purging leaves younger unfinished work alone."""


class ObjectContentStore(PagedContentStore):
    """A content store under a URL such as s3://bucket/folder, or in a folder by its path; needs the extra `cloud`.

    `options` go to obstore: region, endpoint, access_key_id, client_options and so on. `search` reads every content of
    a namespace and `stats` every head, so keep namespaces small.
    """

    def __init__(self, url: str | Path, *, clock: Callable[[], int] | None = None, **options: Any) -> None:
        super().__init__(Objects(), clock=clock)
        self._bucket = Bucket(url, private=layout.ROOT, **options)

    def _do(self, step: Any) -> Any:
        return self._bucket.do(step)

    async def _ado(self, step: Any) -> Any:
        return await self._bucket.ado(step)

    def close(self) -> None:
        """Nothing to let go of."""

    async def aclose(self) -> None:
        """Nothing to let go of."""


class Objects:
    """The operations of a content store, each a flow of requests."""

    def find(self, namespace: str, ref_or_key: str, now: int) -> Flow[StoredContent | None]:
        """The content with a handle or key."""
        head = yield from layout.look_up(namespace, ref_or_key, now)
        return None if head is None else head.content

    def named(self, namespace: str, name: str, now: int) -> Flow[list[StoredContent]]:
        """All contents with a file name."""
        place, file_name = layout.folder(namespace), basename(name)
        contents = []
        for record in (yield from layout.all_records(namespace, now)):
            if basename(record["key"]) == file_name:
                head = yield from layout.head_of(place, record["ref"])
                contents += [layout.keyed(head.content, record)] if head else []
        for ref in (yield from layout.all_refs(namespace)):
            head = yield from layout.head_of(place, ref)
            until = yield from _held_until(place, ref)
            if head and until > now and json.loads(head.content.metadata)[0] == file_name:
                contents.append(head.content._replace(expires_at=until))
        return contents

    def keys(self, namespace: str, now: int, limit: int) -> Flow[list[str]]:
        """The first keys in alphabetical order."""
        records = yield from layout.all_records(namespace, now)
        return [str(record["key"]) for record in records[:limit]]

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Flow[Pages | None]:
        """The pages with a part of a content."""
        while (head := (yield from layout.look_up(namespace, ref_or_key, now))) is not None:
            span = window(head.content.chars, offset, limit)
            bodies = yield from layout.bodies(head, span.first, span.last)
            if bodies is not None:
                return Pages(head.content, span, bodies)
        return None

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Flow[list[tuple[StoredContent, int, bytes]]]:
        """All pages of text, or those of one content."""
        refs = (yield from layout.all_refs(namespace)) if ref is None else [ref]
        records = yield from layout.all_records(namespace, now)
        names = {record["ref"]: record["key"] for record in reversed(records)}  # the first key counts
        pages: list[tuple[StoredContent, int, bytes]] = []
        for each in refs:
            head = yield from layout.look_up(namespace, each, now)
            if head is not None and head.content.encoding == "utf-8":
                content = head.content._replace(key=names.get(head.content.ref))
                bodies = yield from layout.bodies(head, 0, len(head.places) - 2)
                pages += [(content, i * PAGE_CHARS, body) for i, body in enumerate(bodies or ())]
        return pages

    def already(self, upload: Upload) -> Flow[StoredContent | None]:
        """The content if it is stored without a key and without expiry."""
        place = layout.folder(upload.namespace)
        for ref in candidates(upload.content.sha256):
            head = yield from layout.head_at(layout.content_path(place, ref), ref)
            if head is None:
                return None
            if head.content.sha256 == upload.content.sha256:
                return head.content if (yield from _held_until(place, ref)) == FOREVER else None
        return None

    def put(self, upload: Upload) -> Flow[str]:
        """Store a content, then its holder, then a version of its key; then delete older versions."""
        place, body = layout.folder(upload.namespace), layout.packed(upload)
        ref = yield from _write(place, upload, body)
        name = None
        if upload.key is not None:
            name = layout.new_name(upload, (yield from layout.versions_of(place, layout.digest(upload.key))))
            yield Put(name.holder(ref), b"")
        else:
            shorter = [holder for holder in (yield from layout.holders_of(place, ref)) if holder.name is None]
            if all(holder.until < upload.expires_at for holder in shorter):
                yield Put(layout.held_path(place, ref, upload.expires_at), b"")
                for holder in shorter:
                    yield Delete(holder.path)
        if (yield Get(layout.content_path(place, ref), 0, len(layout.MAGIC))) is None:
            yield Put(layout.content_path(place, ref), body)
        if name is not None:
            yield Put(name.path, layout.record_of(upload, ref))
            if (yield Get(name.holder(ref))) is None:  # somebody has deleted everything meanwhile
                yield Delete(name.path)
            versions = yield from layout.versions_of(place, name.key)
            for old in versions[:-1]:
                yield from _delete_unused(place, (yield from _delete_name(old)), upload.now)
        return ref

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Flow[bool]:
        """Delete a content by its handle, or one key."""
        place = layout.folder(namespace)
        head = yield from layout.look_up(namespace, ref_or_key, now)
        if head is not None and head.content.key is None:
            for holder in (yield from layout.holders_of(place, head.content.ref)):
                if holder.name is not None:
                    yield Delete(holder.name.path)
                yield from _delete_holder(holder)
            yield from _delete_unused(place, head.content.ref, now)
            return True
        for name in (yield from layout.versions_of(place, layout.digest(ref_or_key))):
            yield from _delete_unused(place, (yield from _delete_name(name)), now)
        return head is not None

    def clear(self, namespace: str | None, now: int, /) -> Flow[None]:
        """Delete everything of one namespace, or of all: names first."""
        paths = yield List(layout.ROOT if namespace is None else layout.folder(namespace))
        for path in paths:
            if "/names/" in path:
                yield Delete(path)
        for path in paths:
            if "/holders/" in path:
                yield from _delete_holder(layout.holder_at(path))
        for place, ref in (path.split("/content/") for path in paths if "/content/" in path):
            yield from _delete_unused(place, ref, now)

    def purge(self, now: int) -> Flow[int]:
        """Delete expired keys and contents, and what writers left unfinished more than a day ago."""
        gone = 0
        paths = yield List(layout.ROOT)
        for place in sorted({"/".join(path.split("/")[:2]) for path in paths}):
            yield from _purge_names(place, now)
            yield from _purge_trash(place, now)
            held = yield from _purge_holders(place, now)
            for path in (yield List(f"{place}/content")):
                ref = path.split("/")[-1]
                if ref not in held:
                    gone += yield from _delete_unused(place, ref, now)
        return gone

    def stats(self, namespace: str | None) -> Flow[ContentStats]:
        """The sums over all heads."""
        paths = yield List(layout.ROOT if namespace is None else layout.folder(namespace))
        contents = [path for path in paths if "/content/" in path]
        keys = {path.split("/")[3] for path in paths if "/names/" in path}
        chars = pages = stored = size = 0
        for path in contents:
            head = yield from layout.head_at(path, path.split("/")[-1])
            if head is not None:
                chars, size = chars + head.content.chars, size + head.size
                stored, pages = stored + head.places[-1] - head.places[0], pages + len(head.places) - 1
        return ContentStats(len(contents), len(keys), chars, pages, stored, size)


def _write(place: str, upload: Upload, body: bytes) -> Flow[str]:
    """Write the content unless it is stored, under a longer handle if another content has this one."""
    for ref in candidates(upload.content.sha256):
        path = layout.content_path(place, ref)
        if (yield Put(path, body, new=True)):
            return ref
        head = yield from layout.head_at(path, ref)
        if head is None:  # deleted since
            yield Put(path, body)
            return ref
        if head.content.sha256 == upload.content.sha256:
            return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {upload.content.sha256}; one of their objects is damaged")


def _held_until(place: str, ref: str) -> Flow[int]:
    """Until when puts without a key hold a content; 0 without such a put."""
    holders = yield from layout.holders_of(place, ref)
    return max((holder.until for holder in holders if holder.name is None), default=0)


def _delete_name(name: Name) -> Flow[str]:
    """Delete a version of a key and its holder; returns the content's handle, "" if another process was faster."""
    record = yield Get(name.path)
    if record is None:
        return ""
    ref = str(json.loads(record)["ref"])
    yield Delete(name.path)
    yield Delete(name.holder(ref))
    return ref


def _delete_holder(holder: Holder) -> Flow[None]:
    """Delete a holder, then its name: a put may write the name until it sees that its holder is gone."""
    yield Delete(holder.path)
    if holder.name is not None:
        yield Delete(holder.name.path)


def _delete_unused(place: str, ref: str, now: int) -> Flow[bool]:
    """Delete a content unless it has a holder; returns whether it was deleted."""
    if not ref or (yield from layout.holders_of(place, ref)):
        return False
    path, copy = layout.content_path(place, ref), layout.trash_path(place, ref, now)
    if not (yield Copy(path, copy)):
        return False
    yield Delete(path)
    holders = yield from layout.holders_of(place, ref)
    if holders:  # somebody has put it meanwhile
        yield Copy(copy, path)
    yield Delete(copy)
    return not holders


def _purge_names(place: str, now: int) -> Flow[None]:
    """Delete expired and replaced versions of keys, older ones first, so that none comes back."""
    names = [layout.name_at(path) for path in (yield List(f"{place}/names"))]
    newest = {name.key: name for name in names}
    for name in names:
        if name.until <= now or newest[name.key] != name:
            yield from _delete_name(name)


def _purge_trash(place: str, now: int) -> Flow[None]:
    """Empty the trash that a crash has left; contents with a holder go back."""
    for path in (yield List(f"{place}/trash")):
        ref, version = path.split("/")[-2:]
        if layout.made_at(version) + _UNDERWAY <= now:
            if (yield from layout.holders_of(place, ref)):
                yield Copy(path, layout.content_path(place, ref))
            yield Delete(path)


def _purge_holders(place: str, now: int) -> Flow[set[str]]:
    """Delete expired holders and those of a put that crashed; returns the handles of all contents with a holder."""
    names = set((yield List(f"{place}/names")))
    held = set()
    for path in (yield List(f"{place}/holders")):
        holder = layout.holder_at(path)
        name = holder.name
        unfinished = name is not None and name.path not in names and layout.made_at(name.version) + _UNDERWAY <= now
        if holder.until <= now or unfinished:
            yield Delete(path)
        else:
            held.add(holder.ref)
    return held
