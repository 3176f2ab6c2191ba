"""Makes forks safe: a child process starts with free locks and without half-done work of its parent's other threads.

Only the thread that forks lives on in the child. So a fork first waits for the other threads and keeps them out: it
takes the locks whose holders may wait for something, then stops the databases, then takes the locks whose holders wait
for nothing.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (it takes its lock at a fork, and must not be imported within one)
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from typing import Protocol

from pydantic import BaseModel

PATIENCE = 5.0
"""Seconds that a fork waits at most, for all of them together. A thread that needs longer is waiting for a server, a
disk or a user's code, and changes nothing of ours meanwhile."""


class Level(IntEnum):
    """The order in which a fork takes locks: a thread that holds one may wait only for later ones."""

    OPENING = 0
    """Held while memories are opened."""
    MEMORY = 1
    """Held while a database is used."""
    DATABASE = 2
    LEAF = 3
    """Held while nothing is waited for."""


class Forking(Protocol):
    """Something that pauses while its process forks."""

    def before_fork(self, until: float) -> None:
        """Wait for other threads, at most until this time of the monotonic clock, and keep new ones out."""

    def after_fork(self, *, in_child: bool) -> None:
        """Resume, in both processes. In a child, `before_fork` may not have been called: C code forks without hooks."""


class _Standstill:
    """The locks that one fork has taken, and the databases that it has stopped."""

    def __init__(self) -> None:
        self.until = time.monotonic() + PATIENCE
        self.taken: list[threading.RLock] = []
        self.stopped: list[Forking] = []

    def take(self, locks: Iterable[threading.RLock]) -> None:
        self.taken += [lock for lock in locks if lock.acquire(timeout=max(0.0, self.until - time.monotonic()))]

    def stop(self, databases: Iterable[Forking]) -> None:
        for database in databases:
            if database not in self.stopped:
                database.before_fork(self.until)
                self.stopped.append(database)


class _Forks:
    """All locks and databases of this process that a fork concerns."""

    def __init__(self) -> None:
        self._locks: dict[Level, weakref.WeakSet[threading.RLock]] = {level: weakref.WeakSet() for level in Level}
        self._databases: weakref.WeakSet[Forking] = weakref.WeakSet()
        self._registry = threading.RLock()
        """Held while these sets change, and during a fork itself."""
        self._one_at_a_time = threading.RLock()
        self._standstill: _Standstill | None = None

    def lock(self, level: Level) -> threading.RLock:
        lock = threading.RLock()
        with self._registry:
            self._locks[level].add(lock)
        return lock

    def part(self, database: Forking) -> None:
        with self._registry:
            self._databases.add(database)

    def before(self) -> None:
        self._one_at_a_time.acquire()
        self._standstill = fork = _Standstill()
        for level in Level:
            with self._registry:
                databases = list(self._databases) if level == Level.DATABASE else []
                locks = list(self._locks[level])
            fork.stop(databases)
            fork.take(locks)
        # Last, as opening a memory or a database needs it; databases opened meanwhile stop now.
        self._registry.acquire()
        fork.stop(list(self._databases))
        _finish_imports()
        _build_models(BaseModel)

    def after_in_parent(self) -> None:
        if (fork := self._standstill) is not None:
            self._end(fork)
            self._registry.release()
            self._one_at_a_time.release()

    def after_in_child(self) -> None:
        # Without `before`, if C code forked.
        fork = self._standstill or _Standstill()
        taken = {id(lock) for lock in fork.taken}
        for lock in (self._registry, self._one_at_a_time, *(lock for locks in self._locks.values() for lock in locks)):
            if id(lock) not in taken:
                # As the standard library frees its own locks: the holder's thread is not in this process.
                lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001
        fork.stopped = list(self._databases)
        self._end(fork, in_child=True)

    def _end(self, fork: _Standstill, *, in_child: bool = False) -> None:
        self._standstill = None
        for database in fork.stopped:
            database.after_fork(in_child=in_child)
        for lock in reversed(fork.taken):
            lock.release()


def _finish_imports() -> None:
    """Wait for imports in other threads, as the child would wait for ever for a module's lock, and do the late ones."""
    for name in _late:
        import_module(name)
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "_initializing", False):
            with suppress(Exception):  # the thread that imports it gets the error
                import_module(name)


_late: set[str] = set()


def import_before_fork(*modules: str) -> None:
    """Import these modules before the process forks, unless they are imported at their first use before."""
    _late.update(modules)


def _build_models(base: type[BaseModel]) -> None:
    """Build pydantic's deferred models: it builds them under one lock, which would stay held in the child."""
    for model in base.__subclasses__():
        if model.__module__.startswith("autocontext") and not model.__pydantic_complete__:
            with suppress(Exception):  # its first use raises the error
                model.model_rebuild()
        _build_models(model)


_forks = _Forks()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child
    )


def fork_lock(level: Level = Level.LEAF) -> threading.RLock:
    """A lock that is free in a child process, whoever held it in the parent."""
    return _forks.lock(level)


def part_at_fork(database: Forking) -> None:
    """Call a database's, or a service client's, `before_fork` and `after_fork` as long as it lives."""
    _forks.part(database)
