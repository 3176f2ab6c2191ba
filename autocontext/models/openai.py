"""Summaries from OpenAI's chat completions or any server that speaks them, through the `openai` SDK.

Request and reply shapes: OpenAI API reference, "Create chat completion".
"""

# ruff: noqa: PLC0415 (the SDK is heavy and optional: it is imported where it is first used)

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from pydantic import SecretStr

from autocontext.errors import ConfigError, ModelError
from autocontext.models.per_loop import PerLoop
from autocontext.models.providers import (
    chat_messages,
    checked_key,
    count,
    is_retryable,
    require,
    retry_after,
    scrub,
    shown_url,
    usable_text,
)
from autocontext.requests import ModelReply, ModelRequest, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_KEY_VARIABLE = "OPENAI_API_KEY"
_OURS = frozenset({"model", "messages", "stream", "n", "tools", "functions", "timeout"})


class OpenAIChatModel:
    """A model behind OpenAI's chat completions API, sync and async.

    `timeout` is in seconds, per attempt. `max_retries` is the SDK's own and 0, because the caller retries.
    `limit_field` names the parameter that carries `max_output_tokens`: "max_completion_tokens" at OpenAI itself,
    "max_tokens" when a `base_url` names another server; None picks by that rule. `extra` goes into each request.
    Raises ConfigError without a key, MissingExtraError without the SDK; calls raise ModelError only.
    """

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
        require("openai", "OpenAIChatModel")
        if reserved := sorted(_OURS & extra.keys()):
            raise ConfigError(f"OpenAIChatModel sets {', '.join(reserved)} itself; leave it out")
        self.model = model
        self.base_url = base_url
        self.timeout = timeout
        self.max_retries = max_retries
        self._key = checked_key(api_key or os.environ.get(_KEY_VARIABLE), "OpenAIChatModel", _KEY_VARIABLE)
        self._limit_field = limit_field
        self._extra = extra if temperature is None else {"temperature": temperature, **extra}
        self._lock = threading.Lock()
        self._client: OpenAI | None = None
        self._clients: PerLoop[AsyncOpenAI] = _async_clients(self._key, base_url, timeout, max_retries)

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model!r}, base_url={shown_url(self.base_url)!r})"

    def complete(self, request: ModelRequest) -> ModelReply:
        """The model's reply. Raises ModelError, which never holds the key."""
        started = time.perf_counter()
        try:
            client = self._sync_client()
            arguments = self._arguments(request, str(client.base_url))
            return self._reply(client.chat.completions.create(**arguments), started)
        except Exception as e:  # noqa: BLE001 (a malformed body makes the SDK raise anything)
            failure = self._failure(e)
        # Raised out here, the error has no __context__ and no frame below this one: the SDK's exception holds the
        # request with its headers, and a reply may quote the key.
        raise failure

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The model's reply, without blocking the event loop. Raises ModelError, which never holds the key."""
        started = time.perf_counter()
        try:
            client = await self._clients.client()
            arguments = self._arguments(request, str(client.base_url))
            return self._reply(await client.chat.completions.create(**arguments), started)
        except Exception as e:  # noqa: BLE001 (as above)
            failure = self._failure(e)
        raise failure

    def close(self) -> None:
        """Close the connections of `complete`; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections of `acomplete` in this event loop; they close by themselves when it shuts down."""
        await self._clients.aclose()

    def _sync_client(self) -> OpenAI:
        import openai

        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    api_key=self._key.get_secret_value(),
                    base_url=self.base_url,
                    timeout=self.timeout,
                    max_retries=self.max_retries,
                )
            return self._client

    def _arguments(self, request: ModelRequest, address: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {"model": self.model, "messages": chat_messages(request), **self._extra}
        if request.max_output_tokens is not None:
            at_openai = address.startswith("https://api.openai.com/")
            field = self._limit_field or ("max_completion_tokens" if at_openai else "max_tokens")
            arguments.setdefault(field, request.max_output_tokens)
        return arguments

    def _reply(self, completion: Any, started: float) -> ModelReply:
        choices = getattr(completion, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        if message is None:
            raise ModelError(f"{self._owner}: the reply holds no choices")
        finish = getattr(choice, "finish_reason", None)
        text = usable_text(
            self._owner,
            getattr(message, "content", None),
            finish=finish,
            tool_calls=getattr(message, "tool_calls", None) or getattr(message, "function_call", None),
            refusal=getattr(message, "refusal", None),
            key=self._key,
        )
        used = getattr(completion, "usage", None)
        usage = Usage(
            input_tokens=count(getattr(used, "prompt_tokens", None)),
            output_tokens=count(getattr(used, "completion_tokens", None)),
            seconds=time.perf_counter() - started,
        )
        return ModelReply(text=text, usage=usage, truncated=finish == "length")

    def _failure(self, e: Exception) -> ModelError:
        import openai

        if isinstance(e, ModelError):
            return e.with_traceback(None)
        if isinstance(e, openai.APITimeoutError):
            return ModelError(f"{self._owner}: no answer within {self.timeout:g} s")
        if isinstance(e, openai.APIConnectionError):
            reason = e.__cause__ or e
            return ModelError(
                f"{self._owner}: no connection to {shown_url(str(e.request.url))} ({scrub(reason, self._key)})"
            )
        if isinstance(e, openai.APIStatusError):
            wait = retry_after(e.response.headers)
            # "insufficient_quota" comes as 429 too, and no waiting pays a bill.
            retryable = is_retryable(e.status_code) and e.code != "insufficient_quota"
            said = e.message.removeprefix(f"Error code: {e.status_code} - ")
            text = f"{self._owner}: HTTP {e.status_code}: {scrub(said, self._key)}"
            return ModelError(text, retryable=retryable, retry_after=wait)
        return ModelError(f"{self._owner}: the call failed ({type(e).__name__}: {scrub(e, self._key)})")

    @property
    def _owner(self) -> str:
        return f"OpenAI model {self.model!r}"


def _async_clients(key: SecretStr, base_url: str | None, timeout: float, max_retries: int) -> PerLoop[AsyncOpenAI]:
    # A function of its own, so that the clients do not hold the model and die with it.
    def build() -> AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=key.get_secret_value(), base_url=base_url, timeout=timeout, max_retries=max_retries
        )

    async def make() -> AsyncOpenAI:
        # The import takes about a second and a client 0.1 s: not on the event loop.
        return await asyncio.to_thread(build)

    async def close(client: AsyncOpenAI) -> None:
        await client.close()

    return PerLoop(make, close)
