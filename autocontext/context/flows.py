"""One flow for synchronous and asynchronous callers: a generator of steps, and a driver for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Step(NamedTuple):
    """Something to wait for, in its two forms; the flow is sent the result, or the exception is raised in it."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]


Flow: TypeAlias = Generator[Step, Any, T]


def run(flow: Flow[T]) -> T:
    """Run a flow to its end."""
    go_on, value = flow.send, None
    while True:
        try:
            step = go_on(value)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            go_on, value = flow.send, step.do()
        except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
            go_on, value = flow.throw, e


async def arun(flow: Flow[T]) -> T:
    """Run a flow to its end without blocking the event loop."""
    go_on, value = flow.send, None
    while True:
        try:
            step = go_on(value)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            go_on, value = flow.send, await step.ado()
        except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
            go_on, value = flow.throw, e
