"""What waits for a store, a model or a tool is a generator, a flow; these are its drivers in sync and async code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

from autocontext.flows.threads import in_thread

S = TypeVar("S")
T = TypeVar("T")


class _End(NamedTuple):
    """A flow has come to its end."""

    result: Any


def run(flow: Generator[S, Any, T], do: Callable[[S], Any]) -> T:
    """Run a flow to its end: it is sent what `do` gives for each step, and what `do` raises is raised in it."""
    go_on: Callable[[Any], S]
    go_on, answer = flow.send, None
    while not isinstance(step := _next(go_on, answer), _End):
        try:
            go_on, answer = flow.send, do(step)
        except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
            go_on, answer = flow.throw, e
    result: T = step.result
    return result


async def arun(flow: Generator[S, Any, T], do: Callable[[S], Awaitable[Any]], *, in_threads: bool = False) -> T:
    """`run` without blocking the event loop; `in_threads` is for a flow that itself computes for long."""
    go_on: Callable[[Any], S]
    go_on, answer = flow.send, None
    while True:
        step = await in_thread(lambda: _next(go_on, answer)) if in_threads else _next(go_on, answer)  # noqa: B023 (awaited at once)
        if isinstance(step, _End):
            result: T = step.result
            return result
        try:
            go_on, answer = flow.send, await do(step)
        except GeneratorExit:
            flow.close()  # the coroutine is closed and may await nothing more
            raise
        except BaseException as e:  # noqa: BLE001 (raised inside the flow, which decides)
            go_on, answer = flow.throw, e


def _next(go_on: Callable[[Any], S], answer: Any) -> S | _End:
    """The next step, or the end; a value, since StopIteration cannot leave a thread or a coroutine."""
    try:
        return go_on(answer)
    except StopIteration as done:
        return _End(done.value)
