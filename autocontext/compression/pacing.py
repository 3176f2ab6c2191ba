"""When to try again: a pass that cannot help must not be repeated at every turn."""

from __future__ import annotations

from dataclasses import dataclass

from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.events import CompressionReport

_GROWTH = 0.10
"""Share of a trigger that the view must have grown by after a pass that did not reach its target."""
_FRUITLESS = 0.05
"""A pass that saves a smaller share than this has not been worth it."""
_OPENS_AT = 2
"""Fruitless passes in a row after which the model is left alone."""
_MORE = 1.25
"""Growth of the view after which it is tried again."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """What the last passes came to; a value, replaced after each pass."""

    messages: int = 0
    tokens: int = 0
    """The view after a pass that did not reach its target; 0 after one that did."""
    fruitless: int = 0
    """Passes in a row that saved next to nothing."""

    opened: tuple[int, int] = (0, 0)
    """Messages and tokens of the view when the model was last asked in vain."""

    def breaker_open(self, messages: int, tokens: int) -> bool:
        """Whether a pass over such a view does without the model: asking it has been wasted, and little is new."""
        return self.fruitless >= _OPENS_AT and messages < self.opened[0] * _MORE and tokens < self.opened[1] * _MORE

    def rests(self, messages: int, token_sum: TokenSum, config: AutoContextConfig) -> bool:
        """Whether the view has hardly grown since a pass that could not reach its target.

        A pass of a single strategy has no target: the next one is the way on.
        """
        if config.escalation == "single" or not self.tokens or token_sum.reaches(config.max_token + 1):
            return False
        if messages >= self.messages + config.msg_threshold * _GROWTH:
            return False
        return not token_sum.reaches(self.tokens + int(config.token_trigger * _GROWTH))

    def after(self, report: CompressionReport) -> Pacing:
        """What a pass has taught."""
        if report.outcome in ("not_needed", "busy"):
            return self
        if report.outcome == "applied":
            return Pacing()
        saved = report.tokens_before - report.tokens_after
        worthwhile = saved >= report.tokens_before * _FRUITLESS or report.messages_after < report.messages_before * 0.95
        after = report.messages_after, report.tokens_after
        if worthwhile:
            return Pacing(*after)
        asked = not self.breaker_open(report.messages_before, report.tokens_before)
        return Pacing(*after, self.fruitless + 1, after if asked else self.opened)
