"""Writers at once: threads that start together, and one that runs between two statements of another's transaction."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autocontext.stores.database import Database, Work

SERVED = ("file", "postgresql")
"""Databases that several connections use at once."""


def at_once(*jobs: Callable[[], object]) -> list[Any]:
    """Run jobs in a thread each, as simultaneously as threads start; what they return, in order."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], object]) -> object:
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def run_between(
    database: Database, work: Callable[[], Work[Any]], other: Callable[[], object], before: int
) -> tuple[Any, bool]:
    """Run a transaction; before its statement number `before` a thread runs `other`, until it is done or waits for us.

    Returns what the transaction returned, and whether it has so many statements. What `other` raises is raised.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            other()
        except BaseException as e:  # noqa: BLE001 (raised below)
            errors.append(e)

    thread = threading.Thread(target=run, daemon=True)

    def watched() -> Work[Any]:
        flow, answer = work(), None
        for count in itertools.count():
            try:
                statement = flow.send(answer)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as done:
                return done.value
            if count == before and thread.ident is None:
                thread.start()
                thread.join(0.05)
            answer = yield statement
        return None

    result = database.write(watched)
    if thread.ident is None:
        return result, False
    thread.join(240)
    assert not thread.is_alive()
    for error in errors:
        raise error
    return result, True


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Another program writes to a file, until the end of the block; after ten seconds who waits goes on."""
    other, ended = sqlite3.connect(path, isolation_level=None, check_same_thread=False), threading.Event()
    other.execute("BEGIN IMMEDIATE")

    def end() -> None:
        ended.wait(10)
        other.close()

    writer = threading.Thread(target=end)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
