"""Items of OpenAI's Responses API as messages of this library, and back, without loss.

`to_responses(from_responses(x)) == x` for lists of items as the API takes and gives them; openai-agents keeps its
sessions in this form, also with chat completions. What the model puts out in one go (reasoning, text, calls) becomes
one assistant message, since a call, its sisters and its reasoning belong together. What blocks have no field for stands
under `metadata["_responses"]` of a block or message. Kinds of items that no block has are carried along as they are.
The format is that of https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from autocontext.errors import InvalidMessage
from autocontext.formats.blocks import carried_text, carries, file_mark, hints_of, source_of, url_of
from autocontext.formats.call_ids import named_results
from autocontext.formats.compactions import compaction_block
from autocontext.formats.objects import kind_of, put_back, read_all, read_at, read_each, rest, text_at
from autocontext.formats.openai_calls import read_function, write_function
from autocontext.formats.openai_parts import hints as openai_hints
from autocontext.formats.openai_parts import remember as openai_remember
from autocontext.formats.openai_parts import stand_in
from autocontext.messages import (
    ENCRYPTED,
    RESPONSES_HINTS,
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

KEY = RESPONSES_HINTS
_known, _ = hints_of(KEY)
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_OTHERS = ("user", "system", "developer")
"""Roles of what the model has not put out."""
_FILES = ("input_file", "input_image")
"""Parts that hold no words beside their name."""
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The kinds of calls whose result may be any text, and of the items that hold it."""
_ABOUT_THE_TEXT = ("annotations", "logprobs", "id")
"""Keys about the exact words of a text: wrong next to a text that a compression has replaced."""


# --------------------------------------------------------------------------------------------------------- reading
def from_responses(items: Iterable[Mapping[str, Any] | BaseModel]) -> list[Msg]:
    """Responses items as Msgs; one output of the model becomes one message. The SDK's objects work too.

    Raises InvalidMessage naming index and key, as in "items[3].role: ...".
    """
    msgs: list[Msg] = []
    output: list[Any] = []
    for read in read_all(items, "items", _read):
        if isinstance(read, Msg):
            msgs += [Msg(role="assistant", content=output), read] if output else [read]
            output = []
        else:
            output += read
    return named_results([*msgs, Msg(role="assistant", content=output)] if output else msgs, {})


def _read(item: Mapping[str, Any]) -> list[Any] | Msg:
    """The blocks of an item that the model has put out, or the message of what others said."""
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message" and item.get("role") == "assistant":
        return _read_spoken(item)
    if kind == "message" or item.get("role") in _OTHERS:
        return _read_message(item) if "role" in item else _read_result(item)
    if kind == "function_call":
        call = read_function(item, text_at(item, "call_id"))
        # `read_function` keeps unknown keys under its own hints; here they belong to the item.
        form = {k: v for k, v in openai_hints(call).items() if k != "inner"}
        own = {"item": rest(item, ("type", "call_id", "name", "arguments"))}
        return [call.model_copy(update={"metadata": {KEY: own, **openai_remember(**form)}})]
    paired = isinstance(kind, str) and isinstance(item.get("call_id"), str)
    # The service runs a `program` itself: it and its output are carried along.
    if paired and kind.endswith("_output") and kind != "program_output":
        return _read_message(item) if "role" in item else _read_result(item)
    if paired and kind.endswith("_call"):
        inner = rest(item, ("type", "call_id", "id", "status"))
        known = {KEY: {"kind": rest(item, inner)}}
        return [ToolUseBlock(id=item["call_id"], name=kind, input=inner, metadata=known)]
    return [_read_carried(item, kind)]


def _read_carried(item: Mapping[str, Any], kind: Any) -> Any:
    """A block for an item that is carried along as it is."""
    whole = {KEY: {"whole": rest(item, ())}}
    if kind == "reasoning":
        parts = item.get("summary") if isinstance(item.get("summary"), list) else []
        said = [str(p.get("text") or "") for p in parts or () if isinstance(p, Mapping)]
        encrypted = item.get("encrypted_content")
        hidden = {ENCRYPTED: len(encrypted)} if isinstance(encrypted, str) and encrypted else {}
        return ThinkingBlock(thinking="\n".join(said), metadata=whole | hidden)
    if kind in ("compaction", "compaction_summary"):
        return compaction_block(item, whole)
    return TextBlock(text=_text_of_item(item), metadata=whole | file_mark(item))


def _text_of_item(item: Mapping[str, Any]) -> str:
    return carried_text(item, item.get("type") or "item")


def _read_spoken(item: Mapping[str, Any]) -> list[Any]:
    """One block for each part of an assistant's message; the first one remembers the item."""
    parts, shape = _read_parts(item)
    head, *others = parts or [TextBlock(text="", metadata={KEY: {"nothing": True}})]
    known = {"item": rest(item, ("role", "content")), "shape": shape, **_known(head)}
    return [head.model_copy(update={"metadata": {**head.metadata, KEY: known}}), *others]


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
    return read_each(content, key, _read_part), "parts"


def _read_part(part: Mapping[str, Any]) -> Any:
    kind = text_at(part, "type")
    if kind in _TEXT_PARTS:
        key = _TEXT_PARTS[kind]
        known = {"part": kind, "rest": rest(part, ("type", key))}
        return TextBlock(text=text_at(part, key), metadata={KEY: known})
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        known = {"part": kind, "rest": rest(part, ("type", "image_url"))}
        return ImageBlock(source=source_of(part["image_url"]), metadata={KEY: known})
    carried = {KEY: {"carried": rest(part, ())}}
    return TextBlock(text=_text_of_part(part), metadata=carried | file_mark(part, part.get("filename")))


def _text_of_part(part: Mapping[str, Any]) -> str:
    named, kind = part.get("filename") or part.get("file_id"), part["type"]
    return carried_text({} if kind in _FILES else part, kind, named)


def _read_result(item: Mapping[str, Any]) -> Msg:
    call_id, kind = text_at(item, "call_id"), text_at(item, "type")
    known: dict[str, Any] = {"type": kind, "rest": rest(item, ("type", "call_id", "output"))}
    output: Any
    if kind in ("function_call_output", "custom_tool_call_output"):
        parts, shape = _read_parts(item, "output")
        output = item["output"] if shape == "text" else tuple(parts)
        known["shape"] = shape
    elif (image := _screenshot(item.get("output"))) is not None:
        output, known["shape"] = (image,), "screenshot"
    elif item.get("output") is not None:
        output, known["shape"] = json.dumps(thaw(item["output"]), ensure_ascii=False), "json"
    else:  # what it says stands beside: `tools`, an `error`
        known |= {"shape": "missing", "rest": rest(item, ("type", "call_id"))}
        output = json.dumps(thaw(rest(item, ("type", "call_id", "id", "output"))), ensure_ascii=False)
    block = ToolResultBlock(id=call_id, output=output, metadata={KEY: known})
    return Msg(role="tool", content=(block,))


def _screenshot(output: Any) -> ImageBlock | None:
    """The image in the result of a `computer_call`; None for one that the service keeps, and for other results."""
    if not isinstance(output, Mapping) or output.get("type") != "computer_screenshot":
        return None
    url = output.get("image_url")
    if not isinstance(url, str):
        return None
    more = read_at("output", rest, output, ("type", "image_url"))
    return ImageBlock(source=source_of(url), metadata={KEY: {"rest": more}})


# --------------------------------------------------------------------------------------------------------- writing
def to_responses(messages: Iterable[Msg]) -> list[dict[str, Any]]:
    """Msgs as Responses items. Thinking that came from elsewhere stays out. Raises InvalidMessage naming the index."""
    msgs = as_messages(messages)
    answered = _answered_calls(msgs)
    # Calls that are written as texts, like their results, whose items cannot hold what they say.
    told = {
        (calls[block.id].at, block.id)
        for msg, calls in zip(msgs, answered, strict=True)
        for block in msg.tool_results
        if not _fits(block, calls[block.id], changed=is_rewritten(msg))
    }
    items: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for at, (msg, calls) in enumerate(zip(msgs, answered, strict=True)):
        if msg.role == "assistant":
            items += [*texts, *_write_output(msg, {use.id for use in msg.tool_uses if (at, use.id) in told}, calls)]
            texts = []
            continue
        for block in msg.tool_results:
            if (calls[block.id].at, block.id) in told:  # behind the results beside it, which stay next to their calls
                texts.append({"role": "user", "content": f"[What {block.name} said:]\n{block.text}"})
            else:
                items.append(_write_result(block, calls[block.id], _lost(msg)))
        if said := [*_write_said(msg)]:
            items += [*texts, *said]
            texts = []
    return [*items, *texts]


class _Call(NamedTuple):
    """What a result answers: where the call stands, and its kind. As it begins, one that is gone."""

    at: int = -1
    kind: str = "function_call"


def _answered_calls(messages: Iterable[Msg]) -> list[dict[str, _Call]]:
    """For each message the calls that its results answer, by id: the newest that has the id."""
    calls: dict[str, _Call] = {}
    answered = []
    for at, msg in enumerate(messages):
        calls.update((use.id, _Call(at, _kind_of(use))) for use in msg.tool_uses)
        answered.append({block.id: calls.get(block.id, _Call()) for block in msg.tool_results})
    return answered


def _fits(block: ToolResultBlock, call: _Call, *, changed: bool) -> bool:
    """Whether the item that answers this call can hold what the result says."""
    known = _form_of(block, call)
    if "type" not in known:
        return call.kind in _OUTPUTS
    if known.get("shape") == "screenshot":
        return _image_in(block) is not None
    return not changed or known.get("shape") not in ("json", "missing")


def _form_of(block: ToolResultBlock, call: _Call) -> Mapping[str, Any]:
    """What is remembered of a result's item; {} if the item is of another kind than the call, which the API refuses.

    Such a result is written like one from elsewhere.
    """
    known = _known(block)
    # `tool_search_output` is without "_call", and other kinds have it.
    kind = str(known.get("type", "")).removesuffix("_output").removesuffix("_call")
    return known if call.at < 0 or kind == call.kind.removesuffix("_call") else {}


def _kind_of(use: ToolUseBlock) -> str:
    """The type of the item that stands for a call."""
    if "kind" in _known(use):
        return use.name
    return "custom_tool_call" if openai_hints(use).get("custom") else "function_call"


def _write_said(msg: Msg) -> Iterator[dict[str, Any]]:
    """What a message of others than the model says beside its results."""
    lost = _lost(msg)
    blocks = [b for b in msg.content if not isinstance(b, ToolResultBlock | ThinkingBlock)]
    whole = _known(blocks[0]).get("whole") if len(blocks) == 1 else None
    if whole is not None and carries(blocks[0], _text_of_item(whole)):
        yield thaw(whole)
    elif blocks or not msg.tool_results:
        known = _known(msg)
        role = known.get("role") if msg.role == "system" and known else "user" if msg.role == "tool" else msg.role
        content = _write_content(blocks, known.get("shape"), "input_text", lost)
        yield put_back({"role": role, **content}, known.get("item"), lost)


def _write_output(msg: Msg, told: set[str], calls: Mapping[str, _Call]) -> Iterator[dict[str, Any]]:
    lost = _lost(msg)
    spoken: list[Any] = []
    for block in msg.content:
        if spoken and (not isinstance(block, TextBlock | ImageBlock) or _known(block).keys() & {"item", "whole"}):
            yield _write_spoken(spoken, lost)
            spoken = []
        whole = _known(block).get("whole")
        if whole is not None and carries(block, _text_of_item(whole)):
            yield thaw(whole)
        elif isinstance(block, ToolUseBlock):
            yield _write_call(block, told=block.id in told)
        elif not isinstance(block, ToolResultBlock | ThinkingBlock):
            spoken.append(block)
    if spoken or not msg.content:
        yield _write_spoken(spoken, lost)
    for result in msg.tool_results:
        yield _write_result(result, calls[result.id], lost)


def _lost(msg: Msg) -> Collection[str]:
    return _ABOUT_THE_TEXT if is_rewritten(msg) else ()


def _write_spoken(blocks: list[Any], lost: Collection[str]) -> dict[str, Any]:
    known = _known(blocks[0]) if blocks else {}
    if known.get("nothing") and not blocks[0].text:
        blocks = blocks[1:]
    content = _write_content(blocks, known.get("shape"), "output_text", lost)
    return put_back({"role": "assistant", **content}, known.get("item"), lost)


def _write_content(
    blocks: list[Any], shape: Any, text_kind: str, lost: Collection[str], key: str = "content"
) -> dict[str, Any]:
    if not blocks and shape in ("null", "missing"):
        return {} if shape == "missing" else {key: None}
    if shape == "parts" or (any(not isinstance(b, TextBlock) for b in blocks) and text_kind == "input_text"):
        return {key: [_write_part(b, text_kind, lost) for b in blocks]}
    return {key: "\n".join(map(stand_in, blocks))}


def _write_part(block: Any, text_kind: str, lost: Collection[str]) -> dict[str, Any]:
    known = _known(block)
    if "carried" in known and carries(block, _text_of_part(known["carried"])):
        item: dict[str, Any] = thaw(known["carried"])
        return item
    more = put_back({}, known.get("rest"), lost)
    if isinstance(block, ImageBlock):
        detail = {} if known else {"detail": "auto"}
        return put_back({"type": "input_image", "image_url": url_of(block), **detail}, more)
    kind = str(known.get("part") or text_kind)
    if not isinstance(block, TextBlock):
        return {"type": text_kind, "text": stand_in(block)}
    needed: dict[str, Any] = {"annotations": [], "logprobs": []} if lost and kind == "output_text" else {}
    return put_back({"type": kind, _TEXT_PARTS.get(kind, "text"): block.text}, {**needed, **more})


def _write_call(block: ToolUseBlock, *, told: bool) -> dict[str, Any]:
    known = _known(block)
    special = known.get("kind")
    if told:
        return {"role": "assistant", "content": f"[{block.name}: {json.dumps(thaw(block.input), ensure_ascii=False)}]"}
    if special is not None:
        return put_back({"type": block.name, "call_id": block.id, **thaw(block.input)}, special)
    return put_back({"type": _kind_of(block), "call_id": block.id, **write_function(block)}, known.get("item"))


def _write_result(block: ToolResultBlock, call: _Call, lost: Collection[str]) -> dict[str, Any]:
    known = _form_of(block, call)
    kind = known.get("type") or _OUTPUTS.get(call.kind, "function_call_output")
    item: dict[str, Any] = {"type": kind, "call_id": block.id}
    if kind == "apply_patch_call_output" and not known:
        item["status"] = "failed" if block.is_error else "completed"
    shape = known.get("shape")
    if shape == "json":
        # The first: what a second result of the call has said stands below it, and is no JSON.
        item["output"] = json.JSONDecoder().raw_decode(block.text)[0]
    elif shape == "screenshot":
        item["output"] = None
        if image := _image_in(block):
            shot = {"type": "computer_screenshot", "image_url": url_of(image)}
            item["output"] = put_back(shot, _known(image).get("rest"))
    elif shape != "missing":
        output = [TextBlock(text=block.output)] if isinstance(block.output, str) and block.output else block.output
        blocks = [b for b in output if not isinstance(b, str | ThinkingBlock)]
        item |= _write_content(blocks, shape, "input_text", lost, key="output")
    return put_back(item, known.get("rest"))


def _image_in(block: ToolResultBlock) -> ImageBlock | None:
    return next((b for b in block.output if isinstance(b, ImageBlock)), None)
