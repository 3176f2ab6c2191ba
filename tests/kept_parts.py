"""What holds for every part that an adapter is given: never dropped, never a crash, back as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import COMPACTION, Origin

_SHORT = "This was long."
_FILLER = "The build went through all of its forty steps, and nothing of it was out of the ordinary.\n" * 40


@dataclass(frozen=True)
class Kept:
    """One way of parts into a memory and out of it, and of a part into a request."""

    read: Callable[[list[Any]], list[Msg]]
    write: Callable[[list[Msg]], list[Any]]
    view: Callable[[AutoContextMemory], list[Any]]
    """The request."""
    before: Callable[[Any], list[Any]] = lambda _part: []
    """What stands before a message: the call of a result."""
    message: Callable[[Any], list[Any]] = lambda part: [part]
    """The messages that hold a part, with what it never stands without."""
    shown: Callable[[Any, list[Any]], bool] | None = None
    """Whether a request holds the part, if not by the messages that hold it."""
    dumped: Callable[[Any], Any] = lambda message: message
    """What of a message must be the same."""

    def gives(self, msgs: list[Msg], part: Any) -> bool:
        """Whether these are written as the messages that hold the part."""
        return [self.dumped(m) for m in self.write(msgs)] == [self.dumped(m) for m in self.message(part)]

    def shows(self, view: list[Any], part: Any) -> bool:
        """Whether a request holds the part."""
        if self.shown is not None:
            return self.shown(part, view)
        sent = [self.dumped(m) for m in view]
        return all(self.dumped(m) in sent for m in self.message(part))


def check_kept(kept: Kept, parts: Sequence[Any], path: Path) -> None:
    """Every part alone, then all of them in one session that is condensed and opened again."""
    changed = []
    for part in parts:
        msgs = kept.read(kept.message(part))
        memory = AutoContextMemory()
        memory.add_messages([*_calls(kept, part), *msgs])
        view = kept.view(memory)
        if not kept.gives(msgs, part) or not kept.shows(view, part):
            changed.append((part, kept.write(msgs), view))
    assert not changed, _first(changed)
    _check_shortened(kept, parts)
    config = AutoContextConfig.for_window(8_000)
    numbers: list[tuple[int, int]] = []
    with AutoContextMemory.open(path, config=config, session_id="s") as memory:
        for i, part in enumerate(parts):
            memory.add_messages(_calls(kept, part))
            first = len(memory.get_original_memory_msgs()) + 1
            # As when one message is sent twice: the memory gives each its own id.
            memory.add_messages(_renamed(m, i) for m in kept.read(kept.message(part)))
            numbers.append((first, len(memory.get_original_memory_msgs())))
            if i % 4 == 0:
                _fill(memory)
            kept.view(memory)
        for _ in range(12):
            _fill(memory)
            kept.view(memory)
        assert memory.get_compression_events()
        assert len(memory.messages) < len(memory.get_original_memory_msgs())
        _check_originals(kept, parts, numbers, memory)
        before = [m.to_dict() for m in memory.messages]
    with AutoContextMemory.open(path, config=config, session_id="s") as memory:
        assert [m.to_dict() for m in memory.messages] == before
        _check_originals(kept, parts, numbers, memory)
        kept.view(memory)


def _check_shortened(kept: Kept, parts: Sequence[Any]) -> None:
    """What a compression has written in the place of a part's text is what is sent."""
    unsaid = []
    for part in parts:
        msgs = [_shortened(msg) for msg in kept.read(kept.message(part))]
        written = [kept.dumped(m) for m in kept.write(msgs)]
        if _SHORT in str([m.content for m in msgs]) and _SHORT not in str(written):
            unsaid.append((part, written))
    assert not unsaid, _first(unsaid)


def _shortened(msg: Msg) -> Msg:
    """The message as a compression leaves it: the first text says all, the others are gone."""
    at = next((i for i, b in enumerate(msg.content) if b.type == "text" and b.text and not _provided(b)), None)
    if at is None:
        return msg
    short = msg.content[at].model_copy(update={"text": _SHORT})
    others = [b for b in msg.content[at + 1 :] if b.type != "text" or _provided(b)]
    origin = Origin(uuid="u", kind="stub")
    return msg.model_copy(update={"content": (*msg.content[:at], short, *others), "origin": origin})


def _provided(block: Any) -> bool:
    """Whether a block is a provider's compaction, which no other changes."""
    return COMPACTION in block.metadata


def _fill(memory: AutoContextMemory) -> None:
    memory.add([{"role": "user", "content": "Go on."}, {"role": "assistant", "content": _FILLER}])


def _renamed(msg: Msg, number: int) -> Msg:
    head, dot, tail = msg.id.partition(".")
    return msg.model_copy(update={"id": f"{head}-{number}{dot}{tail}"})


def _calls(kept: Kept, part: Any) -> list[Msg]:
    return kept.read(kept.before(part))


def _check_originals(
    kept: Kept, parts: Sequence[Any], numbers: Sequence[tuple[int, int]], memory: AutoContextMemory
) -> None:
    lost = []
    for i, (part, (first, last)) in enumerate(zip(parts, numbers, strict=True)):
        reloaded = memory.reload(f"m{first}-m{last}")  # with the calls of results
        msgs = [m.model_copy(update={"id": own}) for m in reloaded if (own := _own(m.id, i))]
        if not kept.gives(msgs, part):
            lost.append((part, kept.write(msgs)))
    assert not lost, _first(lost)


def _first(wrong: Sequence[tuple[Any, ...]]) -> str:
    """The first of what is wrong, shortened: pytest shows nothing of long lists."""
    lines = ["\n  ".join(str(value)[:600] for value in case) for case in wrong[:3]]
    return "\n".join([f"{len(wrong)} parts", *lines])


def _own(id_: str, number: int) -> str:
    """The id before `_renamed`; "" for a message that was not renamed."""
    head, dot, tail = id_.partition(".")
    own, found, last = head.rpartition("-")
    return f"{own}{dot}{tail}" if found and last == str(number) else ""
