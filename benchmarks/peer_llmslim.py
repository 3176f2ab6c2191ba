"""llmslim as a policy: the history processor that it ships for Pydantic AI, which fits a history into a budget.

It makes no model calls. With a budget of 75 % of the window, everything else at its defaults. Tuned: of 90 %.
"""

from __future__ import annotations

from typing import Any

from llmslim.integrations.pydantic_ai import llmslim_history_processor
from pydantic_ai.messages import ModelMessage
from pydantic_ai_messages import TRIGGER, History

REQUIRES = ("llmslim>=0.11.2", "pydantic-ai-slim>=2.68,<3")
POLICIES = {
    "llmslim": "LLMSlim",
    "llmslim, tuned": "LLMSlimTuned",
}


class LLMSlim(History):
    """Called by `ProcessHistory`: what it returns is sent, and is the history from then on."""

    share = TRIGGER
    _processor: Any = None

    async def processed(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        self._processor = self._processor or llmslim_history_processor(max_tokens=self.room(self.share))
        return list(self._processor(list(messages)))


class LLMSlimTuned(LLMSlim):
    """More of the window."""

    share = 0.9
