"""Threads and event loops: call a function without blocking the loop, run a coroutine from synchronous code."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from autocontext.flows import lazy

T = TypeVar("T")


async def in_thread(fn: Callable[[], T]) -> T:
    """Run fn in a thread of its own. A daemon, unlike a pool's: if it hangs, the program can still end."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()
    _start(future, lambda: context.run(fn))
    return await lazy.asyncio.wrap_future(future)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code, also where an event loop is running already (a notebook, a callback)."""
    try:
        lazy.asyncio.get_running_loop()
    except RuntimeError:
        return lazy.asyncio.run(work)
    future: Future[T] = Future()
    context = contextvars.copy_context()
    _start(future, lambda: context.run(lazy.asyncio.run, work))
    return future.result()


def _start(future: Future[T], fn: Callable[[], T]) -> None:
    def work() -> None:
        try:
            future.set_result(fn())
        except BaseException as e:  # noqa: BLE001 (raised where the result is awaited)
            future.set_exception(e)

    threading.Thread(target=work, name="autocontext", daemon=True).start()
