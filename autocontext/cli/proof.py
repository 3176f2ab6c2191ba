"""Proof that what was compressed is still there: reloaded through the public API and compared with what was added."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autocontext import AutoContextMemory, ContextOffloadTool, Msg, TextBlock, ThinkingBlock, ToolResultBlock
from autocontext.messages import ContentBlock, OriginKind, ToolUseBlock

_KINDS: tuple[OriginKind, ...] = ("tool_run", "round_summary", "stub", "current_round", "fold")
_MORE = re.compile(r"\A\[[^\n]*; continue with offset=(\d+)\]\n")


@dataclass(frozen=True)
class Reloaded:
    """One offloaded item, as it was added and as it came back."""

    kind: OriginKind
    uuid: str
    messages: int
    characters: int
    shown: int
    """Characters of the message that stands for it."""
    sha256_added: str
    """Over the whole messages (ids, roles, blocks, metadata, timestamps) as JSON lines, before they were added."""
    sha256_reloaded: str
    same_ids: bool
    same_messages: bool
    pages: int
    """How many calls of `context_reload` it took to read everything."""
    verbatim: bool
    """Whether every text, argument and output stands in those pages word for word."""

    @property
    def identical(self) -> bool:
        """Whether all of it came back as it was."""
        same = self.sha256_added == self.sha256_reloaded
        return same and self.same_ids and self.same_messages and self.verbatim


def reachable(memory: AutoContextMemory) -> set[str]:
    """The originals (as JSON) in the view or behind the UUIDs in them, however many steps away."""
    originals: set[str] = set()
    seen: set[str] = set()
    todo = memory.messages
    while todo:
        msg = todo.pop()
        if msg.origin is None:
            originals.add(json.dumps(msg.to_dict()))
        elif msg.origin.uuid and msg.origin.uuid not in seen:
            seen.add(msg.origin.uuid)
            todo.extend(memory.reload(msg.origin.uuid))
    return originals


def reload_some(
    memory: AutoContextMemory, added: Sequence[Msg], before: Sequence[str], count: int = 3
) -> list[Reloaded]:
    """Up to `count` items, of different kinds as far as there are, the largest of each; `before` is `added` as JSON."""
    items = _items(memory)
    chosen: list[str] = []
    for kind in _KINDS:
        chosen += [uuid for uuid, note in items.items() if _kind(note) == kind][:1]
    chosen += [uuid for uuid in items if uuid not in chosen]
    return [_reloaded(memory, uuid, items[uuid], added, before) for uuid in chosen[:count]]


def _items(memory: AutoContextMemory) -> dict[str, Msg]:
    """By UUID what stands for every offload entry, the one with most behind it first."""
    offloads = memory.get_offload_context()
    messages = (m for msgs in (memory.messages, *offloads.values()) for m in msgs)
    notes = {m.origin.uuid: m for m in messages if m.origin is not None}
    sizes = {u: sum(map(_size, _behind(msgs, offloads))) for u, msgs in offloads.items() if msgs and u in notes}
    return {uuid: notes[uuid] for uuid in sorted(sizes, key=lambda u: -sizes[u])}


def _behind(msgs: Iterable[Msg], offloads: Mapping[str, Sequence[Msg]]) -> Iterator[Msg]:
    """The messages of an entry, with those that a note among them stands for in its place, all the way down."""
    opened: set[str] = set()
    todo = list(msgs)[::-1]
    while todo:
        msg = todo.pop()
        uuid = msg.origin.uuid if msg.origin is not None else ""
        if uuid not in offloads:
            yield msg
        elif uuid not in opened:
            opened.add(uuid)
            todo.extend(reversed(offloads[uuid]))


def _reloaded(memory: AutoContextMemory, uuid: str, note: Msg, added: Sequence[Msg], before: Sequence[str]) -> Reloaded:
    back = memory.reload(uuid)
    known = dict(zip(before, added, strict=True))
    offloads = memory.get_offload_context()
    was = list(_at_most(Counter(before), [_as_added(m, known) for m in _behind(offloads[uuid], offloads)]))
    there = [known[line] for line in was if line in known]
    now = [json.dumps(m.to_dict()) for m in back]
    text, pages = _read_all(ContextOffloadTool(memory), uuid)
    return Reloaded(
        kind=_kind(note),
        uuid=uuid,
        messages=len(back),
        characters=sum(map(_size, back)),
        shown=_size(note),
        sha256_added=_sha256(was),
        sha256_reloaded=_sha256(now),
        same_ids=[m.id for m in there] == [m.id for m in back],
        same_messages=was == now,
        pages=pages,
        verbatim=all(part in text for msg in there for part in _texts(msg)),
    )


def _at_most(times: Counter[str], lines: Iterable[str]) -> Iterator[str]:
    """Each line as often as it was added.

    What stays in view beside a note stands in its entry too, and so twice behind a fold of both.
    """
    for line in lines:
        if not line or times[line] > 0:
            times[line] -= 1
            yield line


def _as_added(msg: Msg, known: Mapping[str, Msg]) -> str:
    """The line of JSON that a message was when it was added; several may have its id."""
    now = json.dumps(msg.to_dict())
    return now if now in known else next((line for line, m in known.items() if m.id == msg.id), "")


def _read_all(tool: ContextOffloadTool, uuid: str) -> tuple[str, int]:
    """What the agent reads, page after page, and how many pages that were."""
    parts: list[str] = []
    offset = 0
    while True:
        page = tool(working_context_offload_uuid=uuid, offset=offset)
        parts.append(page.partition("\n")[2])
        more = _MORE.match(page)
        if more is None or int(more[1]) <= offset:
            return "".join(parts), len(parts)
        offset = int(more[1])


def _texts(msg: Msg) -> Iterable[str]:
    """Every text in a message, in the form in which a reader can expect it."""
    for block in msg.content:
        yield from _text(block)


def _text(block: ContentBlock) -> Iterable[str]:
    if isinstance(block, TextBlock):
        yield block.text
    elif isinstance(block, ThinkingBlock):
        yield block.thinking
    elif isinstance(block, ToolUseBlock):
        yield json.dumps(block.input, ensure_ascii=False)
    elif isinstance(block, ToolResultBlock):
        parts = (TextBlock(text=block.output),) if isinstance(block.output, str) else block.output
        yield from (part.text for part in parts if isinstance(part, TextBlock))


def _kind(note: Msg) -> OriginKind:
    return note.origin.kind if note.origin is not None else "stub"


def _size(msg: Msg) -> int:
    return sum(map(len, _texts(msg)))


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
