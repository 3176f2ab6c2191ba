"""Models that write summaries: the two protocols, and four ready implementations.

Importing this package imports no provider's SDK; each is imported at the first call of its model.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from autocontext.models.callable import CallableModel
from autocontext.models.dashscope import DashScopeChatModel
from autocontext.models.extractive import ExtractiveModel
from autocontext.models.openai import OpenAIChatModel
from autocontext.requests import ModelReply, ModelRequest

__all__ = [
    "AsyncChatModel",
    "CallableModel",
    "ChatModel",
    "DashScopeChatModel",
    "ExtractiveModel",
    "OpenAIChatModel",
]


@runtime_checkable
class ChatModel(Protocol):
    """Answers one request and blocks meanwhile. Must be safe to call from several threads at once."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """The reply. Raises ModelError when there is none."""
        ...


@runtime_checkable
class AsyncChatModel(Protocol):
    """Answers one request without blocking the event loop; several may be under way at once."""

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The reply. Raises ModelError when there is none."""
        ...
