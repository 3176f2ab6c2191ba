"""Messages in any provider's format, told apart by their shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from autocontext.errors import InvalidMessage, short
from autocontext.formats.anthropic_messages import from_anthropic
from autocontext.formats.fields import BLOCKS, ITEMS
from autocontext.formats.objects import without_objects
from autocontext.formats.openai_chat import from_openai
from autocontext.formats.openai_responses import from_responses
from autocontext.formats.strict import SDK_FIELDS, check, unknown
from autocontext.messages import Msg

Format: TypeAlias = Literal["OpenAI chat", "OpenAI Responses", "Anthropic"]
Message: TypeAlias = Msg | Mapping[str, Any] | BaseModel
"""A message of this library, a dict in a provider's format, or an object of a provider's SDK."""

_ALL: frozenset[Format] = frozenset(("OpenAI chat", "OpenAI Responses", "Anthropic"))
_CHAT: frozenset[Format] = frozenset(("OpenAI chat",))
_RESPONSES: frozenset[Format] = frozenset(("OpenAI Responses",))
_ANTHROPIC: frozenset[Format] = frozenset(("Anthropic",))
_CHAT_ROLES = frozenset({"tool", "function"})
_CHAT_KEYS = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content"})
_PARTS: Mapping[str, frozenset[Format]] = {
    "text": _CHAT | _ANTHROPIC,
    "refusal": _CHAT | _RESPONSES,
    **dict.fromkeys(("image_url", "video_url", "input_audio", "file"), _CHAT),
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), _RESPONSES),
    **dict.fromkeys(BLOCKS.by_type.keys() - {"text"}, _ANTHROPIC),
}
"""The formats that a message may have by the `type` of a part of its content."""
_EXAMPLE = '{"role": "user", "content": "..."}'


def read_messages(
    messages: Message | Iterable[Message], unsent: list[str] | None = None, *, by_service: bool = False
) -> list[Msg]:
    """Messages as Msgs, in order. A list may hold Msgs and one provider's messages: OpenAI chat, Responses, Anthropic.

    `unsent` receives the places of fields that no provider takes. `by_service`: the dicts are a service's own answer,
    whose fields go back whatever they are. Raises InvalidMessage naming the index and the key of
    what is none, or of another provider than those before.
    """
    given, unsent = _as_list(messages), [] if unsent is None else unsent
    items: list[Any] = [item if isinstance(item, Msg) else without_objects(item) for item in given]
    whole = _format_of_all(items)
    read: list[Msg] = []
    at = 0
    for own, group in groupby(items, key=lambda item: isinstance(item, Msg)):
        part = list(group)
        try:
            msgs = part if own else _READERS[whole](part)
        except InvalidMessage as e:
            raise InvalidMessage(_moved(str(e), at)) from None
        for i, item in enumerate(() if own else part):
            if by_service or isinstance(given[at + i], BaseModel):
                # Several items of the Responses API may be one message: their names stand in the first.
                _note_unknown(msgs, i if len(msgs) == len(part) else 0, unknown(item, whole))
            else:
                unsent += check(item, whole, f"messages[{at + i}]")
        read += msgs
        at += len(part)
    return read


def _as_list(messages: Message | Iterable[Message]) -> list[Any]:
    if isinstance(messages, Msg | Mapping | BaseModel):
        return [messages]
    if isinstance(messages, str) or not isinstance(messages, Iterable):
        raise InvalidMessage(f"messages: {short(messages)} is not a message; write {_EXAMPLE}")
    return list(messages)


def _note_unknown(msgs: list[Msg], at: int, names: list[str]) -> None:
    """Note in a message the names of fields that a service gave and that are not known here."""
    if names and msgs:
        more = {**msgs[at].metadata, SDK_FIELDS: [*msgs[at].metadata.get(SDK_FIELDS, ()), *names]}
        msgs[at] = msgs[at].model_copy(update={"metadata": more})


def _format_of_all(items: Sequence[Any]) -> Format:
    """The one format that all dicts among these may have; OpenAI chat where there are several."""
    known = {at: _formats_of(item, at) for at, item in enumerate(items) if not isinstance(item, Msg)}
    common = _ALL
    for at, formats in known.items():
        if not common & formats:
            other = next((i for i, theirs in known.items() if i < at and not theirs & formats), None)
            before = "those before it" if other is None else f"messages[{other}]"
            raise InvalidMessage(
                f"messages[{at}] has the format of {_named(formats)}, {before} that of "
                f"{_named(common if other is None else known[other])}; add each provider's messages by themselves"
            )
        common &= formats
    return next(format_ for format_ in _READERS if format_ in common)


def _named(formats: frozenset[Format]) -> str:
    return " or ".join(format_ for format_ in _READERS if format_ in formats)


def _formats_of(item: Any, at: int) -> frozenset[Format]:
    """The formats that a message may have: all for {"role": "user", "content": "..."}; none if its parts disagree."""
    if not isinstance(item, Mapping):
        raise InvalidMessage(f"messages[{at}]: {short(item)} is not a message; write {_EXAMPLE}")
    kind = item.get("type")
    if (isinstance(kind, str) and ("role" not in item or kind in ITEMS.by_type)) or item.keys() - {"type"} == {"id"}:
        return _RESPONSES  # an item, which may have a role; one with an id alone refers to another
    if "role" not in item:
        keys = ", ".join(map(repr, item)) or "no keys"
        raise InvalidMessage(f"messages[{at}].role: is missing; write {_EXAMPLE} (got {keys})")
    if "content" not in item and item["role"] in ("user", "system", "developer"):
        raise InvalidMessage(f"messages[{at}].content: is missing; write {_EXAMPLE}")
    if not isinstance(item["role"], str):
        raise InvalidMessage(f"messages[{at}].role: must be a string, not {type(item['role']).__name__}")
    if item["role"] in _CHAT_ROLES or not _CHAT_KEYS.isdisjoint(item):
        return _RESPONSES if item.get("type") == "message" else _CHAT
    content = item.get("content")
    parts = [p for p in content if isinstance(p, Mapping)] if isinstance(content, list | tuple) else []
    kinds = [str(p.get("type")) for p in parts]
    formats = _ALL if item["role"] != "developer" else _CHAT | _RESPONSES
    if any("citations" in p for p in parts):  # a text's, which only Anthropic's API gives and takes
        formats = formats & _ANTHROPIC or formats
    for kind in kinds:
        # A part of another format in the same message is what its reader tells.
        formats = formats & _PARTS.get(kind, _ALL) or formats
    if item.get("type") == "message":
        # The reply of Anthropic's API says this too; its parts are of type "text".
        formats = formats & (_RESPONSES | (_ANTHROPIC if kinds else frozenset())) or _RESPONSES
    return formats


_READERS: Mapping[Format, Any] = {
    "OpenAI chat": from_openai,
    "OpenAI Responses": from_responses,
    "Anthropic": from_anthropic,
}


def _moved(problem: str, by: int) -> str:
    """A problem "messages[2].role: ..." of a part of a list, with the index in the whole list."""
    head, bracket, rest = problem.partition("[")
    number, closing, what = rest.partition("]")
    return f"messages[{int(number) + by}]{what}" if bracket and closing and number.isdigit() else f"{head}{rest}"
