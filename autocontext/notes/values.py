"""Finds values that later work may need again (paths, identifiers, numbers, names).

Only their form counts (digits, separators, capitals inside a word, units), so it works for any tool, programming
language and script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from autocontext.caches import cached
from autocontext.messages import leaves

LONGEST_VALUE = 200
"""Characters; a longer run without a break is encoded data, a longer argument a document."""
LONGEST_TEXT = 64_000
"""Characters of one text that are searched: its head, its tail, and slices between."""
_SLICES = 8
MOST_VALUES = 400
"""Most values of one text: a listing has thousands."""
_BREAKS = r"\s\"'`()\[\]{}<>|;&,=*$!?\\\x00-\x1f、。，．；：！？（）［］｛｝「」『』【】〈〉《》〔〕“”‘’…・→│"
_CJK = r"\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
# The pattern itself skips plain words, which are most of a text.
_RUN = re.compile(rf"(?<![^{_BREAKS}])(?![A-Za-z][a-z]++(?:[.:]?[{_BREAKS}]|\Z))[^{_BREAKS}]{{3,}}")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_CJK_PARTS = re.compile(rf"(?<![0-9A-Za-z_.])\d[\d.,:/-]*[%％℃]?[{_CJK}]{{1,2}}|[^{_CJK}]{{3,}}")
_SHAPE = re.compile(r"[0-9_/.@]|(?<=.)[A-Z]")
_LEAST_ENCODED = 41
"""Least characters in a row of encoded data."""
_UNBROKEN = re.compile(rf"[A-Za-z0-9+]{{{_LEAST_ENCODED},}}")
_HEX = re.compile(r"[0-9a-fA-F]{1,128}")
_BASE64 = re.compile(r"(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+][A-Za-z0-9+/]{58,}={0,2}")
_WORD = rf"[^\W{_CJK}]"
_IS_WORD = re.compile(_WORD)
_ELEMENT = re.compile(r"\[ref=\w{1,20}\]")
"""The number of an element in a browser's page; the next page has others."""
LONGEST_LINE = 400
"""Characters of a line that are considered; the values of texts up to this length are kept of many, else of few."""
KEPT = 8_192
"""Lines, and other readings of parts of messages, that are kept for the next note, and of the next pass."""


def find(value: str, text: str, start: int = 0) -> int:
    """The first place from `start` on where a value occurs as a whole word; -1 if it does not."""
    if text.find(value, start) < 0:  # most have none
        return -1
    before, after = (_IS_WORD.match(end) is not None for end in (value[:1], value[-1:]))
    whole = rf"(?<!{_WORD})" * before + re.escape(value) + rf"(?!{_WORD})" * after
    found = re.compile(whole).search(text, start)
    return found.start() if found else -1


def values_in(text: str) -> set[str]:
    """The values of a text; in very long ones only the ends and slices between are searched."""
    values: set[str] = set()
    for some in map(_names, chain.from_iterable(map(_RUN.findall, _pieces(text)))):
        values.update(some)
        if len(values) >= MOST_VALUES:
            break
    return values


def known_values(text: str) -> frozenset[str]:
    """`values_in`, cached: for lines of results and texts in view, which every rendering asks about."""
    return (_values_of_line if len(text) <= LONGEST_LINE else _values_of_text)(text)


@cached(KEPT)
def _values_of_line(line: str) -> frozenset[str]:
    return frozenset(values_in(line))


@cached(512)
def _values_of_text(text: str) -> frozenset[str]:
    return frozenset(values_in(text))


def argument_values(value: Any) -> set[str]:
    """The values in a call's arguments; short arguments are values themselves."""
    values: set[str] = set()
    for text in leaves(value):
        whole = text.strip()
        if len(whole) <= LONGEST_VALUE and "\n" not in whole and _says_something(whole):
            values.add(whole)
        values |= known_values(text)
    return values


def _says_something(argument: str) -> bool:
    """Whether it is more than a lower-case word (a mode, a flag's value) or a few letters or digits."""
    if not argument.isascii():
        return len(argument) >= 2
    long = len(argument) > 3 or (len(argument) == 3 and argument.isdigit())
    return long and not (argument.isalpha() and argument.islower()) and any(map(str.isalnum, argument))


def _pieces(text: str) -> Iterator[str]:
    text = _ELEMENT.sub("", text) if "[ref=" in text else text
    if len(text) <= LONGEST_TEXT:
        yield text
        return
    end = LONGEST_TEXT * 3 // 8
    size = (LONGEST_TEXT - 2 * end) // _SLICES
    yield text[:end]
    yield text[-end:]
    for k in range(_SLICES):
        at = end + (len(text) - 2 * end) * k // _SLICES
        yield text[at : at + size]


@cached(16_384)
def _names(run: str) -> tuple[str, ...]:
    """The values in a run of characters without a break."""
    if len(run) > LONGEST_VALUE:
        return ()
    if run.isascii() or not _CJK_CHARACTER.search(run):
        return _token(run)
    # CJK texts have no spaces: take the parts that are not CJK, and numbers with units.
    return tuple(value for part in _CJK_PARTS.findall(run) for value in _token(part))


def _token(text: str) -> tuple[str, ...]:
    """The run without punctuation at its ends, if it is a value."""
    ended = text.rstrip(".:,-/")
    token = ended.lstrip(":,-" if ended[:1] == "." else ".:,-")
    return (token,) if _names_something(token) else ()


def _names_something(token: str) -> bool:
    """Whether a token has a digit, a separator or an inner capital, and is no encoded data."""
    if len(token) < 4:
        with_unit = len(token) > 1 and token[:1].isdigit() and not token.isascii()
        return with_unit or (len(token) == 3 and token.isdigit())
    if (token.isalpha() and token.islower()) or not _SHAPE.search(token) or not any(map(str.isalnum, token)):
        return False
    if len(token) < _LEAST_ENCODED:
        return True
    unbroken = _UNBROKEN.search(token)
    return not _BASE64.fullmatch(token) and (unbroken is None or _HEX.fullmatch(unbroken.group()) is not None)
