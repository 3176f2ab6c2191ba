"""One pass at a time for each memory, across threads and event loops."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from autocontext.flows import lazy
from autocontext.flows.forking import fork_lock

_LOOK_AGAIN = 0.05
"""Seconds after which a waiting thread checks whether the pass it waits for can still end."""
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02

_inside: ContextVar[frozenset[int]] = ContextVar("autocontext_inside", default=frozenset())
"""Ids of the locks of the passes that this code runs in: a model, a strategy, a redaction hook. Threads inherit it."""


class LockHolder:
    """The pass that holds the lock; `loop` is the event loop that drives it, if any."""

    def __init__(self, loop: lazy.asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self._pid = os.getpid()

    @property
    def stranded(self) -> bool:
        """Whether nothing drives the pass any more: its event loop does not run, or it is the parent process's."""
        return self._pid != os.getpid() or (self.loop is not None and not self.loop.is_running())


class PassLock:
    """Held by at most one pass. A pass that loses it (memory cleared, event loop stopped) commits nothing any more."""

    def __init__(self) -> None:
        self._changed = threading.Condition(fork_lock())
        self._holder: LockHolder | None = None

    def take(self) -> LockHolder | None:
        """The lock for a synchronous pass, once it is free. None if waiting would never end."""
        may_wait = not self._waits_for_caller()
        with self._changed:
            while self.taken:
                if not may_wait:
                    return None
                self._changed.wait(_LOOK_AGAIN)
            self._holder = holder = LockHolder(None)
            return holder

    async def atake(self) -> LockHolder | None:
        """`take` for a pass of this event loop, without blocking it: the other pass may be in any thread or loop."""
        loop = lazy.asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            with self._changed:
                if not self.taken:
                    self._holder = holder = LockHolder(loop)
                    return holder
            if id(self) in _inside.get():
                return None
            await lazy.asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    @property
    def taken(self) -> bool:
        """Whether a pass is running."""
        holder = self._holder
        return holder is not None and not holder.stranded

    def has(self, holder: LockHolder) -> bool:
        """Whether this pass still holds the lock."""
        return self._holder is holder

    def give_back(self, holder: LockHolder) -> None:
        """Release the lock; does nothing when the pass has lost it meanwhile."""
        with self._changed:
            if self._holder is holder:
                self._holder = None
                self._changed.notify_all()

    def revoke(self) -> None:
        """Take the lock away from its holder."""
        with self._changed:
            self._holder = None
            self._changed.notify_all()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Mark what runs in here, and the threads and tasks it starts, as parts of the pass."""
        before = _inside.get()
        _inside.set(before | {id(self)})
        try:
            yield
        finally:
            # Not by token: an abandoned coroutine may be closed in another context.
            _inside.set(before)

    def _waits_for_caller(self) -> bool:
        """Whether the running pass waits for this code: the pass called it, or needs the event loop that it blocks."""
        if id(self) in _inside.get():
            return True
        try:
            loop = lazy.asyncio.get_running_loop()
        except RuntimeError:
            return False
        holder = self._holder
        return holder is not None and holder.loop is loop
