"""Results as JSON: plain data that runs no code when it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from autocontext.errors import UncacheableError


class Missing(Enum):
    """The type of MISS, for annotations."""

    MISS = "MISS"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISS"


MISS: Final = Missing.MISS
"""Returned by `get` if nothing is stored; None, 0, "" and [] may be results."""


def encoded(value: Any) -> str:
    """A result as ASCII JSON; tuples become lists.

    Raises UncacheableError for values that JSON would change: keys that are not text, NaN, sets, objects.
    """
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        copy = json.loads(text)
    except RecursionError:
        raise UncacheableError("the result is nested too deep for JSON; return plain data") from None
    except (TypeError, ValueError) as error:
        raise UncacheableError(f"the result is not JSON ({type(error).__name__}: {error}); return plain data") from None
    if copy != value and copy != _with_lists(value):
        raise UncacheableError(
            "JSON would change the result; use dicts with text keys, lists, text, numbers and booleans only"
        )
    return text


def encoded_error(error: BaseException) -> str:
    """An exception as JSON: its class, arguments and attributes.

    Raises UncacheableError unless `rebuilt_error` makes the same exception of it.
    """
    kind = type(error)
    try:
        stored: dict[str, Any] = {"error": _name(kind), "args": list(error.args)}
        if (new := list(error.__reduce__()[1])) != stored["args"]:
            stored["new"] = new
        if attributes := vars(error):
            stored["attributes"] = attributes
        text = encoded(stored)
        copy = _rebuilt(kind, json.loads(text))
        same = (str(copy), _attributes(copy)) == (str(error), _attributes(error))
    except UncacheableError:
        raise
    except Exception as failure:  # noqa: BLE001 (whatever the exception's own code raises)
        raise UncacheableError(f"{_name(kind)} cannot be made again ({type(failure).__name__}: {failure})") from None
    if not same:
        raise UncacheableError(f"{_name(kind)} would come back as another exception: not all of it is plain data")
    return text


def rebuilt_error(stored: Any, expected: tuple[type[BaseException], ...]) -> BaseException | None:
    """The exception of a stored record; None unless its class is an expected one or a subclass, and makes it again."""
    for kind in _with_subclasses(expected):
        if _name(kind) == stored["error"]:
            with suppress(Exception):  # stored by another version of the class: it counts as absent
                return _rebuilt(kind, stored)
    return None


def _rebuilt(kind: type[BaseException], stored: dict[str, Any]) -> BaseException:
    # Without __init__, whose parameters may differ from `args`.
    error = kind.__new__(kind, *stored.get("new", stored["args"]))
    error.args = tuple(stored["args"])
    vars(error).update(stored.get("attributes", {}))
    return error


def _attributes(error: BaseException) -> dict[str, Any]:
    """All that can be read of an exception: some keep it elsewhere than in `vars`."""
    values = {name: getattr(error, name, None) for name in dir(error) if not name.startswith("__")}
    return {name: value for name, value in values.items() if not callable(value)}


def _with_lists(value: Any) -> Any:
    """The value with lists in place of tuples."""
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _with_subclasses(kinds: tuple[type[BaseException], ...]) -> Iterator[type[BaseException]]:
    for kind in kinds:
        yield kind
        yield from _with_subclasses(tuple(kind.__subclasses__()))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
