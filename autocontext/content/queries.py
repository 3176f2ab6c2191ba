"""The content store's tables and its operations on them: one generator each, without a driver.

A content has one row per namespace, and its pages, however many keys name it. It is kept while a key names it, and
until `held_until`, the latest expiry of puts without a key (0: there was none). No counter of keys is stored, so none
can be wrong.

Writers first lock the row of the key, then contents in the order of their handles. A writer holds the lock of a
content's row while it adds a key. A writer that deletes a content locks the row, and only then, in another statement,
looks for keys: so it sees those of all who had the lock before.
"""

from __future__ import annotations

from typing import Any

from autocontext.content.contents import FOREVER, Pages, StoredContent, Upload, basename, candidates
from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.records import REF
from autocontext.errors import StoreCorruptError
from autocontext.stores.database import Row, Schema, Statement, Work, safe, unsafe

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
    ),
)

# ---------------------------------------------------------------------------------------------------------- reading
_KEYS_OF_IT = "FROM autocontext_content_key k WHERE k.namespace = c.namespace AND k.ref = c.ref"
_ENDS = f"(SELECT MAX(ends) FROM (SELECT c.held_until AS ends UNION ALL SELECT k.expires_at {_KEYS_OF_IT}) promises)"
_ALIVE = f"(c.held_until > :now OR EXISTS (SELECT 1 {_KEYS_OF_IT} AND k.expires_at > :now))"
_CONTENT = f"c.ref, c.sha256, c.encoding, c.chars, {_ENDS}, c.created_at, c.about"
_BY_KEY = (
    "SELECT c.ref, c.sha256, c.encoding, c.chars, k.expires_at, k.created_at, k.about, k.key "
    "FROM autocontext_content_key k JOIN autocontext_content c ON c.namespace = k.namespace AND c.ref = k.ref "
    "WHERE k.namespace = :ns AND k.expires_at > :now"
)


def find(namespace: str, ref_or_key: str, now: int) -> Work[StoredContent | None]:
    """The content with a handle, or else with a key."""
    params = {"ns": safe(namespace), "id": safe(ref_or_key), "now": now}
    if REF.fullmatch(ref_or_key):
        rows = yield Statement(
            f"SELECT {_CONTENT} FROM autocontext_content c WHERE c.namespace = :ns AND c.ref = :id AND {_ALIVE}", params
        )
        if rows:
            return StoredContent(*rows[0])
    rows = yield Statement(f"{_BY_KEY} AND k.key = :id", params)
    return _keyed(rows[0]) if rows else None


def _keyed(row: Row) -> StoredContent:
    """The content of a row whose last column is its key or NULL."""
    return StoredContent(*row[:7])._replace(key=None if row[7] is None else unsafe(row[7]))


def named(namespace: str, name: str, now: int) -> Work[list[StoredContent]]:
    """Contents whose key ends in this file name, then those stored without a key under this name."""
    params = {"ns": safe(namespace), "name": safe(basename(name)), "now": now}
    keyed = yield Statement(f"{_BY_KEY} AND k.basename = :name ORDER BY k.key", params)
    plain = yield Statement(
        f"SELECT {_CONTENT} FROM autocontext_content c "
        "WHERE c.namespace = :ns AND c.name = :name AND c.held_until > :now ORDER BY c.ref",
        params,
    )
    return [*map(_keyed, keyed), *(StoredContent(*row) for row in plain)]


def keys(namespace: str, now: int, limit: int) -> Work[list[str]]:
    """The first keys in alphabetical order."""
    rows = yield Statement(
        "SELECT key FROM autocontext_content_key WHERE namespace = :ns AND expires_at > :now ORDER BY key LIMIT :n",
        {"ns": safe(namespace), "now": now, "n": limit},
    )
    return [unsafe(row[0]) for row in rows]


def read(namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Work[Pages | None]:
    """The rows with a part of a content."""
    content = yield from find(namespace, ref_or_key, now)
    if content is None:
        return None
    span = window(content.chars, offset, limit)
    bodies = yield from pages(namespace, content, span.first, span.last)
    return Pages(content, span, bodies)


def pages(namespace: str, content: StoredContent, first: int, last: int) -> Work[list[bytes]]:
    """The rows first to last of a content. Raises StoreCorruptError if one is missing."""
    if last < first:
        return []
    rows = yield Statement(
        "SELECT page, body FROM autocontext_content_page "
        "WHERE namespace = :ns AND ref = :ref AND page >= :first AND page <= :last ORDER BY page",
        {"ns": safe(namespace), "ref": content.ref, "first": first, "last": last},
    )
    if [row[0] for row in rows] != list(range(first, last + 1)):
        raise StoreCorruptError(f"content {content.ref}: a page of {first} to {last} is missing; put the content again")
    return [bytes(row[1]) for row in rows]


def all_pages(namespace: str, ref: str | None, now: int) -> Work[list[tuple[StoredContent, int, bytes]]]:
    """All pages of text, or those of one content, each with the position of its first character."""
    only, params = "", {"ns": safe(namespace), "now": now}
    if ref is not None:
        content = yield from find(namespace, ref, now)
        if content is None:
            return []
        only, params = "AND c.ref = :ref ", params | {"ref": content.ref}
    rows = yield Statement(
        f"SELECT {_CONTENT}, (SELECT MIN(k.key) {_KEYS_OF_IT} AND k.expires_at > :now), p.page, p.body "
        "FROM autocontext_content c JOIN autocontext_content_page p ON p.namespace = c.namespace AND p.ref = c.ref "
        f"WHERE c.namespace = :ns {only}AND {_ALIVE} AND c.encoding = 'utf-8' ORDER BY c.ref, p.page",
        params,
    )
    return [(_keyed(row), row[8] * PAGE_CHARS, bytes(row[9])) for row in rows]


# ---------------------------------------------------------------------------------------------------------- writing
def already(upload: Upload) -> Work[StoredContent | None]:
    """The content if it is stored without a key and without expiry: then such a put has nothing to write."""
    for ref in candidates(upload.content.sha256):
        rows = yield Statement(
            f"SELECT {_CONTENT}, c.held_until FROM autocontext_content c WHERE c.namespace = :ns AND c.ref = :ref",
            {"ns": safe(upload.namespace), "ref": ref},
        )
        if not rows:
            return None
        if rows[0][1] == upload.content.sha256:
            return StoredContent(*rows[0][:7]) if rows[0][7] == FOREVER else None
    return None


def put(upload: Upload) -> Work[str]:
    """Store a content unless it is stored, give it the key, and return its handle."""
    if upload.key is None:
        return (yield from _hold(upload, upload.expires_at))
    ns = safe(upload.namespace)
    key = {"ns": ns, "key": safe(upload.key), "until": upload.expires_at, "now": upload.now}
    key |= {"basename": safe(basename(upload.key)), "about": upload.metadata.dumped()}
    [(old,)] = yield Statement(_LOCK_KEY, key)
    if old and old < next(candidates(upload.content.sha256)):
        yield Statement(_LOCK, {"ns": ns, "ref": old})
    ref = yield from _hold(upload, 0)
    yield Statement(_PUT_KEY, {**key, "ref": ref})
    if old not in ("", ref):
        yield from _delete_unused(ns, old, upload.now)
    return ref


_LOCK_KEY = """INSERT INTO autocontext_content_key (namespace, key, ref, basename, expires_at, created_at, about)
    VALUES (:ns, :key, '', :basename, :until, :now, :about) ON CONFLICT (namespace, key) DO UPDATE
    SET created_at = autocontext_content_key.created_at RETURNING ref"""
"""Returns the handle that the key has named so far; "" for a new key."""
_PUT_KEY = """UPDATE autocontext_content_key SET ref = :ref, expires_at = :until, created_at = :now, about = :about
    WHERE namespace = :ns AND key = :key"""
_LOCK = "UPDATE autocontext_content SET held_until = held_until WHERE namespace = :ns AND ref = :ref"
_HOLD = """UPDATE autocontext_content SET held_until = CASE WHEN held_until > :until THEN held_until ELSE :until END
    WHERE namespace = :ns AND ref = :ref AND sha256 = :sha256 RETURNING ref"""


def _hold(upload: Upload, until: int) -> Work[str]:
    """Insert the content if it is new, lock its row, extend `held_until`, and return its handle."""
    sha256 = upload.content.sha256
    params = {"ns": safe(upload.namespace), "sha256": sha256, "until": until}
    for ref in candidates(sha256):
        params["ref"] = ref
        while True:
            rows = yield Statement(_HOLD, params)
            if rows:
                return ref
            rows = yield Statement(
                "SELECT sha256 FROM autocontext_content WHERE namespace = :ns AND ref = :ref",
                {"ns": params["ns"], "ref": ref},
            )
            if rows and rows[0][0] != sha256:
                break  # another content has this handle: take a longer one
            if (yield from _insert(upload, params)):
                return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {sha256}; one of their rows is damaged")


def _insert(upload: Upload, params: dict[str, Any]) -> Work[bool]:
    content = upload.content
    rows = yield Statement(
        "INSERT INTO autocontext_content (namespace, ref, sha256, encoding, chars, size, stored, held_until, "
        "created_at, name, about) VALUES (:ns, :ref, :sha256, :encoding, :chars, :size, :stored, :until, :now, :name, "
        ":about) ON CONFLICT (namespace, ref) DO NOTHING RETURNING ref",
        params
        | {"encoding": content.encoding, "chars": len(content.text), "size": content.size, "now": upload.now}
        | {"stored": sum(map(len, upload.pages))}
        | {"name": safe(upload.metadata.name), "about": upload.metadata.dumped()},
    )
    if not rows:
        return False
    rows_of_it = [
        {"ns": params["ns"], "ref": params["ref"], "page": i, "body": body} for i, body in enumerate(upload.pages)
    ]
    yield Statement(
        "INSERT INTO autocontext_content_page (namespace, ref, page, body) VALUES (:ns, :ref, :page, :body)", rows_of_it
    )
    return True


_DELETE = "DELETE FROM {} WHERE namespace = :ns AND ref = :ref"
_DELETE_KEYS = _DELETE.format("autocontext_content_key")
_DELETE_PAGES = _DELETE.format("autocontext_content_page")
_DELETE_CONTENT = _DELETE.format("autocontext_content")


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
    content = yield from find(namespace, ref_or_key, now)
    ns = safe(namespace)
    if content is not None and content.key is None:
        return (yield from _erase({"ns": ns, "ref": content.ref}))
    rows = yield Statement(
        "DELETE FROM autocontext_content_key WHERE namespace = :ns AND key = :key RETURNING ref, expires_at",
        {"ns": ns, "key": safe(ref_or_key)},
    )
    for ref, _ in rows:
        yield from _delete_unused(ns, ref, now)
    return any(expires_at > now for _, expires_at in rows)


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
    yield Statement("DELETE FROM autocontext_content_key WHERE expires_at <= :now", {"now": now})
    rows = yield Statement(
        "SELECT c.namespace, c.ref FROM autocontext_content c "
        f"WHERE c.held_until <= :now AND NOT EXISTS (SELECT 1 {_KEYS_OF_IT}) ORDER BY c.namespace, c.ref",
        {"now": now},
    )
    gone = 0
    for ns, ref in rows:
        gone += yield from _delete_unused(ns, ref, now)
    return gone


def stats(namespace: str | None) -> Work[tuple[Row, Row, Row]]:
    """Three rows of sums: contents, pages, keys."""
    only, params = ("", {}) if namespace is None else ("WHERE c.namespace = :ns", {"ns": safe(namespace)})
    sums = yield Statement(
        "SELECT COUNT(*), COALESCE(SUM(c.chars), 0), COALESCE(SUM(c.stored), 0), COALESCE(SUM(c.size), 0), "
        f"COALESCE(SUM(c.size * ((SELECT COUNT(*) {_KEYS_OF_IT}) + CASE WHEN c.held_until > 0 THEN 1 ELSE 0 END)), 0) "
        f"FROM autocontext_content c {only}",
        params,
    )
    page_count = yield Statement(f"SELECT COUNT(*) FROM autocontext_content_page c {only}", params)
    key_count = yield Statement(f"SELECT COUNT(*) FROM autocontext_content_key c {only}", params)
    return sums[0], page_count[0], key_count[0]
