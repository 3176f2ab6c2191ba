"""When a pass pays although no limit is reached, and what a pass costs, given the provider's prompt cache.

Cached input is cheap. A pass makes every later request smaller, but the next one dearer: everything behind the first
changed message is no longer cached. Nobody knows how many requests will follow, so this is the ski-rental problem
(rent or buy). Each request since the last pass has paid "rent" for its tokens over the target; once the rent reaches
the price of a pass, a pass is made. That never costs more than twice the best plan made in hindsight, and is the best
rhythm where a conversation grows evenly.

Once the cache has expired, nothing is cached anyway: then a pass costs nothing extra.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from autocontext.compression.limits import GROWTH, Limits, Pacing, Target
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.history.log import Log
from autocontext.history.view import View
from autocontext.messages import Msg
from autocontext.prices import RATIOS
from autocontext.requests import Usage

_SUMMARY = 0.06
"""Tokens that a model writes in a pass at most, as a share of the window."""


def is_reply(msg: Msg) -> bool:
    """Whether the model that reads the context wrote this message: everything before it has been sent."""
    return msg.role == "assistant" and msg.origin is None


@dataclass(frozen=True, slots=True)
class PassCost:
    """What a pass costs and saves, in tokens and in money."""

    uncached: int
    """Tokens of the next request that are not cached."""
    extra: float
    """What the next request costs more than it would have without the pass, the model's notes included."""
    saving: float
    """What each later request costs less."""

    @property
    def break_even(self) -> int | None:
        """Requests after the next one until the pass has paid for itself; None if it never does."""
        if self.extra <= 0:
            return 0
        return math.ceil(self.extra / self.saving) if self.saving > 0 else None


def pass_cost(
    config: AutoContextConfig,
    before: View,
    tokens_before: int,
    tokens_after: int,
    overhead: int,
    *,
    first_changed: int,
    cold: bool,
    notes: float,
) -> PassCost:
    """The cost of a pass over a view. `notes` is what the model's notes cost; `cold`: the cache has expired.

    The last request ended before the model's last reply: what stands before it is cached, the rest was never sent.
    """
    prices = config.prices or RATIOS
    last = next((i for i in reversed(range(len(before))) if is_reply(before.messages[i])), None)
    sent = 0 if last is None or cold else tokens_before - before.tokens(last, len(before))
    unchanged = overhead + before.tokens(0, first_changed)
    kept = min(sent, unchanged, tokens_after)
    return PassCost(
        uncached=tokens_after - kept,
        extra=prices.request(kept, tokens_after - kept) - prices.request(sent, tokens_before - sent) + notes,
        saving=prices.request(tokens_before - tokens_after, 0),
    )


class PromptCache:
    """What the provider has cached of one memory's context, as far as can be known here, and the rent paid since.

    `clock` gives seconds since 1970. Use it under the memory's lock.
    """

    def __init__(self, log: Log, token_sum: TokenSum, config: AutoContextConfig, clock: Callable[[], float]) -> None:
        self._log, self._token_sum, self._clock = log, token_sum, clock
        self.resize(config)
        self._rent = 0.0
        self._requested: float | None = None
        """When the view was last read for a request."""
        self._originals = 0
        """How many originals there were then: with as many, it is the same request again."""

    def resize(self, config: AutoContextConfig) -> None:
        """Go by another configuration."""
        self._config = config
        self._target = Target(self._log, self._token_sum, config)
        self._growth = int(Limits.of(config).tokens * GROWTH)
        """Tokens over the target that are worth a pass."""
        self.watched = self._target.least if config.prices or config.cache_ttl else config.max_token
        """Tokens of the smallest view whose tokens have to be counted."""

    def requested(self) -> None:
        """Record that the view was read: a request follows, and pays rent for what is over the target."""
        if self._config.cache_ttl is not None:
            self._requested = self._clock()
        if self._config.prices is None or len(self._log.original) == self._originals:
            return
        self._originals = len(self._log.original)
        if self._token_sum.reaches(self._target.least + 1):
            self._rent += self._config.prices.request(max(0, self._token_sum.total() - self._target.tokens), 0)

    def passed(self) -> None:
        """Record that a pass was made or tried: rent starts from 0."""
        self._rent = 0.0

    @property
    def expires_in(self) -> float | None:
        """Seconds until what the last request has cached expires, negative once it has; None if nobody knows."""
        if self._config.cache_ttl is None:
            return None
        last = self._requested
        if last is None:  # not since this process began: when the model answered last
            last = next((_seconds(m.timestamp) for m in reversed(self._log.view_messages) if is_reply(m)), None)
        return None if last is None else last + self._config.cache_ttl - self._clock()

    @property
    def cold(self) -> bool:
        """Whether the cache has certainly expired."""
        left = self.expires_in
        return left is not None and left <= 0

    def pays(self, pacing: Pacing, *, asks: bool) -> bool:
        """Whether a pass is worth its price now. `asks`: the user's model would write its note."""
        config = self._config
        if (config.prices is None and config.cache_ttl is None) or config.escalation == "single":
            return False
        least = self._target.least + self._growth
        if not self._token_sum.reaches(least) or not self._token_sum.reaches(self._target.tokens + self._growth):
            return False
        cold = self.cold
        asked_again = len(self._log.original) == self._originals
        if not cold and (asked_again or not self._rent):
            return False
        if pacing.should_wait(len(self._log.view_ids), self._token_sum, config):
            return False
        if config.prices is None:
            return cold
        price = self._price(cold=cold, asks=asks)
        return price <= 0 if cold else price <= self._rent

    def _price(self, *, cold: bool, asks: bool) -> float:
        """What a pass that reaches the target would add to the cost of the next request."""
        view = self._log.view(self._token_sum.count)
        total, left, notes = self._token_sum.total(), self._target.tokens, 0.0
        if asks and self._config.prices is not None:
            out = int(self._config.max_token * min(_SUMMARY, self._config.note_ratio))
            used = Usage(input_tokens=total - left, output_tokens=out)
            notes = self._config.prices.summaries(used)
        tokens, changed = (total, left, self._token_sum.overhead), view.first_user + 1
        return pass_cost(self._config, view, *tokens, first_changed=changed, cold=cold, notes=notes).extra


def _seconds(timestamp: str) -> float | None:
    """A message's timestamp as seconds since 1970, without a zone in local time as AgentScope writes it, or None."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
