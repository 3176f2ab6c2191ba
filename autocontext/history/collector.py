"""Pausing the garbage collector while much is read at once."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

T = TypeVar("T")

_MANY = 1000
"""For fewer messages it makes no difference."""
_pausing: set[int] = set()
"""The threads that have paused it."""


def collector_paused(messages: int, read: Callable[[], T]) -> T:
    """What `read` returns, which reads so many messages that stay in use: the collector takes a third of the time.

    It pauses in the whole process, so `read` must not wait for anything. No context manager: an interrupt may come
    before its `with` block or behind it, and would leave the collector off.
    """
    if messages < _MANY or not gc.isenabled():
        return read()
    try:
        _pausing.add(get_ident())
        gc.disable()
        return read()
    finally:
        gc.enable()
        _pausing.discard(get_ident())


def _after_fork() -> None:
    """Enable it in a child process: the thread that has paused it is not there."""
    if _pausing:
        gc.enable()
        _pausing.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
