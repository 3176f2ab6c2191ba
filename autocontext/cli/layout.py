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


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[list[Column], list[list[str]], list[int]]:
    """The columns that fit, their cells, and their widths; the first one shrinks if necessary."""
    natural = [max(cells(c.title), *(cells(row[i]) for row in rows)) for i, c in enumerate(columns)]
    least = min(natural[0], 20, width // 3)
    kept = list(range(len(columns)))
    for i in reversed(kept.copy()):
        if least + sum(natural[k] + 2 for k in kept[1:]) <= width:
            break
        if columns[i].optional:
            kept.remove(i)
    others = [natural[k] for k in kept[1:]]
    first = min(natural[0], max(least, width - sum(others) - 2 * len(others)))
    return [columns[k] for k in kept], [[row[k] for k in kept] for row in rows], [first, *others]
