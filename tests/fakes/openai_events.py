"""OpenAI's streams: an answer as the server-sent events of chat completions, and of the Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_PIECE = 40
"""Characters of text in one event."""


def chat_events(completion: dict[str, Any], *, usage: bool) -> Iterator[bytes]:
    """A chat completion as chunks: role, text in pieces, calls with their arguments in pieces, finish, usage."""
    choice = completion["choices"][0]
    message = choice["message"]
    frame = {k: completion[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
        return _data({**frame, "choices": choices, **({"usage": None} if usage else {})})

    yield chunk({"role": "assistant", "content": "" if message.get("content") is not None else None, "refusal": None})
    for piece in _pieces(message.get("content") or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        start = {"index": index, "id": call["id"], "type": "function", "function": {**function, "arguments": ""}}
        yield chunk({"tool_calls": [start]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if usage:
        yield _data({**frame, "choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def response_events(response: dict[str, Any]) -> Iterator[bytes]:
    """A response as the events of the Responses API, numbered in order."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(response["output"]):
        place = {"item_id": item["id"], "output_index": index}
        inner, empty = _inner(item, place)
        started = {**item, "status": "in_progress", **empty}
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        events.extend(inner)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\n".encode() + _data({**event, "sequence_number": number})


def _inner(item: dict[str, Any], place: dict[str, Any]) -> tuple[Iterator[dict[str, Any]], dict[str, Any]]:
    """The events within an item, and what is still empty when it begins; a compaction comes whole."""
    if item["type"] == "message":
        return _text_events(item, place), {"content": []}
    if item["type"] == "compaction":
        return iter(()), {}
    return _call_events(item, place), {"arguments": ""}


def _text_events(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {**place, "content_index": 0}
    part = item["content"][0]
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _call_events(item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in _pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield {"type": "response.function_call_arguments.done", **place, **done}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"
