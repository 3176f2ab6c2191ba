"""The rankers: cosine of TF-IDF vectors, BM25, both combined by rank, and one for conversations."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

from autocontext.errors import ConfigError
from autocontext.ranking.features import features
from autocontext.text.words import rarity

_SLOPE = 0.2
"""How far the length of a text counts as it is, in the cosine."""
_K1, _B = 1.2, 0.5
"""BM25's k1 and b."""


@runtime_checkable
class RelevanceRanker(Protocol):
    """Scores texts against a query. Implement these two methods to plug in an embedding model."""

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add a text, replace the one under this id, or remove it (None)."""

    def scores(self, query: str) -> dict[str, float]:
        """The relevance of every text by id, from 0 (nothing in common) to 1."""


class _Postings:
    """A ranker's strengths by feature and text.

    `strength` maps the weight of a feature in a text to what is kept, and `size` all strengths of a text to its size.
    Updating a text costs as much as the features of that text, however many others there are. An update that was
    interrupted is mended by doing it again.
    """

    def __init__(self, strength: Callable[[float], float], size: Callable[[Iterable[float]], float]) -> None:
        self._strength, self._size = strength, size
        self._features: dict[str, tuple[str, ...]] = {}
        """Of each text, the oldest id first."""
        self._sizes: dict[str, float] = {}
        self._lists: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """For each feature the ids of the texts that hold it, and its strength there."""

    @property
    def mean_size(self) -> float:
        """The size of a text, on average."""
        return math.fsum(self._sizes.values()) / max(1, len(self._sizes))

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the protocol's name)
        """Add a text, replace the one under this id, or remove it (None); then an unknown id is ignored."""
        for feature in self._features.get(id, ()):
            self._lists[feature].pop(id, None)
            if not self._lists[feature]:
                del self._lists[feature]
        if text is None:
            self._features.pop(id, None)
            self._sizes.pop(id, None)
            return
        weights = features(text)
        strengths = list(map(self._strength, weights.values()))
        self._features[id], self._sizes[id] = tuple(weights), self._size(strengths)
        for feature, strength in zip(weights, strengths, strict=True):
            self._lists[feature][id] = strength


class TfidfRanker(_Postings):
    """Cosine between query and text; rare features weigh more.

    The weights are SMART's lnc.ltc: 1 + ln(tf) in a text, multiplied by the inverse document frequency in the query.
    The length of a text is pulled towards the average (pivoted normalisation, Singhal 1996), so that short texts do not
    win because they are short.
    """

    def __init__(self) -> None:
        super().__init__(_damped, lambda strengths: math.hypot(*strengths))

    def scores(self, query: str) -> dict[str, float]:
        """The cosine of every text by id, 0 to 1; all 0 when the query holds stop words only."""
        asked = features(query)
        weights = {f: _damped(w) * r for (f, w), r in zip(asked.items(), self._rarities(asked), strict=True)}
        length = math.sqrt(math.fsum(w * w for w in weights.values()))
        sums = dict.fromkeys(self._sizes, 0.0)
        if not length or not sums:
            return sums
        for feature, weight in weights.items():
            share = weight / length
            for id_, strength in self._lists.get(feature, {}).items():
                sums[id_] += share * strength
        pivot = (1 - _SLOPE) * self.mean_size
        return {id_: min(1.0, s / (pivot + _SLOPE * self._sizes[id_])) if s else 0.0 for id_, s in sums.items()}

    def _rarities(self, features: Collection[str]) -> list[float]:
        return [rarity(len(self._lists.get(feature, ())), len(self._sizes)) for feature in features]


class Bm25Ranker(_Postings):
    """BM25 (Robertson and Walker 1994) with Lucene's inverse document frequency, which is never negative.

    A score is divided by the limit for a text that repeats every feature of the query without end, so it stays under 1.
    """

    def __init__(self) -> None:
        super().__init__(float, math.fsum)

    def scores(self, query: str) -> dict[str, float]:
        """The share of the highest possible score that every text gets, by id, 0 to 1."""
        weights = {f: w * rarity(len(self._lists.get(f, ())), len(self._sizes)) for f, w in features(query).items()}
        limit = math.fsum(weights.values())
        sums = dict.fromkeys(self._sizes, 0.0)
        if not limit or not sums:
            return sums
        flat, steep = _K1 * (1 - _B), _K1 * _B / (self.mean_size or 1.0)
        damping = {id_: flat + steep * size for id_, size in self._sizes.items()}
        for feature, weight in weights.items():
            for id_, tf in self._lists.get(feature, {}).items():
                sums[id_] += weight * tf / (tf + damping[id_])
        return {id_: min(1.0, s / limit) for id_, s in sums.items()}


class HybridRanker:
    """Combines rankers by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).

    A text scores the sum of 1 / (k + rank) over the rankers that score it above 0, divided by the sum for first place
    in all of them. `rankers` defaults to TF-IDF and BM25.
    """

    def __init__(self, rankers: Sequence[RelevanceRanker] | None = None, *, k: int = 60) -> None:
        if k < 1:
            raise ConfigError(f"k must be at least 1 (got {k!r})")
        self._rankers = (TfidfRanker(), Bm25Ranker()) if rankers is None else tuple(rankers)
        if not self._rankers:
            raise ConfigError("rankers is empty: give at least one ranker")
        self._k = k

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Update every ranker."""
        for ranker in self._rankers:
            ranker.update(id, text)

    def scores(self, query: str) -> dict[str, float]:
        """The combined score of every text by id, 0 to 1; 0 when no ranker scores it."""
        sums: dict[str, float] = {}
        best = len(self._rankers) / (self._k + 1)
        for ranker in self._rankers:
            rank, last = 0, math.inf
            by_score = sorted(ranker.scores(query).items(), key=lambda item: -item[1])
            for place, (key, score) in enumerate(by_score, 1):
                if score < last:  # equal scores share a rank
                    rank, last = place, score
                gain = 1 / (self._k + rank) / best if score > 0 else 0.0
                sums[key] = sums.get(key, 0.0) + gain
        return {key: min(1.0, score) for key, score in sums.items()}


class InConversation:
    """Wraps a ranker: a text that follows a question also gets `share` of the question's score.

    An answer often shares no word with the query, but its question does. Texts are ordered by when their id was first
    added; replacing a text keeps its place. Where no text asks a question, such as among facts, scores are unchanged.
    """

    def __init__(self, ranker: RelevanceRanker | None = None, *, share: float = 0.3) -> None:
        if not 0 <= share <= 1:
            raise ConfigError(f"share must be between 0 and 1 (got {share!r})")
        self._ranker = TfidfRanker() if ranker is None else ranker
        self._share = share
        self._is_question: dict[str, bool] = {}

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (part of the contract)
        """Add, replace or (None) remove the text under this id."""
        self._ranker.update(id, text)
        if text is None:
            self._is_question.pop(id, None)
        else:
            self._is_question[id] = bool(_QUESTION.search(text[-_END:]))

    def scores(self, query: str) -> dict[str, float]:
        """The score of every text by id, 0 to 1."""
        scores = self._ranker.scores(query)
        pairs = [pair for pair in pairwise(self._is_question) if self._is_question[pair[0]]]
        gains = [(answer, self._share * scores.get(question, 0.0)) for question, answer in pairs]
        for answer, gain in gains:
            if gain:
                scores[answer] = min(1.0, scores.get(answer, 0.0) + gain)
        return scores


_END = 80
"""Last characters of a text; a question mark among them makes the next text an answer."""
_QUESTION = re.compile(r"[?？؟]")


def default_ranker() -> RelevanceRanker:
    """The ranker for everything: conversations, facts and documents, in any language."""
    return InConversation(TfidfRanker())


def _damped(weight: float) -> float:
    """1 + ln(weight) above 1; lower weights stay as they are."""
    return 1 + math.log(weight) if weight > 1 else weight
