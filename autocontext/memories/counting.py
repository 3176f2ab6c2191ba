"""Token counts of an injected block: exact, or an estimate when the vocabulary cannot be read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from autocontext.errors import AutoContextError
from autocontext.messages import Msg
from autocontext.tokens import TokenCounter, VocabularyCounter

_WIDE = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_PIECE = re.compile(
    r"""(?=[a-z\d]{0,40}[A-Z])(?=[A-Za-z]{0,40}\d)([A-Za-z\d]{16,})  # such as base64
        | (\ (?:[A-Z]?[a-z]+|[A-Z]+)|[A-Z]?[a-z]{4,}|[A-Z]{4,}|[.,](?=\ |\Z))  # of prose
        | (\ ?[!-/:-@\[-`{-~]+)
        | (\ ?[^\x00-\x7f]+)
        | [A-Z]?[a-z]+|[A-Z]+|\d{1,3}|\s+|.""",
    re.VERBOSE | re.DOTALL,
)
"""Pieces of a text much as the vocabularies take them; a group for each that is not one token."""

_PAUSE = 600.0
"""Seconds after which a vocabulary that could not be loaded is tried again."""


@dataclass(frozen=True)
class EstimateCounter:
    """Estimates tokens from the kinds of characters, rounded up so that it rarely counts too few.

    Two CJK characters are three tokens (cl100k_base takes one or two for each), an emoji is three, and two bytes of
    anything else that is not ASCII are one. Four characters of a word are one, two signs, up to three digits, and what
    is blank; four of a long run of letters and digits, such as base64, are three.
    """

    name: str = "estimate"
    exact: bool = False

    def count_text(self, text: str) -> int:
        """Estimated tokens of a text."""
        quarters = 0
        for mixed, prose, signs, others in _PIECE.findall(text):
            if others:
                wide = len(_WIDE.findall(others))
                rest = _WIDE.sub("", others)
                quarters += (
                    6 * wide + 2 * len(rest.encode("utf-8", "surrogatepass")) + 4 * sum(ch > "\uffff" for ch in rest)
                )
            else:
                quarters += 3 * len(mixed) or len(prose) or 2 * max(len(signs), 2)
        return -(-quarters // 4)

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
        self._again_at = -math.inf

    def __call__(self) -> TokenCounter:
        """The counter to use now, loaded."""
        if self._clock() >= self._again_at:
            try:
                self._exact.load()
            except (AutoContextError, ImportError, OSError):
                self._again_at = self._clock() + _PAUSE
            else:
                return self._exact
        return EstimateCounter()


default_counter = ExactOrEstimate(VocabularyCounter("cl100k_base"))
"""One per process, so that all callers share a failure."""
