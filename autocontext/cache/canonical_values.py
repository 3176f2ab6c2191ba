"""The canonical text of a single value, kind by kind.

Numbers count by value, whatever holds them: a float stands for the shortest decimal that reads back as it. Texts are
normalised to NFC. What a class defines (dataclass, model, enum, named tuple) carries the class's qualified name.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral, Real
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from autocontext.errors import ConfigError, UncacheableError

DEEPEST = 100
"""Levels of nesting; a value that holds itself is deeper than any other."""
_PLAIN_DIGITS = 18
"""Numbers of more digits are written with an exponent, so that 1E+999999 stays a short text."""
_PLAIN_LIMIT = 10**_PLAIN_DIGITS
_LARGEST_EXPONENT = 4_000

quoted = json.encoder.encode_basestring_ascii
"""A text as JSON in ASCII."""


def text_of(value: str) -> str:
    """A text in the form under which equal texts are equal: Unicode normalisation form C."""
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def written(value: Any, float_digits: int | None = None, depth: int = 0) -> str:
    """The canonical JSON of a value; raises UncacheableError where there is no rule for it."""
    if depth > DEEPEST:
        raise UncacheableError(f"it is nested deeper than {DEEPEST} levels, or contains itself")
    write = _WRITERS.get(type(value)) or _writer_of(value)
    return write(value, float_digits, depth)


def quantized(value: Any, step: Any) -> Any:
    """A number, or each number of a list, rounded to the nearest multiple of a step, half to even; None stays None."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [quantized(item, step) for item in value]
    try:
        size = _fraction(step)
    except UncacheableError:
        size = Fraction(0)
    if size <= 0:
        raise ConfigError(f"quantize: a step is a number above 0 (got {step!r})")
    return round(_fraction(value) / size) * size


def _fraction(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise UncacheableError(f"only numbers can be rounded to a step, not {type(value).__name__}")
    if isinstance(value, int | Fraction):
        return Fraction(value)
    exact = value if isinstance(value, Decimal) else Decimal(float.__repr__(value))
    if not exact.is_finite() or abs(exact.adjusted()) > _LARGEST_EXPONENT:
        raise UncacheableError("it is not a finite number of ordinary size")
    return Fraction(exact)


def _text(value: str, _digits: int | None, _depth: int) -> str:
    return quoted(text_of(value))


def _truth(value: bool, _digits: int | None, _depth: int) -> str:
    return "true" if value else "false"


def _nothing(_value: None, _digits: int | None, _depth: int) -> str:
    return "null"


def _integer(value: int, _digits: int | None, _depth: int) -> str:
    if -_PLAIN_LIMIT < value < _PLAIN_LIMIT:
        return int.__repr__(value)
    # Not through str(): Python refuses to write integers of more than 4,300 digits.
    return _number(Decimal(value))


def _float(value: float, digits: int | None, _depth: int) -> str:
    if not math.isfinite(value):
        raise UncacheableError("NaN and infinities are equal to nothing and cannot be part of a key")
    if digits is not None:
        return _number(Decimal(f"{value:.{max(digits, 1) - 1}e}"))
    return _number(Decimal(float.__repr__(value)))


def _decimal(value: Decimal, _digits: int | None, _depth: int) -> str:
    if not value.is_finite():
        raise UncacheableError("NaN and infinities are equal to nothing and cannot be part of a key")
    return _number(value)


def _fractional(value: Fraction, _digits: int | None, _depth: int) -> str:
    """A decimal where the fraction is one, else a kind of its own."""
    rest, fives, twos = value.denominator, 0, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    places = max(twos, fives)
    if rest != 1 or places > _LARGEST_EXPONENT:
        return f'{{"$fraction":[{_integer(value.numerator, None, 0)},{_integer(value.denominator, None, 0)}]}}'
    sign, digits, exponent = Decimal(value.numerator * 10**places // value.denominator).as_tuple()
    return _number(Decimal((sign, digits, int(exponent) - places)))


def _number(value: Decimal) -> str:
    """One text per value: no trailing zeros, no sign of zero, an exponent only outside of 18 digits."""
    sign, digits, exponent = value.as_tuple()
    figures = "".join(map(str, digits)).lstrip("0")
    significant = figures.rstrip("0")
    if not significant:
        return "0"
    power = int(exponent) + len(figures) - len(significant)
    minus = "-" if sign else ""
    if power >= 0 and len(significant) + power <= _PLAIN_DIGITS:
        return minus + significant + "0" * power
    if -_PLAIN_DIGITS <= power < 0:
        padded = significant.rjust(1 - power, "0")
        return f"{minus}{padded[:power]}.{padded[power:]}"
    return f"{minus}{significant}E{power}"


def _abstract_number(value: Any, digits: int | None, depth: int) -> str:
    """Numbers of other libraries, as far as an int or a float holds them without loss."""
    if isinstance(value, Integral):
        return _integer(int(value), digits, depth)
    number = float(value)
    if math.isfinite(number) and number != value:
        raise UncacheableError(f"{_name_of(value)} holds more digits than a float")
    return _float(number, digits, depth)


def _list(value: Any, digits: int | None, depth: int) -> str:
    return "[" + ",".join([written(item, digits, depth + 1) for item in value]) + "]"


def _set(value: Any, digits: int | None, depth: int) -> str:
    return '{"$set":[' + ",".join(sorted([written(item, digits, depth + 1) for item in value])) + "]}"


def _mapping(value: Mapping[Any, Any], digits: int | None, depth: int) -> str:
    pairs = [(written(key, digits, depth + 1), written(item, digits, depth + 1)) for key, item in value.items()]
    pairs.sort()
    keys = [key for key, _ in pairs]
    if all(key[0] == '"' and key[1] != "$" for key in keys) and len(set(keys)) == len(keys):
        return "{" + ",".join([f"{key}:{item}" for key, item in pairs]) + "}"
    return '{"$map":[' + ",".join([f"[{key},{item}]" for key, item in pairs]) + "]}"


def _bytes(value: Any, _digits: int | None, _depth: int) -> str:
    return f'{{"$bytes":"{base64.b64encode(bytes(value)).decode()}"}}'


def _datetime(value: datetime, _digits: int | None, _depth: int) -> str:
    if value.utcoffset() is None:
        # A clock that is put back shows an hour twice; fold tells which.
        return f'{{"$local":"{value.replace(tzinfo=None).isoformat()}{"+fold" if value.fold else ""}"}}'
    try:
        return f'{{"$time":"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"}}'
    except OverflowError:
        raise UncacheableError("its instant lies outside of the calendar") from None


def _date(value: date, _digits: int | None, _depth: int) -> str:
    return f'{{"$date":"{value.isoformat()}"}}'


def _clock(value: time, _digits: int | None, _depth: int) -> str:
    return f'{{"$clock":"{value.isoformat()}{"+fold" if value.fold else ""}"}}'


def _duration(value: timedelta, _digits: int | None, _depth: int) -> str:
    return f'{{"$microseconds":{value // timedelta(microseconds=1)}}}'


def _uuid(value: UUID, _digits: int | None, _depth: int) -> str:
    return f'{{"$uuid":"{value}"}}'


def _path(value: Any, _digits: int | None, _depth: int) -> str:
    return f'{{"$path":{quoted(text_of(str(value)))}}}'


def _enum(value: Enum, digits: int | None, depth: int) -> str:
    return f'{{"$enum":[{quoted(_name_of(value))},{written(value.value, digits, depth + 1)}]}}'


def _model(value: BaseModel, digits: int | None, depth: int) -> str:
    # The same parts that pydantic's own == compares.
    parts = {**value.__dict__, **(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}
    return f'{{"$model":[{quoted(_name_of(value))},{_mapping(parts, digits, depth + 1)}]}}'


def _dataclass(value: Any, digits: int | None, depth: int) -> str:
    parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return f'{{"$dataclass":[{quoted(_name_of(value))},{_mapping(parts, digits, depth + 1)}]}}'


def _named_tuple(value: Any, digits: int | None, depth: int) -> str:
    return f'{{"$named":[{quoted(_name_of(value))},{_list(value, digits, depth)}]}}'


def _refused(value: Any, _digits: int | None, _depth: int) -> str:
    raise UncacheableError(f"there is no rule for {_name_of(value)}; pass plain values, or leave it out with ignore=")


def _name_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


_Writer = Callable[[Any, int | None, int], str]
_WRITERS: dict[type, _Writer] = {
    str: _text, int: _integer, float: _float, bool: _truth, type(None): _nothing, Decimal: _decimal,
    Fraction: _fractional, list: _list, tuple: _list, deque: _list, dict: _mapping, set: _set, frozenset: _set,
    bytes: _bytes, bytearray: _bytes, memoryview: _bytes, datetime: _datetime, date: _date, time: _clock,
    timedelta: _duration, UUID: _uuid,
}  # fmt: skip
# In this order: an enum may also be a text, a time stamp is also a date, a named tuple is also a tuple.
_FAMILIES: tuple[tuple[type, _Writer], ...] = (
    (Enum, _enum), (BaseModel, _model), (str, _text), (int, _integer), (float, _float), (Decimal, _decimal),
    (Fraction, _fractional), (datetime, _datetime), (date, _date), (time, _clock), (timedelta, _duration),
    (bytes, _bytes), (bytearray, _bytes), (list, _list), (tuple, _list), (deque, _list), (set, _set),
    (frozenset, _set), (Mapping, _mapping), (Real, _abstract_number),
)  # fmt: skip


def _writer_of(value: Any) -> _Writer:
    if isinstance(value, type):
        return _refused
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _named_tuple
    if dataclasses.is_dataclass(value) and not isinstance(value, Enum):
        return _dataclass
    # By name, as the core imports no pathlib: every path class there is one of its own module.
    if type(value).__module__.split(".")[0] == "pathlib":
        return _path
    return next((write for family, write in _FAMILIES if isinstance(value, family)), _refused)
