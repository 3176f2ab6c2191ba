"""One client per event loop, as an async client's connections belong to the loop that opened them.

An async generator of the loop holds the client. A loop that shuts down (as with `asyncio.run`) closes its generators,
and so the client while its connections still work.

A child process makes clients of its own: two processes on one connection would read each other's answers.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

from autocontext.flows.forking import fork_lock, part_at_fork

Client = TypeVar("Client")

inherited: list[object] = []
"""Clients of the parent process: nobody closes them here, which could end their connections there."""


class _LoopClient(Generic[Client]):
    """One loop's client; the lock lets only one of several tasks make it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.client: Client | None = None
        self.holder: AsyncGenerator[Client, None] | None = None


async def _hold(
    make: Callable[[], Awaitable[Client]], close: Callable[[Client], Awaitable[None]]
) -> AsyncGenerator[Client, None]:
    client = await make()
    try:
        yield client
    finally:
        await close(client)


class PerLoop(Generic[Client]):
    """Clients by event loop; both are freed when the loop is closed."""

    def __init__(self, make: Callable[[], Awaitable[Client]], close: Callable[[Client], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._lock = fork_lock()
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient[Client]] = (
            weakref.WeakKeyDictionary()
        )
        part_at_fork(self)

    def before_fork(self, until: float) -> None:
        """Nothing to wait for: the clients stay the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """Begin without clients in a child."""
        if in_child:
            inherited.append(self._slots)
            self._slots = weakref.WeakKeyDictionary()

    async def client(self) -> Client:
        """The client of the running loop, made at the first call in it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # A client's connections reference the loop, so the weak key alone would never be dropped.
            for closed in [each for each in self._slots if each.is_closed()]:
                del self._slots[closed]
            slot = self._slots.setdefault(loop, _LoopClient())
        async with slot.lock:
            if slot.client is None:
                slot.holder = _hold(self._make, self._close)
                slot.client = await anext(slot.holder)
            return slot.client

    async def aclose(self) -> None:
        """Close the running loop's client; the next call makes a new one."""
        with self._lock:
            slot = self._slots.pop(asyncio.get_running_loop(), None)
        if slot is not None and slot.holder is not None:
            await slot.holder.aclose()

    def __len__(self) -> int:
        return len(self._slots)
