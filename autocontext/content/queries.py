"""The content store's tables and its operations on them: one generator each, without a driver.

A content lies in one row and its pages; it is there once per namespace, however many keys lead to it. `holders` counts
these keys, and one more for puts without a key. It stands in the content's row, and every change of it locks that row:
so a put that finds a content, and a delete that takes its last holder away, cannot pass each other.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    ),
)

# ---------------------------------------------------------------------------------------------------------- reading
_CONTENT = "ref, sha256, encoding, chars, expires_at, created_at, about"
_BY_KEY = (
    "SELECT c.ref, c.sha256, c.encoding, c.chars, k.expires_at, k.created_at, k.about, k.key "
    "FROM autocontext_content_key k JOIN autocontext_content c ON c.namespace = k.namespace AND c.ref = k.ref "
    "WHERE k.namespace = :ns AND k.expires_at > :now"
)


def find(namespace: str, ref_or_key: str, now: int) -> Work[StoredContent | None]:
    """The content of a handle or a key; what is a handle is no key."""
    params = {"ns": safe(namespace), "id": safe(ref_or_key), "now": now}
    if REF.fullmatch(ref_or_key):
        rows = yield Statement(
            f"SELECT {_CONTENT} FROM autocontext_content WHERE namespace = :ns AND ref = :id AND expires_at > :now",
            params,
        )
        if rows:
            return StoredContent(*rows[0])
    rows = yield Statement(f"{_BY_KEY} AND k.key = :id", params)
    return _keyed(rows[0]) if rows else None


def _keyed(row: Row) -> StoredContent:
    """The content of a row that ends in its key, if it has one."""
    return StoredContent(*row[:7])._replace(key=None if row[7] is None else unsafe(row[7]))


def named(namespace: str, name: str, now: int) -> Work[list[StoredContent]]:
    """Contents whose key ends in this file name, or that were stored without a key under this name; by key."""
    params = {"ns": safe(namespace), "name": safe(basename(name)), "now": now}
    keyed = yield Statement(f"{_BY_KEY} AND k.basename = :name ORDER BY k.key", params)
    plain = yield Statement(
        f"SELECT {_CONTENT} FROM autocontext_content "
        "WHERE namespace = :ns AND name = :name AND held = 1 AND expires_at > :now ORDER BY ref",
        params,
    )
    return [*map(_keyed, keyed), *(StoredContent(*row) for row in plain)]


def keys(namespace: str, now: int, limit: int) -> Work[list[str]]:
    """The first keys in order."""
    rows = yield Statement(
        "SELECT key FROM autocontext_content_key WHERE namespace = :ns AND expires_at > :now ORDER BY key LIMIT :n",
        {"ns": safe(namespace), "now": now, "n": limit},
    )
    return [unsafe(row[0]) for row in rows]


def read(namespace: str, ref_or_key: str, offset: int, limit: int | None, now: int) -> Work[Pages | None]:
    """The rows that hold a stretch of a content."""
    content = yield from find(namespace, ref_or_key, now)
    if content is None:
        return None
    span = window(content.chars, offset, limit)
    bodies = yield from pages(namespace, content, span.first, span.last)
    return Pages(content, span, bodies)


def pages(namespace: str, content: StoredContent, first: int, last: int) -> Work[list[bytes]]:
    """The rows first to last of a content. Raises StoreCorruptError when one is missing."""
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
    """Every page, or those of one content, with the character it starts at."""
    only = "" if ref is None else "AND c.ref = :ref "
    rows = yield Statement(
        "SELECT c.ref, c.sha256, c.encoding, c.chars, c.expires_at, c.created_at, c.about, "
        "(SELECT MIN(k.key) FROM autocontext_content_key k WHERE k.namespace = c.namespace AND k.ref = c.ref "
        "AND k.expires_at > :now), p.page, p.body FROM autocontext_content c "
        "JOIN autocontext_content_page p ON p.namespace = c.namespace AND p.ref = c.ref "
        f"WHERE c.namespace = :ns {only}AND c.expires_at > :now AND c.encoding = 'utf-8' ORDER BY c.ref, p.page",
        {"ns": safe(namespace), "now": now} | ({} if ref is None else {"ref": ref}),
    )
    return [(_keyed(row), row[8] * PAGE_CHARS, bytes(row[9])) for row in rows]


# ---------------------------------------------------------------------------------------------------------- writing
def already(upload: Upload) -> Work[StoredContent | None]:
    """The content of a put without a key and without an end, if the store holds it like that: nothing to write."""
    for ref in candidates(upload.content.sha256):
        rows = yield Statement(
            f"SELECT {_CONTENT}, held FROM autocontext_content WHERE namespace = :ns AND ref = :ref",
            {"ns": safe(upload.namespace), "ref": ref},
        )
        if not rows:
            return None
        if rows[0][1] == upload.content.sha256:
            return StoredContent(*rows[0][:7]) if rows[0][7] and rows[0][4] == FOREVER else None
    return None


def put(upload: Upload) -> Work[str]:
    """Store a content unless it is there, let the key lead to it; its handle."""
    ref = yield from _hold(upload)
    if upload.key is None:
        return ref
    key = {"ns": safe(upload.namespace), "key": safe(upload.key)}
    rows = yield Statement("SELECT ref FROM autocontext_content_key WHERE namespace = :ns AND key = :key", key)
    yield Statement(
        "INSERT INTO autocontext_content_key (namespace, key, ref, basename, expires_at, created_at, about) "
        "VALUES (:ns, :key, :ref, :basename, :until, :now, :about) ON CONFLICT (namespace, key) DO UPDATE "
        "SET ref = excluded.ref, expires_at = excluded.expires_at, created_at = excluded.created_at, "
        "about = excluded.about",
        key
        | {"ref": ref, "basename": safe(basename(upload.key)), "until": upload.expires_at, "now": upload.now}
        | {"about": upload.metadata.dumped()},
    )
    if rows:
        # The key held a content already: the same one, which counts once, or another, which it lets go of.
        yield from _let_go(key["ns"], rows[0][0])
    return ref


def _hold(upload: Upload) -> Work[str]:
    """Count one more holder of the content, which is written first if it is not there."""
    content, keyed = upload.content, int(upload.key is not None)
    params = {"ns": safe(upload.namespace), "sha256": content.sha256, "until": upload.expires_at, "keyed": keyed}
    for ref in candidates(content.sha256):
        params["ref"] = ref
        while True:
            rows = yield Statement(_COUNT_UP, params)
            if rows:
                return ref
            rows = yield Statement(
                "SELECT sha256 FROM autocontext_content WHERE namespace = :ns AND ref = :ref",
                {"ns": params["ns"], "ref": ref},
            )
            if rows and rows[0][0] != content.sha256:
                break  # another content has this handle: take a longer one
            if (yield from _insert(upload, params)):
                return ref
    raise StoreCorruptError(f"two contents have the SHA-256 {content.sha256}; one of their rows is damaged")


_COUNT_UP = """UPDATE autocontext_content SET
    holders = holders + CASE WHEN :keyed = 1 THEN 1 ELSE 1 - held END,
    held = CASE WHEN :keyed = 1 THEN held ELSE 1 END,
    expires_at = CASE WHEN expires_at > :until THEN expires_at ELSE :until END
    WHERE namespace = :ns AND ref = :ref AND sha256 = :sha256 RETURNING ref"""


def _insert(upload: Upload, params: dict[str, Any]) -> Work[bool]:
    content = upload.content
    rows = yield Statement(
        "INSERT INTO autocontext_content (namespace, ref, sha256, encoding, chars, size, stored, holders, held, "
        "expires_at, created_at, name, about) VALUES (:ns, :ref, :sha256, :encoding, :chars, :size, :stored, 1, :held, "
        ":until, :now, :name, :about) ON CONFLICT (namespace, ref) DO NOTHING RETURNING ref",
        {k: params[k] for k in ("ns", "ref", "sha256", "until")}
        | {"encoding": content.encoding, "chars": len(content.text), "size": content.size, "now": upload.now}
        | {"stored": sum(map(len, upload.pages)), "held": 1 - params["keyed"]}
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


_TABLES = ("autocontext_content_key", "autocontext_content_page", "autocontext_content")


def _let_go(ns: str, ref: str) -> Work[None]:
    """Count one holder less; the content goes with its last one."""
    params = {"ns": ns, "ref": ref}
    rows = yield Statement(
        "UPDATE autocontext_content SET holders = holders - 1 WHERE namespace = :ns AND ref = :ref RETURNING holders",
        params,
    )
    if rows and rows[0][0] <= 0:
        yield from _erase(ns, [ref])


def _erase(ns: str, refs: Sequence[str]) -> Work[None]:
    each = [{"ns": ns, "ref": ref} for ref in refs]
    for table in _TABLES:
        if each:
            yield Statement(f"DELETE FROM {table} WHERE namespace = :ns AND ref = :ref", each)


def delete(namespace: str, ref_or_key: str, now: int) -> Work[bool]:
    """A handle goes with its content and all keys; a key goes alone, its content when nothing else holds it."""
    content = yield from find(namespace, ref_or_key, now)
    if content is None:
        return False
    ns = safe(namespace)
    if content.key is None:
        yield from _erase(ns, [content.ref])
        return True
    rows = yield Statement(
        "DELETE FROM autocontext_content_key WHERE namespace = :ns AND key = :key RETURNING ref",
        {"ns": ns, "key": safe(content.key)},
    )
    for row in rows:
        yield from _let_go(ns, row[0])
    return bool(rows)


def clear(namespace: str | None) -> Work[None]:
    """Everything goes, or everything of one namespace."""
    for table in _TABLES:
        if namespace is None:
            yield Statement(f"DELETE FROM {table}")
        else:
            yield Statement(f"DELETE FROM {table} WHERE namespace = :ns", {"ns": safe(namespace)})


def purge(now: int) -> Work[int]:
    """Delete keys and contents whose time is over; how many contents went."""
    late = {"now": now}
    gone = yield Statement(
        "DELETE FROM autocontext_content_key WHERE expires_at <= :now RETURNING namespace, ref", late
    )
    before = yield Statement("SELECT COUNT(*) FROM autocontext_content")
    for ns, ref in gone:
        yield from _let_go(ns, ref)
    rows = yield Statement("SELECT namespace, ref FROM autocontext_content WHERE expires_at <= :now", late)
    for ns, ref in rows:
        yield from _erase(ns, [ref])
    after = yield Statement("SELECT COUNT(*) FROM autocontext_content")
    return int(before[0][0] - after[0][0])


def stats(namespace: str | None) -> Work[tuple[Row, Row, Row]]:
    """Three rows: of the contents, of their pages, of the keys."""
    only, params = ("", {}) if namespace is None else ("WHERE namespace = :ns", {"ns": safe(namespace)})
    sums = yield Statement(
        "SELECT COUNT(*), COALESCE(SUM(chars), 0), COALESCE(SUM(stored), 0), COALESCE(SUM(size), 0), "
        f"COALESCE(SUM(size * holders), 0) FROM autocontext_content {only}",
        params,
    )
    page_count = yield Statement(f"SELECT COUNT(*) FROM autocontext_content_page {only}", params)
    key_count = yield Statement(f"SELECT COUNT(*) FROM autocontext_content_key {only}", params)
    return sums[0], page_count[0], key_count[0]
