"""Leases: of several processes that need the same result, one computes it, as long as it renews its lease.

A running computation is a row. Storing its result deletes the row, and stores nothing if the row is gone. So an
invalidation, which deletes rows, keeps the results of running computations out of the cache; a process that takes over
a lease does the same. Leases expire by the server's clock; nothing depends on the clocks of clients. A lease that would
last for more than twice its length is over too: it was taken before the server's clock was set back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from autocontext.cache.canonical import CacheKey
from autocontext.cache.namespace import CacheEntry, CacheNamespace
from autocontext.stores.database import Row, Statement, Work, rows_of, safe

_ONE_DAY = 86_400_000
"""Milliseconds after which a computation without a lease no longer counts."""


class Claim(NamedTuple):
    """A computation that a caller wants to begin."""

    key: CacheKey
    tags: tuple[str, ...]
    holder: str
    """A name for this computation, unique among all processes."""
    known: int | None
    """Creation time of an entry to ignore."""
    renews: bool = False
    """Whether to compute only as long as there is an entry: one that was erased is not made again."""


def ask(namespace: CacheNamespace, claim: Claim, wanted: Callable[[], bool] = lambda: True) -> Work[CacheEntry | bool]:
    """Take the lease of a key unless another holds it, or it is `wanted` no longer; an entry that is there by now."""
    rows = yield Statement(
        "INSERT INTO autocontext_cache_computation (namespace, key, slot, holder, task, until, waits_for) "
        f"VALUES (:ns, :key, :slot, :holder, :task, {namespace.server_now} + :length, '') "
        "ON CONFLICT (namespace, key, slot) DO UPDATE SET holder = excluded.holder, task = excluded.task, "
        "until = excluded.until, waits_for = '' "
        # Its own row: this transaction was committed, and repeated because only the answer was lost.
        f"WHERE autocontext_cache_computation.holder = excluded.holder OR NOT ({_running(namespace)}) RETURNING holder",
        {
            "ns": namespace.text, "key": safe(str(claim.key)), "slot": "" if namespace.lease else claim.holder,
            "holder": claim.holder, "task": safe(claim.key.task), "length": namespace.lease or _ONE_DAY,
        },
    )  # fmt: skip
    # After taking the lease, to see what its previous holder has stored.
    there = yield from namespace.lookup(claim.key)
    entry = there if _counts(namespace, claim, there) else None
    is_gone = claim.renews and there is None
    # A cancelled caller's transaction goes on in its thread, after its lease was given back.
    if rows and (entry is not None or is_gone or not wanted()):
        yield from give_back(namespace.text, claim)
        rows = []
    if rows and claim.tags:
        tags = [{"ns": namespace.text, "tag": safe(tag), "holder": claim.holder} for tag in claim.tags]
        insert = "INSERT INTO autocontext_cache_computation_tag (namespace, tag, holder) VALUES (:ns, :tag, :holder) "
        yield Statement(f"{insert}ON CONFLICT DO NOTHING", tags)
    return bool(rows) if entry is None else entry


def look(namespace: CacheNamespace, claim: Claim, ours: Collection[str]) -> Work[tuple[str, bool]]:
    """Who holds the lease of a key, and whether that waits for one of our computations, so that neither could end.

    "" if it is time to ask again: the lease has ended, or there is an entry.
    """
    rows = yield Statement(
        "SELECT holder FROM autocontext_cache_computation "
        f"WHERE namespace = :ns AND key = :key AND slot = '' AND {_running(namespace)}",
        {"ns": namespace.text, "key": safe(str(claim.key))},
    )
    if not rows or _counts(namespace, claim, (yield from namespace.lookup(claim.key))):
        return "", False
    chain: list[Row] = []
    if ours:
        chain = yield Statement(
            "WITH RECURSIVE chain (holder) AS (SELECT holder FROM autocontext_cache_computation WHERE holder = :holder "
            "UNION SELECT c.waits_for FROM autocontext_cache_computation c JOIN chain ON c.holder = chain.holder) "
            "SELECT holder FROM chain",
            {"holder": rows[0][0]},
        )
    return rows[0][0], any(row[0] in ours for row in chain)


def running(holder: str) -> Work[list[Row]]:
    """The row of a computation that is still running: neither stored nor invalidated."""
    return rows_of("SELECT 1 FROM autocontext_cache_computation WHERE holder = :holder", {"holder": holder})


def note_waiting(waiting: Iterable[tuple[str, str]]) -> Work[None]:
    """Note for other processes which computation each of ours waits for; "" for none."""
    yield Statement(
        "UPDATE autocontext_cache_computation SET waits_for = :waits_for WHERE holder = :holder",
        [{"holder": holder, "waits_for": other} for holder, other in sorted(waiting)],
    )


def renew(computations: Iterable[tuple[CacheNamespace, str]]) -> Work[None]:
    """Extend the leases of computations."""
    holders = {holder: namespace for namespace, holder in computations}
    server_now = next(iter(holders.values())).server_now
    yield Statement(
        f"UPDATE autocontext_cache_computation SET until = {server_now} + :length WHERE holder = :holder",
        [{"holder": holder, "length": holders[holder].lease} for holder in sorted(holders)],
    )


def give_back_all(computations: Iterable[tuple[str, str]]) -> Work[None]:
    """End computations, each given by its namespace and holder."""
    params = [{"ns": ns, "holder": holder} for ns, holder in sorted(computations)]
    for table in ("autocontext_cache_computation", "autocontext_cache_computation_tag"):
        yield Statement(f"DELETE FROM {table} WHERE namespace = :ns AND holder = :holder", params)


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
    over = f"NOT ({_running(namespace, _ONE_DAY)})"  # as some may have no lease
    yield Statement(
        f"DELETE FROM autocontext_cache_computation WHERE namespace = :ns AND {over}", {"ns": namespace.text}
    )
    yield Statement(
        "DELETE FROM autocontext_cache_computation_tag WHERE namespace = :ns "
        "AND holder NOT IN (SELECT holder FROM autocontext_cache_computation WHERE namespace = :ns)",
        {"ns": namespace.text},
    )


def _running(namespace: CacheNamespace, least: int = 0) -> str:
    """The SQL condition that a computation is not over; it lasts as long as the namespace's leases, or `least`."""
    now, length = namespace.server_now, max(namespace.lease or _ONE_DAY, least)
    return f"autocontext_cache_computation.until BETWEEN {now} + 1 AND {now} + {2 * length}"


def _counts(namespace: CacheNamespace, claim: Claim, entry: CacheEntry | None) -> bool:
    """Whether an entry makes a computation needless."""
    return entry is not None and entry.created != claim.known and entry.expires > namespace.now()
