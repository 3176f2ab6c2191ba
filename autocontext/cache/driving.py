"""Runs a flow: does what it asks for, in a thread or in a coroutine."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from autocontext import flows
from autocontext.asking import in_thread
from autocontext.cache.flights import Outcome
from autocontext.cache.flow import Call, Compute, Flow, Pause, Step, Wait
from autocontext.errors import ConfigError
from autocontext.stores.database import Database


def run(flow: Flow, call: Call, database: Database) -> Outcome:
    """Drive a flow in this thread."""

    def do(step: Step) -> Any:
        match step:
            case Pause(length):
                return time.sleep(length)
            case Wait(flight):
                return None if flight.blocks_its_loop() else flight.landed.result()
            case Compute():
                return called(call.make())
            case _:
                return database.do(step)

    return flows.run(flow, do)


async def arun(flow: Flow, call: Call, database: Database) -> Outcome:
    """Drive a flow in a coroutine."""

    async def do(step: Step) -> Any:
        match step:
            case Pause(length):
                return await asyncio.sleep(length)
            case Wait(flight):
                return None if flight.would_wait_for_itself() else await asyncio.wrap_future(flight.landed)
            case Compute():
                return await acalled(call.make())
            case _:
                return await database.ado(step)

    return await flows.arun(flow, do)


def called(fn: Callable[[], Any]) -> Any:
    """The result of a synchronous function. Raises ConfigError for an asynchronous one."""
    value = fn()
    if inspect.iscoroutine(value):
        value.close()
        raise ConfigError("fn is asynchronous: use aget_or_compute, or memoize the async function itself")
    return value


async def acalled(fn: Callable[[], Any]) -> Any:
    """The result of a function, in a thread unless it is asynchronous: it must not hold up the event loop."""
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004 (what the call returns matters)
        return await fn()
    value = await in_thread(fn)
    return await value if isinstance(value, Awaitable) else value
