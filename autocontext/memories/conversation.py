"""The recent text of a conversation, which memories are ranked against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.messages import Msg, is_note, is_tool_message
from autocontext.stores.checks import check_whole

INJECTED = "_injected"
"""Metadata key of a message that an injector added to a request; it is not part of the conversation."""


def extract_conversation_context(msgs: Iterable[Msg | Mapping[str, Any]], max_turns: int = 3) -> str:
    """The texts of the last `max_turns` user messages and the answers between them, oldest first, joined by a space.

    Takes Msgs and OpenAI chat dicts. Skips system and tool messages, answers that call tools, compression notes,
    injected messages, and everything that is not text. Raises ConfigError for a `max_turns` below 0.
    """
    check_whole("max_turns", max_turns)
    texts: list[str] = []
    turns = 0
    for message in reversed(list(msgs)):
        if turns >= max_turns:
            break
        role, text = _role_and_text(message)
        if text:
            texts.append(text)
            turns += role == "user"
    return " ".join(reversed(texts))


def is_injected(msg: Msg) -> bool:
    """Whether an injector added this message to the request."""
    return INJECTED in msg.metadata


def last_user_turn(msgs: Iterable[Msg]) -> int | None:
    """The index of the last message that the user wrote, None without one."""
    places = reversed(list(enumerate(msgs)))
    return next((i for i, m in places if _role_and_text(m)[0] == "user"), None)


def _role_and_text(message: Msg | Mapping[str, Any]) -> tuple[str, str]:
    """Role and text of a message of the user or the agent, ("", "") for any other."""
    if isinstance(message, Msg):
        silent = message.role not in ("user", "assistant") or is_tool_message(message)
        if silent or is_note(message) or is_injected(message):
            return "", ""
        return message.role, message.text.strip()
    role = message.get("role")
    if role not in ("user", "assistant") or message.get("tool_calls") or message.get("function_call"):
        return "", ""
    return str(role), _text(message.get("content")).strip()


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    parts = (p if isinstance(p, str) else p.get("text") for p in content if isinstance(p, str | Mapping))
    return "\n".join(p for p in parts if isinstance(p, str))
