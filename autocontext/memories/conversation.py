"""What a conversation is about now: the text that memories are ranked against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.errors import ConfigError
from autocontext.messages import Msg, is_note, is_tool_message

INJECTED = "_injected"
"""Metadata key of a message that was put into a request and is no part of the conversation."""


def extract_conversation_context(msgs: Iterable[Msg | Mapping[str, Any]], max_turns: int = 3) -> str:
    """The texts of the last `max_turns` user messages and the answers between them, oldest first, joined by a space.

    Takes Msgs and OpenAI chat dicts. Left out: system and tool messages, answers that call tools, notes made by a
    compression, injected messages, and everything that is not text. "" when nothing is left.
    """
    if isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 0:
        raise ConfigError(f"max_turns must be a whole number of at least 0 (got {max_turns!r})")
    texts: list[str] = []
    turns = 0
    for message in reversed(list(msgs)):
        if turns >= max_turns:
            break
        role, text = _spoken(message)
        if not text:
            continue
        texts.append(text)
        turns += role == "user"
    return " ".join(reversed(texts))


def is_injected(msg: Msg) -> bool:
    """Whether a message was put into the request by an injector."""
    return INJECTED in msg.metadata


def last_user_turn(msgs: Iterable[Msg]) -> int | None:
    """The index of the last message that a user wrote, None when there is none."""
    spoken = [i for i, m in enumerate(msgs) if m.role == "user" and _spoken(m)[0] == "user"]
    return spoken[-1] if spoken else None


def _spoken(message: Msg | Mapping[str, Any]) -> tuple[str, str]:
    """Who says what, ("", "") when it is nothing that a person would call part of the talk."""
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
