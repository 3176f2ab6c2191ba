"""Real conversations, message by message, in windows far smaller than they are."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg
from autocontext.adapters.openai_chat import from_openai
from autocontext.messages import is_recall
from autocontext.testing import assert_valid_chat, tool_result
from autocontext.tokens import get_counter
from tests.invariants import assert_pairs_kept, check, owed, recount, unreachable

DATA = Path(__file__).parent / "data" / "replay_dev.jsonl"
WINDOWS = (4_000, 8_000, 32_000)


def conversations(file: Path = DATA) -> dict[str, list[Msg]]:
    lines = file.read_text(encoding="utf-8").split("\n")
    return {record["id"]: from_openai(record["messages"]) for record in map(json.loads, filter(None, lines))}


CONVERSATIONS = conversations()


def assert_sendable(context: list[Msg]) -> None:
    """Valid for a strict chat service once the calls still running are answered, as they will be."""
    running = owed(context)[0]
    assert_valid_chat([*context, *(tool_result(call, "done") for call in running.elements())])


class Replay:
    """A memory that is being fed, and what is checked after every message."""

    def __init__(self, window: int) -> None:
        self.memory = AutoContextMemory(AutoContextConfig.for_window(window))
        self.added: list[Msg] = []
        self.context: list[Msg] = []
        self.reports: list[CompressionReport] = []
        self.memory.on_compression(self.reports.append)

    def add(self, msg: Msg) -> None:
        self.memory.add_message(msg)
        self.added.append(msg)
        self.reports.clear()

    def see(self, context: list[Msg]) -> None:
        """Check what a message and a pass, if there was one, have made of the context."""
        assert_sendable(context)
        assert_pairs_kept(context, [*self.context, self.added[-1]])
        assert self.memory.get_original_memory_msgs() == self.added
        if any(self.reports):
            assert unreachable(self.memory, self.added) == []
        else:
            *before, newest = context
            if before and is_recall(before[-1]) and self.added[-1].role == "user":
                before.pop()  # lines with what this message names, right before it
            assert [*before, newest] == [*self.context, self.added[-1]]
        if self.memory.token_count > self.memory.config.max_token:
            assert self.reports[-1].outcome == "impossible"
            assert f"more than max_token ({self.memory.config.max_token})" in self.reports[-1].reason
            assert self.fixed() > self.memory.config.max_token
            assert self.memory.token_count < self.fixed() + self.memory.config.max_token // 5
        self.context = context

    def fixed(self) -> int:
        """Tokens of what no pass may touch: system messages, and the user's latest."""
        count, context = get_counter("o200k_base").count, self.memory.messages
        users = [m for m in context if m.role == "user" and not m.tool_results and m.origin is None]
        return sum(map(count, [m for m in context if m.role == "system"] + users[-1:]))

    def end(self) -> None:
        """What is too slow to be checked each time."""
        assert self.memory.token_count == recount(self.memory)
        assert unreachable(self.memory, self.added) == []
        check(self.memory)


def replay(messages: list[Msg], window: int) -> Replay:
    run = Replay(window)
    for m in messages:
        run.add(m)
        run.see(run.memory.get_messages())
    run.end()
    return run


async def areplay(messages: list[Msg], window: int) -> Replay:
    run = Replay(window)
    for m in messages:
        run.add(m)
        run.see(await run.memory.aget_messages())
    run.end()
    return run


def in_loop(messages: list[Msg], window: int) -> Replay:
    return asyncio.run(areplay(messages, window))


def runs() -> Iterator[Any]:
    """Every conversation in every window, by turns sync and async; the short ones are for every run."""
    for at, name in enumerate(sorted(CONVERSATIONS)):
        for nth, window in enumerate(WINDOWS):
            feed, how = ((replay, "sync"), (in_loop, "async"))[(at + nth) % 2]
            quick = len(CONVERSATIONS[name]) <= 100 and window == 4_000
            marks = () if quick else pytest.mark.slow
            yield pytest.param(name, feed, window, marks=marks, id=f"{name}-{how}-{window}")


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "feed", "window"), list(runs()))
def test_every_context_is_valid_small_and_complete(
    name: str, feed: Callable[[list[Msg], int], Replay], window: int
) -> None:
    feed(CONVERSATIONS[name], window)


@pytest.mark.slow
def test_the_conversations_are_worth_it() -> None:
    """All are there, and all but the shortest need compressing in the smallest window."""
    assert len(CONVERSATIONS) == 19
    sizes = [AutoContextMemory() for _ in CONVERSATIONS]
    for memory, messages in zip(sizes, CONVERSATIONS.values(), strict=True):
        memory.add_messages(messages)
    assert sum(m.token_count > WINDOWS[0] for m in sizes) >= 17
    assert max(m.token_count for m in sizes) > 4 * WINDOWS[-1]
