"""What the score of a fact is made of: its similarity to the conversation, its confidence, and their weights."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from autocontext.caches import cached
from autocontext.errors import ConfigError
from autocontext.flows.forking import fork_lock
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.stores.checks import is_number
from autocontext.text.words import is_cjk, pairs, words

_LEAST_DICE = 0.7


class FactIndex:
    """Keeps a ranker in step with the facts of each call, by updating only those that have changed."""

    def __init__(self, ranker: RelevanceRanker | None = None) -> None:
        self._ranker = default_ranker() if ranker is None else ranker
        self._held: set[str] = set()
        self._unsure: set[str] = set()
        """Texts that an interrupted call may have put into the ranker, or taken out."""
        self._lock = fork_lock()

    def similarities(self, texts: Iterable[str], context: str) -> dict[str, float]:
        """The similarity of each text to the context; scores outside 0 to 1 are clamped."""
        current = dict.fromkeys(texts)
        with self._lock:
            self._unsure |= self._held ^ current.keys()
            for text in (*current, *(self._unsure - current.keys())):
                if text in self._unsure:
                    self._ranker.update(text, text if text in current else None)
            self._held = set(current)
            self._unsure = set()
            scores = self._ranker.scores(context)
        return {text: _unit(scores.get(text, 0.0)) for text in current}


def index_for(ranker: RelevanceRanker | None, texts: Sequence[str]) -> FactIndex:
    """The index of this ranker, or without a ranker the one for the same texts."""
    if ranker is None:
        return _cached_index(tuple(texts))
    try:
        return _OF_RANKERS.setdefault(ranker, FactIndex(ranker))
    except TypeError:  # a ranker without hash or weak references gets a new index each time
        return FactIndex(ranker)


@cached(8)
def _cached_index(_texts: tuple[str, ...]) -> FactIndex:
    return FactIndex()


_OF_RANKERS: weakref.WeakKeyDictionary[RelevanceRanker, FactIndex] = weakref.WeakKeyDictionary()


def checked_weights(similarity: float, confidence: float) -> tuple[float, float]:
    """Both weights divided by their sum; confidence alone when both are 0. Raises ConfigError naming a wrong one."""
    for name, value in (("similarity_weight", similarity), ("confidence_weight", confidence)):
        if not is_number(value) or not 0 <= value < math.inf:
            raise ConfigError(f"{name} must be a finite number of at least 0 (got {value!r})")
    largest = max(similarity, confidence)
    if not largest:
        return 0.0, 1.0
    # Divide by the larger first: the sum of two very large weights would be infinite.
    shares = similarity / largest, confidence / largest
    return shares[0] / sum(shares), shares[1] / sum(shares)


def coerced_confidence(value: Any) -> float:
    """A confidence from a file: numbers are clamped to 0 to 1, everything else is 0."""
    return _unit(value) if is_number(value) else 0.0


class Repeats:
    """Finds facts that repeat an earlier one."""

    def __init__(self) -> None:
        self._by_word: dict[str, list[frozenset[str]]] = {}

    def is_one(self, text: str) -> bool:
        """Whether an earlier fact has every word of this one and few more (Dice 0.7 or more).

        Facts that each have a word of their own ("is red", "is blue") or differ in a negation are not repeats.
        """
        mine = _word_set(text)
        if not mine:
            return False
        rarest = min((self._by_word.get(word, []) for word in mine), key=len)
        return any(
            mine <= theirs
            and 2 * len(mine) >= _LEAST_DICE * (len(mine) + len(theirs))
            and not (theirs - mine) & _NEGATIONS
            for theirs in rarest
        )

    def keep(self, text: str) -> None:
        """Add a fact."""
        mine = _word_set(text)
        for word in mine:
            self._by_word.setdefault(word, []).append(mine)


_NEGATIONS = frozenset(
    {"not", "no", "never", "none", "without", "cannot", "can't", "don't", "doesn't", "didn't", "isn't", "won't"}
)


@cached(8192)
def _word_set(text: str) -> frozenset[str]:
    return frozenset(term for word, _ in words(text) for term in (pairs(word) if is_cjk(word) else [word]))


def _unit(value: float) -> float:
    return float(min(1.0, max(0.0, value))) if -math.inf < value < math.inf else 0.0
