"""One process of the concurrency run: threads that do random operations on all parts of one database.

`python -m tests.soak.worker URL FOLDER THREADS SEED SECONDS`. Each thread writes what it is about to do, and that it
was done, to a journal of its own; `harness` compares the journals with the database. What a read gives is checked at
once.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory
from autocontext.cache import ResultCache
from autocontext.errors import AutoContextError
from autocontext.memory import Msg
from autocontext.stores import SessionKey
from autocontext.testing import assert_valid_chat, tool_exchange

USERS = ("ann", "bob", "cleo")
SESSIONS = 4
"""Sessions of a user that all processes write to."""
KEYS = 6
"""Keys of contents, cached results and so on, for each user."""
CONFIG = AutoContextConfig(msg_threshold=24, last_keep=4, max_token=4_000, token_counter="bytes4")  # noqa: S106 (no password)
LEASE = 5.0
"""Seconds that the lease of a process that was killed keeps the others waiting; a minute by default."""
LONGEST = 180.0
"""Seconds in which a child, or an operation, must have ended: several times what any call waits."""


class Journal:
    """What one thread did, a JSON object a line: "begins" before an operation, "done" after it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **fact: Any) -> None:
        os.write(self._file, (json.dumps({"at": time.monotonic_ns(), **fact}) + "\n").encode())


class Actor:
    """One thread's operations. Texts begin with their owner, so that a foreign one is seen wherever it is read."""

    def __init__(self, context: AutoContext, journal: Journal, name: str, seed: int) -> None:
        self.context, self.journal, self.name = context, journal, name
        self.random = random.Random(seed)
        self.count = 0
        self.memories: dict[SessionKey, AutoContextMemory] = {}

    def do_one(self) -> None:
        operation: Callable[[str], None] = self.random.choice(OPERATIONS)
        self.count += 1
        try:
            operation(self, self.random.choice(USERS))
        except AutoContextError as e:
            self.journal.write(kind="refused", operation=operation.__name__, error=f"{type(e).__name__}: {e}"[:300])
        except Exception:  # noqa: BLE001 (no error but ours may come out: it is what the run looks for)
            self.journal.write(kind="violation", operation=operation.__name__, what=traceback.format_exc()[-2_000:])

    def expect(self, condition: bool, what: str, **facts: Any) -> None:
        if not condition:
            self.journal.write(kind="violation", what=what, facts=repr(facts)[:1_000])

    def unique(self, user: str) -> str:
        return f"{user}|{self.name}.{self.count}|"

    # ------------------------------------------------------------------------------------------------- sessions
    def _session(self, user: str) -> SessionKey:
        return SessionKey(user, f"s{self.random.randrange(SESSIONS)}")

    def _memory(self, key: SessionKey) -> AutoContextMemory:
        if key not in self.memories or self.random.random() < 0.1:
            self.memories[key] = AutoContextMemory(
                CONFIG, store=self.context.sessions, session_id=key.session_id, user_id=key.user_id
            )
        return self.memories[key]

    def add(self, user: str) -> None:
        """Add a request, a call and its result, and read the context."""
        key, text = self._session(user), self.unique(user)
        call, result = tool_exchange("read_file", {"path": f"{text}.py"}, text + "a line\n" * self.random.randrange(80))
        msgs = [Msg(role="user", content=text), call, result, Msg(role="assistant", content=text + "done")]
        ids = [m.id for m in msgs]
        self.journal.write(kind="add begins", session=key, ids=ids)
        try:
            self._memory(key).add_messages(msgs)
        except AutoContextError:
            self.memories.pop(key, None)
            raise
        self.journal.write(kind="add done", session=key, ids=ids)
        if self.random.random() < 0.3:
            self._look(user, self.memories[key].get_messages())

    def read_session(self, user: str) -> None:
        """Open a session as another process would, and look at all of it."""
        key = self._session(user)
        memory = AutoContextMemory(CONFIG, store=self.context.sessions, session_id=key.session_id, user_id=user)
        self._look(user, memory.get_original_memory_msgs())
        self._look(user, memory.messages)
        assert_valid_chat(memory.messages)

    def _look(self, user: str, msgs: list[Msg]) -> None:
        others = [other for other in USERS if other != user]
        foreign = [m.text for m in msgs if any(f"{other}|" in text for text in m.texts() for other in others)]
        self.expect(not foreign, "another user's text", user=user, foreign=foreign[:1])

    def delete_session(self, user: str) -> None:
        if self.random.random() < 0.9:
            return
        key = self._session(user)
        self.journal.write(kind="delete begins", session=key)
        self.context.sessions.delete(key)
        self.journal.write(kind="delete done", session=key)
        self.memories.pop(key, None)

    def save_state(self, user: str) -> None:
        if self.random.random() < 0.8:
            return
        key = self._session(user)
        session = self.context.session(key.session_id, user_id=user)
        session.save()
        state = session.state()
        if state is not None:
            self._look(user, list(state.messages))

    # ------------------------------------------------------------------------------------------------- contents
    def put(self, user: str) -> None:
        body = self.unique(user) + "x" * self.random.choice((10, 3_000, 40_000))
        content = f"{hashlib.sha256(body.encode()).hexdigest()}|{body}"
        key = f"k{self.random.randrange(KEYS)}"
        namespace = self.context.namespace(user)
        self.context.content.put(content, key=key, namespace=namespace)
        self.expect(self.context.content.read(key, namespace=namespace) is not None, "a key without content", key=key)

    def read_content(self, user: str) -> None:
        """No key is ever deleted here, so one that a thread has put can always be read."""
        key = f"k{self.random.randrange(KEYS)}"
        page = self.context.content.read(key, namespace=self.context.namespace(user))
        if page is not None:
            digest, _, body = str(page.text).partition("|")
            self.expect(body.startswith(f"{user}|"), "another user's content", user=user, body=body[:80])
            self.expect(hashlib.sha256(body.encode()).hexdigest() == digest, "a damaged content", body=body[:80])

    def put_and_delete(self, user: str) -> None:
        """The same content under a lasting and a passing key: deleting one must leave the other."""
        shared, namespace = f"{user}|shared|" + "y" * 5_000, self.context.namespace(user)
        passing = f"p{self.random.randrange(KEYS)}"
        store = self.context.content
        store.put(shared, key="lasting", namespace=namespace)
        store.put(shared, key=passing, namespace=namespace)
        store.delete(passing, namespace=namespace)
        page = store.read("lasting", namespace=namespace)
        self.expect(page is not None and str(page.text) == shared[: len(str(page.text))], "a shared content is lost")

    # --------------------------------------------------------------------------------------------------- cache
    def _cache(self, user: str) -> ResultCache:
        """As `context.cache_of(user)`, with shorter leases."""
        return ResultCache(self.context.database, namespace=self.context.namespace(user), lease_seconds=LEASE)

    def compute(self, user: str) -> None:
        n = self.random.randrange(KEYS)
        result = self._cache(user).get_or_compute("square", {"n": n}, lambda n: {"of": user, "is": n * n})
        self.expect(result == {"of": user, "is": n * n}, "a wrong result", user=user, n=n, result=result)

    def invalidate(self, user: str) -> None:
        if self.random.random() < 0.2:
            self._cache(user).invalidate(prefix="square")

    # ------------------------------------------------------------------------------------------------ memories
    def remember(self, user: str) -> None:
        content = f"{self.unique(user)} likes number {self.random.random()}"
        self.journal.write(kind="remember begins", user=user, content=content)
        self.context.memories.add(content, user_id=user)
        self.journal.write(kind="remember done", user=user, content=content)

    def recall(self, user: str) -> None:
        found = self.context.memories.search("likes number", user_id=user, limit=5)
        foreign = [m.memory.content for m in found if not m.memory.content.startswith(f"{user}|")]
        self.expect(not foreign, "another user's memory", user=user, foreign=foreign)


OPERATIONS: list[Callable[[Actor, str], None]] = [
    *[Actor.add] * 6, *[Actor.read_session] * 2, Actor.delete_session, Actor.save_state, *[Actor.put] * 2,
    *[Actor.read_content] * 3, Actor.put_and_delete, *[Actor.compute] * 3, Actor.invalidate, Actor.remember,
    *[Actor.recall] * 2,
]  # fmt: skip


def fork_a_child(context: AutoContext, journal: Journal, name: str, seed: int, folder: Path) -> None:
    """A child of this process, which has the database open and threads at work, does some operations."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(LONGEST - 10)  # to stderr, which the harness reads
        actor = Actor(context, Journal(folder / f"{name}.jsonl"), name, seed)
        for _ in range(10):
            actor.do_one()
        os._exit(0)
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if status:
                journal.write(kind="violation", what="a forked child failed", facts=status)
            return
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    journal.write(kind="violation", what="a forked child hung", facts=name)


def resident() -> int:
    """Memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    url, folder, threads, seed, seconds = (
        sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]),
    )  # fmt: skip
    context = AutoContext.open(url, config=CONFIG)
    until = time.monotonic() + seconds

    def act(number: int) -> None:
        name = f"p{os.getpid()}t{number}"
        actor = Actor(context, Journal(folder / f"{name}.jsonl"), name, seed * 1_000 + number)
        while time.monotonic() < until:
            actor.do_one()

    working = [threading.Thread(target=act, args=(n,), daemon=True) for n in range(threads)]
    for thread in working:
        thread.start()
    journal = Journal(folder / f"p{os.getpid()}.jsonl")
    chance = random.Random(seed)
    children = 0
    while time.monotonic() < until:
        time.sleep(chance.uniform(0.5, 3.0))
        journal.write(kind="memory", bytes=resident())
        children += 1
        fork_a_child(context, journal, f"p{os.getpid()}c{children}", seed + children, folder)
    for thread in working:
        thread.join(LONGEST)
        if thread.is_alive():
            journal.write(kind="violation", what="a thread hung", facts=thread.name)
    context.close()


if __name__ == "__main__":
    main()
