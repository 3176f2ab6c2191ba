"""CliffCompaction as a policy: the engine of its proxy, which rewrites each request that has become too large.

Above a threshold, half the window as its documentation advises, everything but the task and the newest three steps
becomes one summary, made by rules: calls in one line, results of up to 500 characters, all words of agent and user. The
next summary drops the one before. A request that the provider refuses as too large is made smaller step by step, as
the proxy does it.
Tuned: above 115 % of the window, since it counts the JSON around the messages too, and with calls of up to 1,000
characters, where 150 are its default.
"""

from __future__ import annotations

from typing import Any

from chat import Chat, Tokens
from cliffcompaction.config import Config
from cliffcompaction.dialects.openai_chat import DIALECT
from cliffcompaction.engine import Engine

REQUIRES = ("cliffcompaction>=0.1",)
POLICIES = {
    "cliffcompaction": "Cliff",
    "cliffcompaction, tuned": "CliffTuned",
}


class Cliff:
    """The agent sends its whole history; what the proxy passes on is the context."""

    share = 0.5
    options: dict[str, Any] = {}  # noqa: RUF012 (read only)

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []
        self._engine = Engine(Config(threshold_tokens=int(window * self.share), **self.options))

    def step(self, new: list[Chat]) -> list[Chat]:
        self.messages += new
        request = self._engine.prepare({"messages": self.messages}, DIALECT)
        while self.count(request.substituted) > self.window and self._engine.reactive(request):
            pass
        return list(request.substituted)


class CliffTuned(Cliff):
    """As much as fits, and more of each call."""

    share = 1.15
    options = {"cmd_max_chars": 1000}  # noqa: RUF012 (read only)
