"""What tools return and raise: no result is lost or told as an error, whatever ends a run, and the next one goes on."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extras import need

need("openai")

from openai import AsyncOpenAI

from autocontext import AutoContextConfig, AutoContextMemory, loop
from autocontext.errors import StoreError, told
from autocontext.formats.sendable import INTERRUPTED
from autocontext.history.entries import Added, Entry
from autocontext.loop.tools import Calls, Toolset
from autocontext.messages import ToolResultBlock
from autocontext.stores import InMemorySessionStore, SessionKey
from autocontext.text.results import result_text
from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI, Turn
from tests.faults.interrupts import interrupted_everywhere
from tests.loop.test_loop import call
from tests.loop.ways import MODEL, WAYS, Run, way
from tests.profiles import WITH_FIXTURES, share

CONFIG = AutoContextConfig(msg_threshold=10**6, max_token=10**9)


# ------------------------------------------------------------------------------------------------- what may come
class Mute:
    """A thing that cannot be shown."""

    def __repr__(self) -> NoReturn:
        raise RuntimeError("no repr")

    __str__ = __repr__


class Liar:
    """A thing that answers no question about itself."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, _value: Any) -> None: ...

    def __repr__(self) -> NoReturn:
        raise RecursionError


class Text(str):
    """A text with words of its own."""

    __slots__ = ()

    def __str__(self) -> NoReturn:
        raise RuntimeError("no str")


class MuteError(Exception):
    """An exception that cannot say what happened."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no str")

    __repr__ = __str__


class Ended(BaseException):
    """What no tool should raise."""


def _endless() -> list[Any]:
    endless: list[Any] = ["paid"]
    endless.append(endless)
    return endless


def _deep(levels: int = 50_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


RESULTS: dict[str, Callable[[], Any]] = {
    "tuple as key": lambda: {(1, 2): "paid"},
    "mixed keys": lambda: {1: "paid", None: "x", b"b": Mute()},
    "mute": Mute,
    "mute inside": lambda: {"paid": True, "by": [Mute()]},
    "mute as key": lambda: {Mute(): "paid"},
    "liar": Liar,
    "long number": lambda: 10**5000,
    "long number inside": lambda: {(1,): [10**5000, "paid"]},
    "endless": _endless,
    "deep": _deep,
    "bytes": lambda: b"\xff\x00",
    "set": lambda: {"paid"},
    "nan": lambda: float("nan"),
    "half a pair": lambda: "\ud800 paid",
    "half a pair in code": lambda: {"\udc00": {1}},
    "own text": lambda: Text("paid"),
    "decimal": lambda: Decimal("1.10"),
    "error": lambda: ValueError("paid"),
    "class": lambda: Mute,
    "generator": lambda: (n for n in range(3)),
    "none": lambda: None,
    "empty": str,
    "large": lambda: {(1,): "x" * 1_100_000},
    "result": lambda: ToolResultBlock(id="c", output="paid"),
}
PROBLEMS: dict[str, Callable[[], Exception]] = {
    "plain": lambda: ValueError("no such day"),
    "mute": MuteError,
    "stop": lambda: StopIteration(1),
    "half a pair": lambda: KeyError("\ud800"),
    "group": lambda: ExceptionGroup("several", [ValueError("a"), MuteError()]),
    "memory": MemoryError,
    "recursion": RecursionError,
    "asynchronous stop": StopAsyncIteration,
}
ENDS: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "own": Ended,
    "cancelled": asyncio.CancelledError,
    "generator": GeneratorExit,
}
Outcome = tuple[str, str]
OUTCOMES = st.one_of(
    st.tuples(st.just("return"), st.sampled_from(sorted(RESULTS))),
    st.tuples(st.just("raise"), st.sampled_from(sorted(PROBLEMS))),
    st.tuples(st.just("end"), st.sampled_from(sorted(ENDS))),
)


def tool(number: int, outcome: Outcome, *, coroutine: bool) -> Callable[[], Any]:
    kind, name = outcome

    def work() -> Any:
        """Do it."""
        if kind == "return":
            return RESULTS[name]()
        error = (PROBLEMS if kind == "raise" else ENDS)[name]()
        raise error

    @functools.wraps(work)
    async def later() -> Any:
        await asyncio.sleep(0)
        return work()

    made = later if coroutine else work
    made.__name__ = f"tool_{number}"
    return made


# ------------------------------------------------------------------------------------------------------- the loop
def asks_once(turn: Turn) -> Reply:
    """A model that calls every `tool_...` at once and answers at its next turn."""
    if any(m["role"] == "assistant" for m in turn.messages):
        return Reply(text="Done.")
    names = [name for name in turn.tools if name.startswith("tool_")]
    return Reply(text=None, tool_calls=[call(f"c{name[5:]}", name) for name in names])


@pytest.fixture(scope="module")
def service() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default=asks_once) as started:
        yield started


@pytest.fixture(scope="module", params=WAYS)
def run(request: pytest.FixtureRequest, service: FakeOpenAI) -> Iterator[Run]:
    with way(request.param, service.base_url) as ready:
        ready.__name__ = request.param
        yield ready


def new_memory(**options: Any) -> AutoContextMemory:
    memory = AutoContextMemory(CONFIG, **options)
    memory.add({"role": "user", "content": "Go."})
    return memory


def results(memory: AutoContextMemory) -> dict[str, ToolResultBlock]:
    return {b.id: b for m in memory.get_original_memory_msgs() for b in m.tool_results}


@pytest.mark.sampled
@settings(max_examples=share(60), suppress_health_check=WITH_FIXTURES)
@given(outcomes=st.lists(OUTCOMES, min_size=1, max_size=5), coroutines=st.booleans())
def test_what_tools_return_is_kept_and_no_error_and_the_next_run_goes_on(
    run: Run, service: FakeOpenAI, outcomes: list[Outcome], coroutines: bool
) -> None:
    coroutines = coroutines and run.__name__ in ("arun", "astream")
    tools = [tool(n, outcome, coroutine=coroutines) for n, outcome in enumerate(outcomes)]
    ends = tuple({type(ENDS[name]()) for kind, name in outcomes if kind == "end"})
    memory = new_memory()
    if ends:
        with pytest.raises(ends):
            run(memory, tools)
    else:
        assert run(memory, tools) == "Done."
    kept = results(memory)
    for number, (kind, _) in enumerate(outcomes):
        block = kept.pop(f"c{number}", None)
        if kind == "end":
            assert block is None
        else:
            assert block is not None
            assert block.is_error == (kind == "raise")
    assert not kept
    assert run(memory, tools) == "Done."
    assert service.refused == []
    answered = [m for m in memory.to_openai() if m["role"] == "tool"]
    # In the order in which they finished, each once.
    assert sorted(m["tool_call_id"] for m in answered) == [f"c{n}" for n in range(len(outcomes))]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_text_of_a_bounded_length_that_tells_what_can_be_told(name: str) -> None:
    text = result_text(RESULTS[name]())
    assert type(text) is str
    assert len(text) < 1_000_100
    if "inside" in name or name in ("tuple as key", "mixed keys", "endless", "own text", "set", "error"):
        assert "paid" in text


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_tool_raises_is_told_by_its_class(name: str) -> None:
    error = PROBLEMS[name]()
    assert told(error).startswith(type(error).__name__)


# ------------------------------------------------------------------------------------------------ ends from outside
def test_an_interrupt_keeps_what_is_there_and_does_not_wait_for_the_rest(run: Run, service: FakeOpenAI) -> None:
    memory, release, late = new_memory(), threading.Event(), threading.Event()

    def tool_1() -> str:
        """Ready at once."""
        return "paid"

    def tool_2() -> str:
        """Is at work when Ctrl-C comes."""
        while "c1" not in results(memory):
            release.wait(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(240)
        late.set()
        return "too late"

    with pytest.raises(KeyboardInterrupt):
        run(memory, [tool_1, tool_2])
    assert not release.is_set()
    assert {id_: b.text for id_, b in results(memory).items()} == {"c1": "paid"}
    release.set()
    assert late.wait(240)
    assert run(memory, [tool_1, tool_2]) == "Done."
    assert [m["content"] for m in memory.to_openai() if m["role"] == "tool"] == ["paid", INTERRUPTED]
    assert service.refused == []


class FailsOnce(InMemorySessionStore):
    """A store that does not take the first result."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def append(self, session: SessionKey, entries: list[Entry], *, after: int) -> None:  # type: ignore[override]
        if not self.refused and isinstance(entries[0], Added) and entries[0].message.tool_results:
            self.refused += 1
            raise StoreError("it is locked")
        super().append(session, entries, after=after)


def test_a_result_that_the_store_did_not_take_is_stored_with_the_next(run: Run) -> None:
    store = FailsOnce()
    memory = new_memory(store=store, session_id="s")
    assert run(memory, [tool(1, ("return", "empty"), coroutine=False), tool(2, ("return", "none"), coroutine=False)])
    assert store.refused == 1
    assert {id_: b.text for id_, b in results(memory).items()} == {"c1": "", "c2": "null"}


@pytest.mark.sampled
@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancelled_run_keeps_what_is_there_and_ends_its_tools(service: FakeOpenAI, *, streamed: bool) -> None:
    memory, ended = new_memory(), []

    def tool_1() -> str:
        """Ready at once."""
        return "paid"

    async def tool_2() -> str:
        """Is at work when the run is cancelled."""
        while "c1" not in results(memory):  # noqa: ASYNC110 (the memory has no event for it)
            await asyncio.sleep(0.001)
        runs[0].cancel()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return "never"

    runs: list[asyncio.Task[str]] = []

    async def go() -> str:
        async with AsyncOpenAI(base_url=service.base_url, api_key="test-key") as client:
            if streamed:
                return "".join([text async for text in loop.astream(client, MODEL, memory, [tool_1, tool_2])])
            return await loop.arun(client, MODEL, memory, [tool_1, tool_2])

    async def cancelled() -> None:
        runs.append(asyncio.create_task(go()))
        with pytest.raises(asyncio.CancelledError):
            await runs[0]
        assert ended == [True]

    asyncio.run(cancelled())
    assert {id_: b.text for id_, b in results(memory).items()} == {"c1": "paid"}
    assert asyncio.run(go()) == "Done."
    assert [m["content"] for m in memory.to_openai() if m["role"] == "tool"] == ["paid", INTERRUPTED]


@pytest.mark.slow
def test_an_interrupt_anywhere_stores_each_result_at_most_once() -> None:
    store = InMemorySessionStore()
    names = (f"s{n}" for n in itertools.count())
    tools = [tool(1, ("return", "none"), coroutine=False), tool(2, ("return", "empty"), coroutine=False)]

    def asked() -> tuple[AutoContextMemory, str]:
        name = next(names)
        memory = new_memory(store=store, session_id=name)
        memory.add({"role": "assistant", "content": None, "tool_calls": [call("c1", "tool_1"), call("c2", "tool_2")]})
        return memory, name

    def answer(state: tuple[AutoContextMemory, str]) -> None:
        Calls(state[0], Toolset(tools), state[0].messages[-1]).run()

    def check(state: tuple[AutoContextMemory, str]) -> None:
        memory, name = state
        for seen in (memory, AutoContextMemory(CONFIG, store=store, session_id=name)):
            ids = [b.id for m in seen.get_original_memory_msgs() for b in m.tool_results]
            assert len(ids) == len(set(ids))
            assert [m["tool_call_id"] for m in seen.to_openai() if m["role"] == "tool"] == ["c1", "c2"]
        memory.add({"role": "user", "content": "And on."})
        assert memory.messages[-1].text == "And on."

    assert interrupted_everywhere(asked, answer, check, samples=150) >= 12
