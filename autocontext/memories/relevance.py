"""What the score of a fact is made of: its similarity to the conversation, its confidence, and their weights."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from autocontext.caches import cached
from autocontext.errors import ConfigError
from autocontext.flows.forking import fork_lock
from autocontext.memories.records import as_number, same_words
from autocontext.ranking import RelevanceRanker, default_ranker
from autocontext.stores.checks import is_number


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
    """A confidence from a file: numbers, also as text, are clamped to 0 to 1, everything else is 0."""
    number = as_number(value)
    return _unit(number) if is_number(number) else 0.0


_BEHIND_WORDS = re.compile(r"[.,;:!]+(?=\s|\Z)|[。、]")


@cached(8192)
def words_of(text: str) -> str:
    """The words of a fact, the same of facts that say the same: case, width and the signs behind words aside.

    No other wording is taken for the same: "Mag Kaffee nicht" has a word more, "tabs over spaces" the same in another
    order, and a fact that stands twice costs less than one that is missing.
    """
    return " ".join(_BEHIND_WORDS.sub(" ", same_words(text)).split())


def _unit(value: float) -> float:
    return float(min(1.0, max(0.0, value))) if -math.inf < value < math.inf else 0.0
