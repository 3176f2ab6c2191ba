"""The peers' half of `storage.py`, in their environment: messages from stdin, figures to stdout, JSON.

openai-agents keeps each item as a row. langgraph's checkpointers keep a checkpoint of the whole state at each step, as
an agent with a checkpointer has it, so they save few messages one at a time: what they store grows with their square.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit

CHECKPOINTED = 300


def size(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sum(file.stat().st_size for file in path.parent.iterdir() if file.name.startswith(path.name))


async def agents(added: list[tuple[str, str]], path: Path) -> dict[str, float]:
    from agents import SQLiteSession

    session = SQLiteSession("session", path)
    times = []
    for role, text in added:
        begun = time.perf_counter()
        await session.add_items([{"role": role, "content": text}])
        times.append(time.perf_counter() - begun)
    save = statistics.median(times)
    session.close()
    size_ = size(path)
    begun = time.perf_counter()
    again = SQLiteSession("session", path)
    assert len(await again.get_items()) == len(added)
    opened = time.perf_counter() - begun
    again.close()
    # It has nothing before it has read every message.
    return {"save": save, "bytes": size_ / sum(len(t.encode()) for _, t in added), "open": opened, "read": opened}


def agents_writers(path: Path, writers: int, each: int) -> float:
    command = [sys.executable, __file__, "--write", str(path), str(each)]
    from agents import SQLiteSession

    SQLiteSession("made", path).close()
    running = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for n in range(writers)
    ]
    spent = [w.communicate()[0] for w in running]
    if any(w.returncode for w in running):
        return 0.0
    return writers * each / max(map(float, spent))


async def write(path: str, each: str, name: str) -> None:
    from agents import SQLiteSession

    session = SQLiteSession(name, path)
    begun = time.perf_counter()
    for i in range(int(each)):
        await session.add_items([{"role": "user", "content": f"message {i} " + "of the writer " * 60}])
    print(time.perf_counter() - begun)


@contextmanager
def own_database(url: str) -> Iterator[str]:
    """The URL of a new database: the saver's setup waits for every transaction in one that others use."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP DATABASE IF EXISTS benchmark_peers WITH (FORCE)")
        server.execute("CREATE DATABASE benchmark_peers")
        try:
            yield urlsplit(url)._replace(path="/benchmark_peers").geturl()
        finally:
            server.execute("DROP DATABASE benchmark_peers WITH (FORCE)")


def graph() -> Any:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages

    # In this form, since a class in a function cannot name what the function has imported.
    graph = StateGraph(TypedDict("State", {"messages": Annotated[list[Any], add_messages]}))
    graph.add_node("nothing", lambda _: {})
    graph.add_edge(START, "nothing")
    graph.add_edge("nothing", END)
    return graph


def langgraph(added: list[tuple[str, str]], path: Path) -> dict[str, float]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    config = {"configurable": {"thread_id": "session"}}
    with SqliteSaver.from_conn_string(str(path)) as saver:
        app = graph().compile(checkpointer=saver)
        times = []
        for role, text in added:
            begun = time.perf_counter()
            app.update_state(config, {"messages": [(role, text)]})
            times.append(time.perf_counter() - begun)
        save = statistics.median(times)
    size_ = size(path)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        begun = time.perf_counter()
        assert len(graph().compile(checkpointer=saver).get_state(config).values["messages"]) == len(added)
        opened = time.perf_counter() - begun
    return {"save": save, "bytes": size_ / sum(len(t.encode()) for _, t in added), "open": opened}


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        asyncio.run(write(*sys.argv[2:]))
        return
    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(agents(job["added"], Path(folder) / "a.db"))
        figures["writers"] = agents_writers(Path(folder) / "w.db", job["writers"], job["each"])
        few = langgraph(job["added"][:CHECKPOINTED], Path(folder) / "l.db")
    few.pop("open")  # of 300 messages, not of 1,000
    json.dump(
        {"openai-agents SQLiteSession": figures, f"langgraph SqliteSaver, {CHECKPOINTED} messages": few}, sys.stdout
    )


if __name__ == "__main__":
    main()
