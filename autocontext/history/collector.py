"""Pausing the garbage collector while much is read at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 1000
"""For fewer messages it makes no difference."""


@contextmanager
def collector_paused(messages: int) -> Iterator[None]:
    """While so many messages are read that all stay in use; the collector would take a third of the time for nothing.

    In the whole process, so what is done in here must not wait for anything.
    """
    if messages < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
