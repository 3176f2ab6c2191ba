"""Which tools fail, how, and whether a retry may help."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from autocontext.messages import Msg, ToolResultBlock, as_messages
from autocontext.optimizer.replacements import judged_results
from autocontext.optimizer.summary import older_facts
from autocontext.stores.checks import check_whole
from autocontext.text.failures import IsFailure, failure_kind, first_line, is_failure

Severity = Literal["critical", "high", "medium", "low"]

_TRANSIENT = (
    "timeout", "timed out", "connection", "rate limit", "temporary", "temporarily", "retry", "async", "network",
)  # fmt: skip
_CONFIGURATION = ("validation", "invalid", "missing", "undefined", "not found", "permission", "access denied")
_CRITICAL = ("fatal", "critical", "system")
_MANY = 3
"""Tools with more errors than this get a recommendation."""
_KINDS: Mapping[str, tuple[Severity, str]] = {
    "permission": ("high", "grant it access, or do without it"),
    "validation": ("high", "check its arguments against its schema"),
    "not_found": ("medium", "check that what it is asked for exists"),
    "connection": ("medium", "check that its service can be reached"),
    "general": ("medium", "look at its last error"),
    "rate_limit": ("low", "call it less often, or wait longer between calls"),
    "async": ("low", "give it more time"),
}
"""Severity of each type of error, and advice about it."""


class ErrorPatternAnalyzer:
    """Finds patterns in the failures of tools. `detector` decides what a failure is."""

    def __init__(self, max_retry_attempts: int = 3, *, detector: IsFailure = is_failure) -> None:
        check_whole(f"{type(self).__name__}.max_retry_attempts", max_retry_attempts)
        self.max_retry_attempts = max_retry_attempts
        self._is_failure = detector

    def analyze_error_patterns(self, history: Sequence[Msg]) -> dict[str, Any]:
        """Return counts by tool and by type, patterns with message ids, and recommendations, as JSON-able values.

        Of the failures in a summary of the optimiser only the counts by tool are known.
        """
        history = as_messages(history)
        patterns = [
            _pattern(msg, result, tool or "unknown")
            for msg, result, tool, failed in judged_with_tools(history, self._is_failure)
            if failed
        ]
        by_tool: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for pattern in patterns:
            by_tool[pattern["tool"]].append(pattern)
        counts = Counter({tool: len(p) for tool, p in by_tool.items()})
        for msg in history:
            counts.update({tool: bad for tool, (_, bad) in older_facts(msg).get("tools", {}).items() if bad})
        return {
            "total_errors": counts.total(),
            "tools_with_errors": dict(counts),
            "error_types": dict(Counter(p["type"] for p in patterns)),
            "error_patterns": patterns,
            "recommendations": [_recommendation(tool, p) for tool, p in by_tool.items() if len(p) > _MANY],
            "analysis_timestamp": history[-1].timestamp if history else "",
        }

    def should_retry_tool(self, error: str, attempts: int) -> bool:
        """Whether to call a tool again after `attempts` failures, the last with the text `error`.

        Never after `max_retry_attempts` failures, never for configuration errors. Transient errors are retried until
        then, all others once.
        """
        lowered = error.lower()
        if attempts >= self.max_retry_attempts or any(word in lowered for word in _CONFIGURATION):
            return False
        return any(word in lowered for word in _TRANSIENT) or attempts < 2

    def get_retry_delay(self, attempts: int, error: str = "") -> float:
        """Seconds to wait before the next attempt: 2 to the power of `attempts`, twice that for a rate limit."""
        return 2.0**attempts * (2 if failure_kind(error) == "rate_limit_error" else 1)


def _pattern(msg: Msg, result: ToolResultBlock, tool: str) -> dict[str, Any]:
    text = result.text
    return {
        "tool": tool,
        "type": _type(text),
        "severity": severity(text),
        "transient": any(word in text[:300].lower() for word in _TRANSIENT),
        "message": first_line(text),
        "message_id": msg.id,
        "call_id": result.id,
    }


def _type(text: str) -> str:
    kind = failure_kind(text).removesuffix("_error")
    return "async" if kind == "execution" else kind


def severity(text: str) -> Severity:
    """The severity of a failure, judged by its text."""
    opening = text[:300].lower()
    if any(word in opening for word in _CRITICAL):
        return "critical"
    return _KINDS[_type(text)][0]


def judged_with_tools(history: Sequence[Msg], failed: IsFailure) -> Iterator[tuple[Msg, ToolResultBlock, str, bool]]:
    """Each tool result with its message, the name of its tool ("" if unknown), and whether it is a failure."""
    names: dict[str, str] = {}
    for msg in history:
        names.update((use.id, use.name) for use in msg.tool_uses)
        for result, bad in judged_results(msg, failed):
            yield msg, result, result.name or names.get(result.id, ""), bad


def _recommendation(tool: str, patterns: list[dict[str, Any]]) -> str:
    kind = Counter(p["type"] for p in patterns).most_common(1)[0][0]
    return f"{tool} failed {len(patterns)} times, mostly {kind}: {_KINDS[kind][1]}"
