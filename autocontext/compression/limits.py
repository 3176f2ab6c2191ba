"""When a pass is due, how far it has to go, and when to try again after one that could not help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from math import ceil
from typing import TYPE_CHECKING

from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.events import CompressionReport
from autocontext.history.log import Log
from autocontext.messages import is_pinned
from autocontext.plan import PlanLike
from autocontext.tokens.request_size import over_limit

if TYPE_CHECKING:
    from autocontext.notes.writer import NoteWriter
    from autocontext.strategies import Strategy

GROWTH = 0.10
"""Share of a trigger that the view must have grown by after a pass that did not reach its target."""
_FRUITLESS = 0.05
"""A pass that saves a smaller share than this is fruitless."""
_OPENS_AT = 2
"""Fruitless passes in a row that open the breaker: passes no longer ask the model."""
_CLOSES_AT = 1.25
"""Growth of the view that closes the breaker."""
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


@dataclass(frozen=True, slots=True)
class Pacing:
    """The results of the last passes; a value, replaced after each pass."""

    messages: int = 0
    tokens: int = 0
    """The view after a pass that did not reach its target; 0 after one that did."""
    fruitless: int = 0
    """Passes in a row that saved next to nothing."""

    opened: tuple[int, int] = (0, 0)
    """Messages and tokens of the view when the model was last asked in vain."""

    def breaker_open(self, messages: int, tokens: int, config: AutoContextConfig) -> bool:
        """Whether a pass over such a view does not ask the model: the last ones did in vain, and little is new."""
        largest = tuple(size * _CLOSES_AT for size in self.opened)
        has_grown = tokens >= largest[1] or (_are_many(messages, config) and messages >= largest[0])
        return self.fruitless >= _OPENS_AT and not has_grown

    def should_wait(self, messages: int, token_sum: TokenSum, config: AutoContextConfig) -> bool:
        """Whether the view has hardly grown since a pass that could not reach its target.

        Never with escalation="single": such a pass has no target, and the next one tries the next strategy.
        """
        if _are_many(messages, config) and messages >= self.messages + config.msg_threshold * GROWTH:
            return False
        return not token_sum.reaches(self.waits_until(config))

    def waits_until(self, config: AutoContextConfig) -> int:
        """Tokens of the view from which on such a pass is tried again; 0 if the last one reached its target."""
        if config.escalation == "single" or not self.tokens:
            return 0
        return min(self.tokens + int(config.token_trigger * GROWTH), config.max_token + 1)

    def after(self, report: CompressionReport, config: AutoContextConfig, correction: int = 0) -> Pacing:
        """The pacing after another pass; `correction` is what a provider counts more than the report."""
        if report.outcome in ("not_needed", "busy"):
            return self
        if report.outcome == "applied":
            return Pacing()
        saved = report.tokens_before - report.tokens_after
        fewer = _are_many(report.messages_before, config) and report.messages_after < report.messages_before * 0.95
        after = report.messages_after, report.tokens_after + correction
        if fewer or saved >= report.tokens_before * _FRUITLESS:
            return Pacing(*after)
        asked = not self.breaker_open(report.messages_before, report.tokens_before + correction, config)
        return Pacing(*after, self.fruitless + 1, after if asked else self.opened)


def _are_many(messages: int, config: AutoContextConfig) -> bool:
    """Whether so many messages call for a pass; of fewer it says nothing whether they have become more or less."""
    return messages >= config.msg_threshold


@dataclass(frozen=True)
class PassOptions:
    """The settings of one pass."""

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
    """Whether the user has configured a model to write notes."""
    focus: str = ""
    """What the notes should keep first."""
    pays: bool = False
    """Run although no limit is reached, since it costs less than it saves."""
    cold: bool = False
    """Whether the provider's cache has expired."""
    window: int = 0
    """The memory's window in tokens, if this pass has another one; 0: that of `config`."""
    only: Callable[[NoteWriter], Strategy] | None = None
    """Makes the one strategy of this pass, which runs although no limit is reached and in place of all others."""


def due_anyway(log: Log, token_sum: TokenSum, config: AutoContextConfig) -> bool:
    """Whether a provider's compaction, or images or bytes, call for a pass, whatever the tokens of the view."""
    if log.compactions:
        from autocontext.strategies.provider_compaction import ProviderCompaction  # noqa: PLC0415 (see `pass_run`)

        if ProviderCompaction(config).propose(log.view()):
            return True
    return images_due(log, token_sum, config)


def images_due(log: Log, token_sum: TokenSum, config: AutoContextConfig) -> bool:
    """Whether images or bytes call for a pass, whatever the tokens of the view."""
    if config.max_images is None and config.max_request_bytes is None:
        return False
    request = token_sum.request
    if not over_limit(request.total(), config):
        return False
    from autocontext.strategies.images import Images  # noqa: PLC0415 (see `pass_run`)

    return bool(Images(config, request.of).leaving(log.view()))


def due(log: Log, token_sum: TokenSum, options: PassOptions) -> str:
    """Why no pass is needed now; "" when one is."""
    asked = options.force or options.pays or options.only is not None
    if asked or due_anyway(log, token_sum, options.config):
        return ""
    if not Limits.of(options.config, early=options.early).reached(log, token_sum):
        return "no threshold is reached"
    if options.pacing.should_wait(len(log.view_ids), token_sum, options.config):
        return "the last pass could not reach the target and the view has hardly grown since"
    return ""


class Target:
    """What a pass brings the view under: `target_ratio` of both triggers.

    The tokens that it leaves for the next steps are a share of what can be compressed at all: where system text, pinned
    messages, the first request and results that the model has not read take much of the window, less has to leave for
    them; down to half.
    """

    def __init__(self, log: Log, token_sum: TokenSum, config: AutoContextConfig, *, early: bool = False) -> None:
        self._log, self._token_sum, self._max_token = log, token_sum, config.max_token
        self.limits = Limits.of(config, early=early)
        self.messages = self.limits.messages * config.target_ratio
        self.least = int(self.limits.tokens * config.target_ratio)
        """The least number of tokens that `tokens` may be."""
        self._seen = (-1, 0)

    @property
    def tokens(self) -> int:
        """Tokens that the view should be under."""
        if self._seen[0] != len(self._log.entries):
            self._seen = len(self._log.entries), self._fixed()
        trigger = self.limits.tokens
        spared = min(trigger // 2, self._seen[1]) / max(1, trigger)
        return self.least + int((trigger - self.least) * spared)

    def _fixed(self) -> int:
        """Tokens of what stays in this pass, whatever the rest is."""
        view = self._log.view(self._token_sum.count)
        places = [i for i, m in enumerate(view.messages) if i == view.first_user or m.role == "system" or is_pinned(m)]
        places += takewhile(lambda i: view.messages[i].role == "tool", reversed(range(len(view))))
        return self._token_sum.overhead + sum(view.tokens(i, i + 1) for i in places)

    def excess(self) -> tuple[float, int]:
        """Messages and tokens over the target, the tokens by our own counter.

        Half a message where the view is at the target, and not under it.
        """
        largest = ceil(self.messages) - 1
        return len(self._log.view_ids) - largest - 0.5, self._token_sum.over(self.tokens)

    def met(self) -> bool:
        """Whether the view is under the target."""
        messages, tokens = self.excess()
        return messages < 0 and tokens < 0

    def overflow(self) -> int:
        """Tokens to cut from texts so that a view over the window is under the trigger again; 0 if it is not over."""
        return self.over_window(self.limits.tokens)

    def over_window(self, tokens: int | None = None) -> int:
        """Tokens to cut so that a view over the window has so many, or is just under it, perhaps over the trigger."""
        if self._token_sum.total() <= self._max_token:
            return 0
        just_under = int(self._max_token * _JUST_UNDER)
        return self._token_sum.over(just_under if tokens is None else min(tokens, just_under))
