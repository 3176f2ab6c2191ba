"""Token counts of an injected block: exact, or an estimate when the vocabulary cannot be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from autocontext.errors import AutoContextError
from autocontext.flows.forking import fork_lock
from autocontext.messages import Msg
from autocontext.tokens import TokenCounter, get_counter

_WIDE = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_CODE_SIGNS = re.compile(r"[{}()\[\]<>=;_$\\|&*#@`/\"']|\d")
_CODE_SHARE = 0.08
"""A text with at least this share of signs and digits among its ASCII characters counts as code."""


@dataclass(frozen=True)
class EstimateCounter:
    """Estimates tokens from the kinds of characters, rounded up so that it rarely counts too few.

    Two CJK characters are three tokens (cl100k_base takes one or two for each). One token is three characters of code,
    four of other ASCII text, or two bytes of anything else.
    """

    name: str = "estimate"
    exact: bool = False

    def count_text(self, text: str) -> int:
        """Estimated tokens of a text."""
        wide = len(_WIDE.findall(text))
        plain = sum(ch.isascii() for ch in text)
        others = len(_WIDE.sub("", text).encode("utf-8", "surrogatepass")) - plain
        per_token = 3 if len(_CODE_SIGNS.findall(text)) > plain * _CODE_SHARE else 4
        return -(-wide * 3 // 2) + -(-plain // per_token) + -(-others // 2)

    def count(self, msg: Msg) -> int:
        """Estimated tokens of a message's texts, and four for the message itself."""
        return self.count_text(msg.text) + 4

    def bound(self, msg: Msg) -> int:
        """The estimate itself."""
        return self.count(msg)


class ExactOrEstimate:
    """A counter that falls back to an estimate for `retry_after` seconds after the exact one fails.

    `name` and `exact` say which one counts now.
    """

    def __init__(
        self,
        counter: TokenCounter,
        estimate: TokenCounter | None = None,
        *,
        retry_after: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._exact, self._estimate = counter, estimate or EstimateCounter()
        self._retry_after, self._clock = retry_after, clock
        self._failed_at: float | None = None
        self._lock = fork_lock()

    @property
    def name(self) -> str:
        """The name of the counter in use."""
        return self._now().name

    @property
    def exact(self) -> bool:
        """Whether the counter in use is exact."""
        return self._now().exact

    def count_text(self, text: str) -> int:
        """Tokens of a text."""
        return self._with(lambda counter: counter.count_text(text))

    def count(self, msg: Msg) -> int:
        """Tokens of a message."""
        return self._with(lambda counter: counter.count(msg))

    def bound(self, msg: Msg) -> int:
        """At least as many as `count`."""
        return self._with(lambda counter: counter.bound(msg))

    def _now(self) -> TokenCounter:
        with self._lock:
            failure = self._failed_at
            return self._exact if failure is None or self._clock() - failure >= self._retry_after else self._estimate

    def _with(self, ask: Callable[[TokenCounter], int]) -> int:
        counter = self._now()
        try:
            count = ask(counter)
        except (AutoContextError, ImportError, OSError):
            if counter is self._estimate:
                raise
            with self._lock:
                self._failed_at = self._clock()
            return ask(self._estimate)
        if counter is self._exact:
            with self._lock:
                self._failed_at = None
        return count


DEFAULT_COUNTER = ExactOrEstimate(get_counter("cl100k_base"))
"""One counter per process, so that all callers share a failure."""
