"""Makes forks safe: a child process begins with free locks, and with connections of its own.

Only the thread that forks lives on in the child. What another one was changing there is left as an interrupt leaves it:
marked, and rebuilt at its next use. Files are different, since SQLite keeps their locks in memory: so a fork waits for
their transactions.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (it takes its lock at a fork, and must not be imported within one)
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from importlib import import_module
from typing import Protocol

from pydantic import BaseModel

PATIENCE = 5.0
"""Seconds that a fork waits at most, for all databases together."""


class Forking(Protocol):
    """Something that pauses while its process forks."""

    def before_fork(self, until: float) -> None:
        """Wait for other threads, at most until this time of the monotonic clock, and keep new ones out."""

    def after_fork(self, *, in_child: bool) -> None:
        """Resume, in both processes."""


# By id; unlike a WeakSet, they can be listed while another thread adds to them.
_locks: weakref.WeakValueDictionary[int, threading.RLock] = weakref.WeakValueDictionary()
_parts: weakref.WeakValueDictionary[int, Forking] = weakref.WeakValueDictionary()
_late: set[str] = set()


def fork_lock() -> threading.RLock:
    """A lock that is free in a child process, whoever held it in the parent."""
    lock = threading.RLock()
    _locks[id(lock)] = lock
    return lock


def part_at_fork(part: Forking) -> None:
    """Call a database's, or a service client's, `before_fork` and `after_fork` as long as it lives."""
    with _one_at_a_time:  # not within a fork, which would miss it
        _parts[id(part)] = part


def import_before_fork(*modules: str) -> None:
    """Import these modules before the process forks, unless they are imported at their first use before."""
    _late.update(modules)


_one_at_a_time = fork_lock()


def _living() -> list[Forking]:
    return [part for ref in _parts.valuerefs() if (part := ref()) is not None]


def _before() -> None:
    _one_at_a_time.acquire()
    until = time.monotonic() + PATIENCE
    for part in _living():
        part.before_fork(until)
    _finish_imports()
    _build_models(BaseModel)


def _after_in_parent() -> None:
    for part in _living():
        part.after_fork(in_child=False)
    _one_at_a_time.release()


def _after_in_child() -> None:
    for ref in _locks.valuerefs():
        if (lock := ref()) is not None:
            # As the standard library frees its own locks: the holder's thread is not in this process.
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # noqa: SLF001
    for part in _living():
        part.after_fork(in_child=True)


def _finish_imports() -> None:
    """Wait for imports in other threads, as the child would wait for ever for a module's lock, and do the late ones."""
    for name in _late:
        import_module(name)
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "_initializing", False):
            with suppress(Exception):  # the thread that imports it gets the error
                import_module(name)


def _build_models(base: type[BaseModel]) -> None:
    """Build pydantic's deferred models: it builds them under one lock, which would stay held in the child."""
    for model in base.__subclasses__():
        if model.__module__.startswith("autocontext") and not model.__pydantic_complete__:
            with suppress(Exception):  # its first use raises the error
                model.model_rebuild()
        _build_models(model)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
