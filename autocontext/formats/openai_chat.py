"""OpenAI chat messages (lists of dicts) as messages of this library, and back, without loss.

`to_openai(from_openai(x)) == x` for every list that the chat completions API accepts: unknown keys, absent and null
keys, texts and lists of parts, the exact text of tool arguments. What blocks have no field for stands under
`metadata["_openai"]`; a plain message has no metadata. A message that a compression has rewritten is written from its
blocks. The format is that of https://platform.openai.com/docs/api-reference/chat, with the keys that compatible
services add (`reasoning_content`, `video_url`, ...).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats.blocks import Media
from autocontext.formats.call_ids import named_results
from autocontext.formats.objects import kind_of, object_at, put_back, read_all, read_at, read_each, rest, text_at
from autocontext.formats.openai_calls import read_call, read_function, write_call, write_function
from autocontext.formats.openai_parts import Part, hints, is_plain, read_part, remember, stand_in, write_part
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, is_rewritten

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the API takes as `name`; it answers 400 to any other."""
_REASONING = ("reasoning_content", "reasoning")
_ABOUT_THE_TEXT = ("audio", "annotations")
"""Keys about the exact words of the model: wrong next to a text that a compression has replaced."""


# --------------------------------------------------------------------------------------------------------- reading
def from_openai(messages: Iterable[Mapping[str, Any] | BaseModel]) -> list[Msg]:
    """OpenAI chat messages as Msgs, one for each.

    A dict's own `id` becomes the message's id, otherwise it gets a new one. The SDK's message objects work too.
    `developer` becomes role system, `function` role tool; tool results get the name of the tool they answer. Raises
    InvalidMessage naming index and key, as in "messages[3].role: ...".
    """
    return named_results(read_all(messages, "messages", _read), {})


def _read(message: Mapping[str, Any]) -> Msg:
    role = message.get("role")
    if role not in _ROLES:
        problem = f"must be one of {', '.join(_ROLES)}, not {role!r}" if "role" in message else "is missing"
        raise InvalidMessage(f"role: {problem}")
    if role in ("tool", "function"):
        return _msg(message, role="tool", content=(_read_result(message),))
    content, shape = _read_content(message)
    before, after, used = _read_assistant(message) if role == "assistant" else ([], [], set[str]())
    if shape == "null" and any(isinstance(b, ToolUseBlock) for b in after):
        shape = None  # what a message with calls and no text has anyway
    own = "system" if role == "developer" else role
    if name := _name_in(message):
        used.add("name")
    metadata = remember(
        role="developer" if role == "developer" else None,
        content=shape,
        named=name != "" and not _sendable(name, own),
        extra=rest(message, {"role", "content", *used}),
    )
    return _msg(message, role=own, name=name, content=(*before, *content, *after), metadata=metadata)


def _name_in(message: Mapping[str, Any]) -> str:
    name = message.get("name")
    return name if isinstance(name, str) else ""


def _msg(message: Mapping[str, Any], **fields: Any) -> Msg:
    own = message.get("id")
    if isinstance(own, str) and own and own.isprintable():
        fields["id"] = own
    return Msg(**fields)


def _read_content(message: Mapping[str, Any]) -> tuple[tuple[Part, ...], str | None]:
    """The blocks of `content`, and its shape where the blocks do not tell it."""
    content = message.get("content")
    if isinstance(content, str):
        return (TextBlock(text=content),), None
    if content is None:
        return (), "null" if "content" in message else "missing"
    if not isinstance(content, list | tuple):
        raise InvalidMessage(f"content: must be a string, a list of parts or null, not {kind_of(content)}")
    return tuple(read_each(content, "content", read_part)), "parts" if content else "empty"


def _read_assistant(message: Mapping[str, Any]) -> tuple[list[Any], list[Any], set[str]]:
    """The blocks that stand before and after an assistant's content, and the keys they were read from."""
    used = {key for key in (*_REASONING, "refusal") if isinstance(message.get(key), str)}
    before = [ThinkingBlock(thinking=message[k], metadata=remember(key=k)) for k in _REASONING if k in used]
    after: list[Any] = []
    if "refusal" in used:
        after.append(TextBlock(text=message["refusal"], metadata=remember(key="refusal")))
    if not (isinstance(said := message.get("content"), list | tuple) or str(said or "").strip()):
        after += _read_shown(message)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list | tuple):
        raise InvalidMessage(f"tool_calls: must be a list or null, not {kind_of(calls)}")
    if calls:
        used.add("tool_calls")
        after.extend(read_each(calls, "tool_calls", read_call))
    if message.get("function_call") is not None:
        used.add("function_call")
        after.append(read_at("function_call", _read_legacy_call, object_at(message, "function_call")))
    return before, after, used


def _read_shown(message: Mapping[str, Any]) -> Iterator[TextBlock]:
    """What an answer without a text says: the words of its sound, or a line in the place of its images."""
    audio, images = message.get("audio"), message.get("images")
    if audio and isinstance(audio, Mapping):
        yield TextBlock(text=str(audio.get("transcript") or "[audio]"), metadata=remember(key="audio"))
    if images and isinstance(images, list | tuple):
        yield TextBlock(text=" ".join(["[image]"] * len(images)), metadata=remember(key="images"))


def _read_legacy_call(body: Mapping[str, Any]) -> ToolUseBlock:
    return read_function(body, legacy_id(text_at(body, "name")), legacy=True)


def legacy_id(name: str) -> str:
    """The id of a call from before tool ids: answered by name, so that its result may stand anywhere in a history."""
    return f"function:{name}"


def _read_result(message: Mapping[str, Any]) -> ToolResultBlock:
    legacy = message["role"] == "function"
    call_id = legacy_id(text_at(message, "name")) if legacy else text_at(message, "tool_call_id")
    name = _name_in(message)
    known = {"role", "content", "tool_call_id"} if not legacy else {"role", "content"}
    if name or legacy:
        known.add("name")
    content = message.get("content")
    blocks, shape = ((), None) if isinstance(content, str) else _read_content(message)
    output = content if isinstance(content, str) else blocks if shape in ("parts", "empty") else ""
    metadata = remember(legacy=legacy, named=name != "" and not legacy, content=shape, extra=rest(message, known))
    return ToolResultBlock(id=call_id, name=name, output=output, metadata=metadata)


# --------------------------------------------------------------------------------------------------------- writing
def to_openai(messages: Iterable[Msg]) -> list[dict[str, Any]]:
    """Msgs as OpenAI chat messages.

    Every tool result becomes a message of its own. `name` is sent where the API takes it: not on tool results, and
    only if it says more than the role. Thinking stays out, except what `from_openai` has read from a
    `reasoning_content`; so does an assistant message that holds nothing else. Images in a tool result, which the API
    refuses there, follow the results in a user message. Several text blocks become one text, joined as in `Msg.text`.
    `is_error` has no counterpart. Raises InvalidMessage naming the index of what is not a Msg.
    """
    return write_chat(messages, media_after=False)


def write_chat(messages: Iterable[Msg], *, media_after: bool) -> list[dict[str, Any]]:
    """`to_openai`; with `media_after` images follow the results also where they came as parts of one."""
    written: list[dict[str, Any]] = []
    media: list[dict[str, Any]] = []
    for msg in as_messages(messages):
        for message, shown in _write(msg, media_after=media_after):
            if media and message["role"] not in ("tool", "function"):
                written.append({"role": "user", "content": media})
                media = []
            written.append(message)
            media = media + shown
    return [*written, {"role": "user", "content": media}] if media else written


def _write(msg: Msg, *, media_after: bool) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The dicts that stand for one Msg, each with the parts that must be shown after the results."""
    spoken = _write_spoken(msg)
    said = [] if spoken is None else [(spoken, list[dict[str, Any]]())]
    results = [_write_result(block, media_after=media_after) for block in msg.tool_results]
    return [*said, *results] if msg.tool_uses else [*results, *said]


def _write_spoken(msg: Msg) -> dict[str, Any] | None:
    """What a Msg says apart from its tool results; None when that is nothing."""
    known = hints(msg)
    blocks = [b for b in msg.content if not isinstance(b, ToolResultBlock)]
    role = "assistant" if msg.tool_uses else "user" if msg.role == "tool" else msg.role
    remembered = put_back({}, known.get("extra"), _ABOUT_THE_TEXT if is_rewritten(msg) else ())
    keyed, others = _split(blocks, role, remembered)
    content = _write_content(others, role, known.get("content"), calls=bool(msg.tool_uses))
    message: dict[str, Any] = {"role": "developer" if known.get("role") == "developer" and role == "system" else role}
    message |= content | keyed | _write_calls(msg.tool_uses)
    if known.get("named") or (msg.role == role and _sendable(msg.name, role)):
        message["name"] = msg.name
    silent = not (others or keyed or msg.tool_uses or remembered or known.get("content"))
    if silent and (role == "assistant" or msg.role == "tool" or msg.tool_results):
        return None  # services refuse an empty message, and nothing is lost with it
    return put_back(message, remembered)


def _split(blocks: Sequence[Any], role: str, remembered: Collection[str]) -> tuple[dict[str, str], list[Part]]:
    """Texts that have a key of their own in an assistant's message, and the blocks of its content.

    Those that say what one of the `remembered` keys holds are neither.
    """
    keyed: dict[str, list[str]] = {}
    parts: list[Part] = []
    for block in blocks:
        key = hints(block).get("key") if role == "assistant" else None
        if isinstance(block, ThinkingBlock) and key in _REASONING:
            keyed.setdefault(key, []).append(block.thinking)
        elif isinstance(block, TextBlock) and key == "refusal":
            keyed.setdefault(key, []).append(block.text)
        elif isinstance(block, TextBlock | Media) and key not in remembered:
            parts.append(block)
    return {key: "\n".join(texts) for key, texts in keyed.items()}, parts


def _write_calls(uses: Iterable[ToolUseBlock]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for use in uses:
        if hints(use).get("legacy") and "function_call" not in written:
            written["function_call"] = write_function(use)
        else:
            written.setdefault("tool_calls", []).append(write_call(use))
    return written


def _write_content(parts: Sequence[Part], role: str, shape: Any, *, calls: bool) -> dict[str, Any]:
    """The key `content`, or nothing: in the remembered shape as long as that can hold these blocks."""
    if not parts and shape in ("missing", "null", "empty"):
        return {} if shape == "missing" else {"content": None if shape == "null" else []}
    if not parts:
        return {"content": None if calls else ""}
    if shape == "parts" or (role == "user" and not all(map(is_plain, parts))):
        return {"content": [write_part(p) for p in parts]}
    return {"content": "\n".join(map(stand_in, parts))}


def _write_result(block: ToolResultBlock, *, media_after: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    known = hints(block)
    message = {"role": "tool", "tool_call_id": block.id}
    if known.get("legacy"):
        message = {"role": "function", "name": block.name}
    elif known.get("named"):
        message["name"] = block.name
    output: Sequence[Any] = (TextBlock(text=block.output),) if isinstance(block.output, str) else block.output
    parts = [b for b in output if not isinstance(b, ThinkingBlock)]
    media = [b for b in parts if not isinstance(b, TextBlock)]
    shape = None if media and media_after else known.get("content")
    if not block.output and shape != "parts":
        parts = []
    media = [] if shape == "parts" else media
    if media and block.text:  # the text stays as it is, only a result without any is named
        parts = [b for b in parts if isinstance(b, TextBlock)]
    content = _write_content(parts, "tool", shape, calls=False)
    title = {"type": "text", "text": f"From the result of tool call {block.id}:"}
    shown = [title, *map(write_part, media)] if media else []
    return put_back({**message, **content}, known.get("extra")), shown


def _sendable(name: str, role: str) -> bool:
    return name != role and _NAME.fullmatch(name) is not None
