"""One process whose main thread works on all parts of a database while signals interrupt it.

`python -m tests.soak.interrupted URL FOLDER SEED SECONDS ENCRYPTED PART...`. It goes on until there were more
interrupts than seconds. The handler raises out of whatever is running, at a random moment of each operation. After each
interrupt, this process shows what a new one reads, its next calls work, and others can write.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType

import psycopg
from psycopg.sql import SQL, Identifier

from autocontext import AutoContext, AutoContextMemory
from autocontext.errors import AutoContextError
from autocontext.stores import SessionKey
from tests.faults.interrupts import Interrupted
from tests.soak.worker import CONFIG, USERS, Actor, Journal

KEYS = {"old": b"o" * 32, "new": b"n" * 32}
_HANG = 90
"""Seconds after which a call counts as hanging: more than any patience."""
_SOON = 60
"""Seconds that another process waits for a lock: nobody but this one works on the database."""
_LATER = 240
"""Seconds after the end in which a slow machine may still come to its interrupts."""
_LONGEST = 0.03
"""Seconds after the beginning of an operation in which it is interrupted."""


class Interruptible(Actor):
    """Operations that may end anywhere: what one of them has begun is ended by `settle`."""

    def __init__(self, context: AutoContext, journal: Journal, name: str, seed: int, *, encrypted: bool) -> None:
        super().__init__(context, journal, name, seed)
        self.encrypted = encrypted
        self.deleting: SessionKey | None = None
        self.erasing: tuple[SessionKey, list[str]] | None = None
        self.touched = SessionKey(USERS[0], "s0")

    def _session(self, user: str) -> SessionKey:
        self.touched = super()._session(user)
        return self.touched

    def read_context(self, user: str) -> None:
        """The context as a model would get it, with a pass where it is due."""
        memory = self._memory(self._session(user))
        self._look(user, memory.get_messages())
        memory.token_count  # noqa: B018 (it must not raise)

    def delete_session(self, user: str) -> None:
        if self.random.random() < 0.9:
            return
        key = self._session(user)
        self.journal.write(kind="delete begins", session=key)
        self.deleting = key
        self.settle()

    def erase(self, user: str) -> None:
        key = self._session(user)
        ids = [m.id for m in self._memory(key).get_original_memory_msgs()]
        if ids:
            self.erasing = key, [self.random.choice(ids)]
            self.settle()

    def settle(self) -> None:
        """Do once more what was interrupted, and only then say that it is done."""
        if self.deleting is not None:
            self.context.sessions.delete(self.deleting)
            self.memories.pop(self.deleting, None)
            self.journal.write(kind="delete done", session=self.deleting)
            self.deleting = None
        if self.erasing is not None:
            key, ids = self.erasing
            self.context.erase(key.session_id, ids, user_id=key.user_id)
            if key in self.memories:
                self.memories[key].refresh()
            self.erasing = None

    def invalidate(self, user: str) -> None:
        """By task: nothing is found by the beginning of a key that is encrypted."""
        if self.random.random() < 0.2:
            self._cache(user).invalidate(task="square")

    def rotate(self, user: str) -> None:
        if self.encrypted and self.random.random() < 0.2:
            with opened(self.context.database.name, encrypted=True, current=self.random.choice(list(KEYS))) as other:
                other.rotate()

    def compare(self) -> None:
        """What this process shows is what a new one reads; and it can go on."""
        key = self.touched
        memory = self._memory(key)
        with opened(self.context.database.name, encrypted=self.encrypted) as context:
            fresh = AutoContextMemory(CONFIG, store=context.sessions, session_id=key.session_id, user_id=key.user_id)
            for what in (AutoContextMemory.get_original_memory_msgs, lambda m: m.messages):
                ours, theirs = (
                    [(m.id, m.text) for m in what(each)]  # type: ignore[operator]
                    for each in (memory, fresh)
                )
                self.expect(ours == theirs, "differs from what is stored", session=key, ours=ours[-3:], is_=theirs[-3:])
        self.expect(memory.token_count >= 0, "no count of tokens")


PARTS: dict[str, list[Callable[[Interruptible, str], None]]] = {
    "messages": [*[Interruptible.add] * 6, *[Interruptible.read_session] * 2, *[Interruptible.read_context] * 3,
                 Interruptible.delete_session],
    "contents": [*[Interruptible.put] * 2, *[Interruptible.read_content] * 3, Interruptible.put_and_delete],
    "memories": [*[Interruptible.remember] * 2, *[Interruptible.recall] * 2],
    "cache": [*[Interruptible.compute] * 3, Interruptible.invalidate],
    "states": [*[Interruptible.save_state] * 3],
    "erasing": [Interruptible.erase],
    "keys": [Interruptible.rotate],
}  # fmt: skip


def opened(url: str, *, encrypted: bool, current: str = "new") -> AutoContext:
    """The database at a URL."""
    if encrypted:
        return AutoContext.open(url, config=CONFIG, key=KEYS, current=current)
    return AutoContext.open(url, config=CONFIG)


def others_can_write(url: str) -> None:
    """Write as a foreign program would, and take it back. Raises if a lock is held."""
    if "://" in url:
        with closing(psycopg.connect(url)) as server:
            server.execute(f"SET lock_timeout = '{_SOON}s'")
            tables = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
            server.execute(SQL("LOCK TABLE {}").format(SQL(", ").join(Identifier(name) for (name,) in tables)))
    else:
        with closing(sqlite3.connect(url, timeout=_SOON, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("CREATE TABLE foreign_program (n INT)")
            file.execute("ROLLBACK")


class Alarm:
    """Interrupts the main thread once, some time after `begin`."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._armed = chance, False
        signal.signal(signal.SIGALRM, self._ring)
        sys.unraisablehook = self._swallowed

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise Interrupted

    def _swallowed(self, told: sys.UnraisableHookArgs) -> None:
        """Python swallows what a finalizer raises, and pydantic what an instance check does: no interrupt then."""
        if told.exc_type is not Interrupted:
            sys.__unraisablehook__(told)

    def during(self, work: Callable[[], None]) -> bool:
        """Do something; returns whether it was interrupted."""
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, _LONGEST ** self._chance.uniform(1.0, 3.0))
            work()
            self._armed = False
        except Interrupted:
            return True
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


def main() -> None:
    url, folder, seed, seconds, encrypted = (
        sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), bool(int(sys.argv[5])),
    )  # fmt: skip
    operations = [operation for part in sys.argv[6:] for operation in PARTS[part]]
    name = f"i{os.getpid()}"
    journal, chance = Journal(folder / f"{name}.jsonl"), random.Random(seed)
    context = opened(url, encrypted=encrypted)
    actor, alarm = Interruptible(context, journal, name, seed, encrypted=encrypted), Alarm(chance)
    until, struck = time.monotonic() + seconds, 0
    while (now := time.monotonic()) < until or (struck <= seconds and now < until + _LATER):
        operation, user = chance.choice(operations), chance.choice(USERS)
        faulthandler.dump_traceback_later(_HANG, exit=True)  # to stderr, which the harness reads
        if not alarm.during(lambda operation=operation, user=user: one(actor, operation, user)):  # type: ignore[misc]
            continue
        struck += 1
        journal.write(kind="interrupted", operation=operation.__name__)
        try:
            others_can_write(url)
            actor.settle()
            actor.compare()
            for part in sys.argv[6:]:
                PARTS[part][0](actor, user)
        except BaseException:  # noqa: BLE001 (what the run looks for)
            what = traceback.format_exc()[-3_000:]
            journal.write(kind="violation", what=f"after an interrupt in {operation.__name__}: {what}")
            actor.memories.clear()
    faulthandler.cancel_dump_traceback_later()
    context.close()


def one(actor: Interruptible, operation: Callable[[Interruptible, str], None], user: str) -> None:
    """One operation, which may refuse but not fail."""
    actor.count += 1
    try:
        operation(actor, user)
    except AutoContextError as e:
        actor.journal.write(kind="violation", operation=operation.__name__, what=f"{type(e).__name__}: {e}"[:500])
    except Exception:  # noqa: BLE001 (no error but ours may come out)
        what = traceback.format_exc()[-2_000:]
        actor.journal.write(kind="violation", operation=operation.__name__, what=what)


if __name__ == "__main__":
    main()
