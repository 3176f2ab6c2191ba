"""The content store in object storage: S3, Google Cloud Storage, Azure, or a folder.

Per namespace, under autocontext-content/HASH/, by hashes of names:

    content/REF                the pages behind a head that says where each begins; written once, only if not there
    holders/REF/KEY@EXPIRES    an empty object for each key that leads to it, and one for puts without a key
    keys/KEY                   what a key leads to

There are no transactions: a content is written before what names it, and deleted after. A crash in between leaves a
content that nothing names, which `purge_expired` removes, never a name without its content.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from autocontext.content.bucket import Bucket, Delete, Flow, Get, List
from autocontext.content.bucket import Put as PutObject
from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.queries import FOREVER, Found, Pages, Put, basename, candidates
from autocontext.content.records import REF
from autocontext.content.store import PagedContentStore
from autocontext.errors import StoreCorruptError

_HEAD = 64 * 1024
"""Bytes read at first: they hold the head, and most contents whole."""
_MAGIC = b"AC1 "
_ROOT = "autocontext-content"
"""Nothing outside this folder is ever listed or deleted."""
_HELD = "held"
_TTL_DIGITS = 20


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
        found = yield from _found(namespace, ref_or_key, now)
        return None if found is None else found.found

    def named(self, namespace: str, name: str, now: int) -> Flow[list[Found]]:
        """All contents whose file name it is."""
        wanted = basename(name)
        made = []
        for key in (yield from _all_keys(namespace, now)):
            if basename(key["key"]) == wanted:
                head = yield from _head(namespace, key["ref"])
                made += [_keyed(head.found, key)] if head else []
        for ref in (yield from _refs(namespace)):
            head = yield from _head(namespace, ref)
            until = (yield from _holders(namespace, ref)).get(_HELD, 0)
            if head and until > now and json.loads(head.found.about)[0] == wanted:
                made.append(head.found._replace(expires_at=until))
        return made

    def keys(self, namespace: str, now: int, limit: int) -> Flow[list[str]]:
        """The first keys in order."""
        found = yield from _all_keys(namespace, now)
        return [str(key["key"]) for key in found[:limit]]

    def read(self, namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Flow[Pages | None]:
        """The pages that hold a stretch of a content."""
        found = yield from _found(namespace, ref_or_key, now)
        if found is None:
            return None
        wanted = window(found.found.chars, offset, limit)
        bodies = yield from _bodies(namespace, found, wanted.first, wanted.last)
        return Pages(found.found, wanted, bodies)

    def all_pages(self, namespace: str, ref: str | None, now: int) -> Flow[list[tuple[Found, int, bytes]]]:
        """Every page of text, or those of one content."""
        refs = (yield from _refs(namespace)) if ref is None else [ref]
        names: dict[str, str] = {}
        for key in (yield from _all_keys(namespace, now)):
            names.setdefault(key["ref"], key["key"])
        made: list[tuple[Found, int, bytes]] = []
        for each in refs:
            head = yield from _found(namespace, each, now)
            if head is not None and head.found.encoding == "utf-8":
                named = head.found._replace(key=names.get(head.found.ref))
                bodies = yield from _bodies(namespace, head, 0, len(head.places) - 2)
                made += [(named, i * PAGE_CHARS, body) for i, body in enumerate(bodies)]
        return made

    def already(self, put: Put) -> Flow[Found | None]:
        """The content, if it is there and held without a key and without an end."""
        for ref in candidates(put.content.sha256):
            head = yield from _head(put.namespace, ref)
            if head is None:
                return None
            if head.found.sha256 == put.content.sha256:
                holders = yield from _holders(put.namespace, ref)
                return head.found if holders.get(_HELD) == FOREVER else None
        return None

    def put(self, put: Put) -> Flow[str]:
        """Store a content, then its holder, then its key; then see that nobody has deleted it meanwhile."""
        body = _packed(put)
        ref = yield from _write(put, body)
        name = _HELD if put.key is None else _digest(put.key)
        before = yield from _holders(put.namespace, ref)
        if put.key is not None or put.expires_at > before.get(_HELD, 0):
            yield PutObject(_holder(put.namespace, ref, name, put.expires_at), b"")
            if before.get(name, put.expires_at) != put.expires_at:
                yield Delete(_holder(put.namespace, ref, name, before[name]))
        if (yield Get(_content(put.namespace, ref), 0, len(_MAGIC))) is None:
            yield PutObject(_content(put.namespace, ref), body)
        if put.key is not None:
            path = f"{_folder(put.namespace)}/keys/{name}"
            old = yield Get(path)
            yield PutObject(path, json.dumps(_key_record(put, ref)).encode())
            if old is not None and json.loads(old)["ref"] != ref:
                yield from _let_go(put.namespace, json.loads(old)["ref"], name)
        return ref

    def delete(self, namespace: str, ref_or_key: str, now: int) -> Flow[bool]:
        """Delete a content by its handle, or a key."""
        found = yield from _found(namespace, ref_or_key, now)
        if found is None:
            return False
        ref, key = found.found.ref, found.found.key
        if key is not None:
            yield Delete(f"{_folder(namespace)}/keys/{_digest(key)}")
            yield from _let_go(namespace, ref, _digest(key))
            return True
        holders = yield from _holders(namespace, ref)
        for name, until in holders.items():
            if name != _HELD:
                yield Delete(f"{_folder(namespace)}/keys/{name}")
            yield Delete(_holder(namespace, ref, name, until))
        yield Delete(_content(namespace, ref))
        return True

    def clear(self, namespace: str | None) -> Flow[None]:
        """Delete everything of one namespace, or of all: names first."""
        prefix = _ROOT if namespace is None else _folder(namespace)
        paths = [path for path, _ in (yield List(prefix))]
        for path in sorted(paths, key=lambda p: "/keys/" not in p):
            yield Delete(path)

    def purge(self, now: int) -> Flow[int]:
        """Delete keys and contents that are past their time."""
        gone = 0
        folders = sorted({path.rsplit("/content/", 1)[0] for path, _ in (yield List(_ROOT)) if "/content/" in path})
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
        found = [path for path, _ in (yield List(_ROOT if namespace is None else _folder(namespace)))]
        kinds = Counter(path.split("/")[2] for path in found)
        holders = Counter(path.rsplit("/", 1)[0] for path in found if "/holders/" in path)
        chars = stored = size = held = pages = 0
        for path in found:
            read = (yield from _read_head(path)) if "/content/" in path else None
            if read is not None:
                head, _ = read
                chars, size = chars + int(head["chars"]), size + int(head["size"])
                held += int(head["size"]) * holders[path.replace("/content/", "/holders/")]
                stored, pages = stored + sum(head["pages"]), pages + len(head["pages"])
        return (kinds["content"], chars, stored, size, held), (pages,), (kinds["keys"],)


# --------------------------------------------------------------------------------------------------------- objects
def _folder(namespace: str) -> str:
    return f"{_ROOT}/{_digest(namespace)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _content(namespace: str, ref: str) -> str:
    return f"{_folder(namespace)}/content/{ref}"


def _holder(namespace: str, ref: str, name: str, until: int) -> str:
    return f"{_folder(namespace)}/holders/{ref}/{name}@{until:0{_TTL_DIGITS}}"


def _packed(put: Put) -> bytes:
    head = {
        "sha256": put.content.sha256, "encoding": put.content.encoding, "chars": len(put.content.text),
        "size": put.content.size, "created_at": put.now, "about": list(put.about), "pages": [len(p) for p in put.pages],
    }  # fmt: skip
    text = json.dumps(head).encode("ascii")
    return b"".join([_MAGIC, len(text).to_bytes(4, "big"), text, *put.pages])


class _Head(NamedTuple):
    """What the beginning of a content's object says."""

    found: Found
    places: list[int]
    """Where each page begins and the last one ends: bytes of the object."""
    first: bytes
    """The object's first bytes, which often are all of it."""


def _parsed(ref: str, first: bytes) -> dict[str, Any]:
    """The head, with the byte that its pages begin at as `start`; without `pages` when more of it has to be read."""
    start = 8 + int.from_bytes(first[4:8], "big")
    if first[:4] != _MAGIC:
        raise StoreCorruptError(f"content {ref}: the object is none that this library wrote; put the content again")
    if len(first) < start:
        return {"start": start}
    try:
        return {**json.loads(first[8:start]), "start": start}
    except ValueError as e:
        raise StoreCorruptError(f"content {ref}: its head cannot be read ({e}); put the content again") from e


def _read_head(path: str) -> Flow[tuple[dict[str, Any], bytes] | None]:
    first = yield Get(path, 0, _HEAD)
    if first is None:
        return None
    head = _parsed(path, first)
    if "pages" not in head:  # a very long content
        first = yield Get(path, 0, head["start"])
        head = _parsed(path, first)
    return head, first


def _head(namespace: str, ref: str) -> Flow[_Head | None]:
    """What the head of a content says."""
    read = yield from _read_head(_content(namespace, ref))
    if read is None:
        return None
    head, first = read
    places = list(itertools.accumulate(head["pages"], initial=head["start"]))
    about = json.dumps(head["about"])
    found = Found(ref, head["sha256"], head["encoding"], head["chars"], FOREVER, head["created_at"], about)
    return _Head(found, places, first)


def _bodies(namespace: str, head: _Head, first: int, last: int) -> Flow[list[bytes]]:
    """The rows first to last of a content: out of its first bytes, or with one more request."""
    if last < first:
        return []
    places, ref = head.places, head.found.ref
    start, stop = places[first], places[last + 1]
    raw = head.first[start:stop]
    if len(raw) < stop - start:
        raw = yield Get(_content(namespace, ref), start, stop - start)
    if raw is None or len(raw) != stop - start:
        raise StoreCorruptError(f"content {ref}: its object is cut short; put the content again")
    return [raw[places[i] - start : places[i + 1] - start] for i in range(first, last + 1)]


def _holders(namespace: str, ref: str) -> Flow[dict[str, int]]:
    """Who holds a content, and until when."""
    found = yield List(f"{_folder(namespace)}/holders/{ref}")
    parts = (path.rsplit("/", 1)[-1].split("@") for path, _ in found)
    return {name: int(until) for name, until in parts}


def _found(namespace: str, ref_or_key: str, now: int) -> Flow[_Head | None]:
    """The content of a handle or a key."""
    if REF.fullmatch(ref_or_key):
        head = yield from _head(namespace, ref_or_key)
        until = max((yield from _holders(namespace, ref_or_key)).values(), default=0) if head else 0
        if head and until > now:
            return head._replace(found=head.found._replace(expires_at=until))
    record = yield Get(f"{_folder(namespace)}/keys/{_digest(ref_or_key)}")
    key = None if record is None else json.loads(record)
    if key is None or key["expires_at"] <= now:
        return None
    head = yield from _head(namespace, key["ref"])
    return None if head is None else head._replace(found=_keyed(head.found, key))


def _keyed(found: Found, key: dict[str, Any]) -> Found:
    about, until, made = json.dumps(key["about"]), key["expires_at"], key["created_at"]
    return found._replace(key=key["key"], about=about, expires_at=until, created_at=made)


def _key_record(put: Put, ref: str) -> dict[str, Any]:
    about = list(put.about)
    return {"key": put.key, "ref": ref, "about": about, "expires_at": put.expires_at, "created_at": put.now}


def _all_keys(namespace: str, now: int) -> Flow[list[dict[str, Any]]]:
    made = []
    for path, _ in (yield List(f"{_folder(namespace)}/keys")):
        record = yield Get(path)
        key = {"expires_at": 0} if record is None else json.loads(record)
        made += [key] if key["expires_at"] > now else []
    return sorted(made, key=lambda k: str(k["key"]))


def _refs(namespace: str) -> Flow[list[str]]:
    return [path.split("/")[-1] for path, _ in (yield List(f"{_folder(namespace)}/content"))]


def _write(put: Put, body: bytes) -> Flow[str]:
    """Write the content unless it is there; a longer handle where another content has this one."""
    for ref in candidates(put.content.sha256):
        if (yield PutObject(_content(put.namespace, ref), body, new=True)):
            return ref
        head = yield from _head(put.namespace, ref)
        if head is None:  # deleted since
            yield PutObject(_content(put.namespace, ref), body)
            return ref
        if head.found.sha256 == put.content.sha256:
            return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {put.content.sha256}; one of their objects is damaged")


def _let_go(namespace: str, ref: str, name: str) -> Flow[None]:
    """Take one holder away; the content goes with its last one, and comes back if somebody has put it meanwhile."""
    holders = yield from _holders(namespace, ref)
    if name in holders:
        yield Delete(_holder(namespace, ref, name, holders[name]))
    # Only now it is told who is left: of two that let go at once, the later sees that nobody is.
    if (yield from _holders(namespace, ref)):
        return
    body = yield Get(_content(namespace, ref))
    yield Delete(_content(namespace, ref))
    if body is not None and (yield from _holders(namespace, ref)):
        yield PutObject(_content(namespace, ref), body)
