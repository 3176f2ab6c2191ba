"""Imports sessions that AgentScope-Java's AutoContextMemory has saved through its JsonSession.

The layout is that of its 1.x branch: a directory per session, in it a file per key, lists as JSON lines and single
values as JSON. What is known under `autoContextMemory_...`: workingMessages, originalMessages, offloadContext (an
object that wraps a map from UUID to messages) and compressionEvents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autocontext.errors import AutoContextError, Conflict, InvalidMessage
from autocontext.events import CompressionEvent
from autocontext.messages import Msg, thaw
from autocontext.stores.protocol import SessionKey

if TYPE_CHECKING:
    from autocontext.config import AutoContextConfig
    from autocontext.memory import AutoContextMemory
    from autocontext.models import AsyncChatModel, ChatModel
    from autocontext.stores.protocol import SessionStore

_PREFIX = "autoContextMemory_"
_KEYS = ("workingMessages", "originalMessages", "offloadContext", "compressionEvents")


class _Item(NamedTuple):
    """A JSON value, and its position for error messages."""

    value: Any
    where: str


def import_agentscope_java(
    directory: str | Path,
    *,
    config: AutoContextConfig | None = None,
    model: ChatModel | AsyncChatModel | None = None,
    store: SessionStore | None = None,
    session_id: str | None = None,
    user_id: str = "",
) -> AutoContextMemory:
    """A memory with the state of a session that AgentScope-Java saved as JSON.

    `directory` is the session's own directory, or one JSON file that holds its keys. With a `store` the session is
    stored there, under `session_id` (default: the directory's name), and everything of it stays: messages with their
    ids and times, offload UUIDs, events; what has no place here is kept in metadata under "agentscope_java". Raises
    InvalidMessage naming file and line, or what is missing, and Conflict if the session exists; nothing is stored then.
    """
    from autocontext.memory import AutoContextMemory  # noqa: PLC0415 (it imports this package)

    path = Path(directory)
    state = _state(path)
    session = SessionKey(user_id, session_id or path.resolve().name.removesuffix(".json"))
    if store is None:
        memory = AutoContextMemory(config, model, user_id=user_id)
        memory.session = session  # the name that it has, for `save_to`
    else:
        memory = AutoContextMemory(config, model, store=store, session_id=session.session_id, user_id=user_id)
        if store.read(session, until=1):
            raise Conflict(f"session {session.session_id!r} exists already; import it under another id")
    memory.load_state_dict(state)
    return memory


def _state(path: Path) -> dict[str, Any]:
    """The session as a memory's state."""
    values = dict(_from_directory(path) if path.is_dir() else _from_file(path))
    if not {"workingMessages", "originalMessages"} & values.keys():
        raise InvalidMessage(
            f"{path}: no session of AgentScope-Java's AutoContextMemory: there is neither {_PREFIX}workingMessages nor "
            f"{_PREFIX}originalMessages; give the directory of one session"
        )
    original = values.get("originalMessages", values.get("workingMessages", []))
    return {
        "version": 1,
        "working_memory_storage": _read(values.get("workingMessages", original), message),
        "original_memory_storage": _read(original, message),
        "offload_context": _offloads(values.get("offloadContext", [])),
        "compression_events": _read(values.get("compressionEvents", []), event),
    }


# ------------------------------------------------------------------------------------------------------------- files
def _from_directory(path: Path) -> Iterator[tuple[str, list[_Item]]]:
    for key in _KEYS:
        lines, whole = path / f"{_PREFIX}{key}.jsonl", path / f"{_PREFIX}{key}.json"
        if lines.is_file():
            numbered = enumerate(_text(lines).split("\n"), 1)
            yield key, [_parsed(line, f"{lines}:{number}") for number, line in numbered if line.strip()]
        elif whole.is_file():
            yield key, [_parsed(_text(whole), str(whole))]


def _from_file(path: Path) -> Iterator[tuple[str, list[_Item]]]:
    """One JSON object, which holds the keys itself or in one of its components."""
    if not path.is_file():
        raise InvalidMessage(f"{path}: there is no such file or directory; give the directory of one session")
    data, _ = _parsed(_text(path), str(path))
    components = [data, *(data.values() if isinstance(data, dict) else ())]
    for component in filter(lambda c: isinstance(c, dict), components):
        names = {key: name for key in _KEYS for name in (_PREFIX + key, key) if name in component}
        if names:
            for key, name in names.items():
                yield key, [_Item(component[name], f"{path}: {name}")]
            return


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as e:
        line = path.read_bytes()[: e.start].count(b"\n") + 1
        raise InvalidMessage(f"{path}:{line}: it is not UTF-8") from None


def _parsed(text: str, where: str) -> _Item:
    try:
        return _Item(json.loads(text), where)
    except json.JSONDecodeError as e:
        at = where if "\n" not in text.strip() else f"{where}:{e.lineno}"
        raise InvalidMessage(f"{at}: it is not JSON ({e.msg} at column {e.colno}); was the file cut off?") from None
    except RecursionError:
        raise InvalidMessage(f"{where}: it is nested too deeply") from None


# ------------------------------------------------------------------------------------------------------------ values
def _elements(items: list[_Item]) -> list[_Item]:
    """The elements of a list, or of the only list within an object."""
    if len(items) != 1:
        return items
    value, where = items[0]
    if isinstance(value, dict):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        value = lists[0] if len(value) == len(lists) == 1 else value
    if isinstance(value, list):
        return [_Item(element, f"{where}[{i}]") for i, element in enumerate(value)]
    return items


def _offloads(items: list[_Item]) -> dict[str, list[dict[str, Any]]]:
    if not items:
        return {}
    value, where = items[0]
    wrapped = value.get("offloadContext") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(wrapped, dict):
        value = wrapped
    if not isinstance(value, dict) or not all(isinstance(messages, list) for messages in value.values()):
        raise InvalidMessage(f"{where}: it does not map UUIDs to lists of messages")
    return {uuid: _read([_Item(messages, f"{where}: {uuid}")], message) for uuid, messages in value.items()}


def _read(items: list[_Item], as_: Callable[[Mapping[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
    """What `as_` makes of each element. Raises InvalidMessage naming its position."""
    read = []
    for value, where in _elements(items):
        if not isinstance(value, dict):
            raise InvalidMessage(f"{where}: it is a {type(value).__name__}, not an object")
        try:
            read.append(as_(value))
        except AutoContextError as e:
            raise InvalidMessage(f"{where}: {e}") from None
    return read


KEPT = "agentscope_java"
"""Metadata key of everything without a field here."""
_MEDIA = ("image", "audio", "video")
_FIELDS: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": ""},
    "tool_use": {"id": "", "name": "", "input": {}},
    "tool_result": {"id": "", "name": ""},
}
"""Fields of a block that are the same here, and what stands for a missing one."""
_EVENT = {
    "eventType": "event_type",
    "timestamp": "timestamp",
    "compressedMessageCount": "compressed_message_count",
    "previousMessageId": "previous_message_id",
    "nextMessageId": "next_message_id",
    "compressedMessageId": "compressed_message_id",
}
_DERIVED = {"tokenBefore", "tokenAfter", "tokenReduction", "compressInputToken", "compressOutputToken", "metadata"}
"""Fields that Jackson derives from an event's getters; the metadata has them all."""


def message(data: Mapping[str, Any]) -> dict[str, Any]:
    """One Msg in the form of `Msg.to_dict`. Raises InvalidMessage naming the field."""
    content = data.get("content")
    if not isinstance(content, str | list | None):
        raise InvalidMessage(f"Msg.content: it is a {type(content).__name__}, not a list of blocks")
    role = data.get("role")
    fields: dict[str, Any] = {
        "role": role.lower() if isinstance(role, str) else role,
        "name": data.get("name") or "",
        "content": content if isinstance(content, str) else [block(b) for b in content or () if b is not None],
        "metadata": _metadata(data, ("id", "name", "role", "content", "timestamp")),
    }
    # A missing id or time is filled in as for a new message.
    fields |= {key: data[key] for key in ("id", "timestamp") if data.get(key)}
    return Msg.model_validate(fields).to_dict()


def block(data: Any, *, of_result: bool = False) -> dict[str, Any]:
    """One content block. One of an unknown kind becomes a text, with the block in its metadata.

    So does a call or a result in a tool's output, where it is not allowed.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise InvalidMessage("Msg.content: a block is an object with the text `type`")
    kind = data["type"]
    if kind in _MEDIA and (source := _source(data.get("source"))) is not None:
        return {"type": kind, "source": source, "metadata": _metadata(data, ("type", "source"))}
    if kind not in _FIELDS or (of_result and kind in ("tool_use", "tool_result")):
        text = data.get("text")
        shown = text if isinstance(text, str) and text else f"[{kind} block]"
        return {"type": "text", "text": shown, "metadata": {KEPT: thaw(data)}}
    fields = {name: data.get(name) or default for name, default in _FIELDS[kind].items()}
    known = ("type", *fields)
    if kind == "tool_result":
        output = data.get("output")
        listed = output if isinstance(output, list) else [] if output is None else [output]
        fields["output"] = output if isinstance(output, str) else [block(b, of_result=True) for b in listed]
        fields["is_error"] = data.get("state") == "ERROR"
        known += ("output", "suspended")
    return {"type": kind, **fields, "metadata": _metadata(data, known)}


def event(data: Mapping[str, Any]) -> dict[str, Any]:
    """One compression event, with the field names of this library."""
    metadata = _metadata(data, (*_EVENT, *_DERIVED), "CompressionEvent.metadata")
    before, after = metadata.get("tokenBefore"), metadata.get("tokenAfter")
    saved = before - after if isinstance(before, int) and isinstance(after, int) else 0
    fields = {name: data[key] for key, name in _EVENT.items() if key in data}
    read = CompressionEvent.model_validate({**fields, "metadata": metadata, "token_reduction": saved})
    return dict(thaw(read.model_dump()))


def _source(source: Any) -> dict[str, Any] | None:
    """A media source in the form of this library; None for an unknown kind."""
    if not isinstance(source, dict):
        return None
    renamed = {key: value for key, value in source.items() if key != "mediaType"}
    if "mediaType" in source:
        renamed.setdefault("media_type", source["mediaType"])
    needed = {"url": ("url",), "base64": ("media_type", "data")}.get(str(source.get("type")), ())
    return renamed if needed and all(isinstance(renamed.get(key), str) for key in needed) else None


def _metadata(data: Mapping[str, Any], known: tuple[str, ...], where: str = "metadata") -> dict[str, Any]:
    """The metadata, and in it all fields but the known ones that are not null."""
    metadata = data.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidMessage(f"{where}: it is a {type(metadata).__name__}, not an object")
    rest = {k: thaw(v) for k, v in data.items() if k not in known and k != "metadata" and v is not None}
    return {**metadata, **({KEPT: rest} if rest else {})}
