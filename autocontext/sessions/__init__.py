"""The working state of a session, made small before it is saved; nothing of it is lost."""

from autocontext.sessions.compressor import ConversationCompressor
from autocontext.sessions.errors import ErrorPatternAnalyzer
from autocontext.sessions.optimizer import StateOptimizer, restore_state_messages
from autocontext.sessions.report import Dropped, OptimizationReport, Step
from autocontext.sessions.selector import ContextSelector
from autocontext.sessions.state import SessionState, StateConfig

__all__ = [
    "ContextSelector",
    "ConversationCompressor",
    "Dropped",
    "ErrorPatternAnalyzer",
    "OptimizationReport",
    "SessionState",
    "StateConfig",
    "StateOptimizer",
    "Step",
    "restore_state_messages",
]
