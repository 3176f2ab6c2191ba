"""What is closed at the end of a `with` block, in sync and async code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """`with` and `async with` for what has `close` and `aclose`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

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
