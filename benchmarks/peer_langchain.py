"""LangChain's two ways to keep a context small, as policies: clearing old tool results, and one running summary.

Both are triggered at 75 % of the window, system messages included, as a user would set them who leaves room for the
reply. The middleware is called as langchain's agent loop calls it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from chat import Chat, Tokens, content_text
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from peer_notes import Notes

REQUIRES = ("langchain>=1.5.2,<2",)
POLICIES = {
    "langchain ClearToolUsesEdit": "ClearToolUses",
    "langchain Summarization": "Summarize",
    "langchain Summarization, 30 %": "SummarizeTuned",
}

TRIGGER = 0.75


def from_chat(message: Chat, id_: str) -> BaseMessage:
    """A langchain message; arguments that are not a JSON object are wrapped in one."""
    text = content_text(message)
    if message["role"] == "tool":
        return ToolMessage(content=text, tool_call_id=message["tool_call_id"], name=message.get("name"), id=id_)
    if message["role"] == "assistant":
        return AIMessage(content=text, tool_calls=[_call(c) for c in message.get("tool_calls") or ()], id=id_)
    return HumanMessage(content=text, id=id_)


def _call(call: Chat) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = function["arguments"]
    whole = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"name": function["name"], "args": whole, "id": call["id"]}


class Beside:
    """Keeps langchain's messages with the chat's, and maps them back."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.system: list[Chat] = []
        self.messages: list[BaseMessage] = []
        self._shown: dict[str, tuple[Any, Chat]] = {}
        """By id the content a message had and its chat form."""

    def take(self, new: Iterable[Chat]) -> None:
        """Add messages; system messages are separate, as in langchain's agents."""
        for message in new:
            if message["role"] == "system":
                self.system.append(message)
                continue
            converted = from_chat(message, f"m{len(self._shown)}")
            self._shown[str(converted.id)] = (converted.content, message)
            self.messages.append(converted)

    def chat(self, message: BaseMessage) -> Chat:
        """The chat form; the same object as long as the content is the same."""
        content, known = self._shown.get(str(message.id), (None, None))
        if known is None or content != message.content:
            known = {**(known or {"role": "user"}), "content": message.content}
            self._shown[str(message.id)] = (message.content, known)
        return known

    def tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Counted as the benchmark counts."""
        return sum(self.count.message(self.chat(m)) for m in messages)

    def trigger(self) -> int:
        """Tokens that the messages may have before something is done."""
        return max(1, int(TRIGGER * self.window) - self.count(self.system))

    def context(self, messages: Sequence[BaseMessage]) -> list[Chat]:
        """What the model sees."""
        return [*self.system, *map(self.chat, messages)]


class ClearToolUses(Beside):
    """Over the trigger, placeholders replace all but the newest three results, at every call."""

    def step(self, new: list[Chat]) -> list[Chat]:
        self.take(new)
        edited = list(self.messages)
        ClearToolUsesEdit(trigger=self.trigger(), keep=3).apply(edited, count_tokens=self._whole)
        return self.context(edited)

    def _whole(self, messages: Sequence[BaseMessage]) -> int:
        return self.tokens(messages)


class Summarize(Beside):
    """One summary in place of all but the newest messages; by default 20 stay and the summariser reads 4,000 tokens."""

    keep: tuple[str, int] | None = ("messages", 20)
    options: dict[str, Any] = {}  # noqa: RUF012 (read only)

    def __init__(self, window: int, count: Tokens) -> None:
        super().__init__(window, count)
        self.notes = Notes(window, count)
        self._middleware: SummarizationMiddleware | None = None

    def step(self, new: list[Chat]) -> list[Chat]:
        self.take(new)
        if self._middleware is None:  # the system messages are known by now
            self._middleware = self._make()
        changed = self._middleware.before_model({"messages": self.messages}, None)
        if changed is not None:
            self.messages = [m for m in changed["messages"] if not isinstance(m, RemoveMessage)]
        return self.context(self.messages)

    def _make(self) -> SummarizationMiddleware:
        return SummarizationMiddleware(
            model=FakeListChatModel(responses=["never asked"]),
            trigger=("tokens", self.trigger()),
            keep=self.keep or ("tokens", int(0.3 * self.window)),
            token_counter=self.tokens,
            summarizer=self._summary,
            **self.options,
        )

    def _summary(self, messages: Sequence[BaseMessage]) -> str:
        return self.notes.of(m.text for m in messages)

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.notes.read


class SummarizeTuned(Summarize):
    """The same set to the window: 30 % of it stay, and the summariser reads everything else."""

    keep = None
    options = {"trim_tokens_to_summarize": None}  # noqa: RUF012 (read only)
