"""Where contents lie in object storage, and what their objects say.

Per namespace, under autocontext-content/HASH/, by hashes of names:

    content/REF                       the pages behind a head that says where each begins
    names/KEY/VERSION@EXPIRES         what a key leads to; the newest version counts
    holders/REF/KEY~VERSION@EXPIRES   an empty object for each version of a key that leads to a content
    holders/REF/held@EXPIRES          the same for puts without a key
    trash/REF/VERSION                 a copy of a content while somebody deletes it
    keys/KEY, holders/REF/KEY@EXPIRES a key as earlier versions of this library wrote it

Nothing can be deleted on a condition here. So versions of keys and holders have paths that are written once: what
somebody has found to be over is never what another has put since. Contents are shared; `objects` says how they go.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
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
_DIGITS = 20
"""Of times in paths, so that they sort."""


# ---------------------------------------------------------------------------------------------------------- paths
def folder(namespace: str) -> str:
    """What holds everything of a namespace."""
    return f"{ROOT}/{digest(namespace)}"


def digest(name: str) -> str:
    """A name as it stands in a path."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def content_path(place: str, ref: str) -> str:
    """Where a content lies; `place` is the namespace's folder here and below."""
    return f"{place}/content/{ref}"


def trash_path(place: str, ref: str, now: int) -> str:
    """Where the copy of a content goes that is being deleted."""
    return f"{place}/trash/{ref}/{_version(now)}"


def held_path(place: str, ref: str, until: int) -> str:
    """Where it says that a put without a key holds a content."""
    return f"{place}/holders/{ref}/{HELD}@{until:0{_DIGITS}}"


def made_at(version: str) -> int:
    """When a version of a key, or a copy in the trash, was made: milliseconds."""
    return int(version.split("-", maxsplit=1)[0])


def _version(at: int) -> str:
    return f"{at:0{_DIGITS}}-{secrets.token_hex(4)}"


class Name(NamedTuple):
    """A version of a key."""

    place: str
    key: str
    """The key's digest."""
    version: str
    """Sorts behind those of earlier versions; "" for a key that an earlier version of this library wrote."""
    until: int

    @property
    def path(self) -> str:
        """Where it says what the key leads to."""
        if not self.version:
            return f"{self.place}/keys/{self.key}"
        return f"{self.place}/names/{self.key}/{self.version}@{self.until:0{_DIGITS}}"

    def holder(self, ref: str) -> str:
        """Where it says that this version holds a content."""
        name = f"{self.key}~{self.version}" if self.version else self.key
        return f"{self.place}/holders/{ref}/{name}@{self.until:0{_DIGITS}}"


def new_name(upload: Upload, others: list[Name]) -> Name:
    """A version behind all others, whatever the clocks of their writers said."""
    newest = max((made_at(name.version) for name in others if name.version), default=0)
    version = _version(max(upload.now, newest + 1))
    return Name(folder(upload.namespace), digest(upload.key or ""), version, upload.expires_at)


class Holder(NamedTuple):
    """What holds a content, and until when."""

    path: str
    until: int
    name: Name | None
    """The version of a key; None for a put without a key."""

    @property
    def ref(self) -> str:
        """The content's handle."""
        return self.path.rsplit("/", 2)[1]


def holder_at(path: str) -> Holder:
    """A holder from its path."""
    place, _, rest = path.partition("/holders/")
    name, _, until = rest.split("/")[1].partition("@")
    key, _, version = name.partition("~")
    return Holder(path, int(until), None if key == HELD else Name(place, key, version, int(until)))


def name_at(path: str) -> Name:
    """A version of a key from its path."""
    place, _, rest = path.partition("/names/")
    key, _, last = rest.partition("/")
    version, _, until = last.partition("@")
    return Name(place, key, version, int(until))


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

    path: str
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


def head_at(path: str, ref: str) -> Flow[Head | None]:
    """What the head of the object at a path says."""
    raw = yield from raw_head(path)
    if raw is None:
        return None
    head, first = raw
    places = list(itertools.accumulate(head["pages"], initial=head["start"]))
    metadata = json.dumps(head["about"])
    content = StoredContent(ref, head["sha256"], head["encoding"], head["chars"], FOREVER, head["created_at"], metadata)
    return Head(path, content, places, first)


def head_of(place: str, ref: str) -> Flow[Head | None]:
    """What the head of a content says; while somebody deletes it and may put it back, that of its copy."""
    path = content_path(place, ref)
    head = yield from head_at(path, ref)
    if head is None:
        for copy, _ in (yield List(f"{place}/trash/{ref}")):
            head = head or (yield from head_at(copy, ref))
        head = head or (yield from head_at(path, ref))
    return head


def bodies(head: Head, first: int, last: int) -> Flow[list[bytes] | None]:
    """The rows first to last of a content: out of its first bytes, or with one more request; None when it is gone."""
    if last < first:
        return []
    places, ref = head.places, head.content.ref
    start, stop = places[first], places[last + 1]
    raw: bytes | None = head.first[start:stop]
    if len(raw or b"") < stop - start:
        raw = yield Get(head.path, start, stop - start)
    if raw is None:
        return None
    if len(raw) != stop - start:
        raise StoreCorruptError(f"content {ref}: its object is cut short; put the content again")
    return [raw[places[i] - start : places[i + 1] - start] for i in range(first, last + 1)]


def holders_of(place: str, ref: str) -> Flow[list[Holder]]:
    """What holds a content."""
    return [holder_at(path) for path, _ in (yield List(f"{place}/holders/{ref}"))]


def versions_of(place: str, key: str) -> Flow[list[Name]]:
    """The versions of a key, by its digest, the newest last."""
    return [name_at(path) for path, _ in (yield List(f"{place}/names/{key}"))]


def newest(place: str, key: str) -> Flow[dict[str, Any] | None]:
    """The record of a key, by its digest."""
    while True:
        names = yield from versions_of(place, key)
        record = yield Get((names[-1] if names else Name(place, key, "", 0)).path)
        if record is not None:
            return dict(json.loads(record))
        if not names:
            return None  # otherwise another writer has deleted it since, which leaves a newer one or none


def look_up(namespace: str, ref_or_key: str, now: int) -> Flow[Head | None]:
    """The content of a handle or a key."""
    place = folder(namespace)
    if REF.fullmatch(ref_or_key):
        until = max((holder.until for holder in (yield from holders_of(place, ref_or_key))), default=0)
        head = (yield from head_of(place, ref_or_key)) if until > now else None
        if head is not None:
            return head._replace(content=head.content._replace(expires_at=until))
    record = yield from newest(place, digest(ref_or_key))
    if record is None or record["expires_at"] <= now:
        return None
    head = yield from head_of(place, record["ref"])
    return None if head is None else head._replace(content=keyed(head.content, record))


def keyed(content: StoredContent, record: dict[str, Any]) -> StoredContent:
    """A content as the record of a key that leads to it tells of it."""
    metadata, until, created = json.dumps(record["about"]), record["expires_at"], record["created_at"]
    return content._replace(key=record["key"], metadata=metadata, expires_at=until, created_at=created)


def record_of(upload: Upload, ref: str) -> bytes:
    """What is written for a version of a key."""
    record = {"key": upload.key, "ref": ref, "about": list(upload.metadata)}
    return json.dumps(record | {"expires_at": upload.expires_at, "created_at": upload.now}).encode()


def all_records(namespace: str, now: int) -> Flow[list[dict[str, Any]]]:
    """The records of a namespace's keys, by key."""
    place = folder(namespace)
    paths = [path for path, _ in (yield List(f"{place}/keys"))] + [path for path, _ in (yield List(f"{place}/names"))]
    records = []
    for key in dict.fromkeys(path.split("/")[3] for path in paths):
        record = yield from newest(place, key)
        records += [record] if record is not None and record["expires_at"] > now else []
    return sorted(records, key=lambda record: str(record["key"]))


def all_refs(namespace: str) -> Flow[list[str]]:
    """The handles of a namespace's contents."""
    return [path.split("/")[-1] for path, _ in (yield List(f"{folder(namespace)}/content"))]
