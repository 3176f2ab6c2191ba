"""What the capability knows of one run of pydantic-ai: its history, its system prompts and its tools' results."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)

from autocontext.adapters.pydantic_ai_messages import is_appended, is_prompt, opening_prompts, recognized
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg

SKIPPED = "Tool not executed - a final result was already processed."
"""What the framework says of a call beside the final answer that it has left alone."""


@dataclass
class Run:
    """What one run's messages were read as, and what it says itself."""

    read: dict[int, tuple[ModelMessage, list[Msg]]] = field(default_factory=dict)
    """By a message's identity; each is held, so that it stays its."""
    passed: set[int] = field(default_factory=set)
    """The identities of the parts of the history that was passed."""
    same: dict[str, str] = field(default_factory=dict)
    """The ids in the memory of what the history says again, by the ids that they have in the history."""
    prompts: list[str] | None = None
    """The ids of the run's own system prompts; None before its first request."""
    messages: list[ModelMessage] = field(default_factory=list)
    """The run's messages, as they were followed last."""
    results: dict[str, list[ModelRequestPart]] = field(default_factory=dict)
    """What tools gave, by the ids of their calls; nothing of one that has not ended."""
    view: list[Msg] = field(default_factory=list)
    """The memory's view in the last request."""
    request: list[ModelMessage] = field(default_factory=list)
    """The messages of the last request that were made of the view."""
    is_refused: bool = False
    """Whether the service has refused the last request as too long."""

    def learn(self, msgs: list[Msg], originals: list[Msg]) -> None:
        """Find what the memory has under other ids; of system prompts, the first with the same text."""
        prompts = [*takewhile(is_prompt, msgs)]
        prompts += [msg for msg in msgs[len(prompts) :] if is_prompt(msg) and not is_appended(msg)]
        own, known = {msg.id for msg in prompts}, {msg.id for msg in originals}
        self.same |= recognized([msg for msg in msgs if msg.id not in own], originals)
        places = {text: id_ for id_, text in reversed(opening_prompts(originals).items())}
        for msg in prompts:
            if msg.id not in known and (place := places.setdefault(msg.text, msg.id)) != msg.id:
                self.same[msg.id] = place

    def ordered(self, sent: list[Msg], memory: AutoContextMemory, others: set[str]) -> list[Msg]:
        """The messages of a request: the run's own system prompts come first, those of others stay out.

        A run that began while this one waited for its view may have taken this one's prompts out of it.
        """
        prompts = self.prompts or []
        own = {msg.id: msg for msg in sent if msg.id in prompts}
        if len(own) < len(prompts):
            own = {msg.id: msg for msg in memory.get_original_memory_msgs() if msg.id in prompts} | own
        first = [own[id_] for id_ in prompts if id_ in own]
        return [*first, *(msg for msg in sent if msg.id not in own and msg.id not in others)]

    def beside(self, messages: list[ModelMessage], skipped: str | None = None) -> list[ModelMessage]:
        """The request with the results of the last calls if there is none: `run_stream` tells nobody of them.

        With `skipped`, it says so of calls that were left alone.
        """
        if not messages or not isinstance(last := messages[-1], ModelResponse):
            return []
        left = {call.tool_call_id: returned(call, skipped) for call in last.tool_calls if skipped is not None}
        parts = [p for call in last.tool_calls for p in {**left, **self.results}.get(call.tool_call_id, [])]
        # What a tool shows the user's model besides its result follows all results.
        parts.sort(key=lambda part: isinstance(part, UserPromptPart))
        return [ModelRequest(parts, run_id=last.run_id, conversation_id=last.conversation_id)] if parts else []


def returned(call: ToolCallPart, result: Any) -> list[ModelRequestPart]:
    """What the framework makes of a tool's result."""
    if not isinstance(result, ToolReturn):
        return [ToolReturnPart(call.tool_name, result, call.tool_call_id)]
    part = ToolReturnPart(call.tool_name, result.return_value, call.tool_call_id, metadata=result.metadata)
    return [part, UserPromptPart(result.content)] if result.content else [part]
