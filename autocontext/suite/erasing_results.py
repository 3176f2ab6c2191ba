"""Erases the cached results of tool calls: all that a call has asked the cache for, and what looks like it.

`Session.call_tool` notes what it asks for, so those results are found whatever options they are stored by. Results of
calls beside it are found by their arguments and texts.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from autocontext.cache import leases, rows
from autocontext.cache.canonical import canonical
from autocontext.cache.invalidating import ToolCall
from autocontext.cache.marks import OWN, item_marks, leaves, loaded, text_mark, texts
from autocontext.errors import StoreCorruptError, UncacheableError
from autocontext.messages import Msg
from autocontext.stores.database import Statement, Work
from autocontext.stores.records import now

if TYPE_CHECKING:
    from autocontext.cache.namespace import CacheEntry
    from autocontext.stores.protocol import SessionKey


class Called:
    """The tool calls of some messages, and what they said."""

    def __init__(self, messages: Collection[Msg], said: Collection[str]) -> None:
        uses = [use for m in messages for use in m.tool_uses]
        self.ids = frozenset([use.id for use in uses] + [result.id for m in messages for result in m.tool_results])
        self.texts = frozenset(said)
        """The whole texts of the messages, and of the contents that hold their rest."""
        self._calls = [(use.name, arguments) for use in uses if (arguments := _arguments(use.input))]
        self._tasks = frozenset(name for name, _ in self._calls)
        values = [value for text in self.texts if (value := loaded(text)) is not None]
        self._results = [value for value in values if isinstance(value, dict)]
        parts = [*self.texts, *leaves(values), *leaves([dict(use.input) for use in uses])]
        self._own = frozenset(text for text in parts if len(text) >= OWN)

    def marks(self) -> set[str]:
        """The marks of the results that `hold` may choose."""
        marks = {text_mark(text) for text in self.texts | self._own}
        marks.update(mark for name, arguments in self._calls for mark in item_marks(name, arguments))
        return marks.union(*(item_marks("", value) for value in self._results))

    def hold(self, entry: CacheEntry) -> bool:
        """Whether a result comes from these calls: some options store a part of the arguments, or of the result."""
        arguments = loaded(entry.args) or {}
        if entry.task in self._tasks and any(
            entry.task == name and arguments.items() <= theirs.items() for name, theirs in self._calls
        ):
            return True
        try:
            value = entry.value()
        except StoreCorruptError:
            value = None
        if isinstance(value, dict) and value and any(_part(value, theirs) for theirs in self._results):
            return True
        return any(text in self.texts for text in texts(entry, value)) or not self._own.isdisjoint(
            leaves([arguments, value])
        )


def forgetting(session: SessionKey, called: Called, *, whole: bool) -> Work[None]:
    """Remove what these calls have asked for, in all namespaces; with `whole` what any call of the session has."""
    where, params = "user_id = :user_id AND session_id = :session_id", session._asdict()
    calls = {ToolCall.of(*session, id_).call for id_ in called.ids}
    noted = yield Statement(f"SELECT call, namespace, key FROM autocontext_cache_call WHERE {where}", params)
    for call, ns, key in noted:
        if whole or call in calls:
            one, its = "namespace = :ns AND key = :key", {"ns": ns, "key": key}
            yield from leases.end_all(one, its)
            yield from rows.remove(one, its, now())
            yield Statement(f"DELETE FROM autocontext_cache_call WHERE {where} AND {one}", {**params, **its})


def _arguments(inputs: Any) -> dict[str, Any]:
    """Arguments in the form of the cache, by name; {} if it cannot store them."""
    try:
        return {name: json.loads(canonical(value)) for name, value in inputs.items()}
    except UncacheableError:
        return {}


def _part(value: dict[str, Any], of: dict[str, Any]) -> bool:
    return all(name in of and of[name] == item for name, item in value.items())
