"""Passes, model calls and reloads as OpenTelemetry spans and counters, for applications that use OpenTelemetry.

Only its API is needed (extra `otel`), and it is used only if the application imports it or sets its environment
variables. No message, prompt or reply is ever recorded.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from autocontext._version import __version__
from autocontext.events import CallCounts, CompressionReport
from autocontext.requests import ModelRequest, Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter
    from opentelemetry.trace import Span, Tracer

_SCOPE = "autocontext"
_PROVIDER_VARIABLES = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER")
"""With these environment variables the API loads an SDK by itself."""


@dataclass
class PassSpan:
    """The span `autocontext.compress` of one pass; it begins with the first step.

    A context manager around the whole pass; `inside()` surrounds each of its steps, in any thread.
    """

    conversation: str
    report: CompressionReport | None = None
    """The pass's report; set before the end."""
    _span: Span | None = None
    _over: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        report = self.report
        if report is not None and (report.model_calls or report.outcome not in ("not_needed", "busy")):
            _count(report)
        self._over = True
        if self._span is None:
            return
        if report is not None:
            self._span.set_attributes(_attributes(report))
            if report.outcome in ("failed", "impossible"):
                _mark(self._span, report.outcome, report.reason)
        if error is not None:
            _mark(self._span, type(error).__qualname__, "")
        self._span.end()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Make spans that begin in here children of this one; starts it if needed."""
        if self._over or not in_use():  # over: the task was cancelled, but one of its threads still runs
            yield
            return
        if self._span is None:
            attributes = {"gen_ai.operation.name": "compress", "gen_ai.conversation.id": self.conversation}
            self._span = _tracer().start_span("autocontext.compress", attributes=attributes)
        with _current(self._span):
            yield


@contextmanager
def call_span(name: str, request: ModelRequest) -> Iterator[Callable[[Usage, str], None]]:
    """The span of one call of the model of this name, as OpenTelemetry's conventions for GenAI have it.

    Gives what records the call's usage, and the problem with its reply ("" for none).
    """
    if not in_use():
        yield lambda *_: None
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 (optional)

    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": name,
        "autocontext.purpose": request.purpose,
    }
    if request.max_output_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = request.max_output_tokens
    span = _tracer().start_span(f"chat {name}", kind=SpanKind.CLIENT, attributes=attributes)

    def record(usage: Usage, problem: str) -> None:
        span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
        if problem:
            _mark(span, "unusable_reply", "the reply was of no use")

    try:
        with _current(span):
            yield record
    except BaseException as e:
        # Only the type: a provider's text may quote the request.
        _mark(span, type(e).__qualname__, "")
        raise
    finally:
        span.end()


def count_reload() -> None:
    """Count one successful reload by an agent."""
    if in_use():
        _counters()["reloads"].add(1)


def count_calls(before: CallCounts, after: CallCounts) -> None:
    """Count calls shortly before and after passes, and how many of them repeat earlier ones."""
    for when, counts in (("before", before), ("after", after)):
        if counts.calls:
            for name in ("calls", "repeated", "reread"):
                counter = _counters()[name if name == "calls" else f"calls.{name}"]
                counter.add(getattr(counts, name), {"autocontext.when": when})


def _attributes(report: CompressionReport) -> dict[str, Any]:
    return {
        "autocontext.outcome": report.outcome,
        "autocontext.tokens.before": report.tokens_before,
        "autocontext.tokens.after": report.tokens_after,
        "autocontext.messages.before": report.messages_before,
        "autocontext.messages.after": report.messages_after,
        "autocontext.strategies": tuple(s.name for s in report.strategies if s.applied),
        "autocontext.model_calls": report.model_calls,
        "autocontext.fallbacks": report.fallbacks,
        "autocontext.prefix_tokens_invalidated": report.prefix_tokens_invalidated,
    }


def _count(report: CompressionReport) -> None:
    if not in_use():
        return
    counters = _counters()
    counters["passes"].add(1, {"autocontext.outcome": report.outcome})
    counters["tokens.saved"].add(max(0, report.tokens_before - report.tokens_after))
    counters["fallbacks"].add(report.fallbacks)


def _mark(span: Span, error: str, description: str) -> None:
    """Mark a span as failed; `error` is one of few values, as dashboards group by it."""
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 (optional)

    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, description or error))


@contextmanager
def _current(span: Span) -> Iterator[None]:
    from opentelemetry import context, trace  # noqa: PLC0415 (optional)

    before = context.get_current()
    context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        # Not by token: an abandoned coroutine may be closed in another context.
        context.attach(before)


# ------------------------------------------------------------------------------------------------------------- the API
def in_use() -> bool:
    """Whether the API is in use: imported by the application, or set up by the environment."""
    if "opentelemetry" not in sys.modules and not any(name in os.environ for name in _PROVIDER_VARIABLES):
        return False
    return _api_exists()


@functools.cache
def _api_exists() -> bool:
    # Several distributions share the package's name, so it may exist without the API.
    try:
        from opentelemetry import metrics, trace  # noqa: F401, PLC0415 (optional)
    except ImportError:
        return False
    return True


def _tracer() -> Tracer:
    from opentelemetry import trace  # noqa: PLC0415 (optional)

    return trace.get_tracer(_SCOPE, __version__)


def _counters() -> dict[str, Counter]:
    from opentelemetry import metrics  # noqa: PLC0415 (optional)

    return _counters_of(metrics.get_meter_provider())


@functools.lru_cache(maxsize=1)
def _counters_of(provider: Any) -> dict[str, Counter]:
    meter = provider.get_meter(_SCOPE, __version__)
    descriptions = {
        "passes": ("{pass}", "Compression passes"),
        "tokens.saved": ("{token}", "Tokens that passes have taken out of the context"),
        "fallbacks": ("{note}", "Notes written without the model because it gave no usable answer"),
        "reloads": ("{reload}", "Reloads of originals by agents"),
        "calls": ("{call}", "Tool calls within ten before or after a pass"),
        "calls.repeated": ("{call}", "Of these, calls of a tool with the arguments of an earlier one"),
        "calls.reread": ("{call}", "Of these, reads of what was read before, and reloads"),
    }
    return {
        name: meter.create_counter(f"{_SCOPE}.{name}", unit=unit, description=text)
        for name, (unit, text) in descriptions.items()
    }
