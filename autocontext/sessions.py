"""State optimisation: `StateOptimizer` and its parts."""

from autocontext.optimizer.compressor import ConversationCompressor
from autocontext.optimizer.errors import ErrorPatternAnalyzer
from autocontext.optimizer.optimizer import StateOptimizer, restore_state_messages
from autocontext.optimizer.report import Dropped, OptimizationReport, Step
from autocontext.optimizer.selector import ContextSelector
from autocontext.optimizer.state import SessionState, StateConfig

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
