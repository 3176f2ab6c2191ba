"""Who may compute: a lease in the database lets one process of many do the work, for a limited time.

A result that is invalidated while it is being computed must not be stored. So each invalidation is noted with its tick
under a scope: `all`, `task ...`, `key ...` or `tag ...`. A computation remembers the tick at which it began, and looks
for later notes before it stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autocontext.cache.namespace import CacheEntry, CacheNamespace, Target
from autocontext.stores.database import Statement, Work, safe

_ONE_DAY = 86_400_000_000
"""Microseconds after which no computation is still under way that an invalidation could concern."""


class LeaseReply(NamedTuple):
    """Who computes: the caller, or another process; or nobody, as there is an entry by now."""

    granted: bool
    entry: CacheEntry | None = None


def ask(namespace: CacheNamespace, target: Target, newer_than: int, holder: str) -> Work[LeaseReply]:
    """Take the lease of a key unless another holds it, or there is an entry created after `newer_than`."""
    ns, now = namespace.text, namespace.now()
    entry = yield from namespace.lookup(target)
    if entry is not None and entry.created > newer_than and entry.expires > now:
        return LeaseReply(granted=False, entry=entry)
    rows = yield Statement(
        "INSERT INTO autocontext_cache_lease (namespace, key, holder, until) VALUES (:ns, :key, :holder, :until) "
        "ON CONFLICT (namespace, key) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE autocontext_cache_lease.until <= :now RETURNING holder",
        {"ns": ns, "key": safe(target.key), "holder": holder, "until": now + (namespace.lease or 0), "now": now},
    )
    return LeaseReply(granted=bool(rows))


def worth_asking(namespace: CacheNamespace, target: Target, newer_than: int) -> Work[bool]:
    """Whether the lease of a key has ended, or there is an entry."""
    rows = yield Statement(
        "SELECT until FROM autocontext_cache_lease WHERE namespace = :ns AND key = :key",
        {"ns": namespace.text, "key": safe(target.key)},
    )
    if not rows or rows[0][0] <= namespace.now():
        return True
    entry = yield from namespace.lookup(target)
    return entry is not None and entry.created > newer_than


def give_back(ns: str, key: str, holder: str) -> Work[None]:
    """End a lease, so that another caller may compute."""
    yield Statement(
        "DELETE FROM autocontext_cache_lease WHERE namespace = :ns AND key = :key AND holder = :holder",
        {"ns": ns, "key": safe(key), "holder": holder},
    )


def note_invalidation(ns: str, scope: str, tick: int) -> Work[None]:
    """Remember that a scope was invalidated at this tick."""
    yield Statement(
        "INSERT INTO autocontext_cache_invalidated (namespace, scope, at) VALUES (:ns, :scope, :tick) "
        "ON CONFLICT (namespace, scope) DO UPDATE SET at = excluded.at",
        {"ns": ns, "scope": safe(scope), "tick": tick},
    )


def invalidated_since(ns: str, tick: int, scopes: Sequence[str]) -> Work[bool]:
    """Whether one of the scopes was invalidated after this tick."""
    names = {f"s{i}": safe(scope) for i, scope in enumerate(scopes)}
    rows = yield Statement(
        "SELECT 1 FROM autocontext_cache_invalidated WHERE namespace = :ns AND at > :tick "
        f"AND scope IN ({', '.join(':' + name for name in names)}) LIMIT 1",
        {"ns": ns, "tick": tick, **names},
    )
    return bool(rows)


def forget_old(ns: str, now: int, tick: int) -> Work[None]:
    """Delete leases that have ended, and notes that concern no computation any more."""
    yield Statement(
        "DELETE FROM autocontext_cache_lease WHERE namespace = :ns AND until <= :now", {"ns": ns, "now": now}
    )
    yield Statement(
        "DELETE FROM autocontext_cache_invalidated WHERE namespace = :ns AND at < :then",
        {"ns": ns, "then": tick - _ONE_DAY},
    )
