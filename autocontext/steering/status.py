"""What takes the room of a context, and when the next pass is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from autocontext.compression.limits import Limits
from autocontext.history.numbering import parse, short_list
from autocontext.history.runs import Runs
from autocontext.history.view import View
from autocontext.messages import Msg, is_note, is_pinned
from autocontext.notes.calls import label_of, shorten
from autocontext.notes.values import argument_values, values_in
from autocontext.steering.parts import MemoryParts, as_text, counted
from autocontext.strategies.selection import RELOAD_ARGUMENT, RELOAD_TOOL
from autocontext.text.rendering import one_line

_MOST_BLOCKS = 16
"""Largest blocks that are listed."""
_LABEL = 56
"""Characters of a block's label."""


class Block(NamedTuple):
    """Messages of the view that belong together: a call with its results, a note, or a single message."""

    numbers: Runs
    """The originals that it is or stands for."""
    label: str
    tokens: int
    ago: int
    """Messages added since."""
    used: int
    """Later messages of the agent that name something which first stood here."""
    reloaded: int
    """How often originals of it were reloaded."""
    condensed: bool
    """Whether it is not what was said, but stands for it."""
    pinned: bool

    @property
    def line(self) -> str:
        """The block as a line of the status."""
        facts = [
            counted(self.tokens, "token"),
            f"{self.ago:,} ago",
            f"used {self.used}x" if self.used else "",
            f"reloaded {self.reloaded}x" if self.reloaded else "",
            "condensed" if self.condensed else "",
            "pinned" if self.pinned else "",
        ]
        return f"{short_list(self.numbers)} {self.label}: {', '.join(filter(None, facts))}"


@dataclass(frozen=True)
class ContextStatus:
    """A context at one moment; sizes in tokens."""

    window: int
    used: int
    overhead: int
    """Instructions and tool schemas."""
    trigger: int
    """From here on the next pass condenses the oldest messages."""
    messages: int
    originals: int
    blocks: tuple[Block, ...]
    near: bool
    """Whether the agent's next step will probably bring it."""
    receipt: str
    """What the last pass took out of view; "" if this process has made none."""

    @classmethod
    def of(cls, memory: MemoryParts) -> ContextStatus:
        """The status of a memory."""
        with memory.lock:
            last = memory.runner.last
            return cls(
                window=memory.config.max_token,
                used=memory.token_sum.total(),
                overhead=memory.token_sum.overhead,
                trigger=Limits.of(memory.config, early=memory.config.background).tokens,
                near=memory.runner.is_near(),
                messages=len(memory.log.view_ids),
                originals=len(memory.log.original),
                blocks=tuple(_blocks(memory)),
                receipt=last.receipt if last is not None else "",
            )

    def text(self) -> str:
        """The status as the agent reads it."""
        largest = sorted(self.blocks, key=lambda b: -b.tokens)[:_MOST_BLOCKS]
        lines = [b.line for b in self.blocks if b in largest]
        rest = [b for b in self.blocks if b not in largest]
        if rest:
            lines.append(f"and {counted(len(rest), 'smaller block')}: {counted(sum(b.tokens for b in rest), 'token')}")
        condensed = Runs.union(b.numbers for b in self.blocks if b.condensed)
        used = f"{self.used:,} of {self.window:,} tokens are used ({self.used * 100 // self.window} %)"
        left = self.trigger - self.used
        soon = ", probably after this step" if self.near else ""
        due = f" at the latest, {left:,} from now{soon}." if left > 0 else ": it is due."
        head = [
            f"{used}, {self.overhead:,} of them by instructions and tools.",
            f"{counted(self.messages, 'message')} in view of {self.originals:,}.",
            f"The next pass condenses the oldest messages at {self.trigger:,} tokens{due}",
        ]
        if condensed:
            head.append(f'Condensed: {short_list(condensed)}; context_reload("m...") reads them.')
        if self.receipt:
            head.append(f"Last pass: {self.receipt}")
        return "\n".join([*head, "In view, oldest first (ages in messages):", *lines])


def _blocks(memory: MemoryParts) -> Iterator[Block]:
    log = memory.log
    view = View(log.view_ids, log.view_messages)
    groups = list(_groups(view))
    uses = _uses(view, groups)
    reloads = _reloads(memory)
    for group in groups:
        first = view.messages[group[0]]
        numbers = log.numbers(view.ids[i] for i in group)
        yield Block(
            numbers=numbers,
            label=_label(first),
            tokens=sum(memory.token_sum.count(view.ids[i], view.messages[i]) for i in group),
            ago=len(log.original) - (numbers.pairs[-1][1] if numbers else len(log.original)),
            used=uses[group[0]],
            reloaded=sum(not set(numbers).isdisjoint(asked) for asked in reloads),
            condensed=any(view.ids[i] in log.replaced for i in group),
            pinned=any(is_pinned(view.messages[i]) for i in group),
        )


def _groups(view: View) -> Iterator[list[int]]:
    """The indices of each block."""
    taken: set[int] = set()
    for i in range(len(view)):
        if i not in taken:
            group = view.exchange(i)
            taken.update(group)
            yield group


def _label(msg: Msg) -> str:
    if is_note(msg):
        return "note"
    if msg.tool_uses:
        use = msg.tool_uses[0]
        more = f" and {len(msg.tool_uses) - 1} more" if len(msg.tool_uses) > 1 else ""
        return shorten(one_line(f"{use.name} {label_of(use.input)}".strip()), _LABEL) + more
    return shorten(one_line(f"{msg.role}, {msg.text}" if msg.text else msg.role), _LABEL)


def _uses(view: View, groups: list[list[int]]) -> Counter[int]:
    """By a block's first index, how many later messages of the agent name a value that first stood in the block."""
    block_of = {i: group[0] for group in groups for i in group}
    first: dict[str, int] = {}
    uses = Counter[int]()
    for i, m in enumerate(view.messages):
        if m.role == "assistant":
            named = values_in(m.text).union(*(argument_values(use.input) for use in m.tool_uses))
            uses.update({first[value] for value in named if value in first} - {block_of[i]})
        elif not is_note(m):
            for value in values_in("\n".join(m.texts())):
                first.setdefault(value, block_of[i])
    return uses


def _reloads(memory: MemoryParts) -> list[set[int]]:
    """For each call of `context_reload`, the numbers of the messages that it asked for."""
    total = len(memory.log.original)
    uses = (use for id_ in memory.log.original for use in memory.log.messages[id_].tool_uses)
    keys = (as_text(use.input.get(RELOAD_ARGUMENT)) for use in uses if use.name.endswith(RELOAD_TOOL))
    return [set(_asked(memory, key, total)) for key in keys]


def _asked(memory: MemoryParts, key: str, total: int) -> list[int]:
    found = parse(key, total)
    if found is not None:
        return found
    log = memory.log
    uuid = next((uuid for uuid in log.offloads if uuid in key), "") or log.handle(key)
    return list(log.numbers(log.offloads.get(uuid, ())))
