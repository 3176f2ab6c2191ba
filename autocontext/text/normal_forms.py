"""Unicode normalisation in linear time: Python's own is quadratic in a run of combining marks."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Literal

_SHORT = 256
"""Characters; so few cost at most a millisecond whatever they are."""
_RUN = re.compile(rb"[^\0]{30}")
"""Marks put in order together, as in the Stream-Safe Text Format of Unicode (UAX #15): no language has more."""
# Characters that are no marks but become marks; all others of Unicode begin with a character that is none.
_MARKS = {0xF73: "\u0f71\u0f72", 0xF75: "\u0f71\u0f74", 0xF81: "\u0f71\u0f80"}
_COMPATIBLE_MARKS = _MARKS | {0xFF9E: "\u3099", 0xFF9F: "\u309a"}
_BECOME_MARKS = frozenset(map(chr, _COMPATIBLE_MARKS))

_COMMON = dict(zip("，：！？；（）\u00a0\u3000…", (*",:!?;()", " ", " ", "..."), strict=True))
"""What is in most texts and not in NFKC, and its forms there, which join with no mark."""


def normalized(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """The text in a normal form, in which equal texts have equal characters.

    In a run of more than 30 marks each 30 are normalised by themselves.
    """
    if text.isascii():
        return text
    if form == "NFKC":
        for sign, instead in _COMMON.items():
            if sign in text:
                text = text.replace(sign, instead)
    signs = set(text) if len(text) > _SHORT else set()
    if signs.isdisjoint(_BECOME_MARKS) and not any(map(unicodedata.combining, signs)):
        # Most texts are in normal form, and seeing that takes a hundredth of the time.
        return text if unicodedata.is_normalized(form, text) else unicodedata.normalize(form, text)
    text = text.translate(_MARKS if form == "NFC" else _COMPATIBLE_MARKS)
    classes = bytes(map(unicodedata.combining, text))
    cuts = [0, *(run.end() for run in _RUN.finditer(classes)), len(text)]
    return "".join([unicodedata.normalize(form, text[a:b]) for a, b in pairwise(cuts)])


def is_hidden(sign: str) -> bool:
    """Whether a character is a control, a direction of writing, half of a pair, or the like: it is not seen.

    The joiners that some scripts are written with are none, nor are tabs and the ends of lines.
    """
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\t\n\r\u200c\u200d"
