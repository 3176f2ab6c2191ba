"""A large message does not hold up the event loop: what takes long is done in threads."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.testing import ScriptedModel, user
from autocontext.tokens import TokenCounter, get_counter
from tests.faults.script import CONFIG, MESSAGES, PATIENCE, FaultyStore, opened

LARGE = "value_17=3 " * 95_000
MANY = "value_17=3 " * 5_000
"""Less than what is counted aside by itself; together with others more."""


class Watched:
    """A counter that notes which threads count large texts."""

    def __init__(self, name: str = "o200k_base") -> None:
        self._inner: TokenCounter = get_counter(name)
        self.name, self.exact = name, True
        self.threads: list[threading.Thread] = []

    def count_text(self, text: str) -> int:
        if len(text) > 10_000:
            self.threads.append(threading.current_thread())
        return self._inner.count_text(text)

    def count(self, msg: Msg) -> int:
        self.count_text(msg.text)
        return self._inner.count(msg)

    def bound(self, msg: Msg) -> int:
        return self._inner.bound(msg)


@pytest.mark.slow
@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
@pytest.mark.parametrize("messages", [[user(LARGE)], [user(MANY, id=f"m{i}") for i in range(20)]], ids=["one", "many"])
@pytest.mark.parametrize("force", [False, True], ids=["when due", "forced"])
def test_large_texts_are_counted_in_another_thread(messages: list[Msg], background: bool, force: bool) -> None:
    counter = Watched()
    config = AutoContextConfig(max_token=100_000, background=background, token_counter=counter)
    memory = AutoContextMemory(config, ScriptedModel("Short."))

    async def run() -> None:
        memory.add_messages(messages)
        if force:
            await memory.acompress_if_needed(force=True)
        await memory.aget_messages()
        await asyncio.gather(*memory._pass_runner._tasks)

    asyncio.run(run())
    assert len(counter.threads) >= len(messages)
    assert threading.main_thread() not in counter.threads


def test_nothing_is_counted_while_the_bytes_alone_are_under_the_trigger() -> None:
    counter = Watched()
    memory = AutoContextMemory(AutoContextConfig(max_token=10_000_000, token_counter=counter))
    memory.add_message(user(LARGE))
    asyncio.run(memory.aget_messages())
    assert counter.threads == []


class WatchedStore(FaultyStore):
    """Notes which threads write."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[threading.Thread] = []

    def append(self, *arguments: object, **named: object) -> None:
        self.threads.append(threading.current_thread())
        super().append(*arguments, **named)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_pass_writes_to_the_store_in_another_thread() -> None:
    store = WatchedStore()
    memory = opened(store)
    memory.add_messages(MESSAGES[:40])
    store.threads.clear()
    asyncio.run(memory.acompress_if_needed(force=True))
    assert store.threads
    assert threading.main_thread() not in store.threads


class SlowStore(FaultyStore):
    """Writes when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.go = threading.Event(), threading.Event()
        self.go.set()

    def append(self, *arguments: object, **named: object) -> None:
        self.writing.set()
        assert self.go.wait(PATIENCE)
        super().append(*arguments, **named)  # type: ignore[arg-type]


@pytest.fixture
def slow() -> Iterator[SlowStore]:
    store = SlowStore()
    yield store
    store.go.set()


@pytest.mark.slow
def test_turns_beside_a_pass_that_is_writing_leave_the_loop_free(slow: SlowStore) -> None:
    """They wait for the write, but other work of the loop goes on: it is what lets the write go on here."""
    memory = AutoContextMemory(CONFIG.model_copy(update={"background": True}), ScriptedModel("Short."), store=slow)
    memory.add_messages(MESSAGES[:40])

    async def run() -> None:
        slow.go.clear()
        slow.writing.clear()
        passing = asyncio.ensure_future(memory.acompress_if_needed(force=True))
        while not slow.writing.is_set():  # noqa: ASYNC110 (set by another thread)
            await asyncio.sleep(0.001)
        turns = [asyncio.ensure_future(memory.aget_messages()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert not any(turn.done() for turn in turns)
        slow.go.set()
        await passing
        for turn in turns:
            assert await turn

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
