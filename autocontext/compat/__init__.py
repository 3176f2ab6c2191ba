"""The original's class names, for code that is moved here: each is the class of this library that does its work.

Methods that bear the original's names take Msgs and SessionState instead of dicts.
"""

from __future__ import annotations

from autocontext.optimizer import ContextSelector as ContextManager
from autocontext.optimizer import (
    ConversationCompressor,
    ErrorPatternAnalyzer,
    SessionState,
    StateConfig,
    StateOptimizer,
)

__all__ = [
    "ContextManager",
    "ConversationCompressor",
    "ErrorPatternAnalyzer",
    "StateConfig",
    "StateOptimizationManager",
]


class StateOptimizationManager(StateOptimizer):
    """`StateOptimizer` with the original's two methods."""

    _told_last = ""

    async def optimize_state_for_saving(self, state: SessionState) -> SessionState:
        """The smaller state alone; `get_optimization_report` tells what was done."""
        optimized, report = await self.aoptimize(state)
        self._told_last = str(report)
        return optimized

    def get_optimization_report(self) -> str:
        """The report of the latest optimisation in words; "" before the first."""
        return self._told_last
