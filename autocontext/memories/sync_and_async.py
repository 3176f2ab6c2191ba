"""One description of an operation, and the two methods that carry it out: in sync and in async code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from autocontext import flows
from autocontext.stores.database import Database, Read, Work, Write

P = ParamSpec("P")
T = TypeVar("T")


Steps: TypeAlias = Generator[Read | Write, Any, T]
"""An operation: yields transactions, is sent what they return, returns its own result."""


def read(work: Callable[[], Work[T]]) -> Steps[T]:
    """Run a reading transaction and give its result."""
    result: T = yield Read(work)
    return result


def write(work: Callable[[], Work[T]]) -> Steps[T]:
    """Run a writing transaction and give its result."""
    result: T = yield Write(work)
    return result


class HasDatabase(Protocol):
    """What has the two methods."""

    @property
    def database(self) -> Database:
        """Where the transactions run."""


S = TypeVar("S", bound=HasDatabase)


def sync_and_async(
    steps: Callable[Concatenate[S, P], Steps[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Awaitable[T]]]:
    """The blocking method and the awaitable one, both with the signature and the words of `steps`."""
    name = steps.__name__.removeprefix("_")

    @wraps(steps)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return flows.run(steps(self, *args, **kwargs), self.database.do)

    @wraps(steps)
    async def arun(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await flows.arun(steps(self, *args, **kwargs), self.database.ado)

    run.__name__, arun.__name__ = name, f"a{name}"
    run.__qualname__, arun.__qualname__ = (steps.__qualname__.replace(steps.__name__, f.__name__) for f in (run, arun))
    return run, arun
