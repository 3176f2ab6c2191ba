"""Converts AgentScope-Java's messages and compression events, as Jackson writes them, to those of this library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocontext.errors import InvalidMessage
from autocontext.events import CompressionEvent
from autocontext.messages import Msg, thaw

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
    rest = _rest(data, ("id", "name", "role", "content", "metadata", "timestamp"))
    fields: dict[str, Any] = {
        "role": role.lower() if isinstance(role, str) else role,
        "name": data.get("name") or "",
        "content": content if isinstance(content, str) else [block(b) for b in content or () if b is not None],
        "metadata": _metadata(data, rest),
    }
    # A missing id or time is filled in as for a new message.
    fields |= {key: data[key] for key in ("id", "timestamp") if data.get(key)}
    return Msg.model_validate(fields).to_dict()


def block(data: Any) -> dict[str, Any]:
    """One content block. One of an unknown kind becomes a text, with the block in its metadata."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise InvalidMessage("Msg.content: a block is an object with the text `type`")
    kind = data["type"]
    if kind in _MEDIA and (source := _source(data.get("source"))) is not None:
        return {"type": kind, "source": source, "metadata": _metadata(data, _rest(data, ("type", "source")))}
    if kind not in _FIELDS:
        text = data.get("text")
        return {
            "type": "text",
            "text": text if isinstance(text, str) and text else f"[{kind} block]",
            "metadata": {KEPT: thaw(data)},
        }
    fields = {name: data.get(name) or default for name, default in _FIELDS[kind].items()}
    known = ("type", *fields)
    if kind == "tool_result":
        output = data.get("output")
        fields["output"] = output if isinstance(output, str) else [_output(b) for b in _listed(output)]
        fields["is_error"] = data.get("state") == "ERROR"
        known += ("output", "suspended")
    return {"type": kind, **fields, "metadata": _metadata(data, _rest(data, known))}


def event(data: Mapping[str, Any]) -> dict[str, Any]:
    """One compression event, with the field names of this library."""
    metadata = _metadata(data, _rest(data, (*_EVENT, *_DERIVED)), "CompressionEvent.metadata")
    before, after = metadata.get("tokenBefore"), metadata.get("tokenAfter")
    saved = before - after if isinstance(before, int) and isinstance(after, int) else 0
    read = CompressionEvent.model_validate(
        {
            **{name: data[key] for key, name in _EVENT.items() if key in data},
            "metadata": metadata,
            "token_reduction": saved,
        }
    )
    return dict(thaw(read.model_dump()))


def _output(data: Any) -> dict[str, Any]:
    """A block within a tool's output. A call or result is not allowed there, so it becomes a text, too."""
    if isinstance(data, dict) and data.get("type") in ("tool_use", "tool_result"):
        return {"type": "text", "text": f"[{data['type']} block]", "metadata": {KEPT: thaw(data)}}
    return block(data)


def _listed(output: Any) -> list[Any]:
    if output is None:
        return []
    return output if isinstance(output, list) else [output]


def _source(source: Any) -> dict[str, Any] | None:
    """A media source in the form of this library; None for an unknown kind."""
    if not isinstance(source, dict):
        return None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return dict(source)
    media_type = source.get("media_type", source.get("mediaType"))
    if source.get("type") == "base64" and isinstance(media_type, str) and isinstance(source.get("data"), str):
        return {**{k: v for k, v in source.items() if k != "mediaType"}, "media_type": media_type}
    return None


def _rest(data: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """All other fields that are not null."""
    return {k: thaw(v) for k, v in data.items() if k not in known and k != "metadata" and v is not None}


def _metadata(data: Mapping[str, Any], rest: Mapping[str, Any], where: str = "metadata") -> dict[str, Any]:
    metadata = data.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidMessage(f"{where}: it is a {type(metadata).__name__}, not an object")
    return {**metadata, **({KEPT: dict(rest)} if rest else {})}
