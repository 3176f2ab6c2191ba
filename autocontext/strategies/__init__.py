"""The compression strategies: each reads a View and returns Proposals; `edits.apply` checks them and makes the edits.

Your own strategy is any object with a `name` and a `propose(view)`:

    class DropChatter:
        name = "drop_chatter"

        def propose(self, view):
            return [Proposal(view.span(a, b), "Small talk.") for a, b in view.closed_spans(0, 10, is_pinned)]

    AutoContextConfig(strategies=(DropChatter(), "tool_runs"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

from autocontext.config import READ_ONCE, SHORTEN, AutoContextConfig
from autocontext.history.proposals import Proposal, Question
from autocontext.history.view import Span, View
from autocontext.notes.writer import NoteWriter
from autocontext.strategies.current_round import CurrentRound, CurrentRoundLargeMessages
from autocontext.strategies.large_messages import LargeMessages
from autocontext.strategies.read_once import ReadOnce
from autocontext.strategies.rounds import Rounds
from autocontext.strategies.shorten import Shorten
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


def steps(
    config: AutoContextConfig,
    hand_over: NoteWriter | None = None,
    *,
    least: int | None = None,
    excess: Callable[[], int] = lambda: 0,
) -> list[Strategy]:
    """The configured strategies in order; strategy 5 makes two steps.

    `hand_over` knows the numbers of messages; without it `read_once` and `shorten`, whose lines name them, are left
    out. Strategies 1 and 4 leave spans of fewer than `least` tokens alone; None: `config.min_tokens`.
    """
    least = config.min_tokens if least is None else least
    made: dict[str, list[Strategy]] = {
        READ_ONCE: [ReadOnce(config, hand_over)] if hand_over else [],
        SHORTEN: [Shorten(config, hand_over, excess)] if hand_over else [],
        "tool_runs": [ToolRuns(config, least)],
        "large_messages_protected": [LargeMessages(config, protect_newest=True)],
        "large_messages": [LargeMessages(config, protect_newest=False)],
        "rounds": [Rounds(config, least)],
        "current_round": [CurrentRoundLargeMessages(config), CurrentRound(config)],
    }
    return [step for chosen in config.strategies for step in (made[chosen] if isinstance(chosen, str) else [chosen])]


def steps_of_pass(
    config: AutoContextConfig, hand_over: NoteWriter, *, asks: bool, excess: Callable[[], int]
) -> Iterator[Strategy]:
    """The steps of one pass, each to be run before the next is taken; `asks`: a model would write the notes.

    The minimum saves calls of a model, so without one there is none. With one, strategies 1 and 4 come again for what
    they have left alone: before the current round, on which the agent is working, has to give way. The minimum always
    counts where a pass is one strategy and has no last resort, as in the reference.
    """
    always = config.escalation == "single" and not config.last_resort
    planned = steps(config, hand_over, least=None if asks or always else 0, excess=excess)
    with_minimum = [step for step in planned if isinstance(step, ToolRuns | Rounds)]
    for step in planned:
        yield step
        if with_minimum and step is with_minimum[-1] and not always:
            yield from [type(s)(config, 0, s.least) for s in with_minimum if s.left_small]


__all__ = ["Proposal", "Question", "Span", "Strategy", "View", "steps"]
