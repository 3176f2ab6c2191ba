"""How good a ranker is: the share of a question's evidence that is among its first k texts."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autocontext.ranking.rankers import RelevanceRanker


@dataclass(frozen=True)
class LabelledQuery:
    """A query and the ids of the texts that answer it."""

    text: str
    evidence: frozenset[str]
    category: str = ""


@dataclass(frozen=True)
class Labelled:
    """Texts by id, and queries about them."""

    name: str
    facts: Mapping[str, str]
    queries: Sequence[LabelledQuery]


@dataclass(frozen=True)
class Judged:
    """How well the answers to one query were ranked."""

    category: str
    recall: tuple[float, ...]
    """At each depth."""
    ndcg: float
    """Normalised discounted cumulative gain at the second depth (10 by default); each piece of evidence weighs 1."""


def judge(
    make: Callable[[], RelevanceRanker], labelled: Labelled, depths: Sequence[int] = (5, 10, 15)
) -> Iterable[Judged]:
    """Add all texts to a new ranker and run every query; texts with equal scores keep their order."""
    ranker = make()
    for key, text in labelled.facts.items():
        ranker.update(key, text)
    for query in labelled.queries:
        scores = ranker.scores(query.text)
        first = heapq.nlargest(max(depths), labelled.facts, key=lambda key: scores.get(key, 0.0))
        hits = [key in query.evidence for key in first]
        recall = tuple(sum(hits[:depth]) / len(query.evidence) for depth in depths)
        yield Judged(query.category, recall, _ndcg(hits[: depths[min(1, len(depths) - 1)]], len(query.evidence)))


def _ndcg(hits: Sequence[bool], relevant: int) -> float:
    gains = [1 / math.log2(place + 2) for place in range(len(hits))]
    best = math.fsum(gains[:relevant])
    return math.fsum(gain for gain, hit in zip(gains, hits, strict=True) if hit) / best if best else 0.0
