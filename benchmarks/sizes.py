"""Sessions, memories and cached results at five sizes, beside openai-agents, langgraph, mem0 and diskcache.

Each store grows in a process of its own, one after the other; times are the processor's, with the clock's beside them.
Texts are those of real conversations, the same for all. SQLite waits for the disk in each library (synchronous=FULL).
mem0 has no model here: its vectors are made of the words. A store that took longer than `PATIENCE` for a size is asked
for no larger one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg
from autocontext.cache import MISS
from autocontext.history.entries import Added
from autocontext.memories import MemoryStore
from autocontext.stores import SessionKey, SqliteSessionStore, SqlSessionStore
from autocontext.stores.sqlite_database import SqliteDatabase
from benchmarks.many import said
from benchmarks.measure import ROOT, Row, run
from benchmarks.peers import python_with, versions
from benchmarks.sizes_measure import QUESTION, Message, Taken, grow
from benchmarks.storage import POSTGRESQL, TEXTS, on_disk, server
from benchmarks.storage_peers import own_database

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
RESULTS = tuple(3 * size for size in SIZES)
SERVED = tuple(3 * size // 10 for size in SIZES)
"""Sessions on a server, where each of them waits for its disk."""
PATIENCE = 120
"""Seconds from one size to the next."""
USER = "u"
OURS = "autocontext"
UNLIMITED = AutoContextConfig(msg_threshold=10**7, max_token=10**9)


class Figure(NamedTuple):
    """What is measured, as a row says it."""

    name: str
    factor: float
    unit: str


FIGURES = {
    "messages": {
        "save": Figure("save a message", 1e6, "us"),
        "bytes": Figure("disk for a byte saved", 1, "x"),
        "held": Figure("get all messages", 1e3, "ms"),
        "opened": Figure("open and read all", 1e3, "ms"),
    },
    "sessions": {
        "save": Figure("save into one", 1e6, "us"),
        "opened": Figure("read one", 1e6, "us"),
        "page": Figure("a page of 50", 1e3, "ms"),
    },
    "memories": {
        "add": Figure("add a memory", 1e6, "us"),
        "search": Figure("search", 1e3, "ms"),
        "after": Figure("delete one, search", 1e3, "ms"),
        "reopened": Figure("open and search", 1e3, "ms"),
    },
    "results": {
        "get": Figure("get", 1e6, "us"),
        "set": Figure("set", 1e6, "us"),
        "again": Figure("set again", 1e6, "us"),
        "erase": Figure("erase what holds a text", 1e3, "ms"),
    },
}


# --------------------------------------------------------------------------------------------------- this library
class _Stored:
    """A store on a SQLite file, or in a database of its own on a server."""

    def __init__(self, folder: Path, server_url: str) -> None:
        self._stack = ExitStack()
        self._path, self._server = folder / "a.db", server_url and self._stack.enter_context(own_database(server_url))
        self._store = self._opened_store()

    def _opened_store(self) -> SqliteSessionStore | SqlSessionStore:
        if self._server:
            return SqlSessionStore(self._server)
        return SqliteSessionStore(SqliteDatabase(self._path, power_safe=True))

    def _memory(self, session: str) -> AutoContextMemory:
        return AutoContextMemory(UNLIMITED, store=self._store, session_id=session, user_id=USER)

    def close(self) -> None:
        self._store.close()
        self._stack.close()


def _added(messages: Sequence[Message]) -> list[Added]:
    return [Added(message=Msg(role=role, content=text)) for role, text in messages]


class OneSession(_Stored):
    def __init__(self, folder: Path, server_url: str) -> None:
        super().__init__(folder, server_url)
        self._session = self._memory("session")
        self._have = 0

    def fill(self, messages: Sequence[Message]) -> None:
        self._session.add_messages([entry.message for entry in _added(messages)])

    def save(self, message: Message) -> None:
        role, text = message
        self._session.add_message(Msg(role=role, content=text))

    def held(self) -> int:
        self._session.refresh()  # others may have added to it, which openai-agents and langgraph would see, too
        return len(self._session.get_messages())

    def opened(self) -> int:
        with closing(self._opened_store()) as store:
            return len(AutoContextMemory(UNLIMITED, store=store, session_id="session", user_id=USER).messages)

    def disk(self) -> int | None:
        if self._server:
            return None
        self._store.scrub()
        return on_disk(self._path)


class ManySessions(_Stored):
    def fill(self, begin: int, pairs: Sequence[Sequence[Message]]) -> None:
        for number, pair in enumerate(pairs, begin):
            self._store.append(SessionKey(USER, f"s{number}"), _added(pair), after=0)

    def save(self, number: int, message: Message) -> None:
        role, text = message
        self._memory(f"s{number}").add_message(Msg(role=role, content=text))

    def opened(self, number: int) -> int:
        return len(self._memory(f"s{number}").messages)

    def page(self) -> int:
        return len(self._store.sessions(USER, limit=50))


class Memories:
    def __init__(self, folder: Path, _server: str) -> None:
        self._path = folder / "a.db"
        self._store = self._open()

    def _open(self) -> MemoryStore:
        return MemoryStore(SqliteDatabase(self._path, power_safe=True))

    def fill(self, texts: Sequence[str]) -> None:
        self._store.import_json({"version": "1.0", "facts": [{"content": text} for text in texts]}, user_id=USER)

    def add(self, text: str) -> str:
        return self._store.add(text, user_id=USER).id

    def search(self) -> int:
        return len(self._store.search(QUESTION, user_id=USER, limit=5))

    def delete(self, id_: str) -> None:
        self._store.delete(id_, user_id=USER)

    def reopen(self) -> None:
        self.close()
        self._store = self._open()

    def close(self) -> None:
        self._store.close()


class Results:
    """The cache of a user, and a session from which a message is erased."""

    def __init__(self, folder: Path, _server: str) -> None:
        self._folder = folder
        self._context = AutoContext(folder / "a.db")  # no waiting for the disk, as in diskcache
        self._cache = self._context.cache_of(USER)

    def fill(self, begin: int, values: Sequence[str]) -> None:
        file = self._folder / "memory.json"
        tasks = {f"look_up:{number}": {"page": value} for number, value in enumerate(values, begin)}
        file.write_text(json.dumps({"tasks": tasks}))
        self._cache.import_json(file)

    def set(self, number: int, value: str) -> None:
        self._cache.set(f"look_up:{number}", {"page": value})

    def get(self, number: int) -> object:
        found = self._cache.get(f"look_up:{number}")
        return None if found is MISS else found

    def erase(self, said: str) -> None:
        session = self._context.session("one", user_id=USER)
        session.add(Msg(role="user", content=said))
        self._context.erase("one", [session.memory.get_original_memory_msgs()[-1].id], user_id=USER)

    def close(self) -> None:
        self._context.close()


# -------------------------------------------------------------------------------------------------------- the rows
class Compared(NamedTuple):
    """Stores of one part on one engine; this library's is the first."""

    part: str
    engine: str
    peers: tuple[str, ...]


AGENTS = "openai-agents SQLiteSession"
COMPARED = (
    Compared("messages", "SQLite", (AGENTS, "langgraph SqliteSaver", "langgraph SqliteSaver, DeltaChannel")),
    Compared("messages", "PostgreSQL", ("langgraph PostgresSaver", "langgraph PostgresSaver, DeltaChannel")),
    Compared("sessions", "SQLite", (AGENTS, "langgraph SqliteSaver")),
    Compared("sessions", "PostgreSQL", ("langgraph PostgresSaver",)),
    Compared("memories", "SQLite", ("mem0, qdrant", "mem0, faiss")),
    Compared("results", "SQLite", ("diskcache",)),
)  # fmt: skip
OWN: dict[tuple[str, str], Callable[[Path, str], object]] = {
    ("messages", OURS): OneSession, ("sessions", OURS): ManySessions, ("memories", OURS): Memories,
    ("results", OURS): Results,
}  # fmt: skip


def grown(part: str, name: str, url: str) -> dict[int, dict[str, Taken]]:
    """The figures of a store by size, from a process of its own."""
    script, python = ("sizes.py", sys.executable) if name == OURS else ("sizes_peers.py", python_with("sizes"))
    if not python:
        return {}
    sizes = RESULTS if part == "results" else SERVED if part == "sessions" and url else SIZES
    texts = TEXTS if part in ("messages", "sessions") else [("user", text) for text in said(sizes[-1])]
    job = {"part": part, "name": name, "sizes": sizes, "texts": texts, "server": url, "patience": PATIENCE}
    print(f"{part}: {name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        [python, str(ROOT / "benchmarks" / script), "--grow"], input=json.dumps(job), text=True,
        stdout=subprocess.PIPE, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if done.returncode:
        print(f"{part}: {name} failed; what it measured until then stands", file=sys.stderr)
    return {line["size"]: line["figures"] for line in map(json.loads, done.stdout.splitlines())}


def compared(those: Compared) -> Iterator[Row]:
    """Every figure at every size: this library's row, then those of the others."""
    url = ""
    if those.engine == "PostgreSQL":
        if (store := server()) is None:
            return
        store.close()
        url = POSTGRESQL
    found = {name: grown(those.part, name, url) for name in (OURS, *those.peers)}
    where = f"{those.engine}, " if those.part in ("messages", "sessions") else ""
    for key, (name, factor, unit) in FIGURES[those.part].items():
        for size, ours in found[OURS].items():
            if key not in ours:
                continue
            yield _row(f"{where}{name}, {those.part}: {size:,}", ours[key], factor, unit)
            for peer in those.peers:
                theirs = found[peer].get(size, {})
                if key in theirs:
                    row = _row(f"  {peer}", theirs[key], factor, unit)
                    yield replace(row, beside="this library", ratio=theirs[key][0] / ours[key][0])


def _row(name: str, taken: Taken, factor: float, unit: str) -> Row:
    more = {f"{unit} by the clock": f"{taken[1] * factor:.3g}"} if len(taken) == 2 else {}
    return Row(name, taken[0] * factor, unit, more=more)


if __name__ == "__main__":
    if sys.argv[1:] == ["--grow"]:
        grow(OWN)
    else:
        sys.exit(run("sizes", [partial(compared, those) for those in COMPARED], versions("sizes")))
