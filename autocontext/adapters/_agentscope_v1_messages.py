"""Messages of AgentScope 1 as messages of this library, and back, without loss.

What blocks have no field for stands under `metadata["_agentscope"]` of message and block; it never repeats what a block
says, so a message that a compression has rewritten is written from its blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentscope.message import Msg as AgentScopeMsg

from autocontext.formats.blocks import MEDIA, carried_text, carries, hints_of
from autocontext.formats.objects import each_of, jsonable
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, thaw

KEY = "_agentscope"
HINT = "hint"
"""The mark of messages that the agent adds for one call of the model: they are shown, and not remembered."""
_known, _remember = hints_of(KEY)


# --------------------------------------------------------------------------------------------------------- reading
def from_agentscope(messages: Iterable[AgentScopeMsg], *, marks: Sequence[str] = ()) -> list[Msg]:
    """AgentScope messages as Msgs, one for each, with their ids; `marks` are noted in their metadata.

    A tool's result, a system message there, is a tool message here. Raises InvalidMessage naming the index.
    """
    return [_read(message, marks) for message in each_of(messages, AgentScopeMsg, "agentscope.message.Msg")]


def _read(message: AgentScopeMsg, marks: Sequence[str]) -> Msg:
    text = isinstance(message.content, str)
    blocks = [{"type": "text", "text": message.content}] if text else message.content or []
    content = [_read_block(jsonable(block)) for block in blocks]
    role: Any = "tool" if message.role == "system" and any(b.type == "tool_result" for b in content) else message.role
    invocation = getattr(message, "invocation_id", None)
    known = _remember(text=text, invocation=invocation, marks=list(marks) or None)
    return Msg(
        id=message.id,
        role=role,
        name=message.name or "",
        content=content,
        timestamp=message.timestamp or "",
        metadata={**jsonable(message.metadata or {}), **known},
    )


def _read_block(block: Any) -> Any:
    """A block dict as a block; a kind that has none here becomes a text that names it and carries it along."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return TextBlock(text=block["text"], metadata=_rest(block, "text"))
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        return ThinkingBlock(thinking=block["thinking"], metadata=_rest(block, "thinking"))
    if kind == "tool_use" and isinstance(block.get("id"), str) and isinstance(block.get("name"), str):
        value = block.get("input")
        arguments = value if isinstance(value, dict) else {}
        rest = _rest(block, "id", "name", *(["input"] if arguments is value else []))
        return ToolUseBlock(id=block["id"], name=block["name"], input=arguments, metadata=rest)
    if kind == "tool_result" and isinstance(block.get("id"), str):
        output = block.get("output")
        read = output if isinstance(output, str) else tuple(_read_block(part) for part in output or ())
        known = _rest(block, "id", "name", "output")
        return ToolResultBlock(id=block["id"], name=block.get("name") or "", output=read, metadata=known)
    block_type = MEDIA.get(str(kind))
    if block_type is not None and isinstance(block.get("source"), dict):
        return block_type(source=block["source"], metadata=_rest(block, "source"))
    return TextBlock(text=_text_of(block), metadata=_remember(carried=block))


def _text_of(block: Any) -> str:
    """What a block that is carried along reads like."""
    return carried_text(block, block.get("type") or "content") if isinstance(block, Mapping) else f"[content]\n{block}"


def _rest(block: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return _remember(rest={k: v for k, v in block.items() if k != "type" and k not in fields})


# --------------------------------------------------------------------------------------------------------- writing
def to_agentscope(messages: Iterable[Msg]) -> list[AgentScopeMsg]:
    """Msgs as AgentScope messages, one for each, with their ids. Raises InvalidMessage naming the index."""
    return [_write(msg) for msg in as_messages(messages)]


def _write(msg: Msg) -> AgentScopeMsg:
    known = _known(msg)
    plain = known.get("text") and len(msg.content) == 1 and isinstance(msg.content[0], TextBlock)
    content: Any = msg.text if plain else [_write_block(block) for block in msg.content]
    role: Any = "system" if msg.role == "tool" else msg.role
    name = "system" if msg.name == "tool" else msg.name
    metadata = {k: thaw(v) for k, v in msg.metadata.items() if k != KEY}
    written = AgentScopeMsg(name, content, role, metadata=metadata, timestamp=msg.timestamp or None)
    written.id = msg.id
    if "invocation" in known:
        written.invocation_id = known["invocation"]
    return written


def _write_block(block: Any) -> dict[str, Any]:
    known = _known(block)
    rest = thaw(known.get("rest") or {})
    if "carried" in known and carries(block, _text_of(known["carried"])):
        carried: dict[str, Any] = thaw(known["carried"])
        return carried
    if isinstance(block, TextBlock | ThinkingBlock):
        return {"type": block.type, block.type: getattr(block, block.type), **rest}
    if isinstance(block, ToolUseBlock):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": thaw(block.input), **rest}
    if isinstance(block, ToolResultBlock):
        # Always blocks: some of its formatters take nothing else.
        output = block.output if isinstance(block.output, str) else [_write_block(part) for part in block.output]
        return {"type": "tool_result", "id": block.id, "name": block.name, "output": output, **rest}
    return {"type": block.type, "source": thaw(block.source), **rest}


# ----------------------------------------------------------------------------------------------------------- marks
def marks_of(msg: Msg) -> list[str]:
    """The marks that a message was added with."""
    return list(_known(msg).get("marks") or ())
