"""The tokens of a request, as its reply tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.errors import InvalidMessage, short

_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""What Anthropic's `input_tokens` leaves out: tokens that its cache had, or took. All other counts include them."""

_OF_SERVICE = frozenset(
    {
        "server_tool_use", "mcp_tool_use",  # Anthropic
        "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call",  # OpenAI
        "server_tool_call",  # LangChain
        "builtin-tool-call",  # Pydantic AI
        # Agent Framework
        "mcp_server_tool_call", "search_tool_call", "code_interpreter_tool_call", "image_generation_tool_call",
    }
)  # fmt: skip
"""Kinds of the parts of an answer that stand for a tool which the service has run."""


def input_tokens_of(usage: Any) -> int:
    """Input tokens by the usage of a reply: an SDK's object, a dict, or the number itself.

    OpenAI's are `prompt_tokens`, or in the Responses API `input_tokens`. Raises InvalidMessage if there is no count.
    """
    tokens = usage
    if not isinstance(usage, int):
        tokens = _field(usage, "prompt_tokens")
        if tokens is None:
            tokens = with_cached(_field(usage, "input_tokens"), (_field(usage, key) for key in _BESIDE))
    if not isinstance(tokens, int):
        raise InvalidMessage(
            f"record_usage: {short(usage)} has no count of input tokens; pass the reply's usage, or the number"
        )
    if tokens < 0:
        raise InvalidMessage(f"record_usage: input_tokens must be 0 or more (got {tokens})")
    return tokens


def is_summed(usage: Any, answer: Iterable[Any] = ()) -> bool:
    """Whether the service has run tools for an answer, given as its parts: then its usage is that of several reads."""
    ran = _field(usage, "server_tool_use")
    counts = ran.values() if isinstance(ran, Mapping) else getattr(ran, "__dict__", {}).values()
    if any(isinstance(n, int) and n > 0 for n in counts):
        return True
    return any((_field(part, "type") or _field(part, "part_kind")) in _OF_SERVICE for part in answer)


def _field(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def with_cached(tokens: Any, beside: Iterable[Any]) -> Any:
    """Anthropic's count with those `beside` it, where they are told; what is no count stays as it is."""
    return tokens + sum(n for n in beside if isinstance(n, int)) if isinstance(tokens, int) else tokens
