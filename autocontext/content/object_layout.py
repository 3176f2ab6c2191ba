"""Where contents lie in object storage, and what their objects say.

Per namespace, under autocontext-content/HASH/, by hashes of names:

    content/REF                the pages behind a head that says where each begins; written once, only if not there
    holders/REF/KEY@EXPIRES    an empty object for each key that leads to it, and one for puts without a key
    keys/KEY                   what a key leads to
"""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any, NamedTuple

from autocontext.content.bucket import Flow, Get, List
from autocontext.content.contents import FOREVER, StoredContent, Upload
from autocontext.content.records import REF
from autocontext.errors import StoreCorruptError

ROOT = "autocontext-content"
"""Nothing outside this folder is ever listed or deleted."""
HELD = "held"
"""The holder of a content that was put without a key."""
MAGIC = b"AC1 "
_HEAD = 64 * 1024
"""Bytes read at first: they hold the head, and most contents whole."""
_TTL_DIGITS = 20


# ---------------------------------------------------------------------------------------------------------- paths
def folder(namespace: str) -> str:
    """What holds everything of a namespace."""
    return f"{ROOT}/{digest(namespace)}"


def digest(name: str) -> str:
    """A name as it stands in a path."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def content_path(namespace: str, ref: str) -> str:
    """Where a content lies."""
    return f"{folder(namespace)}/content/{ref}"


def key_path(namespace: str, name: str) -> str:
    """Where it says what the key with this digest leads to."""
    return f"{folder(namespace)}/keys/{name}"


def holder_path(namespace: str, ref: str, name: str, until: int) -> str:
    """Where it says that this key, or HELD, holds a content."""
    return f"{folder(namespace)}/holders/{ref}/{name}@{until:0{_TTL_DIGITS}}"


# --------------------------------------------------------------------------------------------------------- objects
def packed(upload: Upload) -> bytes:
    """A content's object: its head, then its pages."""
    head = {
        "sha256": upload.content.sha256,
        "encoding": upload.content.encoding,
        "chars": len(upload.content.text),
        "size": upload.content.size,
        "created_at": upload.now,
        "about": list(upload.metadata),
        "pages": [len(page) for page in upload.pages],
    }
    text = json.dumps(head).encode("ascii")
    return b"".join([MAGIC, len(text).to_bytes(4, "big"), text, *upload.pages])


class Head(NamedTuple):
    """What the beginning of a content's object says."""

    content: StoredContent
    places: list[int]
    """Where each page begins and the last one ends: bytes of the object."""
    first: bytes
    """The object's first bytes, which often are all of it."""


def _parsed(ref: str, first: bytes) -> dict[str, Any]:
    """The head, with the byte that its pages begin at as `start`; without `pages` when more of it has to be read."""
    start = 8 + int.from_bytes(first[4:8], "big")
    if first[:4] != MAGIC:
        raise StoreCorruptError(f"content {ref}: the object is none that this library wrote; put the content again")
    if len(first) < start:
        return {"start": start}
    try:
        return {**json.loads(first[8:start]), "start": start}
    except ValueError as e:
        raise StoreCorruptError(f"content {ref}: its head cannot be read ({e}); put the content again") from e


def raw_head(path: str) -> Flow[tuple[dict[str, Any], bytes] | None]:
    """The head of the object at a path as it was written, and the first bytes it was read from."""
    first = yield Get(path, 0, _HEAD)
    if first is None:
        return None
    head = _parsed(path, first)
    if "pages" not in head:  # a very long content
        first = yield Get(path, 0, head["start"])
        head = _parsed(path, first)
    return head, first


def head_of(namespace: str, ref: str) -> Flow[Head | None]:
    """What the head of a content says."""
    raw = yield from raw_head(content_path(namespace, ref))
    if raw is None:
        return None
    head, first = raw
    places = list(itertools.accumulate(head["pages"], initial=head["start"]))
    metadata = json.dumps(head["about"])
    content = StoredContent(ref, head["sha256"], head["encoding"], head["chars"], FOREVER, head["created_at"], metadata)
    return Head(content, places, first)


def bodies(namespace: str, head: Head, first: int, last: int) -> Flow[list[bytes]]:
    """The rows first to last of a content: out of its first bytes, or with one more request."""
    if last < first:
        return []
    places, ref = head.places, head.content.ref
    start, stop = places[first], places[last + 1]
    raw = head.first[start:stop]
    if len(raw) < stop - start:
        raw = yield Get(content_path(namespace, ref), start, stop - start)
    if raw is None or len(raw) != stop - start:
        raise StoreCorruptError(f"content {ref}: its object is cut short; put the content again")
    return [raw[places[i] - start : places[i + 1] - start] for i in range(first, last + 1)]


def holders_of(namespace: str, ref: str) -> Flow[dict[str, int]]:
    """Who holds a content, and until when."""
    objects = yield List(f"{folder(namespace)}/holders/{ref}")
    parts = (path.rsplit("/", 1)[-1].split("@") for path, _ in objects)
    return {name: int(until) for name, until in parts}


def look_up(namespace: str, ref_or_key: str, now: int) -> Flow[Head | None]:
    """The content of a handle or a key."""
    if REF.fullmatch(ref_or_key):
        head = yield from head_of(namespace, ref_or_key)
        until = max((yield from holders_of(namespace, ref_or_key)).values(), default=0) if head else 0
        if head and until > now:
            return head._replace(content=head.content._replace(expires_at=until))
    record = yield Get(key_path(namespace, digest(ref_or_key)))
    key = None if record is None else json.loads(record)
    if key is None or key["expires_at"] <= now:
        return None
    head = yield from head_of(namespace, key["ref"])
    return None if head is None else head._replace(content=keyed(head.content, key))


def keyed(content: StoredContent, key: dict[str, Any]) -> StoredContent:
    """A content as the record of a key that leads to it tells of it."""
    metadata, until, created = json.dumps(key["about"]), key["expires_at"], key["created_at"]
    return content._replace(key=key["key"], metadata=metadata, expires_at=until, created_at=created)


def key_record(upload: Upload, ref: str) -> dict[str, Any]:
    """What is written for a key."""
    metadata = list(upload.metadata)
    return {"key": upload.key, "ref": ref, "about": metadata, "expires_at": upload.expires_at, "created_at": upload.now}


def all_keys(namespace: str, now: int) -> Flow[list[dict[str, Any]]]:
    """The records of a namespace's keys, by key."""
    keys = []
    for path, _ in (yield List(f"{folder(namespace)}/keys")):
        record = yield Get(path)
        key = {"expires_at": 0} if record is None else json.loads(record)
        keys += [key] if key["expires_at"] > now else []
    return sorted(keys, key=lambda k: str(k["key"]))


def all_refs(namespace: str) -> Flow[list[str]]:
    """The handles of a namespace's contents."""
    return [path.split("/")[-1] for path, _ in (yield List(f"{folder(namespace)}/content"))]
