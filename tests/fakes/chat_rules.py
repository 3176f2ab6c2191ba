"""What strict chat services demand of a list of messages."""

from __future__ import annotations

from typing import Any

from tests.fakes.http_server import Refusal


def check_messages(messages: Any, roles: frozenset[str]) -> None:
    """Raise Refusal (400) for the first fault: shape, role, content, or a call and its results that do not pair."""
    if not isinstance(messages, list) or not messages:
        raise _bad("'messages' must be a list with at least one message")
    waiting: list[str] = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        if not isinstance(message, dict) or message.get("role") not in roles:
            raise _bad(f"{where}: the role must be one of {sorted(roles)}")
        _check_content(message, where)
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                raise _bad(f"{where}: a message with role 'tool' must answer a preceding 'tool_calls'")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise _bad(f"{where}: the tool calls {waiting} have no response messages")
        waiting = _calls(message, where)
    if waiting:
        raise _bad(f"the tool calls {waiting} have no response messages")


def _check_content(message: dict[str, Any], where: str) -> None:
    content = message.get("content")
    if content is None:
        if message["role"] != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            raise _bad(f"{where}: 'content' must be a string or a list of parts")
    elif isinstance(content, list):
        if not content or not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in content):
            raise _bad(f"{where}: each part of 'content' needs a 'type'")
    elif not isinstance(content, str):
        raise _bad(f"{where}: 'content' must be a string or a list of parts")


def _calls(message: dict[str, Any], where: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return []
    if message["role"] != "assistant" or not isinstance(calls, list) or not calls:
        raise _bad(f"{where}: 'tool_calls' must be a non-empty list of an assistant message")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function" or not isinstance(call.get("id"), str):
            raise _bad(f"{where}: a tool call needs 'id', 'type' and 'function'")
        if not isinstance(function.get("name"), str) or not isinstance(function.get("arguments"), str):
            raise _bad(f"{where}: a tool call's function needs 'name' and 'arguments' as strings")
    return [call["id"] for call in calls]


def _bad(message: str) -> Refusal:
    return Refusal(400, message, "invalid_request")
