"""The base of models behind a service: sync and async calls, errors without the key, connections that close."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import SecretStr

from autocontext.errors import ConfigError, MissingExtraError, ModelError
from autocontext.flows.forking import fork_lock, part_at_fork
from autocontext.models.per_loop import PerLoop, inherited
from autocontext.requests import ModelReply, ModelRequest, Usage

_MAX_ERROR_TEXT = 300
_KEY_LIKE = re.compile(r"\bsk-[^\s\"',;}]+")
_AUTHORIZATION = re.compile(
    r"(?i)\b(bearer\s+|(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:bearer\s+)?)[^\s\"',;}]+"
)
_NAMED_KEY = re.compile(r"(?i)(\bapi[-_ ]?key(?:\s+provided)?[\"']?\s*[:=]\s*[\"']?)[^\s\"',;}]+")
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_QUERY = re.compile(r"(?<=[\w/])\?[^\s\"'()?]*=[^\s\"'()]*")
_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_RETRYABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


def checked_key(key: str | None, owner: str, variable: str) -> SecretStr:
    """The key as a SecretStr. Raises ConfigError for a missing key or one that no HTTP header can carry."""
    key = (key or "").strip()
    if not key:
        raise ConfigError(f"{owner} has no API key: pass api_key=... or set the environment variable {variable}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        # HTTP libraries quote such a header value, with the key, in their errors.
        raise ConfigError(
            f"{owner}: the API key holds spaces, control or non-ASCII characters; check how it was copied"
        )
    return SecretStr(key)


def scrub(text: object, key: SecretStr) -> str:
    """A provider's text as one short line, without keys, passwords and queries of URLs."""
    clean = str(text).replace(key.get_secret_value(), "[key]")
    clean = _QUERY.sub("", _USERINFO.sub("", clean))
    clean = _KEY_LIKE.sub("[key]", clean)
    clean = _NAMED_KEY.sub(r"\1[key]", clean)
    clean = " ".join(_AUTHORIZATION.sub(r"\1[key]", clean).split())
    return clean if len(clean) <= _MAX_ERROR_TEXT else clean[: _MAX_ERROR_TEXT - 3] + "..."


def shown_url(url: str | None) -> str | None:
    """A URL without user, password, query and fragment."""
    return None if url is None else _USERINFO.sub("", url.partition("?")[0].partition("#")[0])


def chat_messages(request: ModelRequest) -> list[dict[str, str]]:
    """The request as chat messages; lone surrogates, which no HTTP body can carry, become U+FFFD."""
    texts = {"system": request.system, "user": request.prompt}
    return [{"role": role, "content": _LONE_SURROGATE.sub("\ufffd", text)} for role, text in texts.items() if text]


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed later, judged by its HTTP status."""
    return status in _RETRYABLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `Retry-After-Ms` or `Retry-After` (RFC 9110, 10.2.3: seconds or an HTTP date)."""
    values = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(values[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        moment = parsedate_to_datetime(values.get("retry-after", ""))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def reply_text(content: Any) -> str:
    """The text of a message's content, a string or a list of text parts, without a leading <think> block."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None) for part in content]
        content = "".join(part for part in parts if isinstance(part, str))
    return _THOUGHTS.sub("", content).strip() if isinstance(content, str) else ""


Client = TypeVar("Client")
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
    key_file_variable: str = ""
    """The environment variable with the path of a file that holds the key; "" if the service has none."""
    reserved: frozenset[str]
    """Parameters of a request that the model sets itself."""

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
        name = type(self).__name__
        if importlib.util.find_spec(self.sdk) is None:
            raise MissingExtraError(name, self.sdk)
        if conflicts := sorted(extra.keys() & self.reserved):
            raise ConfigError(f"{name} sets {', '.join(conflicts)} itself; leave it out")
        self.model = model
        self.base_url = base_url
        self.timeout = timeout
        key = api_key or os.environ.get(self.key_variable)
        if not key and (path := os.environ.get(self.key_file_variable)):
            key = Path(path).read_text(encoding="utf-8")
        self._key: SecretStr = checked_key(key, name, self.key_variable)
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
            client: Any = self._client
            self._client = None
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
