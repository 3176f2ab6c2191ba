"""Widths of texts on a terminal, and which columns of a table fit."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of a table. On a narrow terminal `optional` ones are left out, the last first."""

    title: str
    right: bool = True
    optional: bool = False


def cells(text: str) -> int:
    """Width of a text on a terminal: two cells for wide East Asian characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)


def printable(text: str) -> str:
    """A text in one line, without control characters, which could steer the terminal."""
    return "".join(ch if ch.isprintable() else " " if ch.isspace() else "?" for ch in text)


def fit_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[Column], list[list[str]]]:
    """The columns that fit, and their cells."""
    kept = list(range(len(columns)))
    for i in reversed(range(len(columns))):
        if _needs(columns, rows, kept, width) <= width:
            break
        if columns[i].optional:
            kept.remove(i)
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _minimum(width: int) -> int:
    """Minimum width of the first column."""
    return min(20, width // 3)


def _needs(columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], width: int) -> int:
    widths = _natural_widths([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])
    return min(widths[0], _minimum(width)) + sum(widths[1:]) + 2 * (len(widths) - 1)


def column_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The width of each column; the first one shrinks if necessary."""
    first, *others = _natural_widths(columns, rows)
    rest = sum(others) + 2 * len(others)
    return [min(first, max(_minimum(width), width - rest)), *others]


def _natural_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cells(c.title), *(cells(row[i]) for row in rows)) for i, c in enumerate(columns)]
