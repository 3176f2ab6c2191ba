"""pydantic-ai's messages as messages of this library, and back, without loss.

`to_pydantic_ai(from_pydantic_ai(x))` has the JSON of x. A ModelRequest becomes one message for each of its parts (what
the user said, a tool's return, ...), a ModelResponse one message. Their ids are made from what they say and when, so
that a history that comes back, from JSON too, is known again; `recognized` knows one that was made anew. What blocks
have no field for stands under `metadata["_pydantic_ai"]` of message and block; kinds of parts that no block has are
carried along as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from autocontext.errors import needs_extra
from autocontext.formats.blocks import MEDIA, Media, carried_text, carries, hints_of
from autocontext.formats.compactions import compaction_block
from autocontext.formats.openai_calls import read_function, write_function
from autocontext.formats.openai_parts import stand_in
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, as_messages, thaw

with needs_extra("autocontext.adapters.pydantic_ai", "pydantic-ai"):
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

KEY = "_pydantic_ai"
_OF_URLS = {"force_download": False, "vendor_metadata": None, "media_type": None}
"""What the framework writes of every address: an address in a tool's return without all of it is no file, but data."""
_known, _remember = hints_of(KEY)


# --------------------------------------------------------------------------------------------------------- reading
def from_pydantic_ai(messages: Iterable[ModelMessage]) -> list[Msg]:
    """Messages as Msgs: one for each part of a request, one for each response."""
    return [msg for message in messages for msg in read_one(message)]


def read_one(message: ModelMessage) -> list[Msg]:
    """The Msgs that stand for one message; their ids begin with the same letters."""
    [document] = ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=repr)
    own = _digest(document)
    known = {k: v for k, v in document.items() if k != "parts" and v is not None and v != {}}
    if document["kind"] == "response":
        blocks = [_read_spoken(part) for part in document["parts"]]
        return [Msg(id=own, role="assistant", content=blocks, metadata=_remember(message=known), **_said_at(document))]
    parts = document["parts"]
    return [
        Msg(
            **_read_part(part),
            id=f"{own}.{i}",
            metadata=_remember(message=known, of=len(parts)),
            **_said_at(part, document),
        )
        for i, part in enumerate(parts)
    ]


def _said_at(*places: Mapping[str, Any]) -> dict[str, Any]:
    """When it was said, by the first of these that tells."""
    moments = (place.get("timestamp") for place in places)
    return next(({"timestamp": moment} for moment in moments if moment), {})


def _digest(document: Mapping[str, Any]) -> str:
    """An id from what a message says and when; the rest may be filled in later."""
    identity = [document["kind"], document["parts"], document["timestamp"] if document["kind"] == "response" else None]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]


def is_prompt(msg: Msg) -> bool:
    """Whether this is a system prompt that holds for a whole conversation."""
    part = _prompt(msg)
    return part.get("part_kind") == "system-prompt" and part.get("scope") != "request"


def is_appended(msg: Msg) -> bool:
    """Whether this is a system prompt that stays where it was said: a later one tells the model what has changed."""
    return is_prompt(msg) and "context_id" in _prompt(msg)


def is_dynamic(msg: Msg) -> bool:
    """Whether this is a system prompt that the framework evaluates anew in its place at the start of each run."""
    return is_prompt(msg) and "dynamic_ref" in _prompt(msg) and not is_appended(msg)


def is_interrupted(msg: Msg) -> bool:
    """Whether this is what the framework says, at the start of a later run, of a call that has no result."""
    return any(_known(result).get("part", {}).get("outcome") == "interrupted" for result in msg.tool_results)


def _prompt(msg: Msg) -> Mapping[str, Any]:
    return _known(msg.content[0]).get("part", {}) if msg.role == "system" and msg.content else {}


def opening_prompts(originals: Iterable[Msg]) -> dict[str, str]:
    """The texts, by their ids, of the system prompts with which runs began: an agent's, not what was said in a run."""
    found: dict[str, str] = {}
    runs: set[str | None] = set()
    for _, parts in groupby(originals, key=_stem):
        group = list(parts)
        run = _known(group[0]).get("message", {}).get("run_id")
        # What is made outside of a run has no run's id, and is an agent's own at the beginning only.
        is_first = run not in runs and (run is not None or not runs)
        # Of a request that is known already, a prompt alone is new: one that was evaluated anew.
        if is_first or len(group) < _known(group[0]).get("of", 1):
            found |= {msg.id: msg.text for msg in group if is_prompt(msg)}
        runs.add(run)
    return found


_PLACES = 20
"""Where a history may begin: so many of the last places at which its first words were said are tried."""


def recognized(history: Sequence[Msg], originals: Sequence[Msg]) -> dict[str, str]:
    """The ids of the originals that a history says again under other ids, by those ids.

    Front ends and databases make the messages anew for each run, with other times. They may leave out calls, results
    and thinking, but none of the user's words: behind a message that is known, the search ends at the next of those.
    They may leave out the beginning: words said often are where most of what follows was said, and last.
    A last message with nothing known before it is the newest there is, or new.
    """
    places = {msg.id: i for i, msg in enumerate(originals)}
    if all(msg.id in places for msg in history):
        return {}
    said = [_said(msg) for msg in originals]
    where: dict[tuple[Any, ...], list[int]] = {}
    for at, words in enumerate(said):
        where.setdefault(words, []).append(at)
    told = [(msg.id, places.get(msg.id), _said(msg)) for msg in history]
    for i, (_, known, words) in enumerate(told):
        starts = where.get(words, []) if words and known is None else []
        if known is not None:
            starts = [known]
        elif i == len(told) - 1:
            starts = starts[-1:] if starts[-1:] == [len(said) - 1] else []
        if starts:
            tried = dict.fromkeys([*reversed(starts[-_PLACES:]), starts[0]])
            found = max((_from(start, told[i:], said) for start in tried), key=len)
            return {id_: originals[at].id for id_, at in found.items() if id_ not in places}
    return {}


def _from(
    start: int, told: Sequence[tuple[str, int | None, tuple[Any, ...]]], said: Sequence[tuple[Any, ...]]
) -> dict[str, int]:
    """The places of what is known of a history whose first message is at `start`, by the history's ids."""
    found = {told[0][0]: start}
    start += 1
    for id_, known, words in told[1:]:
        at = _next(said, words, start, found.values()) if known is None and words else known
        if at is not None:
            found[id_] = at
            # Requests that are joined have results before what stood between them.
            start = start if words[:1] == ("tool",) else max(start, at + 1)
    return found


def _next(said: Sequence[tuple[Any, ...]], words: tuple[Any, ...], start: int, taken: Collection[int]) -> int | None:
    """The next place of these words: before the user's next, and of a result before the next response."""
    last = ("assistant",) if words[:1] == ("tool",) else ("user",)
    for i in range(start, len(said)):
        if said[i] == words and i not in taken:
            return i
        if said[i][:1] == last:
            return None
    return None


def _said(msg: Msg) -> tuple[Any, ...]:
    """What a message says, however it was put into parts; () of one that has only thinking."""
    blocks = [b for b in msg.content if not isinstance(b, ThinkingBlock) and (b.type != "text" or b.text)]
    said = [(b.type, b.id) if isinstance(b, ToolUseBlock | ToolResultBlock) else _plain(b) for b in blocks]
    return (msg.role, *said) if said else ()


def _plain(block: Any) -> tuple[Any, ...]:
    return (block.type, block.text if isinstance(block, TextBlock) else json.dumps(block.source, sort_keys=True))


def _rest(part: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {k: v for k, v in part.items() if k not in known and v is not None}


def _read_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Role and content of the message that stands for a part of a request."""
    kind, content = part["part_kind"], part.get("content")
    if kind in ("tool-return", "retry-prompt") and part.get("tool_name") is not None:
        output, shape = _read_output(content)
        error = kind == "retry-prompt" or part.get("outcome") not in (None, "success")
        known = _remember(part=_rest(part, "content", "tool_name", "tool_call_id"), shape=shape)
        call = {"id": part["tool_call_id"], "name": part["tool_name"], "is_error": error}
        return {"role": "tool", "content": [ToolResultBlock(**call, output=output, metadata=known)]}
    # What the framework says by itself, such as that an answer was empty, is no turn of the user's.
    role = "user" if kind == "user-prompt" else "system"
    if isinstance(content, str):
        return {"role": role, "content": [TextBlock(text=content, metadata=_remember(part=_rest(part, "content")))]}
    if kind == "user-prompt" and isinstance(content, list):
        blocks = [_read_item(item) for item in content]
        marker = TextBlock(text="", metadata=_remember(part=_rest(part, "content"), list=True))
        return {"role": role, "content": [marker, *blocks]}
    return {"role": role, "content": [TextBlock(text=_text_of(part), metadata=_remember(whole=dict(part)))]}


def _text_of(part: Any) -> str:
    """What a part or an item that is carried along reads like."""
    if not isinstance(part, Mapping):
        return f"[data]\n{json.dumps(thaw(part), ensure_ascii=False, sort_keys=True)}"
    return carried_text(part, part.get("part_kind") or part.get("kind") or "data")


def _read_output(content: Any) -> tuple[Any, str]:
    """What a tool gave, as a result block holds it, and its shape."""
    if isinstance(content, str):
        return content, "text"
    if isinstance(content, list) and any(isinstance(item, dict) and "kind" in item for item in content):
        return tuple(_read_item(item) for item in content), "list"
    return json.dumps(content, ensure_ascii=False), "json"


def _item(item: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """All other fields of an item, also null: the framework knows a file of its own by all that it has written."""
    return {k: v for k, v in item.items() if k not in known}


def _read_item(item: Any) -> Any:
    """One item of a user's content, or of what a tool gave."""
    if isinstance(item, str):
        return TextBlock(text=item)
    kind = item.get("kind") if isinstance(item, dict) else None
    medium = str(item.get("media_type") or "").partition("/")[0] if kind == "binary" else str(kind).partition("-")[0]
    if kind == "binary" and medium in MEDIA and isinstance(item.get("data"), str):
        source = {"type": "base64", "media_type": item["media_type"], "data": item["data"]}
        return MEDIA[medium](source=source, metadata=_remember(item=_item(item, "data", "media_type")))
    if medium in MEDIA and isinstance(item, dict) and isinstance(item.get("url"), str):
        source = {"type": "url", "url": item["url"]}
        return MEDIA[medium](source=source, metadata=_remember(item=_item(item, "url")))
    if kind == "text" and isinstance(item.get("content"), str):
        return TextBlock(text=item["content"], metadata=_remember(item=_rest(item, "content")))
    return TextBlock(text=_text_of(item), metadata={KEY: {"whole": item}})


def _read_spoken(part: Mapping[str, Any]) -> Any:
    kind, content = part["part_kind"], part.get("content")
    if kind == "text":
        return TextBlock(text=content or "", metadata=_remember(part=_rest(part, "content")))
    if kind == "thinking":
        return ThinkingBlock(thinking=content or "", metadata=_remember(part=_rest(part, "content")))
    if kind == "tool-call":
        args = part.get("args")
        text = args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
        call = read_function({"name": part["tool_name"], "arguments": text}, part["tool_call_id"])
        known = _remember(
            part=_rest(part, "args", "tool_name", "tool_call_id"),
            form=None if isinstance(args, str) else "none" if args is None else "object",
        )
        return call.model_copy(update={"metadata": {**call.metadata, **known}})
    if kind == "compaction" and part.get("provider_name"):
        # Its own part says "content" for Claude's text and keeps OpenAI's encrypted content among the details.
        details = part.get("provider_details") or {}
        item = {"content": content} if content else {"encrypted_content": details.get("encrypted_content")}
        return compaction_block(item, _remember(whole=dict(part)))
    return TextBlock(text=_text_of(part), metadata=_remember(whole=dict(part)))


# --------------------------------------------------------------------------------------------------------- writing
def to_pydantic_ai(messages: Iterable[Msg]) -> list[ModelMessage]:
    """Msgs as pydantic-ai's messages; the parts of one request stand together again where all of them are there.

    Thinking that came from elsewhere stays out. Raises InvalidMessage naming the index of what is not a Msg.
    """
    messages_out: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python(list(_written(as_messages(messages))))
    return messages_out


def groups(messages: Iterable[Msg]) -> Iterator[list[Msg]]:
    """Messages in groups: the parts of one request in their order, or a message by itself."""
    group: list[Msg] = []
    for msg in messages:
        if group and (_stem(msg) != _stem(group[0]) or _number(msg) != len(group)):
            yield group
            group = []
        group.append(msg)
        if len(group) == _known(msg).get("of", 1) and _number(group[0]) == 0:
            yield group
            group = []
    if group:
        yield group


def _stem(msg: Msg) -> str:
    return msg.id.partition(".")[0]


def _number(msg: Msg) -> int:
    number = msg.id.partition(".")[2]
    return int(number) if number.isdigit() else 0


def _written(messages: Sequence[Msg]) -> Iterator[dict[str, Any]]:
    for group in groups(messages):
        own = thaw(_known(group[0]).get("message") or {})
        if group[0].role == "assistant":
            yield {**own, "kind": "response", "parts": [p for b in group[0].content for p in _write_spoken(b)]}
        else:
            yield {**own, "kind": "request", "parts": [p for msg in group for p in _write_parts(msg)]}


def _write_parts(msg: Msg) -> Iterator[dict[str, Any]]:
    for result in msg.tool_results:
        known = _known(result)
        part = thaw(known.get("part") or {"part_kind": "tool-return"})
        content = _write_output(result, known.get("shape"))
        call = {"tool_name": result.name or "tool", "tool_call_id": result.id}
        yield {**part, **call, "content": content}
    blocks: list[Any] = [b for b in msg.content if not isinstance(b, ToolResultBlock | ThinkingBlock)]
    if not blocks:
        if not msg.tool_results:
            yield {"part_kind": "user-prompt", "content": ""}
        return
    first = _known(blocks[0])
    if "whole" in first and len(blocks) == 1 and _carries(blocks[0]):
        yield thaw(first["whole"])
        return
    kind = {"part_kind": "system-prompt" if msg.role == "system" else "user-prompt"}
    part = {**kind, **thaw(first.get("part") or {})}
    listed = first.get("list")
    if not listed and (msg.role == "system" or all(isinstance(b, TextBlock) for b in blocks)):
        yield {**part, "content": "\n".join(map(stand_in, blocks))}
    else:
        yield {**part, "content": [_write_item(b) for b in (blocks[1:] if listed and not blocks[0].text else blocks)]}


def _carries(block: Any) -> bool:
    """Whether a block still says what the part says that it carries along; in earlier versions, its content alone."""
    whole = _known(block)["whole"]
    content = whole.get("content") if isinstance(whole, Mapping) else None
    shown = content if isinstance(content, str | None) else json.dumps(thaw(content), ensure_ascii=False)
    return carries(block, _text_of(whole)) or (shown is not None and block.text == shown)


def _write_output(block: ToolResultBlock, shape: Any) -> Any:
    if not isinstance(block.output, str):
        return [_write_item(b) for b in block.output if not isinstance(b, ThinkingBlock)]
    with suppress(ValueError):  # a compression's preview is no JSON
        return json.loads(block.output) if shape == "json" else block.output
    return block.output


def _write_item(block: Any) -> Any:
    known = _known(block)
    if "whole" in known and _carries(block):
        return thaw(known["whole"])
    item = thaw(known.get("item") or {})
    if isinstance(block, TextBlock):
        return {**item, "content": block.text} if item else block.text
    if block.source["type"] == "url":
        return {"kind": f"{block.type}-url", **_OF_URLS, **item, "url": block.source["url"]}
    return {"kind": "binary", **item, "data": block.source["data"], "media_type": block.source["media_type"]}


def _write_spoken(block: Any) -> Iterator[dict[str, Any]]:
    known = _known(block)
    if "whole" in known and _carries(block):
        yield thaw(known["whole"])
        return
    part = thaw(known.get("part") or {})
    if isinstance(block, TextBlock):
        yield {"part_kind": "text", **part, "content": block.text}
    elif isinstance(block, ThinkingBlock) and part:
        yield {**part, "content": block.thinking}
    elif isinstance(block, ToolUseBlock):
        form = known.get("form")
        args = thaw(block.input) if form == "object" else write_function(block)["arguments"]
        args = None if form == "none" and not block.input else args
        yield {"part_kind": "tool-call", **part, "tool_name": block.name, "tool_call_id": block.id, "args": args}
    elif isinstance(block, Media):
        yield {"part_kind": "text", "content": stand_in(block)}
