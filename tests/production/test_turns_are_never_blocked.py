"""Passes beside the conversation: one at a time, nothing added meanwhile is lost, no turn waits without need."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, ModelReply, ModelRequest, Msg
from autocontext.history.entries import Entry
from autocontext.stores import InMemorySessionStore
from autocontext.strategies import Proposal, View
from autocontext.testing import Delayed, ScriptedModel, assert_valid_chat, assistant, tool_call, tool_result, user
from tests.invariants import check, unreachable
from tests.production.agents import day, notes, rounds_only, small, with_reports

SLOW = Delayed(0.3, "In short.")
GUARD = 60
"""Seconds after which a test says that something hangs."""


class Gate:
    """A model that says when it was asked and answers when it is let."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.open = threading.Event()
        self.requests: list[ModelRequest] = []
        self.model = ScriptedModel(self._reply)

    def _reply(self, request: ModelRequest) -> str:
        self.requests.append(request)
        self.asked.set()
        assert self.open.wait(GUARD)
        return "In short."


class AsyncGate:
    """The same for an event loop, which goes on while it waits."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        self.asked.set()
        await asyncio.wait_for(self.open.wait(), GUARD)
        return ModelReply(text="In short.")


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after a minute."""
    until = time.monotonic() + GUARD
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


async def aeventually(holds: Callable[[], bool]) -> None:
    """The same without blocking the event loop."""
    until = time.monotonic() + GUARD
    while not holds():
        assert time.monotonic() < until
        await asyncio.sleep(0.005)


# ------------------------------------------------------------------------------------------------- single-flight
def test_single_flight_threads_that_read_at_the_same_time_wait_for_one_pass() -> None:
    gate = Gate()
    memory = AutoContextMemory(rounds_only(msg_threshold=40), gate.model)
    memory.add_messages(day(10))
    reports = with_reports(memory)
    contexts: list[list[Msg]] = []
    threads = [threading.Thread(target=lambda: contexts.append(memory.get_messages())) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert gate.asked.wait(GUARD)
    time.sleep(0.1)
    assert contexts == []
    gate.open.set()
    for thread in threads:
        thread.join(GUARD)
    assert len(reports) == 1
    assert len(gate.requests) == 9
    assert contexts == [memory.messages] * 6


def test_single_flight_tasks_that_read_at_the_same_time_wait_for_one_pass() -> None:
    gate = AsyncGate()
    memory = AutoContextMemory(rounds_only(msg_threshold=40), gate)
    memory.add_messages(day(10))
    reports = with_reports(memory)

    async def read() -> list[list[Msg]]:
        reading = [asyncio.create_task(memory.aget_messages()) for _ in range(6)]
        await asyncio.wait_for(gate.asked.wait(), GUARD)
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in reading)
        gate.open.set()
        return list(await asyncio.gather(*reading))

    contexts = asyncio.run(read())
    assert len(reports) == 1
    assert len(gate.requests) == 9
    assert contexts == [memory.messages] * 6


def test_single_flight_a_synchronous_call_inside_the_loop_that_runs_the_pass_is_told_busy() -> None:
    gate = AsyncGate()
    memory = AutoContextMemory(rounds_only(msg_threshold=40), gate)
    memory.add_messages(day(10))

    async def both() -> tuple[str, int]:
        running = asyncio.create_task(memory.acompress_if_needed())
        await asyncio.wait_for(gate.asked.wait(), GUARD)
        report, shown = memory.compress_if_needed(force=True), len(memory.get_messages())
        gate.open.set()
        assert await running
        return report.outcome, shown

    assert asyncio.run(both()) == ("busy", 40)


# ---------------------------------------------------------------------------------- messages added during a pass
def new_messages() -> list[Msg]:
    return [user("And now?"), tool_call("search", {"q": "x"}, id="late"), tool_result("late", "found"), user("Well?")]


def test_messages_added_during_a_pass_by_another_thread_are_kept_in_order() -> None:
    gate = Gate()
    memory = AutoContextMemory(rounds_only(), gate.model)
    memory.add_messages(day(4))
    thread = threading.Thread(target=memory.compress_if_needed, kwargs={"force": True})
    thread.start()
    assert gate.asked.wait(GUARD)
    for late in (added := new_messages()):
        memory.add_message(late)
    gate.open.set()
    thread.join(GUARD)
    assert len(notes(memory)) == 3
    assert memory.messages[-4:] == added
    assert_valid_chat(memory.messages)
    check(memory)


def test_messages_added_during_a_pass_by_another_task_are_kept_in_order() -> None:
    gate = AsyncGate()
    memory = AutoContextMemory(rounds_only(), gate)
    memory.add_messages(day(4))
    added = new_messages()

    async def both() -> None:
        running = asyncio.create_task(memory.acompress_if_needed(force=True))
        await asyncio.wait_for(gate.asked.wait(), GUARD)
        for late in added:
            await asyncio.sleep(0)
            memory.add_message(late)
        assert not running.done()
        gate.open.set()
        await running

    asyncio.run(both())
    assert len(notes(memory)) == 3
    assert memory.messages[-4:] == added
    check(memory)


def test_edits_are_applied_only_where_their_messages_still_stand() -> None:
    gate = Gate()
    memory = AutoContextMemory(rounds_only(), gate.model)
    memory.add_messages(day(4))
    thread = threading.Thread(target=memory.compress_if_needed, kwargs={"force": True})
    reports = with_reports(memory)
    thread.start()
    assert gate.asked.wait(GUARD)
    memory.delete_message(5)
    gate.open.set()
    thread.join(GUARD)
    assert len(notes(memory)) == 2
    assert "are not contiguous" in reports[0].refused[0].reason
    assert_valid_chat(memory.messages)
    check(memory)


@pytest.mark.parametrize("loses", ["clear", "load", "undo"])
def test_what_a_pass_that_lost_its_turn_has_asked_is_in_the_usage(loses: str) -> None:
    gate = Gate()
    memory = AutoContextMemory(rounds_only(prices={"input": 1.0, "output": 1.0}), ScriptedModel("In short."))
    memory.add_messages(day(2))
    memory.compress_if_needed(force=True)
    before, state = memory.usage, memory.state_dict()
    memory = AutoContextMemory(memory.config, gate.model)
    memory.load_state_dict(state)
    memory.add_messages(m.model_copy(update={"id": f"new-{i}"}) for i, m in enumerate(day(4)))
    reports: list[CompressionReport] = []
    thread = threading.Thread(target=lambda: reports.append(memory.compress_if_needed(force=True)))
    thread.start()
    assert gate.asked.wait(GUARD)
    {
        "clear": memory.clear,
        "load": lambda: memory.load_state_dict(state),
        "undo": lambda: memory.undo(next(iter(memory.get_offload_context()))),
    }[loses]()
    gate.open.set()
    thread.join(GUARD)
    assert (reports[0].outcome, reports[0].model_calls) == ("busy", 4)
    assert memory.usage.model_calls == 4
    assert memory.usage.input_tokens == reports[0].usage.input_tokens > before.input_tokens
    assert memory.usage.cost == reports[0].cost is not None


def test_what_a_pass_has_asked_is_in_the_usage_when_the_store_fails() -> None:
    class Full(InMemorySessionStore):
        """Takes messages and no compression."""

        def append(self, session: tuple[str, str], entries: Sequence[Entry], *, after: int) -> None:
            if any(entry.type == "edited" for entry in entries):
                raise OSError("no space left on device")
            super().append(session, entries, after=after)

    memory = AutoContextMemory(rounds_only(), ScriptedModel("In short."), store=Full())
    memory.add_messages(day(4))
    with pytest.raises(OSError, match="no space"):
        memory.compress_if_needed(force=True)
    assert memory.usage.model_calls == 3


# ------------------------------------------------------------------------------------------ while a pass is planned
class Pondering:
    """A strategy that says when it is asked and answers when it is let."""

    name = "pondering"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.open = threading.Event()

    def propose(self, view: View) -> list[Proposal]:
        self.asked.set()
        assert self.open.wait(GUARD)
        return [Proposal(view.span(0, 4), "In short.", role="assistant"), Proposal(view.span(4, 8), "Also.")]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_nobody_waits_while_a_pass_is_planned(how: str) -> None:
    strategy = Pondering()
    memory = AutoContextMemory(rounds_only(strategies=(strategy,)), ScriptedModel("In short."))
    memory.add_messages(day(4))
    reports: list[CompressionReport] = []
    run = {
        "sync": lambda: memory.compress_if_needed(force=True),
        "async": lambda: asyncio.run(memory.acompress_if_needed(force=True)),
    }[how]
    thread = threading.Thread(target=lambda: reports.append(run()))
    thread.start()
    assert strategy.asked.wait(GUARD)
    done = threading.Event()

    def others() -> None:
        memory.add_messages(new_messages())
        memory.get_messages()
        memory.delete_message(5)
        memory.offload("own", new_messages())
        done.set()

    other = threading.Thread(target=others)
    other.start()
    assert done.wait(GUARD)
    assert not reports
    strategy.open.set()
    thread.join(GUARD)
    other.join(GUARD)
    assert [r.reason for r in reports[0].refused] == ["the messages to replace are not contiguous in this view"]
    assert len(reports[0].strategies) == 1
    assert reports[0].messages_after == len(memory.messages)
    assert reports[0].tokens_after == memory.token_count
    assert memory.messages[0].text.startswith("In short.")
    assert [m.text for m in memory.messages[-4:]] == [m.text for m in new_messages()]
    assert_valid_chat(memory.messages)
    check(memory)


# ------------------------------------------------------------------------------------------------ background mode
def background(model: object) -> AutoContextMemory:
    config = small(strategies=("rounds",), max_token=4_000, background=True, model_timeout=GUARD)
    return AutoContextMemory(config, model)


def fill(memory: AutoContextMemory, share: float) -> None:
    n = 0
    while memory.token_count < 4_000 * share:
        memory.add_messages(m.model_copy(update={"id": f"{n}-{i}"}) for i, m in enumerate(day(1, size=8)))
        n += 1


def test_background_a_pass_starts_at_the_softer_threshold_in_a_thread_and_the_turn_does_not_wait() -> None:
    gate = Gate()
    memory = background(gate.model)
    reports = with_reports(memory)
    fill(memory, 0.55)
    memory.get_messages()
    assert not gate.asked.wait(0.1)
    fill(memory, 0.65)
    before = memory.messages
    assert memory.get_messages() == before
    assert gate.asked.wait(GUARD)
    assert memory.get_messages() == before
    assert_valid_chat(before)
    memory.add_message(user("And now?"))
    gate.open.set()
    eventually(lambda: bool(reports))
    assert memory.token_count < 4_000 * 0.6
    assert memory.get_messages()[-1].text == "And now?"
    assert unreachable(memory, memory.get_original_memory_msgs()) == []


def test_background_a_pass_starts_as_a_task_and_the_turn_does_not_wait() -> None:
    gate = AsyncGate()
    memory = background(gate)
    reports = with_reports(memory)
    fill(memory, 0.65)

    async def turn() -> None:
        before = memory.messages
        assert await memory.aget_messages() == before
        await asyncio.wait_for(gate.asked.wait(), GUARD)
        assert await memory.aget_messages() == before
        memory.add_message(user("And now?"))
        assert not reports
        gate.open.set()
        await aeventually(lambda: bool(reports))
        assert (await memory.aget_messages())[-1].text == "And now?"

    asyncio.run(turn())
    assert len(reports) == 1
    assert memory.token_count < 4_000 * 0.6


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sync", "async"])
def test_background_over_max_token_the_turn_waits(how: str) -> None:
    memory = background(ScriptedModel(SLOW))
    fill(memory, 1.1)
    context = memory.get_messages() if how == "sync" else asyncio.run(memory.aget_messages())
    assert context == memory.messages
    assert memory.token_count <= 4_000
    assert notes(memory)


def test_background_a_failing_model_reaches_the_report_and_no_turn() -> None:
    memory = background(ScriptedModel(RuntimeError("down")))
    reports = with_reports(memory)
    fill(memory, 0.65)
    memory.get_messages()
    eventually(lambda: bool(reports))
    assert reports[0].fallbacks > 0
    assert "RuntimeError: down" in reports[0].strategies[0].reason


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("content", ["question {n}: " + "word " * 60, "订单 {n} 的包裹晚到了。" * 40])
def test_a_memory_that_is_closed_gives_up_its_background_pass_and_says_how_to_keep_it(
    mode: str, content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = AutoContextConfig.for_window(4_000, background=True)

    def talk(memory: AutoContextMemory) -> None:
        while not memory._pass_runner._due(early=True):
            memory.add([user(content.format(n=len(memory))), assistant(content.format(n=len(memory)))])
        memory.add(user("And now?"))

    def with_threads() -> AutoContextMemory:
        gate = Gate()
        with AutoContextMemory.open(tmp_path / "a.db", session_id="s", config=config, model=gate.model) as memory:
            talk(memory)
            memory.get_messages()
            assert gate.asked.wait(GUARD)
        gate.open.set()
        eventually(lambda: not memory._pass_runner._thread.is_alive())
        return memory

    async def with_tasks() -> AutoContextMemory:
        gate = AsyncGate()
        async with AutoContextMemory.open(tmp_path / "a.db", session_id="s", config=config, model=gate) as memory:
            talk(memory)
            await memory.aget_messages()
            await asyncio.wait_for(gate.asked.wait(), GUARD)
        gate.open.set()
        await aeventually(lambda: not memory._pass_runner._tasks)
        return memory

    memory = with_threads() if mode == "sync" else asyncio.run(with_tasks())
    [said] = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert said.exc_info is None
    assert "'s': the memory was closed" in said.getMessage()
    assert memory.usage.model_calls == 1
    with AutoContextMemory.open(tmp_path / "a.db", session_id="s", config=config) as again:
        assert again.messages == memory.messages


# ----------------------------------------------------------------------------------------------- blocks the stream
def test_the_event_loop_is_not_blocked_while_the_model_thinks() -> None:
    asked, ticked = threading.Event(), threading.Event()

    class Blocking:
        """A model with a synchronous client only, which answers after the loop has gone on for a while."""

        def complete(self, _: ModelRequest) -> ModelReply:
            asked.set()
            return ModelReply(text="In short." if ticked.wait(GUARD) else "")

    memory = AutoContextMemory(rounds_only(), Blocking())
    memory.add_messages(day(4))

    async def ticking() -> int:
        running = asyncio.create_task(memory.acompress_if_needed(force=True))
        await aeventually(asked.is_set)
        for _ in range(10):
            await asyncio.sleep(0.01)
        ticked.set()
        return (await running).fallbacks

    assert asyncio.run(ticking()) == 0
