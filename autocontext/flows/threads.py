"""Threads and event loops: call a function without blocking the loop, run a coroutine from synchronous code."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from autocontext.flows import lazy

T = TypeVar("T")

LONGEST_WAIT = 0.1
"""Seconds of one wait where an interrupt has to be seen: a signal that comes just before a wait does not end it."""


class _Raised(NamedTuple):
    """What a function raised, as a value: a future refuses a StopIteration."""

    error: BaseException


async def in_thread(fn: Callable[[], T]) -> T:
    """Run fn in a thread of its own. A daemon, unlike a pool's: if it hangs, the program can still end."""
    return _result(await lazy.asyncio.wrap_future(_start(fn)))


def run_to_end(work: Coroutine[Any, Any, T], *, aside: bool = False) -> T:
    """Run a coroutine from synchronous code, in an event loop of its own.

    The loop is in another thread if one is running here (a notebook, a callback), or always with `aside`: a signal
    handler that raises in the main thread may drop what a loop there then waits for. An interrupt cancels the work.
    """
    if not aside and not _in_loop():
        return lazy.asyncio.run(work)
    task: lazy.asyncio.Task[T] | None = None

    async def run() -> T:
        nonlocal task
        task = lazy.asyncio.ensure_future(work)
        return await task

    future = _start(lambda: lazy.asyncio.run(run()))
    try:
        while not future.done():
            with suppress(TimeoutError):
                future.result(LONGEST_WAIT)
        return _result(future.result())
    except BaseException:
        if task is not None and not future.done():
            with suppress(RuntimeError):  # its loop has just ended
                task.get_loop().call_soon_threadsafe(task.cancel)
        raise


def finished(fn: Callable[[], Any]) -> Any:
    """What a function returns; what can be awaited is run to its end, as by `run_to_end`."""
    value = fn()
    return run_to_end(_awaited(value)) if inspect.isawaitable(value) else value


async def afinished(fn: Callable[[], Any]) -> Any:
    """`finished` without blocking the event loop: what is no coroutine function is called in a thread of its own."""
    value = fn() if is_async(fn) else await in_thread(fn)
    return await value if inspect.isawaitable(value) else value


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether it is known before the call that a function, a partial or an object returns a coroutine."""
    while isinstance(fn, partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(type(fn), "__call__", None))  # noqa: B004 (what the call returns matters)


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def _in_loop() -> bool:
    try:
        lazy.asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _start(fn: Callable[[], T]) -> Future[T | _Raised]:
    future: Future[T | _Raised] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        outcome: T | _Raised
        try:
            outcome = context.run(fn)
        except BaseException as e:  # noqa: BLE001 (raised where the result is awaited)
            outcome = _Raised(e)
        future.set_result(outcome)

    threading.Thread(target=work, name="autocontext", daemon=True).start()
    return future


def _result(outcome: T | _Raised) -> T:
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome
