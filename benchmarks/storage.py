"""The time and disk space to save and open a session, compared with two other libraries.

The peers (openai-agents' SQLiteSession, langgraph's SqliteSaver) run in an environment of their own (see `peers`).
All save the same messages of real conversations, one at a time, each durable before the next (SQLite's
synchronous=FULL); this library's default, synchronous=NORMAL, stands in rows of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqliteSessionStore, SqlSessionStore
from autocontext.stores.sqlite_database import SqliteDatabase
from benchmarks.measure import ROOT, Row, percentile, promises, run
from benchmarks.peers import python_with, versions

if TYPE_CHECKING:
    import psycopg

ADDED, OPENED, LATE, WRITERS, EACH = 1000, 10_000, 100_000, 8, 50
S = SessionKey("user", "session")
POSTGRESQL = os.environ.get("AUTOCONTEXT_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")


def texts() -> list[tuple[str, str]]:
    """Roles and texts of real conversations, without what is longer than 4,000 characters."""
    messages = []
    for line in (ROOT / "tests" / "data" / "replay_dev.jsonl").read_text(encoding="utf-8").splitlines():
        for message in json.loads(line)["messages"]:
            text = message.get("content")
            if isinstance(text, str) and 0 < len(text) <= 4000:
                messages.append(("assistant" if message["role"] == "assistant" else "user", text))
    return messages


TEXTS = texts()


def messages(count: int) -> list[Msg]:
    return [Msg(role=role, content=text) for role, text in (TEXTS[i % len(TEXTS)] for i in range(count))]


def payload(count: int) -> int:
    return sum(len(TEXTS[i % len(TEXTS)][1].encode()) for i in range(count))


def on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir() if file.name.startswith(path.name))


def saved(store: SqliteSessionStore | SqlSessionStore, entries: list[Added], after: int) -> float:
    """Seconds for one entry: the median of each own time."""
    times = []
    for i, entry in enumerate(entries, after):
        begun = time.perf_counter()
        store.append(S, [entry], after=i)
        times.append(time.perf_counter() - begun)
    return percentile(times, 50)


def saving() -> Iterator[Row]:
    entries = [Added(message=m) for m in messages(ADDED)]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(Path(folder) / "a.db")
        store.append(S, entries[:10], after=0)
        early = saved(store, entries, 10)
        yield Row("save one message, from message 10 on", early * 1e6, "us", goal=60)
        after = 10 + ADDED
        while after < LATE:
            store.append(S, entries, after=after)
            after += ADDED
        late = saved(store, entries, after)
        yield Row("save one message, from message 100,000 on", late * 1e6, "us", "at message 10", late / early, goal=60)
        store.close()


def beside_sqlite() -> Iterator[Row]:
    """The store, a memory and plain statements of sqlite3 with the same pragmas take turns, message by message."""
    added = messages(2 * ADDED)
    bodies = [json.dumps({"role": m.role, "content": m.text}) for m in added]
    with tempfile.TemporaryDirectory() as folder:
        store, other = (SqliteSessionStore(Path(folder) / name) for name in ("a.db", "b.db"))
        unlimited = AutoContextConfig(msg_threshold=10**7, max_token=10**9)
        memory = AutoContextMemory(unlimited, store=other)
        plain = SqliteDatabase(Path(folder) / "plain.db")._open()  # noqa: SLF001 (for its pragmas)
        plain.execute("CREATE TABLE messages (session TEXT, n INT, body TEXT, PRIMARY KEY (session, n))")
        insert = "INSERT INTO messages VALUES (?, ?, ?)"
        times: dict[str, list[float]] = {"store.append": [], "memory.add_message": [], "": []}
        for i, message in enumerate(added):
            entry, row = Added(message=message), (S.session_id, i, bodies[i])
            times["store.append"].append(_took(lambda i=i, entry=entry: store.append(S, [entry], after=i)))
            times["memory.add_message"].append(_took(lambda message=message: memory.add_message(message)))
            times[""].append(_took(lambda row=row: plain.execute(insert, row)))
        for opened in (store, other, plain):
            opened.close()
    alone = percentile(times.pop(""), 50) * 1e6
    for (name, taken), most in zip(times.items(), (2, 2.5), strict=True):
        one = percentile(taken, 50) * 1e6
        yield Row(f"SQLite: {name}", one, "us", "sqlite3, INSERT", one / alone, most * alone)


def opening() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteSessionStore(Path(folder) / "a.db")
        memory = AutoContextMemory(
            AutoContextConfig.for_window(32_000), store=store, session_id="session", user_id="user"
        )
        added = messages(OPENED)
        for i, message in enumerate(added):
            memory.add_message(message)
            if i % 4 == 3:
                memory.compress_if_needed()
        times, clock = [], []
        for _ in range(9):
            begun, started = time.process_time(), time.perf_counter()
            again = AutoContextMemory(memory.config, store=store, session_id="session", user_id="user")
            times.append(time.process_time() - begun)
            clock.append(time.perf_counter() - started)
        passes = len(memory.get_compression_events())
        kept = promises(again, added)
        # The figure is processor time.
        more = {"compressions": passes, "by the clock s": round(percentile(clock, 50), 3)}
        yield Row("open 10,000 messages", percentile(times, 50), "s", goal=0.12, **kept, more=more)
        for name in ("first search of 10,000 messages", "next search"):
            begun = time.perf_counter()
            store.search("permission denied", user_id="user")
            yield Row(name, time.perf_counter() - begun, "s")
        store.close()


def beside_peers() -> Iterator[Row]:
    """The same messages in every library, each saved durably before the next."""
    yield from _peer_rows(dict(_ours(power_safe=True)), peers(ADDED, writers=WRITERS, each=EACH))
    for name, value, unit in _plain_rows(dict(_ours(power_safe=False))):
        yield Row(f"{name} (synchronous=NORMAL)", value, unit)


def _ours(*, power_safe: bool) -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        store = SqliteSessionStore(SqliteDatabase(path, power_safe=power_safe))
        yield "save", saved(store, [Added(message=m) for m in messages(ADDED)], 0)
        store.scrub()
        yield "bytes", on_disk(path) / payload(ADDED)
        begun = time.perf_counter()
        memory = AutoContextMemory(store=store, session_id=S.session_id, user_id=S.user_id)
        yield "open", time.perf_counter() - begun
        assert len(memory.messages) == ADDED
        yield "read", time.perf_counter() - begun
        store.close()
        yield "writers", _writers(sys.executable, [str(Path(folder) / "w.db"), str(int(power_safe))])


def _writers(python: str, arguments: list[str]) -> float:
    """Messages a second that eight processes save to one file, each into a session of its own."""
    command = [python, "-m", "benchmarks.storage", "--write", *arguments]
    SqliteSessionStore(arguments[0]).close()
    begun = time.perf_counter()
    writers = [subprocess.Popen([*command, str(n)], cwd=ROOT, stdout=subprocess.PIPE) for n in range(WRITERS)]
    spent = [float(w.communicate()[0]) for w in writers]
    if any(w.returncode for w in writers):
        raise SystemExit(f"a writer failed after {time.perf_counter() - begun:.1f} s")
    return WRITERS * EACH / max(spent)


def _write(path: str, power_safe: str, name: str) -> None:
    """One of the eight: waits for the full second, so that all begin together; prints how long it took."""
    store = SqliteSessionStore(SqliteDatabase(path, power_safe=power_safe == "1"))
    entries = [Added(message=m) for m in messages(EACH)]
    begun = time.perf_counter()
    for i, entry in enumerate(entries):
        store.append(SessionKey("user", name), [entry], after=i)
    print(time.perf_counter() - begun)


def peers(count: int, **asked: object) -> dict[str, dict[str, float]]:
    python = python_with("storage")
    if not python:
        return {}
    job = json.dumps({"added": [TEXTS[i % len(TEXTS)] for i in range(count)], **asked})
    done = subprocess.run(
        [python, ROOT / "benchmarks" / "storage_peers.py"], input=job, text=True, stdout=subprocess.PIPE, check=True
    )
    return dict(json.loads(done.stdout))


_NAMES = {
    "save": ("save one message durably", 1e6, "us"),
    "bytes": ("bytes on disk per byte of text", 1, "x"),
    "open": ("open 1,000 messages", 1e3, "ms"),
    "read": ("open 1,000 messages and read every one", 1e3, "ms"),
    "writers": ("eight writers on one file", 1, "messages/s"),
}


def _plain_rows(ours: dict[str, float]) -> Iterator[tuple[str, float, str]]:
    for key, (name, factor, unit) in _NAMES.items():
        yield name, ours[key] * factor, unit


def _peer_rows(ours: dict[str, float], peers: dict[str, dict[str, float]]) -> Iterable[Row]:
    for key, (name, factor, unit) in _NAMES.items():
        goal = 1.3 if key == "bytes" else None
        yield Row(name, ours[key] * factor, unit, goal=goal)
        for peer, figures in peers.items():
            if key in figures:
                there = figures[key]
                yield Row(f"  {peer}", there * factor, unit, "this library", there / ours[key])


def server() -> SqlSessionStore | None:
    """The store on the PostgreSQL of the tests; None, and a line that says so, where there is none."""
    from autocontext.errors import StoreError

    try:
        return SqlSessionStore(POSTGRESQL)
    except StoreError as e:
        print(f"PostgreSQL is left out: {e}", file=sys.stderr)
        return None


def postgresql() -> Iterator[Row]:
    """This library and plain statements of psycopg take turns, message by message and run by run."""
    import psycopg

    store = server()
    if store is None:
        return
    with psycopg.connect(POSTGRESQL) as plain:
        plain.execute(
            "CREATE TABLE IF NOT EXISTS plain_messages (session TEXT, n INT, body TEXT, PRIMARY KEY (session, n))"
        )
        plain.commit()
        try:
            yield from _beside_psycopg(store, plain)
        finally:
            for info in store.sessions("benchmark"):
                store.delete(info.key)
            plain.rollback()
            plain.execute("DROP TABLE plain_messages")
    store.close()


_PLAIN = "INSERT INTO plain_messages VALUES (%s, %s, %s)"


def _beside_psycopg(store: SqlSessionStore, plain: psycopg.Connection) -> Iterator[Row]:
    entries = [Added(message=m) for m in messages(10 * ADDED)]
    bodies = [json.dumps({"role": e.message.role, "content": e.message.text}) for e in entries]
    session = SessionKey("benchmark", f"session {time.time_ns()}")

    def copied(name: str) -> None:
        with plain.cursor().copy("COPY plain_messages FROM STDIN") as rows:
            for n, body in enumerate(bodies[ADDED:]):
                rows.write_row((name, n, body))
        plain.commit()

    def inserted(name: str) -> None:
        plain.cursor().executemany(_PLAIN, [(name, n, body) for n, body in enumerate(bodies[ADDED:])])
        plain.commit()

    def saved_ours(i: int) -> None:
        store.append(session, entries[i : i + 1], after=i)

    def saved_plainly(i: int) -> None:
        plain.execute(_PLAIN, (session[1], i, bodies[i]))
        plain.commit()

    ours, theirs = [], []
    for i in range(ADDED):
        turns = [(saved_ours, ours), (saved_plainly, theirs)]
        for save, times in turns if i % 2 else turns[::-1]:  # the disk is not the same to the second
            times.append(_took(lambda save=save, i=i: save(i)))
    one, alone = percentile(ours, 50), percentile(theirs, 50)
    late = {"p99 us": round(percentile(ours, 99) * 1e6)}
    beside = "psycopg, INSERT and COMMIT"
    yield Row(
        "PostgreSQL: save one message durably", one * 1e6, "us", beside, one / alone, 1.1 * alone * 1e6, more=late
    )

    many: dict[str, list[float]] = {"": [], "executemany": [], "COPY": []}
    for turn in range(5):
        key = SessionKey("benchmark", f"{session[1]} {turn}")
        many[""].append(_took(lambda key=key: store.append(key, entries[ADDED:], after=0)))
        many["executemany"].append(_took(lambda key=key: inserted(f"{key[1]} i")))
        many["COPY"].append(_took(lambda key=key: copied(f"{key[1]} c")))
    saved_ = {name: percentile(times, 50) for name, times in many.items()}
    name = "PostgreSQL: save 9,000 messages in one call"
    beside, plainly = "psycopg, executemany", saved_["executemany"]
    yield Row(name, saved_[""], "s", beside, saved_[""] / plainly, 0.8, more={"COPY s": round(saved_["COPY"], 3)})

    store.append(session, entries[ADDED:], after=ADDED)
    plain.execute(
        "UPDATE plain_messages SET n = n + %s, session = %s WHERE session = %s", (ADDED, session[1], f"{key[1]} c")
    )
    plain.commit()
    query = "SELECT n, body FROM plain_messages WHERE session = %s ORDER BY n"
    ours, theirs = [], []
    for _ in range(5):
        ours.append(_took(lambda: AutoContextMemory(store=store, session_id=session[1], user_id=session[0])))
        theirs.append(_took(lambda: [json.loads(body) for _, body in plain.execute(query, (session[1],)).fetchall()]))
    opened, selected = percentile(ours, 50), percentile(theirs, 50)
    beside = "psycopg, SELECT, and json.loads"
    yield Row("PostgreSQL: open 10,000 messages", opened, "s", beside, opened / selected, 0.4)


def _took(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        _write(*sys.argv[2:])
    else:
        sys.exit(run("storage", [saving, beside_sqlite, opening, beside_peers, postgresql], versions("storage")))
