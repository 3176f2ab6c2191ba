"""Results as JSON text: what is stored is data that another program can read, and never runs code when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from autocontext.errors import StoreCorruptError, UncacheableError


class Missing(Enum):
    """The type of MISS, for annotations."""

    MISS = "MISS"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISS"


MISS: Final = Missing.MISS
"""Nothing is stored under the key; None, 0, "" and [] are results like any other."""


def encoded(value: Any) -> str:
    """A result as JSON in ASCII; tuples become lists.

    Raises UncacheableError for what JSON would not give back: keys that are no text, NaN, sets, objects.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        back = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UncacheableError(f"the result is no JSON ({type(error).__name__}: {error}); return plain data") from None
    if back != value and not _same(back, value):
        raise UncacheableError(
            "JSON would give the result back changed: use text as keys, and only dicts, lists, text, numbers, booleans"
        )
    return text


def decoded(body: str, where: str) -> Any:
    """The result anew, so that no caller can change what another one gets. Raises StoreCorruptError."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise StoreCorruptError(f"{where} cannot be read back ({error}); delete(key) removes it") from None


def encoded_error(error: BaseException) -> str:
    """An exception as JSON: its class by name, and its arguments. Raises UncacheableError when these are no JSON."""
    return encoded({"error": _name(type(error)), "args": list(error.args)})


def decoded_error(body: str, expected: tuple[type[BaseException], ...], where: str) -> BaseException | None:
    """The exception anew if its class is one of those expected or derived from one, else None."""
    stored = decoded(body, where)
    for kind in _with_subclasses(expected):
        if _name(kind) == stored["error"]:
            # Without __init__, whose parameters are the class's own affair: it would get what it made of them.
            error = kind.__new__(kind, *stored["args"])
            error.args = tuple(stored["args"])
            return error
    return None


def _same(back: Any, value: Any) -> bool:
    """Whether the copy differs from the original by tuples that have become lists only."""
    if isinstance(back, list):
        return (
            isinstance(value, list | tuple)
            and len(back) == len(value)
            and all(_same(a, b) for a, b in zip(back, value, strict=True))
        )
    if isinstance(back, dict):
        return (
            isinstance(value, dict)
            and back.keys() == value.keys()
            and all(_same(item, value[key]) for key, item in back.items())
        )
    return bool(back == value)


def _with_subclasses(kinds: tuple[type[BaseException], ...]) -> Iterator[type[BaseException]]:
    for kind in kinds:
        yield kind
        yield from _with_subclasses(tuple(kind.__subclasses__()))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
