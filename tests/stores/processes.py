"""Writing processes for the crash and concurrency tests: `python -m tests.stores.processes JOB WHERE N`.

The jobs fork after everything is imported, so that a child begins to write within a millisecond.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import AutoContextError
from autocontext.history.entries import Added
from autocontext.history.log import Log
from autocontext.stores import SessionKey, SqliteSessionStore, SqlSessionStore
from autocontext.stores.database import Database, Statement
from autocontext.testing import assert_valid_chat, conversation, tool_exchange

CONFIG = AutoContextConfig(msg_threshold=10, last_keep=3, max_token=2000)
S = SessionKey("u", "s")
LIFE = 0.12
"""Seconds that a writer lives at most before it is killed."""


def opened(where: str | Database):
    return SqlSessionStore(where) if isinstance(where, str) and "://" in where else SqliteSessionStore(where)


def forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:  # noqa: BLE001 (a forked child must end here, whatever happens)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def waited(pids: list[int]) -> None:
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
    assert not failed, f"{len(failed)} of {len(pids)} processes failed"


# ------------------------------------------------------------------------------------------------------------- kills
def write_on(where: str, acknowledge: int) -> None:
    """Add messages, with passes, telling the id of each as soon as it is said to be stored."""
    memory = AutoContextMemory(CONFIG, store=opened(where), session_id=S.session_id, user_id=S.user_id)
    while True:
        call, result = tool_exchange("read_file", {"path": f"/src/{random.random()}.py"}, "line of code\n" * 60)
        for msg in (Msg(role="user", content="please look into it"), call, result, Msg(role="assistant", content="ok")):
            memory.add_message(msg)
            os.write(acknowledge, f"{msg.id}\n".encode())
        memory.get_messages()


def killed_again_and_again(where: str, kills: int) -> None:
    """Kill a writer at random moments; after each, everything acknowledged is there and the view is whole."""
    acknowledged: list[str] = []
    lived = passes = 0
    warm = AutoContextMemory(CONFIG)
    warm.add_messages(conversation(8))
    assert warm.compress_if_needed(force=True)  # what passes import is there before the first child
    for n in range(kills):
        if n % 20 == 0:
            acknowledged, path = [], f"{where}.{n}"
        ours, theirs = os.pipe()
        pid = forked(lambda to=theirs, path=path: write_on(path, to))
        os.close(theirs)
        told = os.read(ours, 4096)  # it has begun to write
        time.sleep(random.random() ** 2 * LIFE)
        # On a slow machine none has lived until a pass: the last one does.
        while n == kills - 1 and not passes and told.count(b"\n") < 60 and (more := os.read(ours, 4096)):
            told += more
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told += b"".join(iter(lambda from_=ours: os.read(from_, 65536), b""))
        os.close(ours)
        new = told.decode().split("\n")
        acknowledged += [id_ for id_ in new[:-1] if id_]
        lived += len(new) > 2
        passes += checked(path, acknowledged)
    print(f"{kills} kills, {lived} of them while writing, {passes} passes seen")
    assert passes


def checked(path: str, acknowledged: list[str]) -> int:
    store = SqliteSessionStore(path)
    entries = store.read(S)
    log = Log(entries)
    there = [log.messages[id_].id for id_ in log.original]
    assert len(set(there)) == len(there), "a message is there twice"
    known = set(acknowledged)
    assert [id_ for id_ in there if id_ in known] == acknowledged, "an acknowledged message is missing or out of order"
    assert store.revisions(S)[-1].entries == len(entries)
    memory = AutoContextMemory(CONFIG, store=store, session_id=S.session_id, user_id=S.user_id)
    assert memory.messages == log.view_messages
    assert set(log.original) <= {*log.view_ids, *log.covered(log.view_ids)}, "an original is neither seen nor stood for"
    assert_valid_chat(message for message in log.view_messages[: _last_whole(log.view_messages)])

    def integrity():
        return (yield Statement("PRAGMA integrity_check"))

    assert store.database.read(integrity) == [("ok",)]
    store.close()
    return len(log.events)


def _last_whole(messages: list[Msg]) -> int:
    """Before a call that the kill left without its answer."""
    answered = {r.id for m in messages for r in m.tool_results}
    for i, m in enumerate(messages):
        if any(use.id not in answered for use in m.tool_uses):
            return i
    return len(messages)


def forks_killed(where: str, kills: int) -> None:
    """Kill a process while it forks a long session: what is there afterwards is all of the copy or nothing."""
    entries = [Added(message=Msg(role="user", content=f"message {i}")) for i in range(2500)]
    with contextlib.closing(opened(where)) as store:
        store.append(S, entries, after=0)
        begun = time.monotonic()
        store.fork(S)
        took = time.monotonic() - begun
    outcomes = {0: 0, len(entries): 0}
    for n in range(kills):
        ours, theirs = os.pipe()

        def fork(n: int = n, to: int = theirs) -> None:
            store = opened(where)
            os.write(to, b"!")
            store.fork(S, new_id=f"fork {n}")

        pid = forked(fork)
        os.read(ours, 1)
        time.sleep(took * random.random())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours)
        os.close(theirs)
        with contextlib.closing(opened(where)) as store:
            outcomes[len(store.read(SessionKey("u", f"fork {n}")))] += 1  # KeyError: a part of it
    print(f"{kills} kills, {outcomes[0]} times nothing, {outcomes[len(entries)]} times all of it")


# ----------------------------------------------------------------------------------------------------------- writers
def writers_on_one_session(where: str, count: int) -> None:
    """Eight processes, one session: all messages are there once, each writer's in order."""
    opened(where).close()

    def write(name: int) -> None:
        memory = AutoContextMemory(
            AutoContextConfig(msg_threshold=10**6, max_token=10**9), store=opened(where), session_id="s", user_id="u"
        )
        for i in range(count):
            memory.add_message(Msg(role="user", content=f"{name} {i}"))

    begun = time.monotonic()
    waited([forked(lambda name=name: write(name)) for name in range(8)])
    seconds = time.monotonic() - begun
    texts = [entry.message.text for entry in opened(where).read(S)]
    assert len(texts) == 8 * count, f"{len(texts)} messages"
    for name in range(8):
        assert [t for t in texts if t.startswith(f"{name} ")] == [f"{name} {i}" for i in range(count)]
    print(f"{8 * count} messages of 8 writers in {seconds:.2f} s")


def start_ups(where: str, count: int) -> None:
    """Processes that all open a new file at the same moment, in waves."""
    for wave in range(0, count, 40):
        path = f"{where}.{wave}"
        gate, go = os.pipe()

        def begin(n: int, gate: int = gate, go: int = go, path: str = path) -> None:
            os.close(go)
            os.read(gate, 1)
            memory = AutoContextMemory(store=SqliteSessionStore(path), session_id=str(n), user_id="u")
            memory.add_message(Msg(role="user", content="hello"))

        pids = [forked(lambda n=n: begin(n)) for n in range(min(40, count - wave))]
        os.close(gate)
        os.close(go)  # lets all of them go at once
        waited(pids)
        assert len(SqliteSessionStore(path).sessions("u")) == len(pids)
    print(f"{count} start-ups, none found the file locked")


# -------------------------------------------------------------------------------------------------------------- full
def full_disk(where: str, megabytes: int) -> None:
    """A limit on file sizes stands in for a disk that is full."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = SqliteSessionStore(where)
    resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 20, resource.RLIM_INFINITY))
    memory = AutoContextMemory(store=store, session_id="s", user_id="u")
    stored: list[str] = []
    told = ""
    while not told:
        msg = Msg(role="user", content=random.randbytes(20_000).hex())
        try:
            memory.add_message(msg)
            stored.append(msg.id)
        except AutoContextError as e:
            told = f"{type(e).__name__}: {e}"
    assert [m.id for m in memory.get_original_memory_msgs()] == stored
    assert [e.message.id for e in store.read(S)] == stored
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    memory.add_message(Msg(role="user", content="there is space again"))
    assert len(SqliteSessionStore(where).read(S)) == len(stored) + 1 > 2
    print(told)


JOBS = {
    "kills": killed_again_and_again,
    "forks": forks_killed,
    "writers": writers_on_one_session,
    "start-ups": start_ups,
    "full": full_disk,
}

if __name__ == "__main__":
    random.seed(int(os.environ.get("SEED", "0")) or None)
    JOBS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
