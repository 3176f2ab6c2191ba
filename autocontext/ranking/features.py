"""A text as weighted features: stems, technical names, character n-grams, kinds of things, CJK bigrams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from autocontext.ranking.concepts import concepts
from autocontext.ranking.stems import stem
from autocontext.ranking.stop_words import LIGHT_WORDS, STOP_WORDS
from autocontext.ranking.words import is_cjk, parts, weak_signs, words


@dataclass(frozen=True)
class Weights:
    """How much each kind of feature counts; 0 leaves a kind out. The defaults are the one setting meant for all."""

    part: float = 0.5
    """Parts of a joined name ("next" and "js" of "next.js") against the whole."""
    light: float = 0.4
    """Words that say little ("go", "make") against others."""
    gram: float = 0.2
    """Character n-grams of a word, which let test meet pytest."""
    gram_size: int = 4
    """Characters of an n-gram."""
    concept: float = 0.4
    """What kind of thing a word names, when the query asks for the kind."""
    sign: float = 0.35
    """A single CJK character against a pair of them."""
    weak: float = 0.35
    """A CJK pair with a character that only holds the sentence together, against other pairs."""


def features(text: str, weights: Weights, *, asking: bool = False) -> dict[str, float]:
    """Each feature of a text with its weight times how often it occurs; of a query (`asking`) also what it asks for."""
    found: dict[str, float] = {}
    for word, written in words(text):
        if is_cjk(word):
            gained: tuple[tuple[str, float], ...] = tuple(_signs(word, weights, asking=asking))
        else:
            gained = _word(word, written, weights, asking)
        for feature, weight in gained:
            found[feature] = found.get(feature, 0.0) + weight
    return found


@lru_cache(maxsize=65_536)
def _word(word: str, written: str, weights: Weights, asking: bool) -> tuple[tuple[str, float], ...]:
    base = stem(word)
    known = concepts().asked if asking else concepts().answered
    kinds = [(kind, weights.concept) for kind in known.get(base, ())] if weights.concept else []
    if word in STOP_WORDS:
        return tuple(kinds)
    full = weights.light if base in LIGHT_WORDS else 1.0
    pieces = [stem(part) for part in parts(word, written)]
    found = [(base, full), *((piece, weights.part) for piece in pieces), *kinds]
    if weights.gram:
        share = weights.gram * full
        found += [(gram, share) for piece in pieces or [base] for gram in _grams(piece, weights.gram_size)]
    return tuple(found)


def _grams(word: str, size: int) -> Iterator[str]:
    """The n-grams of a word with its ends marked; their leading sign keeps them apart from words."""
    if len(word) < size - 1 or word.isdecimal():
        return
    marked = f"\x02{word}\x03"
    yield from ("\x01" + marked[i : i + size] for i in range(len(marked) - size + 1))


def _signs(run: str, weights: Weights, *, asking: bool) -> Iterator[tuple[str, float]]:
    if weights.concept:
        table = concepts()
        known, pattern = (table.cjk_asked, table.cjk_asking) if asking else (table.cjk_answered, table.cjk_answering)
        for word in set(pattern.findall(run)):
            yield from ((kind, weights.concept) for kind in known[word])
    weak = weak_signs(run)
    if len(run) == 1:
        yield run, weights.weak if weak[0] else 1.0
    for i in range(len(run) - 1):
        missing = weak[i] + weak[i + 1]
        if missing < 2:
            yield run[i : i + 2], weights.weak if missing else 1.0
    if weights.sign and len(run) > 1:
        yield from ((sign, weights.sign) for sign, is_weak in zip(run, weak, strict=True) if not is_weak)
