"""Anthropic messages (lists of dicts) as messages of this library, and back, without loss.

`to_anthropic(from_anthropic(x)) == x` for lists as the Messages API takes and gives them. The system prompt, which
Anthropic's API takes apart from the messages, becomes a system message: `request(messages)` gives both, as
`client.messages.create(**request(messages), ...)` wants them. What blocks have no field for stands under
`metadata["_anthropic"]` of a block or message. The format is that of https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats.anthropic_rules import EMPTY, blocks_of, keep_marks, results_first, user_first
from autocontext.formats.blocks import carried_text, carries, file_mark, hints, hints_of
from autocontext.formats.call_ids import named_results, with_own_ids
from autocontext.formats.compactions import block_first, compaction_block
from autocontext.formats.objects import kind_of, put_back, read_all, read_at, read_each, rest, text_at
from autocontext.formats.openai_parts import stand_in
from autocontext.formats.strict import allowed, strict_anthropic
from autocontext.messages import (
    ANTHROPIC_HINTS,
    WIRE_HINTS,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    as_messages,
    is_rewritten,
    thaw,
)

_known, _remember = hints_of(ANTHROPIC_HINTS)
_ABOUT_THE_TEXT = ("citations",)
"""Keys about the exact words of a text: wrong next to a text that a compression has replaced."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MARKS = 3
"""Cache marks of the messages and the system prompt together: the API takes four, and one is left for the tools."""


# --------------------------------------------------------------------------------------------------------- reading
def from_anthropic(
    messages: Iterable[Mapping[str, Any] | BaseModel], system: str | Sequence[Mapping[str, Any]] | None = None
) -> list[Msg]:
    """Anthropic messages as Msgs, one for each; with `system` a system message stands first.

    The SDK's `Message` is taken too. Tool results get the name of the tool they answer. Raises InvalidMessage naming
    index and key, as in "messages[3].content[0].type: ...".
    """
    first = [] if system is None else [read_at("system", _read, {"role": "system", "content": system})]
    return [*first, *named_results(read_all(messages, "messages", _read_turn), {})]


def _read_turn(message: Mapping[str, Any]) -> Msg:
    if message.get("role") not in ("user", "assistant"):
        raise InvalidMessage(f"role: must be user or assistant, not {message.get('role')!r}")
    return _read(message)


def _read(message: Mapping[str, Any]) -> Msg:
    blocks, shape = _read_content(message.get("content"))
    known = _remember(content=shape, rest=rest(message, ("role", "content")))
    own = message.get("id")
    fields: dict[str, Any] = {"id": own} if isinstance(own, str) and own else {}
    # Results stand in the user's messages here; elsewhere a message of results alone is the tool's.
    results = bool(blocks) and all(isinstance(b, ToolResultBlock) for b in blocks)
    return Msg(role="tool" if results else message["role"], content=blocks, metadata=known, **fields)


def _read_content(content: Any) -> tuple[list[Any], str | None]:
    if isinstance(content, str):
        return [TextBlock(text=content, metadata=_remember(empty=content == "" or None))], None
    if not isinstance(content, list | tuple):
        raise InvalidMessage(f"content: must be a string or a list of blocks, not {kind_of(content)}")
    return read_each(content, "content", _read_block), "blocks"


def _read_block(block: Mapping[str, Any]) -> Any:
    kind = text_at(block, "type")
    if kind == "text":
        text, more = text_at(block, "text"), rest(block, ("type", "text"))
        return TextBlock(text=text, metadata=_remember(empty=not text or None, rest=more))
    if kind == "thinking":
        known = _remember(own=True, rest=rest(block, ("type", "thinking")))
        return ThinkingBlock(thinking=text_at(block, "thinking"), metadata=known)
    if kind == "tool_use" and isinstance(block.get("input"), Mapping):
        known = _remember(rest=rest(block, ("type", "id", "name", "input")))
        value = read_at("input", rest, block["input"], ())
        return ToolUseBlock(id=text_at(block, "id"), name=text_at(block, "name"), input=value, metadata=known)
    if kind == "tool_result":
        return _read_result(block)
    if kind == "image" and (source := _source(block.get("source"))) is not None:
        inner = read_at("source", rest, block["source"], ("type", "url", "media_type", "data"))
        return ImageBlock(source=source, metadata=_remember(inner=inner, rest=rest(block, ("type", "source"))))
    return _carried(block, kind)


def _carried(block: Mapping[str, Any], kind: str) -> Any:
    """A block of a kind that this library has none for, as it is."""
    whole = _remember(whole=rest(block, ()))
    if kind == "compaction":
        return compaction_block(block, whole)
    if kind == "redacted_thinking":
        return ThinkingBlock(thinking="", metadata=whole)
    return TextBlock(text=_text_of(block), metadata=whole | file_mark(block, block.get("title")))


def _text_of(block: Mapping[str, Any]) -> str:
    return carried_text(block, block.get("type"), block.get("title"))


def _source(source: Any) -> dict[str, Any] | None:
    """The source of an image, where a block has a form for it."""
    kind = source.get("type") if isinstance(source, Mapping) else None
    keys = {"url": ("url",), "base64": ("media_type", "data")}.get(str(kind))
    if keys is None or not all(isinstance(source.get(key), str) for key in keys):
        return None
    return {"type": kind, **{key: source[key] for key in keys}}


def _read_result(block: Mapping[str, Any]) -> ToolResultBlock:
    call_id = text_at(block, "tool_use_id")
    shape: str | None = "missing"
    output: Any = ""
    if "content" in block:
        blocks, shape = _read_content(block["content"])
        output = block["content"] if shape is None else tuple(b for b in blocks if not isinstance(b, ToolUseBlock))
    is_error = block.get("is_error") is True
    more = rest(block, ("type", "tool_use_id", "content", *(["is_error"] if is_error else [])))
    return ToolResultBlock(id=call_id, output=output, is_error=is_error, metadata=_remember(content=shape, rest=more))


# --------------------------------------------------------------------------------------------------------- writing
def to_anthropic(messages: Iterable[Msg]) -> list[dict[str, Any]]:
    """Msgs as Anthropic messages. System messages are not among them: `system_of` and `request` give those.

    The results of one message's calls, which may be several messages here, become one message, as the API demands.
    Thinking that came from elsewhere stays out, since the API takes only its own; an assistant message with nothing
    else is left out too. Raises InvalidMessage naming the index of what is not a Msg.
    """
    written: list[dict[str, Any]] = []
    joined = False
    for msg in as_messages(messages):
        if msg.role == "system" or (message := _write(msg)) is None:
            continue
        results = msg.role == "tool" and not _known(msg) and isinstance(message["content"], list)
        if results and joined:
            written[-1]["content"].extend(message["content"])
        else:
            written.append(message)
        joined = results
    return written


def system_of(messages: Iterable[Msg]) -> str | list[dict[str, Any]] | None:
    """The system prompt that these messages hold, as the API's `system`: all of them, in order; None without any."""
    system_msgs = [msg for msg in as_messages(messages) if msg.role == "system"]
    if not system_msgs:
        return None
    if any(_known(msg).get("content") == "blocks" or any(map(_cached, msg.content)) for msg in system_msgs):
        return [block for msg in system_msgs for block in _write_blocks(msg.content, _lost(msg))]
    return "\n\n".join(msg.text for msg in system_msgs)


def request(messages: Iterable[Msg]) -> dict[str, Any]:
    """`messages` and, where there is one, `system`: keyword arguments for `client.messages.create`.

    Claude's last compaction comes first, as its API demands. Keys that only replies have (`id`, `usage`) stay out.
    """
    msgs = block_first(as_messages(messages))
    system = system_of(msgs)
    marks = keep_marks(system, _MARKS - 1) if isinstance(system, list) else 0
    return {**({} if system is None else {"system": system}), "messages": sendable_messages(msgs, _MARKS - marks)}


def sendable_messages(messages: Iterable[Msg], marks: int = _MARKS - 1) -> list[dict[str, Any]]:
    """`to_anthropic` in the form that the API takes, with the newest `marks` cache marks.

    Of the fields of messages those that only replies have stay out; the results of calls are together, and first; each
    call has an id of its own. Without `marks` two are kept, and a place is left for one of the system prompt.
    """
    msgs = with_own_ids(as_messages(messages), lambda use: _ID.fullmatch(use.id) is not None, in_all=True)
    sent = user_first(results_first(strict_anthropic(to_anthropic(msgs), allowed(msgs))))
    last = next((msg.role for msg in reversed(msgs) if msg.role != "system"), "")
    if last == "user" and (not sent or sent[-1]["role"] == "assistant"):  # which Claude would go on writing
        sent.append({"role": "user", "content": EMPTY})
    keep_marks((block for message in sent for block in blocks_of(message)), marks)
    return sent


def _write(msg: Msg) -> dict[str, Any] | None:
    known = _known(msg)
    role = "assistant" if msg.tool_uses or msg.role == "assistant" else "user"
    blocks = _write_blocks(msg.content, _lost(msg))
    if not blocks and not known and (role == "assistant" or msg.content):
        return None
    plain = all(isinstance(b, TextBlock) and _known(b).keys() <= {"empty"} and not _cached(b) for b in msg.content)
    content: Any = blocks
    if known.get("content") != "blocks" and plain:
        content = "\n".join(b.text for b in msg.content if isinstance(b, TextBlock))
    return put_back({"role": role, "content": content}, known.get("rest"))


def _lost(msg: Msg) -> Collection[str]:
    return _ABOUT_THE_TEXT if is_rewritten(msg) else ()


def _write_blocks(content: Iterable[Any], lost: Collection[str]) -> list[dict[str, Any]]:
    blocks = (_write_block(block, lost) for block in content)
    return [block for block in blocks if block is not None]


def _write_block(block: Any, lost: Collection[str]) -> dict[str, Any] | None:
    known = _known(block)
    if "whole" in known and carries(block, _text_of(known["whole"])):
        return put_back({}, known["whole"])
    body = _body(block, known, lost)
    return None if body is None else put_back(body, known.get("rest") or _cached(block), lost)


def _cached(block: Any) -> Mapping[str, Any]:
    """The cache mark of a text that was added alone: such a message is OpenAI's as well, and is read as that."""
    extra = hints(WIRE_HINTS, block).get("extra")
    return {"cache_control": extra["cache_control"]} if isinstance(extra, Mapping) and "cache_control" in extra else {}


def _body(block: Any, known: Mapping[str, Any], lost: Collection[str]) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        # The API refuses a text without any characters: one that came in is sent as it was.
        return {"type": "text", "text": block.text} if block.text or known else None
    if isinstance(block, ThinkingBlock):
        return {"type": "thinking", "thinking": block.thinking} if known.get("own") else None
    if isinstance(block, ToolUseBlock):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": thaw(block.input)}
    if isinstance(block, ToolResultBlock):
        return _result(block, lost)
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": put_back(thaw(block.source), known.get("inner"))}
    return {"type": "text", "text": stand_in(block)}  # the API takes neither sound nor video


def _result(block: ToolResultBlock, lost: Collection[str]) -> dict[str, Any]:
    shape = _known(block).get("content")
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.id}
    if isinstance(block.output, str):
        if shape == "blocks":
            result["content"] = [{"type": "text", "text": block.output}] if block.output else []
        elif shape != "missing" or block.output:
            result["content"] = block.output
    else:
        result["content"] = _write_blocks(block.output, lost)
    if block.is_error:
        result["is_error"] = True
    return result
