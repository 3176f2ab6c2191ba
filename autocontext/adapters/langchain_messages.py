"""LangChain messages as messages of this library, and back, without loss.

`to_langchain(from_langchain(x)) == x` for what JSON can hold. What blocks have no field for stands under
`metadata["_langchain"]` of message and block; it never repeats what a block says, so a message that a compression has
rewritten is written from its blocks. Content parts are read as OpenAI's where they have that form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autocontext.errors import InvalidMessage, needs_extra
from autocontext.formats.blocks import MEDIA, carried_text, carries, hints_of
from autocontext.formats.compactions import compaction_block
from autocontext.formats.objects import jsonable, read_at
from autocontext.formats.openai_calls import read_function, write_function
from autocontext.formats.openai_parts import is_plain, read_part, stand_in, write_part
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, freeze, thaw

with needs_extra("autocontext.adapters.langchain", "langchain"):
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        BaseMessageChunk,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        message_chunk_to_message,
    )

_known, _keep = hints_of("_langchain")
_ROLES: dict[type[BaseMessage], str] = {
    HumanMessage: "user",
    AIMessage: "assistant",
    SystemMessage: "system",
    ToolMessage: "tool",
    FunctionMessage: "user",
    ChatMessage: "user",
}
_SPOKEN_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "system": "system"}
_FIELDS = ("content", "type", "id", "tool_calls", "invalid_tool_calls", "tool_call_id", "status")
"""Fields that blocks and the message itself stand for."""
_CALL_PARTS = ("tool_use", "tool_call")


# --------------------------------------------------------------------------------------------------------- reading
def from_langchain(messages: Iterable[BaseMessage]) -> list[Msg]:
    """LangChain messages as Msgs, one for each, with their ids. Raises InvalidMessage naming the index."""
    msgs = []
    for i, original in enumerate(messages):
        message = message_chunk_to_message(original) if isinstance(original, BaseMessageChunk) else original
        if not isinstance(message, tuple(_ROLES)):
            raise InvalidMessage(f"messages[{i}]: a {type(original).__name__} is no message of a conversation")
        msgs.append(read_at(f"messages[{i}]", _read, message))
    return msgs


def _read(message: BaseMessage) -> Msg:
    role = next(role for kind, role in _ROLES.items() if isinstance(message, kind))
    if isinstance(message, ChatMessage):
        role = _SPOKEN_ROLES.get(message.role, "user")
    rest = _rest(message)
    shape = None if isinstance(message.content, str) else "parts"
    if isinstance(message, ToolMessage):
        output: Any = message.content if shape is None else tuple(map(_read_part, _parts(message.content)))
        error = message.status == "error"
        known = _remember(content=shape, rest=rest)
        name = str(message.name or "")
        block = ToolResultBlock(id=message.tool_call_id, name=name, output=output, is_error=error, metadata=known)
        return _msg(message, role=role, content=(block,))
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    blocks: list[Any] = []
    for part in _parts(message.content):
        # A part that says what the next call says, as Anthropic's do, is that call.
        if calls and part.get("type") in _CALL_PARTS and part.get("id") == calls[0]["id"]:
            blocks.append(_read_call(calls.pop(0), part))
        else:
            blocks.append(_read_part(part))
    blocks.extend(map(_read_call, calls))
    kind = message.type if isinstance(message, ChatMessage | FunctionMessage) else None
    return _msg(message, role=role, content=blocks, metadata=_remember(content=shape, kind=kind, rest=rest))


def _msg(message: BaseMessage, **fields: Any) -> Msg:
    return Msg(**fields, id=message.id) if message.id else Msg(**fields)


def _rest(message: BaseMessage) -> dict[str, Any]:
    """The fields that are set and that nothing else stands for, as JSON."""
    fields = {key: field for key, field in type(message).model_fields.items() if key not in _FIELDS}
    defaults = {key: field.get_default(call_default_factory=True) for key, field in fields.items()}
    values = ((key, getattr(message, key)) for key in fields)
    # A tool's artifact may be any object: the state keeps it, the memory what can be said of it.
    return {key: _jsonable(value) for key, value in values if value is not None and value != defaults[key]}


def _parts(content: str | Sequence[Any]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [{"type": "text", "text": part, "_bare": True} if isinstance(part, str) else part for part in content]


def _read_part(part: Mapping[str, Any]) -> Any:
    """A content part as a block; forms that no block has are carried along as they are."""
    kind = part.get("type")
    if kind == "thinking" and isinstance(part.get("thinking"), str):
        rest = {k: v for k, v in part.items() if k not in ("type", "thinking")}
        return ThinkingBlock(thinking=part["thinking"], metadata=_remember(part=rest, own=True))
    if kind == "reasoning":
        return ThinkingBlock(thinking=_reasoning(part), metadata=_remember(carried=_jsonable(part), own=True))
    if kind == "compaction":
        return compaction_block(part, _remember(carried=_jsonable(part)))
    block_type = MEDIA.get(str(kind))
    if block_type is not None and (source := _standard_source(part)) is not None:
        named = ("type", "base64", "mime_type") if source["type"] == "base64" else ("type", "url")
        rest = {k: v for k, v in part.items() if k not in named}
        return block_type(source=source, metadata=_remember(part=rest, own=True))
    if not isinstance(kind, str):
        return TextBlock(text=_text_of(_jsonable(part)), metadata=_remember(carried=dict(part)))
    return read_part(_jsonable(part))


def _text_of(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return carried_text(part, kind if isinstance(kind, str) else "content")


def _reasoning(part: Mapping[str, Any]) -> str:
    """What LangChain's own part says, or one of the Responses API."""
    summary = part.get("summary")
    texts = [s.get("text") for s in summary if isinstance(s, Mapping)] if isinstance(summary, list) else []
    return "\n".join(text for text in (part.get("reasoning"), *texts) if isinstance(text, str))


def _standard_source(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The source of one of LangChain's own media parts, where a block has a form for it."""
    if isinstance(part.get("base64"), str) and isinstance(part.get("mime_type"), str):
        return {"type": "base64", "media_type": part["mime_type"], "data": part["base64"]}
    if isinstance(part.get("url"), str) and "mime_type" not in part:
        return {"type": "url", "url": part["url"]}
    return None


def _read_call(call: Mapping[str, Any], part: Mapping[str, Any] | None = None) -> ToolUseBlock:
    hints: dict[str, Any] = {"unnumbered": call["id"] is None}
    if call.get("type") == "invalid_tool_call":  # its arguments are a text that is no object
        function = {"name": call["name"] or "", "arguments": call["args"] or ""}
        read = read_function(function, call["id"] or "")
        hints["invalid"] = {k: v for k, v in call.items() if k != "id" and (k not in ("name", "args") or v is None)}
    else:
        read = ToolUseBlock(id=call["id"] or "", name=call["name"], input=_jsonable(call["args"]))
    if part is not None:
        same = next((key for key in ("input", "args") if part.get(key) == read.input), None)
        hints |= {"part": {k: v for k, v in part.items() if k not in ("id", same)}, "input": same}
    return read.model_copy(update={"metadata": {**read.metadata, **_remember(**hints)}})


def _jsonable(value: Any) -> Any:
    try:
        return thaw(freeze(value))
    except ValueError:
        return jsonable(value)


def _remember(**values: Any) -> dict[str, Any]:
    return _keep(**{k: _jsonable(v) for k, v in values.items()})


# --------------------------------------------------------------------------------------------------------- writing
def to_langchain(messages: Iterable[Msg]) -> list[BaseMessage]:
    """Msgs as LangChain messages; each tool result becomes a message of its own.

    Thinking that did not come from LangChain stays out. Raises InvalidMessage naming the index of what is not a Msg.
    """
    written: list[BaseMessage] = []
    for msg in as_messages(messages):
        results = msg.tool_results
        written.extend(_write_result(msg, block, i) for i, block in enumerate(results))
        if len(results) < len(msg.content) or not results:
            written.append(_write(msg))
    return written


def _write(msg: Msg) -> BaseMessage:
    known = _known(msg)
    rest = thaw(known.get("rest") or {})
    blocks = [b for b in msg.content if not isinstance(b, ToolResultBlock)]
    content = _write_content(blocks, known.get("content"), role=msg.role)
    if msg.role == "assistant" and not known.get("kind"):
        uses = [b for b in blocks if isinstance(b, ToolUseBlock)]
        calls = [_write_call(b) for b in uses if "invalid" not in _known(b)]
        invalid = [_write_invalid(b) for b in uses if "invalid" in _known(b)]
        # Sessions of earlier versions have the invalid calls in `rest`.
        return AIMessage(content=content, id=msg.id, tool_calls=calls, **{"invalid_tool_calls": invalid, **rest})
    plain = SystemMessage if msg.role == "system" else HumanMessage
    kind: Any = {"chat": ChatMessage, "function": FunctionMessage}.get(str(known.get("kind")), plain)
    return kind(content=content, id=msg.id, **rest)


def _write_result(msg: Msg, block: ToolResultBlock, index: int) -> ToolMessage:
    known = _known(block)
    rest = thaw(known.get("rest") or {})
    output = (TextBlock(text=block.output),) if isinstance(block.output, str) and block.output else block.output
    content = _write_content([b for b in output if not isinstance(b, str)], known.get("content"), role="tool")
    if block.name and "name" not in rest:
        rest["name"] = block.name
    own = msg.id if not index else f"{msg.id}.{index}"
    status = "error" if block.is_error else "success"
    return ToolMessage(content=content, id=own, tool_call_id=block.id, status=status, **rest)


def _write_content(blocks: Sequence[Any], shape: Any, *, role: str) -> Any:
    """The content: in parts where it came in parts, or where a text cannot hold it."""
    shown = [b for b in blocks if not isinstance(b, ThinkingBlock | ToolUseBlock) or {"part", "own"} & _known(b).keys()]
    if shape == "parts" or not all(is_plain(b) and not _known(b) for b in shown):
        if role == "assistant" and shape != "parts":
            return "\n".join(map(stand_in, (b for b in shown if not isinstance(b, ThinkingBlock | ToolUseBlock))))
        return [_write_part(b) for b in shown]
    return "\n".join(b.text for b in shown)


def _write_part(block: Any) -> Any:
    known = _known(block)
    rest = thaw(known.get("part") or {})
    if isinstance(block, ToolUseBlock):
        return {**rest, "id": _call_id(block), **({known["input"]: thaw(block.input)} if "input" in known else {})}
    if "carried" in known and carries(block, _text_of(known["carried"])):
        return thaw(known["carried"])
    if isinstance(block, ThinkingBlock):
        return {"type": "thinking", "thinking": block.thinking, **rest}
    if known.get("own"):
        source = block.source
        data = {"base64": source.get("data"), "mime_type": source.get("media_type")}
        return {"type": block.type, **({"url": source["url"]} if source["type"] == "url" else data), **rest}
    part = write_part(block)
    return part["text"] if part.pop("_bare", False) else part


def _write_call(block: ToolUseBlock) -> dict[str, Any]:
    return {"name": block.name, "args": thaw(block.input), "id": _call_id(block), "type": "tool_call"}


def _write_invalid(block: ToolUseBlock) -> dict[str, Any]:
    args = write_function(block)["arguments"]
    return {"name": block.name, "args": args, "id": _call_id(block), **thaw(_known(block)["invalid"])}


def _call_id(block: ToolUseBlock) -> str | None:
    """A call's id; None for one that came without any."""
    return None if _known(block).get("unnumbered") else block.id
