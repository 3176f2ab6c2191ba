"""The base of models behind a service: sync and async calls, errors without the key, connections that close."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from pydantic import SecretStr

from autocontext.errors import ConfigError, ModelError
from autocontext.flows.forking import fork_lock, part_at_fork
from autocontext.models.per_loop import PerLoop, inherited
from autocontext.models.providers import checked_key, reply_text, require, scrub, shown_url
from autocontext.requests import ModelReply, ModelRequest, Usage


class _Closable(Protocol):
    def close(self) -> Any: ...


Client = TypeVar("Client", bound=_Closable)
AsyncClient = TypeVar("AsyncClient")


class ServiceModel(ABC, Generic[Client, AsyncClient]):
    """A model behind a service: its SDK is optional, its key is never shown, its failures are ModelErrors.

    Raises ConfigError without a key or for an `extra` that the model sets itself, MissingExtraError without the SDK.
    """

    sdk: str
    """Name of the SDK's package and of the extra that installs it."""
    service: str
    """The service's name in errors."""
    key_variable: str
    """The environment variable with the key."""
    reserved: frozenset[str]
    """Parameters of a request that the model sets itself."""

    def __init__(
        self,
        model: str,
        *,
        key: str | None,
        base_url: str | None,
        timeout: float,
        temperature: float | None,
        extra: dict[str, Any],
    ) -> None:
        name = type(self).__name__
        require(self.sdk, name)
        if conflicts := sorted(extra.keys() & self.reserved):
            raise ConfigError(f"{name} sets {', '.join(conflicts)} itself; leave it out")
        self.model = model
        self.base_url = base_url
        self.timeout = timeout
        self._key: SecretStr = checked_key(key or os.environ.get(self.key_variable), name, self.key_variable)
        self._settings = extra if temperature is None else {"temperature": temperature, **extra}
        """Parameters of each request."""
        self._lock = fork_lock()
        self._client: Client | None = None
        self._clients = self._per_loop()
        part_at_fork(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={shown_url(self.base_url)!r})"

    def before_fork(self, until: float) -> None:
        """Nothing to wait for: the client stays the parent's."""

    def after_fork(self, *, in_child: bool) -> None:
        """Begin without a client in a child."""
        if in_child:
            inherited.append(self._client)
            self._client = None

    def complete(self, request: ModelRequest) -> ModelReply:
        """The model's reply. Raises ModelError, which never holds the key."""
        start = time.perf_counter()
        try:
            with self._lock:
                self._client = client = self._client or self._connect()
            return self._reply(self._call(client, request), start)
        except Exception as e:  # noqa: BLE001 (a malformed body makes an SDK raise anything)
            failure = self._model_error(e)
        # Raised outside of `except`, the error has no __context__ and no inner frames: the SDK's exception may hold the
        # request with its headers, and a reply may quote the key.
        raise failure

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The model's reply, without blocking the event loop. Raises ModelError, which never holds the key."""
        start = time.perf_counter()
        try:
            client = await self._clients.client()
            return self._reply(await self._acall(client, request), start)
        except Exception as e:  # noqa: BLE001 (as above)
            failure = self._model_error(e)
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

    def _model_error(self, e: Exception) -> ModelError:
        if isinstance(e, ModelError):
            return e.with_traceback(None)
        return self._failure(e) or self._problem(f"the call failed ({type(e).__name__}: {scrub(e, self._key)})")

    def _problem(self, what: str, **fields: Any) -> ModelError:
        return ModelError(f"{self._owner}: {what}", **fields)

    def _late(self) -> ModelError:
        return self._problem(f"no answer within {self.timeout:g} s")

    def _unreachable(self, where: str, reason: object) -> ModelError:
        return self._problem(f"no connection to {where} ({scrub(reason, self._key)})")

    def _replied(
        self, content: Any, *, finish: Any, tool_calls: Any, refusal: Any = None, used: tuple[Any, Any], start: float
    ) -> ModelReply:
        """The reply with this content; `used` are tokens in and out.

        Raises ModelError with the reason if it has no text: a tool call, a refusal, a filter, its length.
        """
        if tool_calls:
            raise ModelError(f"{self._owner} answered with a tool call instead of text")
        if refusal:
            raise ModelError(f"{self._owner} refused: {scrub(refusal, self._key)}", retryable=False)
        if finish == "content_filter":
            raise self._problem("the reply was withheld by the provider's content filter", retryable=False)
        text = reply_text(content)
        if not text and finish == "length":
            reason = "the output limit was reached before any text (spent on reasoning?); allow more output tokens"
            raise self._problem(reason, retryable=False)
        if not text:
            raise ModelError(f"{self._owner} answered with an empty text")
        # Compatible servers send null, or nothing.
        counts = [n if isinstance(n, int) and n > 0 else 0 for n in used]
        usage = Usage(input_tokens=counts[0], output_tokens=counts[1], seconds=time.perf_counter() - start)
        return ModelReply(text=text, usage=usage, truncated=finish == "length")

    @property
    def _owner(self) -> str:
        return f"{self.service} model {self.model!r}"

    # ------------------------------------------------------------------------------------ what subclasses implement
    @abstractmethod
    def _connect(self) -> Client:
        """Open a client for `complete`."""

    @abstractmethod
    def _per_loop(self) -> PerLoop[AsyncClient]:
        """Clients for `acomplete`, by event loop; they must not reference the model."""

    @abstractmethod
    def _call(self, client: Client, request: ModelRequest) -> Any:
        """The service's answer."""

    @abstractmethod
    async def _acall(self, client: AsyncClient, request: ModelRequest) -> Any:
        """The service's answer, without blocking the event loop."""

    @abstractmethod
    def _reply(self, answer: Any, start: float) -> ModelReply:
        """The reply in an answer. Raises ModelError if there is none."""

    @abstractmethod
    def _failure(self, e: Exception) -> ModelError | None:
        """The ModelError for an exception of the SDK; None for an unknown one."""
