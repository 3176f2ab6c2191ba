"""Anthropic messages (lists of dicts) as messages of this library, and back, without loss.

`to_anthropic(from_anthropic(x)) == x` for lists as the Messages API takes and gives them. The system prompt, which
Anthropic's API takes apart from the messages, becomes a system message: `request(messages)` gives both, as
`client.messages.create(**request(messages), ...)` wants them. What blocks have no field for stands under
`metadata["_anthropic"]` of a block or message. The format is that of https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats.anthropic_rules import blocks_of, keep_marks, results_first, user_first
from autocontext.formats.blocks import block_first, carried_text, carries, compaction_block, file_mark, hints, remember
from autocontext.formats.call_ids import with_own_ids
from autocontext.formats.openai_parts import kind_of, objects_in, put_back, rest, stand_in, text_at
from autocontext.formats.strict import allowed, strict_anthropic
from autocontext.messages import (
    ANTHROPIC_HINTS,
    WIRE_HINTS,
    AudioBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
    as_messages,
    is_rewritten,
    thaw,
)

KEY = ANTHROPIC_HINTS
_known = partial(hints, KEY)
_remember = partial(remember, KEY)
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
    msgs = [] if system is None else [_read({"role": "system", "content": system}, "system", {})]
    names: dict[str, str] = {}
    for at, message in objects_in(messages, "messages"):
        if message.get("role") not in ("user", "assistant"):
            raise InvalidMessage(f"{at}.role: must be user or assistant, not {message.get('role')!r}")
        msg = _read(message, at, names)
        names.update((use.id, use.name) for use in msg.tool_uses)
        msgs.append(msg)
    return msgs


def _read(message: Mapping[str, Any], where: str, names: Mapping[str, str]) -> Msg:
    blocks, shape = _read_content(message.get("content"), f"{where}.content", names)
    known = _remember(content=shape, rest=rest(message, ("role", "content"), where))
    own = message.get("id")
    fields: dict[str, Any] = {"id": own} if isinstance(own, str) and own else {}
    # Results stand in the user's messages here; elsewhere a message of results alone is the tool's.
    results = bool(blocks) and all(isinstance(b, ToolResultBlock) for b in blocks)
    return Msg(role="tool" if results else message["role"], content=blocks, metadata=known, **fields)


def _read_content(content: Any, where: str, names: Mapping[str, str]) -> tuple[list[Any], str | None]:
    if isinstance(content, str):
        return [TextBlock(text=content, metadata=_remember(empty=content == "" or None))], None
    if not isinstance(content, list | tuple):
        raise InvalidMessage(f"{where}: must be a string or a list of blocks, not {kind_of(content)}")
    return [_read_block(block, f"{where}[{i}]", names) for i, block in enumerate(content)], "blocks"


def _read_block(block: Any, where: str, names: Mapping[str, str]) -> Any:
    if not isinstance(block, Mapping):
        raise InvalidMessage(f"{where}: must be an object, not {kind_of(block)}")
    kind, dot = text_at(block, "type", f"{where}."), f"{where}."
    if kind == "text":
        text = text_at(block, "text", dot)
        return TextBlock(
            text=text, metadata=_remember(empty=not text or None, rest=rest(block, ("type", "text"), where))
        )
    if kind == "thinking":
        more = rest(block, ("type", "thinking"), where)
        return ThinkingBlock(thinking=text_at(block, "thinking", dot), metadata=_remember(own=True, rest=more))
    if kind == "tool_use" and isinstance(block.get("input"), Mapping):
        more = rest(block, ("type", "id", "name", "input"), where)
        call = {"id": text_at(block, "id", dot), "name": text_at(block, "name", dot)}
        return ToolUseBlock(**call, input=rest(block["input"], (), f"{dot}input"), metadata=_remember(rest=more))
    if kind == "tool_result":
        return _read_result(block, where, names)
    if kind == "image" and (source := _source(block.get("source"))) is not None:
        more = rest(block, ("type", "source"), where)
        inner = rest(block["source"], ("type", "url", "media_type", "data"), f"{dot}source")
        return ImageBlock(source=source, metadata=_remember(inner=inner, rest=more))
    return _carried(block, kind, where)


def _carried(block: Mapping[str, Any], kind: str, where: str) -> Any:
    """A block of a kind that this library has none for, as it is."""
    whole = _remember(whole=rest(block, (), where))
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


def _read_result(block: Mapping[str, Any], where: str, names: Mapping[str, str]) -> ToolResultBlock:
    call_id = text_at(block, "tool_use_id", f"{where}.")
    shape: str | None = "missing"
    output: Any = ""
    if "content" in block:
        blocks, shape = _read_content(block["content"], f"{where}.content", names)
        output = block["content"] if shape is None else tuple(b for b in blocks if not isinstance(b, ToolUseBlock))
    error = block.get("is_error")
    more = rest(block, ("type", "tool_use_id", "content", *(["is_error"] if error is True else [])), where)
    known = _remember(content=shape, rest=more)
    return ToolResultBlock(
        id=call_id, name=names.get(call_id, ""), output=output, is_error=error is True, metadata=known
    )


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
        return [block for msg in system_msgs for block in _write_blocks(msg.content, changed=is_rewritten(msg))]
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
    keep_marks((block for message in sent for block in blocks_of(message)), marks)
    return sent


def _write(msg: Msg) -> dict[str, Any] | None:
    known = _known(msg)
    role = "assistant" if msg.tool_uses or msg.role == "assistant" else "user"
    blocks = _write_blocks(msg.content, changed=is_rewritten(msg))
    if not blocks and not known and (role == "assistant" or msg.content):
        return None
    plain = all(isinstance(b, TextBlock) and _known(b).keys() <= {"empty"} and not _cached(b) for b in msg.content)
    content: Any = blocks
    if known.get("content") != "blocks" and plain:
        content = "\n".join(b.text for b in msg.content if isinstance(b, TextBlock))
    return put_back({"role": role, "content": content}, known.get("rest"))


def _write_blocks(content: Iterable[Any], *, changed: bool) -> list[dict[str, Any]]:
    blocks = (_write_block(block, changed=changed) for block in content)
    return [block for block in blocks if block is not None]


def _write_block(block: Any, *, changed: bool) -> dict[str, Any] | None:
    known = _known(block)
    if "whole" in known and carries(block, _text_of(known["whole"])):
        return put_back({}, known["whole"])
    body = _body(block, changed=changed)
    more = {k: v for k, v in (known.get("rest") or _cached(block)).items() if not (changed and k in _ABOUT_THE_TEXT)}
    return None if body is None else put_back(body, more)


def _cached(block: Any) -> Mapping[str, Any]:
    """The cache mark of a text that was added alone: such a message is OpenAI's as well, and is read as that."""
    extra = hints(WIRE_HINTS, block).get("extra")
    return {"cache_control": extra["cache_control"]} if isinstance(extra, Mapping) and "cache_control" in extra else {}


def _body(block: Any, *, changed: bool) -> dict[str, Any] | None:
    known = _known(block)
    body: dict[str, Any] | None = None
    if isinstance(block, TextBlock):
        # The API refuses a text without any characters: one that came in is sent as it was.
        body = {"type": "text", "text": block.text} if block.text or known else None
    elif isinstance(block, ThinkingBlock):
        body = {"type": "thinking", "thinking": block.thinking} if known.get("own") else None
    elif isinstance(block, ToolUseBlock):
        body = {"type": "tool_use", "id": block.id, "name": block.name, "input": thaw(block.input)}
    elif isinstance(block, ToolResultBlock):
        body = _result(block, changed=changed)
    elif isinstance(block, ImageBlock):
        body = {"type": "image", "source": put_back(thaw(block.source), known.get("inner"))}
    elif isinstance(block, AudioBlock | VideoBlock):
        body = {"type": "text", "text": stand_in(block)}  # the API takes neither
    return body


def _result(block: ToolResultBlock, *, changed: bool) -> dict[str, Any]:
    shape = _known(block).get("content")
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.id}
    if isinstance(block.output, str):
        if shape == "blocks":
            result["content"] = [{"type": "text", "text": block.output}] if block.output else []
        elif shape != "missing" or block.output:
            result["content"] = block.output
    else:
        result["content"] = _write_blocks(block.output, changed=changed)
    if block.is_error:
        result["is_error"] = True
    return result
