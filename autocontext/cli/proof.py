"""Reloads compressed messages through the public API and compares them with what was added."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autocontext import AutoContextMemory, ContextOffloadTool, Msg, ThinkingBlock
from autocontext.content import planning
from autocontext.messages import OriginKind
from autocontext.text import rendering
from autocontext.text.quoting import quoted

_KINDS: tuple[OriginKind, ...] = ("tool_run", "round_summary", "stub", "current_round", "fold", "archive")
_MORE = re.compile(r"; continue with offset=(\d+)\]$")


@dataclass(frozen=True)
class ReloadCheck:
    """One offloaded item: as it was added, and as it was reloaded."""

    kind: OriginKind
    uuid: str
    messages: int
    characters: int
    note_characters: int
    """Characters of the message that replaces it."""
    sha256_added: str
    """Of the whole messages (ids, roles, blocks, metadata, timestamps) as JSON lines, before they were added."""
    sha256_reloaded: str
    pages: int
    """Number of `context_reload` calls to read everything."""
    verbatim: bool
    """Whether those pages contain every text, argument and output, their lines as they are or quoted."""

    @property
    def identical(self) -> bool:
        """Whether everything was reloaded exactly."""
        return self.sha256_added == self.sha256_reloaded and self.verbatim


def reachable(memory: AutoContextMemory) -> set[str]:
    """The originals (as JSON) in the view or behind the UUIDs in them, however many steps away."""
    originals: set[str] = set()
    uuids: set[str] = set()
    todo = memory.messages
    while todo:
        msg = todo.pop()
        if msg.origin is None:
            originals.add(json.dumps(msg.to_dict()))
        elif msg.origin.uuid and msg.origin.uuid not in uuids:
            uuids.add(msg.origin.uuid)
            todo.extend(memory.reload(msg.origin.uuid))
    return originals


def reload_some(memory: AutoContextMemory, added: Sequence[Msg], before: Sequence[str]) -> list[ReloadCheck]:
    """Reload up to three items: the largest of each kind first. `before` is `added` as JSON.

    A note that was written anew stands for the same messages as before: one of the two is reloaded.
    """
    offloads = memory.get_offload_context()
    messages = (m for msgs in (memory.messages, *offloads.values()) for m in msgs)
    notes = {m.origin.uuid: (m.origin.kind, _size(m)) for m in messages if m.origin is not None}
    behind = {uuid: list(_behind(msgs, offloads)) for uuid, msgs in offloads.items() if msgs and uuid in notes}
    different = {tuple(m.id for m in msgs): uuid for uuid, msgs in behind.items()}.values()
    items = sorted(different, key=lambda uuid: -sum(map(_size, behind[uuid])))
    largest = {notes[uuid][0]: uuid for uuid in reversed(items)}
    uuids = dict.fromkeys([*(largest[kind] for kind in _KINDS if kind in largest), *items])
    return [_check(memory, uuid, *notes[uuid], behind[uuid], added=added, before=before) for uuid in [*uuids][:3]]


def _behind(msgs: Iterable[Msg], offloads: Mapping[str, Sequence[Msg]]) -> Iterator[Msg]:
    """The originals of an entry: each note among its messages is expanded, recursively."""
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


def _check(
    memory: AutoContextMemory, uuid: str, kind: OriginKind, size: int, behind: Iterable[Msg], *,
    added: Sequence[Msg], before: Sequence[str],
) -> ReloadCheck:  # fmt: skip
    by_line = dict(zip(before, added, strict=True))
    by_id = {m.id: line for line, m in reversed(by_line.items())}  # the first, as several may share an id
    left, lines_added = Counter(before), list[str]()
    for msg in behind:
        line = json.dumps(msg.to_dict())
        line = line if line in by_line else by_id.get(msg.id, "")
        # A message that stays in view next to a note is in the note's entry, too: a fold of both contains it twice.
        if not line or left[line] > 0:
            left[line] -= 1
            lines_added.append(line)
    reloaded = memory.reload(uuid)
    lines_reloaded = [json.dumps(m.to_dict()) for m in reloaded]
    read = [text for _, text in pages(ContextOffloadTool(memory), uuid)]
    shown = "".join(read)
    return ReloadCheck(
        kind=kind,
        uuid=uuid,
        messages=len(reloaded),
        characters=sum(map(_size, reloaded)),
        note_characters=size,
        sha256_added=_sha256(lines_added),
        sha256_reloaded=_sha256(lines_reloaded),
        pages=len(read),
        verbatim=all(
            quoted(part, at_start=False) in shown or part in shown
            for line in lines_added
            if line in by_line
            for part in _texts(by_line[line])
        ),
    )


def pages(tool: ContextOffloadTool, uuid: str) -> Iterator[tuple[str, str]]:
    """What the agent reads page by page: each page's head, and the text below it."""
    offset, more = -1, 0
    while more > offset:
        offset = more
        head, _, text = tool.page(uuid, offset).partition("\n")
        yield head, text
        following = _MORE.search(head)
        more = int(following[1]) if following else offset


def _texts(msg: Msg) -> Iterable[str]:
    """Every text in a message, as the reload tool shows it."""
    yield from (text for _, text, _ in planning.texts(msg))
    yield from map(rendering.arguments, msg.tool_uses)
    yield from (block.thinking for block in msg.content if isinstance(block, ThinkingBlock))


def _size(msg: Msg) -> int:
    return sum(map(len, _texts(msg)))


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
