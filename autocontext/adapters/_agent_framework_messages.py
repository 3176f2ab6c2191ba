"""Messages of agent-framework as messages of this library, and back.

What blocks have no field for stands under `metadata["_agent_framework"]` of message and block; it never repeats what a
block says, so a message that a compression has rewritten is written from its blocks. Contents that say nothing to a
model (`usage`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from autocontext.adapters._blocks import MEDIA, hints, jsonable, remember, source_of, url_of
from autocontext.adapters._openai_parts import read_function, write_function
from autocontext.errors import InvalidMessage, MissingExtraError
from autocontext.messages import (
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    as_messages,
    thaw,
)

try:
    from agent_framework import Content, Message
except ImportError as e:
    raise MissingExtraError("autocontext.adapters.agent_framework", "agent-framework") from e

KEY = "_agent_framework"
_known = partial(hints, KEY)
_remember = partial(remember, KEY)
_ROLES = ("system", "user", "assistant", "tool")
_SILENT = ("usage",)


# --------------------------------------------------------------------------------------------------------- reading
def from_agent_framework(messages: Iterable[Message]) -> list[Msg]:
    """Messages as Msgs, one for each, with their ids where they have one. Raises InvalidMessage naming the index."""
    found = []
    for i, given in enumerate(messages):
        if not isinstance(given, Message):
            raise InvalidMessage(f"messages[{i}] is a {type(given).__name__}, not an agent_framework.Message")
        found.append(_read(given))
    return found


def _read(given: Message) -> Msg:
    role: Any = given.role if given.role in _ROLES else "user"
    content = [_read_content(c) for c in given.contents if c.type not in _SILENT]
    more = {k: v for k, v in given.additional_properties.items() if not k.startswith("_")}
    metadata = _remember(role=given.role if role != given.role else None, author=given.author_name, more=jsonable(more))
    own = {"id": given.message_id} if given.message_id else {}
    return Msg(role=role, name=given.author_name or "", content=content, metadata=metadata, **own)


def _read_content(content: Content) -> Any:
    """A content as a block; one of a kind that has none becomes a text that names it and carries it along."""
    found: dict[str, Any] = {k: v for k, v in jsonable(content.to_dict()).items() if v not in ({}, False, None)}
    if content.type == "text":
        return TextBlock(text=content.text or "", metadata=_rest(found, "text"))
    if content.type == "text_reasoning":
        return ThinkingBlock(thinking=content.text or "", metadata=_rest(found, "text"))
    if content.type == "function_call":
        return _read_call(content, found)
    if content.type == "function_result":
        items = [_read_content(item) for item in content.items or ()]
        only_text = len(items) == 1 and isinstance(items[0], TextBlock) and not items[0].metadata
        output = items[0].text if only_text else tuple(items)
        rest = _rest(found, "call_id", "result", "items")
        failed = content.exception is not None
        return ToolResultBlock(id=content.call_id or "", output=output, is_error=failed, metadata=rest)
    made = MEDIA.get((content.media_type or "").partition("/")[0]) if content.type in ("data", "uri") else None
    if made is not None and content.uri:
        return made(source=source_of(content.uri), metadata=_rest(found, "uri", keep=content.type))
    return TextBlock(text=f"[{content.type}]", metadata=_remember(carried=found))


def _read_call(content: Content, found: dict[str, Any]) -> ToolUseBlock:
    rest = _rest(found, "call_id", "name", "arguments")
    given = content.arguments
    if isinstance(given, Mapping):
        value = jsonable(dict(given))
        return ToolUseBlock(id=content.call_id or "", name=content.name or "", input=value, metadata=rest)
    body = {"name": content.name or "", "arguments": given or ""}
    read = read_function(body, "function_call", content.call_id or "")
    return ToolUseBlock(**{**dict(read), "metadata": {**read.metadata, **rest, **_remember_text(rest)}})


def _remember_text(rest: Mapping[str, Any]) -> dict[str, Any]:
    """That the arguments came as a text."""
    return {KEY: {**rest.get(KEY, {}), "text": True}}


def _rest(found: Mapping[str, Any], *fields: str, keep: str | None = None) -> dict[str, Any]:
    return _remember(rest={k: v for k, v in found.items() if k not in ("type", *fields)}, kind=keep)


# --------------------------------------------------------------------------------------------------------- writing
def to_agent_framework(messages: Iterable[Msg]) -> list[Message]:
    """Msgs as Messages, one for each, with their ids. Raises InvalidMessage naming the index of what is not a Msg."""
    return [_write(msg) for msg in as_messages(messages)]


def _write(msg: Msg) -> Message:
    known = _known(msg)
    return Message(
        known.get("role") or msg.role,
        [_write_block(block) for block in msg.content],
        author_name=known.get("author"),
        message_id=msg.id,
        additional_properties=thaw(known.get("more") or {}),
    )


def _write_block(block: Any) -> Content:
    known = _known(block)
    rest = thaw(known.get("rest") or {})
    if isinstance(block, TextBlock):
        return Content.from_dict(thaw(known["carried"]) if "carried" in known else _of("text", rest, text=block.text))
    if isinstance(block, ThinkingBlock):
        return Content.from_dict(_of("text_reasoning", rest, text=block.thinking))
    if isinstance(block, ToolUseBlock):
        arguments = write_function(block)["arguments"] if known.get("text") else thaw(block.input)
        return Content.from_dict(_of("function_call", rest, call_id=block.id, name=block.name, arguments=arguments))
    if isinstance(block, ToolResultBlock):
        parts = (TextBlock(text=block.output),) if isinstance(block.output, str) else block.output
        items = [_write_block(part).to_dict() for part in parts]
        return Content.from_dict(_of("function_result", rest, call_id=block.id, result=block.text, items=items))
    source = block.source
    media_type = source.get("media_type") or f"{block.type}/*"
    kind = known.get("kind") or ("data" if source["type"] == "base64" else "uri")
    return Content.from_dict({"media_type": media_type, **_of(kind, rest, uri=url_of(block))})


def _of(kind: str, rest: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {**rest, **fields, "type": kind}
