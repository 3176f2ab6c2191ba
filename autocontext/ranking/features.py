"""A text as weighted features: stems, whole technical names, pairs of neighbours, character n-grams, CJK bigrams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from autocontext.ranking.stems import stem
from autocontext.ranking.words import is_cjk, parts, weak_signs, words


@dataclass(frozen=True)
class Weights:
    """How much each kind of feature counts; 0 leaves a kind out. The defaults are the one setting meant for all."""

    part: float = 0.5
    """Parts of a joined name ("next" and "js" of "next.js") against the whole."""
    gram: float = 0.35
    """Character n-grams of a word, which let test meet pytest."""
    gram_size: int = 4
    """Characters of an n-gram."""
    neighbours: float = 0.0
    """Two words that stand side by side."""
    sign: float = 0.2
    """A single CJK character against a pair of them."""
    weak: float = 0.3
    """A CJK pair with a character that only holds the sentence together, against other pairs."""


def features(text: str, weights: Weights) -> dict[str, float]:
    """Each feature of a text with its weight times how often it occurs."""
    found: dict[str, float] = {}
    previous = ""
    for word, written in words(text):
        if is_cjk(word):
            for feature, weight in _signs(word, weights):
                found[feature] = found.get(feature, 0.0) + weight
            previous = ""
            continue
        for feature, weight in _word(word, written, weights):
            found[feature] = found.get(feature, 0.0) + weight
        if weights.neighbours:
            base = stem(word)
            if previous:
                pair = f"{previous} {base}"
                found[pair] = found.get(pair, 0.0) + weights.neighbours
            previous = base
    return found


@lru_cache(maxsize=65_536)
def _word(word: str, written: str, weights: Weights) -> tuple[tuple[str, float], ...]:
    base = stem(word)
    found = [(base, 1.0)]
    pieces = [stem(part) for part in parts(word, written)]
    found += [(piece, weights.part) for piece in pieces]
    if weights.gram:
        grams = [gram for piece in pieces or [base] for gram in _grams(piece, weights.gram_size)]
        share = weights.gram
        found += [(gram, share) for gram in grams]
    return tuple(found)


def _grams(word: str, size: int) -> Iterator[str]:
    """The n-grams of a word with its ends marked; their leading sign keeps them apart from words."""
    if len(word) < size - 1 or word.isdecimal():
        return
    marked = f"\x02{word}\x03"
    yield from ("\x01" + marked[i : i + size] for i in range(len(marked) - size + 1))


def _signs(run: str, weights: Weights) -> Iterator[tuple[str, float]]:
    weak = weak_signs(run)
    if len(run) == 1:
        yield run, weights.weak if weak[0] else 1.0
    for i in range(len(run) - 1):
        missing = weak[i] + weak[i + 1]
        if missing < 2:
            yield run[i : i + 2], weights.weak if missing else 1.0
    if weights.sign and len(run) > 1:
        yield from ((sign, weights.sign) for sign, is_weak in zip(run, weak, strict=True) if not is_weak)
