"""One event loop for the policies of libraries that are asynchronous.

A policy that closed a loop of its own when it goes away would do so inside whichever loop runs at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result."""
    return _runner().run(coroutine)
