"""Texts by lines and sentences, as the hand-over benchmark reads them."""

from __future__ import annotations

import re

from needs import occurs

LONG_LINE = 160
"""Characters; nobody is asked to quote a longer line whole."""
_SHORT_SENTENCE = 20
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


def squeeze(text: str) -> str:
    """The text with every run of white space as one blank."""
    return _SPACE.sub(" ", text).strip()


def sentences(text: str) -> list[str]:
    """The sentences of at least 20 characters; a line break ends one."""
    parts = (squeeze(part) for line in text.splitlines() for part in _SENTENCE_END.split(line))
    return [part for part in parts if len(part) >= _SHORT_SENTENCE]


def lines_with(value: str, text: str) -> list[str]:
    """The lines that a value occurs in."""
    return [line for line in text.splitlines() if occurs(value, line)]
