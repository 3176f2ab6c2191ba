"""The Responses API's input items: what the service refuses, and the chat messages that say the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
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
_OUTPUT_OF = {
    f"{kind}_call": f"{kind}_call_output"
    for kind in ("function", "custom_tool", "shell", "local_shell", "apply_patch", "computer")
}
"""The only kind of item that answers a call of each kind."""
_ROLES = ("user", "assistant", "system", "developer")


def as_chat(  # noqa: C901 (one case for each kind of item)
    body: dict[str, Any], put_out: Iterable[list[dict[str, Any]]] = ()
) -> list[dict[str, Any]]:
    """The request's conversation as chat messages. Raises Refusal (400) for items that the service does not take.

    `put_out`: what the service has answered before, each time in one go, of which it remembers the ids.
    """
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise _bad("'input' must be a string or a list with at least one item")
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    called: dict[str, str] = {}
    answered: set[str] = set()
    for i, item in enumerate(items):
        where = f"input[{i}]"
        if not isinstance(item, dict):
            raise _bad(f"{where} must be an object")
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind in _OUTPUT_OF:
            called[_text(item, "call_id", where)] = _OUTPUT_OF[kind]
            answered.discard(item["call_id"])
            messages = _with_call(messages, item, where)
        elif kind in _OUTPUT_OF.values():
            call = _text(item, "call_id", where)
            if called.get(call) != kind or call in answered:
                raise _bad(f"No tool call found for {kind.replace('_', ' ')} with call_id {call}.")
            answered.add(call)
            messages.append({"role": "tool", "tool_call_id": call, "content": _output(item, where)})
        elif kind == "message":
            messages.append(_message(item, where))
        elif kind == "compaction":
            # What was said before is in it; the model reads it together with the words of the users before it.
            messages = [m for m in messages if m["role"] in ("user", "system", "developer")]
            messages.append({"role": "assistant", "content": _opened(item, where)})
            called, answered = {}, set()
        elif kind == "reasoning":
            if item.get("encrypted_content") is not None:
                _opened(item, where)
        else:
            raise _bad(f"{where}: invalid value {kind!r} for 'type'")
    if waiting := called.keys() - answered:
        raise _bad(f"No tool output found for function call {min(waiting)}.")
    _check_reasoning(items, put_out)
    return messages


def _check_reasoning(items: list[Any], put_out: Iterable[list[dict[str, Any]]]) -> None:
    """Reasoning and what it led to are taken together only, next to each other."""
    needed: dict[str, str] = {}
    led_to: dict[str, Any] = {}
    for output in put_out:
        led_by = ""
        led_to.update((item["id"], following["id"]) for item, following in pairwise(output) if "id" in item)
        for item in output:
            if item["type"] == "reasoning":
                led_by = item["id"]
            elif led_by and "id" in item:
                needed[item["id"]] = led_by
    seen: set[Any] = set()
    for item, following in pairwise([*items, {}]):
        own = item.get("id")
        if own in needed and needed[own] not in seen:
            kind, missing = item.get("type"), needed[own]
            raise _bad(
                f"Item '{own}' of type '{kind}' was provided without its required 'reasoning' item: '{missing}'."
            )
        apart = following.get("id") != led_to.get(own, following.get("id"))
        if item.get("type") == "reasoning" and (apart or not _is_output(following)):
            raise _bad(f"Item '{own}' of type 'reasoning' was provided without its required following item.")
        seen.add(own)


def _is_output(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or str(item.get("type")).endswith(("reasoning", "_call"))


def _with_call(messages: list[dict[str, Any]], item: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Adjacent calls belong to one assistant message."""
    if item["type"] != "function_call":
        key = "input" if item["type"] == "custom_tool_call" else "operation" if "patch" in item["type"] else "action"
        if not item.get(key):
            raise _bad(f"Missing required parameter: '{where}.{key}'.")
        item = {**item, "id": None, "name": item.get("name", item["type"]), "arguments": json.dumps(item[key])}
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
    if item["type"] == "computer_call_output":
        if not isinstance(output, dict) or output.get("type") != "computer_screenshot":
            raise _bad(f"{where}.output: must be a computer_screenshot")
        return json.dumps(output)
    if item["type"] == "shell_call_output":
        if not isinstance(output, list) or not all(isinstance(part, dict) and "stdout" in part for part in output):
            raise _bad(f"{where}.output: must be a list of objects with stdout, stderr and outcome")
        return json.dumps(output)
    if item["type"] == "apply_patch_call_output" and item.get("status") not in ("completed", "failed"):
        raise _bad(f"{where}.status: must be 'completed' or 'failed'")
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
