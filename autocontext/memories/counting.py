"""Token counts of an injected block: exact, or an estimate when the vocabulary cannot be read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from autocontext.errors import AutoContextError
from autocontext.messages import Msg
from autocontext.tokens import TokenCounter, VocabularyCounter

_WIDE = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_CODE_SIGNS = re.compile(r"[{}()\[\]<>=;_$\\|&*#@`/\"']|\d")
_CODE_SHARE = 0.08
"""A text with at least this share of signs and digits among its ASCII characters counts as code."""

_PAUSE = 600.0
"""Seconds after which a vocabulary that could not be loaded is tried again."""


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
    """Gives a counter, or an estimate for ten minutes after its vocabulary could not be loaded."""

    def __init__(self, counter: VocabularyCounter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._exact, self._clock = counter, clock
        self._failed_at: float | None = None

    def __call__(self) -> TokenCounter:
        """The counter to use now, loaded."""
        if self._failed_at is None or self._clock() - self._failed_at >= _PAUSE:
            try:
                self._exact.load()
            except (AutoContextError, ImportError, OSError):
                self._failed_at = self._clock()
            else:
                self._failed_at = None
                return self._exact
        return EstimateCounter()


default_counter = ExactOrEstimate(VocabularyCounter("cl100k_base"))
"""One per process, so that all callers share a failure."""
