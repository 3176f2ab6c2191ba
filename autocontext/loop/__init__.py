"""An agent's loop on the chat completions API: ask the model, run its tools, until it answers.

    with AutoContextMemory.open("agent.db", session_id="42", window="16k") as memory:
        memory.add({"role": "user", "content": "Why did the nightly build fail?"})
        print(loop.run(OpenAI(), "gpt-4.1-mini", memory, tools=[read_log]))

The model's message is in the memory before its tools run, and each result as soon as it is there: when a process was
killed, `run` goes on from there in the next one. Short enough to copy and change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from autocontext.errors import AutoContextError
from autocontext.flows import lazy
from autocontext.loop.commands import acompact, compact
from autocontext.loop.replies import StreamedReply
from autocontext.loop.tools import Tool, ToolObject, Toolset, with_memory
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock
from autocontext.tools import INSTRUCTIONS

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = ["Tool", "ToolObject", "arun", "astream", "run", "stream"]


def run(
    client: OpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] = (), *, max_steps: int = 100,
    **options: Any,
) -> str:  # fmt: skip
    """The model's answer to what the memory holds; `options` go into each request.

    The calls of one message run in parallel, in threads. The model reads what a tool raises and goes on. Raises the
    client's errors, and AutoContextError after `max_steps` requests without an answer: call it again to go on.
    The user's message "/compact the billing bug" condenses the context instead; the answer says what came of it.
    """
    if (done := compact(memory)) is not None:
        return done
    agent = _Agent(model, memory, tools, options)
    for _ in range(max_steps):
        reply = client.chat.completions.create(**agent.request(memory.to_openai())).choices[0].message
        if not (uses := agent.add(reply.model_dump(exclude_none=True))):
            return reply.content or ""
        agent.answer(uses)
    raise agent.without_answer(max_steps)


def stream(
    client: OpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] = (), *, max_steps: int = 100,
    **options: Any,
) -> Iterator[str]:  # fmt: skip
    """`run` that yields the model's text as it comes, also what the model says before it calls tools."""
    if (done := compact(memory)) is not None:
        yield done
        return
    agent = _Agent(model, memory, tools, options)
    for _ in range(max_steps):
        reply = StreamedReply()
        for chunk in client.chat.completions.create(**agent.request(memory.to_openai()), stream=True):
            yield from reply.add(chunk)
        if not (uses := agent.add(reply.message())):
            return
        agent.answer(uses)
    raise agent.without_answer(max_steps)


async def arun(
    client: AsyncOpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] = (), *, max_steps: int = 100,
    **options: Any,
) -> str:  # fmt: skip
    """`run` for asynchronous callers: coroutine functions are awaited, other tools run in threads."""
    if (done := await acompact(memory)) is not None:
        return done
    agent = _Agent(model, memory, tools, options)
    for _ in range(max_steps):
        response = await client.chat.completions.create(**agent.request(await memory.ato_openai()))
        reply = response.choices[0].message
        if not (uses := agent.add(reply.model_dump(exclude_none=True))):
            return reply.content or ""
        await agent.aanswer(uses)
    raise agent.without_answer(max_steps)


async def astream(
    client: AsyncOpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] = (), *, max_steps: int = 100,
    **options: Any,
) -> AsyncIterator[str]:  # fmt: skip
    """`stream` for asynchronous callers."""
    if (done := await acompact(memory)) is not None:
        yield done
        return
    agent = _Agent(model, memory, tools, options)
    for _ in range(max_steps):
        reply = StreamedReply()
        chunks = await client.chat.completions.create(**agent.request(await memory.ato_openai()), stream=True)
        async for chunk in chunks:
            for text in reply.add(chunk):
                yield text
        if not (uses := agent.add(reply.message())):
            return
        await agent.aanswer(uses)
    raise agent.without_answer(max_steps)


class _Agent:
    """The requests and the tool calls of one run."""

    def __init__(self, model: str, memory: AutoContextMemory, tools: Iterable[Tool], options: dict[str, Any]) -> None:
        self.memory, self.tools = memory, Toolset(with_memory(tools, memory))
        self.fixed = {"model": model, "tools": self.tools.schemas, **options}
        memory.set_overhead(INSTRUCTIONS, *self.tools.schemas)  # sent with each request, so it counts

    def request(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """A request; instructions about condensed texts follow the leading system messages."""
        at = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
        instructions = {"role": "system", "content": INSTRUCTIONS}
        return {**self.fixed, "messages": [*messages[:at], instructions, *messages[at:]]}

    def add(self, message: dict[str, Any]) -> Sequence[ToolUseBlock]:
        """Store the model's message; returns its calls."""
        self.memory.add({key: value for key, value in message.items() if value != []})
        return self.memory.messages[-1].tool_uses

    def answer(self, uses: Sequence[ToolUseBlock]) -> None:
        """Run the calls in parallel and store each result as soon as it is there."""
        with ThreadPoolExecutor(max_workers=len(uses)) as pool:
            calls = {pool.submit(copy_context().run, self.tools.call, use): use for use in uses}
            for call in as_completed(calls):
                self._store(calls[call], *call.result())

    async def aanswer(self, uses: Sequence[ToolUseBlock]) -> None:
        """`answer` for asynchronous callers."""

        async def answer_one(use: ToolUseBlock) -> None:
            self._store(use, *await self.tools.acall(use))

        await lazy.asyncio.gather(*map(answer_one, uses))

    def _store(self, use: ToolUseBlock, text: str, failed: bool) -> None:
        block = ToolResultBlock(id=use.id, name=use.name, output=text, is_error=failed)
        self.memory.add_message(Msg(role="tool", content=(block,)))

    def without_answer(self, steps: int) -> AutoContextError:
        return AutoContextError(f"loop: no answer after {steps} requests; the memory has all of them: run it again")
