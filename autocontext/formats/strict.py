"""What is checked when a dict is added, and what a request leaves out so that strict services take it.

One field that a service does not know makes it refuse every later request of the session. What was added stays stored
as it came; these functions are for requests, and `from_openai` and its like, loss-free, know nothing of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.errors import InvalidMessage
from autocontext.formats.addresses import image_address
from autocontext.formats.anthropic_rules import image_taken
from autocontext.formats.blocks import carried_text
from autocontext.formats.fields import ANTHROPIC, BLOCKS, CHAT, ITEMS, RESPONSES_INPUT, RESPONSES_OUTPUT, RESULT_BLOCKS
from autocontext.formats.fitting import Fields, Fitting, Kinds
from autocontext.formats.openai_chat import legacy_id
from autocontext.formats.sendable import as_json
from autocontext.messages import Msg

SDK_FIELDS = "_sdk_fields"
"""Metadata key: fields and types of an SDK's object that the tables do not know; they go back all the same."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def check(item: Mapping[str, Any], format_: str, at: str) -> list[str]:
    """The places of fields in a message that no provider takes.

    Raises InvalidMessage for a field or type that is a misspelt one, and for a value of a wrong kind.
    """
    if item.get("tool_calls") and item.get("function_call"):
        raise InvalidMessage(f"{at}.function_call: stands beside tool_calls; a message has one of them")
    if item.get("type") == "function_call_output" and not any(item.get(key) for key in ("call_id", "name", "id")):
        # The service takes it; a program has forgotten the call, which would then stand without a result.
        raise InvalidMessage(f"{at}.call_id: is missing")
    fitting = Fitting()
    fitting.fit(_whole(item), _shape(item, format_), at)
    return list(fitting.unsent)


def unknown(item: Mapping[str, Any], format_: str) -> list[str]:
    """The names of fields and types of an SDK's object that the tables do not have."""
    fitting = Fitting(repair=True)
    kinds: list[Any] = []
    try:
        fitting.fit(_whole(item), _shape(item, format_), "")
    except InvalidMessage:
        content = item.get("content")
        parts = content if isinstance(content, list | tuple) else ()
        kinds = [part.get("type") for part in (item, *parts) if isinstance(part, Mapping)]
    return [*(k for k in kinds if isinstance(k, str)), *(place.rpartition(".")[2] for place in fitting.unsent)]


def _shape(item: Mapping[str, Any], format_: str) -> Fields | Kinds:
    if format_ == "Anthropic":
        return ANTHROPIC
    if format_ == "OpenAI chat":
        return CHAT[item["role"]]
    if item.get("type", "message") != "message" or "role" not in item:
        return ITEMS
    return RESPONSES_OUTPUT if item["role"] == "assistant" else RESPONSES_INPUT


def _whole(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with a text where a result has none, which readers take, too."""
    key = "output" if str(item.get("type")).endswith("call_output") else "content"
    empty = item.get("role") in ("tool", "function") or key == "output"
    return {**item, key: ""} if empty and item.get(key) is None else item


def allowed(messages: Iterable[Msg]) -> frozenset[str]:
    """The fields and types that SDKs' objects among these messages had."""
    names = (m.metadata[SDK_FIELDS] for m in messages if SDK_FIELDS in m.metadata)
    return frozenset(name for some in names if isinstance(some, list) for name in some if isinstance(name, str))


# -------------------------------------------------------------------------------------------------------------- chat
def strict_chat(messages: Iterable[dict[str, Any]], known: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """OpenAI chat messages without what strict services refuse."""
    fitting = Fitting(repair=True, known=known)
    called = name = ""
    sent = []
    for one in messages:
        # The answer that `sendable` writes for a call from before tool ids: those are answered by name.
        lost = called and one.get("tool_call_id") == called
        message = {"role": "function", "name": name, "content": one["content"]} if lost else one
        if (kept := _chat(message, fitting)) is not None:
            sent.append(kept)
            called = name = ""
            if "function_call" in kept:  # the name that is sent may be another one
                called, name = legacy_id(one["function_call"]["name"]), kept["function_call"]["name"]
    return sent


def _chat(message: dict[str, Any], fitting: Fitting) -> dict[str, Any] | None:
    """The message as it is sent; None when nothing is said once the fields are gone that no service takes."""
    if message.keys() == {"role", "content"} and isinstance(message["content"], str):
        return message
    sent: dict[str, Any] = dict(fitting.fit(_with_parts(_with_calls(message), fitting), CHAT[message["role"]], ""))
    if sent["role"] != "assistant" or sent.get("content") or "tool_calls" in sent or "function_call" in sent:
        return sent
    if not any(sent[key] for key in sent if key not in ("role", "name")):
        return None
    # Only a refusal or a sound may stand without a text.
    return sent if sent.get("refusal") or sent.get("audio") else {**sent, "content": ""}


def _with_parts(message: dict[str, Any], fitting: Fitting) -> dict[str, Any]:
    role, content = message["role"], message.get("content")
    if isinstance(content, list | tuple):
        empty = None if message.get("tool_calls") or message.get("function_call") else ""
        return {**message, "content": [_chat_part(part, role, fitting) for part in content] or empty}
    return {**message, "content": ""} if content is None and role != "assistant" else message


def _with_calls(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "function":
        return _fit_call(message)  # type: ignore[no-any-return]
    if message["role"] != "assistant":
        return message
    calls = [{"type": "function", **call} for call in message.get("tool_calls") or ()]
    if calls:
        named = [{**call, call["type"]: _fit_call(call.get(call["type"]))} for call in calls]
        message = {**message, "tool_calls": named}
    elif "tool_calls" in message:
        message = {key: value for key, value in message.items() if key != "tool_calls"}
    if "function_call" in message:
        message = {**message, "function_call": _fit_call(message["function_call"])}
    return message


def _chat_part(part: Any, role: str, fitting: Fitting) -> Any:
    if isinstance(part, Mapping) and part.get("type") == "image_url" and isinstance(part.get("image_url"), str):
        part = {**part, "image_url": {"url": part["image_url"]}}  # Mistral's form; Mistral takes OpenAI's, too
    shown: Any = CHAT["assistant" if role == "assistant" else "user" if role == "user" else "system"]
    return _part(part, shown.shapes["content"], "text", fitting)


def _part(part: Any, content: Any, text_type: str, fitting: Fitting) -> Any:
    """A part of a content that has the shape (..., [Kinds]); a text that names it where it has none of the kinds."""
    kinds: Kinds = content[-1][0]
    try:
        sent: Any = fitting.fit(part, kinds, "")
        sent = _with_address(sent) if sent["type"] in ("image_url", "input_image") else sent
        return sent or {"type": text_type, "text": _named(part)}
    except InvalidMessage:
        return {"type": text_type, "text": _named(part)}


def _with_address(image: dict[str, Any]) -> dict[str, Any] | None:
    """The image as services take it; None where they refuse its address or data."""
    holder, key = (image["image_url"], "url") if image["type"] == "image_url" else (image, "image_url")
    if holder.get(key) is None:  # a file's id
        return image
    address = image_address(holder[key])
    if not address or address == holder[key]:
        return image if address else None
    changed = {**holder, key: address}
    return changed if holder is image else {**image, "image_url": changed}


def _named(part: Any) -> str:
    """A text for what cannot be sent: its own, or its kind with an address or name, or else with all it holds."""
    if not isinstance(part, Mapping):
        return str(part)
    body = part.get(str(part.get("type")))
    places = [part, *([body] if isinstance(body, Mapping) else [])]
    texts = [p.get(key) for key in ("text", "url", "filename", "file_id", "title") for p in places]
    said = next((text for text in texts if isinstance(text, str) and text and not text.startswith("data:")), "")
    if said and said == part.get("text"):
        return said
    return f"[{part.get('type') or 'part'}: {said}]" if said else carried_text(part, part.get("type") or "part")


def _fit_call(body: Any) -> Any:
    """The body of a call as services take it, whatever the model made up: the characters of its name, its arguments.

    Some services read the arguments of each call anew, and refuse all requests with a text that is no JSON object.
    """
    if not isinstance(body, Mapping):
        return body
    fit = {"name": _NOT_IN_NAMES.sub("_", str(body.get("name")))[:_LONGEST_NAME] or "_"}
    raw = body.get("arguments")
    if isinstance(raw, str) and not _is_object(raw):
        fit["arguments"] = json.dumps({"arguments": raw}) if raw.strip() else "{}"  # as the block has it
    return {**body, **fit}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_int=str, parse_constant=int), dict)  # "NaN" is no number of JSON
    except (ValueError, RecursionError):
        return False


# --------------------------------------------------------------------------------------------------------- Responses
def strict_items(items: Iterable[dict[str, Any]], known: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Items of the Responses API without what it refuses; an item that it does not take at all becomes a text."""
    fitting = Fitting(repair=True, known=known)
    fitted = [(item, _item(item, fitting)) for item in items]
    # With its other half: a call without a result, and a result without a call, is refused.
    told = {str(item["call_id"]) for item, sent in fitted if sent is None and "call_id" in item}
    return _once(_told(item) if sent is None or str(item.get("call_id")) in told else sent for item, sent in fitted)


def _once(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items, each id once, as the service demands: an answer may be added again when a program starts again."""
    seen: set[tuple[Any, Any]] = set()  # with the type: a result may have the id of its call
    gone = set[Any]()
    """Calls that are left out, whose second results go with them."""
    sent = []
    for item in items:
        own = item.get("type"), item.get("id")
        shape = ITEMS.by_type.get(str(own[0]))
        if str(own[0]).endswith("_output") and item.get("call_id") in gone:
            gone.discard(item.get("call_id"))
        elif own[1] is None or own not in seen:
            sent.append(item)
        elif shape is None or "id" not in shape.needed:
            sent.append({key: value for key, value in item.items() if key != "id"})
        elif item.get("call_id"):
            gone.add(item["call_id"])
        seen.add(own)
    return sent


def _told(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type")
    role = "user" if str(kind).endswith("_output") else "assistant"
    return {"role": role, "content": carried_text(item, kind)}


def _item(item: dict[str, Any], fitting: Fitting) -> dict[str, Any] | None:
    """The item as it is sent; None if the service does not take it."""
    shape = _shape(item, "OpenAI Responses")
    key = "content" if isinstance(shape, Fields) else "output"
    if shape is not ITEMS or item.get("type") in ("function_call_output", "custom_tool_call_output"):
        fields: Any = shape if isinstance(shape, Fields) else ITEMS.by_type[item["type"]]
        text_type = "output_text" if item.get("role") == "assistant" else "input_text"
        value = item.get(key)
        if isinstance(value, list | tuple):
            parts = [_part(_typed(part, text_type), fields.shapes[key], text_type, fitting) for part in value]
            item = {**item, key: parts or ""}
        elif value is None:
            item = {**item, key: ""}
    elif item.get("output") is not None:  # of a shell: read from the result's text, with its escapes
        item = {**item, "output": as_json(item["output"])}
    if item.get("type") in ("function_call", "custom_tool_call"):
        item = _fit_call(item)
    try:
        return dict(fitting.fit(item, shape, ""))
    except InvalidMessage:
        return None


def _typed(part: Any, text_type: str) -> Any:
    """A part of type "text", or one of the other side's, as a text that this side may say."""
    texts = ("text", "input_text", "output_text")
    if isinstance(part, Mapping) and part.get("type") in texts and part["type"] != text_type:
        return {"type": text_type, "text": part.get("text")}
    return part


# --------------------------------------------------------------------------------------------------------- Anthropic
_SPOKEN = Kinds({kind: shape for kind, shape in BLOCKS.by_type.items() if kind not in ("image", "document")})
"""What the assistant's messages may hold."""


def strict_anthropic(messages: Iterable[dict[str, Any]], known: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Anthropic messages without what the API refuses: also keys of replies, and texts of blanks alone."""
    fitting = Fitting(repair=True, known=known)
    sent = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            content = strict_blocks(content, fitting, _SPOKEN if message["role"] == "assistant" else BLOCKS)
        if content and (not isinstance(content, str) or content.strip()):
            sent.append({"role": message["role"], "content": content})
    return sent


def strict_blocks(blocks: Iterable[Any], fitting: Fitting, kinds: Kinds = BLOCKS) -> list[Any]:
    """Blocks of a message, or with other `kinds` of a result, that the API takes."""
    return [sent for block in blocks if (sent := _block(block, fitting, kinds)) is not None]


def _block(block: Any, fitting: Fitting, kinds: Kinds) -> Any:
    kind = block.get("type")
    if kind == "text" and not str(block.get("text")).strip():
        return None
    if kind == "tool_result" and isinstance(block.get("content"), list | tuple):
        block = {**block, "content": strict_blocks(block["content"], fitting, RESULT_BLOCKS)}
    if kind == "tool_use":
        block = _fit_call(block)
    try:
        sent: Any = fitting.fit(block, kinds, "")
        sent = image_taken(sent) if kind == "image" else sent
        return sent or {"type": "text", "text": _named(block)}
    except InvalidMessage:
        return None if kind == "thinking" else {"type": "text", "text": _named(block)}
