"""Runs a flow: does what it asks for, in a thread or in a coroutine."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from autocontext.asking import in_thread
from autocontext.cache.flights import Outcome
from autocontext.cache.flow import Call, Compute, Flow, Pause, Read, Wait, Write
from autocontext.errors import ConfigError
from autocontext.stores.database import Database


def run(flow: Flow, call: Call, database: Database) -> Outcome:
    """Drive a flow in this thread."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = flow.throw(error) if error is not None else flow.send(answer)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome
        answer, error = None, None
        try:
            match step:
                case Read(work):
                    answer = database.read(work)
                case Write(work):
                    answer = database.write(work)
                case Pause(length):
                    time.sleep(length)
                case Wait(flight):
                    answer = None if flight.blocks_its_loop() else flight.landed.result()
                case Compute():
                    answer = called(call.make())
        except BaseException as raised:  # noqa: BLE001 (the flow decides what it means)
            error = raised


async def arun(flow: Flow, call: Call, database: Database) -> Outcome:
    """Drive a flow in a coroutine."""
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            step = flow.throw(error) if error is not None else flow.send(answer)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome
        answer, error = None, None
        try:
            match step:
                case Read(work):
                    answer = await database.aread(work)
                case Write(work):
                    answer = await database.awrite(work)
                case Pause(length):
                    await asyncio.sleep(length)
                case Wait(flight):
                    answer = None if flight.would_wait_for_itself() else await asyncio.wrap_future(flight.landed)
                case Compute():
                    answer = await acalled(call.make())
        except BaseException as raised:  # noqa: BLE001 (the flow decides what it means)
            error = raised


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
