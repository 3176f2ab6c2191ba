"""A counter of the user's own whose failure does not end a turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autocontext.errors import short, told
from autocontext.messages import Msg
from autocontext.tokens.counters import AgentScopeJavaCounter, EstimatingCounter, TokenCounter, VocabularyCounter

_ESTIMATE = EstimatingCounter("bytes4")


def guarded(counter: TokenCounter, failed: Callable[[str], None]) -> TokenCounter:
    """The same counter; one that is not of this package estimates as "bytes4" does what it fails on.

    `failed` is called with the reason the first time.
    """
    own = isinstance(counter, VocabularyCounter | EstimatingCounter | AgentScopeJavaCounter)
    return counter if own else GuardedCounter(counter, failed)


class GuardedCounter:
    """Asks another counter; counts as "bytes4" what it raises on, or gives no number of 0 or more for."""

    def __init__(self, counter: TokenCounter, failed: Callable[[str], None]) -> None:
        self._counter, self._failed, self._told = counter, failed, False

    @property
    def name(self) -> str:
        """That of the other counter."""
        return self._counter.name

    @property
    def exact(self) -> bool:
        """Whether the other counter is exact."""
        return self._counter.exact

    def count_text(self, text: str) -> int:
        """Tokens of a text."""
        return self._asked("count_text", text)

    def count(self, msg: Msg) -> int:
        """Tokens of a message."""
        return self._asked("count", msg)

    def bound(self, msg: Msg) -> int:
        """An upper limit of `count(msg)`."""
        return self._asked("bound", msg)

    def _asked(self, method: str, of: Any) -> int:
        try:
            given = getattr(self._counter, method)(of)
            tokens: int = math.ceil(given)
        except Exception as e:  # noqa: BLE001 (whatever it is, a turn must not end because somebody's counter has a bug)
            problem = f"{method} failed: {told(e)}"
        else:
            if tokens >= 0:
                return tokens
            problem = f"{method} gave {short(given)}"
        if not self._told:
            self._told = True
            self._failed(problem)
        estimate: int = getattr(_ESTIMATE, method)(of)
        return estimate
