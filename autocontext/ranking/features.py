"""A text as weighted features: stems, technical names and their parts, character n-grams, CJK characters and pairs.

The weights are one setting for facts, conversations and documents in any language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autocontext.caches import cached
from autocontext.text.stems import stem
from autocontext.text.stop_words import LIGHT_WORDS, STOP_WORDS
from autocontext.text.words import is_cjk, parts, weak_signs, words

_PART = 0.5
"""A part of a joined name ("next" in "next.js"); the whole name counts 1."""
_LIGHT = 0.4
"""A word that says little ("go", "make")."""
_GRAM, _GRAM_SIZE = 0.2, 4
"""A character n-gram of a word, and its length: this is how "test" matches "pytest"."""
_SIGN = 0.35
"""A single CJK character; a pair counts 1."""
_WEAK = 0.35
"""A CJK pair in which one character is grammar only."""


def features(text: str) -> dict[str, float]:
    """Each feature of a text, with its weight times the number of its occurrences."""
    totals: dict[str, float] = {}
    for word, written in words(text):
        weighted: Iterable[tuple[str, float]] = _of_run(word) if is_cjk(word) else _of_word(word, written)
        for feature, weight in weighted:
            totals[feature] = totals.get(feature, 0.0) + weight
    return totals


@cached(65_536)
def _of_word(word: str, written: str) -> tuple[tuple[str, float], ...]:
    if word in STOP_WORDS:
        return ()
    base = stem(word)
    weight = _LIGHT if base in LIGHT_WORDS else 1.0
    pieces = [stem(part) for part in parts(word, written)]
    grams = [(gram, _GRAM * weight) for piece in pieces or [base] for gram in _grams(piece)]
    return ((base, weight), *((piece, _PART) for piece in pieces), *grams)


def _grams(word: str) -> Iterator[str]:
    """The n-grams of a word, its ends marked; each starts with a control character, so that none equals a word."""
    if len(word) < _GRAM_SIZE - 1 or word.isdecimal():
        return
    marked = f"\x02{word}\x03"
    yield from ("\x01" + marked[i : i + _GRAM_SIZE] for i in range(len(marked) - _GRAM_SIZE + 1))


def gram_of(feature: str) -> str:
    """The characters of an n-gram, with a line break for the beginning of the word; "" for any other feature."""
    return feature.strip("\x01\x03").replace("\x02", "\n") if feature.startswith("\x01") else ""


def _of_run(run: str) -> Iterator[tuple[str, float]]:
    weak = weak_signs(run)
    if len(run) == 1:
        yield run, _WEAK if weak[0] else 1.0
        return
    for i in range(len(run) - 1):
        weak_count = weak[i] + weak[i + 1]
        if weak_count < 2:
            yield run[i : i + 2], _WEAK if weak_count else 1.0
    yield from ((sign, _SIGN) for sign, is_weak in zip(run, weak, strict=True) if not is_weak)
