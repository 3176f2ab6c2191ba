"""Summaries from Alibaba Cloud's DashScope (Qwen and others), through the `dashscope` SDK.

Request and reply shapes: DashScope API reference, text generation with `result_format="message"`.
"""

# ruff: noqa: PLC0415 (the SDK is heavy and optional: it is imported where it is first used)

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from autocontext.errors import ModelError
from autocontext.models.per_loop import PerLoop
from autocontext.models.services import ServiceModel, chat_messages, is_retryable, retry_after, scrub, shown_url
from autocontext.requests import ModelReply, ModelRequest

if TYPE_CHECKING:
    import ssl

    import aiohttp
    import requests

_POOL = 32
"""Pooled connections of `complete`; the SDK's shared session pools 10 and warns about each further one."""


class DashScopeChatModel(ServiceModel["requests.Session", "aiohttp.ClientSession"]):
    """A model behind DashScope's native text generation API, sync and async.

    `timeout` is in seconds: for the whole call in `acomplete`, between bytes in `complete` (the SDK's definition).
    Key, address, timeout and connections are passed with each call, so two models never share a setting.
    `extra` goes into each request (`enable_thinking=False`, `seed`, ...). Raises ConfigError without a key,
    MissingExtraError without the SDK; calls raise only ModelError.

        DashScopeChatModel("qwen-plus", temperature=0.2)      # with DASHSCOPE_API_KEY set
    """

    sdk, service, key_variable = "dashscope", "DashScope", "DASHSCOPE_API_KEY"
    key_file_variable = "DASHSCOPE_API_KEY_FILE_PATH"
    reserved = frozenset({
        "api_key", "base_address", "history", "messages", "model", "n", "prompt", "request_timeout", "result_format",
        "session", "stream", "tools",
    })  # fmt: skip

    def _connect(self) -> requests.Session:
        import requests
        from requests.adapters import HTTPAdapter

        session = requests.Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL))
        return session

    def _per_loop(self) -> PerLoop[aiohttp.ClientSession]:
        return PerLoop(_async_session, lambda session: session.close())

    def _call(self, client: requests.Session, request: ModelRequest) -> Any:
        from dashscope import Generation

        return Generation.call(**self._arguments(client, request))

    async def _acall(self, client: aiohttp.ClientSession, request: ModelRequest) -> Any:
        from dashscope import AioGeneration

        return await AioGeneration.call(**self._arguments(client, request))

    def _arguments(self, client: object, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "api_key": self._key.get_secret_value(),
            "session": client,
            "model": self.model,
            "messages": chat_messages(request),
            "result_format": "message",
            "base_address": self.base_url,
            "request_timeout": self.timeout,
            **self._settings,
        }
        if request.max_output_tokens is not None:
            arguments.setdefault("max_tokens", request.max_output_tokens)
        return arguments

    def _reply(self, answer: Any, start: float) -> ModelReply:
        if answer.status_code != HTTPStatus.OK:  # the SDK returns failures instead of raising
            raise self._refusal(answer)
        output = answer.output if isinstance(answer.output, Mapping) else {}
        choices = output.get("choices")
        # Models without the message format answer with `output.text` alone.
        choice = choices[0] if choices else output
        message = choice.get("message") or {"content": output.get("text")}
        if not choices and message["content"] is None:
            raise self._problem("the reply holds no choices")
        tokens = answer.usage if isinstance(answer.usage, Mapping) else {}
        return self._replied(
            message.get("content"),
            finish=choice.get("finish_reason"),
            tool_calls=message.get("tool_calls"),
            used=(tokens.get("input_tokens"), tokens.get("output_tokens")),
            start=start,
        )

    def _refusal(self, answer: Any) -> ModelError:
        status, reason = answer.status_code, scrub(f"{answer.code}: {answer.message}", self._key)
        wait = retry_after(getattr(answer, "headers", None) or {})
        return self._problem(f"HTTP {status}: {reason}", retryable=is_retryable(status), retry_after=wait)

    def _failure(self, e: Exception) -> ModelError | None:
        import aiohttp
        import requests

        if isinstance(e, requests.Timeout | TimeoutError):
            return self._late()
        if isinstance(e, requests.ConnectionError | aiohttp.ClientConnectionError):
            return self._unreachable(shown_url(self.base_url) or "the service", e)
        return None


def _prepare() -> ssl.SSLContext:
    """Import the SDK and read its certificates."""
    import ssl

    import certifi
    import dashscope  # noqa: F401 (for its effect on sys.modules)

    return ssl.create_default_context(cafile=certifi.where())


async def _async_session() -> aiohttp.ClientSession:
    # The SDK would open a session per loop, too, but never close it. Its import takes one to two seconds, so it runs in
    # a thread.
    certificates = await asyncio.to_thread(_prepare)
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=certificates), trust_env=True)
