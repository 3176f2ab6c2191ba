"""compact-middleware, a compaction for deepagents modelled on a coding agent's, as a policy.

At its defaults for a model with this window: results cleared and arguments cut first, then, above 85 %, a summary in
place of the older messages, with the originals in a file that the file tools read. It counts tokens by estimate.
Tuned: 30 % of the window stay. Where it cuts, a result can lose its call: such contexts count as invalid.
"""

from __future__ import annotations

from typing import Any

from chat import Tokens
from compact_middleware import CompactionConfig, CompactionMiddleware
from compact_middleware.config import TruncateArgsConfig
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from peer_deepagents import DeepAgents
from peer_notes import Notes

REQUIRES = ("compact-middleware>=0.1.1", "deepagents>=0.7.32,<0.8")
POLICIES = {
    "compact-middleware": "Compact",
    "compact-middleware, tuned": "CompactTuned",
}


class Writer(FakeListChatModel):
    """A model of this window that writes summaries."""

    responses: list[str] = ["never read"]  # noqa: RUF012 (a field)
    notes: Any

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        # The last message is the instruction.
        return self.notes.of((m.text for m in messages[:-1]), messages[-1].text) or "-"


class Compact(DeepAgents):
    """The middleware in place of deepagents' own."""

    config: CompactionConfig | None = None
    """None for what it makes of the model's window."""

    def __init__(self, window: int, count: Tokens) -> None:
        super().__init__(window, count)
        self._model = Writer(notes=Notes(window, count), profile={"max_input_tokens": window})
        self.notes = self._model.notes
        self._summaries = CompactionMiddleware(self._model, backend=self._backend, config=self.config)


class CompactTuned(Compact):
    """More stays."""

    config = CompactionConfig(
        trigger=("fraction", 0.85),
        keep=("fraction", 0.3),
        truncate_args=TruncateArgsConfig(trigger=("fraction", 0.85), keep=("fraction", 0.3)),
    )
