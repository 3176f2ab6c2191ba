"""While another process writes for long, callers get their results all the same: nothing is stored, nothing is lost."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autocontext import AutoContext
from autocontext.cache import ResultCache
from autocontext.stores import SqliteDatabase

Ask = Callable[[ResultCache, Callable[..., Any]], Any]
ASK: dict[str, Ask] = {
    "sync": lambda cache, fn: cache.get_or_compute("t", {"q": 1}, fn),
    "async": lambda cache, fn: asyncio.run(cache.aget_or_compute("t", {"q": 1}, fn)),
    "memoized": lambda cache, fn: cache.memoize("t", version=1)(fn)(q=1),
}


GUARD = 60
"""Seconds after which a test says that something hangs."""


class Held:
    """A function that runs until it is let go."""

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.go = threading.Event()

    def __call__(self, q: int) -> list[Any]:
        self.runs.append(q)
        assert self.go.wait(GUARD)
        return ["old", q]


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + GUARD
    while not true() and time.monotonic() < end:
        time.sleep(0.005)


def waiting(cache: ResultCache) -> int:
    """The callers that wait for a computation."""
    return sum(len(flight._wake) for flight in list(cache._computing.flights._running.values()))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "a.db", patience=0.02)
    yield database
    database.close()


@contextmanager
def lock(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path / "a.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@pytest.mark.parametrize("ask", ASK)
def test_a_result_that_cannot_be_stored_goes_to_its_caller(database: SqliteDatabase, tmp_path: Path, ask: str) -> None:
    cache, held, runs = ResultCache(database, namespace="n"), lock(tmp_path), []

    def work(q: int) -> list[int]:
        held.__enter__()
        runs.append(q)
        return [q]

    try:
        assert ASK[ask](cache, work) == [1]
    finally:
        held.__exit__(None, None, None)
    stats = cache.stats()
    assert (stats.entries, stats.stored, stats.unstored) == (0, 0, 1)
    assert ASK[ask](cache, lambda q: [q, 2]) == [1, 2], "the next call computes and stores it"
    assert ASK[ask](cache, lambda q: [q, 3]) == [1, 2]


@pytest.mark.parametrize("ask", ASK)
def test_without_a_lease_callers_compute(database: SqliteDatabase, tmp_path: Path, ask: str) -> None:
    cache = ResultCache(database, namespace="n")
    with lock(tmp_path):
        assert [ASK[ask](cache, lambda q, n=n: (q, n)) for n in (1, 2)] == [[1, 1], [1, 2]]
        with pytest.raises(KeyError, match="of the tool"):
            ASK[ask](cache, lambda q: {}["of the tool"])
    assert (cache.stats().computed, cache.stats().unstored) == (3, 3)
    assert ASK[ask](cache, lambda q: q) == 1


@pytest.mark.parametrize("ask", ASK)
def test_without_a_lease_callers_of_a_process_share_a_computation(
    database: SqliteDatabase, tmp_path: Path, ask: str
) -> None:
    cache, work = ResultCache(database, namespace="n"), Held()
    with lock(tmp_path), ThreadPoolExecutor(11) as pool:
        calls = [pool.submit(ASK[ask], cache, work)]
        until(lambda: work.runs)
        calls += [pool.submit(ASK[ask], cache, work) for _ in range(10)]
        until(lambda: len(work.runs) > 1 or waiting(cache) == 10)
        work.go.set()
        assert [call.result(GUARD) for call in calls] == [["old", 1]] * 11
    assert work.runs == [1]
    assert cache.stats().waited == 10


def test_who_asks_after_an_invalidation_gets_nothing_older_without_a_lease(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    cache, work = ResultCache(database, namespace="n"), Held()
    with ThreadPoolExecutor(2) as pool:
        with lock(tmp_path):
            older = pool.submit(ASK["sync"], cache, work)
            until(lambda: work.runs)
        cache.invalidate(task="t")
        newer = pool.submit(ASK["sync"], cache, lambda q: ["new", q])
        until(lambda: newer.done() or waiting(cache))
        work.go.set()
        assert [older.result(GUARD), newer.result(GUARD)] == [["old", 1], ["new", 1]]
    assert ASK["sync"](cache, lambda _q: "never reached") == ["new", 1]


@pytest.mark.parametrize("ask", ASK)
def test_without_its_table_callers_compute(database: SqliteDatabase, tmp_path: Path, ask: str) -> None:
    cache = ResultCache(database, namespace="n")
    assert ASK[ask](cache, lambda q: q) == 1
    with sqlite3.connect(tmp_path / "a.db") as other:
        other.execute("ALTER TABLE autocontext_cache RENAME TO gone")
    assert ASK[ask](cache, lambda q: (q, 2)) == (1, 2)


@pytest.mark.slow
def test_hits_that_cannot_be_noted_are_hits(database: SqliteDatabase, tmp_path: Path) -> None:
    cache = ResultCache(database, namespace="n", max_entries=5_000)  # with a limit, uses are written
    for n in range(1_100):
        cache.set(f"k{n}", n)
    with lock(tmp_path):
        assert [cache.get(f"k{n}") for n in range(1_100)] == list(range(1_100))
    assert cache.stats().hits == 1_100
    assert cache.stats().unstored > 0


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_tools_run_where_their_calls_cannot_be_noted(database: SqliteDatabase, tmp_path: Path, mode: str) -> None:
    def tool(q: int) -> int:
        return q + 1

    with AutoContext(database) as ac:
        session = ac.session("s", user_id="ann")

        def call(q: int) -> str:
            if mode == "async":
                return asyncio.run(session.acall_tool(tool, {"q": q}, cacheable=True)).tool_results[0].text
            return session.call_tool(tool, {"q": q}, cacheable=True).tool_results[0].text

        assert call(1) == "2"
        with lock(tmp_path):
            assert [call(1), call(2)] == ["2", "3"]
        assert ac.cache_of("ann").stats().entries == 1
