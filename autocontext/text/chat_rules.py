"""The rules of strict chat services about a list of messages, given as Msgs or OpenAI chat dicts.

- Roles are known; only the assistant calls tools; results are in tool messages (in Msgs also in the user's).
- The calls of one message have unique ids; the messages right after a call answer it exactly once.
- A result answers an open call. A later message may reuse a tool id.
- An assistant message without calls is not empty: Anthropic, Bedrock and Moonshot refuse empty ones.
- Dicts also need the types, names and content parts that OpenAI's chat completions API accepts.

An empty list is valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autocontext.messages import ContentBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_PARTS = {"user": ("text", "image_url", "input_audio", "file", "video_url"), "assistant": ("text", "refusal")}


@dataclass
class _Turn:
    """What the rules need of a Msg or dict."""

    role: str
    calls: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    says: bool = True
    """Whether there is anything to read or see."""


def first_violation(messages: Iterable[Msg | Mapping[str, Any]]) -> str | None:
    """The first broken rule, as "messages[3]: ...", or None. Accepts Msgs and OpenAI chat dicts."""
    open_calls: dict[str, None] = {}  # in their order
    asked_at = -1
    answered: set[str] = set()
    for i, message in enumerate(messages):
        try:
            turn = _turn_of_msg(message) if isinstance(message, Msg) else _turn_of_dict(message)
            _check_turn(turn)
            for id_ in turn.results:
                _require(id_ not in answered, f"the call {id_!r} is answered twice")
                _require(id_ in open_calls, f"the result {id_!r} answers no call right before it (orphan result)")
                del open_calls[id_]
                answered.add(id_)
        except _BrokenRuleError as e:
            return f"messages[{i}]: {e}"
        if turn.role not in ("tool", "function") and (turn.calls or turn.says or not turn.results):
            if open_calls:
                return _unanswered(open_calls, asked_at, f"before messages[{i}]")
            open_calls, asked_at, answered = dict.fromkeys(turn.calls), i, set()
    return _unanswered(open_calls, asked_at, "at the end") if open_calls else None


def _unanswered(calls: Iterable[str], asked_at: int, when: str) -> str:
    return f"messages[{asked_at}]: calls {[*calls]} are unanswered {when} (unanswered call)"


class _BrokenRuleError(Exception):
    """A rule does not hold."""


def _require(holds: object, rule: str) -> None:
    if not holds:
        raise _BrokenRuleError(rule)


def _check_turn(turn: _Turn) -> None:
    _require(not turn.calls or turn.role == "assistant", f"a {turn.role} message calls tools; only the assistant may")
    _require(not turn.results or turn.role != "assistant", "an assistant message holds tool results")
    _require(not turn.results or turn.role != "system", "a system message holds tool results")
    _require(turn.results or turn.role not in ("tool", "function"), "a tool message holds no tool result")
    twice = {call for call, count in Counter(turn.calls).items() if count > 1}
    _require(not twice, f"tool ids {sorted(twice)} are used twice in one message")
    empty = turn.role == "assistant" and not turn.calls and not turn.says
    _require(not empty, "an assistant message without calls is empty")


def _turn_of_msg(msg: Msg) -> _Turn:
    others = [b for b in msg.content if not isinstance(b, ToolUseBlock | ToolResultBlock)]
    if msg.role == "tool":
        _require(all(isinstance(b, ToolResultBlock) for b in msg.content), "a tool message holds more than results")
    calls, results = [b.id for b in msg.tool_uses], [b.id for b in msg.tool_results]
    # Beside a result blanks are written as a message, too, which would stand between the results.
    said = [not isinstance(b, ThinkingBlock) if results else says(b) for b in others]
    return _Turn(msg.role, calls, results, says=any(said))


def says(block: ContentBlock) -> bool:
    """Whether a block holds anything to read or see."""
    if isinstance(block, TextBlock):
        return bool(block.text.strip())
    return not isinstance(block, ThinkingBlock)


def _turn_of_dict(message: Mapping[str, Any]) -> _Turn:
    _require(isinstance(message, Mapping), f"is a {type(message).__name__}, not a message")
    role = message.get("role")
    _require(role in _CHAT_ROLES, f"the role {role!r} is unknown")
    turn = _Turn(str(role), says=_check_content(message))
    name = message.get("name")
    if name is not None and role != "tool":
        _require(isinstance(name, str) and _NAME.fullmatch(name), f"name must match {_NAME.pattern}, not {name!r}")
    if role == "tool":
        _require(isinstance(message.get("tool_call_id"), str), "tool_call_id must be a string")
        turn.results.append(message["tool_call_id"])
    if role == "function":
        _require(isinstance(name, str), "name must be a string")
        turn.results.append(f"function:{name}")
    if role == "assistant":
        turn.calls.extend(_calls_of_dict(message))
        turn.says = turn.says or any(message.get(k) for k in ("refusal", "audio", "images"))
    else:
        _require(not message.get("tool_calls"), f"a {role} message calls tools; only the assistant may")
    return turn


def _check_content(message: Mapping[str, Any]) -> bool:
    """Whether the content is not empty. Raises if the role may not use its form."""
    role, content = message["role"], message.get("content")
    if content is None:
        _require(role in ("assistant", "function"), f"content of a {role} message must not be null or missing")
        return False
    if isinstance(content, str):
        return bool(content.strip())
    _require(isinstance(content, list) and content, "content must be a string or a list of parts that is not empty")
    kinds = _PARTS.get(role, ("text",))
    for n, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        _require(kind in kinds, f"content[{n}] is of type {kind!r}; a {role} message may hold {', '.join(kinds)}")
        form = str if kind in ("text", "refusal") else Mapping
        _require(isinstance(part.get(kind), form), f"content[{n}].{kind} is missing or malformed")
    return any(p["text"].strip() if p["type"] == "text" else True for p in content)


def _calls_of_dict(message: Mapping[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls")
    _require(calls is None or (isinstance(calls, list) and calls), "tool_calls must be a list that is not empty")
    for n, call in enumerate(calls or ()):
        where = f"tool_calls[{n}]"
        _require(isinstance(call, Mapping) and isinstance(call.get("id"), str), f"{where}.id must be a string")
        kind = call.get("type")
        _require(kind in ("function", "custom"), f"{where}.type must be 'function' or 'custom', not {kind!r}")
        _check_function(call.get(kind), "input" if kind == "custom" else "arguments", f"{where}.{kind}")
        yield call["id"]
    if message.get("function_call") is not None:
        _check_function(message["function_call"], "arguments", "function_call")
        yield f"function:{message['function_call']['name']}"


def _check_function(body: Any, key: str, where: str) -> None:
    _require(isinstance(body, Mapping), f"{where} must be an object")
    name = body.get("name")
    _require(isinstance(name, str) and _NAME.fullmatch(name), f"{where}.name must match {_NAME.pattern}, not {name!r}")
    _require(isinstance(body.get(key), str), f"{where}.{key} must be a string")
