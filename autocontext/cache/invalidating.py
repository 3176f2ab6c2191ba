"""Which results an invalidation removes, and how computations under way learn of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from autocontext.cache import leases, rows
from autocontext.cache.canonical import CacheKey, text_of
from autocontext.cache.namespace import CacheNamespace, Target, namespace_text
from autocontext.errors import ConfigError
from autocontext.stores.database import Statement, Work, safe


class Selection(NamedTuple):
    """The results that meet an SQL condition, and the scope under which their invalidation is noted."""

    condition: str
    params: dict[str, Any]
    scope: str
    namespace: str | None = None
    """Set to remove a whole namespace and those below it."""

    @classmethod
    def of(
        cls, own: str, *, key: CacheKey | str | None, task: str | None, tag: str | None, prefix: str | None,
        namespace: str | Sequence[str] | None,
    ) -> Selection:  # fmt: skip
        """What one of these names. Raises ConfigError unless there is exactly one, and for a foreign namespace."""
        arguments = {"key": key, "task": task, "tag": tag, "prefix": prefix, "namespace": namespace}
        names = [name for name, value in arguments.items() if value is not None]
        if len(names) != 1:
            raise ConfigError(
                f"invalidate: give exactly one of {', '.join(arguments)} (got {' and '.join(names) or 'none'}); "
                "clear() empties the cache"
            )
        if namespace is not None:
            chosen = namespace_text(namespace)
            if chosen != own and not chosen.startswith(_prefix_below(own)):
                raise ConfigError(f"namespace: {chosen} is neither this cache's {own} nor below it")
            return cls("1 = 1", {}, "all", chosen)
        text = str(arguments[names[0]])
        if not text:
            raise ConfigError(f"{names[0]}: give a text that is not empty")
        if key is not None:
            name = Target.of(key).key
            return cls("key = :key", {"key": safe(name)}, f"key {name}")
        if task is not None:
            return cls("task = :task", {"task": safe(text_of(task))}, f"task {text_of(task)}")
        if tag is not None:
            keys = "SELECT key FROM autocontext_cache_tag WHERE namespace = :ns AND tag = :tag"
            return cls(f"key IN ({keys})", {"tag": safe(text)}, f"tag {text}")
        return cls("substr(key, 1, :size) = :prefix", {"size": len(safe(text)), "prefix": safe(text)}, "all")


EVERYTHING = Selection("1 = 1", {}, "all")
"""All results of the cache's own namespace."""


def invalidating(namespace: CacheNamespace, selection: Selection) -> Callable[[], Work[int]]:
    """The transaction that removes a selection; returns the number of results."""

    def work() -> Work[int]:
        spaces = [namespace.text]
        if selection.namespace is not None:
            prefix = _prefix_below(selection.namespace)
            below = yield Statement(
                "SELECT DISTINCT namespace FROM autocontext_cache WHERE substr(namespace, 1, :size) = :prefix",
                {"size": len(prefix), "prefix": prefix},
            )
            spaces = [selection.namespace, *(row[0] for row in below)]
        removed = 0
        for space in spaces:
            yield from leases.note_invalidation(space, selection.scope, namespace.tick())
            removed += yield from rows.remove(space, selection.condition, selection.params, namespace.now())
        return removed

    return work


def purging(namespace: CacheNamespace) -> Callable[[], Work[int]]:
    """The transaction that removes expired results; returns their number."""

    def work() -> Work[int]:
        now = namespace.now()
        yield from leases.forget_old(namespace.text, now, namespace.tick())
        return (yield from rows.remove(namespace.text, "gone <= :now", {"now": now}, now))

    return work


def _prefix_below(namespace: str) -> str:
    """How the namespaces below one begin: a namespace is stored as a JSON list."""
    return namespace[:-1] + ", "
