"""One client per event loop: connections of an async client belong to the loop that opened them.

A client is kept inside an async generator of its loop. The loop closes its generators when it shuts down
(`asyncio.run` and every runner built on it do), and that closes the client while its connections still work.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

Client = TypeVar("Client")


class _Slot(Generic[Client]):
    """The place of one loop's client; the lock lets only the first of several tasks make it."""

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
    """Clients by event loop; neither a loop nor its client outlives its use."""

    def __init__(self, make: Callable[[], Awaitable[Client]], close: Callable[[Client], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Slot[Client]] = weakref.WeakKeyDictionary()

    async def client(self) -> Client:
        """The client of the running loop, made at the first call in it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # A client holds its loop through its connections, so the weak key alone would not let go of it.
            for closed in [known for known in self._slots if known.is_closed()]:
                del self._slots[closed]
            slot = self._slots.setdefault(loop, _Slot())
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
