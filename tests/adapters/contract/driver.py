"""What an adapter brings to the contract: a Driver, one conversation with an agent of its framework."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.stores import SqliteSessionStore
from autocontext.testing import ScriptedModel
from tests.adapters.contract.scripted_agent import reader

Mode: TypeAlias = Literal["sync", "sync stream", "async", "async stream"]
WINDOW = 16_000
"""Tokens that the server takes in one request."""
ROOM = 500
"""Tokens of the window that are left for the reply."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE_URL = f"data:image/png;base64,{PIXEL}"
IMAGE = base64.b64decode(PIXEL)


@dataclass(frozen=True)
class Setup:
    """What a driver is made of. A process can hand it to another one: `store` is a file."""

    base_url: str
    case: str = "alpha"
    store: str | None = None
    """Path of the SQLite file; None: the session lives in the process."""
    session_id: str = "s1"
    user_id: str = ""
    api_key: str = "test-key"
    timeout: float = 60.0
    retries: int = 0
    """How often the framework's own client tries again."""
    failing: frozenset[int] = field(default=frozenset())
    """Parts at which the tool raises."""
    dying: frozenset[int] = field(default=frozenset())
    """Parts at which the process ends inside the tool."""
    waiting: frozenset[int] = field(default=frozenset())
    """Parts at which the tool, then an asynchronous function, does not return."""
    steering: bool = False
    """Whether the agent has all of the memory's tools, and a line about the room in each request."""
    outbox: str | None = None
    """Path of the file in which the tool notes the parts at which it ends the process or waits."""

    @property
    def system(self) -> str:
        """The user's own system prompt."""
        return f"You work on case {self.case}."

    @property
    def tool(self) -> Any:
        """The user's own tool: a function with types and a docstring, from which frameworks make their schema."""
        return reader(
            self.case, failing=self.failing, dying=self.dying, waiting=self.waiting, outbox=self.outbox or os.devnull
        )

    @property
    def adapter(self) -> dict[str, Any]:
        """The keyword arguments that every adapter class takes."""
        return {
            "config": AutoContextConfig.for_window(WINDOW - ROOM, steering=self.steering, show_status=self.steering),
            "model": ScriptedModel("Some parts were read."),
            "store": SqliteSessionStore(Path(self.store)) if self.store else None,
            "session_id": self.session_id if self.store else None,
            "user_id": self.user_id,
        }


class Driver(Protocol):
    """One conversation with an agent of a framework, set up as the adapter's documentation says.

    Between two questions nothing but the adapter (and what the framework keeps by itself) holds the conversation. A
    method whose mode is not in `modes` is never called.
    """

    modes: ClassVar[Sequence[Mode]]

    def __init__(self, setup: Setup) -> None: ...

    @property
    def memory(self) -> AutoContextMemory:
        """The memory behind the adapter."""
        ...

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        """Put a question (with an image, a data URL, in the same message) and give the agent's final text."""
        ...

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        """The same for asynchronous code."""
        ...

    def history(self) -> Any:
        """What the framework itself holds of the conversation, as JSON that tells any change; None: nothing."""
        ...

    async def aclose(self) -> None:
        """Close clients; called once, in the loop in which `aask` ran."""
        ...


Asked: TypeAlias = "str | Exception"


async def conversation(driver: Driver, mode: Mode, *questions: str | tuple[str, str]) -> list[Asked]:
    """The answers to questions (a text, or a text and an image), one after the other; a failed one is its exception."""
    try:
        return [await one(driver, mode, question) for question in questions]
    finally:
        await driver.aclose()


def asked(driver: Driver, mode: Mode, *questions: str | tuple[str, str]) -> list[Asked]:
    """The same from a test, in an event loop of its own."""
    return asyncio.run(conversation(driver, mode, *questions))


async def one(driver: Driver, mode: Mode, question: str | tuple[str, str]) -> Asked:
    """The answer to one question."""
    text, image = (question, None) if isinstance(question, str) else question
    stream = mode.endswith("stream")
    try:
        if mode.startswith("async"):
            return await driver.aask(text, stream=stream, image=image)
        # Synchronous code runs in a thread of its own, where no loop is running.
        return await asyncio.to_thread(driver.ask, text, stream=stream, image=image)
    except Exception as e:  # noqa: BLE001 (each framework wraps a failed call in an error of its own)
        return e
