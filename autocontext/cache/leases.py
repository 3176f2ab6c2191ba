"""Who may compute: a lease in the database lets one process of many do the work, for a limited time.

A result that was invalidated while it was being computed is not stored: what is invalid is noted with its tick, under
the scopes `all`, `task`, `key` and `tag`, and the one who computes looks there for what has come since it began. Ticks
are microseconds since 1970, and no two of a process are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autocontext.cache import rows
from autocontext.cache.rows import Entry, Wanted
from autocontext.content.contents import Put
from autocontext.stores.database import Statement, Work
from autocontext.stores.escaping import safe

A_DAY = 86_400_000_000
"""Microseconds after which no computation is still under way that an invalidation could concern."""


class Turn(NamedTuple):
    """What one who would compute is told: it may, another does, or the result is there by now."""

    leads: bool
    entry: Entry | None = None


def ask(ns: str, wanted: Wanted, newer_than: int, holder: str, *, now: int, until: int) -> Work[Turn]:
    """Take the lease of a key unless another holds it, or an entry made after `newer_than` can be had."""
    entry = yield from rows.lookup(ns, wanted, now)
    if entry is not None and entry.created > newer_than and entry.expires > now:
        return Turn(leads=False, entry=entry)
    taken = yield Statement(
        "INSERT INTO autocontext_cache_lease (namespace, key, holder, until) VALUES (:ns, :key, :holder, :until) "
        "ON CONFLICT (namespace, key) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE autocontext_cache_lease.until <= :now RETURNING holder",
        {"ns": ns, "key": safe(wanted.key), "holder": holder, "until": until, "now": now},
    )
    return Turn(leads=bool(taken))


def look(ns: str, wanted: Wanted, newer_than: int, *, now: int) -> Work[bool]:
    """Whether it is worth asking again: the lease is over, or there is an entry."""
    lease = yield Statement(
        "SELECT until FROM autocontext_cache_lease WHERE namespace = :ns AND key = :key",
        {"ns": ns, "key": safe(wanted.key)},
    )
    if not lease or lease[0][0] <= now:
        return True
    entry = yield from rows.lookup(ns, wanted, now)
    return entry is not None and entry.created > newer_than


def give_back(ns: str, key: str, holder: str) -> Work[None]:
    """Let another one compute."""
    yield Statement(
        "DELETE FROM autocontext_cache_lease WHERE namespace = :ns AND key = :key AND holder = :holder",
        {"ns": ns, "key": safe(key), "holder": holder},
    )


def note(ns: str, scopes: Sequence[str], tick: int) -> Work[None]:
    """Remember that something was invalidated at this tick, a time in microseconds."""
    yield Statement(
        "INSERT INTO autocontext_cache_invalidated (namespace, scope, at) VALUES (:ns, :scope, :now) "
        "ON CONFLICT (namespace, scope) DO UPDATE SET at = excluded.at",
        [{"ns": ns, "scope": safe(scope), "now": tick} for scope in scopes],
    )


def put_if_valid(ns: str, entry: Entry, large: Put | None, begun: int, scopes: Sequence[str]) -> Work[bool]:
    """Store what was computed since the tick `begun`, unless one of its scopes was invalidated meanwhile."""
    names = {f"s{i}": safe(scope) for i, scope in enumerate(scopes)}
    invalid = yield Statement(
        "SELECT 1 FROM autocontext_cache_invalidated WHERE namespace = :ns AND at > :begun "
        f"AND scope IN ({', '.join(':' + name for name in names)}) LIMIT 1",
        {"ns": ns, "begun": begun, **names},
    )
    if invalid:
        return False
    yield from rows.put(ns, entry, large)
    return True


def forget(ns: str, now: int, tick: int) -> Work[None]:
    """Drop leases and notes that concern nobody any more."""
    yield Statement(
        "DELETE FROM autocontext_cache_lease WHERE namespace = :ns AND until <= :now", {"ns": ns, "now": now}
    )
    yield Statement(
        "DELETE FROM autocontext_cache_invalidated WHERE namespace = :ns AND at < :then",
        {"ns": ns, "then": tick - A_DAY},
    )
