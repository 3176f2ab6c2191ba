"""Telemetry against the real SDK: spans and their parents in sync, async and background passes, counters, silence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extras import need

need("otel")

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autocontext import (
    AutoContextConfig,
    AutoContextMemory,
    CompressionReport,
    ContextOffloadTool,
    ModelReply,
    ModelRequest,
    Msg,
)
from autocontext.stores import InMemorySessionStore, SessionKey
from autocontext.testing import EMPTY, Answer, Delayed, ScriptedModel, tool_exchange
from tests.production.agents import day, rounds_only, task
from tests.profiles import WITH_FIXTURES, share

CONFIG = rounds_only(msg_threshold=10)
BACKGROUND = CONFIG.model_copy(update={"background": True})


class Telemetry:
    """What the SDK has been given."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.before: dict[str, int] = {}

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]

    def passes(self) -> list[ReadableSpan]:
        return self.spans("autocontext.compress")

    def sums(self) -> dict[str, int]:
        """All counters, without the attributes."""
        data = self.reader.get_metrics_data()
        instruments = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return {m.name: sum(p.value for p in m.data.data_points) for m in instruments}

    def counted(self) -> dict[str, int]:
        """What the counters have grown by in this test."""
        return {name: n - self.before.get(name, 0) for name, n in self.sums().items()}

    def calls(self, when: str) -> tuple[int, ...]:
        """The calls before or after passes, of all tests: all, repeated, read again."""
        data = self.reader.get_metrics_data()
        points = {
            m.name: [p.value for p in m.data.data_points if dict(p.attributes).get("autocontext.when") == when]
            for r in (data.resource_metrics if data else ())
            for s in r.scope_metrics
            for m in s.metrics
        }
        names = ("calls", "calls.repeated", "calls.reread")
        return tuple(sum(points.get(f"autocontext.{name}", ())) for name in names)


@pytest.fixture(scope="session")  # also when a worker comes back to this module
def sdk() -> Iterator[Telemetry]:
    """The SDK as an application sets it up, once in a process."""
    telemetry = Telemetry()
    trace.set_tracer_provider(telemetry.tracers)
    metrics.set_meter_provider(MeterProvider([telemetry.reader]))
    yield telemetry
    telemetry.exporter.shutdown()


@pytest.fixture
def telemetry(sdk: Telemetry) -> Telemetry:
    sdk.exporter.clear()
    sdk.before = sdk.sums()
    return sdk


def filled(model: object = None, config: AutoContextConfig = CONFIG, rounds: int = 5) -> AutoContextMemory:
    memory = AutoContextMemory(config, model, store=InMemorySessionStore(), session_id="talk-7")  # type: ignore[arg-type]
    memory.add_messages(day(rounds))
    return memory


def parents(spans: list[ReadableSpan]) -> set[int | None]:
    return {span.parent.span_id if span.parent else None for span in spans}


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def check_pass(telemetry: Telemetry, report: CompressionReport, *, parent: int | None = None) -> None:
    """One span that tells what the report tells, with one child per model call."""
    (span,) = telemetry.passes()
    span_attributes = attributes(span)
    assert span_attributes["autocontext.outcome"] == report.outcome
    assert span_attributes["autocontext.tokens.before"] == report.tokens_before
    assert span_attributes["autocontext.tokens.after"] == report.tokens_after
    assert span_attributes["autocontext.strategies"] == tuple(s.name for s in report.strategies if s.applied)
    assert span_attributes["gen_ai.conversation.id"] == "talk-7"
    assert span_attributes["gen_ai.operation.name"] == "compress"
    assert parents([span]) == {parent}
    calls = telemetry.spans("chat ")
    assert len(calls) == report.model_calls
    assert parents(calls) == {id_of(span)}
    assert sum(int(str(attributes(c).get("gen_ai.usage.input_tokens", 0))) for c in calls) == report.usage.input_tokens
    assert (
        sum(int(str(attributes(c).get("gen_ai.usage.output_tokens", 0))) for c in calls) == report.usage.output_tokens
    )
    grown = {name: n for name, n in telemetry.counted().items() if not name.startswith("autocontext.calls")}
    assert grown == {
        "autocontext.passes": 1,
        "autocontext.tokens.saved": report.tokens_before - report.tokens_after,
        "autocontext.fallbacks": report.fallbacks,
        **({"autocontext.reloads": 0} if "autocontext.reloads" in grown else {}),
    }


ANSWERS = [
    lambda _: "In short.",
    lambda _: EMPTY,
    lambda _: ValueError("out of order"),
    lambda _: Delayed(0.001, "In short."),
    lambda _: ModelReply(text="cut of", truncated=True),
]


@settings(max_examples=share(15), deadline=None, suppress_health_check=WITH_FIXTURES)
@given(
    script=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=6),
    rounds=st.integers(2, 6),
    retries=st.integers(0, 1),
    asynchronous=st.booleans(),
)
def test_spans_and_counters_agree_with_the_report(
    telemetry: Telemetry, script: list[Answer], rounds: int, retries: int, asynchronous: bool
) -> None:
    telemetry.exporter.clear()
    telemetry.before = telemetry.sums()
    config = CONFIG.model_copy(update={"model_retries": retries})
    memory = filled(ScriptedModel(script), config, rounds)
    report = (
        asyncio.run(memory.acompress_if_needed(force=True)) if asynchronous else memory.compress_if_needed(force=True)
    )
    check_pass(telemetry, report)


def test_names_of_a_model_call(telemetry: Telemetry) -> None:
    filled(ScriptedModel("In short.")).compress_if_needed(force=True)
    call = telemetry.spans("chat ")[0]
    span_attributes = attributes(call)
    assert call.name == "chat ScriptedModel"
    assert call.kind is trace.SpanKind.CLIENT
    assert span_attributes["gen_ai.operation.name"] == "chat"
    assert span_attributes["gen_ai.request.model"] == "ScriptedModel"
    assert span_attributes["autocontext.purpose"] in (
        "tool_run",
        "large_message",
        "round_summary",
        "current_round",
        "merge",
    )
    assert call.status.is_unset


def test_a_model_with_a_name_is_called_by_it(telemetry: Telemetry) -> None:
    class Named(ScriptedModel):
        model = "gpt-5-nano"

    filled(Named()).compress_if_needed(force=True)
    assert {span.name for span in telemetry.spans("chat ")} == {"chat gpt-5-nano"}


def test_nothing_that_was_said_is_recorded(telemetry: Telemetry) -> None:
    model = ScriptedModel([RuntimeError("401: no such key, you asked about SHOP-4000"), EMPTY, "SHOP-4001 is why."])
    filled(model).compress_if_needed(force=True)
    assert len(telemetry.spans()) > 3
    recorded = "".join(span.to_json() for span in telemetry.spans())
    assert [word for word in ("SHOP", "price_", "no such key") if word in recorded] == []


def test_a_pass_belongs_to_the_span_it_is_read_in(telemetry: Telemetry) -> None:
    memory = filled(ScriptedModel("In short."))
    reports: list[CompressionReport] = []
    memory.on_compression(reports.append)
    with telemetry.tracers.get_tracer("app").start_as_current_span("request") as request:
        memory.get_messages()
        assert trace.get_current_span() is request
    check_pass(telemetry, reports[0], parent=request.get_span_context().span_id)


def test_an_asynchronous_pass_belongs_to_its_task(telemetry: Telemetry) -> None:
    async def turn(name: str) -> int:
        memory = filled(ScriptedModel(Delayed(0.02, "In short.")))
        with telemetry.tracers.get_tracer("app").start_as_current_span(name) as request:
            await memory.aget_messages()
            assert trace.get_current_span() is request
        return request.get_span_context().span_id

    async def both() -> list[int]:
        return list(await asyncio.gather(turn("one"), turn("two")))

    requests = asyncio.run(both())
    assert parents(telemetry.passes()) == set(requests)
    assert parents(telemetry.spans("chat ")) == {id_of(span) for span in telemetry.passes()}


def test_threads_keep_their_passes_apart(telemetry: Telemetry) -> None:
    names: dict[int, str] = {}

    def turn(name: str) -> None:
        with telemetry.tracers.get_tracer("app").start_as_current_span(name) as request:
            filled(ScriptedModel(Delayed(0.01, "In short."))).get_messages()
        names[request.get_span_context().span_id] = name

    threads = [threading.Thread(target=turn, args=(f"thread {i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parents(telemetry.passes()) == set(names)
    for span in telemetry.passes():
        assert span.parent is not None
        assert span.context is not None
        assert span.context.trace_id == span.parent.trace_id


def test_a_sync_pass_under_a_running_event_loop_keeps_its_children(telemetry: Telemetry) -> None:
    async def notebook() -> CompressionReport:
        return filled(ScriptedModel("In short.")).compress_if_needed(force=True)

    check_pass(telemetry, asyncio.run(notebook()))


def test_a_pass_in_a_background_thread_belongs_to_the_turn_that_began_it(telemetry: Telemetry) -> None:
    memory = filled(ScriptedModel("In short."), BACKGROUND)
    done = threading.Event()
    memory.on_compression(lambda _: done.set())
    with telemetry.tracers.get_tracer("app").start_as_current_span("request") as request:
        memory.get_messages()
    assert done.wait(240)
    assert parents(telemetry.passes()) == {request.get_span_context().span_id}
    assert parents(telemetry.spans("chat ")) == {id_of(telemetry.passes()[0])}


def test_a_pass_in_a_background_task_belongs_to_the_turn_that_began_it(telemetry: Telemetry) -> None:
    async def turn() -> int:
        memory = filled(ScriptedModel(Delayed(0.01, "In short.")), BACKGROUND)
        done = asyncio.Event()
        memory.on_compression(lambda _: done.set())
        with telemetry.tracers.get_tracer("app").start_as_current_span("request") as request:
            await memory.aget_messages()
        await asyncio.wait_for(done.wait(), 240)
        return request.get_span_context().span_id

    request = asyncio.run(turn())
    assert parents(telemetry.passes()) == {request}
    assert parents(telemetry.spans("chat ")) == {id_of(telemetry.passes()[0])}


def test_spans_made_by_the_model_are_children_of_its_call(telemetry: Telemetry) -> None:
    def reply(_: ModelRequest) -> str:
        with telemetry.tracers.get_tracer("http").start_as_current_span("POST"):
            return "In short."

    filled(ScriptedModel(reply)).compress_if_needed(force=True)
    assert parents(telemetry.spans("POST")) <= {id_of(span) for span in telemetry.spans("chat ")}
    assert len(telemetry.spans("POST")) == len(telemetry.spans("chat "))


def test_a_failing_model_is_seen(telemetry: Telemetry) -> None:
    config = CONFIG.model_copy(update={"model_retries": 1})
    memory = filled(ScriptedModel(ConnectionError("no route")), config)
    report = memory.compress_if_needed(force=True)
    check_pass(telemetry, report)
    assert {attributes(span)["error.type"] for span in telemetry.spans("chat ")} == {"ConnectionError"}
    assert {span.status.status_code for span in telemetry.spans("chat ")} == {trace.StatusCode.ERROR}


def test_a_pass_that_comes_to_nothing_is_marked(telemetry: Telemetry) -> None:
    config = CONFIG.model_copy(update={"extractive_fallback": False})
    report = filled(ScriptedModel(EMPTY), config).compress_if_needed(force=True)
    assert report.outcome == "failed"
    check_pass(telemetry, report)
    (span,) = telemetry.passes()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert attributes(span)["error.type"] == "failed"
    assert {attributes(call)["error.type"] for call in telemetry.spans("chat ")} == {"unusable_reply"}


def test_notes_without_the_model_are_counted(telemetry: Telemetry) -> None:
    report = filled(ScriptedModel(EMPTY)).compress_if_needed(force=True)
    assert report.fallbacks > 0
    check_pass(telemetry, report)


def test_a_failing_store_ends_the_span_and_goes_on_to_the_caller(telemetry: Telemetry) -> None:
    class Full(InMemorySessionStore):
        full = False

        def append(self, session: SessionKey, entries: object, *, after: int) -> None:
            if self.full:
                raise OSError("no space left on device")
            super().append(session, entries, after=after)  # type: ignore[arg-type]

    store = Full()
    memory = AutoContextMemory(CONFIG, ScriptedModel("In short."), store=store)
    memory.add_messages(day(5))
    store.full = True
    with pytest.raises(OSError, match="no space left"):
        memory.compress_if_needed(force=True)
    (span,) = telemetry.passes()
    assert attributes(span)["error.type"] == "OSError"
    assert span.status.status_code is trace.StatusCode.ERROR


def test_a_cancelled_pass_ends_its_spans(telemetry: Telemetry) -> None:
    async def cancelled() -> None:
        memory = filled(ScriptedModel(Delayed(30, "never")))
        task = asyncio.create_task(memory.acompress_if_needed(force=True))
        while not memory_asked(memory):  # noqa: ASYNC110 (a scripted model has no event to wait for)
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def memory_asked(memory: AutoContextMemory) -> bool:
        return bool(memory._pass_runner._asker.model.requests)

    asyncio.run(cancelled())
    (span,) = telemetry.passes()
    assert attributes(span)["error.type"] == "CancelledError"
    assert {attributes(call)["error.type"] for call in telemetry.spans("chat ")} == {"CancelledError"}
    assert parents(telemetry.spans("chat ")) == {id_of(span)}


def test_a_coroutine_that_is_thrown_away_leaves_the_context_as_it_was(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    memory = filled(ScriptedModel("In short."))
    work = memory.acompress_if_needed(force=True)

    async def begin() -> None:
        task = asyncio.get_running_loop().create_task(work)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(begin())
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert caplog.records == []


def test_where_no_pass_is_due_nothing_is_recorded(telemetry: Telemetry) -> None:
    memory = AutoContextMemory(CONFIG, ScriptedModel())
    memory.add_message(Msg(role="user", content="hello"))
    memory.get_messages()
    assert not memory.compress_if_needed()
    assert telemetry.spans() == []
    assert telemetry.counted().get("autocontext.passes", 0) == 0


def test_reloads_by_the_agent_are_counted(telemetry: Telemetry) -> None:
    memory = filled()
    memory.compress_if_needed(force=True)
    tool = ContextOffloadTool(memory)
    uuid = next(iter(memory.get_offload_context()))
    tool(uuid)
    tool(uuid, query="anything")
    asyncio.run(tool.acall(working_context_offload_uuid=uuid))
    tool("00000000-nothing-there")
    tool("")
    assert telemetry.counted()["autocontext.reloads"] == 3


def test_the_embedded_summariser_makes_no_calls(telemetry: Telemetry) -> None:
    assert filled().compress_if_needed(force=True)
    assert len(telemetry.passes()) == 1
    assert telemetry.spans("chat ") == []


_PASS = """
from autocontext import AutoContextConfig, AutoContextMemory, ContextOffloadTool
from autocontext.testing import ScriptedModel, conversation
memory = AutoContextMemory(AutoContextConfig(msg_threshold=10, last_keep=2), ScriptedModel("In short."))
memory.add_messages(conversation(rounds=8, chars=900))
assert memory.compress_if_needed(force=True)
assert ContextOffloadTool(memory)(next(iter(memory.get_offload_context()))).startswith("[")
"""
_NOT_IMPORTED = """
import sys
assert not [m for m in sys.modules if m.startswith("opentelemetry")]
"""
_WITHOUT_API = """
import os, sys, types
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
os.environ["OTEL_PYTHON_TRACER_PROVIDER"] = "sdk_tracer_provider"
"""
_NAMESAKE = """
sys.modules["opentelemetry"] = types.ModuleType("opentelemetry")
"""


def python(code: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [f"{_PASS}{_NOT_IMPORTED}import opentelemetry.trace{_PASS}", f"{_WITHOUT_API}{_PASS}{_NAMESAKE}{_PASS}"],
    ids=["nobody has imported it, then the API alone", "not installed but configured, then a package of its name"],
)
def test_it_is_silent_without_api_or_sdk(code: str) -> None:
    assert python(code) == (0, "", "")


@pytest.mark.slow
def test_an_sdk_that_only_the_environment_names_is_used() -> None:
    configured = "import os; os.environ['OTEL_PYTHON_TRACER_PROVIDER'] = 'sdk_tracer_provider'"
    provider = "from opentelemetry import trace; print(type(trace.get_tracer_provider()).__module__)"
    assert python(f"{configured}{_PASS}{provider}") == (0, "opentelemetry.sdk.trace\n", "")


# ---------------------------------------------------------------------------------------------- calls around the passes
class Calls:
    """What telemetry is told of calls, from now on."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._before = {when: telemetry.calls(when) for when in ("before", "after")}

    def told(self) -> dict[str, tuple[int, ...]]:
        return {
            when: tuple(n - old for n, old in zip(self._telemetry.calls(when), before, strict=True))
            for when, before in self._before.items()
        }


def counts(memory: AutoContextMemory) -> dict[str, tuple[int, ...]]:
    """What the memory says itself."""
    found = {"before": memory.repeats().before, "after": memory.repeats().after}
    return {when: (c.calls, c.repeated, c.reread) for when, c in found.items()}


def read_again(path: str) -> list[Msg]:
    return list(tool_exchange("read_file", {"path": path}, "price = net"))


@settings(max_examples=share(15), deadline=None, suppress_health_check=WITH_FIXTURES)
@given(
    steps=st.lists(st.sampled_from(["work", "again", "again", "read", "pass"]), max_size=25), asynchronous=st.booleans()
)
def test_calls_around_passes_are_told_once_as_the_memory_counts_them(
    telemetry: Telemetry, steps: list[str], asynchronous: bool
) -> None:
    calls = Calls(telemetry)
    memory = filled(config=rounds_only(msg_threshold=1_000))
    passes = 0
    for n, step in enumerate([*steps, "read"]):
        if step == "work":
            memory.add_messages(task(n))
        elif step == "again":
            memory.add_messages(read_again("/srv/shop/module_1.py"))
        elif step == "read":
            asyncio.run(memory.aget_messages()) if asynchronous else memory.get_messages()
        else:
            compress = memory.acompress_if_needed(force=True) if asynchronous else None
            passes += bool(asyncio.run(compress) if compress else memory.compress_if_needed(force=True))
    assert calls.told() == counts(memory)
    assert passes or calls.told() == {"before": (0, 0, 0), "after": (0, 0, 0)}


def test_calls_of_an_earlier_process_are_known_and_not_told_again(telemetry: Telemetry) -> None:
    store, calls = InMemorySessionStore(), Calls(telemetry)

    def opened() -> AutoContextMemory:
        return AutoContextMemory(CONFIG, store=store, session_id="talk-7")

    first = opened()
    first.add_messages(day(5))
    assert first.compress_if_needed(force=True)
    first.add_messages(read_again("/srv/shop/module_1.py"))
    first.get_messages()
    assert calls.told() == counts(first) == {"before": (5, 0, 0), "after": (1, 1, 1)}
    second = opened()
    second.add_messages(read_again("/srv/shop/module_2.py"))
    second.get_messages()
    assert calls.told()["after"] == (1, 1, 1), "a process that makes no pass does not read the log for this"
    assert counts(second)["after"] == (2, 2, 2), "asking changes nothing in what is told"
    second.add_messages(day(5))
    assert second.compress_if_needed(force=True)
    assert calls.told() == counts(second) == {"before": (5, 0, 0), "after": (7, 7, 7)}
