"""The rankers: cosine of TF-IDF vectors, BM25, both together by rank, and what conversations add."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

from autocontext.errors import ConfigError
from autocontext.ranking.features import Weights, features
from autocontext.ranking.postings import Postings


@runtime_checkable
class RelevanceRanker(Protocol):
    """Scores texts against a query; an embedding model plugs in by these two methods."""

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add the text under this id, put it in place of an earlier one, or forget it (None)."""

    def scores(self, query: str) -> dict[str, float]:
        """Every id with how relevant its text is, from 0 (nothing in common) to 1."""


class TfidfRanker:
    """Cosine between query and text, with rare features weighing more.

    Weights are SMART's lnc.ltc: in a text 1 + ln(tf), in the query that times the inverse document frequency. A
    text's length is drawn towards the average by `slope` (pivoted normalisation, Singhal 1996), so that short texts
    do not win by being short.
    """

    def __init__(self, weights: Weights | None = None, *, slope: float = 0.2) -> None:
        if not 0 <= slope <= 1:
            raise ConfigError(f"slope must be between 0 and 1 (got {slope!r})")
        self._weights = weights or Weights()
        self._slope = slope
        self._postings = Postings(_damped)

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add, replace or (None) forget the text under this id."""
        if text is None:
            self._postings.drop(id)
            return
        found = features(text, self._weights)
        self._postings.put(id, found, math.sqrt(math.fsum(_damped(w) ** 2 for w in found.values())))

    def scores(self, query: str) -> dict[str, float]:
        """Every id with its cosine, 0 to 1; all 0 for a query of stop words only."""
        index = self._postings
        slots = index.slots
        asked = {
            f: _damped(w) * _rarity(len(index.lists.get(f, ())), len(slots))
            for f, w in features(query, self._weights, asking=True).items()
        }
        length = math.sqrt(math.fsum(w * w for w in asked.values()))
        if not length or not slots:
            return dict.fromkeys(slots, 0.0)
        sums = index.sums({f: w / length for f, w in asked.items() if f in index.lists})
        pivot, slope, sizes = (1 - self._slope) * index.total / len(slots), self._slope, index.sizes
        return {key: min(1.0, s / (pivot + slope * sizes[i])) if (s := sums[i]) else 0.0 for key, i in slots.items()}


class Bm25Ranker:
    """BM25 (Robertson and Walker 1994), with the inverse document frequency of Lucene, which is never negative.

    Scores are divided by what a text would get that holds every feature of the query without end: 1 cannot be
    reached, only approached.
    """

    def __init__(self, weights: Weights | None = None, *, k1: float = 1.2, b: float = 0.5) -> None:
        if k1 <= 0 or not 0 <= b <= 1:
            raise ConfigError(f"k1 must be positive and b between 0 and 1 (got k1={k1!r}, b={b!r})")
        self._weights = weights or Weights()
        self._k1, self._b = k1, b
        self._postings = Postings(float)

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add, replace or (None) forget the text under this id."""
        if text is None:
            self._postings.drop(id)
            return
        found = features(text, self._weights)
        self._postings.put(id, found, math.fsum(found.values()))

    def scores(self, query: str) -> dict[str, float]:
        """Every id with its share of the highest possible score, 0 to 1."""
        index = self._postings
        slots, lists = index.slots, index.lists
        asked = {
            f: w * _rarity(len(lists.get(f, ())), len(slots))
            for f, w in features(query, self._weights, asking=True).items()
        }
        most = math.fsum(asked.values())
        if not most or not slots:
            return dict.fromkeys(slots, 0.0)
        mean = index.total / len(slots) or 1.0
        flat, steep = self._k1 * (1 - self._b), self._k1 * self._b / mean
        damping = [flat + steep * size for size in index.sizes]
        sums = [0.0] * len(damping)
        for feature, weight in asked.items():
            for slot, tf in lists.get(feature, {}).items():
                sums[slot] += weight * tf / (tf + damping[slot])
        return {key: min(1.0, sums[slot] / most) for key, slot in slots.items()}


class HybridRanker:
    """Several rankers by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).

    A text's score is the sum of 1 / (k + rank) over the rankers that give it more than 0, divided by what the first
    place everywhere would give. Without `rankers`: TF-IDF and BM25.
    """

    def __init__(self, rankers: Sequence[RelevanceRanker] | None = None, *, k: int = 60) -> None:
        if k < 1:
            raise ConfigError(f"k must be at least 1 (got {k!r})")
        self._rankers = (TfidfRanker(), Bm25Ranker()) if rankers is None else tuple(rankers)
        if not self._rankers:
            raise ConfigError("rankers is empty: give at least one ranker")
        self._k = k

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Tell every ranker."""
        for ranker in self._rankers:
            ranker.update(id, text)

    def scores(self, query: str) -> dict[str, float]:
        """Every id with its fused score, 0 to 1; 0 for what no ranker finds."""
        fused: dict[str, float] = {}
        top = len(self._rankers) / (self._k + 1)
        for ranker in self._rankers:
            found = ranker.scores(query)
            rank, last = 0, math.inf
            for place, (key, score) in enumerate(sorted(found.items(), key=lambda item: -item[1]), 1):
                if score < last:  # texts with one score share a rank, whatever order they came in
                    rank, last = place, score
                gain = 1 / (self._k + rank) / top if score > 0 else 0.0
                fused[key] = fused.get(key, 0.0) + gain
        return {key: min(1.0, score) for key, score in fused.items()}


class InConversation:
    """Another ranker's scores, of which what follows a question gets a share: the answer need not repeat its words.

    Texts follow each other in the order in which their ids came; putting another text under an id keeps its place.
    Texts among which nobody asks anything, such as facts, are scored as the other ranker does.
    """

    def __init__(self, ranker: RelevanceRanker | None = None, *, share: float = 0.3) -> None:
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be between 0 and 1 (got {share!r})")
        self._ranker = TfidfRanker() if ranker is None else ranker
        self._share = share
        self._asks: dict[str, bool] = {}
        self._answered: list[tuple[str, str]] | None = None

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add, replace or (None) forget the text under this id."""
        self._ranker.update(id, text)
        self._answered = None
        if text is None:
            self._asks.pop(id, None)
        else:
            self._asks[id] = bool(_QUESTION.search(text[-_END:]))

    def scores(self, query: str) -> dict[str, float]:
        """Every id with its score, 0 to 1."""
        found = self._ranker.scores(query)
        if self._answered is None:
            self._answered = [pair for pair in pairwise(self._asks) if self._asks[pair[0]]]
        gains = [(answer, self._share * found.get(question, 0.0)) for question, answer in self._answered]
        for answer, gain in gains:
            if gain:
                found[answer] = min(1.0, found.get(answer, 0.0) + gain)
        return found


_END = 80
"""Characters at the end of a text in which a question counts as put to whoever speaks next."""
_QUESTION = re.compile(r"[?？؟]")


def default_ranker() -> RelevanceRanker:
    """The one ranker meant for everything: conversations, facts and documents, in any language."""
    return InConversation(TfidfRanker())


def _damped(weight: float) -> float:
    """1 + ln(tf) for what occurs more than once; weights under 1 stay."""
    return 1 + math.log(weight) if weight > 1 else weight


def _rarity(holders: int, texts: int) -> float:
    """Lucene's inverse document frequency: ln(1 + (N - n + 0.5) / (n + 0.5)), above 0 even for what all texts hold."""
    return math.log(1 + (texts - holders + 0.5) / (holders + 0.5))
