"""A memory's state as JSON: the reference's four stores under its names, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autocontext.errors import AutoContextError, StateError
from autocontext.events import CompressionEvent
from autocontext.history.entries import Snapshot
from autocontext.history.log import Log
from autocontext.messages import Msg, thaw

VERSION = 1
_STORES = {
    "working_memory_storage": list,
    "original_memory_storage": list,
    "offload_context": dict,
    "compression_events": list,
}


def dump(log: Log) -> dict[str, Any]:
    """The state as a JSON object; `load` reads it back."""
    state = {
        "version": VERSION,
        "working_memory_storage": [m.to_dict() for m in log.view_messages],
        "original_memory_storage": [m.to_dict() for m in log.read(log.original)],
        "offload_context": {uuid: [m.to_dict() for m in log.read(ids)] for uuid, ids in log.offloads.items()},
        "compression_events": [thaw(e.model_dump()) for e in log.events],
    }
    held = {*log.view_ids, *log.original, *(id_ for ids in log.offloads.values() for id_ in ids)}
    # A note that was undone is nowhere in the state, so there is nothing to say about it.
    shared = {id_: ids for id_, ids in log.shared().items() if id_ in held}
    if shared or any(
        id_ != log.messages[id_].id for ids in (log.view_ids, log.original, *log.offloads.values()) for id_ in ids
    ):
        # Several messages were added with one id: which of them stands where can only be told by the log's own ids.
        # Likewise, where several compressions have put messages into one entry, which note stands for which of them.
        state["ids"] = {
            "working_memory_storage": list(log.view_ids),
            "original_memory_storage": list(log.original),
            "offload_context": {uuid: list(ids) for uuid, ids in log.offloads.items()},
            **({"replaced": {id_: list(ids) for id_, ids in shared.items()}} if shared else {}),
        }
    return state


def load(state: Any) -> Snapshot:
    """A state as one log entry. Raises StateError naming the field at fault; messages that are equal are held once."""
    if not isinstance(state, Mapping):
        raise StateError(f"the state is a {type(state).__name__}, not an object made by state_dict()")
    version = state.get("version")
    if version != VERSION:
        raise StateError(
            f"state.version is {version!r}; this release reads version {VERSION}: save it again with a matching one"
        )
    for field, kind in _STORES.items():
        if not isinstance(state.get(field), kind):
            raise StateError(f"state.{field} is missing or not a JSON {'object' if kind is dict else 'array'}")
    original = _each(state, "original_memory_storage", _message)
    view = _each(state, "working_memory_storage", _message)
    offloads = {}
    for uuid, messages in state["offload_context"].items():
        if not isinstance(messages, list):
            raise StateError(f"state.offload_context.{uuid} is not a JSON array")
        offloads[str(uuid)] = _each(state["offload_context"], uuid, _message, "offload_context.")
    events = tuple(_each(state, "compression_events", CompressionEvent.model_validate))
    table = _Table(state.get("ids"))
    return Snapshot(
        original=table.place(original, "original_memory_storage"),
        view=table.place(view, "working_memory_storage"),
        offloads={uuid: table.place(messages, "offload_context", uuid) for uuid, messages in offloads.items()},
        messages=table.messages,
        events=events,
        replaced=table.replaced(),
    )


def _message(data: Any) -> Msg:
    return Msg.model_validate(data)


def _each(owner: Mapping[str, Any], field: str, read: Callable[[Any], Any], prefix: str = "") -> list[Any]:
    found = []
    for i, item in enumerate(owner[field]):
        try:
            found.append(read(item))
        except AutoContextError as e:
            raise StateError(f"state.{prefix}{field}[{i}]: {e}") from None
    return found


class _Table:
    """Messages by the ids they were saved with; without those by their own, the later ones of several with a suffix."""

    def __init__(self, ids: Any) -> None:
        self.ids = ids
        self.messages: dict[str, Msg] = {}
        self._same_id: dict[str, list[str]] = {}

    def place(self, messages: list[Msg], *path: str) -> tuple[str, ...]:
        """The ids of messages in one list, each held message used at most once."""
        if self.ids is not None:
            return self._saved(messages, *path)
        used: set[str] = set()
        ids = []
        for m in messages:
            key = next((k for k in self._same_id.get(m.id, ()) if k not in used and self.messages[k] == m), None)
            key = key or self._new(m)
            used.add(key)
            ids.append(key)
        return tuple(ids)

    def replaced(self) -> dict[str, tuple[str, ...]]:
        """Per note, what it stands for, where that was saved; of messages that have been placed."""
        saved = self.ids.get("replaced", {}) if isinstance(self.ids, Mapping) else {}
        known = self.messages.keys()
        for id_, ids in saved.items() if isinstance(saved, Mapping) else [("", None)]:
            if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids) or not {id_, *ids} <= known:
                raise StateError(f"state.ids.replaced.{id_} does not name messages of the state")
        return {id_: tuple(ids) for id_, ids in saved.items()}

    def _new(self, msg: Msg) -> str:
        keys = self._same_id.setdefault(msg.id, [])
        n = len(keys)
        key = msg.id
        while key in self.messages:
            n += 1
            key = f"{msg.id}~{n}"
        keys.append(key)
        self.messages[key] = msg
        return key

    def _saved(self, messages: list[Msg], *path: str) -> tuple[str, ...]:
        where = ".".join(("state.ids", *path))
        ids = self.ids
        for key in path:
            ids = ids.get(key) if isinstance(ids, Mapping) else None
        if not isinstance(ids, list) or len(ids) != len(messages) or not all(isinstance(id_, str) for id_ in ids):
            raise StateError(f"{where} does not name the {len(messages)} messages of its list")
        if len(set(ids)) != len(ids):
            raise StateError(f"{where} names a message twice")
        for id_, m in zip(ids, messages, strict=True):
            if self.messages.setdefault(id_, m) != m:
                raise StateError(f"{where}: {id_!r} stands for two messages")
        return tuple(ids)
