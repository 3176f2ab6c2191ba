"""The content store's tables and its operations on them: one generator each, without a driver.

A content has one row per namespace, and its pages, however many keys name it. It is kept while a key names it, and
until `held_until`, the latest expiry of puts without a key (0: there was none). No counter of keys is stored, so none
can be wrong.

Writers first lock the row of the key, then contents in the order of their handles. A writer holds the lock of a
content's row while it adds a key. A writer that deletes a content locks the row, and only then, in another statement,
looks for keys: so it sees those of all who had the lock before.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple

from autocontext.content.contents import FOREVER, Pages, StoredContent, Upload, basename, candidates
from autocontext.content.paging import PAGE_CHARS, last_page, window
from autocontext.content.records import REF, ContentStats
from autocontext.errors import StoreCorruptError
from autocontext.stores.database import Row, Schema, Statement, Work, safe, unsafe
from autocontext.stores.records import check_row, row_checksum

SCHEMA = Schema(
    "contents",
    (
        (
            """CREATE TABLE autocontext_content (
                namespace TEXT NOT NULL, ref TEXT NOT NULL, sha256 TEXT NOT NULL, encoding TEXT NOT NULL,
                chars BIGINT NOT NULL, size BIGINT NOT NULL, stored BIGINT NOT NULL,
                holders BIGINT NOT NULL, held BIGINT NOT NULL, expires_at BIGINT NOT NULL, created_at BIGINT NOT NULL,
                name TEXT NOT NULL, about TEXT NOT NULL, PRIMARY KEY (namespace, ref))""",
            """CREATE TABLE autocontext_content_page (
                namespace TEXT NOT NULL, ref TEXT NOT NULL, page BIGINT NOT NULL, body BYTEA NOT NULL,
                PRIMARY KEY (namespace, ref, page))""",
            """CREATE TABLE autocontext_content_key (
                namespace TEXT NOT NULL, key TEXT NOT NULL, ref TEXT NOT NULL, basename TEXT NOT NULL,
                expires_at BIGINT NOT NULL, created_at BIGINT NOT NULL, about TEXT NOT NULL,
                PRIMARY KEY (namespace, key))""",
            "CREATE INDEX autocontext_content_key_ref ON autocontext_content_key (namespace, ref)",
            "CREATE INDEX autocontext_content_key_basename ON autocontext_content_key (namespace, basename)",
            "CREATE INDEX autocontext_content_name ON autocontext_content (namespace, name)",
        ),
        # In version 1 `expires_at` was the latest expiry of all, also of deleted keys, and keys were counted.
        (
            "UPDATE autocontext_content SET expires_at = 0 WHERE held = 0",
            "ALTER TABLE autocontext_content RENAME COLUMN expires_at TO held_until",
            "ALTER TABLE autocontext_content DROP COLUMN holders",
            "ALTER TABLE autocontext_content DROP COLUMN held",
        ),
        # Rows of earlier versions have no checksum.
        (
            "ALTER TABLE autocontext_content ADD COLUMN checksum TEXT",
            "ALTER TABLE autocontext_content_page ADD COLUMN checksum TEXT",
            "ALTER TABLE autocontext_content_key ADD COLUMN checksum TEXT",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------------- reading
_FIELDS = ("sha256", "encoding", "chars", "size", "stored", "held_until", "created_at", "name", "about")
_KEY_FIELDS = ("basename", "expires_at", "created_at", "about")
_KEY = 3 + len(_FIELDS)
"""The place of the key in a row."""
_FOUND = (
    f"{', '.join(f'c.{name}' for name in _FIELDS)}, c.checksum, "
    f"k.key, {', '.join(f'k.{name}' for name in _KEY_FIELDS)}, k.checksum FROM "
)
_SAME = "ON k.namespace = c.namespace AND k.ref = c.ref"
_CONTENTS = (
    f"SELECT c.namespace, c.ref, {_FOUND} autocontext_content c LEFT JOIN autocontext_content_key k {_SAME} WHERE "
)
"""Contents with each of their keys."""
_OF_REF = f"{_CONTENTS}c.namespace = :ns AND c.ref = :ref"
_KEYS = f"SELECT k.namespace, k.ref, {_FOUND} autocontext_content_key k LEFT JOIN autocontext_content c {_SAME} WHERE "
"""Keys with their content."""


class _Found(NamedTuple):
    """A content, and one of its keys if it has any, from a row of `_CONTENTS` or `_KEYS`."""

    namespace: str
    content: StoredContent
    """As it was put without a key; it expires when those puts do."""
    size: int
    stored: int
    keyed: StoredContent | None
    """With the expiry and metadata of the key."""


def _found(row: Row) -> _Found:
    """The content in a row. Raises StoreCorruptError."""
    ns, ref, *values = row
    of_content, of_key = values[: len(_FIELDS)], values[-len(_KEY_FIELDS) - 1 : -1]
    checksum, key, key_checksum = values[len(_FIELDS)], values[len(_FIELDS) + 1], values[-1]
    if key is not None:
        check_row(f"content key {key!r}", key_checksum, ns, key, ref, *of_key)
        if of_content[0] is None:
            raise StoreCorruptError(f"content key {key!r}: its content {ref} is missing; put it again")
    check_row(f"content {ref}", checksum, ns, ref, *of_content)
    sha256, encoding, chars, size, stored, held_until, created_at, _, about = of_content
    if key is None and not held_until and checksum is not None:
        raise StoreCorruptError(f"content {ref}: the key that it was put under is missing; put it again")
    content, keyed = StoredContent(ref, sha256, encoding, chars, held_until, created_at, about), None
    if key is not None:
        _, expires_at, created_at, about = of_key
        keyed = content._replace(expires_at=expires_at, created_at=created_at, metadata=about, key=unsafe(key))
    return _Found(ns, content, size, stored, keyed)


def _is_intact(row: Row) -> bool:
    try:
        _found(row)
    except StoreCorruptError:
        return False
    return True


def _alive(rows: list[Row], now: int) -> list[tuple[StoredContent, int]]:
    """The contents of `_CONTENTS` that something holds, with their first key, and until when puts without one do."""
    alive = []
    for _, group in groupby(map(_found, rows), key=lambda found: found.content.ref):
        found = list(group)
        content, keyed = found[0].content, [one.keyed for one in found if one.keyed is not None]
        until = max(content.expires_at, *(one.expires_at for one in keyed), 0)
        if until > now:
            key = min((str(one.key) for one in keyed if one.expires_at > now), default=None)
            alive.append((content._replace(expires_at=until, key=key), content.expires_at))
    return alive


def _of_keys(rows: list[Row], now: int) -> list[StoredContent]:
    """The contents of `_KEYS` whose key has not expired."""
    return [keyed for keyed in (_found(row).keyed for row in rows) if keyed is not None and keyed.expires_at > now]


def find(namespace: str, ref_or_key: str, now: int) -> Work[StoredContent | None]:
    """The content with a handle, or else with a key."""
    params = {"ns": safe(namespace), "ref": ref_or_key, "key": safe(ref_or_key)}
    if REF.fullmatch(ref_or_key):
        rows = yield Statement(_OF_REF, params)
        if alive := _alive(rows, now):
            return alive[0][0]._replace(key=None)
    keyed = _of_keys((yield Statement(f"{_KEYS}k.namespace = :ns AND k.key = :key", params)), now)
    return keyed[0] if keyed else None


def named(namespace: str, name: str, now: int) -> Work[list[StoredContent]]:
    """Contents whose key ends in this file name, then those stored without a key under this name."""
    params = {"ns": safe(namespace), "name": safe(basename(name)), "basename": safe(basename(name))}
    keyed = yield Statement(f"{_KEYS}k.namespace = :ns AND k.basename = :basename ORDER BY k.key", params)
    plain = yield Statement(f"{_CONTENTS}c.namespace = :ns AND c.name = :name ORDER BY c.ref", params)
    return [*_of_keys(keyed, now), *(found._replace(key=None) for found, held in _alive(plain, now) if held > now)]


def keys(namespace: str, now: int, limit: int) -> Work[list[str]]:
    """The first keys in alphabetical order."""
    found: list[str] = []
    params: dict[str, Any] = {"ns": safe(namespace), "n": limit}
    after = ""
    while len(found) < limit:
        rows = yield Statement(f"{_KEYS}k.namespace = :ns {after}ORDER BY k.key LIMIT :n", params)
        if not rows:
            break
        found += [str(content.key) for content in _of_keys(rows, now)]
        after, params["key"] = "AND k.key > :key ", rows[-1][_KEY]
    return found[:limit]


def read(namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Work[Pages | None]:
    """The rows with a part of a content. Raises StoreCorruptError if one is missing."""
    content = yield from find(namespace, ref_or_key, now)
    if content is None:
        return None
    span, rows = window(content.chars, offset, limit), list[Row]()
    if span.last >= span.first:
        rows = yield Statement(
            f"SELECT {_PAGE} FROM autocontext_content_page p "
            "WHERE p.namespace = :ns AND p.ref = :ref AND p.page >= :first AND p.page <= :last ORDER BY p.page",
            {"ns": safe(namespace), "ref": content.ref, "first": span.first, "last": span.last},
        )
    return Pages(content, span, _bodies(content.ref, rows, span.first, span.last))


_PAGE = "p.namespace, p.ref, p.page, p.body, p.checksum"


def _bodies(ref: str, rows: list[Row], first: int, last: int) -> list[bytes]:
    if [row[2] for row in rows] != list(range(first, last + 1)):
        raise StoreCorruptError(f"content {ref}: a page of {first} to {last} is missing; delete it, then put it again")
    for *values, checksum in rows:
        check_row(f"content {ref}, page {values[2]}", checksum, *values)
    return [bytes(row[3]) for row in rows]


def all_pages(namespace: str, ref: str | None, now: int) -> Work[list[tuple[StoredContent, int, bytes]]]:
    """All pages of text, or those of one content, each with the position of its first character."""
    params, only, pages_only = {"ns": safe(namespace)}, "", ""
    if ref is not None:
        content = yield from find(namespace, ref, now)
        if content is None:
            return []
        params, only, pages_only = params | {"ref": content.ref}, "AND c.ref = :ref ", "AND p.ref = :ref "
    contents = yield Statement(f"{_CONTENTS}c.namespace = :ns {only}ORDER BY c.ref", params)
    texts = [found for found, _ in _alive(contents, now) if found.encoding == "utf-8"]
    rows = yield Statement(
        f"SELECT {_PAGE} FROM autocontext_content_page p WHERE p.namespace = :ns {pages_only}ORDER BY p.ref, p.page",
        params,
    )
    of_ref = {str(ref): list(group) for ref, group in groupby(rows, key=lambda row: row[1])}
    return [
        (found, page * PAGE_CHARS, body)
        for found in texts
        for page, body in enumerate(_bodies(found.ref, of_ref.get(found.ref, []), 0, last_page(found.chars)))
    ]


def held(namespace: str, refs: Collection[str], now: int) -> Work[frozenset[str]]:
    """Which of these contents are there, put without a key."""
    names = {f"ref_{i}": ref for i, ref in enumerate(sorted(refs))}
    rows = yield Statement(
        "SELECT ref FROM autocontext_content WHERE namespace = :ns AND held_until > :now "
        f"AND ref IN ({', '.join(f':{name}' for name in names)})",
        {"ns": safe(namespace), "now": now, **names},
    )
    return frozenset(ref for (ref,) in rows)


# ---------------------------------------------------------------------------------------------------------- writing
def already(upload: Upload) -> Work[StoredContent | None]:
    """The content if it is stored without a key and without expiry: then such a put has nothing to write."""
    for ref in candidates(upload.content.sha256):
        rows = yield Statement(_OF_REF, {"ns": safe(upload.namespace), "ref": ref})
        if not rows or not all(map(_is_intact, rows)):
            return None
        content = _found(rows[0]).content
        if content.sha256 == upload.content.sha256:
            return content if content.expires_at == FOREVER else None
    return None


def put(upload: Upload) -> Work[str]:
    """Store a content unless it is stored, give it the key, and return its handle."""
    if upload.key is None:
        return (yield from _hold(upload, upload.expires_at))
    ns = safe(upload.namespace)
    key: dict[str, Any] = {"ns": ns, "key": safe(upload.key), "until": upload.expires_at, "now": upload.now}
    key |= {"basename": safe(basename(upload.key)), "about": upload.metadata.dumped()}
    [(old,)] = yield Statement(_LOCK_KEY, key)
    if old and old < next(candidates(upload.content.sha256)):
        yield Statement(_LOCK, {"ns": ns, "ref": old})
    ref = yield from _hold(upload, 0)
    checksum = row_checksum(ns, key["key"], ref, *(key[name] for name in ("basename", "until", "now", "about")))
    yield Statement(_PUT_KEY, {**key, "ref": ref, "checksum": checksum})
    if old not in ("", ref):
        yield from _delete_unused(ns, old, upload.now)
    return ref


_LOCK_KEY = """INSERT INTO autocontext_content_key (namespace, key, ref, basename, expires_at, created_at, about)
    VALUES (:ns, :key, '', :basename, :until, :now, :about) ON CONFLICT (namespace, key) DO UPDATE
    SET created_at = autocontext_content_key.created_at RETURNING ref"""
"""Returns the handle that the key has named so far; "" for a new key."""
_PUT_KEY = """UPDATE autocontext_content_key SET ref = :ref, basename = :basename, expires_at = :until,
    created_at = :now, about = :about, checksum = :checksum WHERE namespace = :ns AND key = :key"""
_OF_THIS = "WHERE namespace = :ns AND ref = :ref"
_LOCK = f"UPDATE autocontext_content SET held_until = held_until {_OF_THIS}"
_LOCK_AND_READ = f"{_LOCK} RETURNING {', '.join(_FIELDS)}, checksum"
_EXTEND = f"UPDATE autocontext_content SET held_until = :held_until, checksum = :checksum {_OF_THIS}"


def _hold(upload: Upload, until: int) -> Work[str]:
    """Insert the content if it is new, lock its row, extend `held_until`, and return its handle."""
    sha256 = upload.content.sha256
    for ref in candidates(sha256):
        while not (rows := (yield Statement(_LOCK_AND_READ, {"ns": safe(upload.namespace), "ref": ref}))):
            if (yield from _insert(upload, ref, until)):
                return ref
        if rows[0][0] == sha256:
            yield from _extend(upload, ref, rows[0], until)
            return ref
        # Another content has this handle: take a longer one.
    raise StoreCorruptError(f"two contents have the SHA-256 {sha256}; one of their rows is damaged")


def _extend(upload: Upload, ref: str, found: Row, until: int) -> Work[None]:
    """Hold a content, whose row is locked, until this time at least; write it again if its row is damaged."""
    *values, checksum = found
    row = dict(zip(_FIELDS, values, strict=True))
    key = {"ns": safe(upload.namespace), "ref": ref}
    try:
        check_row(ref, checksum, *key.values(), *values)
    except StoreCorruptError:
        held = row["held_until"] if isinstance(row["held_until"], int) else 0
        yield Statement(_DELETE_PAGES, key)
        yield Statement(_DELETE_CONTENT, key)
        yield from _insert(upload, ref, max(held, until))
        return
    if until > row["held_until"]:
        row["held_until"] = until
        yield Statement(_EXTEND, {**key, "held_until": until, "checksum": row_checksum(*key.values(), *row.values())})


_COLUMNS = ("namespace", "ref", *_FIELDS)
_INSERT = (
    f"INSERT INTO autocontext_content ({', '.join(_COLUMNS)}, checksum) "
    f"VALUES ({', '.join(f':{name}' for name in _COLUMNS)}, :checksum) "
    "ON CONFLICT (namespace, ref) DO NOTHING RETURNING ref"
)


def _insert(upload: Upload, ref: str, until: int) -> Work[bool]:
    content, metadata, ns = upload.content, upload.metadata, safe(upload.namespace)
    row = (
        ns, ref, content.sha256, content.encoding, len(content.text), content.size, sum(map(len, upload.pages)), until,
        upload.now, safe(metadata.name), metadata.dumped(),
    )  # fmt: skip
    rows = yield Statement(_INSERT, {**dict(zip(_COLUMNS, row, strict=True)), "checksum": row_checksum(*row)})
    if not rows:
        return False
    yield Statement(
        "INSERT INTO autocontext_content_page (namespace, ref, page, body, checksum) "
        "VALUES (:ns, :ref, :page, :body, :checksum)",
        [
            {"ns": ns, "ref": ref, "page": i, "body": body, "checksum": row_checksum(ns, ref, i, body)}
            for i, body in enumerate(upload.pages)
        ],
    )
    return True


_DELETE_KEYS = f"DELETE FROM autocontext_content_key {_OF_THIS}"
_DELETE_PAGES = f"DELETE FROM autocontext_content_page {_OF_THIS}"
_DELETE_CONTENT = f"DELETE FROM autocontext_content {_OF_THIS}"


def _delete_unused(ns: str, ref: str, now: int) -> Work[bool]:
    """Delete a content if no key names it and `held_until` has passed; returns whether it was deleted."""
    params = {"ns": ns, "ref": ref}
    yield Statement(_LOCK, params)
    gone = yield Statement(
        f"{_DELETE_CONTENT} AND held_until <= :now AND NOT EXISTS (SELECT 1 FROM autocontext_content_key k "
        "WHERE k.namespace = :ns AND k.ref = :ref) RETURNING ref",
        {**params, "now": now},
    )
    if gone:
        yield Statement(_DELETE_PAGES, params)
    return bool(gone)


def delete(namespace: str, ref_or_key: str, now: int) -> Work[bool]:
    """Delete a content with all its keys (by its handle), or one key, and its content if nothing else holds it."""
    ns = safe(namespace)
    if REF.fullmatch(ref_or_key):
        content = {"ns": ns, "ref": ref_or_key}
        rows = yield Statement(_OF_REF, content)
        # What is damaged can still be deleted.
        if not all(map(_is_intact, rows)) or _alive(rows, now):
            return (yield from _erase(content))
    rows = yield Statement(
        "DELETE FROM autocontext_content_key WHERE namespace = :ns AND key = :key RETURNING ref, expires_at",
        {"ns": ns, "key": safe(ref_or_key)},
    )
    for ref, _ in rows:
        yield from _delete_unused(ns, ref, now)
    return any(expires_at > now for _, expires_at in rows)


def release(namespace: str, ref: str, now: int) -> Work[bool]:
    """Forget puts without a key, and delete the content unless a key names it; returns whether it was deleted."""
    content = {"ns": safe(namespace), "ref": ref}
    for *values, checksum in (yield Statement(_LOCK_AND_READ, content)):
        row = {**dict(zip(_FIELDS, values, strict=True)), "held_until": 0}
        with suppress(StoreCorruptError):  # what is damaged stays so
            check_row(ref, checksum, *content.values(), *values)
            checksum = row_checksum(*content.values(), *row.values())  # noqa: PLW2901 (of the row as it is from now on)
        yield Statement(_EXTEND, {**content, "held_until": 0, "checksum": checksum})
    return (yield from _delete_unused(content["ns"], ref, now))


def _erase(content: dict[str, str]) -> Work[bool]:
    """Delete a content with its keys; False if somebody else did."""
    yield Statement(_DELETE_KEYS, content)
    gone = yield Statement(f"{_DELETE_CONTENT} RETURNING ref", content)
    if gone:
        yield Statement(_DELETE_PAGES, content)
        yield Statement(_DELETE_KEYS, content)  # those that were put before the content was locked
    return bool(gone)


def clear(namespace: str | None, _now: int) -> Work[None]:
    """Delete everything, or everything of one namespace."""
    params = {} if namespace is None else {"ns": safe(namespace)}
    only = "" if namespace is None else "namespace = :ns AND "
    yield Statement(f"DELETE FROM autocontext_content_key WHERE {only}1 = 1", params)
    yield Statement(f"DELETE FROM autocontext_content WHERE {only}1 = 1", params)
    # Pages and keys that others put since then have a content; those put before that statement have none now.
    for table in ("autocontext_content_page", "autocontext_content_key"):
        yield Statement(
            f"DELETE FROM {table} WHERE {only}NOT EXISTS (SELECT 1 FROM autocontext_content c "
            f"WHERE c.namespace = {table}.namespace AND c.ref = {table}.ref)",
            params,
        )


def purge(now: int) -> Work[int]:
    """Delete expired keys and contents; returns the number of contents deleted."""
    # What is damaged stays until somebody deletes it: its expiry may be what has changed.
    rows = yield Statement(f"{_KEYS}k.expires_at <= :now", {"now": now})
    expired = [row for row in rows if _is_intact(row)]
    yield Statement(
        "DELETE FROM autocontext_content_key WHERE namespace = :ns AND key = :key AND expires_at <= :now",
        [{"ns": row[0], "key": row[_KEY], "now": now} for row in expired],
    )
    rows = yield Statement(f"{_CONTENTS}c.held_until <= :now AND k.key IS NULL", {"now": now})
    gone = 0
    for ns, ref in sorted({(row[0], row[1]) for row in (*expired, *filter(_is_intact, rows))}):
        gone += yield from _delete_unused(ns, ref, now)
    return gone


def stats(namespace: str | None) -> Work[ContentStats]:
    """The sums over the contents."""
    only, params = ("1 = 1", {}) if namespace is None else ("c.namespace = :ns", {"ns": safe(namespace)})
    rows = yield Statement(f"{_CONTENTS}{only} ORDER BY c.namespace, c.ref", params)
    found = list(map(_found, rows))
    contents = list({(one.namespace, one.content.ref): one for one in found}.values())
    return ContentStats(
        contents=len(contents),
        keys=sum(one.keyed is not None for one in found),
        chars=sum(one.content.chars for one in contents),
        pages=sum(last_page(one.content.chars) + 1 for one in contents),
        stored_bytes=sum(one.stored for one in contents),
        payload_bytes=sum(one.size for one in contents),
    )
