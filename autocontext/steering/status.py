"""What takes the room of a context, and when the next pass is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from autocontext.compression.limits import Limits
from autocontext.history.numbering import parse, short_list
from autocontext.history.runs import Runs
from autocontext.history.view import View
from autocontext.messages import Msg, is_note, is_pinned
from autocontext.notes.calls import label_of, shorten
from autocontext.notes.values import argument_values, values_in
from autocontext.steering.parts import MemoryParts, counted
from autocontext.strategies.selection import RELOAD_ARGUMENT, RELOAD_TOOL
from autocontext.text.rendering import one_line
from autocontext.tools import as_text

_MOST_BLOCKS = 16
"""Largest blocks that are listed."""
_LABEL = 56
"""Characters of a block's label."""


class Block(NamedTuple):
    """Messages of the view that belong together: a call with its results, a note, or a single message."""

    numbers: Runs
    """The originals that it is or stands for."""
    tokens: int
    condensed: bool
    """Whether it is not what was said, but stands for it."""
    line: str
    """What the status says of it."""


def status(memory: MemoryParts) -> str:
    """How full a context is, what takes the room, and when the next pass is due, as the agent reads it."""
    with memory.lock:
        log, last, config = memory.log, memory.runner.last, memory.config
        used, overhead = memory.token_sum.total(), memory.token_sum.overhead
        trigger = Limits.of(config, early=config.background).tokens
        near = memory.runner.is_near()
        in_view, originals = len(log.view_ids), len(log.original)
        blocks = list(_blocks(memory))
    full = f"{used:,} of {config.max_token:,} tokens are used ({used * 100 // config.max_token} %)"
    left = trigger - used
    soon = ", probably after this step" if near else ""
    due = f" at the latest, {left:,} from now{soon}." if left > 0 else ": it is due."
    lines = [
        f"{full}, {overhead:,} of them by instructions and tools.",
        f"{counted(in_view, 'message')} in view of {originals:,}.",
        f"The next pass condenses the oldest messages at {trigger:,} tokens{due}",
    ]
    if condensed := Runs.union(b.numbers for b in blocks if b.condensed):
        lines.append(f'Condensed: {short_list(condensed)}; context_reload("m...") reads them.')
    if last is not None and last.receipt:
        lines.append(f"Last pass: {last.receipt}")
    largest = sorted(blocks, key=lambda b: -b.tokens)[:_MOST_BLOCKS]
    lines += ["In view, oldest first (ages in messages):", *(b.line for b in blocks if b in largest)]
    if rest := [b for b in blocks if b not in largest]:
        lines.append(f"and {counted(len(rest), 'smaller block')}: {counted(sum(b.tokens for b in rest), 'token')}")
    return "\n".join(lines)


def _blocks(memory: MemoryParts) -> Iterator[Block]:
    log = memory.log
    view = log.view()
    groups = list(_groups(view))
    uses = _uses(view, groups)
    reloads = _reloads(memory)
    for group in groups:
        ids, messages = [view.ids[i] for i in group], [view.messages[i] for i in group]
        numbers = log.numbers(ids)
        tokens = sum(map(memory.token_sum.count, ids, messages))
        since = len(log.original) - numbers.pairs[-1][1] if numbers else 0
        used = uses[group[0]]
        reloaded = sum(not set(numbers).isdisjoint(asked) for asked in reloads)
        condensed = any(id_ in log.replaced for id_ in ids)
        facts = [
            counted(tokens, "token"),
            f"{since:,} ago",
            f"used {used}x" if used else "",  # by later messages of the agent, which name something of it
            f"reloaded {reloaded}x" if reloaded else "",
            "condensed" if condensed else "",
            "pinned" if any(map(is_pinned, messages)) else "",
        ]
        line = f"{short_list(numbers)} {_label(messages[0])}: {', '.join(filter(None, facts))}"
        yield Block(numbers, tokens, condensed, line)


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


def _asked(memory: MemoryParts, key: str, total: int) -> Runs:
    found = parse(key, total)
    if found is not None:
        return found
    log = memory.log
    uuid = next((uuid for uuid in log.offloads if uuid in key), "") or log.handle(key)
    return log.numbers(log.offloads.get(uuid, ()))
