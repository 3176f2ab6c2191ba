"""Where rare tokens (ids, paths, numbers, names of code) stand in a history, and the lines that hold them.

Nothing is indexed: who names an old value pays for one search, and who names none pays nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import NamedTuple

from autocontext.history.log import Log
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_compressed
from autocontext.notes.pieces import line_around
from autocontext.notes.values import LONGEST_TEXT, find, values_in
from autocontext.text.quoting import quotation
from autocontext.text.rendering import LONGEST_NAME, arguments, one_line, tool_name
from autocontext.text.words import terms

MOST_LINES = 5
"""Lines in one note."""
SEARCHED = 16_000_000
"""Characters; more would keep a turn waiting."""
_LEAST_DIGITS, _LEAST_NUMBER = 3, 4
"""Digits in an id, as "utf-8", "16k" and "v2" are words, and in a bare number that names something."""
_YEAR_OR_ROUND = re.compile(r"(?:19|20)\d\d|\d{1,2}0*")
_AMOUNT = re.compile(r"[^\w]*\d[\d.,:]*[^\W\d]{0,3}[^\w]*")
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w@.+-]+/){2,}[\w@.+-]*|(?:~|\.{1,2})?/[\w@+-][\w@.+/-]{2,}")
_FILE = re.compile(r"[\w@.+/-]*\w{3,}\.[a-z]\w{1,4}")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_NAME_OF_CODE = re.compile(r"\w*[^\W\d_]_+[^\W_]\w*|[^\W\d_]*[a-z](?:[A-Z][a-z0-9]+){2,}|(?:[A-Z][a-z0-9]+){3,}")
_BEFORE, _AFTER = re.compile(r"\d[.,]"), re.compile(r"[.,]\d")
_HALF = 0.5
"""Share of the words of a focus that a line about it has at least."""
_SPEAKERS = ("user", "agent")
"""Sources of lines that are no tools; one with such a name stands in quotes."""
_RELOADS = ("context_reload", "context_search")
"""Tools whose results quote what stands elsewhere in the history."""


def _digits(token: str) -> int:
    return sum(map(str.isdigit, token))


def _is_id(token: str) -> bool:
    """Whether its digits tell it from words: A-7714, 4f2a91c0, +49 ... no year, no round number, no amount."""
    if _AMOUNT.fullmatch(token):
        return token.isdigit() and len(token) >= _LEAST_NUMBER and not _YEAR_OR_ROUND.fullmatch(token)
    return _digits(token) >= _LEAST_DIGITS


def _is_name(token: str) -> bool:
    return any(form.fullmatch(token) for form in (_PATH, _FILE, _MAIL, _NAME_OF_CODE))


def rare_tokens(text: str) -> list[str]:
    """The tokens of a text that name one thing by their form, in order, each as it is written first.

    An id has at least three digits ("A-7714"), a bare number at least four, and neither years nor round numbers count.
    Paths, names of files, mail addresses and names of code count without digits.
    """
    found: dict[str, tuple[int, str]] = {}
    for value in values_in(text):
        parts = value.split(":") if ":" in value and "://" not in value else []
        for token in (value, *parts):
            bare = token.strip("#.-*_~+").removesuffix("/") if token.startswith("#") else token
            if _is_id(bare) or _is_name(bare):
                place = (text.find(value), bare)
                found[bare.lower()] = min(place, found.get(bare.lower(), place))
    return [token for _, token in sorted(found.values(), key=lambda place: (place[0], -len(place[1]), place[1]))]


class Line(NamedTuple):
    """A line of an original that holds a token."""

    number: int
    who: str
    text: str

    def shown(self) -> str:
        """The line with its message's number and its source, marked as quoted."""
        return f"m{self.number} {self.who}: {quotation(self.text.strip())}"


def mentions(tokens: Iterable[str], log: Log, numbers: Sequence[int]) -> dict[str, list[int]]:
    """Per token the numbers of the originals among these, ascending, that have it as a word, the newest first.

    A token is found as it is written, in lower and in upper case. Only the newest SEARCHED characters are searched, and
    a name without digits that is in more than MOST_LINES of them has none: it is a word of this work.
    """
    found = {token: list[int]() for token in tokens}
    spellings = {token: {token, token.lower(), token.upper()} for token in found}
    left = SEARCHED
    for number in reversed(numbers):
        text = log.messages.searchable(log.original[number - 1])
        for token, places in found.items():
            if any(find(spelling, text) >= 0 for spelling in spellings[token]):
                places.append(number)
        left -= len(text)
        if left <= 0:
            break
    return {t: places for t, places in found.items() if len(places) <= MOST_LINES or _digits(t) >= _LEAST_DIGITS}


def lines_with(token: str, originals: Mapping[int, Msg]) -> list[Line]:
    """The first line with a token in each of these messages, what was said or answered before what was called."""
    found: list[tuple[bool, Line]] = []
    for number, msg in originals.items():
        for is_call, who, text in _texts(msg):
            low = text.lower()
            searched = (token.lower(), low) if len(low) == len(text) else (token, text)
            at = find(*searched)
            while at >= 0 and token.isdigit() and _in_number(text, at, len(token)):
                at = find(*searched, at + 1)
            if at >= 0:
                found.append((is_call, Line(number, who, line_around(text, at, len(token)))))
                break
    return [line for _, line in sorted(found, key=itemgetter(0))]


def lines_about(
    focus: AbstractSet[str], messages: Sequence[Msg], numbers: Iterable[int]
) -> Iterator[tuple[float, Line]]:
    """The lines of these messages with half of these terms, each with the share of them that it has."""
    for number in numbers:
        for _, who, text in _texts(messages[number - 1]):
            at = 0
            for line in text[:LONGEST_TEXT].splitlines(keepends=True):
                found = focus & {*terms(line)}
                if (share := len(found) / len(focus)) >= _HALF:
                    place = max(0, min(map(line.lower().find, found)))
                    yield share, Line(number, who, line_around(text, at + place, 1))
                at += len(line)


def _in_number(text: str, at: int, size: int) -> bool:
    """Whether the digits there are part of a longer number, as in 0.48213."""
    return bool(_BEFORE.fullmatch(text[max(0, at - 2) : at]) or _AFTER.match(text, at + size))


def _texts(msg: Msg) -> Iterator[tuple[bool, str, str]]:
    """The texts of an original, each with whether it is a call, and its source."""
    if msg.role == "system" or is_compressed(msg):
        return
    for block in msg.content:
        if block.type == "text":
            yield False, "agent" if msg.role == "assistant" else msg.role, block.text
        elif isinstance(block, ToolResultBlock | ToolUseBlock) and not block.name.endswith(_RELOADS):
            name = tool_name(one_line(block.name[:LONGEST_NAME]))
            if isinstance(block, ToolUseBlock):
                yield True, f"call {name}", arguments(block)
            else:
                yield False, f'"{name}"' if name in _SPEAKERS else name or "result", block.text
