"""Which results go, and how those that are being computed just then learn of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from autocontext.cache import leases, rows
from autocontext.cache.shelf import Shelf, namespace_text, wanted
from autocontext.canonical import CacheKey
from autocontext.canonical_values import text_of
from autocontext.errors import ConfigError
from autocontext.stores.database import Statement, Work
from autocontext.stores.escaping import safe


class Choice(NamedTuple):
    """The results for which a condition holds, and the scope under which this is noted."""

    where: str
    params: dict[str, Any]
    scope: str
    namespace: str | None = None
    """Set when whole namespaces go: this one and those below it."""

    @classmethod
    def of(
        cls, own: str, *, key: CacheKey | str | None, task: str | None, tag: str | None, prefix: str | None,
        namespace: str | Sequence[str] | None,
    ) -> Choice:  # fmt: skip
        """What one of these names. Raises ConfigError unless exactly one is given, and for a foreign namespace."""
        given = {"key": key, "task": task, "tag": tag, "prefix": prefix, "namespace": namespace}
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise ConfigError(
                f"invalidate: name exactly one of {', '.join(given)} (got {' and '.join(named) or 'none'}); "
                "namespace=cache.namespace empties the cache"
            )
        if namespace is not None:
            chosen = namespace_text(namespace)
            if chosen != own and not chosen.startswith(_below(own)):
                raise ConfigError(f"namespace: {chosen} is neither this cache's {own} nor below it")
            return cls("1 = 1", {}, "all", chosen)
        text = str(given[named[0]])
        if not text:
            raise ConfigError(f"{named[0]}: it is empty")
        if key is not None:
            name = wanted(key).key
            return cls("key = :key", {"key": safe(name)}, f"key {name}")
        if task is not None:
            return cls("task = :task", {"task": safe(text_of(task))}, f"task {text_of(task)}")
        if tag is not None:
            keys = "SELECT key FROM autocontext_cache_tag WHERE namespace = :ns AND tag = :tag"
            return cls(f"key IN ({keys})", {"tag": safe(text)}, f"tag {text}")
        return cls("substr(key, 1, :size) = :prefix", {"size": len(safe(text)), "prefix": safe(text)}, "all")


def invalidating(shelf: Shelf, choice: Choice) -> Callable[[], Work[int]]:
    """The transaction that removes what was chosen; its result is how many."""

    def work() -> Work[int]:
        spaces = [shelf.ns]
        if choice.namespace is not None:
            below = _below(choice.namespace)
            found = yield Statement(
                "SELECT DISTINCT namespace FROM autocontext_cache WHERE substr(namespace, 1, :size) = :below",
                {"size": len(below), "below": below},
            )
            spaces = [choice.namespace, *(row[0] for row in found)]
        removed = 0
        for space in spaces:
            yield from leases.note(space, [choice.scope], shelf.tick())
            removed += yield from rows.remove(space, choice.where, choice.params, shelf.now())
        return removed

    return work


def purging(shelf: Shelf) -> Callable[[], Work[int]]:
    """The transaction that removes what is past its time."""

    def work() -> Work[int]:
        now = shelf.now()
        yield from leases.forget(shelf.ns, now, shelf.tick())
        return (yield from rows.remove(shelf.ns, "gone <= :now", {"now": now}, now))

    return work


def _below(namespace: str) -> str:
    """How the namespaces below one begin: a namespace is a JSON list."""
    return namespace[:-1] + ", "
