"""Checks of arguments: ids that every database can store, texts, numbers, lengths of time."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from autocontext.errors import AutoContextError, ConfigError, InvalidMessage, StoreError, short
from autocontext.messages import freeze

T = TypeVar("T")

LONGEST = 1e12
"""Seconds, about 30,000 years: fits the integers of every database in milliseconds."""
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


def check_text(field: str, value: Any, error: type[AutoContextError] = ConfigError) -> None:
    """Raise `error` naming the field unless the value is a text."""
    if not isinstance(value, str):
        raise error(f"{field} must be a text (got {short(value)}); pass str({field})")


def check_texts(**fields: Any) -> None:
    """Raise ConfigError naming the first of these fields that is neither a text nor None."""
    need_texts(**{field: value for field, value in fields.items() if value is not None})


def need_texts(**fields: Any) -> None:
    """Raise ConfigError naming the first of these fields that is no text."""
    for field, value in fields.items():
        check_text(field, value)


def plain(text: str) -> str:
    """A text as a str itself; what is no text stays. A member of an enum prints and hashes in a way of its own."""
    return str.__str__(text) if isinstance(text, str) else text


def check_id(field: str, value: Any, error: type[AutoContextError] = ConfigError) -> None:
    """Raise `error` unless the value is a text without NUL and lone surrogates, which databases refuse."""
    check_text(field, value, error)
    if "\0" in value or (not value.isascii() and _UNSTORABLE.search(value)):
        raise error(
            f"{field} {short(value)} holds NUL or half a surrogate pair, which databases do not take: leave it out, or "
            f'pass {field}.encode("utf-8", "surrogatepass").hex()'
        )


def checked_place(url: Any) -> str:
    """A path or URL as a text. Raises ConfigError for an empty one and for other types."""
    if not isinstance(url, str | os.PathLike):
        raise ConfigError(f"url must be a path, ':memory:' or a URL (got {short(url)})")
    place = os.fspath(url)
    if not place.strip():
        # SQLite would open a temporary file, which is lost when it is closed.
        raise ConfigError("url is empty: give a path, or ':memory:' for a database that need not last")
    if "\0" in place:
        raise ConfigError(f"url {short(place)} holds NUL, which no path can")
    return place


def checked_patience(patience: Any) -> float:
    """Seconds that a database waits. Raises ConfigError unless it is a number of at least 0."""
    if not is_number(patience) or patience < 0:
        raise ConfigError(f"patience must be a number of seconds, 0 or more (got {short(patience)})")
    return float(min(patience, 1e6))  # twelve days: SQLite counts milliseconds in 32 bits


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number: neither a bool nor NaN. It may be a whole one that is larger than any float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf <= value <= math.inf


def check_whole(
    field: str, value: Any, least: float = 0, error: type[AutoContextError] = ConfigError, *, none: str = ""
) -> None:
    """Raise `error` naming the field unless the value is a whole number of at least `least` (-math.inf: any).

    None is allowed where `none` says what it stands for.
    """
    if value is None and none:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        way_out = f", or None for {none}" if none else ""
        at_least = "" if least == -math.inf else f" of at least {least}"
        raise error(f"{field} must be a whole number{at_least}{way_out} (got {short(value)})")


def whole_or(otherwise: T, value: Any, least: int, most: int) -> int | T:
    """What a model passed as a whole number within limits; `otherwise` if it is no number."""
    try:
        return max(least, min(int(value), most))
    except (TypeError, ValueError, OverflowError):
        return otherwise


def checked_names(
    field: str, names: Any, kind: str = "names, such as ['a']", error: type[AutoContextError] = ConfigError
) -> frozenset[str]:
    """Names, each once. Raises `error` unless they are several texts: one text would count as its letters."""
    listed: list[Any] = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [None]
    if not all(isinstance(name, str) for name in listed):
        raise error(f"{field} must be a list of {kind} (got {short(names)})")
    return frozenset(listed)


def checked_ids(ids: Any) -> frozenset[str]:
    """Ids of messages, each once. Raises InvalidMessage unless it is a list of texts."""
    return checked_names("ids", ids, "message ids, such as [message.id]", InvalidMessage)


def checked_seconds(
    field: str, seconds: Any, error: type[AutoContextError] = ConfigError, *, past: bool = False
) -> float | None:
    """A length of time, `LONGEST` at most; None stays None. Raises `error` unless it is a number above 0.

    With `past`, 0 and negative numbers are allowed as well.
    """
    if seconds is None:
        return None
    if not is_number(seconds) or abs(seconds) == math.inf or (seconds <= 0 and not past):
        least = "a number of seconds" if past else "more than 0 seconds"
        raise error(f"{field} must be {least}, or None for ever (got {short(seconds)})")
    return float(max(-LONGEST, min(seconds, LONGEST)))


def json_text(field: str, value: Any, error: type[AutoContextError] = ConfigError, *, ascii_only: bool = True) -> str:
    """A value as JSON that every store gives back: what is to be stored as JSON goes through here or is a message.

    Raises `error` naming the field and the key of what is not JSON, nested too deeply, or a number that is too long.
    """
    try:
        return json.dumps(freeze(value), ensure_ascii=ascii_only)
    except ValueError as e:
        raise error(f"{field} cannot be written as JSON: {e}") from None


def refused_value(database: str, params: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> StoreError | None:
    """The error if a database cannot store one of these parameters; None if all are valid."""
    for row in [params] if isinstance(params, Mapping) else params:
        for name, value in row.items():
            kind = ""
            if isinstance(value, str) and _UNSTORABLE.search(value):
                kind = "a text with NUL or half a surrogate pair"
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                kind = "a number of more than 64 bits"
            elif not (value is None or isinstance(value, str | int | float | bytes)):
                kind = f"a {type(value).__name__}"
            if kind:
                return StoreError(f"{database}: {name} is {kind}, which databases do not take; nothing was changed")
    return None
