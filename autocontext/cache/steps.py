"""Steps of a cache's flows that have a form for threads and one for coroutines: what is slow, and what is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from autocontext.cache.flights import Flight, within
from autocontext.errors import ConfigError
from autocontext.flows import Operation
from autocontext.flows.threads import afinished, in_thread

_MUCH = 2_000
"""Values, or pieces of 64 characters, that the event loop handles itself: one to three milliseconds."""


def slow(fn: Callable[[], Any], about: Any) -> Operation:
    """Call a function that is slow if `about` is large; then asynchronous code calls it in a thread."""

    async def ado() -> Any:
        return await in_thread(fn) if is_large(about) else fn()

    return Operation(fn, ado)


def computed(fn: Callable[[], Any], flight: Flight | None = None) -> Operation:
    """Call the function whose result is cached, as part of a flight if there is one.

    In asynchronous code a synchronous one runs in a thread, to keep the event loop free; in synchronous code an
    asynchronous one raises ConfigError.
    """

    def do() -> Any:
        with within(flight):
            value = fn()
        if inspect.iscoroutine(value):
            value.close()
            raise ConfigError("fn is asynchronous: use aget_or_compute, or memoize the async function itself")
        return value

    async def ado() -> Any:
        with within(flight):
            return await afinished(fn)

    return Operation(do, ado)


def is_large(value: Any) -> bool:
    """Whether a JSON value takes milliseconds to read or write."""
    size, waiting = 0, [value]
    while waiting and size <= _MUCH:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            size += len(item) // 64
        elif isinstance(item, list | tuple | set | frozenset | dict):
            size += len(item)
            if size <= _MUCH:
                waiting += item
                waiting += item.values() if isinstance(item, dict) else ()
    return size > _MUCH
