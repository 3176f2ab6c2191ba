"""A fake of DashScope's native text generation endpoint, without streaming."""

from __future__ import annotations

from typing import Any

from tests.fakes.chat_rules import check_messages
from tests.fakes.http_server import FakeService, Refusal, Reply

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_PARAMETERS = frozenset(
    {
        "result_format",
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "seed",
        "stop",
        "repetition_penalty",
        "presence_penalty",
        "enable_thinking",
        "thinking_budget",
        "enable_search",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "incremental_output",
        "n",
    }
)


class FakeDashScope(FakeService):
    """POST {base_url}/services/aigc/text-generation/generation; `base_url` ends in /api/v1."""

    prefix = "/api/v1"
    path = "/services/aigc/text-generation/generation"

    def check(self, body: Any) -> None:
        if body.keys() != {"model", "input", "parameters"}:
            raise Refusal(400, "the body must hold model, input and parameters", "InvalidParameter")
        if not isinstance(body["model"], str) or not body["model"]:
            raise Refusal(400, "Model not exist.", "InvalidParameter")
        parameters = body["parameters"]
        if unknown := sorted(parameters.keys() - _PARAMETERS):
            raise Refusal(400, f"unknown parameter {unknown[0]}", "InvalidParameter")
        if parameters.get("result_format") != "message":
            raise Refusal(400, "this fake answers in result_format=message only", "InvalidParameter")
        limit = parameters.get("max_tokens", 1)
        if not isinstance(limit, int) or limit < 1:
            raise Refusal(400, "Range of max_tokens should be [1, ...]", "InvalidParameter")
        check_messages(body["input"].get("messages"), _ROLES)

    def answer(self, reply: Reply, body: Any) -> Any:
        message = {"role": "assistant", "content": reply.text, **reply.message}
        if reply.tool_calls:
            message["tool_calls"] = reply.tool_calls
        return {
            "request_id": "req-1",
            "output": {"choices": [{"finish_reason": reply.finish, "message": message}]},
            "usage": {
                "input_tokens": reply.input_tokens,
                "output_tokens": reply.output_tokens,
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
        }

    def refusal(self, refusal: Refusal) -> Any:
        code = "InvalidApiKey" if refusal.status == 401 else refusal.code
        return {"request_id": "req-1", "code": code, "message": refusal.message}
