"""The operations that flows of this folder wait for, each in a sync and an async form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Operation(NamedTuple):
    """A call in its two forms. The flow receives its result, or its exception is raised there."""

    do: Callable[[], Any]
    ado: Callable[[], Awaitable[Any]]


Flow: TypeAlias = Generator[Operation, Any, T]


def operation(do: Callable[..., Any], ado: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Operation:
    """Both forms with the same arguments."""
    return Operation(partial(do, *args, **options), partial(ado, *args, **options))
