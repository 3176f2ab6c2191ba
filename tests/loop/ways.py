"""The four ways to run a loop, each with a real client that is made once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from openai import AsyncOpenAI, OpenAI

from autocontext import AutoContextMemory, loop

MODEL = "gpt-4.1-mini"
WAYS = ("run", "stream", "arun", "astream")
Run = Callable[..., str]


@contextmanager
def way(name: str, base_url: str) -> Iterator[Run]:
    """A function of a memory, tools and options that gives the answer as one text."""
    if name in ("run", "stream"):
        with OpenAI(base_url=base_url, api_key="test-key", max_retries=0) as client:

            def run(memory: AutoContextMemory, tools: Any = (), **options: Any) -> str:
                if name == "run":
                    return loop.run(client, MODEL, memory, tools, **options)
                return "".join(loop.stream(client, MODEL, memory, tools, **options))

            yield run
        return
    with asyncio.Runner() as runner:
        own = AsyncOpenAI(base_url=base_url, api_key="test-key", max_retries=0)

        async def go(memory: AutoContextMemory, tools: Any, options: dict[str, Any]) -> str:
            if name == "arun":
                return await loop.arun(own, MODEL, memory, tools, **options)
            return "".join([text async for text in loop.astream(own, MODEL, memory, tools, **options)])

        yield lambda memory, tools=(), **options: runner.run(go(memory, tools, options))
        runner.run(own.close())
