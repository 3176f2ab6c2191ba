"""Numbers in cache keys: one text for each value, whatever its type; and the steps that numbers are rounded to."""

from __future__ import annotations

import math
import operator
from contextlib import suppress
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from numbers import Integral
from typing import Any

from autocontext.errors import ConfigError, UncacheableError

_PLAIN_DIGITS = 18
"""Longer numbers are written with an exponent, so that 1E+999999 stays a short text."""
_PLAIN_LIMIT = 10**_PLAIN_DIGITS
_LARGEST_EXPONENT = 4_000
_MOST_DIGITS = 10_000
"""Python needs quadratic time to write an integer in decimal: a millisecond for so many digits."""
_MOST_BITS = 33_219
"""An integer of so many bits has at most 10,000 digits."""
_TOO_LONG = f"numbers of more than {_MOST_DIGITS:,} digits cannot be part of a key"


def integer_text(value: int) -> str:
    """The digits of an integer. Raises UncacheableError for more than 10,000."""
    if -_PLAIN_LIMIT < value < _PLAIN_LIMIT:
        return int.__repr__(value)
    _check_length(value)
    # Not through str(): Python refuses to write integers of more than 4,300 digits.
    return decimal_text(Decimal(value))


def float_text(value: float, digits: int | None) -> str:
    """The shortest decimal that reads back as the same float; `digits` rounds it to so many significant ones."""
    return decimal_text(Decimal(float.__repr__(value) if digits is None else f"{value:.{max(digits, 1) - 1}e}"))


def fraction_text(value: Fraction) -> str:
    """A decimal if the fraction has a finite one, else numerator and denominator."""
    _check_length(value.numerator, value.denominator)
    with suppress(Inexact):
        quotient = Context(prec=2 * _MOST_DIGITS, traps=[Inexact]).divide(value.numerator, value.denominator)
        if int(quotient.as_tuple().exponent) >= -_LARGEST_EXPONENT:
            return decimal_text(quotient)
    return f'{{"$fraction":[{integer_text(value.numerator)},{integer_text(value.denominator)}]}}'


def decimal_text(value: Decimal) -> str:
    """One text per value: no trailing zeros, no negative zero, an exponent only beyond 18 digits.

    Raises UncacheableError when it is not finite, or has more than 10,000 digits.
    """
    if not value.is_finite():
        raise UncacheableError("NaN and infinities cannot be part of a key")
    sign, digits, exponent = value.as_tuple()
    figures = "".join(map(str, digits)).lstrip("0")
    significant = figures.rstrip("0")
    if not significant:
        return "0"
    if len(significant) > _MOST_DIGITS:
        raise UncacheableError(_TOO_LONG)
    power = int(exponent) + len(figures) - len(significant)
    minus = "-" if sign else ""
    if power >= 0 and len(significant) + power <= _PLAIN_DIGITS:
        return minus + significant + "0" * power
    if -_PLAIN_DIGITS <= power < 0:
        padded = significant.rjust(1 - power, "0")
        return f"{minus}{padded[:power]}.{padded[power:]}"
    return f"{minus}{significant}E{power}"


def _check_length(*integers: int) -> None:
    if any(integer.bit_length() > _MOST_BITS for integer in integers):
        raise UncacheableError(_TOO_LONG)


def number_text(value: Any, digits: int | None) -> str:
    """A number of another library, if an int or a float holds it without loss."""
    if isinstance(value, Integral):
        whole = operator.index(value)  # int() also takes numbers with a unit, as numpy's lengths of time
        if whole != value:
            raise UncacheableError(f"{type(value).__name__} does not equal its integer")
        return integer_text(whole)
    number = float(value)
    if math.isfinite(number) and number != value:
        raise UncacheableError(f"{type(value).__name__} holds more digits than a float")
    return float_text(number, digits)


def rounded(value: Any, step: Any) -> Fraction:
    """The number rounded to the nearest multiple of a step, half to even. Raises UncacheableError, ConfigError."""
    try:
        size = _fraction(step)
    except UncacheableError:
        size = Fraction(0)
    if size <= 0:
        raise ConfigError(f"quantize: a step must be a number above 0 (got {step!r})")
    return round(_fraction(value) / size) * size


def _fraction(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise UncacheableError(f"only numbers can be rounded to a step, not {type(value).__name__}")
    if isinstance(value, int | Fraction):
        _check_length(value.numerator, value.denominator)
        return Fraction(value)
    exact = value if isinstance(value, Decimal) else Decimal(float.__repr__(value))
    if not exact.is_finite() or abs(exact.adjusted()) > _LARGEST_EXPONENT:
        raise UncacheableError(f"only finite numbers of up to {_LARGEST_EXPONENT} digits can be rounded to a step")
    if len(exact.as_tuple().digits) > _MOST_DIGITS:
        raise UncacheableError(_TOO_LONG)
    return Fraction(exact)
