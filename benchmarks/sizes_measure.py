"""What `sizes.py` measures of a store while it grows; each store runs in a process of its own.

Only the standard library is imported, as this also runs in the environment of the other libraries.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Message: TypeAlias = tuple[str, str]
"""Role and text."""
Taken: TypeAlias = list[float]
"""Seconds of the processor and of the clock; or one figure that is no time."""
LAST = 20
"""Messages and memories that are saved one at a time at each size; the rest is put in beforehand."""
LAST_RESULTS = 200
"""The same of cached results."""
READS = 3
SAID = "My number is 7731-0042, please remember it."
QUESTION = "Which tests fail on Windows, and since when was the permission denied?"


class OneSession(Protocol):
    """A session that grows."""

    def fill(self, messages: Sequence[Message]) -> None:
        """Add many messages, in the quickest way."""

    def save(self, message: Message) -> None:
        """Add a message, durably."""

    def held(self) -> int:
        """Ask the open session for its messages: how many there are."""

    def opened(self) -> int:
        """Open the session anew and read every message: how many there are."""

    def disk(self) -> int | None:
        """Bytes on disk; None where they cannot be told."""


class ManySessions(Protocol):
    """Sessions by number."""

    def fill(self, begin: int, pairs: Sequence[Sequence[Message]]) -> None:
        """Make a session of each pair of messages; the first has the number `begin`."""

    def save(self, number: int, message: Message) -> None:
        """Add a message to a session, opened for it."""

    def opened(self, number: int) -> int:
        """Open a session and read every message: how many there are."""

    page: Callable[[], int] | None
    """List the newest 50: how many there are; None if the library lists no sessions."""


class Memories(Protocol):
    """Memories of one user."""

    def fill(self, texts: Sequence[str]) -> None:
        """Add many memories, in the quickest way."""

    def add(self, text: str) -> str:
        """Add a memory: its id."""

    def search(self) -> int:
        """The five best for QUESTION: how many there are."""

    def delete(self, id_: str) -> None:
        """Delete a memory."""

    def reopen(self) -> None:
        """Open the files again, with nothing in memory."""


class Results(Protocol):
    """Cached results by key."""

    def fill(self, begin: int, values: Sequence[str]) -> None:
        """Put in many results, in the quickest way; the first has the number `begin`."""

    def set(self, number: int, value: str) -> None:
        """Store a result."""

    def get(self, number: int) -> object:
        """A stored result; None if there is none."""

    def erase(self, said: str) -> None:
        """Delete the results that hold a text."""


def timed(work: Callable[[], object]) -> Taken:
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return [time.process_time() - cpu, time.perf_counter() - clock]


def middle(works: Sequence[Callable[[], object]]) -> Taken:
    """The median of several."""
    return [statistics.median(column) for column in zip(*map(timed, works), strict=True)]


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"there should be {expected}, but there are {found}")


def messages(store: OneSession, size: int, have: int, texts: Sequence[Message]) -> Iterator[tuple[str, Taken]]:
    store.fill(texts[have : size - LAST])
    before = store.disk()
    last = texts[size - LAST : size]
    yield "save", middle([lambda message=message: store.save(message) for message in last])
    if before is not None and (after := store.disk()) is not None:
        yield "bytes", [(after - before) / sum(len(text.encode()) for _, text in last)]
    yield "held", middle([lambda: _same(store.held(), size)] * READS)
    yield "opened", middle([lambda: _same(store.opened(), size)] * READS)


def sessions(store: ManySessions, size: int, have: int, texts: Sequence[Message]) -> Iterator[tuple[str, Taken]]:
    pairs = [texts[i : i + 2] for i in range(2 * have, 2 * size, 2)]
    store.fill(have, pairs)
    numbers = [have + (size - have) * i // LAST for i in range(LAST)]
    yield "save", middle([lambda n=n: store.save(n, ("user", "One more.")) for n in numbers])
    yield "opened", middle([lambda n=n: _same(store.opened(n), 3) for n in numbers])
    if (page := store.page) is not None:
        page()
        yield "page", middle([lambda: _same(page(), 50)] * READS)


def memories(store: Memories, size: int, have: int, texts: Sequence[Message]) -> Iterator[tuple[str, Taken]]:
    """The texts of messages are the memories."""
    store.fill([text for _, text in texts[have : size - LAST]])
    ids = list[str]()
    yield "add", middle([lambda text=text: ids.append(store.add(text)) for _, text in texts[size - LAST : size]])
    store.search()
    yield "search", middle([lambda: _same(store.search(), 5)] * READS)

    def after_delete(id_: str) -> Callable[[], object]:
        return lambda: (store.delete(id_), store.search())

    yield "after", middle([after_delete(id_) for id_ in ids[:READS]])
    store.fill([text for _, text in texts[size - READS : size]])  # as many as before
    yield "reopened", timed(lambda: (store.reopen(), store.search()))


def results(store: Results, size: int, have: int, texts: Sequence[Message]) -> Iterator[tuple[str, Taken]]:
    store.fill(have, [text for _, text in texts[have : size - LAST_RESULTS]])
    numbers = range(size - LAST_RESULTS, size)
    yield "set", middle([lambda n=n: store.set(n, texts[n][1]) for n in numbers])
    anywhere = random.Random(7).sample(range(size), LAST_RESULTS)
    yield "get", middle([lambda n=n: _same(store.get(n), {"page": texts[n][1]}) for n in anywhere])
    yield "again", middle([lambda n=n: store.set(n, texts[n][1]) for n in anywhere])
    store.set(size, SAID)
    yield "erase", timed(lambda: store.erase(SAID))
    _same(store.get(size), None)


PARTS: dict[str, Callable[[Any, int, int, Sequence[Message]], Iterator[tuple[str, Taken]]]] = {
    "messages": messages, "sessions": sessions, "memories": memories, "results": results,
}  # fmt: skip


def grow(stores: dict[tuple[str, str], Callable[[Path, str], Any]]) -> None:
    """Run the job on stdin: the figures of one store, a line of JSON for each size.

    `stores` are by part and name; each is made of a folder and the URL of a server. A store that took longer than the
    job's `patience` from one size to the next does not grow on.
    """
    job = json.load(sys.stdin)
    texts, have, part = [tuple(text) for text in job["texts"]], 0, job["part"]
    with tempfile.TemporaryDirectory() as folder:
        store = stores[part, job["name"]](Path(folder), job["server"])
        for size in job["sizes"]:
            begun = time.perf_counter()
            enough = list(itertools.islice(itertools.cycle(texts), 2 * size))
            figures = dict(PARTS[part](store, size, have, enough))
            print(json.dumps({"size": size, "figures": figures}), flush=True)
            have = size
            if time.perf_counter() - begun > job["patience"]:
                break
        store.close()
