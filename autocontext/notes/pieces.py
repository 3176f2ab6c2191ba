"""Cuts the line around a value out of a text: all of a short line, a piece of a long one."""

from __future__ import annotations

import re

from autocontext.text.rendering import printable, start_of_word

LONG = 160
"""Characters; what is longer is quoted in part: a line around a value, a record, what is written. A longer command does
not say where the agent is."""
_PIECE = 90
"""Least characters of such a part."""
_LEAST_REST = 60
"""Least characters of the last part of a line; `"price": 357}]` alone says nothing."""
_LINE_LIMIT = 20_000
"""The ends of a line are looked for within this many characters of a value."""
_JSON = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[{}]')
"""A string, also one without its end, or a brace."""
_FIELD = re.compile(r'[{,]\s*("([^"\\]{1,40})":\s*(?:"(?:[^"\\]|\\.){1,40}"|-?\d[\d.]{0,20}))(?=[,}])')
_NAMES_RECORD = re.compile(r"(?:^|_)(?:id|number|ref|key|code|name|title)$|Id$")
_RECORDS = 3
"""Most objects around a piece that are searched for one with a name."""


def quote_line(text: str) -> str:
    """A line with its indentation, printable and with escaped tags."""
    return printable(text.rstrip())


def line_around(text: str, at: int, size: int) -> str:
    """The line, or the part of a long line with the value, with "…" where it is cut."""
    begin = text.rfind("\n", max(0, at - _LINE_LIMIT), at) + 1
    stop = text.find("\n", at + size, at + size + _LINE_LIMIT)
    stop = len(text) if stop < 0 else stop
    if stop - begin <= LONG or len(text[begin:stop].strip()) <= LONG:
        return quote_line(text[begin:stop])
    first = last = begin if at - begin < _LINE_LIMIT else at - at % _LINE_LIMIT
    # Cut from the front, so that neighbouring values are in the same piece and no text is quoted twice.
    while last < at + size:
        first, last = last, _piece_end(text, last, stop)
    first = min(first, at)
    piece = quote_line(text[first:last]).strip() + ("…" if last < stop else "")
    if first == begin:
        return piece
    line = text[begin : min(stop, begin + 2 * _LINE_LIMIT)]
    record = _record_of(line, first - begin) if at - begin < _LINE_LIMIT else ""
    return (f"…{quote_line(record)}… " if record else "…") + piece


def _piece_end(text: str, start: int, stop: int) -> int:
    """Where a piece that begins here ends: between objects, fields or sentences, otherwise between words."""
    if stop - start <= LONG:
        return stop
    limit = min(start + LONG, stop - _LEAST_REST)
    for ends in (("}, ", "},"), ('", "', ", ", "; ", ". ", "。", "，"), (" ",)):
        place = max(text.rfind(end, start + _PIECE, limit) + len(end.rstrip('"')) for end in ends)
        if place > start + _PIECE:
            return place
    return start_of_word(text, limit, start + _PIECE)


def _record_of(line: str, at: int) -> str:
    """The field that names the JSON object around a place in a line: '"flight_number": "HAT015"'; "" without one.

    Without it a piece such as '"prices": {"economy": 126}' does not say whose prices they are.
    """
    if not line.lstrip().startswith(("{", "[")):
        return ""
    opened: list[int] = []
    for token in _JSON.finditer(line):
        if token.start() > at:
            break
        if token.group() == "{":
            opened.append(token.start())
        elif token.group() == "}":
            del opened[-1:]
    for start in opened[: -_RECORDS - 1 : -1]:
        field = _FIELD.match(line, start)
        if field is not None and _NAMES_RECORD.search(field[2]):
            return field[1] if field.end() <= at else ""
    return ""
