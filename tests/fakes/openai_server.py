"""A fake of OpenAI's chat completions endpoint, without streaming."""

from __future__ import annotations

from typing import Any

from tests.fakes.chat_rules import check_messages
from tests.fakes.http_server import FakeService, Refusal, Reply

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_PARAMETERS = frozenset(
    {
        "model",
        "messages",
        "temperature",
        "top_p",
        "n",
        "stream",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "presence_penalty",
        "seed",
        "tools",
        "frequency_penalty",
        "logit_bias",
        "user",
        "response_format",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "metadata",
        "store",
        "logprobs",
        "top_logprobs",
    }
)


class FakeOpenAI(FakeService):
    """POST {base_url}/chat/completions; `base_url` ends in /v1."""

    prefix = "/v1"
    path = "/chat/completions"

    def check(self, body: Any) -> None:
        if unknown := sorted(body.keys() - _PARAMETERS):
            raise Refusal(400, f"Unrecognized request argument supplied: {unknown[0]}", "invalid_request")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise Refusal(400, "you must provide a model parameter", "invalid_request")
        if "max_tokens" in body and "max_completion_tokens" in body:
            raise Refusal(400, "max_tokens and max_completion_tokens exclude each other", "invalid_request")
        for name in ("max_tokens", "max_completion_tokens"):
            if name in body and (not isinstance(body[name], int) or body[name] < 1):
                raise Refusal(400, f"{name} must be an integer of at least 1", "invalid_request")
        if body.get("stream"):
            raise Refusal(400, "this fake does not stream", "invalid_request")
        check_messages(body.get("messages"), _ROLES)

    def answer(self, reply: Reply, body: Any) -> Any:
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

    def refusal(self, refusal: Refusal) -> Any:
        kind = "authentication_error" if refusal.status == 401 else "invalid_request_error"
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}
