"""When a pass is due, and how far it has to go: the view measured against what the configuration asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from autocontext.compression.pacing import Pacing
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.history.log import Log
from autocontext.plan import PlanLike

_JUST_UNDER = 0.97
"""Share of the window that texts are cut to, where the trigger is the window itself."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Messages and tokens at which a pass starts."""

    messages: float
    tokens: int

    @classmethod
    def of(cls, config: AutoContextConfig, *, early: bool = False) -> Limits:
        """The configured triggers; `early`: the softer ones of a pass in the background."""
        if not early:
            return cls(config.msg_threshold, config.token_trigger)
        share = min(1.0, config.background_ratio / config.token_ratio)
        return cls(config.msg_threshold * share, int(config.token_trigger * share))

    def reached(self, log: Log, token_sum: TokenSum) -> bool:
        """Whether a pass is due: two comparisons."""
        return len(log.view_ids) >= self.messages or token_sum.reaches(self.tokens)


@dataclass(frozen=True)
class PassOptions:
    """What a pass goes by."""

    config: AutoContextConfig
    plan: PlanLike | None = None
    pacing: Pacing = field(default_factory=Pacing)
    force: bool = False
    """Run although no limit is reached."""
    early: bool = False
    """A pass in the background, with its softer limits."""
    strict: bool = False
    """Raise InvalidEdit for a proposal that breaks a rule."""
    asks: bool = False
    """Whether there is a model of the user's own to write notes."""


def due(log: Log, token_sum: TokenSum, settings: PassOptions) -> str:
    """Why no pass is needed now; "" when one is."""
    if settings.force:
        return ""
    if not Limits.of(settings.config, early=settings.early).reached(log, token_sum):
        return "no threshold is reached"
    if settings.pacing.rests(len(log.view_ids), token_sum, settings.config):
        return "the last pass could not reach the target and the view has hardly grown since"
    return ""


class PassBudget:
    """How far the view is from where a pass has to bring it."""

    def __init__(self, log: Log, token_sum: TokenSum, settings: PassOptions) -> None:
        self._log, self._tally = log, token_sum
        self._max_token = settings.config.max_token
        self.limits = Limits.of(settings.config, early=settings.early)
        share = settings.config.target_ratio
        self._target = Limits(self.limits.messages * share, int(self.limits.tokens * share))

    def excess(self) -> tuple[float, int]:
        """Messages and tokens over the target."""
        return len(self._log.view_ids) - self._target.messages, self._tally.total() - self._target.tokens

    def met(self) -> bool:
        """Whether the view is under the target."""
        messages, tokens = self.excess()
        return messages < 0 and tokens < 0

    def overflow(self) -> int:
        """Tokens to cut from texts so that a view over the window is under the trigger again; 0 if it is not over."""
        tokens = self._tally.total()
        if tokens <= self._max_token:
            return 0
        return tokens - min(self.limits.tokens, int(self._max_token * _JUST_UNDER))
