"""The pieces of a text: its lines, and of long ones the records, fields or sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from autocontext.caches import cached

LONG_LINE = 200
"""Characters; a longer line is cut into records, fields or sentences."""
PIECE = 120
"""Characters that a piece of a long line has if it can be cut there at all."""
_LEAST_REST = 40
"""Characters of the last piece of a line that is cut between sentences or words."""
_JSON = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[\]{},]')
"""A string, also one without its end, a bracket or a comma."""
_JSON_LINE = re.compile(r'\s*(?:"(?:[^"\\]|\\.){1,80}"\s*:|[{}\[\]]{1,3},?\s*$)')
"""A line of indented JSON: a field, or brackets."""
_LEAST_FIELD = 8
"""Characters of a field that is a piece by itself."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
_ESCAPED_BREAK = re.compile(r"(?<=[^\\]\\n)|(?<=[^\\]\\\\n)(?![a-z])")
"""The end of a line in a printed string, also of JSON printed within another; but "C:\\\\new" is a path."""
_WORD = re.compile(r"\s+")
_TEXTS, _CACHED = 256, 20_000
"""Texts whose pieces are kept, since each pass asks for those in view, and characters of the longest of them."""


class Piece(NamedTuple):
    """A stretch of a text without the white space around it."""

    start: int
    stop: int
    said: str
    """The stretch itself."""
    gap: str
    """The white space before it, up to the piece before."""
    indent: int | None = None
    """Of a line of indented JSON: the blanks before it."""
    opened: int | None = None
    """Of a part of a long line of JSON: where the innermost list or object that it begins in was opened."""

    @property
    def is_plain(self) -> bool:
        """Whether it is no part of indented JSON, or of a long line of it."""
        return self.indent is None and self.opened is None

    @property
    def blanks(self) -> str:
        """The white space before it in its line; "" where something else precedes it."""
        _, end, blanks = self.gap.rpartition("\n")
        # What a long line begins with is no indentation.
        return blanks if (end or self.start == len(blanks)) and len(blanks) < LONG_LINE else ""


def pieces(text: str) -> tuple[Piece, ...]:
    """The lines of a text; of long ones the records, fields or sentences."""
    return _cached_pieces(text) if len(text) <= _CACHED else _split(text)


def _split(text: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    start = end = 0
    for line in text.split("\n"):
        for first, last, opened in _stretches(line):
            at = None if opened is None else start + opened
            indent = _json_indent(line) if last - first == len(line) else None
            for a, b in _parts(line, first, last) if last - first > LONG_LINE else [(first, last)]:
                if said := line[a:b].strip():
                    begin = text.index(said, start + a)
                    found.append(Piece(begin, begin + len(said), said, text[end:begin], indent, at))
                    end = begin + len(said)
                indent = None
        start += len(line) + 1
    return tuple(found)


_cached_pieces = cached(_TEXTS)(_split)


def _json_indent(line: str) -> int | None:
    """The blanks before a line of indented JSON; None for any other line."""
    return len(line) - len(line.lstrip()) if _JSON_LINE.match(line) else None


def _stretches(line: str) -> Iterator[tuple[int, int, int | None]]:
    """Of a long line of JSON the fields, with the place of the innermost bracket that is open where each begins.

    It is cut at each comma of the record itself, else at the outermost one near where a piece has a certain size. Any
    other line is one stretch.
    """
    start, opened, best = 0, None, None
    brackets: list[int] = []
    body = line.lstrip()
    is_json, own = len(line) > LONG_LINE and body.startswith(("{", "[")), int(body.startswith("{"))
    for token in _JSON.finditer(line) if is_json else ():
        sign = token[0]
        if sign in ("{", "["):
            brackets.append(token.start())
        elif sign in ("}", "]"):
            del brackets[-1:]
        elif sign == ",":
            end, depth = token.end(), len(brackets)
            is_own = depth == own and end - start >= _LEAST_FIELD
            if best is None or is_own or depth <= best[1]:
                best = end, depth, brackets[-1] if brackets else None
            if is_own or end - start >= PIECE:
                yield start, best[0], opened
                (start, _, opened), best = best, None
    yield start, len(line), opened


def _parts(line: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """A stretch of a line, cut where it is long: behind lines of a printed string, sentences, or words.

    A part that is still long is cut in the next way. No short rest is cut off.
    """
    cuts = [start, stop]
    for pattern in (_ESCAPED_BREAK, _SENTENCE, _WORD):
        least = 1 if pattern is _ESCAPED_BREAK else PIECE
        long = [(a, b) for a, b in pairwise(cuts) if b - a > LONG_LINE]
        cuts = sorted({*cuts, *(end for a, b in long for end in _ends(pattern, line, a, b, least))})
    return pairwise(cuts)


def _ends(pattern: re.Pattern[str], line: str, start: int, stop: int, least: int) -> Iterator[int]:
    """Where a pattern ends in a part of a line, with at least so many characters before it."""
    for gap in pattern.finditer(line, start, stop):
        if gap.end() - start >= least and stop - gap.end() >= _LEAST_REST:
            yield gap.end()
            start = gap.end()
