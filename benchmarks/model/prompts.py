"""A context as a chat that any model's template takes: system, user and assistant, calls and results as text."""

from __future__ import annotations

from collections.abc import Iterable

from chat import Chat, content_text


def call_text(call: Chat) -> str:
    """A call as models of the Qwen and SmolLM families write it; the arguments as the agent wrote them."""
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    return f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>'


def calls_text(message: Chat) -> str:
    """All calls of a message."""
    return "\n".join(map(call_text, message.get("tool_calls") or ()))


def plain_chat(context: Iterable[Chat]) -> list[Chat]:
    """The context with results as the user's, and neighbours of one role as one message; empty messages left out."""
    plain: list[Chat] = []
    for message in context:
        role, text = message["role"], content_text(message)
        if role == "tool":
            role, text = "user", f"<tool_response>\n{text}\n</tool_response>"
        text = "\n".join(filter(None, [text, calls_text(message)]))
        if not text:
            continue
        if plain and plain[-1]["role"] == role:
            plain[-1]["content"] += "\n" + text
        else:
            plain.append({"role": role, "content": text})
    return plain
