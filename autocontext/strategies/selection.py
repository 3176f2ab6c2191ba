"""What the strategies share: which messages stay, what is large, how a note is asked for and how long it may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import View
from autocontext.messages import Msg, is_pinned
from autocontext.plan import plan_line
from autocontext.text import rendering

RELOAD_TOOL = "context_reload"
_LEAST_ANSWER = 64
"""Tokens; a shorter answer says nothing."""


def utf16_length(text: str) -> int:
    """Length in UTF-16 units, in which the reference measures text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_large(text: str, config: AutoContextConfig) -> bool:
    """Whether a text is longer than `large_payload_threshold` characters."""
    limit = config.large_payload_threshold
    return len(text) > limit or (2 * len(text) > limit and utf16_length(text) > limit)


def may_be_large(m: Msg, config: AutoContextConfig) -> bool:
    """Whether any text of a message can be large; false for most, found without putting its texts together."""
    size = 0
    for block in m.content:
        if block.type == "text":
            size += len(block.text) + 1
        elif block.type == "tool_result":
            size += len(block.output if isinstance(block.output, str) else block.text)
    return 2 * size > config.large_payload_threshold


def stays(config: AutoContextConfig, view: View, *, protected: bool = True) -> Callable[[Msg], bool]:
    """A test for messages that no strategy touches: system, pinned, and those of protected tools.

    Of these, what the reload tool gave stays only until the user writes again: the agent has asked for it just now.
    """
    tools = config.protected_tools if protected else frozenset()
    lasting = tools - {RELOAD_TOOL}
    going_on = {m.id for m in view.messages[view.latest_user + 1 :]}

    def test(m: Msg) -> bool:
        if m.role == "system" or is_pinned(m):
            return True
        held = tools if m.id in going_on else lasting
        # Mostly nothing is: then no names are gathered, as every strategy asks of every message.
        return bool(held) and not held.isdisjoint(b.name for bs in (m.tool_uses, m.tool_results) for b in bs)

    return test


def answer_size(tokens: int, share: float, config: AutoContextConfig) -> int:
    """Tokens to ask for when `tokens` are to be condensed to a share: never more than `note_ratio` of the window."""
    return max(_LEAST_ANSWER, min(int(tokens * share), int(config.max_token * config.note_ratio)))


def question(
    purpose: rendering.Purpose, view: View, indices: Sequence[int], share: float, config: AutoContextConfig
) -> Question | None:
    """The question that condenses the messages at `indices`; None when plan tools are all they hold."""
    parts, sizes = [], []
    for i in indices:
        if part := rendering.section(view.messages[i]):
            parts.append(part)
            sizes.append(view.tokens(i, i + 1))
    if not parts:
        return None
    return Question(purpose, tuple(parts), answer_size(sum(sizes), share, config), tuple(sizes))


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
    """One note in place of the messages [start, stop); nobody is asked where plan tools are all they hold."""
    span = view.span(start, stop)
    asked = question(kind, view, range(start, stop), share, config)
    line = plan_line(span.messages)
    return Proposal(
        span,
        asked or line,
        footer=line if asked else "",
        event_type=event_type,
        kind=kind,
        role=config.note_role,
    )


def recent(view: View, config: AutoContextConfig) -> int:
    """Index of the first of the newest messages, which `keep_recent` leaves alone."""
    return view.recent(int(config.max_token * config.keep_recent)) if config.keep_recent else len(view)
