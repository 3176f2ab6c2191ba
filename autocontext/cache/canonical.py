"""One text for equal arguments, another for different ones: the key under which a result is found again.

A plain JSON value stands in the canonical text as itself, so that a stored key can be read. Every other kind is an
object with one key that begins with `$`; a mapping that has such a key, or one that is no text, is written as pairs. So
no two kinds share a text. Nothing falls back on `repr` or on an object's address: what has no rule is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autocontext.cache.canonical_values import quantized, quoted, text_of, written
from autocontext.errors import ConfigError, UncacheableError

LABEL = 60
"""Characters of a key's readable part; it helps to read a key and decides nothing."""
_EMPTY = ("null", "[]", "{}", '""')
_NO_LABEL = re.compile(r"[^\w.,+-]+")

_NONE: frozenset[str] = frozenset()

Names = Iterable[str] | str
"""Names of parameters; a single text is one name, not its letters."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The key of one call; equal keys are equal calls, as `args` holds the arguments themselves."""

    label: str
    """The arguments in short, to be read: numbers and texts by name, then lists."""
    digest: str
    """SHA-256 over task, version and arguments, 64 hexadecimal digits."""
    args: str
    """The canonical JSON of all arguments that take part."""
    task: str
    version: str = ""
    """Canonical JSON of the version; "" when there is none."""

    def __str__(self) -> str:
        return f"{self.task}:{self.label}:{self.digest[:16]}"


def canonical(value: Any, *, float_digits: int | None = None) -> str:
    """The canonical JSON of a value, ASCII only; `float_digits` rounds floats to that many significant digits.

    Raises UncacheableError for NaN, infinities, cycles and objects of unknown kinds.
    """
    return written(value, float_digits)


def canonical_key(
    task: str,
    params: Mapping[str, Any],
    *,
    ignore: Names = (),
    quantize: Mapping[str, Any] | None = None,
    version: Any = None,
    redact: Names = (),
    float_digits: int | None = None,
) -> CacheKey:
    """The key of a task with these parameters, whatever their order.

    `ignore` leaves parameters out altogether; `redact` lets them count but keeps only a hash of them; `quantize` maps
    a parameter's name to the step its number is rounded to, half to even. `version` is any cacheable value: another
    version never finds this one's results. Raises UncacheableError naming the parameter that cannot be part of a key.
    """
    if not isinstance(task, str) or not task:
        raise ConfigError(f"task: a task needs a name, a text that is not empty (got {type(task).__name__})")
    task = text_of(task)
    left_out, hidden, steps = names_in(ignore, "ignore"), names_in(redact, "redact"), quantize or {}
    parts: list[tuple[str, str, str]] = []
    for name, value in params.items():
        if not isinstance(name, str):
            raise ConfigError(f"params: names are text (got {type(name).__name__}); put other mappings inside a value")
        if name in left_out:
            continue
        try:
            text = written(quantized(value, steps[name]) if name in steps else value, float_digits)
        except UncacheableError as error:
            raise UncacheableError(f"{task}: parameter {name!r}: {error}") from None
        shown = "redacted" if name in hidden else _shown(name, text)
        parts.append((quoted(text_of(name)), _concealed(task, name, text) if name in hidden else text, shown))
    # Sorted by name: the order in which the parameters were given must not show.
    parts.sort()
    args = "{" + ",".join([f"{name}:{text}" for name, text, _ in parts]) + "}"
    edition = "" if version is None else _version(task, version)
    digest = hashlib.sha256(f"[{quoted(task)},{edition or 'null'},{args}]".encode("ascii")).hexdigest()
    return CacheKey(_label(parts), digest, args, task, edition)


def names_in(names: Names, field: str) -> frozenset[str]:
    """Names of parameters as a set; raises ConfigError when one is no text."""
    if not names:
        return _NONE
    found = frozenset((names,) if isinstance(names, str) else names)
    if wrong := [name for name in found if not isinstance(name, str)]:
        raise ConfigError(f"{field}: names of parameters are text (got {type(wrong[0]).__name__})")
    return found


def _version(task: str, version: Any) -> str:
    try:
        return written(version)
    except UncacheableError as error:
        raise UncacheableError(f"{task}: version: {error}") from None


def _concealed(task: str, name: str, text: str) -> str:
    # Task and name go into the hash so that one secret does not look the same wherever it is used.
    digest = hashlib.sha256("\0".join((written(task), written(name), text)).encode("ascii")).hexdigest()
    return f'{{"$redacted":"{digest}"}}'


def _shown(name: str, text: str) -> str:
    if text.isalnum() and text != "null":
        return text  # a whole number, which most are
    if text in _EMPTY:
        return f"no_{name}"
    readable = json.loads(text) if text[0] == '"' else text
    return _NO_LABEL.sub("_", readable[: 2 * LABEL]).strip("_")


def _label(parts: list[tuple[str, str, str]]) -> str:
    """Single values before lists and empty ones, both by name."""
    single = [shown for _, text, shown in parts if text[0] not in "[{" and text not in _EMPTY]
    if len(single) < len(parts):
        single += [shown for _, text, shown in parts if text[0] in "[{" or text in _EMPTY]
    return ":".join(single)[:LABEL] or "no_parameters"
