"""Models that write summaries: two protocols and four implementations.

Each implementation is imported at the first use of its name, a provider's SDK at the first call of its model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from autocontext.flows.lazy import imports
from autocontext.requests import ModelReply, ModelRequest

if TYPE_CHECKING:
    from autocontext.models.callable import CallableModel
    from autocontext.models.dashscope import DashScopeChatModel
    from autocontext.models.extractive import ExtractiveModel
    from autocontext.models.openai import OpenAIChatModel

__all__ = ["AsyncChatModel", "CallableModel", "ChatModel", "DashScopeChatModel", "ExtractiveModel", "OpenAIChatModel"]

_MODULES = {
    "CallableModel": "callable",
    "DashScopeChatModel": "dashscope",
    "ExtractiveModel": "extractive",
    "OpenAIChatModel": "openai",
}
__getattr__ = imports(__name__, _MODULES)


@runtime_checkable
class ChatModel(Protocol):
    """Answers one request and blocks meanwhile; must be thread-safe."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """The reply. Raises ModelError when there is none."""


@runtime_checkable
class AsyncChatModel(Protocol):
    """Answers one request without blocking the event loop; several may run at once."""

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The reply. Raises ModelError when there is none."""
