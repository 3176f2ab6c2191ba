"""Requests that a service refuses because they are too long, which each says in its own words."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from autocontext.errors import told
from autocontext.flows import Flow, Operation, ado, arun, method

T = TypeVar("T")

_STATUSES = (400, 413, 422)

_TOO_LONG = re.compile(
    r"context[_ ]?(?:length|window)[_ ]?exceeded"  # OpenAI, Groq, z.ai, LiteLLM
    r"|exceed_context_size"  # llama.cpp
    r"|maximum (?:context|prompt|model) length"  # OpenAI, Azure, vLLM, DeepSeek, OpenRouter, xAI, Mistral
    r"|exceeds? the (?:available )?context (?:size|window)"  # OpenAI's Responses, llama.cpp
    r"|context window exceeds|exceed context limit"  # MiniMax, Anthropic with max_tokens
    r"|context length is only"  # LM Studio
    r"|(?:longer|greater) than the (?:model'?s? )?context length"  # Together, LM Studio
    r"|exceed(?:s|ed)? (?:the )?(?:max(?:imum)? )?context length"  # Ollama
    r"|prompt (?:is )?too long|input is too long"  # Anthropic, Bedrock
    r"|input token count.{0,40}exceeds the maximum"  # Gemini
    r"|exceeded model token limit"  # Moonshot
    r"|reduce the length of the (?:messages|input|prompt)"  # OpenAI, Groq, vLLM
    r"|range of input length should be"  # DashScope
    r"|prompt exceeds max length"  # Zhipu
    r"|input token count is \d+ but model only supports"  # Vertex AI
    r"|model_max_prompt_tokens_exceeded|prompt token count of \d+ exceeds"  # GitHub Copilot
    r"|tokens_limit_reached"  # GitHub Models
    r"|input length \(\d+ tokens\) exceeds",  # SGLang
    re.IGNORECASE,
)
_TOO_FAST = re.compile(r"rate.?limit|tokens per min|too many requests|quota", re.IGNORECASE)
"""Also says that a request is too large, for what is left of a minute."""
_QUOTED = re.compile(r"""input_value=|["'](?:input|metadata|headers)["']:""")
"""Where an error begins to quote the request, or its headers."""
_COUNT = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d{4,8})(?![\w-])")
_MOST_TIMES = 4.0
"""A larger ratio is one of other numbers."""
_OUTPUT = re.compile(r"max_(?:new_|completion_)?tokens|in the completion|\d \+ \d", re.IGNORECASE)
"""Where the numbers are also those of the answer."""
_FIELDS = ("code", "type", "error", "detail", "metadata", "raw", "message", "msg")
"""Of the body of an error: what the service says, or one behind it."""


def is_too_long(error: BaseException) -> bool:
    """Whether an error of a client (openai, anthropic or another) says that the request is over the model's window."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status not in _STATUSES:
        return False
    code = getattr(error, "code", None)
    if isinstance(code, str) and _TOO_LONG.search(code):
        return True
    said = _words_of(error)
    return bool(_TOO_LONG.search(said)) and not _TOO_FAST.search(said)


def times_too_long(error: BaseException) -> float:
    """The count that a refusal tells, as a multiple of the limit that it tells; 1 where it does not tell just both."""
    said = _words_of(error)
    counts = sorted({int(number.replace(",", "")) for number in _COUNT.findall(said)})
    times = counts[-1] / counts[-2] if len(counts) > 1 and not _OUTPUT.search(said) else 1.0
    return times if times <= _MOST_TIMES else 1.0


def sending(ask: Callable[[], Flow[T]], memory: Callable[[], Any]) -> Flow[T]:
    """The answer to a request; one that is refused as too long is made smaller by the `memory`, and sent once more.

    `ask` takes what the memory shows then.
    """
    try:
        return (yield from ask())
    except Exception as e:
        if not (yield method(memory(), "recover", e)):
            raise
    return (yield from ask())


async def asent(ask: Callable[[], Awaitable[T]], memory: Callable[[], Any]) -> T:
    """`sending` where there are asynchronous requests only."""

    def asking() -> Flow[T]:
        answer: T = yield Operation(ask, ask)
        return answer

    return await arun(sending(asking, memory), ado)


def _words_of(error: BaseException) -> str:
    said = _said(getattr(error, "body", None)) or _said(told(error))
    return " ".join([type(error).__name__, *_said(getattr(error, "code", None)), *said])


def _said(part: Any) -> list[str]:
    """The service's own words in a part of an error, without what it quotes of the request."""
    if isinstance(part, str):
        return [_QUOTED.split(part, maxsplit=1)[0]]
    if isinstance(part, Mapping):
        return [said for field in _FIELDS for said in _said(part.get(field))]
    return [said for item in part for said in _said(item)] if isinstance(part, list | tuple) else []
