"""summarization-pydantic-ai as policies: its capability that manages a whole context, and its sliding window.

At its default the capability summarises everything but the newest exchange above 90 % of the window, and the
summariser reads the last 4,000 tokens of it; the sliding window is given the same trigger and keeps 50 messages.
Tuned: 30 % of the window stay, and results of more than a tenth of it are cut to their head and tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import RunUsage
from pydantic_ai_messages import History
from pydantic_ai_summarization import DEFAULT_SUMMARY_PROMPT, ContextManagerCapability, SlidingWindowCapability

REQUIRES = ("pydantic-ai-slim>=2.68,<3", "summarization-pydantic-ai>=0.1.11")
POLICIES = {
    "summarization-pydantic-ai": "Managed",
    "summarization-pydantic-ai, tuned": "ManagedTuned",
    "summarization-pydantic-ai SlidingWindow": "Sliding",
}

_THRESHOLD = 0.9


class Managed(History):
    """The capability as the graph calls it; what it returns is sent, and is the history from then on."""

    _capability: Any = None

    def capability(self) -> Any:
        """The capability for the window."""
        return ContextManagerCapability(**self.common())

    def common(self) -> dict[str, Any]:
        """The window, and what counts and writes."""
        return {
            "max_tokens": self.room(1.0),
            "token_counter": self.tokens,
            "summarization_model": self.model,
        }

    def context(self, messages: list[ModelMessage]) -> Any:
        """The run's context."""
        return RunContext(deps=None, model=self.model, usage=RunUsage(), messages=messages)

    async def processed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self._capability = self._capability or self.capability()  # the system messages are known by now
        request = ModelRequestContext(
            model=self.model,
            messages=list(messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        return list((await self._capability.before_model_request(self.context(messages), request)).messages)

    def transcript(self, prompt: str) -> tuple[str, str]:
        before, _, after = DEFAULT_SUMMARY_PROMPT.partition("{messages}")
        return before + after, prompt.removeprefix(before).removesuffix(after)


class ManagedTuned(Managed):
    """Set to the window."""

    def capability(self) -> Any:
        return ContextManagerCapability(
            **self.common(),
            keep=("tokens", int(0.3 * self.window)),
            max_tool_output_tokens=self.window // 10,
            tool_output_head_lines=20,
            tool_output_tail_lines=20,
        )

    async def processed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self._capability = self._capability or self.capability()
        if messages and isinstance(messages[-1], ModelRequest):
            messages[-1] = replace(messages[-1], parts=[await self._shortened(part) for part in messages[-1].parts])
        return await super().processed(messages)

    async def _shortened(self, part: Any) -> Any:
        """A result as it is after the capability's hook behind the tool."""
        if not isinstance(part, ToolReturnPart):
            return part
        call = ToolCallPart(part.tool_name, "{}", tool_call_id=part.tool_call_id)
        result = await self._capability.after_tool_execute(
            self.context([]), call=call, tool_def=ToolDefinition(name=part.tool_name), args={}, result=part.content
        )
        return replace(part, content=result)


class Sliding(Managed):
    """The newest 50 messages."""

    def capability(self) -> Any:
        return SlidingWindowCapability(trigger=("tokens", self.room(_THRESHOLD)), token_counter=self._counted)

    def _counted(self, messages: Sequence[ModelMessage]) -> int:
        return self.tokens(messages)
