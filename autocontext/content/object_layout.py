"""The paths of a content store's objects in object storage, and the format of each.

Per namespace, under autocontext-content/HASH/ (names are hashed):

    content/REF                       a head with the position of each page, then the pages
    names/KEY/VERSION@EXPIRES         the content that a key names; the newest version counts
    holders/REF/KEY~VERSION@EXPIRES   an empty object for each version of a key that names a content
    holders/REF/held@EXPIRES          the same for puts without a key
    trash/REF/VERSION                 a copy of a content while somebody deletes it

Object storage has no conditional delete. So the path of a holder or of a version of a key is written only once: whoever
deletes an expired one never deletes what another writer has put since. Contents are shared; `objects` describes how
they are deleted.
"""

from __future__ import annotations

import itertools
import json
import secrets
from typing import Any, NamedTuple

from autocontext.content.bucket import Get, List
from autocontext.content.contents import FOREVER, StoredContent, Upload
from autocontext.content.records import REF
from autocontext.errors import StoreCorruptError
from autocontext.flows import Flow
from autocontext.stores.records import text_hash

ROOT = "autocontext-content"
"""The store never lists or deletes anything outside this folder."""
HELD = "held"
"""The name of the holder of a content that was put without a key."""
MAGIC = b"AC1 "
_HEAD = 64 * 1024
"""Bytes of the first read: enough for the head, and for most contents."""
_DIGITS = 20
"""Digits of times in paths, so that they sort."""


# ---------------------------------------------------------------------------------------------------------- paths
def folder(namespace: str) -> str:
    """The folder of a namespace."""
    return f"{ROOT}/{digest(namespace)}"


def digest(name: str) -> str:
    """The hash of a name, for paths."""
    return text_hash(name)[:40]


def content_path(place: str, ref: str) -> str:
    """The path of a content; `place` is the namespace's folder, here and below."""
    return f"{place}/content/{ref}"


def trash_path(place: str, ref: str, now: int) -> str:
    """The path of the copy of a content that is being deleted."""
    return f"{place}/trash/{ref}/{_version(now)}"


def held_path(place: str, ref: str, until: int) -> str:
    """The path of the holder for a put without a key."""
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
    """Sorts after those of earlier versions of the key."""
    until: int

    @property
    def path(self) -> str:
        """The path of the record with the content that the key names."""
        return f"{self.place}/names/{self.key}/{self.version}@{self.until:0{_DIGITS}}"

    def holder(self, ref: str) -> str:
        """The path of the holder for this version."""
        return f"{self.place}/holders/{ref}/{self.key}~{self.version}@{self.until:0{_DIGITS}}"


def new_name(upload: Upload, others: list[Name]) -> Name:
    """A version that sorts after all others, whatever the clocks of their writers said."""
    newest = max((made_at(name.version) for name in others), default=0)
    version = _version(max(upload.now, newest + 1))
    return Name(folder(upload.namespace), digest(upload.key or ""), version, upload.expires_at)


class Holder(NamedTuple):
    """An object that keeps a content from being deleted until it expires."""

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
    """The parsed beginning of a content's object."""

    path: str
    content: StoredContent
    size: int
    """Bytes of the payload."""
    places: list[int]
    """The byte at which each page begins, and at which the last one ends."""
    first: bytes
    """The object's first bytes, often the whole object."""


def head_at(path: str, ref: str) -> Flow[Head | None]:
    """The head of the object at a path; None if there is no object."""
    first, start = (yield Get(path, 0, _HEAD)), 0
    if first is not None:
        if first[:4] != MAGIC:
            raise StoreCorruptError(
                f"content {path}: this library did not write the object; delete it, then put it again"
            )
        start = 8 + int.from_bytes(first[4:8], "big")
        if len(first) < start:  # of a very long content
            first = yield Get(path, 0, start)
    if first is None:
        return None
    try:
        head = json.loads(first[8:start])
    except ValueError as e:
        raise StoreCorruptError(f"content {path}: its head cannot be read ({e}); delete it, then put it again") from e
    places = list(itertools.accumulate(head["pages"], initial=start))
    metadata = json.dumps(head["about"])
    content = StoredContent(ref, head["sha256"], head["encoding"], head["chars"], FOREVER, head["created_at"], metadata)
    return Head(path, content, head["size"], places, first)


def head_of(place: str, ref: str) -> Flow[Head | None]:
    """The head of a content, or of its copy while somebody deletes it and may put it back."""
    path = content_path(place, ref)
    head = yield from head_at(path, ref)
    if head is None:
        for copy in (yield List(f"{place}/trash/{ref}")):
            head = head or (yield from head_at(copy, ref))
        head = head or (yield from head_at(path, ref))
    return head


def bodies(head: Head, first: int, last: int) -> Flow[list[bytes] | None]:
    """The rows first to last of a content, from its first bytes or with one more request; None if it was deleted."""
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
        raise StoreCorruptError(f"content {ref}: its object is cut short; delete it, then put it again")
    return [raw[places[i] - start : places[i + 1] - start] for i in range(first, last + 1)]


def holders_of(place: str, ref: str) -> Flow[list[Holder]]:
    """The holders of a content."""
    return [holder_at(path) for path in (yield List(f"{place}/holders/{ref}"))]


def versions_of(place: str, key: str) -> Flow[list[Name]]:
    """The versions of the key with this digest, newest last."""
    return [name_at(path) for path in (yield List(f"{place}/names/{key}"))]


def newest(place: str, key: str) -> Flow[dict[str, Any] | None]:
    """The record of the key with this digest."""
    while names := (yield from versions_of(place, key)):
        record = yield Get(names[-1].path)
        if record is not None:
            return dict(json.loads(record))
        # Another writer has deleted it since, which leaves a newer version or none.
    return None


def look_up(namespace: str, ref_or_key: str, now: int) -> Flow[Head | None]:
    """The content with a handle or key."""
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
    """A content with the metadata from the record of a key."""
    metadata, until, created = json.dumps(record["about"]), record["expires_at"], record["created_at"]
    return content._replace(key=record["key"], metadata=metadata, expires_at=until, created_at=created)


def record_of(upload: Upload, ref: str) -> bytes:
    """The record of a version of a key."""
    record = {"key": upload.key, "ref": ref, "about": list(upload.metadata)}
    return json.dumps(record | {"expires_at": upload.expires_at, "created_at": upload.now}).encode()


def all_records(namespace: str, now: int) -> Flow[list[dict[str, Any]]]:
    """The records of a namespace's keys, sorted by key."""
    place = folder(namespace)
    names = [name_at(path) for path in (yield List(f"{place}/names"))]
    records = []
    for key in dict.fromkeys(name.key for name in names):
        record = yield from newest(place, key)
        records += [record] if record is not None and record["expires_at"] > now else []
    return sorted(records, key=lambda record: str(record["key"]))


def all_refs(namespace: str) -> Flow[list[str]]:
    """The handles of a namespace's contents."""
    return [path.split("/")[-1] for path in (yield List(f"{folder(namespace)}/content"))]
