"""autocontext: memory that keeps an LLM agent's context small and loses nothing."""

import logging
from typing import TYPE_CHECKING

from autocontext._version import __version__ as __version__
from autocontext.config import AutoContextConfig
from autocontext.errors import AutoContextError
from autocontext.events import CompressionEvent, CompressionReport
from autocontext.flows.lazy import imports
from autocontext.memory import AutoContextMemory
from autocontext.messages import (
    AudioBlock,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from autocontext.models import AsyncChatModel, ChatModel
from autocontext.plan import Plan, SubTask
from autocontext.prompts import PromptConfig
from autocontext.requests import ModelReply, ModelRequest, Usage
from autocontext.tools import ContextOffloadTool

if TYPE_CHECKING:
    from autocontext.suite import AutoContext

__all__ = [
    "AsyncChatModel",
    "AudioBlock",
    "AutoContext",
    "AutoContextConfig",
    "AutoContextError",
    "AutoContextMemory",
    "ChatModel",
    "CompressionEvent",
    "CompressionReport",
    "ContextOffloadTool",
    "ImageBlock",
    "ModelReply",
    "ModelRequest",
    "Msg",
    "Plan",
    "PromptConfig",
    "SubTask",
    "TextBlock",
    "ThinkingBlock",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "VideoBlock",
]

# A library prints nothing unless the application asks for it.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__getattr__ = imports(__name__, {"AutoContext": "suite"})  # it imports all five systems
