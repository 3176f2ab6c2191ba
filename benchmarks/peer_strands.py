"""Strands Agents' context management as policies: its two conversation managers, and its context manager.

At their defaults the two managers wait until the service refuses a request, as its loop does: then the sliding window
(40 messages) shortens old results and drops old messages, and the other one summarises the oldest 30 % of the messages.
"auto" is `Agent(context_manager="auto")`: large results and what was summarised go to a store, and its tool
`retrieve_context` brings back any item that the context names.
Tuned: both managers begin at 85 % of the window and keep the first message; the window has no end but the model's, and
half is summarised with the newest four messages left. "auto" is a pipeline of one's own: of a result of more than a
twentieth of the window half as much is left, and above 95 % the oldest 30 % of the messages are summarised.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import Any

from chat import Chat, Tokens, content_text, visible_text
from peer_notes import Notes
from running import run
from strands import Agent
from strands.agent.conversation_manager import (
    ConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.experimental.context_manager import Offload
from strands.hooks import AfterModelCallEvent, BeforeModelCallEvent, MessageAddedEvent
from strands.models import Model
from strands.types.exceptions import ContextWindowOverflowException

REQUIRES = ("strands-agents>=1.62,<2",)
POLICIES = {
    "strands SlidingWindow": "Sliding",
    "strands SlidingWindow, tuned": "SlidingTuned",
    "strands Summarizing": "Summarizing",
    "strands Summarizing, tuned": "SummarizingTuned",
    "strands auto": "Auto",
    "strands auto, tuned": "AutoTuned",
}

logging.getLogger("strands").setLevel(logging.CRITICAL)
_RETRIES = 50
"""Refusals in a row after which a run would be hopeless."""


class StandIn(Model):
    """A model of this window that counts as the benchmark counts and writes summaries."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.notes, self.count = Notes(window, count), count
        self._config = {"context_window_limit": window, "model_id": "none"}

    def get_config(self) -> dict[str, Any]:
        return self._config

    def update_config(self, **_: Any) -> None:
        """Nothing can be set."""

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def count_tokens(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, *_: Any) -> int:  # noqa: ARG002
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        return self.count([*system, *(chat for message in messages for chat in to_chat(message, {}))])

    async def stream(self, messages: Any, *_: Any, system_prompt: str | None = None, **__: Any) -> AsyncIterable[Any]:
        # Either the last message asks for the summary, or the only one holds what is to be summarised.
        texts = (visible_text(chat) for message in messages[:-1] or messages for chat in to_chat(message, {}))
        note = self.notes.of(texts, system_prompt or "")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": note}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def to_chat(message: Any, calls: dict[str, Chat]) -> Iterator[Chat]:
    """A message in chat form; `calls` has the calls as they were, by id."""
    text = "\n".join(block["text"] for block in message["content"] if "text" in block)
    results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
    for result in results:
        content = "\n".join(part["text"] if "text" in part else json.dumps(part) for part in result["content"])
        yield {"role": "tool", "tool_call_id": result["toolUseId"], "content": content}
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    if text or uses or not results:
        made = [calls.get(use["toolUseId"]) or _call(use) for use in uses]
        yield {"role": message["role"], "content": text, **({"tool_calls": made} if made else {})}


def _call(use: Any) -> Chat:
    function = {"name": use["name"], "arguments": json.dumps(use["input"], ensure_ascii=False)}
    return {"id": use["toolUseId"], "type": "function", "function": function}


def _arguments(call: Chat) -> dict[str, Any]:
    """A call's arguments; what is not a JSON object is wrapped in one."""
    text = call["function"].get("arguments") or "{}"
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"arguments": value}


class Managed:
    """An agent whose messages grow by the chat's and are managed at the places where its loop does that."""

    def __init__(self, window: int, count: Tokens) -> None:
        self.window, self.count = window, count
        self.model = StandIn(window, count)
        self._system: list[Chat] = []
        self._calls: dict[str, Chat] = {}
        self.agent: Agent | None = None
        self.shown: list[Chat] = []

    def options(self) -> dict[str, Any]:
        """What is given to the agent."""
        return {"conversation_manager": self.manager()}

    def manager(self) -> ConversationManager:
        """The conversation manager."""
        raise NotImplementedError

    def step(self, new: list[Chat]) -> list[Chat]:
        self._system += [m for m in new if m["role"] == "system"]
        if self.agent is None:
            prompt = "\n".join(map(content_text, self._system)) or None
            self.agent = Agent(model=self.model, system_prompt=prompt, callback_handler=None, **self.options())
        run(self._turn(self.agent, new))
        self.shown = [*self._system, *(c for m in self.agent.messages for c in to_chat(m, self._calls))]
        return self.shown

    async def _turn(self, agent: Agent, new: Iterable[Chat]) -> None:
        for message in self._converted(new):
            answered = bool(agent.messages) and agent.messages[-1]["role"] == "assistant"
            if answered and message["role"] == "user" and not any("toolResult" in b for b in message["content"]):
                agent.conversation_manager.apply_management(agent)  # an invocation has ended
            agent.messages.append(message)
            await agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent=agent, message=message))
        tokens = await self._tokens(agent)
        await agent.hooks.invoke_callbacks_async(BeforeModelCallEvent(agent=agent, projected_input_tokens=tokens))
        for _ in range(_RETRIES):
            if await self._tokens(agent) <= self.window or not await self._refused(agent):
                return

    async def _refused(self, agent: Agent) -> bool:
        """What the loop does when the service says that the request is too long; whether it tries again."""
        refusal = ContextWindowOverflowException("longer than the window")
        event = AfterModelCallEvent(agent=agent, exception=refusal)
        await agent.hooks.invoke_callbacks_async(event)
        if event.retry:
            return True
        try:
            agent.conversation_manager.reduce_context(agent, e=refusal)
        except ContextWindowOverflowException:
            return False
        return True

    async def _tokens(self, agent: Agent) -> int:
        return await self.model.count_tokens(agent.messages, None, agent.system_prompt)

    def _converted(self, new: Iterable[Chat]) -> Iterator[Any]:
        """Its messages; results of one turn are one message of the user."""
        results: list[Any] = []
        for message in new:
            if message["role"] == "tool":
                content = [{"text": content_text(message)}]
                results.append(
                    {"toolResult": {"toolUseId": message["tool_call_id"], "status": "success", "content": content}}
                )
                continue
            if results:
                yield {"role": "user", "content": results}
                results = []
            if message["role"] == "system":
                continue
            text, uses = content_text(message), []
            for call in message.get("tool_calls") or ():
                self._calls[call["id"]] = call
                use = {"toolUseId": call["id"], "name": call["function"]["name"], "input": _arguments(call)}
                uses.append({"toolUse": use})
            yield {"role": message["role"], "content": [*([{"text": text}] if text or not uses else []), *uses]}
        if results:
            yield {"role": "user", "content": results}

    @property
    def note_tokens(self) -> int:
        """What a paid model would have read."""
        return self.model.notes.read


class Sliding(Managed):
    """The newest 40 messages; the default of its agents."""

    def manager(self) -> ConversationManager:
        return SlidingWindowConversationManager()


class SlidingTuned(Managed):
    def manager(self) -> ConversationManager:
        return SlidingWindowConversationManager(
            window_size=10_000, pin_first=1, proactive_compression={"compression_threshold": 0.85}
        )


class Summarizing(Managed):
    """A summary of the oldest 30 % of the messages."""

    def manager(self) -> ConversationManager:
        return SummarizingConversationManager()


class SummarizingTuned(Managed):
    def manager(self) -> ConversationManager:
        return SummarizingConversationManager(
            summary_ratio=0.5,
            preserve_recent_messages=4,
            pin_first=1,
            proactive_compression={"compression_threshold": 0.85},
        )


class Auto(Managed):
    """Results cut and summaries written ahead of need, with everything in a store that a tool reads."""

    def options(self) -> dict[str, Any]:
        return {"context_manager": "auto"}

    def reachable(self) -> Iterator[str]:
        """What is in the store under the references that the context names."""
        stash = self.agent.context_manager.stash if self.agent else None
        if stash is None:
            return
        text = "\n".join(map(visible_text, self.shown))
        for reference in run(stash.list()):
            if reference in text:
                yield "\n".join(_strings(run(stash.retrieve(reference))))


class AutoTuned(Auto):
    def options(self) -> dict[str, Any]:
        limit = self.window // 20
        large = Offload.truncate("tool_results", {"preview_tokens": limit // 2}).when(threshold=limit)
        old = Offload.summarize("*").when(utilization=0.95, preserve_recent=0.7)
        return {"context_manager": {"strategies": [large, old]}}


def _strings(value: Any) -> Iterator[str]:
    """The texts in a stored value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif value is not None:
        yield str(value)
