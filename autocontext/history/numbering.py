"""Numbers of original messages: m1 for the first that was ever added, m41 for the forty-first.

A number costs a model two tokens where a UUID costs twenty, and never changes: it is the place in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from autocontext.history.view import View

_NUMBER = re.compile(r"#?[mM]?([0-9]+)")
_TO = re.compile(r"\.\.+|[-‐‑‒–—−~…]+")
"""What may stand between the bounds of a range."""
_LOOSE = str.maketrans({**dict.fromkeys("[](){}<>\"'`“”‘’「」", " "), **dict.fromkeys(";，、；", ",")})
"""What may stand around numbers, and in place of a comma."""
_MOST_DIGITS = 15
"""Longer numbers are beyond any conversation; int() refuses the longest."""


def name(number: int) -> str:
    """How a message is called: "m41"."""
    return f"m{number}"


def names(numbers: Iterable[int]) -> str:
    """Ascending numbers as a list with ranges, "m1,m3-m5", which `parse` reads."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(name(low) if low == high else f"{name(low)}-{name(high)}" for low, high in runs)


def parse(text: str, total: int) -> list[int] | None:
    """The numbers from 1 to `total` that a text names, ascending, each once; None when it is no list of numbers.

    Understood are "m41", "M41", "#41", "41", ranges such as "m12-m19", "12..19" and "m19-12", and lists with commas.
    """
    spans: list[tuple[int, int]] = []
    for item in _TO.sub("-", text.translate(_LOOSE)).split(","):
        if not item.strip():
            continue
        bounds = [_number(bound) for bound in item.split("-")]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds) or len(known) > 2:
            return None
        spans.append((min(known), max(known)))
    return _within(spans, total) if spans else None


def _number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    digits = found[1].lstrip("0")
    return int(digits or 0) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _within(spans: Iterable[tuple[int, int]], total: int) -> list[int]:
    """The numbers from 1 to `total` in these spans; spans that overlap cost nothing more."""
    numbers: list[int] = []
    for low, high in sorted(spans):
        start = max(low, numbers[-1] + 1 if numbers else 1)
        numbers.extend(range(start, min(high, total) + 1))
    return numbers


def with_exchanges(numbers: Iterable[int], originals: View) -> list[int]:
    """The numbers, with those of all messages that they share an exchange with: a call goes with its results."""
    found: set[int] = set()
    for number in numbers:
        # Exchanges do not overlap: one that has been found need not be gone through again for each of its messages.
        if number not in found:
            found.update(place + 1 for place in originals.exchange(number - 1))
    return sorted(found)
