"""Summaries from Alibaba Cloud's DashScope (Qwen and others), through the `dashscope` SDK.

Request and reply shapes: DashScope API reference, text generation with `result_format="message"`.
"""

# ruff: noqa: PLC0415 (the SDK is heavy and optional: it is imported where it is first used)

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    import ssl

    import aiohttp
    import requests

_KEY_VARIABLE = "DASHSCOPE_API_KEY"
_KEY_FILE_VARIABLE = "DASHSCOPE_API_KEY_FILE_PATH"
_OURS = frozenset(
    {
        "api_key",
        "base_address",
        "history",
        "messages",
        "model",
        "n",
        "prompt",
        "request_timeout",
        "result_format",
        "session",
        "stream",
        "tools",
    }
)
_POOL = 32
"""Connections kept for `complete`; the SDK's shared session keeps 10 and warns at each one more."""


class DashScopeChatModel:
    """A model behind DashScope's native text generation API, sync and async.

    `timeout` is in seconds: for the whole call in `acomplete`, between bytes in `complete` (so the SDK defines it).
    Key, address, timeout and connections go along with each call, so two models never share a setting.
    `extra` goes into each request (`enable_thinking=False`, `seed`, ...). Raises ConfigError without a key,
    MissingExtraError without the SDK; calls raise ModelError only.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        temperature: float | None = None,
        timeout: float = 60.0,
        **extra: Any,
    ) -> None:
        require("dashscope", "DashScopeChatModel")
        if reserved := sorted(_OURS & extra.keys()):
            raise ConfigError(f"DashScopeChatModel sets {', '.join(reserved)} itself; leave it out")
        self.model = model
        self.base_url = base_url
        self.timeout = timeout
        self._key = checked_key(api_key or _key_from_environment(), "DashScopeChatModel", _KEY_VARIABLE)
        self._extra = extra if temperature is None else {"temperature": temperature, **extra}
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._sessions: PerLoop[aiohttp.ClientSession] = PerLoop(_async_session, _close_session)

    def __repr__(self) -> str:
        return f"DashScopeChatModel({self.model!r}, base_url={shown_url(self.base_url)!r})"

    def complete(self, request: ModelRequest) -> ModelReply:
        """The model's reply. Raises ModelError, which never holds the key."""
        started = time.perf_counter()
        try:
            from dashscope import Generation

            session = self._sync_session()
            arguments = self._arguments(request)
            return self._reply(
                Generation.call(api_key=self._key.get_secret_value(), session=session, **arguments), started
            )
        except Exception as e:  # noqa: BLE001 (a malformed body makes the SDK raise anything)
            failure = self._failure(e)
        # Raised out here, the error has no __context__ and no frame below this one: the SDK's exception may hold the
        # request with its headers, and a reply may quote the key.
        raise failure

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The model's reply, without blocking the event loop. Raises ModelError, which never holds the key."""
        started = time.perf_counter()
        try:
            session = await self._sessions.client()
            from dashscope import AioGeneration

            arguments = self._arguments(request)
            return self._reply(
                await AioGeneration.call(api_key=self._key.get_secret_value(), session=session, **arguments), started
            )
        except Exception as e:  # noqa: BLE001 (as above)
            failure = self._failure(e)
        raise failure

    def close(self) -> None:
        """Close the connections of `complete`; a later call opens new ones."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    async def aclose(self) -> None:
        """Close the connections of `acomplete` in this event loop; they close by themselves when it shuts down."""
        await self._sessions.aclose()

    def _sync_session(self) -> requests.Session:
        import requests
        from requests.adapters import HTTPAdapter

        with self._lock:
            if self._session is None:
                self._session = requests.Session()
                for scheme in ("http://", "https://"):
                    self._session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL))
            return self._session

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": chat_messages(request),
            "result_format": "message",
            "base_address": self.base_url,
            "request_timeout": self.timeout,
            **self._extra,
        }
        if request.max_output_tokens is not None:
            arguments.setdefault("max_tokens", request.max_output_tokens)
        return arguments

    def _reply(self, response: Any, started: float) -> ModelReply:
        if response.status_code != HTTPStatus.OK:  # the SDK returns failures, it does not raise them
            raise self._refusal(response)
        output = response.output if isinstance(response.output, Mapping) else {}
        choices = output.get("choices")
        # Models that know no message format answer with `output.text` alone.
        choice = choices[0] if choices else output
        message = choice.get("message") or {"content": output.get("text")}
        if not choices and message["content"] is None:
            raise ModelError(f"{self._owner}: the reply holds no choices")
        finish = choice.get("finish_reason")
        text = usable_text(
            self._owner,
            message.get("content"),
            finish=finish,
            tool_calls=message.get("tool_calls"),
            refusal=None,
            key=self._key,
        )
        used = response.usage if isinstance(response.usage, Mapping) else {}
        usage = Usage(
            input_tokens=count(used.get("input_tokens")),
            output_tokens=count(used.get("output_tokens")),
            seconds=time.perf_counter() - started,
        )
        return ModelReply(text=text, usage=usage, truncated=finish == "length")

    def _refusal(self, response: Any) -> ModelError:
        status = response.status_code
        wait = retry_after(getattr(response, "headers", None) or {})
        text = f"{self._owner}: HTTP {status}: {scrub(f'{response.code}: {response.message}', self._key)}"
        return ModelError(text, retryable=is_retryable(status), retry_after=wait)

    def _failure(self, e: Exception) -> ModelError:
        import aiohttp
        import requests

        if isinstance(e, ModelError):
            return e.with_traceback(None)
        if isinstance(e, requests.Timeout | TimeoutError):
            return ModelError(f"{self._owner}: no answer within {self.timeout:g} s")
        if isinstance(e, requests.ConnectionError | aiohttp.ClientConnectionError):
            where = shown_url(self.base_url) or "the service"
            return ModelError(f"{self._owner}: no connection to {where} ({scrub(e, self._key)})")
        return ModelError(f"{self._owner}: the call failed ({type(e).__name__}: {scrub(e, self._key)})")

    @property
    def _owner(self) -> str:
        return f"DashScope model {self.model!r}"


def _key_from_environment() -> str | None:
    if key := os.environ.get(_KEY_VARIABLE):
        return key
    path = os.environ.get(_KEY_FILE_VARIABLE)
    return Path(path).read_text(encoding="utf-8") if path else None


def _prepare() -> ssl.SSLContext:
    """Import the SDK, and read the certificates it uses."""
    import ssl

    import certifi
    import dashscope  # noqa: F401 (for its effect on sys.modules)

    return ssl.create_default_context(cafile=certifi.where())


async def _async_session() -> aiohttp.ClientSession:
    # The SDK would open a session per loop too, but never close it.
    # The import takes one to two seconds: not on the event loop.
    certificates = await asyncio.to_thread(_prepare)
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=certificates), trust_env=True)


async def _close_session(session: aiohttp.ClientSession) -> None:
    await session.close()
