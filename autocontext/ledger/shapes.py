"""Finds lines that stand out in a repetitive text: one failure among a thousand passes."""

from __future__ import annotations

from collections import Counter

_SEARCH_LIMIT = 256_000
"""Characters of one text that are examined."""
_LEAST_LINES = 12
"""Lines; a shorter text has no outliers."""
_LEAST_ALIKE = 0.6
"""Least share of similar lines in a repetitive text."""
_MOST = 5
"""Most outliers of one text; with more it is not repetitive."""
_DIGITS = str.maketrans("", "", "0123456789")


def shape(line: str) -> str:
    """A line without its digits; similar lines have the same shape."""
    return line.translate(_DIGITS).strip()


def shapes(text: str) -> Counter[str]:
    """The number of lines of each shape."""
    lines = text[:_SEARCH_LIMIT].translate(_DIGITS).split("\n")
    return Counter([line.strip() for line in lines])


def outliers(text: str) -> tuple[int, ...]:
    """Where the lines with a unique shape begin, in a text whose other lines are mostly similar."""
    if text.count("\n", 0, _SEARCH_LIMIT) < _LEAST_LINES:
        return ()
    counts = shapes(text)
    total = counts.total() - counts[""]
    alike = sum(n for line, n in counts.items() if n > 2 and line)
    if alike < _LEAST_ALIKE * total:
        return ()
    places: list[int] = []
    start = 0
    for line in text[:_SEARCH_LIMIT].split("\n"):
        if counts[shape(line)] == 1 and any(map(str.isalnum, line)):
            places.append(start)
        start += len(line) + 1
    return tuple(places) if len(places) <= _MOST else ()
