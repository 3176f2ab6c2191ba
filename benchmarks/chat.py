"""OpenAI chat messages as the replays see them: their tokens, their texts, and plain truncation to a budget.

A message is a dict that is never changed in place, so what was found about it is remembered by identity. Tokens are
o200k_base unless another counter is named, 4 more for a message and 4 more for a call. A group is an assistant message
with its results, or any other message alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from autocontext.tokens import get_counter

Chat = dict[str, Any]
T = TypeVar("T")

_OVERHEAD = 4
_CUT = "\n[... cut ...]\n"
_NOT_WORTH_CUTTING = 20
"""Tokens; texts below this are left whole."""


class Remembered(Generic[T]):
    """Caches a function's results by the identity of messages; keeps the messages, so that no id is reused."""

    def __init__(self, find: Callable[[Chat], T]) -> None:
        self._find = find
        self._found: dict[int, tuple[Chat, T]] = {}

    def __call__(self, message: Chat) -> T:
        hit = self._found.get(id(message))
        if hit is None:
            hit = self._found[id(message)] = (message, self._find(message))
        return hit[1]


def quarter_bytes(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up; unlike the library's own "bytes4" also of base64."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


COUNTERS: dict[str, Callable[[str], int]] = {
    "o200k_base": get_counter("o200k_base").count_text,
    "bytes4": quarter_bytes,
}


class Tokens:
    """Counts texts, messages and contexts; `name` is one of COUNTERS."""

    def __init__(self, name: str = "o200k_base") -> None:
        self.name = name
        self.text: Callable[[str], int] = lru_cache(maxsize=200_000)(COUNTERS[name])
        self.forget()

    def forget(self) -> None:
        """Release the messages of a finished conversation."""
        self.message: Callable[[Chat], int] = Remembered(self._of_message)

    def __call__(self, messages: Iterable[Chat]) -> int:
        return sum(map(self.message, messages))

    def _of_message(self, message: Chat) -> int:
        tokens = _OVERHEAD + self.text(content_text(message))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            tokens += _OVERHEAD + self.text(function.get("name") or "") + self.text(function.get("arguments") or "")
        return tokens


def content_text(message: Chat) -> str:
    """The text of a message's content."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


def scalars(arguments: str | None) -> list[tuple[str, str]]:
    """(key, text) of every string and number (a Number) in a call's arguments; broken JSON is one text."""
    if not arguments:
        return []
    try:
        data = json.loads(arguments, parse_int=Number, parse_float=Number)
    except ValueError:
        return [("", arguments)]
    pairs: list[tuple[str, str]] = []

    def walk(key: str, value: Any) -> None:
        if isinstance(value, str):
            pairs.append((key, value))
        elif isinstance(value, dict):
            for name, inner in value.items():
                walk(name, inner)
        elif isinstance(value, list):
            for inner in value:
                walk(key, inner)

    walk("", data)
    return pairs


def visible_text(message: Chat) -> str:
    """All text that can show a value: the content and the decoded arguments."""
    return "\n".join([content_text(message), *_arguments(message)])


def source_text(message: Chat) -> str:
    """Text that a value can come from: not the assistant's own words, but the arguments of its calls."""
    return "\n".join([*([] if message["role"] == "assistant" else [content_text(message)]), *_arguments(message)])


def _arguments(message: Chat) -> list[str]:
    return [text for call in message.get("tool_calls") or () for _, text in scalars(call["function"].get("arguments"))]


def groups(messages: Iterable[Chat]) -> list[list[Chat]]:
    """Each assistant message with the results that follow it; other messages alone."""
    groups_: list[list[Chat]] = []
    for message in messages:
        if (
            message["role"] == "tool"
            and groups_
            and (groups_[-1][0].get("tool_calls") or groups_[-1][0]["role"] == "tool")
        ):
            groups_[-1].append(message)
        else:
            groups_.append([message])
    return groups_


def invalid(messages: Iterable[Chat]) -> bool:
    """Whether a call lacks its result, or a result its call."""
    unanswered: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in unanswered:
                return True
            unanswered.discard(message["tool_call_id"])
        elif unanswered:
            return True
        else:
            unanswered = {call["id"] for call in message.get("tool_calls") or ()}
    return bool(unanswered)


# ------------------------------------------------------------------------------------------------------ truncation
def truncate(messages: Sequence[Chat], window: int, count: Tokens) -> list[Chat]:
    """The system messages, the first user message, and the newest whole groups that fit into `window` tokens.

    The first user message gets a quarter of the window at most. Of a newest group that is larger than what is left,
    the longest texts are cut in the middle.
    """
    if count(messages) <= window:
        return list(messages)
    first = next((i for i, m in enumerate(messages) if m["role"] == "user"), None)
    kept = {i: m for i, m in enumerate(messages) if m["role"] == "system"}
    if first is not None:
        kept[first] = _with_text(messages[first], window // 4, count)
    left = window - count(kept.values())
    place = {id(m): i for i, m in enumerate(messages)}
    rest = groups(m for i, m in enumerate(messages) if m["role"] != "system" and i != first)
    for newest, group in enumerate(reversed(rest)):
        if (cost := count(group)) > left:
            if newest == 0 and left > 0:
                kept |= {place[id(old)]: new for old, new in zip(group, shrunk(group, left, count), strict=True)}
            break
        left -= cost
        kept |= {place[id(m)]: m for m in group}
    return [kept[i] for i in sorted(kept)]


def _with_text(message: Chat, tokens: int, count: Tokens) -> Chat:
    """The message, its text cut if it has more than `tokens` tokens."""
    if count.message(message) <= tokens:
        return message
    return {**message, "content": _cut(content_text(message), tokens - _OVERHEAD, count)}


def _cut(text: str, tokens: int, count: Tokens) -> str:
    """Head and tail of a text, together of about `tokens` tokens."""
    if (size := count.text(text)) <= tokens:
        return text
    keep = max(0, int(len(text) * tokens / max(1, size)) - 40)
    while True:
        half = keep // 2
        shorter = text[:half] + _CUT + (text[-half:] if half else "")
        if keep < 80 or count.text(shorter) <= tokens:
            return shorter
        keep = int(keep * 0.9)


def shrunk(group: Sequence[Chat], budget: int, count: Tokens) -> list[Chat]:
    """The group with its longest texts cut until it fits; enormous arguments are emptied."""
    group = list(group)
    for _ in range(len(group) + 3):
        over = count(group) - budget
        if over <= 0:
            return group
        longest = max(range(len(group)), key=lambda i: count.text(content_text(group[i])))
        text = content_text(group[longest])
        if (size := count.text(text)) < _NOT_WORTH_CUTTING:
            break
        group[longest] = {**group[longest], "content": _cut(text, max(10, size - over - 10), count)}
    for i, message in enumerate(group):
        if count(group) > budget and message.get("tool_calls"):
            calls = [{**c, "function": {**c["function"], "arguments": "{}"}} for c in message["tool_calls"]]
            group[i] = {**message, "tool_calls": calls}
    return group
