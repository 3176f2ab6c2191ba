"""Messages in any provider's format, told apart by their shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from autocontext.errors import InvalidMessage, short
from autocontext.formats.anthropic_messages import from_anthropic
from autocontext.formats.blocks import without_objects
from autocontext.formats.openai_chat import from_openai
from autocontext.formats.openai_responses import from_responses
from autocontext.messages import Msg

Format: TypeAlias = Literal["OpenAI chat", "OpenAI Responses", "Anthropic"]
Message: TypeAlias = Msg | Mapping[str, Any] | BaseModel
"""A message of this library, a dict in a provider's format, or an object of a provider's SDK."""

_CHAT_ROLES = frozenset({"tool", "function"})
_CHAT_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call"})
_PARTS: Mapping[str, Format] = {
    **dict.fromkeys(("image_url", "video_url", "input_audio", "file"), "OpenAI chat"),
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), "OpenAI Responses"),
    **dict.fromkeys(
        ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "compaction"), "Anthropic"
    ),
}
"""The format of a message by the `type` of a part of its content."""
_EXAMPLE = '{"role": "user", "content": "..."}'


def read_messages(messages: Message | Iterable[Message]) -> list[Msg]:
    """Messages as Msgs, in order. A list may hold Msgs and one provider's messages: OpenAI chat, Responses, Anthropic.

    Raises InvalidMessage naming the index and the key of what is none, or of another provider than those before.
    """
    items = _as_list(messages)
    whole = _format_of_all(items)
    read: list[Msg] = []
    at = 0
    for own, group in groupby(items, key=lambda item: isinstance(item, Msg)):
        part = list(group)
        try:
            read += part if own else _READERS[whole](part)
        except InvalidMessage as e:
            raise InvalidMessage(_moved(str(e), at)) from None
        at += len(part)
    return read


def _as_list(messages: Message | Iterable[Message]) -> list[Any]:
    if isinstance(messages, Msg | Mapping | BaseModel):
        messages = [messages]
    elif isinstance(messages, str) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"messages: {short(messages)} is not a message; write {_EXAMPLE}")
    return [item if isinstance(item, Msg) else without_objects(item) for item in messages]


def _format_of_all(items: Sequence[Any]) -> Format:
    """The one format of the dicts among these; OpenAI chat where they could be of any."""
    first: tuple[int, Format] | None = None
    for at, item in enumerate(items):
        if isinstance(item, Msg):
            continue
        format_ = _format_of(item, at)
        if first is None and format_ is not None:
            first = at, format_
        elif first is not None and format_ not in (None, first[1]):
            raise InvalidMessage(
                f"messages[{at}] has the format of {format_}, messages[{first[0]}] that of {first[1]}; "
                "add each provider's messages by themselves"
            )
    return first[1] if first is not None else "OpenAI chat"


def _format_of(item: Any, at: int) -> Format | None:
    """The format of a message; None for {"role": "user", "content": "..."}, which all of them have."""
    if not isinstance(item, Mapping):
        raise InvalidMessage(f"messages[{at}]: {short(item)} is not a message; write {_EXAMPLE}")
    if "role" not in item:
        if isinstance(item.get("type"), str):
            return "OpenAI Responses"
        keys = ", ".join(map(repr, item)) or "no keys"
        raise InvalidMessage(f"messages[{at}].role: is missing; write {_EXAMPLE} (got {keys})")
    if "content" not in item and item["role"] in ("user", "system", "developer"):
        raise InvalidMessage(f"messages[{at}].content: is missing; write {_EXAMPLE}")
    if item["role"] in _CHAT_ROLES or not _CHAT_KEYS.isdisjoint(item):
        return "OpenAI Responses" if item.get("type") == "message" else "OpenAI chat"
    content = item.get("content")
    kinds = [p.get("type") for p in content if isinstance(p, Mapping)] if isinstance(content, list | tuple) else []
    by_part = next((_PARTS[str(kind)] for kind in kinds if kind in _PARTS), None)
    if by_part is None and item.get("type") == "message":
        # The reply of Anthropic's API says this too; its parts are of type "text".
        return "Anthropic" if "text" in kinds else "OpenAI Responses"
    return by_part


_READERS = {"OpenAI chat": from_openai, "OpenAI Responses": from_responses, "Anthropic": from_anthropic}


def _moved(problem: str, by: int) -> str:
    """A problem "messages[2].role: ..." of a part of a list, with the index in the whole list."""
    head, bracket, rest = problem.partition("[")
    number, closing, what = rest.partition("]")
    return f"messages[{int(number) + by}]{what}" if bracket and closing and number.isdigit() else f"{head}{rest}"
