"""The Responses API's input items: what the service refuses, and the chat messages that say the same."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.http_server import Refusal
from tests.fakes.sealing import seal, unseal

PARAMETERS = frozenset(
    {
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
        "store", "include",
        "max_output_tokens", "temperature", "top_p", "top_logprobs", "metadata", "text", "reasoning",
        "truncation", "user", "previous_response_id", "conversation", "prompt_cache_key", "prompt_cache_retention",
        "service_tier", "background", "context_management", "safety_identifier", "max_tool_calls", "prompt",
    }
)  # fmt: skip
_PARTS = {"input_text", "input_image", "input_file", "output_text", "refusal"}
_ROLES = ("user", "assistant", "system", "developer")


def as_chat(body: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: C901 (one case for each kind of item)
    """The request's conversation as chat messages. Raises Refusal (400) for items that the service does not take."""
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise _bad("'input' must be a string or a list with at least one item")
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    called: set[str] = set()
    answered: set[str] = set()
    for i, item in enumerate(items):
        where = f"input[{i}]"
        if not isinstance(item, dict):
            raise _bad(f"{where} must be an object")
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "function_call":
            called.add(_text(item, "call_id", where))
            answered.discard(item["call_id"])
            messages = _with_call(messages, item, where)
        elif kind == "function_call_output":
            call = _text(item, "call_id", where)
            if call not in called - answered:
                raise _bad(f"No tool call found for function call output with call_id {call}.")
            answered.add(call)
            messages.append({"role": "tool", "tool_call_id": call, "content": _output(item, where)})
        elif kind == "message":
            messages.append(_message(item, where))
        elif kind == "compaction":
            # What was said before is in it; the model reads it together with the words of the users before it.
            messages = [m for m in messages if m["role"] in ("user", "system", "developer")]
            messages.append({"role": "assistant", "content": _opened(item, where)})
            called, answered = set(), set()
        elif kind == "reasoning":
            if item.get("encrypted_content") is not None:
                _opened(item, where)
        else:
            raise _bad(f"{where}: invalid value {kind!r} for 'type'")
    if called != answered:
        raise _bad(f"No tool output found for function call {min(called - answered)}.")
    return messages


def _with_call(messages: list[dict[str, Any]], item: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Adjacent calls belong to one assistant message."""
    if item.get("id") is not None and not str(item["id"]).startswith("fc"):
        raise _bad(f"{where}.id: expected an ID that begins with 'fc'")
    function = {"name": _text(item, "name", where), "arguments": _text(item, "arguments", where)}
    call = {"id": item["call_id"], "type": "function", "function": function}
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        return [*messages[:-1], {**last, "tool_calls": [*last.get("tool_calls", []), call]}]
    return [*messages, {"role": "assistant", "content": None, "tool_calls": [call]}]


def _message(item: dict[str, Any], where: str) -> dict[str, Any]:
    if item.get("role") not in _ROLES:
        raise _bad(f"{where}.role: must be one of {_ROLES}")
    if item.get("id") is not None and not str(item["id"]).startswith("msg"):
        raise _bad(f"{where}.id: expected an ID that begins with 'msg'")
    content = item.get("content")
    if isinstance(content, str):
        return {"role": item["role"], "content": content}
    return {"role": item["role"], "content": _parts(content, f"{where}.content", item["role"])}


def _parts(content: Any, where: str, role: str) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise _bad(f"{where}: must be a string or a list of parts")
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        spoken = kind in ("output_text", "refusal")
        if kind not in _PARTS or spoken != (role == "assistant"):
            raise _bad(f"{where}: invalid value {kind!r} for a part of role {role}")
        if kind == "input_image":
            parts.append({"type": "image_url", "image_url": {"url": part.get("image_url") or part.get("file_id")}})
        else:
            parts.append({"type": "text", "text": part.get("text") or part.get("refusal") or ""})
    return parts or [{"type": "text", "text": ""}]


def _output(item: dict[str, Any], where: str) -> Any:
    output = item.get("output")
    if isinstance(output, str):
        return output
    parts = _parts(output, f"{where}.output", "user")
    return [part if part["type"] == "text" else {"type": "text", "text": "[image]"} for part in parts]


def compacted(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A conversation as the service's own compaction item: the beginning of each message."""
    summary = json.dumps([str(m.get("content"))[:30] for m in messages])
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": seal(summary)}


def _opened(item: dict[str, Any], where: str) -> str:
    if unknown := sorted(item.keys() - {"type", "id", "encrypted_content", "summary", "content", "status"}):
        raise _bad(f"Unknown parameter: '{where}.{unknown[0]}'.")
    text = unseal(item.get("encrypted_content"))
    if text is None:
        raise Refusal(400, f"The encrypted content of {where} could not be verified.", "invalid_encrypted_content")
    return text


def _text(item: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(item.get(key), str):
        raise _bad(f"Missing required parameter: '{where}.{key}'.")
    return str(item[key])


def _bad(message: str) -> Refusal:
    return Refusal(400, message, "invalid_request")
