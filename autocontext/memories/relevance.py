"""How much a fact is worth now: similarity to the talk and confidence, weighted."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

from autocontext.errors import ConfigError
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.text.words import is_cjk, pairs, words

Scale = Literal["raw", "max"]
_ALIKE = 0.7


class FactIndex:
    """A ranker that holds exactly the texts of the latest call: only what has changed since is told to it."""

    def __init__(self, ranker: RelevanceRanker | None = None) -> None:
        self._ranker = default_ranker() if ranker is None else ranker
        self._held: set[str] = set()
        self._lock = threading.Lock()

    def similarities(self, texts: Iterable[str], context: str) -> dict[str, float]:
        """By text its similarity to the context, 0 to 1; a ranker's scores outside of that are cut."""
        wanted = dict.fromkeys(texts)
        with self._lock:
            for gone in self._held - wanted.keys():
                self._ranker.update(gone, None)
            for text in wanted:
                if text not in self._held:
                    self._ranker.update(text, text)
            self._held = set(wanted)
            found = self._ranker.scores(context)
        return {text: _unit(found.get(text, 0.0)) for text in wanted}


def index_for(ranker: RelevanceRanker | None, texts: Sequence[str]) -> FactIndex:
    """The index that knows most of these texts already: a ranker's own, or one kept for the same texts."""
    if ranker is None:
        return _kept(tuple(texts))
    try:
        return _OF_RANKERS.setdefault(ranker, FactIndex(ranker))
    except TypeError:  # a ranker that can neither be hashed nor referred to weakly starts anew each time
        return FactIndex(ranker)


@lru_cache(maxsize=8)
def _kept(_texts: tuple[str, ...]) -> FactIndex:
    return FactIndex()


_OF_RANKERS: weakref.WeakKeyDictionary[RelevanceRanker, FactIndex] = weakref.WeakKeyDictionary()


def checked_weights(similarity: float, confidence: float) -> tuple[float, float]:
    """The two weights as shares of their sum; confidence alone when both are 0. Raises ConfigError naming the one."""
    for name, value in (("similarity_weight", similarity), ("confidence_weight", confidence)):
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
        if not good:
            raise ConfigError(f"{name} must be a finite number of at least 0 (got {value!r})")
    largest = max(similarity, confidence)
    if not largest:
        return 0.0, 1.0
    # Divided twice: the sum of two very large weights would be infinite.
    shares = similarity / largest, confidence / largest
    return shares[0] / sum(shares), shares[1] / sum(shares)


def coerced_confidence(value: Any) -> float:
    """A confidence from 0 to 1 out of what a file may hold: numbers are clamped, everything else is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return _unit(value)


def final_scores(
    texts: Sequence[str],
    confidences: Sequence[float],
    similarities: dict[str, float] | None,
    weights: tuple[float, float],
    scale: Scale = "raw",
) -> list[float]:
    """Per fact weight * similarity + weight * confidence; confidence alone without similarities.

    With the scale "max" similarities are divided by the largest of them, since those of short texts seldom reach 0.5
    while confidences seldom fall under 0.7.
    """
    if similarities is None:
        return list(confidences)
    top = max(similarities.values(), default=0.0) if scale == "max" else 1.0
    factor = 1 / top if top > 1e-9 else 1.0
    alike, sure = weights
    return [alike * similarities[t] * factor + sure * c for t, c in zip(texts, confidences, strict=True)]


class Repeats:
    """The facts kept so far, to tell which further one says nothing new."""

    def __init__(self) -> None:
        self._by_word: dict[str, list[frozenset[str]]] = {}

    def is_one(self, text: str) -> bool:
        """Whether a kept fact has every word of this one, and few beside them (Dice 0.7 or more).

        Facts that differ in a word of their own each ("is red", "is blue") or in a negation are never repeats.
        """
        mine = _word_set(text)
        if not mine:
            return False
        rarest = min((self._by_word.get(word, []) for word in mine), key=len)
        return any(
            mine <= theirs and 2 * len(mine) >= _ALIKE * (len(mine) + len(theirs)) and not (theirs - mine) & _NEGATIONS
            for theirs in rarest
        )

    def keep(self, text: str) -> None:
        """Remember a fact."""
        mine = _word_set(text)
        for word in mine:
            self._by_word.setdefault(word, []).append(mine)


_NEGATIONS = frozenset(
    {"not", "no", "never", "none", "without", "cannot", "can't", "don't", "doesn't", "didn't", "isn't", "won't"}
)


@lru_cache(maxsize=8192)
def _word_set(text: str) -> frozenset[str]:
    return frozenset(term for word, _ in words(text) for term in (pairs(word) if is_cjk(word) else [word]))


def _unit(value: float) -> float:
    return min(1.0, max(0.0, float(value))) if math.isfinite(value) else 0.0
