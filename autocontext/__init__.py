"""autocontext: memory that keeps an LLM agent's context small and loses nothing."""

import logging

from autocontext.config import AutoContextConfig
from autocontext.errors import AutoContextError
from autocontext.events import CompressionEvent, CompressionReport
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

__version__ = "0.1.0"

__all__ = [
    "AsyncChatModel",
    "AudioBlock",
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
