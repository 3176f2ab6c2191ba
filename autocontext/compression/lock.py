"""One pass at a time for each memory, across threads and event loops."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from autocontext.flows import lazy
from autocontext.flows.forking import fork_lock

_inside: ContextVar[frozenset[LockHolder]] = ContextVar("autocontext_inside", default=frozenset())
"""The passes that this code runs in: a model, a strategy, a redaction hook. Threads inherit it."""


def pauses() -> Iterator[float]:
    """Seconds until each next try to get a lock."""
    pause = 0.001
    while True:
        yield pause
        pause = min(pause * 2, 0.02)


class LockHolder:
    """A pass that takes the lock in a block `with holder.running`, and has it until that block ends, however it ends.

    An interrupt or a cancellation may end a pass anywhere, but a lock of C in a `with` block is always given back.
    `loop` is the event loop that drives the pass, if any.
    """

    def __init__(self, loop: lazy.asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop
        self.running = threading.Lock()
        self._pid = os.getpid()

    @property
    def stranded(self) -> bool:
        """Whether nothing drives the pass any more: it ended, its event loop does not run, or it is the parent's."""
        stopped = self.loop is not None and not self.loop.is_running()
        return stopped or not self.running.locked() or self._pid != os.getpid()


class PassLock:
    """Held by at most one pass. A pass that loses it (memory cleared, event loop stopped) commits nothing any more."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._holder: LockHolder | None = None

    def take(self, holder: LockHolder) -> bool:
        """Take the lock for a synchronous pass, once it is free; False if waiting would never end."""
        waits = pauses()
        while not self._taken_by(holder):
            if self._waits_for_caller():
                return False
            time.sleep(next(waits))
        return True

    async def atake(self, holder: LockHolder) -> bool:
        """`take` for a pass of this event loop, without blocking it: the other pass may be in any thread or loop."""
        waits = pauses()
        while not self._taken_by(holder):
            if self._holder in _inside.get():
                return False
            await lazy.asyncio.sleep(next(waits))
        return True

    def _taken_by(self, holder: LockHolder) -> bool:
        with self._lock:
            if not self.taken:
                self._holder = holder
            return self._holder is holder

    @property
    def taken(self) -> bool:
        """Whether a pass is running."""
        holder = self._holder
        return holder is not None and not holder.stranded

    def has(self, holder: LockHolder) -> bool:
        """Whether this pass still holds the lock."""
        return self._holder is holder and holder.running.locked()

    def revoke(self) -> None:
        """Take the lock away from its holder."""
        with self._lock:
            self._holder = None

    def _waits_for_caller(self) -> bool:
        """Whether the running pass waits for this code: the pass called it, or needs the event loop that it blocks."""
        holder = self._holder
        if holder is None:
            return False
        if holder in _inside.get():
            return True
        try:
            loop = lazy.asyncio.get_running_loop()
        except RuntimeError:
            return False
        return holder.loop is loop


@contextmanager
def inside(holder: LockHolder) -> Iterator[None]:
    """Mark what runs in here, and the threads and tasks it starts, as parts of the pass."""
    before = _inside.get()
    _inside.set(before | {holder})
    try:
        yield
    finally:
        # Not by token: an abandoned coroutine may be closed in another context.
        _inside.set(before)
