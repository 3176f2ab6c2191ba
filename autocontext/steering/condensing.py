"""A pass that the agent asks for: now, and further than one that is due would go."""

from __future__ import annotations

from typing import Any

from autocontext.compression.receipt import told
from autocontext.events import CompressionReport
from autocontext.flows.threads import in_thread
from autocontext.steering.parts import BUSY, MemoryParts, Refusal, as_text

_KEPT = 0.5
"""`target_ratio` of such a pass: about what notes and the newest messages take. The configured one is larger, so that
a pass before one is due would change nothing."""
_LONGEST_FOCUS = 500
"""Characters."""


def condense(memory: MemoryParts, focus: Any = "") -> str:
    """Run a pass, unless it would gain little: a model may ask again and again. Raises Refusal."""
    return _why_not(memory) or _answer(memory.runner.run(**_options(memory, focus)))


async def acondense(memory: MemoryParts, focus: Any = "") -> str:
    """`condense` for asynchronous callers."""
    if why_not := await in_thread(lambda: _why_not(memory)):
        return why_not
    return _answer(await memory.runner.arun(**_options(memory, focus)))


def _options(memory: MemoryParts, focus: Any) -> dict[str, Any]:
    return {"force": True, "target_ratio": _ratio(memory), "focus": as_text(focus)[:_LONGEST_FOCUS]}


def _ratio(memory: MemoryParts) -> float:
    return min(_KEPT, memory.config.target_ratio)


def _why_not(memory: MemoryParts) -> str:
    with memory.lock:
        reason = memory.runner.gains_little(_ratio(memory))
    return f"Nothing was condensed: {reason}." if reason else ""


def _answer(report: CompressionReport) -> str:
    if report.outcome == "busy":
        raise Refusal(BUSY)
    return told(report)
