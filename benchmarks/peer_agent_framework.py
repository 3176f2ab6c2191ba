"""Microsoft agent-framework's compaction as policies: its harness's default, and strategies under a token budget.

Tuned: the default keeps the user's first message, and begins at 75 % and at 95 % of the window.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    Content,
    ContextWindowCompactionStrategy,
    Message,
    SlidingWindowStrategy,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    apply_compaction,
)
from chat import Chat, Tokens, content_text
from peer_notes import Notes
from running import run

REQUIRES = ("agent-framework-core>=1.23,<2",)
POLICIES = {
    "agent-framework ContextWindow": "ContextWindow",
    "agent-framework ContextWindow, tuned": "ContextWindowTuned",
    "agent-framework TokenBudget": "Budget",
}

logging.getLogger("agent_framework").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Counting:
    """The benchmark's count of a text, under the name that the framework asks for."""

    count: Tokens

    def count_tokens(self, text: str) -> int:
        return self.count.text(text)


@dataclass(frozen=True)
class Reply:
    text: str


@dataclass(frozen=True)
class Summariser:
    """Stands in for a chat client."""

    notes: Notes

    async def get_response(self, messages: list[Message], **_: Any) -> Reply:
        return Reply(self.notes.of([messages[-1].text]))


def from_chat(message: Chat, id_: str) -> Message:
    """A message of the framework."""
    text = content_text(message)
    if message["role"] == "tool":
        contents = [Content.from_function_result(message["tool_call_id"], result=text)]
    else:
        contents = [Content.from_text(text)] if text else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or "{}"
            contents.append(Content.from_function_call(call["id"], function["name"], arguments=arguments))
    return Message(message["role"], contents=contents, message_id=id_)


class Compacted:
    """Keeps the framework's annotated messages; a subclass names the strategy."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.counting, self.notes = window, Counting(count), Notes(window, count)
        self.messages: list[Message] = []
        self._chat: dict[str, Chat] = {}
        self._strategy = self.strategy()

    def strategy(self) -> Any:
        """The framework's strategy for the window."""
        raise NotImplementedError

    def step(self, new: list[Chat]) -> list[Chat]:
        for message in new:
            id_ = f"m{len(self._chat)}"
            self._chat[id_] = message
            self.messages.append(from_chat(message, id_))
        compacting = apply_compaction(self.messages, strategy=self._strategy, tokenizer=self.counting)
        return [self._of(m) for m in run(compacting)]

    def _of(self, message: Message) -> Chat:
        id_ = str(message.message_id)
        if id_ not in self._chat:
            self._chat[id_] = {"role": str(getattr(message.role, "value", message.role)), "content": message.text}
        return self._chat[id_]

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read


class ContextWindow(Compacted):
    """Its harness's default: results collapsed above 50 % of the window, truncated above 80 %."""

    options: dict[str, Any] = {}  # noqa: RUF012 (read only)

    def strategy(self) -> Any:
        return ContextWindowCompactionStrategy(
            max_context_window_tokens=self.window, max_output_tokens=0, tokenizer=self.counting, **self.options
        )


class ContextWindowTuned(ContextWindow):
    """Later, and never without the task."""

    options = {  # noqa: RUF012 (read only)
        "tool_eviction_threshold": 0.75,
        "truncation_threshold": 0.95,
        "preserve_first_user_group": True,
    }


class Budget(Compacted):
    """A token budget over three strategies: results collapsed but for four, a summary, the newest 20 groups."""

    def strategy(self) -> Any:
        return TokenBudgetComposedStrategy(
            token_budget=self.window,
            tokenizer=self.counting,
            strategies=[
                ToolResultCompactionStrategy(keep_last_tool_call_groups=4),
                SummarizationStrategy(client=Summariser(self.notes), tokenizer=self.counting),
                SlidingWindowStrategy(keep_last_groups=20),
            ],
        )
