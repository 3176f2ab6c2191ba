"""Summaries from OpenAI's chat completions API or a compatible server, through the `openai` SDK.

Request and reply shapes: OpenAI API reference, "Create chat completion".
"""

# ruff: noqa: PLC0415 (the SDK is heavy and optional: it is imported where it is first used)

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from autocontext.errors import ModelError
from autocontext.models.per_loop import PerLoop
from autocontext.models.services import ServiceModel, chat_messages, is_retryable, retry_after, scrub, shown_url
from autocontext.requests import ModelReply, ModelRequest

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


class OpenAIChatModel(ServiceModel["OpenAI", "AsyncOpenAI"]):
    """A model behind OpenAI's chat completions API, sync and async.

    `timeout` is in seconds, per attempt. `max_retries` is the SDK's and 0 by default, because the caller retries.
    `limit_field` is the parameter for `max_output_tokens`: None means "max_completion_tokens" for OpenAI itself and
    "max_tokens" for another `base_url`. `extra` goes into each request. Raises ConfigError without a key,
    MissingExtraError without the SDK; calls raise only ModelError.

        OpenAIChatModel("qwen3", base_url="http://localhost:8000/v1", api_key="none")
    """

    sdk, service, key_variable = "openai", "OpenAI", "OPENAI_API_KEY"
    reserved = frozenset({"model", "messages", "stream", "n", "tools", "functions", "timeout"})

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        timeout: float = 60.0,
        max_retries: int = 0,
        limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        **extra: Any,
    ) -> None:
        # First, as `ServiceModel` makes the clients with these.
        self.max_retries = max_retries
        self._limit_field = limit_field
        super().__init__(model, api_key=api_key, base_url=base_url, temperature=temperature, timeout=timeout, **extra)

    def _connect(self) -> OpenAI:
        import openai

        return openai.OpenAI(api_key=self._key.get_secret_value(), **self._connection())

    def _per_loop(self) -> PerLoop[AsyncOpenAI]:
        # Without `self`, so that the clients hold no reference to the model and are freed with it.
        key, connection = self._key, self._connection()

        def build() -> AsyncOpenAI:
            import openai

            return openai.AsyncOpenAI(api_key=key.get_secret_value(), **connection)

        # In a thread: the import takes about a second and a client 0.1 s.
        return PerLoop(lambda: asyncio.to_thread(build), lambda client: client.close())

    def _connection(self) -> dict[str, Any]:
        return {"base_url": self.base_url, "timeout": self.timeout, "max_retries": self.max_retries}

    def _call(self, client: OpenAI | AsyncOpenAI, request: ModelRequest) -> Any:
        return client.chat.completions.create(**self._arguments(request, str(client.base_url)))

    _acall = _call  # of an asynchronous client it is awaited

    def _arguments(self, request: ModelRequest, address: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {"model": self.model, "messages": chat_messages(request), **self._settings}
        if request.max_output_tokens is not None:
            at_openai = address.startswith("https://api.openai.com/")
            field = self._limit_field or ("max_completion_tokens" if at_openai else "max_tokens")
            arguments.setdefault(field, request.max_output_tokens)
        return arguments

    def _reply(self, answer: Any, start: float) -> ModelReply:
        choices = getattr(answer, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        if message is None:
            raise self._problem("the reply holds no choices")
        tokens = getattr(answer, "usage", None)
        return self._replied(
            getattr(message, "content", None),
            finish=getattr(choice, "finish_reason", None),
            tool_calls=getattr(message, "tool_calls", None) or getattr(message, "function_call", None),
            refusal=getattr(message, "refusal", None),
            used=(getattr(tokens, "prompt_tokens", None), getattr(tokens, "completion_tokens", None)),
            start=start,
        )

    def _failure(self, e: Exception) -> ModelError | None:
        import openai

        if isinstance(e, openai.APITimeoutError):
            return self._late()
        if isinstance(e, openai.APIConnectionError):
            return self._unreachable(shown_url(str(e.request.url)) or "the service", e.__cause__ or e)
        if isinstance(e, openai.APIStatusError):
            # "insufficient_quota" is a 429, too, but waiting does not help.
            retryable = is_retryable(e.status_code) and e.code != "insufficient_quota"
            reason = scrub(e.message.removeprefix(f"Error code: {e.status_code} - "), self._key)
            wait = retry_after(e.response.headers)
            return self._problem(f"HTTP {e.status_code}: {reason}", retryable=retryable, retry_after=wait)
        return None
