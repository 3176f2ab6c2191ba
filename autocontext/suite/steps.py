"""The steps of the flows in this folder: each knows how to be done in sync and in async code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from autocontext import flows

T = TypeVar("T")


class Step(NamedTuple):
    """Something to wait for, in its two forms; the flow is sent the result, or the exception is raised in it."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]


Flow: TypeAlias = Generator[Step, Any, T]


def run(flow: Flow[T]) -> T:
    """Run a flow to its end."""
    return flows.run(flow, lambda step: step.do())


async def arun(flow: Flow[T]) -> T:
    """Run a flow to its end without blocking the event loop."""
    return await flows.arun(flow, lambda step: step.ado())
