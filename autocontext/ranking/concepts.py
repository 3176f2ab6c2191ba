"""What kind of thing a word names: asked for a language, "Spanish" is an answer, and so is 西班牙语.

A text carries the concept of each of its words; a query only those it asks for, so that "swimming" finds swimming and
"sport" finds it, too. The question words ask for kinds as well: "when" for a time, "how many" for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from autocontext.ranking.concept_words import CJK, SPACED
from autocontext.ranking.stems import stem


def _lines(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each concept as the feature it makes, the words that ask for it and all words that carry it."""
    for line in text.strip().replace("\n ", " ").splitlines():
        heads, _, members = line.partition(":")
        name, *asking = heads.split()
        yield f"\x04{name}", asking, [*asking, *members.split()]


def _asked_and_answered(text: str, form: Callable[[str], str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    asked: dict[str, list[str]] = {}
    answered: dict[str, list[str]] = {}
    for feature, asking, carrying in _lines(text):
        for found, words in ((asked, asking), (answered, carrying)):
            for word in dict.fromkeys(map(form, words)):
                found.setdefault(word, []).append(feature)
    return asked, answered


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)))


class Concepts(NamedTuple):
    """By word (English ones by stem) the features of the concepts that it asks for or carries."""

    asked: Mapping[str, Sequence[str]]
    answered: Mapping[str, Sequence[str]]
    cjk_asked: Mapping[str, Sequence[str]]
    cjk_answered: Mapping[str, Sequence[str]]
    cjk_asking: re.Pattern[str]
    """Finds the words of `cjk_asked` within a run."""
    cjk_answering: re.Pattern[str]


@cache
def concepts() -> Concepts:
    """The tables, made at first use: stemming two thousand words takes longer than importing this module."""
    cjk_asked, cjk_answered = _asked_and_answered(CJK, str)
    return Concepts(
        *_asked_and_answered(SPACED, stem), cjk_asked, cjk_answered, _any_of(cjk_asked), _any_of(cjk_answered)
    )
