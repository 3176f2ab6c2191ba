"""Shared by the models behind a service: keys, clean error texts, waiting times, reply texts.

Keys are SecretStr from the start, so that no repr, log or traceback can show them.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from pydantic import SecretStr

from autocontext.errors import ConfigError, MissingExtraError
from autocontext.requests import ModelRequest

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
_RETRYABLE = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)


def require(package: str, owner: str) -> None:
    """Raise MissingExtraError when the SDK `package` is not installed; imports nothing."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtraError(owner, package)


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
