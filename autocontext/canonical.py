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

from autocontext.canonical_values import quantized, text_of, written
from autocontext.errors import ConfigError, UncacheableError

LABEL = 60
"""Characters of a key's readable part; it helps to read a key and decides nothing."""
_EMPTY = ("null", "[]", "{}", '""')
_NO_LABEL = re.compile(r"[^\w.,+-]+")

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
    texts: dict[str, str] = {}
    shown: dict[str, str] = {}
    for name, value in params.items():
        if not isinstance(name, str):
            raise ConfigError(f"params: names are text (got {type(name).__name__}); put other mappings inside a value")
        if name in left_out:
            continue
        try:
            text = written(quantized(value, steps[name]) if name in steps else value, float_digits)
        except UncacheableError as error:
            raise UncacheableError(f"{task}: parameter {name!r}: {error}") from None
        shown[name] = "redacted" if name in hidden else _shown(name, text)
        texts[name] = _concealed(task, name, text) if name in hidden else text
    args = written_object(texts)
    edition = "" if version is None else _version(task, version)
    digest = hashlib.sha256(f"[{written(task)},{edition or 'null'},{args}]".encode("ascii")).hexdigest()
    return CacheKey(_label(shown, texts), digest, args, task, edition)


def written_object(texts: Mapping[str, str]) -> str:
    """One canonical JSON object out of parameters that are canonical JSON already."""
    return "{" + ",".join(sorted(f"{written(name)}:{text}" for name, text in texts.items())) + "}"


def names_in(names: Names, field: str) -> frozenset[str]:
    """Names of parameters as a set; raises ConfigError when one is no text."""
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
    if text in _EMPTY:
        return f"no_{name}"
    readable = json.loads(text) if text[0] == '"' else text
    return _NO_LABEL.sub("_", readable[: 2 * LABEL]).strip("_")


def _label(shown: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """By name, single values before lists and empty ones: the order of the parameters must not show."""
    parts = [shown[name] for name in sorted(shown, key=lambda name: (not _single(texts[name]), name))]
    return ":".join(parts)[:LABEL] or "no_parameters"


def _single(text: str) -> bool:
    return text[0] not in "[{" and text not in _EMPTY
