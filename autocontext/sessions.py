"""The names of `autocontext.optimizer` under the path that programs import."""

from autocontext.optimizer import (
    ContextSelector,
    ConversationCompressor,
    Dropped,
    ErrorPatternAnalyzer,
    OptimizationReport,
    SessionState,
    StateConfig,
    StateOptimizer,
    Step,
    restore_state_messages,
)

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
