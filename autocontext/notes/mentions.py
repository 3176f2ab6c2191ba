"""Where rare tokens (ids, paths, numbers, names of code) stand in a history, and the lines that hold them."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from autocontext.messages import Msg, is_compressed, thaw
from autocontext.notes.pieces import line_around
from autocontext.notes.values import find, values_in
from autocontext.text.quoting import quotation
from autocontext.text.rendering import one_line

MOST_LINES = 5
"""Lines in one note."""
_LEAST_DIGITS = 3
"""Digits in an id; "utf-8", "16k" and "v2" are words."""
_LEAST_NUMBER = 4
"""Digits in a bare number that names something."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_ROUND = re.compile(r"\d{1,2}0*")
_AMOUNT = re.compile(r"[^\w]*\d[\d.,:]*[^\W\d]{0,3}[^\w]*")
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w@.+-]+/){2,}[\w@.+-]*|(?:~|\.{1,2})?/[\w@+-][\w@.+/-]{2,}")
_FILE = re.compile(r"[\w@.+/-]*\w{3,}\.[a-z]\w{1,4}")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
_NAME_OF_CODE = re.compile(r"\w*[^\W\d_]_+[^\W_]\w*|[^\W\d_]*[a-z](?:[A-Z][a-z0-9]+){2,}|(?:[A-Z][a-z0-9]+){3,}")
_RELOADS = ("context_reload", "context_search")
"""Tools whose results quote what stands elsewhere in the history."""


def _digits(token: str) -> int:
    return sum(map(str.isdigit, token))


def _is_id(token: str) -> bool:
    """Whether its digits tell it from words: A-7714, 4f2a91c0, +49 ... no year, no round number, no amount."""
    if _AMOUNT.fullmatch(token):
        plain = "".join(filter(str.isdigit, token))
        exact = token.isdigit() and len(plain) >= _LEAST_NUMBER
        return exact and not _YEAR.fullmatch(plain) and not _ROUND.fullmatch(plain)
    return _digits(token) >= _LEAST_DIGITS


def _is_name(token: str) -> bool:
    return any(form.fullmatch(token) for form in (_PATH, _FILE, _MAIL, _NAME_OF_CODE))


def rare_tokens(text: str) -> list[str]:
    """The tokens of a text that name one thing by their form, in lower case, in order.

    An id has at least three digits ("A-7714"), a bare number at least four, and neither years nor round numbers count.
    Paths, names of files, mail addresses and names of code count without digits.
    """
    found: dict[str, int] = {}
    for value in values_in(text):
        parts = value.split(":") if ":" in value and "://" not in value else []
        for token in (value, *parts):
            bare = token.strip("#.-*_~+").removesuffix("/") if token.startswith("#") else token
            if _is_id(bare) or _is_name(bare):
                found.setdefault(bare.lower(), text.find(value))
    return sorted(found, key=lambda token: (found[token], -len(token), token))


class Line(NamedTuple):
    """A line of an original that holds a token."""

    number: int
    who: str
    text: str

    def shown(self) -> str:
        """The line with its message's number and its source, marked as quoted."""
        return f"m{self.number} {self.who}: {quotation(self.text.strip())}"


class Mentions:
    """An inverted index of the rare tokens of a history, which grows by what is new: each message is read once."""

    def __init__(self) -> None:
        self.messages = 0
        """Number of messages that are indexed."""
        self._places: dict[str, tuple[int, ...]] = {}
        """Per token the number of the first message with it, and those of the newest."""

    def follow(self, messages: Iterable[Msg]) -> None:
        """Index the next messages of the history."""
        for msg in messages:
            self.messages += 1
            tokens = {token for _, _, text in _texts(msg) for token in rare_tokens(text)}
            for token in tokens:
                first = self._places.get(token, ())
                # One more than are shown, to know that there are more.
                kept = first if len(first) <= MOST_LINES else (first[0], *first[2:])
                self._places[token] = (*kept, self.messages)

    def places(self, token: str) -> tuple[int, ...]:
        """The first and the newest messages with a token, ascending; () if a name without digits is in many of them."""
        found = self._places.get(token, ())
        if len(found) > MOST_LINES and _digits(token) < _LEAST_DIGITS:
            return ()
        return found


def lines_with(token: str, originals: Mapping[int, Msg]) -> Iterator[Line]:
    """The first line with a token in each of these messages, what was said or answered before what was called."""
    calls = []
    for number, msg in originals.items():
        for is_call, who, text in _texts(msg):
            low = text.lower()
            if (at := find(token, low if len(low) == len(text) else text)) >= 0:
                line = Line(number, who, line_around(text, at, len(token))[1])
                if not is_call:
                    yield line
                    break
                calls.append(line)
                break
    yield from calls


def first_and_newest(numbers: Iterable[int], among: Container[int]) -> list[int]:
    """The numbers in the order in which they say most: the first, then the newest."""
    kept = [n for n in numbers if n in among]
    return [*kept[:1], *reversed(kept[1:])]


def _texts(msg: Msg) -> Iterator[tuple[bool, str, str]]:
    """The texts of an original, each with whether it is a call, and its source."""
    if msg.role == "system" or is_compressed(msg):
        return
    for block in msg.content:
        if block.type == "text":
            yield False, "agent" if msg.role == "assistant" else msg.role, block.text
        elif block.type == "tool_result" and not block.name.endswith(_RELOADS):
            yield False, one_line(block.name[:60]) or "result", block.text
        elif block.type == "tool_use" and not block.name.endswith(_RELOADS):
            arguments = json.dumps(thaw(block.input), ensure_ascii=False)
            yield True, f"call {one_line(block.name[:60])}", arguments
