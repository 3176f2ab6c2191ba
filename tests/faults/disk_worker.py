"""Does everything that writes on a disk that fails from a chosen operation on: `disk_worker ERRNO STEP`.

Needs disk.c preloaded. For each operation of the scenario, or each STEP-th: from there on the disk fails, so a call
raises one named error; then the disk is whole again, and the same objects go on.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from autocontext import AutoContext, AutoContextConfig
from autocontext.cache import ResultCache
from autocontext.errors import AutoContextError, StoreError
from autocontext.history.log import Log
from autocontext.messages import Msg
from autocontext.stores import SessionKey, SqliteDatabase
from autocontext.stores.database import Statement
from autocontext.testing import conversation
from tests.invariants import ESTIMATE

KEY = SessionKey("u", "s")
CONFIG = AutoContextConfig(
    max_token=1_200, msg_threshold=8, last_keep=2, large_payload_threshold=300, offload_single_preview=50,
    min_compression_token_threshold=1, min_consecutive_tool_messages=1, model_retries=0, **ESTIMATE,
)  # fmt: skip
MESSAGES = conversation(rounds=3, tools_per_round=1, chars=400)
LONG = "a long text " * 400


class Disk:
    """The numbers that disk.c obeys."""

    def __init__(self, at: Path) -> None:
        with at.open("r+b") as file:
            self._numbers = mmap.mmap(file.fileno(), 16)

    @property
    def done(self) -> int:
        """Operations so far."""
        return int(struct.unpack("=4i", self._numbers[:])[0])

    def fail(self, error: int, *, after: int) -> None:
        """Fail every operation after some more; the first write half, if the disk is full."""
        self._numbers[4:] = struct.pack("=3i", after, error, 1)

    def heal(self) -> None:
        """Do everything again."""
        self._numbers[4:] = bytes(12)


class Work:
    """One user's work in all parts, and what was acknowledged of it."""

    def __init__(self, folder: Path) -> None:
        self.path, self.exported = folder / "agent.db", folder / "session.jsonl"
        self.context: Any = None
        self.session: Any = None
        self.added: list[Msg] = []
        self.erased: set[str] = set()
        self.contents: list[str] = []
        self.remembered: list[str] = []

    def steps(self) -> Iterator[Callable[[], object]]:
        yield self.open
        for i, msg in enumerate(MESSAGES):
            yield lambda msg=msg: self.add(msg)  # type: ignore[misc]
            if i % 4 == 3:
                yield self.prepare
        yield self.put
        yield self.remember
        yield lambda: self.cache.get_or_compute("square", {"n": 3}, lambda n: [n * n] * 2_000)
        yield self.save
        yield lambda: self.context.sessions.export_jsonl(KEY, self.exported)
        yield lambda: self.context.sessions.search("file", user_id="u")
        yield self.erase
        yield lambda: self.add(Msg(role="user", content="and after that?"))
        yield lambda: self.context.sessions.export_jsonl(KEY, self.exported)
        yield self.scrub

    def open(self) -> None:
        self.context = AutoContext.open(SqliteDatabase(self.path, patience=0.2), config=CONFIG)
        self.session = self.context.session("s", user_id="u")
        self.cache = ResultCache(self.context.database, namespace="n", lease_seconds=3_600)

    def add(self, msg: Msg) -> None:
        self.session.add(msg)
        self.added.append(msg)

    def prepare(self) -> None:
        self.session.prepare()

    def save(self) -> None:
        self.session.save()

    def scrub(self) -> None:
        self.context.scrub()

    def put(self) -> None:
        self.contents.append(self.context.content.put(LONG, namespace="n").ref)

    def remember(self) -> None:
        self.remembered.append(self.context.memories.add("Prefers small disks", user_id="u").id)

    def erase(self) -> None:
        self.erased.add(MESSAGES[1].id)  # from here on it may be gone
        self.context.erase("s", [MESSAGES[1].id], user_id="u")
        self.session.memory.refresh()

    def check(self) -> None:
        """The objects that lived through it show what a new process would, and nothing acknowledged is lost."""
        if self.context is None:
            return
        entries = self.context.sessions.read(KEY)
        log = Log(entries)
        there = [log.messages[id_] for id_ in log.original]
        known = {m.id for m in self.added}
        assert [m.id for m in there if m.id in known] == [m.id for m in self.added]
        assert len({m.id for m in there}) == len(there)
        texts = {m.id: list(m.texts()) for m in self.added}
        for m in there:
            if m.id in known - self.erased:
                assert list(m.texts()) == texts[m.id]
        self.session.memory.refresh()
        assert self.session.memory.messages == log.view_messages
        for ref in self.contents:
            assert (
                self.context.content.read(ref, namespace="n").text
                == LONG[: len(self.context.content.read(ref, namespace="n").text)]
            )
        assert {m.id for m in self.context.memories.all(user_id="u")} >= set(self.remembered)


def play(disk: Disk, error: int, after: int, told: Counter[str]) -> bool:
    """Play the scenario with a failure after so many operations; returns whether it came that far."""
    with _folder() as folder:
        return _play(folder, disk, error, after, told)


def _play(folder: Path, disk: Disk, error: int, after: int, told: Counter[str]) -> bool:
    work, struck = Work(folder), False
    disk.fail(error, after=after)
    for step in work.steps():
        try:
            step()
        except (AutoContextError, OSError) as e:
            struck = True
            told[f"{type(e).__name__}: {_plain(str(e), folder)}"] += 1
            if not isinstance(e, StoreError) and getattr(e, "errno", 0) != error:
                raise
            with contextlib.suppress(AutoContextError):
                work.check()  # reading goes on, as far as the disk lets it
            with contextlib.suppress(AutoContextError):
                work.session and work.session.memory.refresh()
            disk.heal()
            work.check()
            step()
            work.check()
    disk.heal()
    work.check()
    work.context.close()
    with AutoContext.open(work.path, config=CONFIG) as again:
        view = again.session("s", user_id="u").memory.messages
        assert view == work.session.memory.messages if not work.context.database.closed else view
        assert again.database.read(lambda: _one("PRAGMA integrity_check")) == [("ok",)]
        assert Log(again.sessions.read(KEY)).view_messages == view
    return struck


def _one(sql: str) -> Any:
    return (yield Statement(sql))


def _plain(text: str, folder: Path) -> str:
    return text.replace(str(folder), "")


def main(name: str, step: int) -> None:
    disk, told, rounds, struck = Disk(Path(os.environ["DISK_CONTROL"])), Counter[str](), 0, 0
    Path(os.environ["DISK_UNDER"]).mkdir()
    play(disk, 0, 0, told)  # imports what is imported late
    before = disk.done
    play(disk, 0, 0, told)
    length = disk.done - before
    assert length > 50, f"only {length} operations were seen: SQLite is linked statically"
    for after in range(0, length, step):
        rounds += 1
        struck += play(disk, getattr(errno, name), after, told)
    print(f"{name}: {rounds} rounds of {length} operations, {struck} told")
    for text, count in told.most_common():
        print(f"{count:6} {text}")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """One of its own for each round: a call that the watch over leases had begun may still write to the last one."""
    folder = Path(tempfile.mkdtemp(dir=os.environ["DISK_UNDER"]))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
