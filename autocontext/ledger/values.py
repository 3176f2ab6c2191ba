"""Values that later work is likely to need again: paths, identifiers, numbers, names; told by their form alone.

So it works for any tool, programming language and script: digits, separators, capitals inside a word, units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from autocontext.messages import leaves

_LONGEST = 200
"""Characters; a longer run without a break is data."""
_SEARCHED = 64_000
"""Characters of one text that are searched: its head, its tail, and slices between."""
_SLICES = 8
_MOST = 400
"""Values of one text, so that a listing does not drive out everything else."""
_BREAKS = r"\s\"'`()\[\]{}<>|;&,=*$!?\\\x00-\x1f、。，．；：！？（）［］｛｝「」『』【】〈〉《》〔〕“”‘’…・"
_CJK = r"\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
# Plain words name nothing and are most of a text: they are passed over by the pattern itself.
_RUN = re.compile(rf"(?<![^{_BREAKS}])(?![A-Za-z][a-z]++(?:[.:]?[{_BREAKS}]|\Z))[^{_BREAKS}]{{3,}}")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_CJK_PARTS = re.compile(rf"(?<![0-9A-Za-z_.])\d[\d.,:/-]*[%％℃]?[{_CJK}]{{1,2}}|[^{_CJK}]{{3,}}")
_SHAPE = re.compile(r"[0-9_/.@]|(?<=.)[A-Z]")
_ENCODED = 41
"""Characters in a row from which on they may be encoded data."""
_UNBROKEN = re.compile(rf"[A-Za-z0-9+]{{{_ENCODED},}}")
_HEX = re.compile(r"[0-9a-fA-F]{1,128}")
_BASE64 = re.compile(r"(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+][A-Za-z0-9+/]{58,}={0,2}")
_WORD = re.compile(rf"[^\W{_CJK}]")
_ARGUMENT = 200
"""Characters; a longer argument is a document, not a value."""


def find(value: str, text: str) -> int:
    """Where a value stands in a text as a whole for the first time; -1 where it does not."""
    at, size = text.find(value), len(value)
    if at < 0:
        return -1
    left, right = _WORD.match(value), _WORD.match(value[-1:])
    while at >= 0:
        joined = left and at and _WORD.match(text[at - 1])
        if not joined and not (right and _WORD.match(text[at + size : at + size + 1])):
            return at
        at = text.find(value, at + 1)
    return -1


def values_in(text: str) -> set[str]:
    """The values of a text; of a very long one its ends and slices between are searched."""
    found: dict[str, None] = {}
    for piece in _pieces(text):
        for run in _RUN.findall(piece):
            for value in _named(run):
                found[value] = None
            if len(found) >= _MOST:
                return set(found)
    return set(found)


@lru_cache(maxsize=512)
def known_values(text: str) -> frozenset[str]:
    """`values_in` of a text that is asked about again and again, as what is in view is."""
    return frozenset(values_in(text))


def argument_values(value: Any) -> set[str]:
    """The values of a call's arguments: short ones are values themselves."""
    found: set[str] = set()
    for text in leaves(value):
        whole = text.strip()
        if len(whole) <= _ARGUMENT and "\n" not in whole and _says_something(whole):
            found.add(whole)
        found |= values_in(text)
    return found


def _says_something(argument: str) -> bool:
    """Not a bare lower-case word such as a mode or a flag's value, not a few letters or digits."""
    if not argument.isascii():
        return len(argument) >= 2
    long = len(argument) > 3 or (len(argument) == 3 and argument.isdigit())
    return long and not (argument.isalpha() and argument.islower()) and any(map(str.isalnum, argument))


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= _SEARCHED:
        yield text
        return
    end = _SEARCHED * 3 // 8
    size = (_SEARCHED - 2 * end) // _SLICES
    yield text[:end]
    yield text[-end:]
    for k in range(_SLICES):
        at = end + (len(text) - 2 * end) * k // _SLICES
        yield text[at : at + size]


@lru_cache(maxsize=16_384)
def _named(run: str) -> tuple[str, ...]:
    """What a run of characters without a break names."""
    if len(run) > _LONGEST:
        return ()
    if run.isascii() or not _CJK_CHARACTER.search(run):
        return _token(run)
    # Without spaces between words, what is not CJK and numbers with their units stand out.
    return tuple(value for part in _CJK_PARTS.findall(run) for value in _token(part))


def _token(text: str) -> tuple[str, ...]:
    """The run without punctuation at its ends, when it names something."""
    ended = text.rstrip(".:,-/")
    token = ended.lstrip(":,-" if ended[:1] == "." else ".:,-")
    return (token,) if _names_something(token) else ()


def _names_something(token: str) -> bool:
    """A digit, a separator or an inner capital sets a name off from words; encoded data is none."""
    if len(token) < 4:
        with_unit = len(token) > 1 and token[:1].isdigit() and not token.isascii()
        return with_unit or (len(token) == 3 and token.isdigit())
    if (token.isalpha() and token.islower()) or not _SHAPE.search(token) or not any(ch.isalnum() for ch in token):
        return False
    if len(token) < _ENCODED:
        return True
    unbroken = _UNBROKEN.search(token)
    return not _BASE64.fullmatch(token) and (unbroken is None or _HEX.fullmatch(unbroken.group()) is not None)
