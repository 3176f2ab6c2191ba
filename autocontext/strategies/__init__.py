"""The compression strategies: each reads a View and returns Proposals; `edits.apply` checks them and makes the edits.

Your own strategy is any object with a `name` and a `propose(view)`:

    class DropChatter:
        name = "drop_chatter"

        def propose(self, view):
            return [Proposal(view.span(a, b), "Small talk.") for a, b in view.closed_spans(0, 10, is_pinned)]

    AutoContextConfig(strategies=(DropChatter(), "tool_runs"))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from autocontext.config import AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import Span, View
from autocontext.strategies.current_round import CurrentRound, CurrentRoundLargeMessages
from autocontext.strategies.large_messages import LargeMessages
from autocontext.strategies.notes import NoteWriter
from autocontext.strategies.read_once import ReadOnce
from autocontext.strategies.rounds import Rounds
from autocontext.strategies.tool_runs import ToolRuns


@runtime_checkable
class Strategy(Protocol):
    """Reads a view and proposes replacements."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    def propose(self, view: View) -> Iterable[Proposal]:
        """Replacements that do not overlap; [] for nothing to do."""
        ...


def steps(config: AutoContextConfig, hand_over: NoteWriter | None = None) -> list[Strategy]:
    """The configured strategies in order; strategy 5 makes two steps.

    `hand_over` knows the numbers of messages; without it `read_once`, whose lines name them, is left out.
    """
    return [
        step
        for name in config.strategies
        for step in (_built_in(name, config, hand_over) if isinstance(name, str) else [name])
    ]


def _built_in(name: str, config: AutoContextConfig, hand_over: NoteWriter | None) -> list[Strategy]:
    match name:
        case "read_once":
            return [ReadOnce(config, hand_over)] if hand_over is not None else []
        case "tool_runs":
            return [ToolRuns(config)]
        case "large_messages_protected":
            return [LargeMessages(config, protect_newest=True)]
        case "large_messages":
            return [LargeMessages(config, protect_newest=False)]
        case "rounds":
            return [Rounds(config)]
        case _:
            return [CurrentRoundLargeMessages(config), CurrentRound(config)]


__all__ = ["Proposal", "Question", "Span", "Strategy", "View", "steps"]
