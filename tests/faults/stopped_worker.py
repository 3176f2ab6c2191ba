"""A process is stopped (SIGSTOP) inside a transaction for longer than all that waits: `stopped_worker URL ROUNDS`.

It stops itself before one of its statements, each round before another. Meanwhile this process works on the same
session and computes the same result; then the stopped one goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from autocontext import AutoContext, AutoContextConfig
from autocontext.cache import ResultCache
from autocontext.errors import Conflict, StoreError
from autocontext.history.log import Log
from autocontext.messages import Msg
from autocontext.stores import SessionKey
from autocontext.stores.database import Database, Work
from autocontext.stores.sqlite_database import SqliteDatabase
from autocontext.testing import assert_valid_chat
from tests.invariants import ESTIMATE

CONFIG = AutoContextConfig(
    max_token=1_500, msg_threshold=10, last_keep=3, large_payload_threshold=300, offload_single_preview=50,
    min_compression_token_threshold=1, min_consecutive_tool_messages=1, model_retries=0, **ESTIMATE,
)  # fmt: skip
LEASE = 0.3
STOPPED = 0.8
"""Seconds: longer than the lease, than the patience of both, and than the server lets a transaction idle."""
PATIENCE = 0.3
KEY = SessionKey("u", "s")


def opened(where: str, patience: float) -> Database:
    if "://" not in where:
        return SqliteDatabase(where, patience=patience)
    from autocontext.stores.sql_database import SqlDatabase

    return SqlDatabase(where, patience=patience)


def stopping(database: Database, at: int) -> Callable[[], int]:
    """Stop this process before the statement of that number; returns a function that counts them."""
    count = 0

    def watched(work: Work[Any]) -> Work[Any]:
        nonlocal count
        rows: Any = None
        while True:
            try:
                statement = work.send(rows)
            except StopIteration as done:
                count += 1
                if count == at:
                    os.kill(os.getpid(), signal.SIGSTOP)  # everything is done but COMMIT
                return done.value
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGSTOP)
            rows = yield statement

    write = database.write
    database.write = lambda work: write(lambda: watched(work()))  # type: ignore[method-assign]
    return lambda: count


class Part:
    """What one process does, and says that it did."""

    def __init__(self, database: Database, name: str, say: Callable[[str], None], told: Counter[str]) -> None:
        self.database, self.name, self.say, self.told = database, name, say, told
        self.context: Any = None

    def trying(self, work: Callable[[], Any]) -> Any:
        """Do it, again after an error of ours: once the other process is out of the way it must go."""
        until = time.monotonic() + 60
        while True:
            try:
                return work()
            except (StoreError, Conflict) as e:
                self.told[f"{self.name}: {type(e).__name__}: {str(e).partition(': ')[2][:60]}"] += 1
                if time.monotonic() > until:
                    raise

    def open(self) -> None:
        self.context = AutoContext.open(self.database, config=CONFIG)
        self.session = self.context.session("s", user_id="u")
        self.cache = ResultCache(self.database, namespace="n", lease_seconds=LEASE)

    def talk(self, rounds: int) -> None:
        for n in range(rounds):
            for i in range(5):  # without calls: another process's message may come between any two
                role = "assistant" if i % 2 else "user"
                msg = Msg(id=f"{self.name}-{n}-{i}", role=role, content=f"{self.name} says {n} {i} " * 30)
                self.trying(lambda msg=msg: self.session.memory.add_message(msg))
                self.say(msg.id)
            self.trying(self.session.memory.get_messages)

    def compute(self, what: int) -> None:
        answer = self.trying(lambda: self.cache.get_or_compute("square", {"n": what}, lambda n: n * n))
        assert answer == what * what


def stopped(where: str, at: int, say: Callable[[str], None]) -> None:
    """The work of the process that is stopped."""
    database = opened(where, PATIENCE)
    told = Counter[str]()
    count = stopping(database, at)
    part = Part(database, "stopped", say, told)
    part.trying(part.open)
    part.talk(3)
    part.compute(3)
    part.trying(part.session.save)
    part.trying(lambda: part.context.erase("s", ["stopped-0-1"], user_id="u"))
    part.trying(lambda: part.context.memories.add("Was stopped", user_id="u"))
    database.close()
    for text, times in told.items():
        say(f"told {times} {text}")
    say(f"statements {count()}")


def child(where: str, at: int) -> tuple[int, int]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    os.close(ours)
    try:
        stopped(where, at, lambda text: os.write(theirs, f"{text}\n".encode()) and None)
    except BaseException:  # noqa: BLE001 (a forked child must end here, whatever happens)
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended(pid: int, told: int) -> list[str]:
    """What a child has said, once it has ended well."""
    with os.fdopen(told) as said:
        lines = said.read().split("\n")[:-1]
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the process that was stopped ended with {status}"
    return lines


def statements(where: str) -> int:
    """How many statements the process has that is not stopped."""
    said = ended(*child(where, 0))
    check(where, [line for line in said if line.startswith("stopped-")], [])
    return int(said[-1].split()[1])


def stopped_at(where: str, at: int, told: Counter[str]) -> bool:
    """Stop a process before its statement `at`, work, and let it go on; returns whether it has so many."""
    pid, pipe = child(where, at)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):  # the one that was counted has tried something again, or renewed a lease
        assert status == 0, f"it ended with {status} before statement {at}"
        with os.fdopen(pipe) as said:
            check(where, [line for line in said.read().split("\n") if line.startswith("stopped-")], [])
        return False
    began, mine = time.monotonic(), list[str]()
    database = opened(where, PATIENCE)
    part = Part(database, "other", mine.append, told)
    try:
        part.open()
        part.session.memory.add_message(Msg(id="other-first", role="user", content="is anybody there?"))
        mine.append("other-first")
        time.sleep(LEASE)
        assert part.cache.get_or_compute("square", {"n": 3}, lambda n: n * n) == 9
    except StoreError as e:  # the stopped process has it locked
        told[f"while it is stopped: {type(e).__name__}: {str(e).partition(': ')[2][:60]}"] += 1
    time.sleep(max(0.0, STOPPED - (time.monotonic() - began)))
    os.kill(pid, signal.SIGCONT)
    part.trying(part.open)
    part.talk(1)
    part.compute(3)
    said = ended(pid, pipe)
    database.close()
    check(where, [line for line in said if line.startswith("stopped-")], mine)
    for line in said:
        if line.startswith("told"):
            _, times, text = line.split(" ", 2)
            told[text] += int(times)
    return True


def check(where: str, theirs: list[str], mine: list[str]) -> None:
    with AutoContext.open(opened(where, 30.0), config=CONFIG) as context:
        log = Log(context.sessions.read(KEY))
        there = [log.messages[id_].id for id_ in log.original]
        assert len(set(there)) == len(there), "a message is there twice"
        for acknowledged in (theirs, mine):
            assert [id_ for id_ in there if id_ in set(acknowledged)] == acknowledged, "one is missing, or out of order"
        view = context.session("s", user_id="u").memory
        assert view.messages == log.view_messages
        assert_valid_chat(view.get_messages())
        assert len(context.memories.all(user_id="u")) == 1
        assert ResultCache(context.database, namespace="n").get_or_compute("square", {"n": 3}, lambda n: n * n) == 9
        context.delete("s", user_id="u")
        context.memories.clear(user_id="u")
        context.cache_of("u").clear()
        ResultCache(context.database, namespace="n").clear()
        context.database.close()


def main(where: str, rounds: int) -> None:
    told = Counter[str]()
    statements(where)  # the first one makes the tables
    count = statements(where)
    for n in range(rounds):
        at = 1 + n * count // rounds
        while not stopped_at(where, at, told):
            at -= 1
    print(f"{rounds} stops among {count} statements")
    for text, times in told.most_common():
        print(f"{times:6} {text}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
