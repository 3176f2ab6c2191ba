"""A pass that the agent asks for: now, and further than one that is due would go."""

from __future__ import annotations

from typing import Any

from autocontext.compression.receipt import told
from autocontext.events import CompressionReport
from autocontext.flows import Flow, compute, operation
from autocontext.steering.parts import BUSY, MemoryParts, Refusal, as_text

_KEPT = 0.5
"""`target_ratio` of such a pass: about what notes and the newest messages take. The configured one is larger, so that
a pass before one is due would change nothing."""
_LONGEST_FOCUS = 500
"""Characters."""


def condense(memory: MemoryParts, focus: Any = "") -> Flow[str]:
    """Run a pass, unless it would gain little: a model may ask again and again. Raises Refusal."""
    ratio = min(_KEPT, memory.config.target_ratio)

    def why_not() -> str:
        with memory.lock:
            return memory.runner.gains_little(ratio)

    if reason := (yield from compute(why_not)):
        return f"Nothing was condensed: {reason}."
    # A model may be asked: asynchronous agents await that in their own event loop.
    report: CompressionReport = yield operation(
        memory.runner.run, memory.runner.arun, force=True, target_ratio=ratio, focus=as_text(focus)[:_LONGEST_FOCUS]
    )
    if report.outcome == "busy":
        raise Refusal(BUSY)
    return told(report)
