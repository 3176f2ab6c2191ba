"""Shared by the strategies: which messages stay, which are large, and the question for a note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, is_pinned, is_tool_message
from autocontext.plan import is_plan_block, plan_line
from autocontext.strategies.instructions import instructions
from autocontext.text import rendering

RELOAD_TOOL, RELOAD_ARGUMENT = "context_reload", "working_context_offload_uuid"
_LEAST_ANSWER = 64
"""Tokens; a shorter answer is of no use."""


@dataclass
class OfSize:
    """A strategy that takes spans of `least` tokens and more, but fewer than `below`."""

    config: AutoContextConfig
    least: int
    below: int | None = None
    left_small: bool = False
    """Whether it has met one that is too small."""

    def fits(self, tokens: int) -> bool:
        """Whether a span of so many tokens is taken."""
        self.left_small |= tokens < self.least
        return tokens >= self.least and (self.below is None or tokens < self.below)


def utf16_length(text: str) -> int:
    """Length in UTF-16 units, as the reference measures text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_large(text: str, config: AutoContextConfig) -> bool:
    """Whether a text is longer than `large_payload_threshold` characters."""
    limit = config.large_payload_threshold
    return len(text) > limit or (2 * len(text) > limit and utf16_length(text) > limit)


def results_of(config: AutoContextConfig, view: View, m: Msg) -> dict[int, str]:
    """By place in a message, its results but for instructions."""
    spared = instructions(config, view).get(m.id, ())
    return {k: b.text for k, b in enumerate(m.content) if isinstance(b, ToolResultBlock) and k not in spared}


def stays(
    config: AutoContextConfig, view: View, *, protected: bool = True, reloads: bool = True, by_result: bool = False
) -> Callable[[Msg], bool]:
    """A test for messages that no strategy changes: system, pinned, those of protected tools, a provider's compaction.

    Reloaded pages stay only until the user writes again; without `reloads` not even so long. What stands before a
    compaction belongs to it. Messages with `instructions` stay; `by_result` leaves those out, for a strategy that
    spares those results itself.
    """
    tools = config.protected_tools if protected else frozenset()
    if not reloads:
        tools -= {RELOAD_TOOL}
    kept = {m.id for m in view.messages[: view.compacted + 1]}
    if tools:
        kept |= view.remembered((_of_tools, tools), lambda: _of_tools(view, tools))
    if not by_result:
        kept.update(instructions(config, view))
    return lambda m: m.role == "system" or is_pinned(m) or m.id in kept


def _of_tools(view: View, tools: frozenset[str]) -> set[str]:
    """Ids of the messages with calls and results of these tools, which some frameworks name in the call only."""
    called: dict[str, str] = {}
    found: set[str] = set()
    for i, m in enumerate(view.messages):
        called.update((use.id, use.name) for use in m.tool_uses)
        names = {*(use.name for use in m.tool_uses), *(r.name or called.get(r.id, "") for r in m.tool_results)}
        if not names.isdisjoint(tools if i > view.latest_user else tools - {RELOAD_TOOL}):
            found.add(m.id)
    return found


def answer_size(tokens: int, share: float, config: AutoContextConfig) -> int:
    """Tokens to ask for when condensing `tokens` to a share; at most `note_ratio` of the window."""
    return max(_LEAST_ANSWER, min(int(tokens * share), int(config.max_token * config.note_ratio)))


def question(
    purpose: rendering.Purpose, view: View, indices: Sequence[int], share: float, config: AutoContextConfig
) -> Question | None:
    """The question that condenses the messages at `indices`; None if they hold only plan tools."""
    parts, sizes, left_out = [], [], 0
    for i in indices:
        m = view.messages[i]
        if part := rendering.section(m):
            parts.append(part)
            sizes.append(view.tokens(i, i + 1))
        if is_tool_message(m) and any(map(is_plan_block, m.content)):
            left_out += len(rendering.transcript(m)) - len(part)
    if not parts:
        return None
    size = answer_size(sum(sizes), share, config)
    return Question(purpose, tuple(parts), size, tuple(sizes), characters=sum(map(len, parts)) + left_out)


def note(
    kind: Literal["tool_run", "current_round"],
    event_type: str,
    view: View,
    start: int,
    stop: int,
    *,
    share: float,
    config: AutoContextConfig,
) -> Proposal:
    """One note in place of the messages [start, stop), without a question if they hold only plan tools."""
    span = view.span(start, stop)
    request = question(kind, view, range(start, stop), share, config)
    line = plan_line(span.messages)
    footer = line if request else ""
    return Proposal(span, request or line, footer=footer, event_type=event_type, kind=kind, role=config.note_role)


def recent(view: View, config: AutoContextConfig) -> int:
    """Index of the first message that `keep_recent` leaves alone."""
    return view.recent(int(config.max_token * config.keep_recent)) if config.keep_recent else len(view)
