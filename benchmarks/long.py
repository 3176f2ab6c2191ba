"""The CPU time of all that is done with a session, at five sizes: it should grow with what is new, not with history.

Seeded rounds of question, two tool exchanges and answer, 200 characters each, in a SQLite file and a window of 16,000
tokens. `the next messages` is an agent at work: `get_messages` after every message, passes included. The others are
done once, or `AGAIN` times where that takes little; times are the processor's, as the machine may have other work.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from measure import Row, exponent, percentile, promises, run

from autocontext import AutoContextMemory, Msg
from autocontext.stores import SqliteSessionStore
from autocontext.testing import conversation
from autocontext.tokens import get_counter

SIZES = (1_000, 4_000, 16_000, 50_000, 100_000)
NEW = 600
"""Messages that are added to each session with the context read after each."""
AGAIN = 5
WINDOW = 16_000
GOALS = {"first view": 10.0, "saving to another file": 5.0, "erasing one message": 1.0}
"""Seconds at the largest size."""
RATIO = 1.2


def messages(count: int) -> list[Msg]:
    """Exactly `count` messages."""
    return conversation(rounds=count // 6 + 1, tools_per_round=2, chars=200)[:count]


def cpu(work: Callable[[], object]) -> float:
    """Processor seconds."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def live(memory: AutoContextMemory, new: list[Msg]) -> float:
    """Processor seconds for each message of an agent that reads its context after each; the median of ten parts."""

    def part(some: list[Msg]) -> None:
        for msg in some:
            memory.add(msg)
            memory.get_messages()

    size = len(new) // 10
    return percentile([cpu(partial(part, new[i * size : (i + 1) * size])) / size for i in range(10)], 50)


def session(count: int, folder: Path) -> Iterator[tuple[str, float, str]]:
    """Each operation on a session of `count` messages: its name, figure and unit."""
    everything = messages(count + NEW)
    first, new, file = everything[:count], everything[count:], folder / f"{count}.db"
    memory = AutoContextMemory.open(file, session_id="s", window=WINDOW)
    yield "adding", cpu(lambda: [memory.add(msg) for msg in first]), "s"
    yield "first view", cpu(memory.to_openai), "s"
    yield "next view", least(memory.to_openai) * 1e3, "ms"
    yield "the next messages, each", live(memory, new) * 1e6, "us"
    memory.add(new[0].model_copy(update={"id": "again"}))
    yield "a pass", cpu(partial(memory.compress_if_needed, force=True)) * 1e3, "ms"
    yield "reload m3", least(partial(memory.reload, "m3")) * 1e3, "ms"
    yield "saving to another file", cpu(partial(_saved, memory, folder / f"{count}-saved.db")), "s"
    memory.close()
    opened = list[AutoContextMemory]()
    yield "opening", cpu(lambda: opened.append(AutoContextMemory.open(file, session_id="s", window=WINDOW))), "s"
    [memory] = opened
    with closing(memory):
        yield "reload m3, just opened", cpu(partial(memory.reload, "m3")) * 1e3, "ms"
        store = memory.opened_store
        assert store is not None
        yield "forking", cpu(partial(store.fork, memory.session, new_id="fork")), "s"
        store.delete(store_key := memory.session._replace(session_id="fork"))
        assert not store.read(store_key)
        search = partial(store.search, "result of the tool", user_id=memory.session.user_id)
        yield "first search", cpu(search), "s"
        yield "next search", least(search) * 1e3, "ms"
        yield "erasing one message", cpu(partial(store.erase, memory.session, [first[2].id])), "s"


def least(work: Callable[[], object]) -> float:
    """The least processor seconds of several runs."""
    return min(cpu(work) for _ in range(AGAIN))


def _saved(memory: AutoContextMemory, file: Path) -> None:
    with closing(SqliteSessionStore(file)) as store:
        memory.save_to(store)


def kept() -> Iterator[Row]:
    """The two promises at the second size, where looking at every message takes little."""
    added = messages(SIZES[1])
    memory = AutoContextMemory.open(":memory:", window=WINDOW)
    memory.add_messages(added)
    memory.to_openai()
    yield Row(f"messages in view, of {len(added):,}", len(memory), "", **promises(memory, added))


def long() -> Iterator[Row]:
    """Each operation at each size, then how it grows, and the cost of a new message at the largest and least size."""
    get_counter("o200k_base").count_text("load the vocabulary beforehand")
    found: dict[str, list[float]] = {}
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            for name, figure, unit in session(count, Path(folder)):
                found.setdefault(name, []).append(figure)
                goal = GOALS.get(name) if count == SIZES[-1] else None
                yield Row(f"{name}, {count:,} messages", figure, unit, goal=goal)
    for name, figures in found.items():
        yield Row(f"{name}: growth exponent", exponent(SIZES, [max(figure, 1e-6) for figure in figures]), "")
    new = found["the next messages, each"]
    yield Row(f"a new message at {SIZES[-1]:,}, of one at {SIZES[0]:,}", new[-1] / new[0], "x", goal=RATIO)
    adding = [a / n for a, n in zip(found["adding"], SIZES, strict=True)]
    yield Row(f"an added message at {SIZES[-1]:,}, of one at {SIZES[0]:,}", adding[-1] / adding[0], "x", goal=RATIO)


if __name__ == "__main__":
    sys.exit(run("long", (kept, long)))
