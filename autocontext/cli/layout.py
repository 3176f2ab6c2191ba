"""How much room texts take, and which columns of a table find room beside each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a table; `optional` ones are left out, the last first, when the terminal is too narrow."""

    title: str
    right: bool = True
    optional: bool = False


def cells(text: str) -> int:
    """Columns that a text takes on a terminal: two for the wide characters of East Asia, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def harmless(text: str) -> str:
    """A foreign text in one line, without the control characters that would steer the terminal."""
    return "".join(ch if ch.isprintable() else " " if ch.isspace() else "?" for ch in text)


def fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[Column], list[list[str]]]:
    """The columns that fit beside each other, with their cells."""
    kept = list(range(len(columns)))
    for i in reversed(range(len(columns))):
        if _needs(columns, rows, kept, width) <= width:
            break
        if columns[i].optional:
            kept.remove(i)
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _least(width: int) -> int:
    """Cells that a first column keeps however narrow the terminal is."""
    return min(20, width // 3)


def _needs(columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], width: int) -> int:
    own = [max(cells(columns[i].title), *(cells(row[i]) for row in rows)) for i in kept]
    return min(own[0], _least(width)) + sum(own[1:]) + 2 * (len(own) - 1)


def column_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """How wide each column is; the first gives way."""
    own = [max(cells(c.title), *(cells(row[i]) for row in rows)) for i, c in enumerate(columns)]
    rest = sum(own[1:]) + 2 * (len(own) - 1)
    return [min(own[0], max(_least(width), width - rest)), *own[1:]]
