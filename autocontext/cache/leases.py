"""Leases: of several processes that need the same result, one computes it, as long as it renews its lease.

A running computation is a row. Storing its result deletes the row, and stores nothing if the row is gone. So an
invalidation, which deletes rows, keeps the results of running computations out of the cache; a process that takes over
a lease does the same. Leases expire by the server's clock; nothing depends on the clocks of clients.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from autocontext.cache.namespace import CacheEntry, CacheNamespace, Target
from autocontext.stores.database import Statement, Work, safe

_ONE_DAY = 86_400_000
"""Milliseconds after which a computation without a lease no longer counts."""


class Claim(NamedTuple):
    """A computation that a caller wants to begin."""

    target: Target
    task: str
    tags: tuple[str, ...]
    holder: str
    """A name for this computation, unique among all processes."""
    known: int | None
    """Creation time of an entry to ignore."""


class LeaseReply(NamedTuple):
    """The answer: the caller computes (`granted`), another process does, or there is an entry by now."""

    granted: bool
    entry: CacheEntry | None = None


class LeaseState(NamedTuple):
    """The state of a lease that another process has."""

    ended: bool
    """Whether to ask again: the lease has ended, or there is an entry."""
    holder: str = ""
    """The computation that holds it."""
    needs_us: bool = False
    """Whether that computation waits for one of ours, so that neither could end."""


def ask(namespace: CacheNamespace, claim: Claim) -> Work[LeaseReply]:
    """Take the lease of a key unless another holds it, or there is an entry by now."""
    target = claim.target
    rows = yield Statement(
        "INSERT INTO autocontext_cache_computation (namespace, key, slot, holder, task, until, waits_for) "
        f"VALUES (:ns, :key, :slot, :holder, :task, {namespace.server_now} + :length, '') "
        "ON CONFLICT (namespace, key, slot) DO UPDATE SET holder = excluded.holder, task = excluded.task, "
        "until = excluded.until, waits_for = '' "
        f"WHERE autocontext_cache_computation.until <= {namespace.server_now} RETURNING holder",
        {
            "ns": namespace.text, "key": safe(target.key), "slot": "" if namespace.lease else claim.holder,
            "holder": claim.holder, "task": safe(claim.task), "length": namespace.lease or _ONE_DAY,
        },
    )  # fmt: skip
    # After taking the lease, to see what its previous holder has stored.
    entry = yield from namespace.lookup(target)
    if entry is not None and entry.created != claim.known and entry.expires > namespace.now():
        if rows:
            yield from give_back(namespace.text, claim)
        return LeaseReply(granted=False, entry=entry)
    if rows and claim.tags:
        tags = [{"ns": namespace.text, "tag": safe(tag), "holder": claim.holder} for tag in claim.tags]
        yield Statement(
            "INSERT INTO autocontext_cache_computation_tag (namespace, tag, holder) VALUES (:ns, :tag, :holder)", tags
        )
    return LeaseReply(granted=bool(rows))


def look(namespace: CacheNamespace, claim: Claim, ours: Collection[str]) -> Work[LeaseState]:
    """Whether the lease of a key has ended, and whether its holder waits for one of these computations."""
    rows = yield Statement(
        "SELECT holder FROM autocontext_cache_computation "
        f"WHERE namespace = :ns AND key = :key AND slot = '' AND until > {namespace.server_now}",
        {"ns": namespace.text, "key": safe(claim.target.key)},
    )
    if not rows:
        return LeaseState(ended=True)
    entry = yield from namespace.lookup(claim.target)
    if entry is not None and entry.created != claim.known:
        return LeaseState(ended=True)
    holder, needs_us = rows[0][0], False
    if ours:
        chain = yield Statement(
            "WITH RECURSIVE chain (holder) AS (SELECT holder FROM autocontext_cache_computation WHERE holder = :holder "
            "UNION SELECT c.waits_for FROM autocontext_cache_computation c JOIN chain ON c.holder = chain.holder) "
            "SELECT holder FROM chain",
            {"holder": holder},
        )
        needs_us = any(row[0] in ours for row in chain)
    return LeaseState(ended=False, holder=holder, needs_us=needs_us)


def runs(holder: str) -> Work[bool]:
    """Whether a computation is still running: neither stored nor invalidated."""
    return bool(
        (yield Statement("SELECT 1 FROM autocontext_cache_computation WHERE holder = :holder", {"holder": holder}))
    )


def note_waiting(ours: Collection[str], holder: str) -> Work[None]:
    """Note for other processes that these computations wait for `holder`; "" if they no longer wait."""
    yield Statement(
        "UPDATE autocontext_cache_computation SET waits_for = :other WHERE holder = :holder",
        [{"holder": name, "other": holder} for name in sorted(ours)],
    )


def renew(namespace: CacheNamespace, holders: Collection[str]) -> Work[None]:
    """Extend the leases of these computations."""
    yield Statement(
        f"UPDATE autocontext_cache_computation SET until = {namespace.server_now} + :length WHERE holder = :holder",
        [{"holder": name, "length": namespace.lease} for name in sorted(holders)],
    )


def give_back(ns: str, claim: Claim) -> Work[bool]:
    """End a computation; returns False if it has been invalidated or taken over."""
    rows = yield Statement(
        "DELETE FROM autocontext_cache_computation WHERE holder = :holder RETURNING holder", {"holder": claim.holder}
    )
    if claim.tags:
        yield Statement(
            "DELETE FROM autocontext_cache_computation_tag WHERE namespace = :ns AND holder = :holder",
            {"ns": ns, "holder": claim.holder},
        )
    return bool(rows)


def end_all(condition: str, params: dict[str, object]) -> Work[None]:
    """End the computations that meet an SQL condition: their results go to their callers and are not stored."""
    yield Statement(f"DELETE FROM autocontext_cache_computation WHERE {condition}", params)


def forget_ended(namespace: CacheNamespace) -> Work[None]:
    """Delete computations whose lease has expired, and orphaned tags."""
    yield Statement(
        f"DELETE FROM autocontext_cache_computation WHERE namespace = :ns AND until <= {namespace.server_now}",
        {"ns": namespace.text},
    )
    yield Statement(
        "DELETE FROM autocontext_cache_computation_tag WHERE namespace = :ns "
        "AND holder NOT IN (SELECT holder FROM autocontext_cache_computation WHERE namespace = :ns)",
        {"ns": namespace.text},
    )
