"""Cache keys: equal arguments give the same key, different arguments different ones.

A plain JSON value is its own canonical text, so that a stored key can be read. Every other kind becomes an object with
one key that begins with `$`; a mapping with such a key, or with a key that is not text, is written as pairs. So no two
kinds share a text. Nothing falls back on `repr` or on an object's address: a value without a rule is refused.

Numbers count by value, whatever their type: a float counts as the shortest decimal that reads back as the same float.
Texts are normalised to NFC. Dataclasses, models, enums and named tuples carry the qualified name of their class.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property
from numbers import Real
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from autocontext.cache import canonical_numbers
from autocontext.errors import AutoContextError, ConfigError, UncacheableError
from autocontext.text.normal_forms import normalized

LABEL = 60
"""Maximum length of a key's label, which is for people only."""
_EMPTY = ("null", "[]", "{}", '""')
_NO_LABEL = re.compile(r"[^\w.,+-]+")

Names = Iterable[str] | str
"""Names of parameters; a single text is one name."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The key of one call. `args` holds the arguments themselves, so equal keys mean equal calls."""

    label: str
    """The arguments in short, for people."""
    digest: str
    """SHA-256 over task, version and arguments, 64 hexadecimal digits."""
    args: str
    """The canonical JSON of the arguments."""
    task: str
    version: str = ""
    """Canonical JSON of the version; "" when there is none."""

    def __str__(self) -> str:
        return f"{self.task}:{self.label}:{self.digest[:16]}"


def canonical_key(
    task: str,
    params: Mapping[str, Any],
    *,
    ignore: Names = (),
    quantize: Mapping[str, Any] | None = None,
    version: Any = None,
    hashed: Names = (),
    float_digits: int | None = None,
) -> CacheKey:
    """The key of a task with these parameters, in any order.

    `ignore` names parameters that do not count. `hashed` names those that count, but of which the key holds only a
    hash. `quantize` maps a parameter to a step: its number is rounded to a multiple, half to even. `version` is any
    cacheable value; each version has results of its own. `float_digits` rounds floats to that many significant digits.
    Raises ConfigError, and UncacheableError that names the parameter that cannot be part of a key.
    """
    if not isinstance(task, str) or not task:
        raise ConfigError(f"task: give a text that is not empty (got {type(task).__name__})")
    if not isinstance(params, Mapping):
        raise ConfigError(f"params: give a mapping from names to values (got {type(params).__name__})")
    task = text_of(task)
    ignored, hidden, steps = names_in(ignore, "ignore"), names_in(hashed, "hashed"), quantize or {}
    parts: list[tuple[str, str, str]] = []
    for name, value in params.items():
        if not isinstance(name, str):
            raise ConfigError(
                f"params: names must be text (got {type(name).__name__}); put other mappings inside a value"
            )
        if name in ignored:
            continue
        try:
            text = canonical(_quantized(value, steps[name]) if name in steps else value, float_digits)
        except UncacheableError as error:
            raise UncacheableError(f"{task}: parameter {name!r}: {error}") from None
        shown = "hashed" if name in hidden else _shown(name, text)
        parts.append((_quoted(text_of(name)), _hash_of(task, name, text) if name in hidden else text, shown))
    parts.sort()
    args = "{" + ",".join([f"{name}:{text}" for name, text, _ in parts]) + "}"
    version_text = "" if version is None else _version(task, version)
    digest = hashlib.sha256(f"[{_quoted(task)},{version_text or 'null'},{args}]".encode("ascii")).hexdigest()
    return CacheKey(_label(parts), digest, args, task, version_text)


def names_in(names: Names, field: str) -> frozenset[str]:
    """Names of parameters as a set. Raises ConfigError when one is not text."""
    if not names:
        return frozenset()
    listed = frozenset(names if isinstance(names, Iterable) and not isinstance(names, str) else (names,))
    if wrong := [name for name in listed if not isinstance(name, str)]:
        raise ConfigError(f"{field}: names of parameters must be text (got {type(wrong[0]).__name__})")
    return listed


def _version(task: str, version: Any) -> str:
    try:
        return canonical(version)
    except UncacheableError as error:
        raise UncacheableError(f"{task}: version: {error}") from None


def _hash_of(task: str, name: str, text: str) -> str:
    # With task and name, so that a secret has different hashes in different places.
    digest = hashlib.sha256("\0".join((canonical(task), canonical(name), text)).encode("ascii")).hexdigest()
    return f'{{"$hashed":"{digest}"}}'


def _shown(name: str, text: str) -> str:
    if text in _EMPTY:
        return f"no_{name}"
    if text[0] == '"':
        text = text[1:-1] if "\\" not in text else json.loads(text)
    start = text[: 2 * LABEL]
    return start if start.isalnum() else _NO_LABEL.sub("_", start).strip("_")


def _label(parts: list[tuple[str, str, str]]) -> str:
    """Single values before lists and empty ones, both by name."""
    ordered = sorted(parts, key=lambda part: part[1][0] in "[{" or part[1] in _EMPTY)
    return ":".join(shown for _, _, shown in ordered)[:LABEL] or "no_parameters"


# ------------------------------------------------------------------------------------------------------ single values
_DEEPEST = 100
"""Levels of nesting. A value that contains itself exceeds them."""
_TOO_DEEP = f"it is nested deeper than {_DEEPEST} levels or contains itself"

_quoted = json.encoder.encode_basestring_ascii


def text_of(value: str) -> str:
    """A text in Unicode normalisation form C, in which equal texts have equal characters."""
    return value if value.isascii() else normalized(value)


def canonical(value: Any, float_digits: int | None = None, depth: int = 0) -> str:
    """The canonical JSON of a value, in ASCII.

    Raises UncacheableError for NaN, infinities, cycles, objects of unknown kinds, and those whose own code raises.
    """
    if depth > _DEEPEST:
        raise UncacheableError(_TOO_DEEP)
    try:
        write = _WRITERS.get(type(value)) or _writer_of(value)
        return write(value, float_digits, depth)
    except AutoContextError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a value's own code raises)
        raise UncacheableError(f"{_name_of(value)} cannot be read ({type(error).__name__})") from None


def _quantized(value: Any, step: Any, depth: int = 0) -> Any:
    """A number, or each number of a list, rounded to the nearest multiple of a step, half to even; None stays None."""
    if value is None:
        return None
    if depth > _DEEPEST:
        raise UncacheableError(_TOO_DEEP)
    if isinstance(value, list | tuple):
        return [_quantized(item, step, depth + 1) for item in value]
    return canonical_numbers.rounded(value, step)


def _list(value: Any, digits: int | None, depth: int) -> str:
    return "[" + ",".join([canonical(item, digits, depth + 1) for item in value]) + "]"


def _set(value: Any, digits: int | None, depth: int) -> str:
    return '{"$set":[' + ",".join(sorted([canonical(item, digits, depth + 1) for item in value])) + "]}"


def _mapping(value: Mapping[Any, Any], digits: int | None, depth: int) -> str:
    pairs = [(canonical(key, digits, depth + 1), canonical(item, digits, depth + 1)) for key, item in value.items()]
    pairs.sort()
    keys = [key for key, _ in pairs]
    if all(key[0] == '"' and key[1] != "$" for key in keys) and len(set(keys)) == len(keys):
        return "{" + ",".join([f"{key}:{item}" for key, item in pairs]) + "}"
    return '{"$map":[' + ",".join([f"[{key},{item}]" for key, item in pairs]) + "]}"


def _bytes(value: Any, _digits: int | None, _depth: int) -> str:
    return f'{{"$bytes":"{base64.b64encode(bytes(value)).decode()}"}}'


def _datetime(value: datetime, _digits: int | None, _depth: int) -> str:
    if value.utcoffset() is None:
        # When clocks go back, an hour occurs twice; fold says which one it is.
        return f'{{"$local":"{value.replace(tzinfo=None).isoformat()}{"+fold" if value.fold else ""}"}}'
    try:
        return f'{{"$time":"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"}}'
    except OverflowError:
        raise UncacheableError("in UTC it is outside the range of datetime") from None


def _named(sign: str, value: object, content: str) -> str:
    """A value of a class that is named, too."""
    return f'{{"${sign}":[{_quoted(_name_of(value))},{content}]}}'


def _model(value: BaseModel, digits: int | None, depth: int) -> str:
    # The same parts that pydantic's own == compares.
    parts = {**value.__dict__, **(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}
    return _named("model", value, _mapping(parts, digits, depth + 1))


def _dataclass(value: Any, digits: int | None, depth: int) -> str:
    # All that it holds: also what `__post_init__` or a subclass adds. A field may have no value.
    names = [field.name for field in dataclasses.fields(value)]
    parts = {name: getattr(value, name) for name in names if hasattr(value, name)}
    state: Any = object.__getstate__(value)  # `__dict__`, or that and the slots
    for held in state if isinstance(state, tuple) else [state]:
        parts.update(held or {})
    # What a cached property keeps follows from the rest; `Box[int](1)` holds its hint, and equals `Box(1)`.
    kind = type(value)
    parts.pop("__orig_class__", None)
    parts = {name: item for name, item in parts.items() if not isinstance(getattr(kind, name, None), cached_property)}
    return _named("dataclass", value, _mapping(parts, digits, depth + 1))


def _refused(value: Any, _digits: int | None, _depth: int) -> str:
    raise UncacheableError(
        f"{_name_of(value)} has no canonical form; pass plain values, or leave the parameter out with ignore="
    )


def _name_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


_Writer = Callable[[Any, int | None, int], str]
# The order matters: an enum may also be a text, a datetime is also a date, a truth value a number.
_FAMILIES: tuple[tuple[type, _Writer], ...] = (
    (Enum, lambda value, digits, depth: _named("enum", value, canonical(value.value, digits, depth + 1))),
    (BaseModel, _model),
    (str, lambda value, _digits, _depth: _quoted(text_of(value))),
    (bool, lambda value, _digits, _depth: "true" if value else "false"),
    (int, lambda value, _digits, _depth: canonical_numbers.integer_text(value)),
    (float, lambda value, digits, _depth: canonical_numbers.float_text(value, digits)),
    (type(None), lambda _value, _digits, _depth: "null"),
    (Decimal, lambda value, _digits, _depth: canonical_numbers.decimal_text(value)),
    (Fraction, lambda value, _digits, _depth: canonical_numbers.fraction_text(value)),
    (datetime, _datetime),
    (date, lambda value, _digits, _depth: f'{{"$date":"{value.isoformat()}"}}'),
    (time, lambda value, _digits, _depth: f'{{"$clock":"{value.isoformat()}{"+fold" if value.fold else ""}"}}'),
    (timedelta, lambda value, _digits, _depth: f'{{"$microseconds":{value // timedelta(microseconds=1)}}}'),
    (UUID, lambda value, _digits, _depth: f'{{"$uuid":"{value}"}}'),
    *dict.fromkeys((bytes, bytearray, memoryview), _bytes).items(),
    *dict.fromkeys((list, tuple, deque), _list).items(),
    *dict.fromkeys((set, frozenset), _set).items(),
    (PurePath, lambda value, _digits, _depth: f'{{"$path":{_quoted(text_of(str(value)))}}}'),
    (dict, _mapping),
    (Mapping, _mapping),
    (Real, lambda value, digits, _depth: canonical_numbers.number_text(value, digits)),
)
_WRITERS: dict[type, _Writer] = dict(_FAMILIES)


def _writer_of(value: Any) -> _Writer:
    if isinstance(value, type):
        return _refused
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return lambda value, digits, depth: _named("named", value, _list(value, digits, depth))
    if dataclasses.is_dataclass(value) and not isinstance(value, Enum):
        return _dataclass
    return next((write for family, write in _FAMILIES if isinstance(value, family)), _refused)
