"""contextpress as a policy: a pipeline of rules for a history with tool calls, which ends at a budget of tokens.

For agents, `ContextManager(type="agent")`, at the preset `low` that its documentation advises for them: JSON and text
without needless blanks, shorter wording, one of several alike messages. Then the oldest messages go, the task among
them, until the budget, which is the window, is met. As it advises for prompt caches, the history is pressed only when
it has outgrown the window; new messages are appended to what came out.
Its vocabulary would be downloaded, so it counts as the benchmark does.
Tuned: what stays is left as it was said; only alike messages and the oldest go.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tiktoken.registry
from chat import Chat, Tokens
from contextpress import ContextManager

REQUIRES = ("contextpress>=0.7.8",)
POLICIES = {
    "contextpress": "Press",
    "contextpress, tuned": "PressTuned",
}


class Pieces:
    """What contextpress asks of an encoding: a text in as many pieces as the benchmark counts tokens."""

    name = "cl100k_base"

    def __init__(self, tokens: Callable[[str], int]) -> None:
        self._tokens = tokens
        self.encode = lru_cache(maxsize=10_000)(self._pieces)

    def _pieces(self, text: str) -> list[str]:
        count = self._tokens(text)
        size = max(1, -(-len(text) // max(1, count)))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        return pieces + [""] * (count - len(pieces))

    @staticmethod
    def decode(pieces: list[str]) -> str:
        return "".join(pieces)


encodings: dict[str, Any] = tiktoken.registry.ENCODINGS


class Press:
    """What was pressed last, and the messages since."""

    stages: list[str] | None = None
    """The steps of the pipeline; None for those of the preset."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.messages: list[Chat] = []
        encodings[Pieces.name] = Pieces(count.text)
        self._press = ContextManager(type="agent", compression="low")

    def step(self, new: list[Chat]) -> list[Chat]:
        self.messages += new
        if self.count(self.messages) > self.window:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # says how many messages it removed
                self.messages = self._press.compress(self.messages, token_budget=self.window, stages=self.stages)
        return list(self.messages)


class PressTuned(Press):
    """No message is reworded."""

    stages = ["repetition", "budget"]  # noqa: RUF012 (read only)
