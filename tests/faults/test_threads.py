"""Several threads and event loops at one memory: nothing lost, order kept, one pass at a time, no deadlock."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from autocontext import AutoContextMemory, ModelReply, ModelRequest, Msg, TextBlock
from autocontext.history.entries import Edited
from autocontext.history.log import Log
from autocontext.messages import is_tool_message
from autocontext.testing import ScriptedModel, conversation, user
from autocontext.text.chat_rules import first_violation
from tests.faults.script import CONFIG, MESSAGES, PATIENCE, FaultyStore, check, model, opened

HALF = MESSAGES[:40]


@pytest.fixture(autouse=True)
def hasty_switching() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], object]) -> None:
    """Run these in threads, all begun at once; raises what one of them raised, or when one hangs."""
    begin = threading.Barrier(len(works))

    def begun(work: Callable[[], object]) -> object:
        begin.wait(PATIENCE)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        for running in [pool.submit(begun, work) for work in works]:
            running.result(3 * PATIENCE)


def in_order(memory: AutoContextMemory) -> bool:
    """Whether unchanged messages in the view are in the order in which they were added."""
    visible = [m.id for m in memory.messages if m.origin is None]
    return visible == [m.id for m in memory.get_original_memory_msgs() if m.id in set(visible)]


@pytest.mark.sampled
@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
def test_eight_threads_add_while_others_read_and_compress(background: bool) -> None:
    store = FaultyStore()
    memory = opened(store, ScriptedModel("Short.", latency=0.001), background=background)
    own = [[user(f"thread {t}, message {i}: {'word ' * 30}", id=f"{t}-{i}") for i in range(15)] for t in range(8)]
    adding = threading.Semaphore(0)

    def add(messages: list[Msg]) -> None:
        for m in messages:
            memory.add_message(m)
            time.sleep(0)
        adding.release()

    def until_all_are_added(work: Callable[[], Any]) -> Callable[[], None]:
        def go() -> None:
            while adding._value < len(own):
                view = work()
                assert isinstance(view, list | int | dict) or view.messages_before >= view.messages_after

        return go

    async def in_a_loop() -> None:
        while adding._value < len(own):
            assert first_violation(await memory.aget_messages()) is None

    together(
        *(lambda messages=messages: add(messages) for messages in own),
        until_all_are_added(memory.get_messages),
        until_all_are_added(memory.get_messages),
        until_all_are_added(memory.compress_if_needed),
        until_all_are_added(memory.state_dict),
        until_all_are_added(lambda: memory.token_count),
        lambda: asyncio.run(in_a_loop()),
        lambda: asyncio.run(in_a_loop()),
    )
    memory.compress_if_needed(force=True)
    originals = memory.get_original_memory_msgs()
    assert len(originals) == 8 * 15
    for t, messages in enumerate(own):
        assert [m for m in originals if m.id.startswith(f"{t}-")] == messages
    check(memory, store, originals)
    assert memory.get_compression_events()
    assert in_order(memory)


def test_two_event_loops_in_two_threads_share_one_memory() -> None:
    store = FaultyStore()
    memory = opened(store, ScriptedModel("Short.", latency=0.002))
    shared = iter(conversation(rounds=24, tools_per_round=0, chars=420))
    turns = threading.Lock()

    async def work() -> None:
        while True:
            with turns:
                msg = next(shared, None)
                if msg is not None:
                    memory.add_message(msg)
            if msg is None:
                return
            assert first_violation(await asyncio.wait_for(memory.aget_messages(), PATIENCE)) is None

    together(lambda: asyncio.run(work()), lambda: asyncio.run(work()))
    check(memory, store, conversation(rounds=24, tools_per_round=0, chars=420))
    assert memory.usage.passes >= 2


@pytest.mark.sampled
@pytest.mark.parametrize("callers", [2, 10])
def test_callers_of_one_loop_share_one_pass(callers: int) -> None:
    answering = ScriptedModel("Short.", latency=0.02)
    memory = AutoContextMemory(CONFIG, answering)
    reports: list[object] = []
    memory.on_compression(reports.append)
    memory.add_messages(HALF)

    async def run() -> list[list[Msg]]:
        return await asyncio.gather(*(memory.aget_messages() for _ in range(callers)))

    views = asyncio.run(run())
    assert len(reports) == memory.usage.passes == 1
    assert all(view == memory.messages for view in views)


def test_callers_in_threads_share_one_pass() -> None:
    memory = AutoContextMemory(CONFIG, ScriptedModel("Short.", latency=0.02))
    memory.add_messages(HALF)
    views: list[list[Msg]] = []
    together(*(lambda: views.append(memory.get_messages()) for _ in range(8)))
    assert memory.usage.passes == 1
    assert all(view == memory.messages for view in views)


@pytest.mark.slow
def test_a_synchronous_call_in_the_loop_of_a_running_pass_returns_the_current_view() -> None:
    async def run() -> None:
        gate = AsyncGate()
        memory = AutoContextMemory(CONFIG, gate)
        memory.add_messages(HALF)
        passing = asyncio.ensure_future(memory.aget_messages())
        await gate.asked.wait()
        assert memory.get_messages() == HALF
        assert memory.compress_if_needed(force=True).outcome == "busy"
        assert not passing.done()
        gate.go.set()
        assert await passing == memory.messages != HALF

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


# ----------------------------------------------------------------------------------- calls from inside the pass itself
class Curious:
    """A model, a redaction, a plan and a strategy that read the memory they work for."""

    name = "curious"
    description = expected_outcome = ""
    subtasks: tuple[object, ...] = ()

    def __init__(self) -> None:
        self.memory: AutoContextMemory | None = None
        self.seen: list[list[Msg]] = []

    def look(self) -> None:
        assert self.memory is not None
        self.seen.append(self.memory.get_messages())

    def complete(self, request: ModelRequest) -> ModelReply:
        self.look()
        return ModelReply(text="Short.")

    def redact(self, text: str) -> str:
        self.look()
        return text

    def propose(self, view: object) -> list[object]:
        self.look()
        return []


class AsyncCurious(Curious):
    async def acomplete(self, request: ModelRequest) -> ModelReply:
        assert self.memory is not None
        self.seen.append(await self.memory.aget_messages())
        self.look()
        return ModelReply(text="Short.")


@pytest.mark.sampled
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("role", ["model", "async model", "redact", "strategy"])
def test_what_a_pass_calls_may_read_the_memory(role: str, asynchronous: bool) -> None:
    curious = AsyncCurious() if role == "async model" else Curious()
    changed: dict[str, Any] = {
        "redact": {"redact": curious.redact},
        "strategy": {"strategies": (curious, *CONFIG.strategies)},
    }.get(role, {})
    memory = AutoContextMemory(CONFIG.model_copy(update=changed), curious if "model" in role else model())
    curious.memory = memory
    memory.add_messages(HALF)

    def work() -> None:
        if asynchronous:
            asyncio.run(memory.aget_messages())
        else:
            memory.get_messages()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the pass waits for itself"
    assert curious.seen
    assert curious.seen[0] == HALF
    assert memory.usage.fallbacks == 0
    assert memory.get_compression_events()


# ------------------------------------------------------------------------------ changes while the model is answering
class Gate:
    """A model that answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        self.asked.set()
        assert self.go.wait(PATIENCE)
        return ModelReply(text="Short.")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.go.set()


def in_background(gate: Gate, store: FaultyStore) -> AutoContextMemory:
    """A memory whose background pass has just called the model."""
    memory = opened(store, gate, background=True, max_token=8_000, msg_threshold=40)  # type: ignore[arg-type]
    memory.add_messages(HALF)
    assert memory.get_messages() == HALF
    assert gate.asked.wait(PATIENCE)
    return memory


def finish(gate: Gate, memory: AutoContextMemory) -> None:
    gate.go.set()
    thread = memory._pass_runner._thread
    assert thread is not None
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.slow
def test_messages_added_during_a_background_pass_are_kept_in_order(gate: Gate) -> None:
    store = FaultyStore()
    memory = in_background(gate, store)
    for m in MESSAGES[40:50]:
        memory.add_message(m)
        assert memory.get_messages()[-1] == m
    finish(gate, memory)
    assert memory.get_compression_events()
    check(memory, store, MESSAGES[:50])
    assert memory.messages[-1] == MESSAGES[49]
    assert in_order(memory)
    assert memory.usage.passes == 1


@pytest.mark.slow
def test_an_edit_is_made_only_where_its_messages_still_stand(gate: Gate) -> None:
    store = FaultyStore()
    memory = in_background(gate, store)
    reports = []
    memory.on_compression(reports.append)
    # Of the second round, which the pass has asked about, one answer leaves the view.
    at = next(i for i, m in enumerate(memory.messages) if i > 9 and m.tool_uses)
    removed = memory.delete_message(at)
    finish(gate, memory)
    assert memory.get_compression_events()
    assert any("are not contiguous" in r.reason for r in reports[0].refused)
    for entry in memory.get_offload_context().values():
        assert not {m.id for m in entry} & {m.id for m in removed}
    assert first_violation(memory.messages) is None
    assert opened(store).messages == memory.messages


@pytest.mark.parametrize("what", ["clear", "load"])
def test_a_pass_over_a_view_that_was_replaced_commits_nothing(gate: Gate, what: str) -> None:
    store = FaultyStore()
    memory = in_background(gate, store)
    # The same ids, other messages.
    others = [m.model_copy(update={"content": (TextBlock(text="short"),)}) for m in HALF if not is_tool_message(m)]
    if what == "clear":
        memory.clear()
        memory.add_messages(others)
    else:
        other = AutoContextMemory(CONFIG)
        other.add_messages(others)
        memory.load_state_dict(other.state_dict())
    entries = len(memory._log.entries)
    finish(gate, memory)
    assert memory.messages == others
    assert len(memory._log.entries) == entries
    check(memory, store, others)
    # A new pass may begin at once.
    assert memory.compress_if_needed(force=True).outcome != "busy"


@pytest.mark.slow
def test_what_was_put_back_during_a_pass_stands(gate: Gate) -> None:
    store = FaultyStore()
    before = opened(store)
    before.add_messages(HALF)
    before.compress_if_needed(force=True)
    before.add_messages(MESSAGES[40:55])
    memory = opened(store, gate)  # type: ignore[arg-type]
    reports: list[Any] = []
    thread = threading.Thread(target=lambda: reports.append(memory.compress_if_needed(force=True)))
    thread.start()
    assert gate.asked.wait(PATIENCE)
    key = next(k for k in memory.get_offload_context() if memory.undo(k))
    view = memory.messages
    assert {m.id for m in memory.reload(key)} <= {m.id for m in view}
    gate.go.set()
    thread.join(PATIENCE)
    assert reports[0].outcome == "busy"
    assert memory.messages == view
    check(memory, store, MESSAGES[:55])


def test_many_turns_in_the_background_start_one_pass(gate: Gate) -> None:
    store = FaultyStore()
    memory = in_background(gate, store)
    together(*(memory.get_messages for _ in range(8)))

    async def many() -> None:
        await asyncio.gather(*(memory.aget_messages() for _ in range(8)))

    asyncio.run(many())
    assert sum(t.name == "autocontext-pass" for t in threading.enumerate()) == 1
    finish(gate, memory)
    assert memory.usage.passes == 1


class AsyncGate:
    """The same for event loops."""

    def __init__(self) -> None:
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        self.asked.set()
        await self.go.wait()
        return ModelReply(text="Short.")


@pytest.mark.slow
def test_a_background_pass_of_a_loop_does_not_hold_up_its_turns() -> None:
    async def run() -> None:
        gate = AsyncGate()
        memory = opened(FaultyStore(), gate, background=True, max_token=8_000)  # type: ignore[arg-type]
        memory.add_messages(HALF)
        for m in MESSAGES[40:50]:
            memory.add_message(m)
            assert (await memory.aget_messages())[-1] == m
        assert not memory.get_compression_events()
        (task,) = memory._pass_runner._tasks
        gate.go.set()
        assert (await task).outcome == "applied"
        assert memory.get_compression_events()
        assert memory.messages[-1] == MESSAGES[49]
        assert in_order(memory)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.slow
def test_usage_adds_up_over_passes_from_many_threads() -> None:
    memory = AutoContextMemory(CONFIG, model())
    reports: list[Any] = []
    memory.on_compression(reports.append)

    def work(t: int) -> None:
        for i in range(6):
            memory.add_messages([user("word " * 60, id=f"{t}-{i}-{k}") for k in range(6)])
            memory.compress_if_needed(force=True)

    together(*(lambda t=t: work(t) for t in range(4)))
    assert memory.usage.passes == len(reports)
    assert memory.usage.model_calls == sum(r.model_calls for r in reports)


@pytest.mark.slow
def test_every_edit_stood_in_the_view_it_was_made_on() -> None:
    """Between the check of an edit and its commit nobody can take its messages away."""
    memory = AutoContextMemory(CONFIG, model())
    ended = threading.Event()

    def shuffle() -> None:
        for i, m in enumerate(conversation(rounds=60, tools_per_round=1, chars=420)):
            memory.add_message(m)
            if i % 4 == 3:
                memory.delete_message(i * 7 % len(memory.messages[1:5]) + 1)
            time.sleep(0.001)
        ended.set()

    def compress() -> None:
        over = False
        while not over:
            over = ended.is_set()  # once more after that, however late this thread begins
            memory.compress_if_needed(force=True)

    together(shuffle, compress, compress)
    assert memory.get_compression_events()
    again = Log()
    for entry in memory._log.entries:
        ids = tuple(again.view_ids)
        for edit in entry.edits if isinstance(entry, Edited) else ():
            at = ids.index(edit.ids[0])
            assert ids[at : at + len(edit.ids)] == edit.ids
        again.record(entry)
    assert again.view_messages == memory.messages
    memory.state_dict()
