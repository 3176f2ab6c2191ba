"""A memory's state as JSON: the reference's four stores under its names, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autocontext.errors import AutoContextError, StateError
from autocontext.events import CompressionEvent
from autocontext.log import Log, Snapshot
from autocontext.messages import Msg

VERSION = 1
_STORES = {
    "working_memory_storage": list,
    "original_memory_storage": list,
    "offload_context": dict,
    "compression_events": list,
}


def dump(log: Log) -> dict[str, Any]:
    """The state as a JSON object; `load` reads it back."""
    return {
        "version": VERSION,
        "working_memory_storage": [m.to_dict() for m in log.view_messages],
        "original_memory_storage": [m.to_dict() for m in log.read(log.original)],
        "offload_context": {uuid: [m.to_dict() for m in log.read(ids)] for uuid, ids in log.offloads.items()},
        "compression_events": [e.model_dump(mode="json") for e in log.events],
    }


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
    table = _Table()
    original = tuple(table.new(m) for m in _each(state, "original_memory_storage", _message))
    view = table.place(_each(state, "working_memory_storage", _message))
    offloads = {}
    for uuid, messages in state["offload_context"].items():
        if not isinstance(messages, list):
            raise StateError(f"state.offload_context.{uuid} is not a JSON array")
        offloads[str(uuid)] = table.place(_each(state["offload_context"], uuid, _message, "offload_context."))
    events = tuple(_each(state, "compression_events", CompressionEvent.model_validate))
    return Snapshot(messages=table.messages, original=original, view=view, offloads=offloads, events=events)


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
    """Messages by id; where an id stands for several messages, the later ones get a suffix."""

    def __init__(self) -> None:
        self.messages: dict[str, Msg] = {}
        self._same_id: dict[str, list[str]] = {}

    def new(self, msg: Msg) -> str:
        keys = self._same_id.setdefault(msg.id, [])
        n = len(keys)
        key = msg.id
        while key in self.messages:
            n += 1
            key = f"{msg.id}~{n}"
        keys.append(key)
        self.messages[key] = msg
        return key

    def place(self, messages: list[Msg]) -> tuple[str, ...]:
        """The ids of messages in one list, each held message used at most once."""
        used: set[str] = set()
        ids = []
        for m in messages:
            key = next((k for k in self._same_id.get(m.id, ()) if k not in used and self.messages[k] == m), None)
            key = key or self.new(m)
            used.add(key)
            ids.append(key)
        return tuple(ids)
