"""What many sessions, memories, cached results and very long messages cost: searching, erasing, listing.

Five sizes each. The data are built with the library's own methods, from sentences of real conversations.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from autocontext import AutoContext, AutoContextMemory, Msg
from autocontext.history.entries import Added
from autocontext.memories import MemoryStore
from autocontext.stores import DatabaseSessionStore, SessionKey, SqliteSessionStore
from benchmarks.measure import Row, run
from benchmarks.storage import TEXTS, server

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
SERVED = tuple(3 * size // 10 for size in SIZES)
RESULTS = tuple(3 * size for size in SIZES)
CHARACTERS = tuple(1_000 * size for size in SIZES)
USER = "user"
AGAIN = 5
_PREPARE = """
import json, re, sys, time
from autocontext import AutoContext
from autocontext import Msg
with AutoContext(sys.argv[1]) as context:
    context.memories.add("She works with Windows.", user_id="user")
    session = context.session("s", user_id="user")
    session.add(Msg(role="user", content="Which tests fail on Windows, and since when?"))
    clock, cpu = time.perf_counter(), time.process_time()
    session.prepare()
    taken = time.process_time() - cpu, time.perf_counter() - clock
# Not ru_maxrss, which a child has from the process that started it if that is larger.
[kilobytes] = re.findall(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print(json.dumps([*taken, int(kilobytes) / 1024]))
"""


def sentences() -> list[str]:
    """Sentences of real conversations, 40 to 160 characters long."""
    found = dict.fromkeys(s.strip() for _, text in TEXTS for s in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [s for s in found if 40 <= len(s) <= 160]


SENTENCES = sentences()


def said(count: int) -> Iterator[str]:
    """Different texts of two sentences."""
    rng = random.Random(7)
    for i in range(count):
        yield f"{rng.choice(SENTENCES)} {rng.choice(SENTENCES)} ({i})"


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, and of the clock."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - clock


def least(work: Callable[[], object]) -> tuple[float, float]:
    return min(timed(work) for _ in range(AGAIN))


def row(
    name: str, size: int, taken: tuple[float, float], goal: float | None, *, last: int = SIZES[-1], unit: str = "s"
) -> Row:
    """The time of the processor, as others work on this machine; goals are for the largest size."""
    factor = {"s": 1, "ms": 1e3, "MB": 1}[unit]
    goal = goal if size == last else None
    more = {f"{unit} by the clock": f"{taken[1] * factor:.3g}"} if taken[1] else {}
    return Row(f"{name}: {size:,}", taken[0] * factor, unit, goal=goal, more=more)


def fill(store: DatabaseSessionStore, user: str, count: int) -> None:
    """So many sessions of one user, of two messages each."""
    texts = said(2 * count)
    for i, pair in enumerate(zip(texts, texts, strict=True)):
        store.append(
            SessionKey(user, f"s{i}"), [Added(message=Msg(role="user", content=text)) for text in pair], after=0
        )


def searched(store: DatabaseSessionStore, user: str, count: int, where: str, last: int) -> Iterator[Row]:
    fill(store, user, count)
    # One in 600 sentences has a word of the first, one in 40 of the second.
    search = partial(store.search, "database migration", user_id=user)
    frequent = partial(store.search, "cancel reservation", user_id=user)
    yield row(f"{where}, first search, sessions", count, timed(search), 20, last=last)
    yield row(f"{where}, next search, sessions", count, least(search), 200, last=last, unit="ms")
    yield row(f"{where}, next search for frequent words, sessions", count, least(frequent), None, unit="ms")
    store.append(SessionKey(user, "s1"), [Added(message=Msg(role="user", content="One more."))], after=2)
    yield row(f"{where}, search after one more message, sessions", count, timed(search), 200, last=last, unit="ms")
    yield row(f"{where}, a page of 50, sessions", count, least(lambda: store.sessions(user, limit=50)), None, unit="ms")
    yield row(f"{where}, a list of all, sessions", count, least(lambda: store.sessions(user)), None, unit="ms")


def sqlite_sessions() -> Iterator[Row]:
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder, SqliteSessionStore(Path(folder) / "a.db") as store:
            yield from searched(store, USER, count, "SQLite", SIZES[-1])


def postgresql_sessions() -> Iterator[Row]:
    store = server()
    if store is None:
        return
    with store:
        for count in SERVED:
            user = f"many {time.time_ns()}"
            yield from searched(store, user, count, "PostgreSQL", SERVED[-1])
            for info in store.sessions(user):
                store.delete(info.key)


def memories() -> Iterator[Row]:
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.db"
            with MemoryStore(path) as store:
                facts = [{"id": f"fact_{i}", "content": text} for i, text in enumerate(said(count))]
                store.import_json({"version": "1.0", "facts": facts}, user_id=USER)
                search = partial(store.search, "Which tests fail on Windows?", user_id=USER)
                yield row("first search, memories", count, timed(search), 5)
                yield row("next search, memories", count, least(search), 50, unit="ms")
                store.delete("fact_7", user_id=USER)
                yield row("search after a delete, memories", count, timed(search), 50, unit="ms")
            ran = subprocess.run([sys.executable, "-c", _PREPARE, path], check=True, capture_output=True, text=True)
            cpu, clock, megabytes = json.loads(ran.stdout)
            yield row("prepare in a new process, memories", count, (cpu, clock), 0.5)
            yield row("  its memory, memories", count, (megabytes, 0), 150, unit="MB")


def results() -> Iterator[Row]:
    for count in RESULTS:
        with tempfile.TemporaryDirectory() as folder, AutoContext(Path(folder) / "a.db") as context:
            file = Path(folder) / "memory.json"
            file.write_text(
                json.dumps({"tasks": {f"look_up:{i}": {"page": text} for i, text in enumerate(said(count))}})
            )
            context.cache_of(USER).import_json(file)
            session = context.session("one", user_id=USER)
            session.add(Msg(role="user", content="My number is 7731-0042, please remember it."))
            erase = partial(context.erase, "one", [session.memory.get_original_memory_msgs()[0].id], user_id=USER)
            yield row("erase one message, cached results", count, timed(erase), 0.1, last=RESULTS[-1])


def added_and_viewed(memory: AutoContextMemory, text: str) -> None:
    memory.add_message(Msg(role="user", content=text))
    memory.to_openai()


def long_message() -> Iterator[Row]:
    for size in CHARACTERS:
        with tempfile.TemporaryDirectory() as folder, SqliteSessionStore(Path(folder) / "a.db") as store:
            text = ("\n".join(SENTENCES) * (size // 10_000 + 1))[:size]
            work = partial(added_and_viewed, AutoContextMemory(store=store, user_id=USER, session_id="long"), text)
            yield row("add and view a message, characters", size, timed(work), 3, last=CHARACTERS[-1])


if __name__ == "__main__":
    sys.exit(run("many", [sqlite_sessions, postgresql_sessions, memories, results, long_message]))
