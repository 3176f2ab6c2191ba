"""Messages of agent-framework as messages of this library, and back.

What blocks have no field for stands under `metadata["_agent_framework"]` of message and block; it never repeats what a
block says, so a message that a compression has rewritten is written from its blocks. Contents that say nothing to a
model (`usage`) stand among them, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent_framework import Content, Message

from autocontext.formats.blocks import MEDIA, carried_text, carries, hints_of, source_of, url_of
from autocontext.formats.objects import each_of, jsonable
from autocontext.formats.openai_calls import read_function, write_function
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, thaw

_known, _remember = hints_of("_agent_framework")
_ROLES = ("system", "user", "assistant", "tool")
SILENT = ("usage",)


# --------------------------------------------------------------------------------------------------------- reading
def from_agent_framework(messages: Iterable[Message]) -> list[Msg]:
    """Messages as Msgs, one for each, with their ids where they have one. Raises InvalidMessage naming the index."""
    return [_read(message) for message in each_of(messages, Message, "agent_framework.Message")]


def _read(message: Message) -> Msg:
    role: Any = message.role if message.role in _ROLES else "user"
    content = [_read_content(c) for c in message.contents if c.type not in SILENT]
    silent = [[i, jsonable(c.to_dict())] for i, c in enumerate(message.contents) if c.type in SILENT]
    more = {k: v for k, v in message.additional_properties.items() if not k.startswith("_")}
    metadata = _remember(
        role=message.role if role != message.role else None,
        author=message.author_name,
        more=jsonable(more),
        silent=silent or None,
    )
    own = {"id": message.message_id} if message.message_id else {}
    return Msg(role=role, name=message.author_name or "", content=content, metadata=metadata, **own)


def _read_content(content: Content) -> Any:
    """A content as a block; one of a kind that has none becomes a text that names it and carries it along."""
    fields: dict[str, Any] = {k: v for k, v in jsonable(content.to_dict()).items() if v not in ({}, False, None)}
    if content.type in ("text", "text_reasoning"):
        return _read_text(content, fields)
    if content.type == "function_call":
        return _read_call(content, fields)
    if content.type == "function_result":
        items = [_read_content(item) for item in content.items or ()]
        only_text = len(items) == 1 and isinstance(items[0], TextBlock) and not items[0].metadata
        output = items[0].text if only_text else tuple(items)
        rest = _rest(fields, "call_id", "result", "items")
        failed = content.exception is not None
        return ToolResultBlock(id=content.call_id or "", output=output, is_error=failed, metadata=rest)
    block_type = MEDIA.get((content.media_type or "").partition("/")[0]) if content.type in ("data", "uri") else None
    if block_type is not None and content.uri:
        return block_type(source=source_of(content.uri), metadata=_rest(fields, "uri", kind=content.type))
    return TextBlock(text=carried_text(fields, content.type), metadata=_remember(carried=fields))


def _read_text(content: Content, fields: dict[str, Any]) -> Any:
    if content.text is None:  # reasoning that only its provider can read
        return ThinkingBlock(thinking="", metadata=_remember(carried=fields))
    if content.type == "text":
        return TextBlock(text=content.text, metadata=_rest(fields, "text"))
    return ThinkingBlock(thinking=content.text, metadata=_rest(fields, "text"))


def _read_call(content: Content, fields: dict[str, Any]) -> ToolUseBlock:
    arguments, call_id, name = content.arguments, content.call_id or "", content.name or ""
    form = {} if isinstance(arguments, Mapping) else {"nothing" if arguments is None else "text": True}
    known = _rest(fields, "call_id", "name", "arguments", **form)
    if isinstance(arguments, Mapping):
        return ToolUseBlock(id=call_id, name=name, input=jsonable(dict(arguments)), metadata=known)
    read = read_function({"name": name, "arguments": arguments or ""}, call_id)
    return read.model_copy(update={"metadata": {**read.metadata, **known}})


def _rest(fields: Mapping[str, Any], *known: str, **more: Any) -> dict[str, Any]:
    return _remember(rest={k: v for k, v in fields.items() if k not in ("type", *known)}, **more)


# --------------------------------------------------------------------------------------------------------- writing
def to_agent_framework(messages: Iterable[Msg]) -> list[Message]:
    """Msgs as Messages, one for each, with their ids. Raises InvalidMessage naming the index of what is not a Msg."""
    return [_write(msg) for msg in as_messages(messages)]


def _write(msg: Msg) -> Message:
    known = _known(msg)
    contents = [_write_block(block) for block in msg.content]
    for at, fields in known.get("silent") or ():
        contents.insert(at, Content.from_dict(thaw(fields)))
    return Message(
        known.get("role") or msg.role,
        contents,
        author_name=known.get("author"),
        message_id=msg.id,
        additional_properties=thaw(known.get("more") or {}),
    )


def _write_block(block: Any) -> Content:
    known = _known(block)
    rest = thaw(known.get("rest") or {})
    carried = known.get("carried")
    if carried is not None and carries(block, carried_text(carried, carried["type"])):
        return Content.from_dict(thaw(carried))
    if isinstance(block, TextBlock):
        return _content("text", rest, text=block.text)
    if isinstance(block, ThinkingBlock):
        return _content("text_reasoning", rest, text=block.thinking)
    if isinstance(block, ToolUseBlock):
        arguments = write_function(block)["arguments"] if known.get("text") else thaw(block.input)
        arguments = None if known.get("nothing") and not block.input else arguments
        return _content("function_call", rest, call_id=block.id, name=block.name, arguments=arguments)
    if isinstance(block, ToolResultBlock):
        parts = (TextBlock(text=block.output),) if isinstance(block.output, str) else block.output
        items = [_write_block(part).to_dict() for part in parts]
        return _content("function_result", rest, call_id=block.id, result=block.text, items=items)
    media_type = block.source.get("media_type") or f"{block.type}/*"
    kind = known.get("kind") or ("data" if block.source["type"] == "base64" else "uri")
    return _content(kind, {"media_type": media_type, **rest}, uri=url_of(block))


def _content(kind: str, rest: Mapping[str, Any], **fields: Any) -> Content:
    return Content.from_dict({**rest, **fields, "type": kind})
