"""Answers of services in which a field is missing, null or of another type."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

WRONG: list[Any] = [None, 0, 1.5, "", "x", [], [[]], {}, {"a": 1}, True, "\ud800"]
"""What may stand where something else belongs; leaving it out is one more."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a JSON value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(answer: dict[str, Any], path: tuple[Any, ...], *new: Any) -> dict[str, Any]:
    """The answer with another value, or nothing, at a place."""
    answer = copy.deepcopy(answer)
    inner: Any = answer
    for key in path[:-1]:
        inner = inner[key]
    if new:
        inner[path[-1]] = new[0]
    else:
        del inner[path[-1]]
    return answer


def spoiled(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answer with everything that can be wrong with one of its fields."""
    for path in places(answer):
        yield changed(answer, path)
        for value in WRONG:
            yield changed(answer, path, value)
