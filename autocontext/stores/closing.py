"""Base classes: `with` blocks in sync and async code, and parts that close a database only if they opened it.

`awaitable` gives a method that has no asynchronous way of its own one in a thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from autocontext.flows import Flow, Operation, method, sync_and_async
from autocontext.flows.threads import in_thread
from autocontext.stores.database import Database, Read, Schema, Write
from autocontext.stores.opening import open_database

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


def awaitable(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The method of the same name with an `a` before it: does in a thread what the method does, a subclass's too."""
    name = method.__name__

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await in_thread(lambda: getattr(self, name)(*args, **kwargs))
        return result

    call.__name__ = f"a{name}"
    call.__qualname__ = method.__qualname__.removesuffix(name) + call.__name__
    return call


class Closing(ABC):
    """`with` and `async with` for classes with `close` and `aclose`."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    @abstractmethod
    async def aclose(self) -> None:
        """`close` for asynchronous callers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


class DatabasePart(Closing):
    """A part of the library that keeps its tables in a database.

    `url` is a file path, `:memory:`, a `postgresql://` URL or an open Database. The part closes a database that it has
    opened, and leaves open one that you pass. Using a closed database raises StoreError.
    """

    def __init__(self, url: Database | str | Path, *schemas: Schema) -> None:
        self._owns_database = not isinstance(url, Database)
        self.database = open_database(url)
        try:
            for schema in schemas:
                self.database.ensure(schema)
        except BaseException:
            DatabasePart.close(self)  # a subclass's needs what it has not made yet
            raise

    def _close(self) -> Flow[None]:
        """Close the database if this object opened it. Closing twice does nothing."""
        if self._owns_database:
            yield method(self.database, "close")

    close, aclose = sync_and_async(_close)

    def _do(self, step: Read | Write | Operation) -> Any:
        """Do a step of a flow, a transaction or a computation, for `sync_and_async`."""
        return self.database.do(step)

    async def _ado(self, step: Read | Write | Operation) -> Any:
        return await self.database.ado(step)
