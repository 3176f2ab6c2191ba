"""Tools for testing agents: a scripted model, message factories and a check for strict chat validity."""
# ruff: noqa: A002 (the factories' parameters have the names of the blocks' fields: id, input)

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from autocontext.flows.forking import fork_lock
from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.requests import ModelReply, ModelRequest, Usage
from autocontext.text.chat_rules import first_violation
from autocontext.text.rendering import unfence

# ---------------------------------------------------------------------------------------------------------- model
Answer: TypeAlias = "str | ModelReply | BaseException | type[BaseException] | Delayed"
Reply: TypeAlias = "Answer | Callable[[ModelRequest], Answer]"

EMPTY = ""
"""A reply without any text."""
WHITESPACE = " \n\t"
"""A reply of white space only."""


@dataclass(frozen=True)
class Delayed:
    """A reply that takes `seconds`, in addition to the model's latency."""

    seconds: float
    reply: Answer


def longer_than_source(request: ModelRequest) -> str:
    """A reply longer than the transcript it should condense."""
    return "blah " * (len(unfence(request.prompt)) // 5 + 1)


class ScriptedModel:
    """A chat model with scripted replies, sync (`complete`) and async (`acomplete`).

    `replies` is one reply for every request, or a list of replies in order, the last of which repeats. A reply is a
    text, a ModelReply, an exception (raised), a `Delayed`, or a function of the request that returns one of these.
    `latency` is the time of every call, in seconds. With `strict_script` a request beyond the list raises
    AssertionError. Texts get a usage of a token per 4 bytes. Safe to use from several threads and tasks at once.

    With `strict`, a strategy's proposal that breaks a rule raises InvalidEdit and the test fails; without it the
    proposal is skipped and named in the report, as in production.

        ScriptedModel("a summary")
        ScriptedModel([TimeoutError("slow"), EMPTY, "at last"])
        ScriptedModel(longer_than_source)
        ScriptedModel(Delayed(0.5, "late"))
    """

    def __init__(
        self,
        replies: Reply | Sequence[Reply] = "SUMMARY",
        *,
        latency: float = 0.0,
        strict_script: bool = False,
        strict: bool = True,
    ) -> None:
        several = isinstance(replies, Sequence) and not isinstance(replies, str)
        self._script: list[Reply] = list(replies) if several else [replies]  # type: ignore[arg-type,list-item]  # told apart above
        if not self._script and not strict_script:
            raise ValueError(
                "replies is empty: give at least one reply, or strict_script=True for a model that must not be called"
            )
        self._several = several
        self.strict = strict
        """Whether a memory with this model raises InvalidEdit for a proposal that breaks a rule."""
        self._ends = strict_script
        self._latency = latency
        self._lock = fork_lock()
        self._running = 0
        self.requests: list[ModelRequest] = []
        """Every request so far, in the order of arrival."""
        self.max_concurrent = 0
        """The largest number of concurrent requests."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """The next reply; blocks for the latency."""
        with self._answering(request) as (reply, seconds):
            time.sleep(seconds)
            return _make_reply(reply, request, seconds)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The next reply; sleeps for the latency without blocking the loop."""
        with self._answering(request) as (reply, seconds):
            await asyncio.sleep(seconds)
            return _make_reply(reply, request, seconds)

    @contextmanager
    def _answering(self, request: ModelRequest) -> Iterator[tuple[Answer, float]]:
        """The scripted answer and the seconds that it takes."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            if self._ends and (not self._script or (self._several and number > len(self._script))):
                raise AssertionError(
                    f"the script has {len(self._script)} replies, this is request {number} ({request.purpose})"
                )
            self._running += 1
            self.max_concurrent = max(self.max_concurrent, self._running)
            script = self._script[min(number, len(self._script)) - 1]
        try:
            is_function = callable(script) and not isinstance(script, type)
            reply: Answer = script(request) if is_function else script  # type: ignore[assignment,operator]  # a class is an exception's
            delayed = reply if isinstance(reply, Delayed) else Delayed(0.0, reply)
            yield delayed.reply, self._latency + delayed.seconds
        finally:
            with self._lock:
                self._running -= 1


def _make_reply(reply: Answer, request: ModelRequest, seconds: float) -> ModelReply:
    if isinstance(reply, type) and issubclass(reply, BaseException):
        raise reply
    if isinstance(reply, BaseException):
        raise reply.with_traceback(None)  # one instance may be raised many times
    if isinstance(reply, ModelReply):
        return reply
    if isinstance(reply, str):
        input_tokens, output_tokens = _tokens(request.system + request.prompt), _tokens(reply)
        return ModelReply(
            text=reply, usage=Usage(input_tokens=input_tokens, output_tokens=output_tokens, seconds=seconds)
        )
    raise TypeError(f"a scripted reply is a str, ModelReply, exception or Delayed, not a {type(reply).__name__}")


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="surrogatepass")) // 4)


# ------------------------------------------------------------------------------------------------------- messages
def user(text: str, **fields: Any) -> Msg:
    """A user's message; `fields` are further fields of Msg (id, name, metadata, ...)."""
    return Msg(role="user", content=text, **fields)


def assistant(text: str, **fields: Any) -> Msg:
    """An assistant's message."""
    return Msg(role="assistant", content=text, **fields)


def system(text: str, **fields: Any) -> Msg:
    """A system message."""
    return Msg(role="system", content=text, **fields)


def tool_call(
    name: str, input: Mapping[str, Any] | None = None, *, id: str | None = None, text: str = "", **fields: Any
) -> Msg:
    """An assistant's message with one tool call, after `text` if given."""
    use = ToolUseBlock(id=id or f"call_{uuid.uuid4().hex[:24]}", name=name, input=dict(input or {}))
    content = (TextBlock(text=text), use) if text else (use,)
    return Msg(role="assistant", content=content, **fields)


def tool_result(id: str, text: str, *, name: str = "", is_error: bool = False, **fields: Any) -> Msg:
    """A tool's message that answers the call `id`."""
    return Msg(role="tool", content=(ToolResultBlock(id=id, name=name, output=text, is_error=is_error),), **fields)


def tool_exchange(
    name: str, input: Mapping[str, Any] | None = None, output: str = "ok", *, id: str | None = None
) -> tuple[Msg, Msg]:
    """A call and the result that answers it."""
    call = tool_call(name, input, id=id)
    return call, tool_result(call.tool_uses[0].id, output, name=name)


def conversation(rounds: int = 3, tools_per_round: int = 2, chars: int = 200) -> list[Msg]:
    """A synthetic conversation, equal at every call: a system message, then rounds of question, tools and answer.

    Texts and tool outputs have `chars` characters. Ids are m0, m1, ...; timestamps are fixed.
    """
    texts = (f"Round {r}, step {s}: " for r, s in itertools.product(range(rounds), range(tools_per_round + 2)))
    messages = [system("You are a careful assistant.")]
    for r in range(rounds):
        messages.append(user(_fill(next(texts) + f"please look into /src/module_{r}.py", chars)))
        for t in range(tools_per_round):
            place = {"path": f"/src/module_{r}.py", "line": 10 * t + 1}
            messages.extend(
                tool_exchange("read_file", place, _fill(next(texts) + f"contents {r}.{t}", chars), id=f"call_{r}_{t}")
            )
        messages.append(assistant(_fill(next(texts) + f"module_{r} is done", chars)))
    stamp = "2026-01-01T00:00:00.000+00:00"
    return [m.model_copy(update={"id": f"m{i}", "timestamp": stamp}) for i, m in enumerate(messages)]


def _fill(text: str, chars: int) -> str:
    words = text
    for n in itertools.count():
        if len(words) >= chars:
            return words[:chars]
        words += f" value_{n % 97}={n * 7919 % 1000}"
    raise AssertionError("unreachable")


# ------------------------------------------------------------------------------------------------------- validity
def assert_valid_chat(messages: Iterable[Msg | Mapping[str, Any]]) -> None:
    """Check that strict chat services accept these messages: Msgs or OpenAI chat dicts.

    Raises AssertionError naming index and rule; see `autocontext.text.chat_rules` for the rules.
    """
    problem = first_violation(messages)
    if problem is not None:
        raise AssertionError(problem)
