"""How good a ranker is: the share of a question's evidence that is among its first k texts."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autocontext.ranking.rankers import RelevanceRanker


@dataclass(frozen=True)
class Question:
    """A query with the ids of the texts that answer it."""

    text: str
    evidence: frozenset[str]
    category: str = ""


@dataclass(frozen=True)
class Labelled:
    """Texts by id, and questions about them."""

    name: str
    facts: Mapping[str, str]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Judged:
    """How one question was answered."""

    category: str
    recall: tuple[float, ...]
    """At each of the depths asked for."""
    ndcg: float
    """Normalised discounted cumulative gain at the second depth (10 by default), evidence weighing 1."""


def judge(
    made: Callable[[], RelevanceRanker], labelled: Labelled, depths: Sequence[int] = (5, 10, 15)
) -> Iterable[Judged]:
    """Tell a new ranker all texts and ask it every question; texts of one score keep their order."""
    ranker = made()
    for key, text in labelled.facts.items():
        ranker.update(key, text)
    for question in labelled.questions:
        scores = ranker.scores(question.text)
        first = heapq.nlargest(max(depths), labelled.facts, key=lambda key: scores.get(key, 0.0))
        hits = [key in question.evidence for key in first]
        recall = tuple(sum(hits[:depth]) / len(question.evidence) for depth in depths)
        yield Judged(question.category, recall, _ndcg(hits[: depths[min(1, len(depths) - 1)]], len(question.evidence)))


def _ndcg(hits: Sequence[bool], relevant: int) -> float:
    gains = [1 / math.log2(place + 2) for place in range(len(hits))]
    best = math.fsum(gains[:relevant])
    return math.fsum(gain for gain, hit in zip(gains, hits, strict=True) if hit) / best if best else 0.0
