"""Items of OpenAI's Responses API as messages of this library, and back, without loss.

`to_responses(from_responses(x)) == x` for lists of items as the API takes and gives them; openai-agents keeps its
sessions in this form, also with chat completions. What the model puts out in one go (reasoning, text, calls) becomes
one assistant message, since a call, its sisters and its reasoning belong together. What blocks have no field for stands
under `metadata["_responses"]` of a block or message. Kinds of items that no block has are carried along as they are.
The format is that of https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats.blocks import carried_text, carries, compaction_block, hints, source_of, url_of
from autocontext.formats.openai_parts import (
    kind_of,
    objects_in,
    put_back,
    read_function,
    rest,
    stand_in,
    text_at,
    write_function,
)
from autocontext.messages import (
    ENCRYPTED,
    WIRE_HINTS,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    as_messages,
    freeze,
    is_rewritten,
    thaw,
)

KEY = "_responses"
_known = partial(hints, KEY)
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_OTHERS = ("user", "system", "developer")
"""Roles of what the model has not put out."""
_FILES = ("input_file", "input_image")
"""Parts that hold no words beside their name."""
_ABOUT_THE_TEXT = ("annotations", "logprobs", "id")
"""Keys about the exact words of a text: wrong next to a text that a compression has replaced."""


# --------------------------------------------------------------------------------------------------------- reading
def from_responses(items: Iterable[Mapping[str, Any] | BaseModel]) -> list[Msg]:
    """Responses items as Msgs; one output of the model becomes one message. The SDK's objects work too.

    Raises InvalidMessage naming index and key, as in "items[3].role: ...".
    """
    msgs: list[Msg] = []
    output: list[Any] = []
    names: dict[str, str] = {}
    for at, item in objects_in(items, "items"):
        try:
            blocks = _read_output(item)
            if blocks is not None:
                output.extend(blocks)
                names.update((b.id, b.name) for b in blocks if isinstance(b, ToolUseBlock))
                continue
            if output:
                msgs.append(Msg(role="assistant", content=output))
                output = []
            msgs.append(_read_message(item) if "role" in item else _read_result(item, names))
        except InvalidMessage as e:
            raise InvalidMessage(f"{at}.{e}") from None
    return [*msgs, Msg(role="assistant", content=output)] if output else msgs


def _read_output(item: Mapping[str, Any]) -> list[Any] | None:
    """The blocks of an item that the model has put out; None for what others said."""
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return _read_spoken(item) if item.get("role") == "assistant" else None
    if item.get("role") in _OTHERS:
        return None
    if kind == "function_call":
        call = read_function(item, "", text_at(item, "call_id"))
        # `read_function` keeps unknown keys under its own hints; here they belong to the item.
        form = {k: v for k, v in hints(WIRE_HINTS, call).items() if k != "inner"}
        known = _hints({"item": rest(item, ("type", "call_id", "name", "arguments"))}, form)
        return [ToolUseBlock(id=call.id, name=call.name, input=call.input, metadata=known)]
    if isinstance(kind, str) and kind.endswith("_output") and isinstance(item.get("call_id"), str):
        return None
    if isinstance(kind, str) and kind.endswith("_call") and isinstance(item.get("call_id"), str):
        inner = rest(item, ("type", "call_id", "id", "status"))
        return [ToolUseBlock(id=item["call_id"], name=kind, input=inner, metadata=_hints({"kind": rest(item, inner)}))]
    return [_read_carried(item, kind)]


def _read_carried(item: Mapping[str, Any], kind: Any) -> Any:
    """A block for an item that is carried along as it is."""
    whole = _hints({"whole": rest(item, ())})
    if kind == "reasoning":
        parts = item.get("summary") if isinstance(item.get("summary"), list) else []
        said = [str(p.get("text") or "") for p in parts or () if isinstance(p, Mapping)]
        return ThinkingBlock(thinking="\n".join(said), metadata=whole | _encrypted(item))
    if kind in ("compaction", "compaction_summary"):
        return compaction_block(item, whole)
    return TextBlock(text=_text_of_item(item), metadata=whole)


def _text_of_item(item: Mapping[str, Any]) -> str:
    return carried_text(item, item.get("type") or "item")


def _encrypted(item: Mapping[str, Any]) -> dict[str, Any]:
    encrypted = item.get("encrypted_content")
    return {ENCRYPTED: len(encrypted)} if isinstance(encrypted, str) and encrypted else {}


def _hints(own: Mapping[str, Any], openai: Mapping[str, Any] | None = None) -> dict[str, Any]:
    metadata = {KEY: dict(own)}
    return {**metadata, WIRE_HINTS: dict(openai)} if openai else metadata


def _read_spoken(item: Mapping[str, Any]) -> list[Any]:
    """One block for each part of an assistant's message; the first one remembers the item."""
    parts, shape = _read_parts(item)
    first: dict[str, Any] = {"item": rest(item, ("role", "content")), "shape": shape}
    blocks = parts or [TextBlock(text="")]
    head = blocks[0]
    known = {**first, **(head.metadata.get(KEY) or {}), **({} if parts else {"nothing": True})}
    blocks[0] = head.model_copy(update={"metadata": freeze({**head.metadata, KEY: known})})
    return blocks


def _read_message(item: Mapping[str, Any]) -> Msg:
    role = item["role"]
    if role not in _OTHERS:
        raise InvalidMessage(f"role: must be user, assistant, system or developer, not {role!r}")
    own: Literal["user", "system"] = "user" if role == "user" else "system"
    if item.get("type", "message") != "message":  # more tools, which have to stay like all of the system's
        return Msg(role=own, content=(_read_carried(item, item["type"]),))
    parts, shape = _read_parts(item)
    known = {"item": rest(item, ("role", "content")), "shape": shape, "role": role}
    return Msg(role=own, content=parts, metadata={KEY: known})


def _read_parts(item: Mapping[str, Any], key: str = "content") -> tuple[list[Any], str]:
    content = item.get(key)
    if isinstance(content, str):
        return [TextBlock(text=content)] if content else [], "text"
    if content is None:
        return [], "null" if key in item else "missing"
    if not isinstance(content, list | tuple):
        raise InvalidMessage(f"{key}: must be a string or a list of parts, not {kind_of(content)}")
    return [_read_part(part, f"{key}[{i}]") for i, part in enumerate(content)], "parts"


def _read_part(part: Any, where: str) -> Any:
    if not isinstance(part, Mapping):
        raise InvalidMessage(f"{where}: must be an object, not {kind_of(part)}")
    kind = text_at(part, "type", f"{where}.")
    if kind in _TEXT_PARTS:
        key = _TEXT_PARTS[kind]
        known = {"part": kind, "rest": rest(part, ("type", key), where)}
        return TextBlock(text=text_at(part, key, f"{where}."), metadata={KEY: known})
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        known = {"part": kind, "rest": rest(part, ("type", "image_url"), where)}
        return ImageBlock(source=source_of(part["image_url"]), metadata={KEY: known})
    return TextBlock(text=_text_of_part(part), metadata={KEY: {"carried": rest(part, (), where)}})


def _text_of_part(part: Mapping[str, Any]) -> str:
    named, kind = part.get("filename") or part.get("file_id"), part["type"]
    return carried_text({} if kind in _FILES else part, kind, named)


def _read_result(item: Mapping[str, Any], names: Mapping[str, str]) -> Msg:
    call_id, kind = text_at(item, "call_id"), text_at(item, "type")
    known: dict[str, Any] = {"type": kind, "rest": rest(item, ("type", "call_id", "output"))}
    output: Any
    if kind in ("function_call_output", "custom_tool_call_output"):
        parts, shape = _read_parts(item, "output")
        output = item["output"] if shape == "text" else tuple(parts)
        known["shape"] = shape
    else:
        output = json.dumps(thaw(item.get("output")), ensure_ascii=False)
        known |= {"shape": "json"} if "output" in item else {"shape": "missing"}
    block = ToolResultBlock(id=call_id, name=names.get(call_id, ""), output=output, metadata={KEY: known})
    return Msg(role="tool", content=(block,))


# --------------------------------------------------------------------------------------------------------- writing
def to_responses(messages: Iterable[Msg]) -> list[dict[str, Any]]:
    """Msgs as Responses items. Thinking that came from elsewhere stays out. Raises InvalidMessage naming the index."""
    msgs = as_messages(messages)
    announced = _announced_calls(msgs)
    return [item for msg in msgs for item in _write(msg, announced)]


def _announced_calls(messages: Iterable[Msg]) -> set[str]:
    """Calls of special tools whose results a compression has replaced: their items can hold no such text."""
    blocks = [(is_rewritten(m), b) for m in messages for b in m.tool_results]
    return {b.id for changed, b in blocks if changed and _known(b).get("shape") in ("json", "missing")}


def _write(msg: Msg, announced: set[str]) -> Iterator[dict[str, Any]]:
    changed = is_rewritten(msg)
    if msg.role == "assistant":
        yield from _write_output(msg, announced, changed=changed)
        return
    for block in msg.tool_results:
        if block.id in announced:
            yield {"role": "user", "content": f"[What {block.name} said:]\n{block.text}"}
        else:
            yield _write_result(block, changed=changed)
    blocks = [b for b in msg.content if not isinstance(b, ToolResultBlock | ThinkingBlock)]
    whole = _known(blocks[0]).get("whole") if len(blocks) == 1 else None
    if whole is not None and carries(blocks[0], _text_of_item(whole)):
        yield thaw(whole)
    elif blocks or not msg.tool_results:
        known = _known(msg)
        role = known.get("role") if msg.role == "system" and known else "user" if msg.role == "tool" else msg.role
        own = {k: v for k, v in (known.get("item") or {}).items() if not (changed and k in _ABOUT_THE_TEXT)}
        content = _write_content(blocks, known.get("shape"), "input_text", changed=changed)
        yield put_back({"role": role, **content}, own)


def _write_output(msg: Msg, announced: set[str], *, changed: bool) -> Iterator[dict[str, Any]]:
    spoken: list[Any] = []
    for block in msg.content:
        if spoken and (not isinstance(block, TextBlock | ImageBlock) or _known(block).keys() & {"item", "whole"}):
            yield _write_spoken(spoken, changed=changed)
            spoken = []
        whole = _known(block).get("whole")
        if whole is not None and carries(block, _text_of_item(whole)):
            yield thaw(whole)
        elif isinstance(block, ToolUseBlock):
            yield _write_call(block, announced)
        elif not isinstance(block, ToolResultBlock | ThinkingBlock):
            spoken.append(block)
    if spoken or not msg.content:
        yield _write_spoken(spoken, changed=changed)
    for result in msg.tool_results:
        yield _write_result(result, changed=changed)


def _write_spoken(blocks: list[Any], *, changed: bool) -> dict[str, Any]:
    known = _known(blocks[0]) if blocks else {}
    own = {k: v for k, v in (known.get("item") or {}).items() if not (changed and k in _ABOUT_THE_TEXT)}
    if known.get("nothing") and not blocks[0].text:
        blocks = blocks[1:]
    content = _write_content(blocks, known.get("shape"), "output_text", changed=changed)
    return put_back({"role": "assistant", **content}, own)


def _write_content(
    blocks: list[Any], shape: Any, text_kind: str, *, changed: bool, key: str = "content"
) -> dict[str, Any]:
    if not blocks and shape in ("null", "missing"):
        return {} if shape == "missing" else {key: None}
    if shape == "parts" or (any(not isinstance(b, TextBlock) for b in blocks) and text_kind == "input_text"):
        return {key: [_write_part(b, text_kind, changed=changed) for b in blocks]}
    return {key: "\n".join(map(stand_in, blocks))}


def _write_part(block: Any, text_kind: str, *, changed: bool) -> dict[str, Any]:
    known = _known(block)
    if "carried" in known and carries(block, _text_of_part(known["carried"])):
        item: dict[str, Any] = thaw(known["carried"])
        return item
    more = {k: v for k, v in (known.get("rest") or {}).items() if not (changed and k in _ABOUT_THE_TEXT)}
    if isinstance(block, ImageBlock):
        detail = {} if known else {"detail": "auto"}
        return put_back({"type": "input_image", "image_url": url_of(block), **detail}, more)
    kind = str(known.get("part") or text_kind)
    if not isinstance(block, TextBlock):
        return {"type": text_kind, "text": stand_in(block)}
    needed: dict[str, Any] = {"annotations": [], "logprobs": []} if changed and kind == "output_text" else {}
    return put_back({"type": kind, _TEXT_PARTS.get(kind, "text"): block.text}, {**needed, **more})


def _write_call(block: ToolUseBlock, announced: set[str]) -> dict[str, Any]:
    known = _known(block)
    special = known.get("kind")
    if block.id in announced and special is not None:
        return {"role": "assistant", "content": f"[{block.name}: {json.dumps(thaw(block.input), ensure_ascii=False)}]"}
    if special is not None:
        return put_back({"type": block.name, "call_id": block.id, **thaw(block.input)}, special)
    function = write_function(block)
    return put_back({"type": "function_call", "call_id": block.id, **function}, known.get("item"))


def _write_result(block: ToolResultBlock, *, changed: bool) -> dict[str, Any]:
    known = _known(block)
    item: dict[str, Any] = {"type": known.get("type") or "function_call_output", "call_id": block.id}
    shape = known.get("shape")
    if shape == "json":
        # The first: what a second result of the call has said stands below it, and is no JSON.
        item["output"] = json.JSONDecoder().raw_decode(block.text)[0]
    elif shape != "missing":
        output = [TextBlock(text=block.output)] if isinstance(block.output, str) and block.output else block.output
        blocks = [b for b in output if not isinstance(b, str | ThinkingBlock)]
        item |= _write_content(blocks, shape, "input_text", changed=changed, key="output")
    return put_back(item, known.get("rest"))
