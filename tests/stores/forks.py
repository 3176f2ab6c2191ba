"""Forking processes for the tests of forks: `python -m tests.stores.forks JOB WHERE N`.

In processes of their own, as a child goes through its whole end here: garbage collection, exit hooks, finalizers.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.cache import ResultCache
from autocontext.errors import StoreError
from autocontext.flows import forking
from autocontext.models import OpenAIChatModel
from autocontext.requests import ModelRequest
from autocontext.stores import SessionKey
from autocontext.stores.database import Database, Statement
from autocontext.stores.opening import open_database
from tests.fakes.openai_server import FakeOpenAI
from tests.stores.processes import opened

USERS = ("ann", "bob", "eve")
PATIENT = 240.0
"""Seconds after which a child counts as hung."""


def forked(work: Callable[[], object]) -> int:
    """A child that does some work and ends as a program does."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        gc.collect()
    except BaseException:  # noqa: BLE001 (told to the parent by its exit code)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    raise SystemExit(0)


def ended(pids: list[int]) -> None:
    """Wait for all; those that do not end are killed and counted."""
    codes: dict[int, int] = {}
    until = time.monotonic() + PATIENT
    while len(codes) < len(pids) and time.monotonic() < until:
        for pid in pids:
            if pid not in codes and (done := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(done[1])
        time.sleep(0.005)
    hung = [pid for pid in pids if pid not in codes]
    for pid in hung:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    failed = sum(code != 0 for code in codes.values())
    assert not hung, f"{len(hung)} of {len(pids)} hang"
    assert not failed, f"{failed} of {len(pids)} failed"
    print(f"{len(pids)} children, 0 hung, 0 foreign")


def said(store, user: str) -> list[str]:
    return [m.text for m in AutoContextMemory(store=store, user_id=user, session_id="s").messages]


def server_processes(database: Database) -> set[int]:
    """The processes at the server that serve the pooled connections of this one."""

    def work():
        return (yield Statement("SELECT pg_backend_pid()"))

    return {database.read(work)[0][0] for _ in range(3)}


# -------------------------------------------------------------------------------------------------------------- server
def children_of_a_server(where: str, count: int) -> None:
    """Children of a process with open connections, sync and async, and open memories of three users."""
    store = opened(where)
    memories = {user: AutoContextMemory(store=store, user_id=user, session_id="s") for user in USERS}
    for user, memory in memories.items():
        memory.add_message(Msg(role="user", content=f"{user}: at first"))
    loop = asyncio.new_event_loop()  # stands still between two runs, with a connection in its pool
    loop.run_until_complete(store.asessions())
    before = server_processes(store.database)
    enough = threading.Event()

    def go_on_writing() -> None:
        while not enough.is_set():
            memories["ann"].add_message(Msg(role="user", content="ann: meanwhile"))
            time.sleep(0.01)  # or the children of ann find no gap between two of its appends

    writer = threading.Thread(target=go_on_writing, daemon=True)
    writer.start()

    def child(n: int) -> None:
        user = USERS[n % 3]
        memory = memories[user]
        memory.add_message(Msg(role="user", content=f"{user}: child {n}"))
        for _ in range(5):
            assert all(text.startswith(user) for text in said(store, user)), "a foreign message"
        texts = [m.text for m in memory.messages]
        assert f"{user}: child {n}" in texts
        assert all(text.startswith(user) for text in texts), "a foreign message in the open memory"
        found = asyncio.run(store.aread(SessionKey(user, "s")))
        assert all(entry.message.text.startswith(user) for entry in found), "a foreign message (async)"
        asyncio.run(store.aclose())

    pids = [forked(lambda n=n: child(n)) for n in range(count)]
    ended(pids)
    enough.set()
    writer.join()
    assert before & server_processes(store.database), "the children have closed the parent's connections"
    assert loop.run_until_complete(store.asessions())
    for i, user in enumerate(USERS):
        texts = said(store, user)
        assert {t for t in texts if "child" in t} == {f"{user}: child {n}" for n in range(count) if n % 3 == i}
        assert len(texts) == len(set(texts)) or user == "ann"
    loop.run_until_complete(store.aclose())
    loop.close()


def tasks_in_a_transaction(where: str, count: int) -> None:
    """Tasks of an event loop are in the middle of a transaction: a child's end says nothing on their connections."""
    store = opened(where)

    async def paused() -> list[asyncio.Task[object]]:
        inside = []

        def slow():
            yield Statement("SELECT 1")
            inside.append(1)
            return (yield Statement("SELECT pg_sleep(0.5)"))

        tasks = [asyncio.create_task(store.database.awrite(slow)) for _ in range(3)]
        while len(inside) < len(tasks) and not any(task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return tasks

    async def backend() -> int:
        def work():
            return (yield Statement("SELECT pg_backend_pid()"))

        return (await store.database.aread(work))[0][0]

    loop = asyncio.new_event_loop()
    before = loop.run_until_complete(backend())
    # As asyncio.run ends in a child that was forked inside of it: what the loop holds is closed.
    ended([forked(lambda: loop.run_until_complete(loop.shutdown_asyncgens())) for _ in range(count)])
    assert loop.run_until_complete(backend()) == before, "a child has closed the parent's connection"
    tasks = loop.run_until_complete(paused())
    ended([forked(lambda: None) for _ in range(count)])
    assert len(loop.run_until_complete(asyncio.gather(*tasks))) == 3
    loop.run_until_complete(store.aclose())
    loop.close()


# --------------------------------------------------------------------------------------------------------------- file
def children_while_threads_write(where: str, count: int) -> None:
    """Threads write one after the other without a pause; every child can write, and so can the parent, to the end."""
    store = opened(where)
    memories = [AutoContextMemory(store=store, user_id=user, session_id="s") for user in USERS]
    enough = threading.Event()
    done = [0] * len(memories)

    def go_on_writing(i: int) -> None:
        while not enough.is_set():
            memories[i].add_message(Msg(role="user", content=f"{USERS[i]}: {done[i]}"))
            done[i] += 1

    threads = [threading.Thread(target=go_on_writing, args=(i,), daemon=True) for i in range(len(memories))]
    for thread in threads:
        thread.start()

    def child(n: int) -> None:
        memory = memories[n % 3]  # another thread may have held its lock
        memory.add_message(Msg(role="user", content=f"{USERS[n % 3]}: child {n}"))
        opened(where).sessions()

    pids = []
    for n in range(count):
        pids.append(forked(lambda n=n: child(n)))
        time.sleep(0.002)
    ended(pids)
    enough.set()
    for thread in threads:
        thread.join()
    store.close()
    for i, user in enumerate(USERS):
        texts = said(opened(where), user)
        assert [t for t in texts if "child" not in t] == [f"{user}: {n}" for n in range(done[i])]
        assert {t for t in texts if "child" in t} == {f"{user}: child {n}" for n in range(count) if n % 3 == i}


def parent_that_closes(where: str, count: int) -> None:
    """The parent closes the file, as its last user, while children go on: what they are told is stored stays stored."""
    store = opened(where)
    memory = AutoContextMemory(store=store, user_id="u", session_id="s")
    memory.add_message(Msg(role="user", content="parent"))
    (hear, tell), (closed, close) = os.pipe(), os.pipe()

    def child(n: int) -> None:
        os.close(close)
        memory.add_message(Msg(role="user", content=f"{n} before"))
        os.write(tell, b"!")
        os.read(closed, 1)
        memory.add_message(Msg(role="user", content=f"{n} after"))
        os._exit(0)  # as if killed: what it has stored lies in the write-ahead file only

    pids = [forked(lambda n=n: child(n)) for n in range(count)]
    for _ in range(count):
        os.read(hear, 1)
    store.close()
    os.close(close)
    ended(pids)
    texts = [m.text for m in AutoContextMemory(store=opened(where), user_id="u", session_id="s").messages]
    assert sorted(texts) == sorted(["parent", *(f"{n} {when}" for n in range(count) for when in ("before", "after"))])


def in_memory(where: str, count: int) -> None:
    """A database without a file: each child has a copy."""
    store = opened(":memory:")
    memory = AutoContextMemory(store=store, user_id="u", session_id="s")
    memory.add_message(Msg(role="user", content="parent"))

    def child() -> None:
        memory.add_message(Msg(role="user", content="child"))
        assert [e.message.text for e in store.read(SessionKey("u", "s"))] == ["parent", "child"]

    ended([forked(child) for _ in range(count)])
    assert len(store.read(SessionKey("u", "s"))) == 1


def a_pass_in_another_thread(where: str, count: int) -> None:
    """A pass waits for its model while this process forks: the child's passes do not wait for that one."""
    asked, answer = threading.Event(), threading.Event()

    class Slow:
        def complete(self, request):
            asked.set()
            answer.wait(PATIENT)
            raise TimeoutError

    memory = AutoContextMemory(
        AutoContextConfig(msg_threshold=4, last_keep=2, max_token=2000), Slow(), store=opened(where)
    )
    for i in range(8):
        memory.add_message(Msg(role="user", content=f"question {i} " * 100))
        memory.add_message(Msg(role="assistant", content=f"answer {i} " * 100))
    thread = threading.Thread(target=memory.get_messages, daemon=True)
    thread.start()
    assert asked.wait(PATIENT)

    def child() -> None:
        answer.set()
        memory.add_message(Msg(role="user", content="child"))
        assert memory.get_messages()[-1].text == "child"

    ended([forked(child) for _ in range(count)])
    answer.set()
    thread.join()


def too_long(where: str, count: int) -> None:
    """A transaction that does not end in time: the child says so instead of waiting or losing what it writes."""
    forking.PATIENCE = 0.1
    database = open_database(where)
    store = opened(database)
    memory = AutoContextMemory(store=store, user_id="u", session_id="s")
    memory.add_message(Msg(role="user", content="parent"))
    inside, leave = threading.Event(), threading.Event()

    def work():
        inside.set()
        leave.wait(PATIENT)
        return (yield Statement("SELECT 1"))

    thread = threading.Thread(target=lambda: database.write(work))
    thread.start()
    assert inside.wait(PATIENT)

    def child() -> None:
        for attempt in (store.sessions, lambda: opened(where)):
            with pytest.raises(StoreError, match=r"was forked while .*spawn"):
                attempt()
        store.close()

    pids = [forked(child) for _ in range(count)]
    leave.set()
    thread.join()
    ended(pids)
    memory.add_message(Msg(role="user", content="still"))
    assert len(store.read(SessionKey("u", "s"))) == 2


def objects(where: str, count: int) -> None:
    """Object storage in a parent's use: its children are told; in a process that has not used it they can."""
    from autocontext.content.objects import ObjectContentStore

    folder = Path(where).parent
    unused = ObjectContentStore(folder)

    def first(n: int) -> None:
        unused.put("text", key=f"first {n}")
        assert asyncio.run(unused.aread(f"first {n}")).text == "text"

    ended([forked(lambda n=n: first(n)) for n in range(count)])
    used = ObjectContentStore(folder)
    used.put("text", key="parent")

    def child() -> None:
        for attempt in (lambda: used.read("parent"), lambda: asyncio.run(unused.aread("parent"))):
            with pytest.raises(StoreError, match=r"was forked after .*spawn"):
                attempt()

    ended([forked(child) for _ in range(count)])
    assert used.read("parent").text == "text"


def models(where: str, count: int) -> None:
    """Models that have open connections to a service: parent and children get the answers to their own questions."""
    with FakeOpenAI(default=lambda turn: turn.messages[-1]["content"].upper()) as service:
        model = OpenAIChatModel("m", base_url=service.base_url, api_key="test-key")
        loop = asyncio.new_event_loop()

        def ask(name: str) -> None:
            for i in range(5):
                request = ModelRequest(system="", prompt=f"{name} {i}", purpose="test", max_output_tokens=9)
                assert model.complete(request).text == f"{name} {i}".upper()

        async def aask(name: str) -> None:
            request = ModelRequest(system="", prompt=name, purpose="test", max_output_tokens=9)
            assert (await model.acomplete(request)).text == name.upper()

        ask("parent")
        loop.run_until_complete(aask("parent"))

        def child(n: int) -> None:
            ask(f"child {n}")
            asyncio.run(aask(f"child {n}"))
            os._exit(0)  # the server of the parent's thread is not this process's to close

        pids = [forked(lambda n=n: child(n)) for n in range(count)]
        ask("parent again")
        ended(pids)
        loop.run_until_complete(aask("parent again"))
        loop.run_until_complete(model.aclose())
        loop.close()
        model.close()


def cached(where: str, count: int) -> None:
    """A result that a thread of the parent is computing: the children wait for it, as other processes do."""
    cache = ResultCache(where, namespace="n")
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go_on.wait(PATIENT)
        return "by the parent"

    thread = threading.Thread(target=lambda: cache.get_or_compute("slow", {}, slow))
    thread.start()
    assert begun.wait(PATIENT)

    def child() -> None:
        assert cache.get_or_compute("quick", {}, lambda: 1) == 1
        assert cache.get_or_compute("slow", {}, lambda: "by a child") == "by the parent"

    pids = [forked(child) for _ in range(count)]
    time.sleep(0.2)
    go_on.set()
    thread.join()
    ended(pids)
    cache.close()


def by_c_code(where: str, count: int) -> None:
    """A fork that Python does not hear of: a server's connections are the child's own all the same; no file is."""
    store = opened(where)
    memory = AutoContextMemory(store=store, user_id="ann", session_id="s")
    memory.add_message(Msg(role="user", content="parent"))
    before = server_processes(store.database) if "://" in where else set()
    pids = []
    for _ in range(count):
        if pid := ctypes.PyDLL(None).fork():
            pids.append(pid)
            continue
        if "://" in where:
            assert said(store, "ann") == ["parent"]
            assert len(asyncio.run(store.aread(SessionKey("ann", "s")))) == 1
            assert not before & server_processes(store.database)
        else:
            with pytest.raises(StoreError, match="was forked while"):
                store.sessions()
        os._exit(0)
    ended(pids)
    assert "://" not in where or before & server_processes(store.database)
    assert said(store, "ann") == ["parent"]
    store.close()


def killed_in_a_transaction(where: str, count: int) -> None:
    """A parent that is killed while it has rows locked, and whose child lives on."""
    with closing(open_database(where)) as database:
        database.write(lambda: iter_statements("CREATE TABLE held (n INTEGER)", "INSERT INTO held VALUES (1)"))
    for _ in range(count):
        reader, writer = os.pipe()
        parent = forked(lambda writer=writer: hold_and_fork(where, writer))
        os.close(writer)
        child = int(os.read(reader, 20))
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        try:
            with closing(open_database(where)) as database:  # raises when the row stays locked while the child lives
                database.write(lambda: iter_statements("UPDATE held SET n = n + 1"))
        finally:
            os.kill(child, signal.SIGKILL)
    print(f"{count} children, 0 hung, 0 foreign")


def hold_and_fork(where: str, writer: int) -> None:
    """Lock a row, fork a child that only sleeps, tell its number, and wait."""
    database, held = open_database(where), threading.Event()

    def hold():
        yield Statement("UPDATE held SET n = n + 1")
        held.set()
        time.sleep(PATIENT)

    threading.Thread(target=database.write, args=[hold], daemon=True).start()
    assert held.wait(PATIENT)
    child = os.fork()
    if child == 0:
        time.sleep(PATIENT)
        os._exit(0)
    os.write(writer, str(child).encode())
    time.sleep(PATIENT)


def iter_statements(*statements: str):
    for sql in statements:
        yield Statement(sql)


JOBS = {
    "killed": killed_in_a_transaction,
    "c": by_c_code,
    "objects": objects,
    "models": models,
    "cached": cached,
    "server": children_of_a_server,
    "tasks": tasks_in_a_transaction,
    "threads": children_while_threads_write,
    "closing": parent_that_closes,
    "memory": in_memory,
    "pass": a_pass_in_another_thread,
    "too-long": too_long,
}

if __name__ == "__main__":
    forking.PATIENCE = PATIENT
    JOBS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
