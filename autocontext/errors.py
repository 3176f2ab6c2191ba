"""The errors of this library.

AutoContextError
├── ConfigError (ValueError)             a configuration field is out of its range
├── InvalidMessage (ValueError)          a message, block, state or file line is malformed
│   └── NoSuchMessage (IndexError)       no message of the working view has this index
├── InvalidEdit (ValueError)             the gate refused a change (strict mode only)
├── StateError (ValueError)              a saved state is damaged or of another version
├── Conflict                             another process has written to the same session
│   └── SessionGone                      another process has deleted the session, and perhaps created it again
├── StoreError                           a store cannot be used: locked, full, read-only, unreachable
│   └── StoreVersionError                a newer version of this library has written to it
├── StoreCorruptError                    a stored record cannot be read back
├── UncacheableError (ValueError)        an argument or result cannot be kept in the result cache
├── CacheCycle (RuntimeError)            two cached computations wait for each other
├── InvalidNumber (ValueError)           a text is not a number, or could be read as two
├── InvalidMemory (ValueError)           a field of a memory or of a search is invalid
├── ContextOverflowError                 `strict_fit`, `to_openai(strict=True)`: the context cannot be made to fit
├── ModelError                           a model gave no usable answer; never leaves a compression
└── MissingExtraError (ImportError)      an optional dependency is not installed

A model's failure ends up in a report; a store's failure propagates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any


class AutoContextError(Exception):
    """Root of all errors of this library."""


class ConfigError(AutoContextError, ValueError):
    """A configuration field is out of its range; the message names field and range."""


class InvalidMessage(AutoContextError, ValueError):
    """A message or block is malformed; the message names the field and what is allowed."""


class NoSuchMessage(InvalidMessage, IndexError):
    """No message of the working view has this index."""


class InvalidEdit(AutoContextError, ValueError):
    """`edits.apply` refused a change in strict mode; the message gives the rule."""


class StateError(AutoContextError, ValueError):
    """A saved state cannot be loaded; the memory is unchanged."""


class Conflict(AutoContextError):
    """Another process has added entries to the session that this one has not read."""


class SessionGone(Conflict):
    """The session was deleted, and perhaps created again under its name; nothing was written. Open a new memory."""


class StoreError(AutoContextError):
    """A store cannot be used; names the store and what to do. Acknowledged writes are not lost."""


class StoreVersionError(StoreError):
    """A newer version of this library has written to the store; nothing was changed."""


class StoreCorruptError(AutoContextError):
    """A stored record cannot be read back; names session and sequence."""


class UncacheableError(AutoContextError, ValueError):
    """An argument has no canonical form, or a result is not JSON; names the parameter and the kind, never the value."""


class CacheCycle(AutoContextError, RuntimeError):
    """Cached computations wait for each other, in one process or several, and would for ever; names the keys."""


class InvalidNumber(AutoContextError, ValueError):
    """A text is not a number, or could be read as two; the message says how to make it unambiguous."""


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
        super().__init__(f"{what} needs the extra {extra!r}: pip install -e '.[{extra}]' in your clone of autocontext")
        self.extra = extra


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Imports of an optional dependency: raises MissingExtraError where it is missing."""
    try:
        yield
    except ImportError as e:
        raise MissingExtraError(what, extra) from e


def did_you_mean(name: str, known: Collection[str], *, otherwise: str | None = None, likeness: float = 0.6) -> str:
    """The nearest of the known names as a question, "did you mean 'max_token'?", or `otherwise` (None: all of them).

    `likeness`, from 0 to 1, is the least that makes a name near (difflib's ratio).
    """
    nearest = get_close_matches(name, known, n=1, cutoff=likeness)
    if nearest:
        return f"did you mean {nearest[0]!r}?"
    return f"it has {', '.join(known)}" if otherwise is None else otherwise


def one_line(
    owner: str,
    problems: Iterable[Mapping[str, Any]],
    known: Collection[str] = (),
    java: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Pydantic's error list as one line: every field at fault, its value and what is allowed.

    `known` are the owner's fields, for the nearest name of one that it does not have; `java` are AgentScope-Java's
    names with the fields that they are here.
    """
    lines = []
    for problem in problems:
        where = ".".join(str(part) for part in problem["loc"] if part != "function-plain")
        message = str(problem["msg"]).removeprefix("Value error, ")
        if problem["type"] == "union_tag_not_found":
            message = f"the field {problem['ctx']['discriminator']} is missing"
        if problem["type"] == "union_tag_invalid":
            message = f"{problem['ctx']['discriminator']} must be one of {problem['ctx']['expected_tags']}"
        if problem["type"] == "model_attributes_type":
            message = "must be an object"
        if problem["type"] == "extra_forbidden" and known and len(problem["loc"]) == 1:
            message = "no such field; "
            message += f"here it is {java[where]!r}" if where in java else did_you_mean(where, known)
        got = "" if problem["type"] == "missing" else f" (got {short(problem.get('input'))})"
        lines.append(f"{owner}.{where}: {message}{got}" if where else f"{owner}: {message}")
    return "; ".join(lines)


def told(error: BaseException) -> str:
    """An error in a report: its type and its text; the type alone if it has none, or one that cannot be written."""
    name = type(error).__name__
    try:
        text = f"{error}".strip()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 (an error of any origin, while another one is reported)
        return name
    return f"{name}: {text}" if text else name


def headline(error: Exception) -> str:
    """The first line of an error's text; its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def short(value: object) -> str:
    """A value as in code, at most 80 characters and without secrets, for error messages."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} nested too deep to show"
    except Exception as e:  # noqa: BLE001 (the value's own code, or a number of too many digits; it is only shown)
        text = f"a {type(value).__name__} that cannot be shown ({type(e).__name__})"
    from autocontext.redaction import redact_secrets  # noqa: PLC0415 (its patterns cost what `import` spares)

    text = redact_secrets(text[:1_000])
    return text if len(text) <= 80 else text[:77] + "..."
