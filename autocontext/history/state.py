"""A memory's state to and from JSON: the reference's four stores, under its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

from autocontext.errors import AutoContextError, StateError, short
from autocontext.events import CompressionEvent
from autocontext.history.collector import collector_paused
from autocontext.history.entries import Snapshot
from autocontext.history.log import Log, unused
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

    def dicts(ids: Iterable[str]) -> list[dict[str, Any]]:
        return [m.to_dict() for m in log.read(ids)]

    state = {
        "version": VERSION,
        "working_memory_storage": dicts(log.view_ids),
        "original_memory_storage": dicts(log.original),
        "offload_context": {uuid: dicts(ids) for uuid, ids in log.offloads.items()},
        "compression_events": [thaw(e.model_dump()) for e in log.events],
    }
    referenced = {*log.view_ids, *log.original, *chain.from_iterable(log.offloads.values())}
    # An undone note is not part of the state, so `replaced` must not name it.
    shared = {id_: ids for id_, ids in log.shared().items() if id_ in referenced}
    if shared or any(id_ != log.messages[id_].id for id_ in referenced):
        # Only the log's ids tell apart messages that were added with the same id, and say which note replaced which
        # messages of an entry that several compressions share.
        state["ids"] = {
            "working_memory_storage": list(log.view_ids),
            "original_memory_storage": list(log.original),
            "offload_context": {uuid: list(ids) for uuid, ids in log.offloads.items()},
            **({"replaced": {id_: list(ids) for id_, ids in shared.items()}} if shared else {}),
        }
    if pinned := [at for at, id_ in enumerate(log.view_ids) if id_ in log.pins]:
        state["pinned"] = pinned
    if taken_back := [at for at, id_ in enumerate(log.original) if id_ in log.taken_back]:
        state["taken_back"] = taken_back
    if log.ended:
        state["ended"] = log.ended
    if edited := log.orphaned(referenced):
        state["edited"] = list(edited)
    return state


def load(state: Any) -> Snapshot:
    """A state as one log entry; equal messages are stored once. Raises StateError naming the field at fault."""
    if not isinstance(state, Mapping):
        raise StateError(f"the state is a {type(state).__name__}, not an object made by state_dict()")
    version = state.get("version")
    if version != VERSION:
        raise StateError(
            f"state.version is {short(version)}, but this release reads {VERSION}: load the state with the release "
            "that saved it"
            if "version" in state
            else "state.version is missing: this is not an object made by state_dict()"
        )
    for field, kind in _STORES.items():
        if not isinstance(state.get(field), kind):
            raise StateError(f"state.{field} is missing or not a JSON {'object' if kind is dict else 'array'}")
    return collector_paused(len(state["original_memory_storage"]), lambda: _load(state))


def _load(state: Mapping[str, Any]) -> Snapshot:
    message = partial(_message, {})
    original = _each(state, "original_memory_storage", message)
    view = _each(state, "working_memory_storage", message)
    offloads = {}
    for uuid, messages in state["offload_context"].items():
        if not isinstance(messages, list):
            raise StateError(f"state.offload_context.{uuid} is not a JSON array")
        offloads[str(uuid)] = _each(state["offload_context"], uuid, message, "offload_context.")
    events = tuple(_each(state, "compression_events", CompressionEvent.model_validate))
    table = _Table(state.get("ids"))
    originals, in_view = table.place(original, "original_memory_storage"), table.place(view, "working_memory_storage")
    return Snapshot(
        original=originals,
        view=in_view,
        pinned=_at(state, "pinned", in_view, "working_memory_storage"),
        taken_back=_at(state, "taken_back", originals, "original_memory_storage"),
        ended=_ended(state, len(originals)),
        edited=_edited(state),
        offloads={uuid: table.place(messages, "offload_context", uuid) for uuid, messages in offloads.items()},
        messages=table.messages,
        events=events,
        replaced=table.replaced(),
    )


def _at(state: Mapping[str, Any], field: str, ids: tuple[str, ...], of: str) -> tuple[str, ...]:
    """The ids at the indices in a field."""
    places = state.get(field, [])
    if not isinstance(places, list) or not all(type(at) is int and 0 <= at < len(ids) for at in places):
        raise StateError(f"state.{field} must be a list of indices below {len(ids)}, of {of}")
    return tuple(ids[at] for at in places)


def _ended(state: Mapping[str, Any], most: int) -> int:
    ended = state.get("ended", 0)
    if type(ended) is not int or not 0 <= ended <= most:
        raise StateError(f"state.ended must be a number of messages up to {most}, of original_memory_storage")
    return ended


def _edited(state: Mapping[str, Any]) -> tuple[str, ...]:
    edited = state.get("edited", [])
    if not isinstance(edited, list) or not all(uuid in state["offload_context"] for uuid in map(str, edited)):
        raise StateError("state.edited must be a list of UUIDs of offload_context")
    return tuple(map(str, edited))


def _message(known: dict[str, tuple[dict[str, Any], Msg]], data: Any) -> Msg:
    """The message; the same object for the same data, as most stand in several lists of a state.

    `known` holds, by id, the first with it.
    """
    id_ = data.get("id") if isinstance(data, dict) else None
    if not isinstance(id_, str):
        return Msg.model_validate(data)
    if id_ in known and _same(known[id_][0], data):
        return known[id_][1]
    msg = Msg.model_validate(data)
    known.setdefault(id_, (data, msg))
    return msg


def _same(data: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two messages are written in the same way: 1, 1.0 and true are equal, but not the same argument."""
    return data == other and repr(data) == repr(other)


def _each(owner: Mapping[str, Any], field: str, read: Callable[[Any], Any], prefix: str = "") -> list[Any]:
    values = []
    for i, item in enumerate(owner[field]):
        try:
            values.append(read(item))
        except AutoContextError as e:
            raise StateError(f"state.{prefix}{field}[{i}]: {e}") from None
    return values


class _Table:
    """Messages by the ids they were saved with; without those, by their own ids, with suffixes for repeated ones."""

    def __init__(self, ids: Any) -> None:
        self.ids = ids
        self.messages: dict[str, Msg] = {}
        self._suffixes: dict[str, int] = {}
        self._alike: dict[tuple[object, ...], list[str]] = {}
        """Keys of the stored messages by fingerprint."""

    def place(self, messages: list[Msg], *path: str) -> tuple[str, ...]:
        """The ids of messages in one list, each stored message used at most once."""
        if self.ids is not None:
            return self._by_saved_ids(messages, *path)
        unplaced: dict[tuple[object, ...], list[str]] = {}
        ids = []
        for m in messages:
            fingerprint = _fingerprint(m)
            keys = unplaced.get(fingerprint)
            if keys is None:
                keys = unplaced[fingerprint] = [*self._alike.get(fingerprint, ())]
            key = next((k for k in keys if self.messages[k] is m or self.messages[k] == m), None)
            if key is None:
                key = self._new(m, fingerprint)
            else:
                keys.remove(key)
            ids.append(key)
        return tuple(ids)

    def replaced(self) -> dict[str, tuple[str, ...]]:
        """Per note, the ids it replaced, if they were saved; all of them must have been placed."""
        table = self.ids.get("replaced", {}) if isinstance(self.ids, Mapping) else {}
        placed = self.messages.keys()
        for id_, ids in table.items() if isinstance(table, Mapping) else [("", None)]:
            if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids) or not {id_, *ids} <= placed:
                raise StateError(f"state.ids.replaced.{id_} must be a list of ids of messages in the state")
        return {id_: tuple(ids) for id_, ids in table.items()}

    def _new(self, msg: Msg, fingerprint: tuple[object, ...]) -> str:
        key = unused(msg.id, self.messages, self._suffixes)
        self._alike.setdefault(fingerprint, []).append(key)
        self.messages[key] = msg
        return key

    def _by_saved_ids(self, messages: list[Msg], *path: str) -> tuple[str, ...]:
        where = ".".join(("state.ids", *path))
        ids = self.ids
        for key in path:
            ids = ids.get(key) if isinstance(ids, Mapping) else None
        if not isinstance(ids, list) or len(ids) != len(messages) or not all(isinstance(id_, str) for id_ in ids):
            raise StateError(f"{where} must be a list of {len(messages)} ids, one for each message")
        if len(set(ids)) != len(ids):
            raise StateError(f"{where} names the same message twice")
        for id_, m in zip(ids, messages, strict=True):
            if self.messages.setdefault(id_, m) != m:
                raise StateError(f"{where}: {id_!r} stands for two different messages")
        return tuple(ids)


def _fingerprint(msg: Msg) -> tuple[object, ...]:
    """A hashable value that equal messages share, and few others."""
    return msg.id, msg.timestamp, *msg.texts()
