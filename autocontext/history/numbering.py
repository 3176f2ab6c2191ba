"""Numbers of original messages: m1 is the first message added, m41 the forty-first.

A number costs two tokens, a UUID about twenty. It never changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from autocontext.history.runs import Runs
from autocontext.history.view import View, exchange_of
from autocontext.messages import Msg

_NUMBER = re.compile(r"#?[mM]?([0-9]+)")
_DASH = re.compile(r"\.\.+|[-‐‑‒–—−~…]+")
"""Between the bounds of a range."""
_SEPARATORS = str.maketrans({**dict.fromkeys("[](){}<>\"'`“”‘’「」", " "), **dict.fromkeys(";，、；", ",")})
"""Brackets and quotes around numbers become blanks; other separators become commas."""
_MOST_DIGITS = 15
"""No conversation has longer numbers, and int() refuses very long ones."""

_FEW = 16
"""Messages whose exchanges are looked for one by one, not by reading the whole history."""


def name(number: int) -> str:
    """The name of a message in texts: "m41"."""
    return f"m{number}"


def names(numbers: Iterable[int]) -> str:
    """Ascending numbers as a list with ranges, "m1,m3-m5", which `parse` reads."""
    runs = numbers if isinstance(numbers, Runs) else Runs.of(numbers)
    return ",".join(name(low) if low == high else f"{name(low)}-{name(high)}" for low, high in runs.pairs)


def short_list(numbers: Iterable[int], longest: int = 200) -> str:
    """`names`, cut after a comma to at most about `longest` characters, with "..."."""
    text = names(numbers)
    return text if len(text) <= longest else text[: text.rfind(",", 0, longest) + 1] + "..."


def bare(text: str) -> str:
    """The text without brackets and quotes around it, its separators commas."""
    return text.translate(_SEPARATORS).strip()


def parse(text: str, total: int) -> Runs | None:
    """The numbers from 1 to `total` that a text names; None if it is no list of numbers.

    Accepts "m41", "M41", "#41", "41", ranges such as "m12-m19", "12..19" and "m19-12", and lists with commas.
    """
    spans: list[tuple[int, int]] = []
    for item in _DASH.sub("-", text.translate(_SEPARATORS)).split(","):
        if not item.strip():
            continue
        bounds = [_number(bound) for bound in item.split("-")]
        limits = [bound for bound in bounds if bound is not None]
        if len(limits) < len(bounds) or len(limits) > 2:
            return None
        spans.append((min(limits), max(limits)))
    there = ((max(low, 1), min(high, total)) for low, high in spans if low <= total and high >= 1)
    return Runs(there) if spans else None


def _number(text: str) -> int | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits = match[1].lstrip("0")
    return int(digits or 0) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def with_exchanges(numbers: Collection[int], originals: Sequence[Msg]) -> list[int]:
    """The numbers, and those of all messages in the same exchanges: a call comes with its results."""
    exchange = View.of(originals).exchange if len(numbers) > _FEW else partial(exchange_of, messages=originals)
    numbered: set[int] = set()
    for number in numbers:
        # Exchanges do not overlap, so each is looked up once.
        if number not in numbered:
            numbered.update(place + 1 for place in exchange(number - 1))
    return sorted(numbered)
