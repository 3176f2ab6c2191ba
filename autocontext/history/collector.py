"""Pausing the garbage collector while much is read at once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_MANY = 1000
"""For fewer messages it makes no difference."""


class _Pauses:
    """Who has paused it; `flows.forking` is told of it."""

    def __init__(self) -> None:
        self.open: set[object] = set()

    def before_fork(self, until: float) -> None:
        """Nothing to wait for."""

    def after_fork(self, *, in_child: bool) -> None:
        """Enable it in a child process: the thread that has paused it is not there."""
        if in_child and self.open:
            gc.enable()
            self.open.clear()


PAUSES = _Pauses()


def collector_paused(messages: int, read: Callable[[], T]) -> T:
    """What `read` returns, which reads so many messages that stay in use: the collector takes a third of the time.

    It pauses in the whole process, so `read` must not wait for anything. No context manager: an interrupt may come
    before its `with` block or behind it, and would leave the collector off.
    """
    if messages < _MANY or not gc.isenabled():
        return read()
    pause = object()
    try:
        PAUSES.open.add(pause)
        gc.disable()
        return read()
    finally:
        gc.enable()
        PAUSES.open.discard(pause)
