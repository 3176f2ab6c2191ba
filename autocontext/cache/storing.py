"""Stores results: large ones in the content store, all within the limits of the namespace."""

from __future__ import annotations

from collections.abc import Callable

from autocontext.cache import leases, rows
from autocontext.cache.leases import Claim
from autocontext.cache.namespace import CacheEntry, CacheNamespace, content_key, content_space
from autocontext.cache.rows import Capacity
from autocontext.content.contents import FOREVER, Metadata, Upload
from autocontext.content.paging import packed
from autocontext.stores.database import Work

_CHECKS_PER_LIMIT = 64
"""The limits are checked once per 1/64 of them written, because counting costs more than a write."""


def fits(namespace: CacheNamespace, entry: CacheEntry) -> bool:
    """Whether an empty namespace has room for the entry."""
    return namespace.max_bytes is None or entry.size <= namespace.max_bytes - namespace.max_bytes // _CHECKS_PER_LIMIT


def storing(namespace: CacheNamespace, entry: CacheEntry, claim: Claim | None = None) -> Callable[[], Work[bool]]:
    """The transaction that stores an entry; returns whether it was stored.

    With a claim it also ends that computation; if that has ended before, it stores nothing.
    """
    large = None
    if len(entry.body) >= namespace.large_bytes and entry.kind == "value":
        content = packed(entry.body)
        metadata = Metadata(name=entry.task, path="", type="json", summary="")
        space, key = content_space(namespace.text), content_key(entry.key)
        large = Upload(space, key, content, content.pages(), metadata, entry.created, FOREVER)
        entry = entry._replace(kind="content", body="")

    def work() -> Work[bool]:
        # First, so that an invalidation either finds the stored entry or has ended the computation.
        if claim is not None and not (yield from leases.give_back(namespace.text, claim)):
            return False
        yield from rows.put(namespace.text, entry, large)
        yield from _keep_to_limits(namespace, entry)
        return True

    return work


def _keep_to_limits(namespace: CacheNamespace, entry: CacheEntry) -> Work[None]:
    entries, size = namespace.max_entries, namespace.max_bytes
    if entries is None and size is None:
        return
    spare_entries, spare_bytes = (entries or 0) // _CHECKS_PER_LIMIT, (size or 0) // _CHECKS_PER_LIMIT
    spare = Capacity(None if entries is None else spare_entries, None if size is None else spare_bytes)
    if not namespace.limits_due(entry.size, spare.exceeded):
        return
    yield from namespace.write_uses()
    capacity = Capacity(
        None if entries is None else entries - spare_entries, None if size is None else size - spare_bytes
    )
    namespace.count("evicted", (yield from rows.evict(namespace.text, capacity, entry.created)))
