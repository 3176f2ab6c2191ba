"""The class names of an earlier state optimiser, for code that moves from it: see docs/from-the-originals.md.

Methods keep their names; they take Msg and SessionState instead of dicts.
"""

from __future__ import annotations

from autocontext.sessions import ContextSelector as ContextManager
from autocontext.sessions import ConversationCompressor, ErrorPatternAnalyzer, SessionState, StateConfig, StateOptimizer

__all__ = [
    "ContextManager",
    "ConversationCompressor",
    "ErrorPatternAnalyzer",
    "StateConfig",
    "StateOptimizationManager",
]


class StateOptimizationManager(StateOptimizer):
    """`StateOptimizer` with the two methods that such code calls."""

    _report_text = ""

    async def optimize_state_for_saving(self, state: SessionState) -> SessionState:
        """Return the smaller state; `get_optimization_report` describes the run."""
        optimized, report = await self.aoptimize(state)
        self._report_text = str(report)
        return optimized

    def get_optimization_report(self) -> str:
        """The report of the latest run as text; "" before the first."""
        return self._report_text
