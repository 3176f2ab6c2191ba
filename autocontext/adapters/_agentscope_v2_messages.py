"""Messages of AgentScope 2 as messages of this library, and back.

There one message holds a whole reply: hints, calls, results and texts, block after block. Here it is taken apart into
what an agent says, what tools give and what hints say. `metadata["_agentscope"]` of each part says which stretch of
blocks it was, so that a reply that has grown can be read on, and holds what blocks have no field for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentscope import message as theirs

from autocontext.formats.blocks import MEDIA, carried_text, carries, hints_of
from autocontext.formats.objects import each_of, jsonable
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, thaw

KEY = "_agentscope"
_known, _remember = hints_of(KEY)
_FAILED = ("error", "denied", "interrupted")


# --------------------------------------------------------------------------------------------------------- reading
def from_agentscope(
    messages: Iterable[theirs.Msg], seen: Mapping[str, int] | None = None, *, runtime: str | None = None
) -> list[Msg]:
    """AgentScope messages as Msgs: one for what the user says, several for a reply.

    `seen` says how many blocks of a message, by its id, have been read before; they are left out. `runtime` is the
    source of the hints in which an agent tells itself the time and the like: such a hint goes with what the agent says
    next, so that it is not taken for a user's word; one at the very end is left for later. Raises InvalidMessage naming
    the index of what is no message.
    """
    msgs: list[Msg] = []
    originals = list(each_of(messages, theirs.Msg, "agentscope.message.Msg"))
    for i, message in enumerate(originals):
        start = (seen or {}).get(message.id, 0)
        if start >= len(message.content):
            continue
        if message.role != "assistant":
            msgs.append(_read(message, start))
            continue
        stop = len(message.content) - (len(trailing_hints([message], runtime)) if i == len(originals) - 1 else 0)
        msgs += _read_reply(message, start, stop, runtime)
    return msgs


def trailing_hints(messages: Sequence[theirs.Msg], runtime: str | None) -> list[theirs.HintBlock]:
    """The runtime hints at the end of the last message: nothing has been said since."""
    hints: list[theirs.HintBlock] = []
    for block in reversed(messages[-1].content if messages and messages[-1].role == "assistant" else []):
        if not _is_runtime(block, runtime):
            break
        hints.insert(0, block)
    return hints


def _is_runtime(block: Any, runtime: str | None) -> bool:
    return block.type == "hint" and runtime is not None and block.source == runtime and isinstance(block.hint, str)


def seen_blocks(messages: Iterable[Msg]) -> dict[str, int]:
    """How many blocks of each AgentScope message these messages come from, by its id."""
    seen: dict[str, int] = {}
    for msg in messages:
        known = _known(msg)
        if "id" in known:
            seen[known["id"]] = max(known["until"], seen.get(known["id"], 0))
    return seen


def changed_parts(context: Sequence[theirs.Msg], view: Sequence[Msg]) -> tuple[int, list[Msg]]:
    """The parts of the last reply from its last calls on, if these are not as they were read, and their first block.

    A user may correct a call while it waits to be confirmed; others may until it runs. No parts: nothing has changed.
    """
    at = next((i for i in range(len(view) - 1, -1, -1) if view[i].tool_uses), None)
    if at is None or not context or _known(view[at]).get("id") != context[-1].id or view[at].origin is not None:
        return 0, []
    reply, until = context[-1], int(_known(view[at])["until"])
    start = until - len(view[at].content)
    pairs = zip(view[at].content, reply.content[start:until], strict=False)
    changed = any(block.type == "tool_call" and _is_other(read, block) for read, block in pairs)
    return start, [m for m in view[at:] if _known(m).get("id") == reply.id] if changed else []


def _is_other(read: Any, call: theirs.ToolCallBlock) -> bool:
    return isinstance(read, ToolUseBlock) and (read.name, _arguments(read)) != (call.name, call.input)


def _read(message: theirs.Msg, start: int) -> Msg:
    content = [_read_block(block) for block in message.content[start:]]
    return _msg(message, message.role, content, start, len(message.content))


def _read_reply(message: theirs.Msg, start: int, stop: int, runtime: str | None) -> Iterator[Msg]:
    """The parts of an assistant message: each result and each hint is one, and so is what stands between them."""
    spoken: list[Any] = []
    for at in range(start, stop):
        block = message.content[at]
        if _is_runtime(block, runtime):
            spoken.append(TextBlock(text=block.hint, metadata=_remember(hint=_rest(block, "hint"))))
        elif block.type in ("hint", "tool_result"):
            if spoken:
                yield _spoken(message, spoken, at)
                spoken = []
            if block.type == "tool_result":
                yield _msg(message, "tool", [_read_result(block)], at, at + 1)
            else:
                plain = isinstance(block.hint, str)
                hint = [TextBlock(text=block.hint)] if plain else [_read_block(b) for b in block.hint]
                yield _msg(message, "user", hint, at, at + 1, hint=_rest(block, "hint"))
        else:
            spoken.append(_read_block(block))
    if spoken:
        yield _spoken(message, spoken, stop)


def _spoken(message: theirs.Msg, blocks: list[Any], until: int) -> Msg:
    only_hints = all("hint" in _known(b) for b in blocks)
    return _msg(message, "user" if only_hints else "assistant", blocks, until - len(blocks), until)


def _msg(message: theirs.Msg, role: Any, content: list[Any], start: int, until: int, **more: Any) -> Msg:
    own = message.id if message.role != "assistant" and start == 0 else f"{message.id}.{start}"
    metadata = {**jsonable(message.metadata), KEY: {"id": message.id, "until": until, **more}}
    return Msg(id=own, role=role, name=message.name, content=content, timestamp=message.created_at, metadata=metadata)


def _read_block(block: Any) -> Any:
    if block.type == "text":
        return TextBlock(text=block.text, metadata=_remember(rest=_rest(block, "text")))
    if block.type == "thinking":
        return ThinkingBlock(thinking=block.thinking, metadata=_remember(rest=_rest(block, "thinking")))
    if block.type == "tool_call":
        return _read_call(block)
    if block.type == "data" and (block_type := MEDIA.get(block.source.media_type.partition("/")[0])) is not None:
        source = block.source
        rest = {**_rest(block, "source"), "media_type": source.media_type}
        where = {"type": "url", "url": str(source.url)} if source.type == "url" else source.model_dump(mode="json")
        return block_type(source=where, metadata=_remember(rest=rest))
    carried = block.model_dump(mode="json")  # a file that is no image, sound or video, too
    return TextBlock(text=_text_of(carried), metadata=_remember(carried=carried))


def _text_of(block: Mapping[str, Any]) -> str:
    """What a block that is carried along reads like; files hold no words beside their name."""
    name = (block.get("name") or block["source"]["media_type"]) if block["type"] == "data" else None
    return f"[file: {name}]" if name else carried_text(block, block["type"])


def _read_call(block: Any) -> ToolUseBlock:
    """A call with its arguments parsed; their text is kept where it is not how we would write them."""
    try:
        value = json.loads(block.input or "{}")
        raw = None if isinstance(value, dict) and _dumps(value) == block.input else block.input
    except ValueError:
        value, raw = {}, block.input
    known = _remember(rest=_rest(block, "id", "name", "input"), raw=raw)
    return ToolUseBlock(id=block.id, name=block.name, input=value if isinstance(value, dict) else {}, metadata=known)


def _read_result(block: Any) -> ToolResultBlock:
    output = block.output if isinstance(block.output, str) else tuple(_read_block(b) for b in block.output)
    known = _remember(rest=_rest(block, "id", "name", "output"))
    failed = str(block.state) in _FAILED
    return ToolResultBlock(id=block.id, name=block.name, output=output, is_error=failed, metadata=known)


def _rest(block: Any, *fields: str) -> dict[str, Any]:
    values: dict[str, Any] = block.model_dump(mode="json", exclude={"type", *fields})
    return {k: v for k, v in values.items() if v not in (None, {}, [])}


# --------------------------------------------------------------------------------------------------------- writing
def to_agentscope(messages: Iterable[Msg]) -> list[theirs.Msg]:
    """Msgs as AgentScope messages; what follows each other in one reply becomes one message again."""
    written: list[theirs.Msg] = []
    for msg in as_messages(messages):
        known = _known(msg)
        blocks: list[Any] = [_write_block(b) for b in msg.content]
        if "hint" in known:
            plain = len(msg.content) == 1 and not msg.content[0].metadata
            blocks = [theirs.HintBlock(**{**thaw(known["hint"]), "hint": msg.text if plain else blocks})]
        hinted = any(b.type == "hint" for b in blocks)
        role: Any = "assistant" if msg.role == "tool" or hinted else msg.role
        if written and role == "assistant" and _goes_on(written[-1], msg.role):
            written[-1].content.extend(blocks)
        else:
            # Metadata is the memory's own business here: what is written is for one request.
            written.append(theirs.Msg(id=msg.id, name=msg.name, role=role, content=blocks, created_at=msg.timestamp))
    return written


def _goes_on(last: theirs.Msg, role: str) -> bool:
    """Whether what comes next belongs to the message before it: results to their calls, and what follows a result.

    Formatters put a picture that a tool gave behind all results of a message, so these must not be torn apart.
    """
    return last.role == "assistant" and (
        role == "tool" or bool(last.content and last.content[-1].type == "tool_result")
    )


def _write_block(block: Any) -> Any:
    known = _known(block)
    rest = thaw(known.get("rest") or {})
    if isinstance(block, TextBlock):
        return _write_text(block, known, rest)
    if isinstance(block, ThinkingBlock):
        return theirs.ThinkingBlock(**{**rest, "thinking": block.thinking})
    if isinstance(block, ToolUseBlock):
        if rules := rest.get("suggested_rules"):  # earlier versions stored them without what is None
            rest["suggested_rules"] = [{"rule_content": None, **rule} for rule in rules]
        return theirs.ToolCallBlock(**{**rest, "id": block.id, "name": block.name, "input": _arguments(block)})
    if isinstance(block, ToolResultBlock):
        output = block.output if isinstance(block.output, str) else [_write_block(b) for b in block.output]
        state = rest.pop("state", "error" if block.is_error else "success")
        return theirs.ToolResultBlock(**{**rest, "id": block.id, "name": block.name, "output": output, "state": state})
    media_type = rest.pop("media_type", f"{block.type}/*")
    return theirs.DataBlock(**{**rest, "source": {"media_type": media_type, **thaw(block.source)}})


def _arguments(call: ToolUseBlock) -> str:
    raw: str | None = _known(call).get("raw")
    return _dumps(thaw(call.input)) if raw is None else raw


def _write_text(block: TextBlock, known: Mapping[str, Any], rest: dict[str, Any]) -> Any:
    if "carried" in known and carries(block, _text_of(known["carried"])):
        return _carried(thaw(known["carried"]))
    if "hint" in known:
        return without_length(theirs.HintBlock(**{**thaw(known["hint"]), "hint": block.text}))
    return theirs.TextBlock(**{**rest, "text": block.text})


def _carried(block: Mapping[str, Any]) -> Any:
    """A block that was carried along as it came."""
    block_types = {"data": theirs.DataBlock, "hint": theirs.HintBlock, "tool_result": theirs.ToolResultBlock}
    kind = block_types.get(str(block.get("type")))
    return theirs.TextBlock(text=json.dumps(block)) if kind is None else kind(**block)


def _dumps(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without_length(hint: theirs.HintBlock) -> theirs.HintBlock:
    """A copy of a hint without what it says of the context's length: that of a state which is not what is sent."""
    head, opened, tail = str(hint.hint).partition("<context-length>")
    _, closed, tail = tail.partition("</context-length>")
    text = head + tail.removeprefix("\n") if opened and closed else hint.hint
    return hint.model_copy(update={"hint": text})
