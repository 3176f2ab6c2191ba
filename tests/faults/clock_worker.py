"""Works in all parts of a database while the clock jumps between any two calls: `clock_worker JOB WHERE ROUNDS SEED`.

Needs clock.c preloaded. What has no end may not end, what has an end may end only by it, order is that of the calls.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autocontext import AutoContext, AutoContextConfig
from autocontext.cache import ResultCache
from autocontext.messages import Msg
from autocontext.stores import SessionKey
from autocontext.stores.opening import open_database
from autocontext.testing import assert_valid_chat, conversation
from tests.invariants import ESTIMATE

CONFIG = AutoContextConfig(
    max_token=1_500, msg_threshold=10, last_keep=3, large_payload_threshold=300, offload_single_preview=50,
    min_compression_token_threshold=1, min_consecutive_tool_messages=1, model_retries=0, **ESTIMATE,
)  # fmt: skip
HOUR = 3_600
LONG = 60.0
"""Seconds: what takes longer waits for a clock."""
_DAYS = 86_400
JUMPS = (-40 * _DAYS, -_DAYS, -HOUR, -61, -1, 0, 0, 0, 1, 61, HOUR, _DAYS, 40 * _DAYS)


class Clock:
    """Sets the wall clock of this process and its children; monotonic clocks do not see it."""

    def __init__(self) -> None:
        with Path(os.environ["CLOCK_FILE"]).open("r+b") as file:
            self._number = mmap.mmap(file.fileno(), 8)
        self.ahead(0)
        before = time.time()
        self.ahead(HOUR)
        assert HOUR - 60 < time.time() - before < HOUR + 60, "the clock of this Python does not obey"
        self.ahead(0)

    def ahead(self, seconds: int) -> None:
        self._number[:] = struct.pack("=q", seconds)


class Life:
    """Random calls to two AutoContexts on one database, and what they should give."""

    def __init__(self, where: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.both = [AutoContext.open(where, config=CONFIG) for _ in range(2)]
        self.memories = [context.session("s", user_id="u").memory for context in self.both]
        self.key = SessionKey("u", "s")
        self.said: list[str] = []
        self.ends: list[int] = []
        """The length of the log after each add, of which each is a revision."""
        self.contents: dict[str, str] = {}
        self.facts: list[str] = []
        self.computed = 0
        self.saved = 0

    def one(self, number: int) -> None:
        call: Callable[[int, int], None] = self.random.choice(
            [self.add, self.add, self.add, self.view, self.put, self.read, self.remember, self.compute, self.save,
             self.purge, self.search]
        )  # fmt: skip
        call(number, self.random.randrange(2))

    def add(self, number: int, who: int) -> None:
        msgs = conversation(rounds=1, tools_per_round=1, chars=300)[1:]
        msgs = [m.model_copy(update={"id": f"{number}-{i}", "timestamp": Msg(role="user", content="").timestamp})
                for i, m in enumerate(msgs)]  # fmt: skip
        for m in msgs:
            self.memories[who].add_message(m)
        self.said += [m.id for m in msgs]

    def view(self, _number: int, who: int) -> None:
        assert_valid_chat(self.memories[who].get_messages())

    def put(self, number: int, who: int) -> None:
        self.both[who].content.put(f"content {number} " * 50, key=f"k{number % 5}", namespace="n")
        self.contents[f"k{number % 5}"] = f"content {number} " * 50

    def read(self, _number: int, who: int) -> None:
        for key, text in self.contents.items():
            page = self.both[who].content.read(key, namespace="n")
            assert page is not None
            assert page.text == text

    def remember(self, number: int, who: int) -> None:
        self.facts.append(self.both[who].memories.add(f"fact number {number}", user_id="u").id)

    def compute(self, number: int, who: int) -> None:
        cache = self.both[who].cache_of("u")
        n = number % 4
        options: dict[str, Any] = self.random.choice([{}, {"ttl": 30}, {"ttl": 30, "stale_while_revalidate": 600}])
        assert cache.get_or_compute("square", {"n": n}, lambda n: n * n, **options) == n * n

    def save(self, _number: int, who: int) -> None:
        session = self.both[who].session("s", user_id="u")
        report = session.save()
        state = session.state()
        assert state is not None
        if report.revision is not None:
            assert report.revision >= self.saved
            self.saved = report.revision

    def purge(self, _number: int, who: int) -> None:
        """By whatever time it is: nothing here has an end."""
        assert self.both[who].sessions.purge_expired() == 0
        self.both[who].content.purge_expired()

    def search(self, _number: int, who: int) -> None:
        found = self.both[who].sessions.search("", user_id="u", session_id="s", numbers=(1, 10**6), limit=3)
        newest = [hit.sequence for hit in found]
        assert newest == sorted(newest, reverse=True)

    def check(self) -> None:
        for context, memory in zip(self.both, self.memories, strict=True):
            memory.refresh()
            assert [m.id for m in memory.get_original_memory_msgs()] == self.said
            self.read(0, self.both.index(context))
            assert {m.id for m in context.memories.all(user_id="u")} == set(self.facts)
            revisions = context.sessions.revisions(self.key)
            assert [r.entries for r in revisions] == sorted({r.entries for r in revisions})
        assert self.memories[0].messages == self.memories[1].messages


def lives(where: str, rounds: int, seed: int) -> None:
    """Random calls with jumps between them."""
    clock, jumps = Clock(), 0
    for n in range(rounds):
        clock.ahead(0)
        life = Life(where if "://" in where else f"{where}.{n}", seed + n)
        for number in range(40):
            jump = life.random.choice(JUMPS)
            jumps += jump != 0
            clock.ahead(jump)
            life.one(number)
        life.check()
        for context in life.both:
            if "://" in where:
                context.delete("s", user_id="u")
                context.memories.clear(user_id="u")
            context.close()
    print(f"{rounds} lives, {jumps} jumps")


def ends(where: str, _rounds: int, _seed: int) -> None:
    """A session that ends in an hour ends by the clock of who purges: while it is wrong, nobody should."""
    clock = Clock()
    with AutoContext.open(where, config=CONFIG) as context:
        for name in ("ends", "stays"):
            context.session(name, user_id="u").add({"role": "user", "content": "hello"})
        context.sessions.expire(SessionKey("u", "ends"), HOUR)
        for ahead in (-_DAYS, HOUR - 60, 0):
            clock.ahead(ahead)
            assert context.sessions.purge_expired() == 0
        clock.ahead(40 * _DAYS)  # nobody purges: it can be read, and later entries do not change that
        assert len(context.sessions.read(SessionKey("u", "ends"))) == 1
        clock.ahead(0)
        assert context.sessions.purge_expired() == 0
        clock.ahead(HOUR + 60)
        assert context.sessions.purge_expired() == 1
        clock.ahead(0)
        assert [info.session_id for info in context.sessions.sessions("u")] == ["stays"]
    print("1 ended")


def dead_lease(where: str, _rounds: int, _seed: int) -> None:
    """A process dies while it computes; then the clock is set back: its lease ends all the same."""
    clock, database = Clock(), open_database(where)
    cache = ResultCache(database, namespace="n", lease_seconds=0.5)
    told, tell = os.pipe()

    def die(n: int) -> None:
        os.write(tell, b"!")
        signal.pause()

    child = os.fork()
    if child == 0:
        cache.get_or_compute("square", {"n": 2}, die)
    os.read(told, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    clock.ahead(-HOUR)
    signal.alarm(240)  # ends this process
    assert cache.get_or_compute("square", {"n": 2}, lambda n: n * n) == 4
    print("computed")


JOBS = {"lives": lives, "ends": ends, "dead lease": dead_lease}

if __name__ == "__main__":
    JOBS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
