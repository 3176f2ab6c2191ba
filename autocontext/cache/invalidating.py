"""Invalidation: which results it removes, and which running computations it ends; who has asked for a result."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from autocontext.cache import leases, rows
from autocontext.cache.canonical import CacheKey, text_of
from autocontext.cache.namespace import CacheNamespace, check_key, namespace_text
from autocontext.errors import ConfigError
from autocontext.stores.checks import check_texts
from autocontext.stores.database import Statement, Work, safe
from autocontext.stores.records import text_hash

_RESULTS = {
    "key": "key = :key",
    "task": "task = :task",
    "prefix": "substr(key, 1, :size) = :key_prefix",
    "tag": "key IN (SELECT key FROM autocontext_cache_tag WHERE namespace = :ns AND tag = :tag)",
}
_COMPUTATIONS = _RESULTS | {
    "tag": "holder IN (SELECT holder FROM autocontext_cache_computation_tag WHERE namespace = :ns AND tag = :tag)"
}


class ToolCall(NamedTuple):
    """A tool call of a session."""

    user_id: str
    session_id: str
    call: str
    """A hash of its id."""

    @classmethod
    def of(cls, user_id: str, session_id: str, call_id: str) -> ToolCall:
        """The call with an id, which the model has chosen."""
        return cls(user_id, session_id, text_hash(call_id)[:32])


calling: ContextVar[ToolCall | None] = ContextVar("autocontext_tool_call", default=None)
"""The tool call that the current code is part of. The results that it asks for are erased with it."""


class Selection(NamedTuple):
    """The results, running computations and notes that an invalidation affects, as SQL conditions."""

    results: str
    params: dict[str, Any]
    computations: str
    notes: str = ""
    """The notes of who has asked: those of whole namespaces, as there is no index by key."""

    @classmethod
    def of(
        cls, own: str, *, key: CacheKey | str | None, task: str | None, tag: str | None, prefix: str | None,
        namespace: str | Sequence[str] | None,
    ) -> Selection:  # fmt: skip
        """The selection by one of these. Raises ConfigError for none, for several, and for a foreign namespace."""
        check_texts(task=task, tag=tag, prefix=prefix)
        arguments = {"key": key, "task": task, "tag": tag, "prefix": prefix, "namespace": namespace}
        given = {name: str(value) for name, value in arguments.items() if value is not None}
        if len(given) != 1:
            raise ConfigError(
                f"invalidate: give exactly one of {', '.join(arguments)} (got {' and '.join(given) or 'none'}); "
                "clear() empties the cache"
            )
        if namespace is not None:
            chosen = namespace_text(namespace)
            if chosen != own and not chosen.startswith(_prefix_below(own)):
                raise ConfigError(f"namespace: {chosen} is neither this cache's {own} nor below it")
            below = _prefix_below(chosen)
            condition = "(namespace = :ns OR substr(namespace, 1, :size) = :ns_prefix)"
            params = {"ns": chosen, "ns_prefix": below, "size": len(below)}
            return cls(condition, params, condition, condition)
        [(field, text)] = given.items()
        if not text:
            raise ConfigError(f"{field}: give a text that is not empty")
        if key is not None:
            check_key(key)
        text = safe(text if task is None else text_of(text))
        params = {"ns": own, "size": len(text), "key_prefix" if field == "prefix" else field: text}
        return cls(f"namespace = :ns AND {_RESULTS[field]}", params, f"namespace = :ns AND {_COMPUTATIONS[field]}")

    @classmethod
    def everything(cls, own: str) -> Selection:
        """All results of a namespace, not of those below it."""
        return cls("namespace = :ns", {"ns": own}, "namespace = :ns", "namespace = :ns")


def invalidating(namespace: CacheNamespace, selection: Selection) -> Work[int]:
    """Remove a selection; returns the number of results."""
    # Computations first: this waits for one that is just being stored, which is then removed as a result.
    yield from leases.end_all(selection.computations, selection.params)
    removed = yield from rows.remove(selection.results, selection.params, namespace.now())
    if selection.notes:
        yield Statement(f"DELETE FROM autocontext_cache_call WHERE {selection.notes}", selection.params)
    return removed


def noting(namespace: CacheNamespace, key: CacheKey | str, call: ToolCall) -> Work[None]:
    """Note what a tool call asks for: its key may not tell, if options change the arguments."""
    yield Statement(
        "INSERT INTO autocontext_cache_call (user_id, session_id, call, namespace, key) "
        "VALUES (:user_id, :session_id, :call, :ns, :key) ON CONFLICT DO NOTHING",
        {**call._asdict(), "ns": namespace.text, "key": safe(str(key))},
    )


def purging(namespace: CacheNamespace) -> Work[int]:
    """Remove expired results; returns their number."""
    now = namespace.now()
    yield from leases.forget_ended(namespace)
    return (yield from rows.remove("namespace = :ns AND gone <= :now", {"ns": namespace.text, "now": now}, now))


def _prefix_below(namespace: str) -> str:
    """The prefix of all namespaces below one: a namespace is stored as a JSON list."""
    return namespace[:-1] + ", "
