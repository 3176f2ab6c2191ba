"""The content store in object storage: S3, Google Cloud Storage, Azure, or a folder.

`object_layout` says where everything lies. There are no transactions: a content is written before what names it, and
deleted after. A crash in between leaves a content that nothing names, which `purge_expired` removes, never a name
without its content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from autocontext.content import object_layout as layout
from autocontext.content.bucket import Bucket, Delete, Flow, Get, List
from autocontext.content.bucket import Put as PutObject
from autocontext.content.contents import FOREVER, Found, Pages, Put, basename, candidates
from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.store import PagedContentStore
from autocontext.errors import StoreCorruptError


class ObjectContentStore(PagedContentStore):
    """A content store under a URL such as s3://bucket/folder or file:///folder; needs the extra `cloud`.

    `options` go to obstore: region, endpoint, access_key_id, client_options and so on. Searching reads every content,
    and figures read every head: keep a namespace for what belongs together.
    """

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None, **options: Any) -> None:
        super().__init__(Bucket(url, **options), _Objects(), clock=clock)


class _Objects:
    """The operations, each a flow of requests."""

    def find(self, namespace: str, ref_or_key: str, now: int) -> Flow[Found | None]:
        """The content of a handle or a key."""
        found = yield from layout.look_up(namespace, ref_or_key, now)
        return None if found is None else found.found

    def named(self, namespace: str, name: str, now: int) -> Flow[list[Found]]:
        """All contents whose file name it is."""
        wanted = basename(name)
        made = []
        for key in (yield from layout.all_keys(namespace, now)):
            if basename(key["key"]) == wanted:
                head = yield from layout.head_of(namespace, key["ref"])
                made += [layout.keyed(head.found, key)] if head else []
        for ref in (yield from layout.all_refs(namespace)):
            head = yield from layout.head_of(namespace, ref)
            until = (yield from layout.holders_of(namespace, ref)).get(layout.HELD, 0)
            if head and until > now and json.loads(head.found.about)[0] == wanted:
                made.append(head.found._replace(expires_at=until))
        return made

    def keys(self, namespace: str, now: int, limit: int) -> Flow[list[str]]:
        """The first keys in order."""
        found = yield from layout.all_keys(namespace, now)
        return [str(key["key"]) for key in found[:limit]]

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Flow[Pages | None]:
        """The pages that hold a stretch of a content."""
        found = yield from layout.look_up(namespace, ref_or_key, now)
        if found is None:
            return None
        wanted = window(found.found.chars, offset, limit)
        bodies = yield from layout.bodies(namespace, found, wanted.first, wanted.last)
        return Pages(found.found, wanted, bodies)

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Flow[list[tuple[Found, int, bytes]]]:
        """Every page of text, or those of one content."""
        refs = (yield from layout.all_refs(namespace)) if ref is None else [ref]
        names: dict[str, str] = {}
        for key in (yield from layout.all_keys(namespace, now)):
            names.setdefault(key["ref"], key["key"])
        made: list[tuple[Found, int, bytes]] = []
        for each in refs:
            head = yield from layout.look_up(namespace, each, now)
            if head is not None and head.found.encoding == "utf-8":
                named = head.found._replace(key=names.get(head.found.ref))
                bodies = yield from layout.bodies(namespace, head, 0, len(head.places) - 2)
                made += [(named, i * PAGE_CHARS, body) for i, body in enumerate(bodies)]
        return made

    def already(self, put: Put) -> Flow[Found | None]:
        """The content, if it is there and held without a key and without an end."""
        for ref in candidates(put.content.sha256):
            head = yield from layout.head_of(put.namespace, ref)
            if head is None:
                return None
            if head.found.sha256 == put.content.sha256:
                holders = yield from layout.holders_of(put.namespace, ref)
                return head.found if holders.get(layout.HELD) == FOREVER else None
        return None

    def put(self, put: Put) -> Flow[str]:
        """Store a content, then its holder, then its key; then see that nobody has deleted it meanwhile."""
        body = layout.packed(put)
        ref = yield from _write(put, body)
        name = layout.HELD if put.key is None else layout.digest(put.key)
        before = yield from layout.holders_of(put.namespace, ref)
        if put.key is not None or put.expires_at > before.get(layout.HELD, 0):
            yield PutObject(layout.holder_path(put.namespace, ref, name, put.expires_at), b"")
            if before.get(name, put.expires_at) != put.expires_at:
                yield Delete(layout.holder_path(put.namespace, ref, name, before[name]))
        if (yield Get(layout.content_path(put.namespace, ref), 0, len(layout.MAGIC))) is None:
            yield PutObject(layout.content_path(put.namespace, ref), body)
        if put.key is not None:
            path = layout.key_path(put.namespace, name)
            old = yield Get(path)
            yield PutObject(path, json.dumps(layout.key_record(put, ref)).encode())
            if old is not None and json.loads(old)["ref"] != ref:
                yield from _let_go(put.namespace, json.loads(old)["ref"], name)
        return ref

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Flow[bool]:
        """Delete a content by its handle, or a key."""
        found = yield from layout.look_up(namespace, ref_or_key, now)
        if found is None:
            return False
        ref, key = found.found.ref, found.found.key
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
        found = [path for path, _ in (yield List(layout.ROOT if namespace is None else layout.folder(namespace)))]
        kinds = Counter(path.split("/")[2] for path in found)
        holders = Counter(path.rsplit("/", 1)[0] for path in found if "/holders/" in path)
        chars = stored = size = held = pages = 0
        for path in found:
            read = (yield from layout.raw_head(path)) if "/content/" in path else None
            if read is not None:
                head, _ = read
                chars, size = chars + int(head["chars"]), size + int(head["size"])
                held += int(head["size"]) * holders[path.replace("/content/", "/holders/")]
                stored, pages = stored + sum(head["pages"]), pages + len(head["pages"])
        return (kinds["content"], chars, stored, size, held), (pages,), (kinds["keys"],)


def _write(put: Put, body: bytes) -> Flow[str]:
    """Write the content unless it is there; a longer handle where another content has this one."""
    for ref in candidates(put.content.sha256):
        if (yield PutObject(layout.content_path(put.namespace, ref), body, new=True)):
            return ref
        head = yield from layout.head_of(put.namespace, ref)
        if head is None:  # deleted since
            yield PutObject(layout.content_path(put.namespace, ref), body)
            return ref
        if head.found.sha256 == put.content.sha256:
            return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {put.content.sha256}; one of their objects is damaged")


def _let_go(namespace: str, ref: str, name: str) -> Flow[None]:
    """Take one holder away; the content goes with its last one, and comes back if somebody has put it meanwhile."""
    holders = yield from layout.holders_of(namespace, ref)
    if name in holders:
        yield Delete(layout.holder_path(namespace, ref, name, holders[name]))
    # Only now it is told who is left: of two that let go at once, the later sees that nobody is.
    if (yield from layout.holders_of(namespace, ref)):
        return
    body = yield Get(layout.content_path(namespace, ref))
    yield Delete(layout.content_path(namespace, ref))
    if body is not None and (yield from layout.holders_of(namespace, ref)):
        yield PutObject(layout.content_path(namespace, ref), body)
