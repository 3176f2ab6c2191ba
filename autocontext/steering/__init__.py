"""Tools with which an agent sees and steers its context: everything they do can be undone, and passes the gate."""

from autocontext.steering.parts import MemoryParts
from autocontext.steering.tools import NAMES, ContextTool, context_tools

__all__ = ["NAMES", "ContextTool", "MemoryParts", "context_tools"]
