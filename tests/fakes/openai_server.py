"""A fake of OpenAI's chat completions and Responses endpoints, streaming or not, with the service's own compaction.

    with FakeOpenAI(window=16_000, default=agent) as service: ...

`agent` is a function of a Turn, so that a test can script what the model does with what it is shown. With a `window`
requests of more tokens are refused, as the service does.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autocontext.tokens import get_counter
from tests.fakes import openai_responses
from tests.fakes.chat_rules import check_messages
from tests.fakes.http_server import FakeService, Item, Raw, Refusal, Reply, Request, Streamed
from tests.fakes.openai_events import chat_events, response_events

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_PARAMETERS = frozenset(
    {
        "model", "messages", "temperature", "top_p", "n", "stream", "stream_options", "stop", "max_tokens",
        "max_completion_tokens", "presence_penalty", "seed", "tools", "frequency_penalty", "logit_bias", "user",
        "response_format", "tool_choice", "parallel_tool_calls", "reasoning_effort", "verbosity", "metadata", "store",
        "logprobs", "top_logprobs", "modalities", "audio", "prediction", "service_tier", "prompt_cache_key",
        "prompt_cache_retention", "safety_identifier", "web_search_options",
    }
)  # fmt: skip
_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PER_MESSAGE, _PRIMING, _PER_IMAGE = 4, 3, 765


@dataclass(frozen=True)
class Turn:
    """One request, whichever endpoint it came to: its conversation as chat messages, and the names of its tools."""

    messages: list[dict[str, Any]]
    tools: list[str]
    tokens: int
    body: dict[str, Any]


class FakeOpenAI(FakeService):
    """POST {base_url}/chat/completions and {base_url}/responses; `base_url` ends in /v1."""

    prefix = "/v1"
    path = "/chat/completions"
    responses = "/responses"
    compact = "/responses/compact"

    def __init__(
        self,
        *,
        api_key: str = "test-key",
        default: Item | Callable[[Turn], Item] | None = None,
        window: int | None = None,
    ) -> None:
        usual = (lambda body: default(self.turn(body))) if callable(default) else default
        super().__init__(api_key=api_key, default=usual)
        self.window = window
        self.refused: list[str] = []
        """What was wrong with the requests that were refused."""
        self.largest = 0
        """Tokens of the largest request so far."""

    def respond(self, request: Request) -> Raw | Streamed | None:
        known = [self.prefix + path for path in (self.path, self.responses, self.compact)]
        if request.path in known and isinstance(request.body, dict):
            # The body alone tells the two endpoints apart, but each takes only its own.
            mine = "messages" if request.path == known[0] else "input"
            if mine not in request.body:
                request = Request(request.path, request.headers, {**request.body, mine: None})
        if request.path == self.prefix + self.compact and isinstance(request.body, dict):
            request = Request(request.path, request.headers, {**request.body, "_compact": True})
        answer = super().respond(request)
        if isinstance(answer, Raw) and answer.status in (400, 404):
            self.refused.append(json.dumps(answer.body))
        return answer

    def _admit(self, request: Request) -> None:
        alike = request.path in (self.prefix + self.responses, self.prefix + self.compact)
        super()._admit(Request(self.prefix + self.path if alike else request.path, request.headers, request.body))

    def turn(self, body: dict[str, Any]) -> Turn:
        """What a request says, in one form."""
        messages = openai_responses.as_chat(body) if "input" in body else body["messages"]
        tools = [tool.get("function", tool).get("name", "") for tool in body.get("tools") or ()]
        form = body.get("response_format") or (body.get("text") or {}).get("format") or {}
        schemas = [*(body.get("tools") or ()), *([form] if form.get("type") == "json_schema" else [])]
        return Turn(messages=messages, tools=tools, tokens=_tokens(messages, schemas), body=body)

    def check(self, body: Any) -> None:
        known = openai_responses.PARAMETERS if "input" in body else _PARAMETERS
        if unknown := sorted(body.keys() - known - {"_compact"}):
            raise _bad(f"Unrecognized request argument supplied: {unknown[0]}")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise _bad("you must provide a model parameter")
        if "max_tokens" in body and "max_completion_tokens" in body:
            raise _bad("max_tokens and max_completion_tokens exclude each other")
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            if body.get(name) is not None and (not isinstance(body[name], int) or body[name] < 1):
                raise _bad(f"{name} must be an integer of at least 1")
        if body.get("stream_options") is not None and not body.get("stream"):
            raise _bad("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
        _check_tools(body)
        if "input" not in body:
            _check_parts(body.get("messages"))
            check_messages(body["messages"], _ROLES)
        turn = self.turn(body)
        check_messages(turn.messages, _ROLES)
        self.largest = max(self.largest, turn.tokens)
        if self.window is not None and turn.tokens > self.window:
            text = f"This model's maximum context length is {self.window} tokens. Your messages have {turn.tokens}."
            raise Refusal(400, text, "context_length_exceeded")

    def answer(self, reply: Reply, body: Any) -> Any:
        if "_compact" in body:
            return self._compacted(reply, body)
        return self._response(reply, body) if "input" in body else _completion(reply, body)

    def _response(self, reply: Reply, body: Any) -> dict[str, Any]:
        """The response; over the threshold of `context_management` the service compacts what it was sent, first."""
        response, turn = _response(reply, body), self.turn(body)
        limits = [e["compact_threshold"] for e in body.get("context_management") or () if e["type"] == "compaction"]
        if any(turn.tokens > limit for limit in limits):
            response["output"].insert(0, openai_responses.compacted(turn.messages))
        return response

    def _compacted(self, reply: Reply, body: Any) -> dict[str, Any]:
        """All messages of the user, then one item: the next window as it is to be sent."""
        items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        said = [
            {"type": "message", "id": f"msg_{i}", "status": "completed", **m}
            for i, m in enumerate(items)
            if m.get("role") == "user"
        ]
        for message in said:
            if isinstance(message["content"], str):
                message["content"] = [{"type": "input_text", "text": message["content"]}]
        usage = _response(reply, body)["usage"]
        output = [*said, openai_responses.compacted(self.turn(body).messages)]
        return {"id": "resp_2", "object": "response.compaction", "created_at": 1, "output": output, "usage": usage}

    def events(self, reply: Reply, body: Any) -> list[bytes]:
        if "input" in body:
            return list(response_events(self._response(reply, body)))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return list(chat_events(_completion(reply, body), usage=usage))

    def refusal(self, refusal: Refusal) -> Any:
        kind = "authentication_error" if refusal.status == 401 else "invalid_request_error"
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}


def _completion(reply: Reply, body: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, **reply.message}
    if reply.tool_calls:
        message["tool_calls"] = reply.tool_calls
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": reply.finish, "message": message, "logprobs": None}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def _response(reply: Reply, body: Any) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.text is not None and not (reply.tool_calls and not reply.text):
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{uuid.uuid4().hex}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for call in reply.tool_calls or ():
        own = {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"], "status": "completed"}
        output.append({**own, **call["function"]})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    total = reply.input_tokens + reply.output_tokens
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "total_tokens": total,
            **details,
        },
    }


def _check_tools(body: dict[str, Any]) -> None:
    names: set[str] = set()
    for i, tool in enumerate(body.get("tools") or ()):
        function = tool if "input" in body else tool.get("function") or {}
        name = function.get("name")
        if tool.get("type") != "function" or not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise _bad(f"tools[{i}]: must be a function with a name")
        if not isinstance(function.get("parameters", {}), dict):
            raise _bad(f"tools[{i}]: 'parameters' must be a JSON schema")
        if name in names:
            raise _bad(f"tools[{i}]: the name {name!r} is taken")
        names.add(name)
    if not body.get("tools") and (body.get("parallel_tool_calls") is not None and "input" not in body):
        raise _bad("'parallel_tool_calls' is only allowed when 'tools' are specified")


def _check_parts(messages: Any) -> None:
    if not isinstance(messages, list):
        raise _bad("'messages' must be a list with at least one message")
    for i, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        allowed = _PARTS.get(message.get("role") if isinstance(message, dict) else "", set())
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in allowed:
                raise _bad(f"messages[{i}]: invalid part type {kind!r} for role {message.get('role')!r}")
            if kind == "image_url" and not isinstance((part.get("image_url") or {}).get("url"), str):
                raise _bad(f"messages[{i}]: 'image_url' needs a 'url'")


@lru_cache(maxsize=4_096)
def _count(text: str) -> int:
    """Tokens of a text; most texts of a request were in the one before."""
    return get_counter("o200k_base").count_text(text)


def _tokens(messages: list[dict[str, Any]], schemas: list[Any]) -> int:
    """Tokens of a request as the service counts them (OpenAI's cookbook), schemas as compact JSON."""
    total = _PRIMING + sum(_count(json.dumps(schema, ensure_ascii=False)) for schema in schemas)
    for message in messages:
        total += _PER_MESSAGE + _count(message.get("name") or "")
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"text": content or ""}]:
            total += _PER_IMAGE if part.get("type") == "image_url" else _count(part.get("text") or "")
        for call in message.get("tool_calls") or ():
            total += _PER_MESSAGE + _count(call["function"]["name"]) + _count(call["function"]["arguments"])
    return total


def _bad(message: str) -> Refusal:
    return Refusal(400, message, "invalid_request")
