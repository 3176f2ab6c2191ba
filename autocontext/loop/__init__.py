"""An agent's loop on the chat completions API: ask the model, run its tools, until it answers.

    with AutoContextMemory.open("agent.db", session_id="42", window="16k") as memory:
        memory.add({"role": "user", "content": "Why did the nightly build fail?"})
        print(loop.run(OpenAI(), "gpt-4.1-mini", memory, tools=[read_log]))

The model's message is in the memory before its tools run, and each result as soon as it is there: when a process was
killed, `run` goes on from there in the next one. Short enough to copy and change.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from autocontext.compression.receipt import told
from autocontext.errors import AutoContextError, ConfigError, InvalidMessage, ModelError, short
from autocontext.flows import DoesSteps, Flow, Operation, compute, method, sync_and_async
from autocontext.flows.threads import in_thread
from autocontext.formats.refusals import sending
from autocontext.loop.replies import StreamedReply, at_once, creating, later, message_of
from autocontext.loop.tools import Calls, Tool, ToolObject, Toolset, with_memory
from autocontext.memory import AutoContextMemory, learn_usage
from autocontext.messages import Msg, is_final_reply, is_user_turn
from autocontext.stores.checks import check_whole
from autocontext.tools import INSTRUCTIONS

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = ["Tool", "ToolObject", "arun", "astream", "run", "stream"]


def run(
    client: OpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] | None = None, *,
    max_steps: int = 100, **options: Any,
) -> str:  # fmt: skip
    """The model's answer to what the memory holds; `options` go into each request.

    If the memory ends with an answer, that is returned and nothing is sent: a program may be started again at any time.
    What the user says while the model answers moves behind the answer, and the model is asked again.
    The calls of one message run in parallel, in threads. The model reads what a tool raises and goes on. Raises the
    client's errors, ModelError for an answer that holds no message, and AutoContextError after `max_steps` requests
    without an answer: call it again to go on. What ends a run in the middle of tools (Ctrl-C, SystemExit) does so when
    the results that are there are stored.
    The user's message "/compact the billing bug" condenses the context instead; the answer says what came of it.
    """
    return _Agent(client, memory, tools, max_steps, {"model": model, **options}).answer()


def stream(
    client: OpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] | None = None, *,
    max_steps: int = 100, **options: Any,
) -> Iterator[str]:  # fmt: skip
    """`run` that yields the model's text as it comes, also what the model says before it calls tools."""
    agent = _Agent(client, memory, tools, max_steps, {"model": model, **options})
    if (done := agent.done()) is not None:
        yield done
        return
    for _ in range(max_steps):
        streamed = StreamedReply()
        for chunk in agent.sent(stream=True):
            yield from streamed.add(chunk)
        _, calls = agent.add(streamed.message(), streamed.usage)
        if calls is None:
            return
        calls.run()
    raise agent.without_answer()


async def arun(
    client: AsyncOpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] | None = None, *,
    max_steps: int = 100, **options: Any,
) -> str:  # fmt: skip
    """`run` for asynchronous callers: coroutine functions are awaited, other tools run in threads."""
    agent = await in_thread(lambda: _Agent(client, memory, tools, max_steps, {"model": model, **options}))
    return await agent.aanswer()


async def astream(
    client: AsyncOpenAI, model: str, memory: AutoContextMemory, tools: Iterable[Tool] | None = None, *,
    max_steps: int = 100, **options: Any,
) -> AsyncIterator[str]:  # fmt: skip
    """`stream` for asynchronous callers."""
    agent = await in_thread(lambda: _Agent(client, memory, tools, max_steps, {"model": model, **options}))
    if (done := await agent.adone()) is not None:
        yield done
        return
    for _ in range(max_steps):
        streamed = StreamedReply()
        async for chunk in await agent.asent(stream=True):
            for text in streamed.add(chunk):
                yield text
        _, calls = await in_thread(partial(agent.add, streamed.message(), streamed.usage))
        if calls is None:
            return
        await calls.arun()
    raise agent.without_answer()


_COMPACT = re.compile(r"\s*/compact(?:\s+(.*))?", re.DOTALL)


class _Agent(DoesSteps):
    """The requests and the tool calls of one run."""

    def __init__(
        self, client: Any, memory: AutoContextMemory, tools: Iterable[Tool] | None, max_steps: int,
        fixed: dict[str, Any],
    ) -> None:  # fmt: skip
        if not isinstance(memory, AutoContextMemory):
            raise ConfigError(f"memory must be an AutoContextMemory (got {short(memory)})")
        check_whole("max_steps", max_steps, 1)
        self._create = creating(client, fixed)
        self._memory, self._tools, self._steps = memory, Toolset(with_memory(tools, memory)), max_steps
        self._fixed = {"tools": self._tools.schemas, **fixed}
        self._seen: frozenset[str] = frozenset()
        self._view: list[Msg] = []
        form = fixed.get("response_format")
        besides = [*self._tools.schemas, *([form] if isinstance(form, Mapping) else [])]
        memory.set_overhead(INSTRUCTIONS, *besides)  # sent with each request, so it counts

    def _answer(self) -> Flow[str]:
        """The steps of `run`."""
        if (done := (yield from self._done())) is not None:
            return done
        for _ in range(self._steps):
            answer = yield from self._sent()
            reply, calls = yield from compute(partial(self.add, message_of(answer), getattr(answer, "usage", None)))
            if calls is None:
                return reply.text
            yield method(calls, "run")
        raise self.without_answer()

    answer, aanswer = sync_and_async(_answer)

    def _done(self) -> Flow[str | None]:
        """The answer if there is nothing to ask: that with which the memory ends, or what came of a /compact."""
        view = self._memory.messages
        if view and is_final_reply(view[-1]) and view[-1].text.strip():
            return view[-1].text
        focus = yield from compute(self._take_command)
        if focus is None:
            return None
        return told((yield method(self._memory, "compress_if_needed", force=True, focus=focus)))

    done, adone = sync_and_async(_done)

    def _take_command(self) -> str | None:
        """What stands behind /compact, which leaves the view: it is nothing for the model to answer."""
        view = self._memory.messages
        command = _COMPACT.fullmatch(view[-1].text) if view and is_user_turn(view[-1]) else None
        if command is None:
            return None
        self._memory.delete_message(len(view) - 1)
        return (command[1] or "").strip()

    def _look(self) -> None:
        """Remember what is in view: the next reply answers that."""
        self._seen = frozenset(m.id for m in self._memory.messages)

    def _sent(self, /, **more: Any) -> Flow[Any]:
        """The service's answer; a request that it refuses as too long is made smaller and sent once more."""

        def ask() -> Flow[Any]:
            send = partial(self._ask, (yield method(self._memory, "to_openai")), **more)
            return (yield Operation(lambda: at_once(send()), lambda: later(send())))

        yield from compute(self._look)
        return (yield from sending(ask, lambda: self._memory))

    sent, asent = sync_and_async(_sent)

    def _ask(self, messages: list[dict[str, Any]], **more: Any) -> Any:
        """Send a request; instructions about condensed texts follow the leading system messages."""
        at = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")), len(messages))
        instructions = {"role": "system", "content": INSTRUCTIONS}
        self._view = self._memory.messages
        return self._create(**self._fixed, messages=[*messages[:at], instructions, *messages[at:]], **more)

    def add(self, message: dict[str, Any], usage: Any) -> tuple[Msg, Calls | None]:
        """Store the model's message; return it and its calls, None if the run ends. `usage` is that of the request.

        It does not while tools are called, or the user has said something since the request. Raises ModelError naming
        the field that makes it no message.
        """
        try:
            read = self._memory.read(message, by_service=True)
            learn_usage(self._memory, self._view, usage)
            self._memory.add(read)
        except InvalidMessage as e:
            problem = str(e).removeprefix("messages[0].")
            raise ModelError(f"loop: the service's answer is no message, and was not stored: {problem}") from None
        reply = read[-1]
        ends = not reply.tool_uses and not self._say_after(reply)
        return reply, None if ends else Calls(self._memory, self._tools, reply)

    def _say_after(self, reply: Msg) -> bool:
        """Put what the user has said meanwhile behind the reply, which does not answer it; False if there is nothing.

        Before the reply it would count as answered, also by the next run, and services refuse a request that ends with
        an assistant's message.
        """
        view = self._memory.messages
        at = next((i for i in reversed(range(len(view))) if view[i].id == reply.id), len(view))
        new = takewhile(lambda m: m.id not in self._seen, reversed(view[:at]))
        unread = [m.id for m in new if is_user_turn(m) and m.origin is None]
        if unread:
            self._memory._move_to_end(unread)  # noqa: SLF001 (for loops only, in one step)
        return bool(unread) or any(map(is_user_turn, view[at + 1 :]))

    def without_answer(self) -> AutoContextError:
        return AutoContextError(
            f"loop: no answer after {self._steps} requests; the memory has all of them: run it again"
        )
