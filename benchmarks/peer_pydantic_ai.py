"""Pydantic AI's compaction, from its own harness, as policies: a sliding window, a summary, and tiers.

Pydantic AI itself ships no way to shorten a history, only places for one (`ProcessHistory`). The harness leaves the
trigger to its users: 75 % of the window here, system messages included. Everything else is at its defaults: 40 messages
stay in the sliding window, 20 behind a summary, and the summariser reads 500 characters of a result. "Tiered" is what
its documentation recommends, results cleared first and a summary if that is not enough.
Tuned: the same tiers with file reads deduplicated before, 30 % of the window kept word for word, the user's messages
kept, and results whole for the summariser.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    DeduplicateFileReads,
    SlidingWindowCompaction,
    SummarizingCompaction,
    TieredCompaction,
)
from pydantic_ai_messages import TRIGGER, History

REQUIRES = ("pydantic-ai-slim>=2.62,<3", "pydantic-ai-harness>=0.62")
POLICIES = {
    "pydantic-ai SlidingWindow": "Sliding",
    "pydantic-ai Summarizing": "Summarizing",
    "pydantic-ai Tiered": "Tiered",
    "pydantic-ai Tiered, tuned": "TieredTuned",
}


class Compacted(History):
    """A history with one of the harness's capabilities, called as the agent's graph calls it."""

    _capability: Any = None

    def capability(self) -> Any:
        """The capability for the window."""
        raise NotImplementedError

    async def processed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self._capability = self._capability or self.capability()  # the system messages are known by now
        run = RunContext(deps=None, model=self.model, usage=RunUsage(), messages=messages)
        request = ModelRequestContext(
            model=self.model,
            messages=list(messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        return (await self._capability.before_model_request(run, request)).messages

    def transcript(self, prompt: str) -> tuple[str, str]:
        before, _, after = SummarizingCompaction(max_tokens=1).summary_prompt.format(messages="\0").partition("\0")
        return before + after, prompt.removeprefix(before).replace(after, "\n", 1)

    def common(self) -> dict[str, Any]:
        """What all capabilities are given."""
        return {"max_tokens": self.room(), "tokenizer": self.count.text}


class Sliding(Compacted):
    """The first message of the user and the newest 40."""

    def capability(self) -> Any:
        return SlidingWindowCompaction(**self.common())


class Summarizing(Compacted):
    """A summary in place of all but the first message of the user and the newest 20."""

    def capability(self) -> Any:
        return SummarizingCompaction(**self.common())


class Tiered(Compacted):
    """All but the newest three results cleared; then, if there is still too much, a summary."""

    def capability(self) -> Any:
        tiers = [ClearToolResults(**self.common()), SummarizingCompaction(**self.common())]
        return TieredCompaction(tiers=tiers, target_tokens=self.room(), tokenizer=self.count.text)


def read_file(call: ToolCallPart) -> str | None:
    """The whole arguments of a call that reads a file, which thus count as one file and part of it."""
    reads = "read" in call.tool_name or call.args_as_dict().get("command") == "view"
    return call.args_as_json_str() if reads else None


class TieredTuned(Compacted):
    """Three tiers, set to the window."""

    def capability(self) -> Any:
        summary = SummarizingCompaction(
            **self.common(),
            keep_tokens=int(0.3 * self.window),
            keep_user_messages=True,
            keep_user_messages_max_chars=self.window,  # about a quarter of the window each
            tool_return_max_chars=None,
        )
        reads = DeduplicateFileReads(file_key=read_file)
        tiers = [reads, ClearToolResults(**self.common()), summary]
        return TieredCompaction(tiers=tiers, target_tokens=self.room(TRIGGER), tokenizer=self.count.text)
