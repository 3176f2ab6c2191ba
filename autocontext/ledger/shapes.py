"""Lines that stand out of a repetitive text: the one finding among a thousand heartbeats, the failure among passes."""

from __future__ import annotations

from collections import Counter

_SEARCHED = 256_000
"""Characters of one text that are looked at."""
_LEAST_LINES = 12
"""Lines; a shorter text can be read whole."""
_REPEATED = 0.6
"""Share of lines that are like others in a repetitive text."""
_MOST = 5
"""Lines that stand out of one text; where more do, it is not repetitive."""
_DIGITS = str.maketrans("", "", "0123456789")


def shape(line: str) -> str:
    """What a line has in common with others of its kind: itself without digits."""
    return line.translate(_DIGITS).strip()


def shapes(text: str) -> Counter[str]:
    """How many lines there are of each shape."""
    lines = text[:_SEARCHED].translate(_DIGITS).split("\n")
    return Counter([line.strip() for line in lines])


def outliers(text: str) -> tuple[int, ...]:
    """Where the lines begin that no other line is like, in a text whose other lines are mostly alike."""
    if text.count("\n", 0, _SEARCHED) < _LEAST_LINES:
        return ()
    counts = shapes(text)
    total = counts.total() - counts[""]
    alike = sum(n for line, n in counts.items() if n > 2 and line)
    if alike < _REPEATED * total:
        return ()
    found: list[int] = []
    start = 0
    for line in text[:_SEARCHED].split("\n"):
        if counts[shape(line)] == 1 and any(map(str.isalnum, line)):
            found.append(start)
        start += len(line) + 1
    return tuple(found) if len(found) <= _MOST else ()
