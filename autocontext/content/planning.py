"""Selects the texts of a history to prune: a pure function of the messages and the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from autocontext.content import placeholders
from autocontext.content.policy import PrunePolicy
from autocontext.history.view import View
from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock, is_compressed, is_pinned, is_user_turn
from autocontext.text.failures import first_line, is_failure

PRUNED = "pruned"
"""Metadata key of a block whose text was replaced: {"ref", "chars", "sha256"} of the text."""

Kind: TypeAlias = Literal["old_tool", "recent_tool", "user", "page"]


class Place(NamedTuple):
    """The position of a text: message, block, and block of the output if that is a list."""

    message: int
    block: int
    inner: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """The replacement of one text by a handle."""

    place: Place
    kind: Kind
    text: str
    name: str
    head: str = ""
    """The beginning that is kept."""
    error: str = ""
    """The first line of a failed result."""
    ref: str = ""
    """The handle of a text that is stored already: a page of the reload tool."""
    arguments: dict[str, Any] | None = None
    """Arguments with which the reload tool returns that page again."""
    mark: Mapping[str, Any] | None = None
    """The mark of a text that was cut to its beginning before; now the beginning goes, too."""

    @property
    def chars(self) -> int:
        """Characters of the stored text."""
        return len(self.text) if self.mark is None else int(self.mark["chars"])

    def replacement(self, ref: str) -> str:
        """The text that replaces it."""
        if self.kind == "page":
            return placeholders.page(ref, self.arguments or {})
        if self.kind in ("user", "recent_tool") or self.head:
            return placeholders.rest(self.head, self.chars, ref, "Truncated, " if self.kind == "user" else "")
        return placeholders.whole(self.name, self.chars, ref, self.error)

    @property
    def shrinks(self) -> bool:
        """Whether the replacement is shorter."""
        return len(self.replacement(self.ref or placeholders.ANY_REF)) < len(self.text)


def planned(messages: Sequence[Msg], policy: PrunePolicy, tokens: Callable[[str], int]) -> list[Change]:
    """The changes to make, in order; `tokens` counts a text."""
    tail = tail_start(messages, policy)
    users = [i for i, m in enumerate(messages) if is_user_turn(m)]
    cuttable = frozenset(users[1:-1]) if policy.prune_user else frozenset()
    calls: dict[str, ToolUseBlock] = {}
    due: list[Change] = []
    recent: dict[Place, Change] = {}
    """The smaller change that applies to a large result at once, and to an old one until its batch is full."""
    for i, m in enumerate(messages):
        calls.update((use.id, use) for use in m.tool_uses)
        if m.role == "system" or is_pinned(m) or is_compressed(m):
            continue
        for output in _outputs(m, i, calls):
            if (change := _recent(output, policy)) and change.shrinks:
                recent[output.place] = change
            if i < tail and (change := _old(output, policy)) and change.shrinks:
                # The first line of an error can be longer than the beginning that is kept: a text never grows again.
                due += [change] if _is_milder(recent.get(output.place), change) else []
        if i < tail and i in cuttable:
            due += [change for change in _user(m, i, policy) if change.shrinks]
    full = _full_batches(due, recent, policy.clear_at_least_tokens, tokens)
    chosen = recent | {change.place: change for change in full}
    return [chosen[place] for place in sorted(chosen, key=lambda p: (p.message, p.block, p.inner or 0))]


def tail_start(messages: Sequence[Msg], policy: PrunePolicy) -> int:
    """The index of the first message that stays whole; no call before it has its result after it."""
    start = max(0, len(messages) - policy.keep_last)
    if policy.keep_unit == "turns":
        turns = [i for i, m in enumerate(messages) if is_user_turn(m)]
        start = len(messages) if not policy.keep_last else (turns[-policy.keep_last :] or [0])[0]
    view = View(map(str, range(len(messages))), messages)
    index = len(messages) - 1
    while index >= start:
        start = min(start, view.exchange(index)[0])
        index -= 1
    return start


def texts(msg: Msg, i: int = 0) -> Iterator[tuple[Place, str, Mapping[str, Any]]]:
    """The texts of a message and of its results, with their positions (`i`: the message's) and their metadata."""
    for b, block in enumerate(msg.content):
        if isinstance(block, TextBlock):
            yield Place(i, b, None), block.text, block.metadata
        elif isinstance(block, ToolResultBlock) and isinstance(block.output, str):
            yield Place(i, b, None), block.output, block.metadata
        elif isinstance(block, ToolResultBlock):
            for j, part in enumerate(block.output):
                if isinstance(part, TextBlock):
                    yield Place(i, b, j), part.text, part.metadata


class _Output(NamedTuple):
    """A text of a tool result that is not fully pruned yet."""

    text: str
    place: Place
    tool: str
    failed: bool
    arguments: dict[str, Any]
    """The arguments of the call."""
    mark: Mapping[str, Any] | None = None
    """The pruning mark if only the beginning of the text is left."""


def _outputs(msg: Msg, i: int, calls: dict[str, ToolUseBlock]) -> Iterator[_Output]:
    for place, text, metadata in texts(msg, i):
        block, mark = msg.content[place.block], metadata.get(PRUNED)
        if isinstance(block, ToolResultBlock):
            use = calls.get(block.id)
            tool = block.name or (use.name if use else "")
            if mark is None or (isinstance(mark, Mapping) and mark.get("head")):
                yield _Output(text, place, tool, is_failure(block), use.input if use else {}, mark)
        elif msg.role == "tool" and mark is None:
            yield _Output(text, place, "" if msg.name == "tool" else msg.name, failed=False, arguments={})


def _recent(output: _Output, policy: PrunePolicy) -> Change | None:
    text, place, tool, *_ = output
    if output.mark is not None or tool in policy.exclude_tools or policy.size(text) <= policy.large_tool_chars:
        return None
    return Change(place, "recent_tool", text, tool, policy.head(text, policy.recent_tool_keep_chars))


def _old(output: _Output, policy: PrunePolicy) -> Change | None:
    text, place, tool, failed, arguments, mark = output
    if mark is not None:
        if policy.old_tool_keep_chars:
            return None
        return Change(place, "old_tool", text, tool, ref=str(mark["ref"]), mark=mark)
    if policy.size(text) <= policy.min_prune_chars:
        return None
    if tool in policy.exclude_tools:
        source = placeholders.page_source(text, arguments)
        return source and Change(place, "page", text, tool, ref=source[0], arguments=source[1])
    error = first_line(text) if failed else ""
    return Change(place, "old_tool", text, tool, policy.head(text, policy.old_tool_keep_chars), error)


def _is_milder(mild: Change | None, change: Change) -> bool:
    """Whether the change of a recent result keeps more of it than that of an old one, as it should."""
    return mild is None or len(change.replacement(placeholders.ANY_REF)) < len(mild.replacement(placeholders.ANY_REF))


def _user(msg: Msg, i: int, policy: PrunePolicy) -> Iterator[Change]:
    """The changes of a user's message that is too large as a whole."""
    texts = [(b, block) for b, block in enumerate(msg.content) if isinstance(block, TextBlock)]
    if sum(policy.size(block.text) for _, block in texts) <= policy.large_user_chars:
        return
    left = policy.user_keep_chars
    for b, block in texts:
        if PRUNED in block.metadata:
            return
        size = policy.size(block.text)
        if size > max(left, policy.min_prune_chars):
            yield Change(Place(i, b, None), "user", block.text, "user", policy.head(block.text, left))
        left = max(0, left - size)


def _full_batches(
    due: list[Change], recent: dict[Place, Change], at_least: int, tokens: Callable[[str], int]
) -> list[Change]:
    """The changes of all full batches. Batches are formed from the front, so a full one never changes."""
    if not at_least:
        return due
    full = freed = 0
    for n, change in enumerate(due, 1):
        stands = recent.get(change.place)
        before = stands.replacement(placeholders.ANY_REF) if stands else change.text
        freed += tokens(before) - tokens(change.replacement(change.ref or placeholders.ANY_REF))
        if freed >= at_least:
            full, freed = n, 0
    return due[:full]
