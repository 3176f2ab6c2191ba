"""Content parts and tool calls of OpenAI chat messages as blocks, and back, without loss.

What a block has no field for stands under `metadata["_openai"]` of that block, as hints: `extra` and `inner` (unknown
keys of the outer and inner object) and a few words about the form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats import blocks
from autocontext.formats.blocks import source_of, url_of
from autocontext.messages import (
    WIRE_HINTS,
    AudioBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ToolUseBlock,
    VideoBlock,
    freeze,
    thaw,
)

T = TypeVar("T")
hints = partial(blocks.hints, WIRE_HINTS)
"""What was remembered about an OpenAI message or block."""
remember = partial(blocks.remember, WIRE_HINTS)
"""Metadata that holds such hints; {} when there is nothing to remember."""
Part: TypeAlias = TextBlock | ImageBlock | AudioBlock | VideoBlock

_MEDIA_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_STYLES: dict[str, dict[str, Any]] = {
    "spaced": {"ensure_ascii": False},
    "compact": {"ensure_ascii": False, "separators": (",", ":")},
    "ascii": {},
    "ascii_compact": {"separators": (",", ":")},
}
"""The ways in which models commonly lay out arguments; the first is the one that needs no hint."""


# -------------------------------------------------------------------------------------------------------- objects
def read_all(messages: Any, name: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """What `read` makes of each of a provider's messages, as a dict. Errors name its place: "messages[3].role"."""
    if isinstance(messages, str | Mapping | BaseModel) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"{name}: must be a list of message objects, not {kind_of(messages)}")

    def dicts() -> Iterator[Any]:
        for i, message in enumerate(messages):
            if isinstance(message, Msg):
                raise InvalidMessage(f"{name}[{i}]: is a Msg already, not a provider's message")
            yield blocks.without_objects(message)

    return read_each(dicts(), name, read)


def read_each(values: Iterable[Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """What `read` makes of each object of a list. Errors name its place: "content[0].type"."""
    made: list[T] = []
    for i, value in enumerate(values):
        if not isinstance(value, Mapping):
            raise InvalidMessage(f"{name}[{i}]: must be an object, not {kind_of(value)}")
        made.append(read_at(f"{name}[{i}]", read, value))
    return made


def read_at(place: str, read: Callable[..., T], *given: Any) -> T:
    """What `read` makes of what is given, which stands at this place: its errors begin with it."""
    try:
        return read(*given)
    except InvalidMessage as e:
        raise InvalidMessage(f"{place}.{e}") from None


def rest(message: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The keys that no field stands for. Raises InvalidMessage naming what JSON cannot hold."""
    extra: dict[str, Any] = {}
    for key in [k for k in message if k not in known]:
        try:
            extra |= freeze({key: message[key]})
        except ValueError as e:
            raise InvalidMessage(f"{key}: {e}") from None
    return extra


def function_schema(name: str, description: str, properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """A tool as an OpenAI function schema; `properties` are its parameters, in JSON Schema."""
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def put_back(target: dict[str, Any], remembered: Any, lost: Collection[str] = ()) -> dict[str, Any]:
    """Add remembered keys to an object that does not have them by now, except those that are `lost`."""
    if isinstance(remembered, dict):
        target.update((k, thaw(v)) for k, v in remembered.items() if k not in target and k not in lost)
    return target


def text_at(message: Mapping[str, Any], key: str) -> str:
    """The text under a key. Raises InvalidMessage when it is missing or not a text."""
    if key not in message:
        raise InvalidMessage(f"{key}: is missing; it must be a string")
    value = message[key]
    if not isinstance(value, str):
        raise InvalidMessage(f"{key}: must be a string, not {kind_of(value)}")
    return value


def object_at(message: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under a key. Raises InvalidMessage when it is missing or not an object."""
    value = message.get(key)
    if not isinstance(value, Mapping):
        problem = f"must be an object, not {kind_of(value)}" if key in message else "is missing; it must be an object"
        raise InvalidMessage(f"{key}: {problem}")
    return value


def kind_of(value: object) -> str:
    """A value's type in the words of JSON."""
    return "null" if value is None else f"{type(value).__name__}"


# ---------------------------------------------------------------------------------------------------------- parts
def read_part(part: Mapping[str, Any]) -> Part:
    """A content part as a block; a part of a kind without a block (`file`) becomes a text that names it."""
    kind = text_at(part, "type")
    if kind == "text":
        return TextBlock(text=text_at(part, "text"), metadata=remember(extra=rest(part, ("type", "text"))))
    if kind == "refusal":
        extra = rest(part, ("type", "refusal"))
        return TextBlock(text=text_at(part, "refusal"), metadata=remember(part="refusal", extra=extra))
    if kind in ("image_url", "video_url"):
        return _read_url(part, kind)
    if kind == "input_audio":
        return _read_audio(part)
    carried = remember(carried=rest(part, ()))
    return TextBlock(text=_text_of(part), metadata=carried | blocks.file_mark(part, _name_of(part)))


def _read_url(part: Mapping[str, Any], kind: str) -> Part:
    extra = rest(part, ("type", kind))
    block = ImageBlock if kind == "image_url" else VideoBlock
    if isinstance(part.get(kind), str):  # not OpenAI's form, but Mistral's and others'
        return block(source=source_of(part[kind]), metadata=remember(bare=True, extra=extra))
    body = object_at(part, kind)
    inner = read_at(kind, rest, body, ("url",))
    return block(source=source_of(read_at(kind, text_at, body, "url")), metadata=remember(inner=inner, extra=extra))


def _read_audio(part: Mapping[str, Any]) -> Part:
    extra = rest(part, ("type", "input_audio"))
    body = object_at(part, "input_audio")
    data, form = (read_at("input_audio", text_at, body, key) for key in ("data", "format"))
    media_type = _MEDIA_TYPES.get(form, f"audio/{form}")
    odd = None if _audio_format(media_type) == form else form
    inner = read_at("input_audio", rest, body, ("data", "format"))
    source = {"type": "base64", "media_type": media_type, "data": data}
    return AudioBlock(source=source, metadata=remember(format=odd, inner=inner, extra=extra))


def _audio_format(media_type: str) -> str:
    known = {v: k for k, v in _MEDIA_TYPES.items()}
    return known.get(media_type, media_type.removeprefix("audio/"))


def _text_of(part: Mapping[str, Any]) -> str:
    """What a part without a block of its own reads like to a model, and how it is known again."""
    kind = part["type"]
    return blocks.carried_text({} if kind == "file" else part, kind, _name_of(part))


def _name_of(part: Mapping[str, Any]) -> Any:
    body = part.get(part["type"])
    return body.get("filename") or body.get("file_id") if isinstance(body, Mapping) else None


def is_plain(block: Part) -> bool:
    """Whether a block is text and nothing else, so that a string can hold it."""
    return isinstance(block, TextBlock) and not hints(block)


def write_part(block: Part) -> dict[str, Any]:
    """The content part that stands for a block."""
    known = hints(block)
    if isinstance(block, TextBlock):
        carried = known.get("carried")
        if isinstance(carried, dict) and "type" in carried and blocks.carries(block, _text_of(carried)):
            return put_back({}, carried)
        key = "refusal" if known.get("part") == "refusal" else "text"
        return put_back({"type": key, key: block.text}, known.get("extra"))
    body: Any
    if isinstance(block, AudioBlock):
        if block.source["type"] == "url":  # chat messages carry sound as data only
            return {"type": "text", "text": stand_in(block)}
        form = known.get("format") or _audio_format(block.source["media_type"])
        kind, body = "input_audio", put_back({"data": block.source["data"], "format": form}, known.get("inner"))
    else:
        kind = "image_url" if isinstance(block, ImageBlock) else "video_url"
        body = url_of(block) if known.get("bare") else put_back({"url": url_of(block)}, known.get("inner"))
    return put_back({"type": kind, kind: body}, known.get("extra"))


def stand_in(block: Part) -> str:
    """The text of a block where only text may stand: an image's address, never its data."""
    if isinstance(block, TextBlock):
        return block.text
    url = block.source["url"] if block.source["type"] == "url" else "data:"
    return f"[{block.type}]" if url.startswith("data:") else f"[{block.type}: {url}]"


# ----------------------------------------------------------------------------------------------------- tool calls
def read_call(call: Mapping[str, Any]) -> ToolUseBlock:
    """An entry of `tool_calls` as a block, its arguments parsed."""
    kind = call.get("type", "function")
    if kind not in ("function", "custom"):
        raise InvalidMessage(f"type: must be 'function' or 'custom', not {kind!r}")
    body, call_id = object_at(call, kind), text_at(call, "id")
    more = {"extra": rest(call, ("id", "type", kind)), "untyped": "type" not in call}
    return read_at(kind, partial(read_function, body, call_id, custom=kind == "custom", **more))


def read_function(body: Mapping[str, Any], call_id: str, *, custom: bool = False, **more: Any) -> ToolUseBlock:
    """The inner object of a call as a block: `function`, `custom`, or a legacy `function_call`; `more` are hints."""
    name = text_at(body, "name")
    key = "input" if custom else "arguments"
    raw = text_at(body, key)
    value, form = ({"input": raw}, {"custom": True}) if custom else _read_arguments(raw)
    known = remember(inner=rest(body, ("name", key)), **form, **more)
    return ToolUseBlock(id=call_id, name=name, input=value, metadata=known)


def write_call(block: ToolUseBlock) -> dict[str, Any]:
    """The entry of `tool_calls` that stands for a block."""
    known = hints(block)
    kind = "custom" if known.get("custom") else "function"
    call = {"id": block.id} if known.get("untyped") else {"id": block.id, "type": kind}
    return put_back({**call, kind: write_function(block)}, known.get("extra"))


def write_function(block: ToolUseBlock) -> dict[str, Any]:
    """The inner object of a call."""
    known = hints(block)
    key = "input" if known.get("custom") else "arguments"
    return put_back({"name": block.name, key: _write_arguments(block, key)}, known.get("inner"))


def _dumps(value: Mapping[str, Any], style: str) -> str:
    text = json.dumps(value, **_STYLES[style])
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be sent
        return json.dumps(value, **{**_STYLES[style], "ensure_ascii": True})
    return text


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("JSON has no such number")
    return value


def _parse(raw: str) -> dict[str, Any] | None:
    """The object that a text of arguments says; None when it is not one that can be kept as a value."""
    if not raw.strip():
        return {}  # how models call a tool that takes nothing
    try:
        value = freeze(json.loads(raw, parse_float=_finite, parse_constant=_finite))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _read_arguments(raw: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments as a value and the hints that give back this very text."""
    value = _parse(raw)
    if value is None:  # kept as text, where models, previews and token counts see it
        return {"arguments": raw}, {"text": True}
    for style in _STYLES:
        if _dumps(value, style) == raw:
            return value, {} if style == "spaced" else {"style": style}
    return value, {"raw": raw}


def _write_arguments(block: ToolUseBlock, key: str) -> str:
    known = hints(block)
    if (known.get("custom") or known.get("text")) and set(block.input) == {key} and isinstance(block.input[key], str):
        return str(block.input[key])
    raw = known.get("raw")
    if isinstance(raw, str) and _same(_parse(raw), block.input):
        return raw
    style = known.get("style")
    return _dumps(block.input, style if style in _STYLES else "spaced")


def _same(parsed: dict[str, Any] | None, value: dict[str, Any]) -> bool:
    # As text: Python takes 1, 1.0 and True for equal. Sorted: stores may reorder keys.
    return parsed is not None and json.dumps(parsed, sort_keys=True) == json.dumps(value, sort_keys=True)
