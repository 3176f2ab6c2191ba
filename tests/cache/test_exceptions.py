"""Stored exceptions: what a hit raises is what the miss raised."""

import importlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from autocontext.cache import ResultCache
from autocontext.cache.values import rebuilt_error


@pytest.fixture
def cache() -> ResultCache:
    return ResultCache(namespace="agent")


class Coded(LookupError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code, self._seen = code, [code]


class Slotted(LookupError):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        super().__init__("no code")
        self.code = code


class Answered(LookupError):
    """As the HTTP errors of SDKs."""

    def __init__(self, response: object) -> None:
        super().__init__("not found")
        self.response = response


class Shouting(LookupError):
    def __str__(self) -> str:
        return str(self.words).upper()  # type: ignore[attr-defined]


class Strange(LookupError):
    @property
    def request(self) -> str:
        raise RuntimeError("no request")


class Whole(BaseModel):
    n: int


def noted(error: Exception) -> Exception:
    error.add_note("while reading")
    return error


RAISES: dict[str, tuple[Callable[[], Any], bool]] = {
    "plain": (lambda: {}["ключ"], True),
    "several arguments": (lambda: raises(LookupError("a", 1, None)), True),
    "a file": (lambda: open("/nonexistent/file.txt"), True),  # noqa: PTH123, SIM115
    "two files": (lambda: os.rename("/nonexistent/a", "/nonexistent/b"), True),  # noqa: PTH104
    "an attribute": (lambda: raises(Coded(404)), True),
    "JSON": (lambda: json.loads("{"), True),
    "a note": (lambda: raises(noted(ValueError("x"))), True),
    "encoding": (lambda: "é".encode("ascii"), False),
    "a module": (lambda: importlib.import_module("no_such_module"), False),
    "a slot": (lambda: raises(Slotted(404)), False),
    "an object": (lambda: raises(Answered(object())), False),
    "no text": (lambda: raises(Shouting()), False),
    "a property": (lambda: raises(Strange("x")), False),
    "a model": (lambda: Whole.model_validate({"n": "x"}), False),
    "a tuple": (lambda: raises(LookupError((1, 2))), False),
    "several": (lambda: raises(ExceptionGroup("two", [ValueError("a"), KeyError("b")])), False),
}


def raises(error: Exception) -> None:
    raise error


def seen(error: Exception) -> dict[str, Any]:
    names = ("code", "_seen", "filename", "filename2", "errno", "pos", "name")
    kept = {name: getattr(error, name, None) for name in names}
    return kept | {"type": type(error), "args": repr(error.args), "notes": getattr(error, "__notes__", None)}


@pytest.mark.parametrize("kind", RAISES)
def test_an_exception_comes_back_as_it_was_or_is_not_stored(cache: ResultCache, kind: str) -> None:
    fail, is_kept = RAISES[kind]
    caught: list[Exception] = []
    for _ in range(2):
        with pytest.raises(Exception) as info:
            cache.get_or_compute("t", {}, fail, cache_exceptions=(Exception,))
        caught.append(info.value)
    assert seen(caught[0]) == seen(caught[1])
    with suppress(AttributeError):
        assert str(caught[0]) == str(caught[1])
    stats = cache.stats()
    assert (stats.computed, stats.entries, stats.uncacheable) == ((1, 1, 0) if is_kept else (2, 0, 2))


def test_a_stored_exception_that_cannot_be_made_again_counts_as_absent(cache: ResultCache) -> None:
    """As one of an earlier version of the library, or of its class."""
    stored = {"error": "pydantic_core._pydantic_core.ValidationError", "args": []}
    assert rebuilt_error(stored, (ValueError,)) is None
    assert rebuilt_error({"error": "builtins.KeyError", "args": ["x"]}, (LookupError,)).args == ("x",)  # type: ignore[union-attr]
