"""The errors of this library.

AutoContextError
├── ConfigError (ValueError)             a configuration field is out of its range
├── InvalidMessage (ValueError)          a message, block, state or file line is malformed
├── InvalidEdit (ValueError)             the gate refused a change (strict mode only)
├── StateError (ValueError)              a saved state is damaged or of another version
├── Conflict                             another process has written to the same session
├── StoreError                           a store cannot be used: locked, full, read-only, unreachable
│   └── StoreVersionError                a newer version of this library has written to it
├── StoreCorruptError                    a stored record cannot be read back
├── UncacheableError (ValueError)        an argument or result cannot be kept in the result cache
├── InvalidNumber (ValueError)           a text is no number, or could be read as two
├── InvalidMemory (ValueError)           a field of a memory or of a search is invalid
├── ContextOverflowError                 `strict_fit`: the context cannot be made to fit
├── ModelError                           a model gave no usable answer; never leaves a compression
└── MissingExtraError (ImportError)      an optional dependency is not installed

A model's failure ends up in a report; a store's failure propagates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class AutoContextError(Exception):
    """Root of all errors of this library."""


class ConfigError(AutoContextError, ValueError):
    """A configuration field is out of its range; the message names field and range."""


class InvalidMessage(AutoContextError, ValueError):
    """A message or block is malformed; the message names the field and what is allowed."""


class InvalidEdit(AutoContextError, ValueError):
    """`edits.apply` refused a change in strict mode; the message gives the rule."""


class StateError(AutoContextError, ValueError):
    """A saved state cannot be loaded; the memory is unchanged."""


class Conflict(AutoContextError):
    """Another process has added entries to the session that this one has not read."""


class StoreError(AutoContextError):
    """A store cannot be used; names the store and what to do. Acknowledged writes are not lost."""


class StoreVersionError(StoreError):
    """A newer version of this library has written to the store; nothing was changed."""


class StoreCorruptError(AutoContextError):
    """A stored record cannot be read back; names session and sequence."""


class UncacheableError(AutoContextError, ValueError):
    """An argument has no canonical form, or a result is no JSON; names the parameter and the kind, never the value."""


class InvalidNumber(AutoContextError, ValueError):
    """A text is no number, or could be read as two different ones; the message says how to make it unambiguous."""


class InvalidMemory(AutoContextError, ValueError):
    """A field of a memory or of a search is invalid; the message names it."""


class ContextOverflowError(AutoContextError):
    """The context cannot be made to fit; names the fixed part that is too large."""


class ModelError(AutoContextError):
    """A model gave no usable answer.

    `retryable` says whether the same request may succeed later; `retry_after` is the wait in seconds that the service
    asked for, or None.
    """

    def __init__(self, message: str, *, retryable: bool = True, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after


class MissingExtraError(AutoContextError, ImportError):
    """An optional dependency is missing; the message gives the install command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'autocontext-memory[{extra}]'")
        self.extra = extra


def one_line(owner: str, problems: Iterable[Mapping[str, Any]]) -> str:
    """Pydantic's error list as one line: every field at fault, its value and what is allowed."""
    lines = []
    for problem in problems:
        where = ".".join(str(part) for part in problem["loc"] if part != "function-plain")
        message = str(problem["msg"]).removeprefix("Value error, ")
        got = "" if problem["type"] == "missing" else f" (got {_short(problem.get('input'))})"
        lines.append(f"{owner}.{where}: {message}{got}" if where else f"{owner}: {message}")
    return "; ".join(lines)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deep to show"
    return text if len(text) <= 80 else text[:77] + "..."
