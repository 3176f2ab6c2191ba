"""The recall of rankers on labelled data: ours, scikit-learn's and BM25.

Usage: `python benchmarks/facts.py [--json | --markdown]`. The data are tests/data/facts.jsonl (English, Chinese,
Japanese, software) and tests/data/dialogues.jsonl (talk of two people), both written for this project. The peers run
in an environment of their own (see `peers`). A row is recall@10, beside it
what scikit-learn's TF-IDF finds with its defaults; recall@5 and nDCG@10 follow. Then the time of a query.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

from measure import ROOT, Row, each, invalid, run
from peers import again_with, versions

from autocontext.cli.conversations import read_lines
from autocontext.cli.facts import facts_in
from autocontext.memories import (
    Bm25Ranker,
    HybridRanker,
    MemoryInjector,
    MemoryStore,
    RelevanceRanker,
    TfidfRanker,
    default_ranker,
)
from autocontext.ranking.recall import Labelled, judge
from autocontext.testing import user

DATA = [ROOT / "tests" / "data" / name for name in ("facts.jsonl", "dialogues.jsonl")]
GOALS_MS = {100: 1.0, 1000: 1.0, 10_000: 10.0}


class OfOneOrder:
    """Ranking by confidence alone, with equal confidence: the order of insertion."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the contract)
        if text is not None:
            self._ids[id] = None

    def scores(self, query: str) -> dict[str, float]:  # noqa: ARG002 (the contract)
        return dict.fromkeys(self._ids, 0.5)


class Sklearn:
    """scikit-learn's TfidfVectorizer, refitted after a change."""

    def __init__(self, **options: Any) -> None:
        self._options, self._texts, self._fitted = options, {}, None

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the contract)
        self._texts[id], self._fitted = text, None

    def scores(self, query: str) -> dict[str, float]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        if self._fitted is None:
            vectorizer = TfidfVectorizer(**self._options)
            self._fitted = vectorizer, vectorizer.fit_transform(self._texts.values())
        vectorizer, matrix = self._fitted
        scores = (matrix @ vectorizer.transform([query]).T).toarray()[:, 0]
        return dict(zip(self._texts, map(float, scores), strict=True))


class Bm25s:
    """bm25s with English stop words, with or without PyStemmer."""

    def __init__(self, *, stem: bool) -> None:
        self._stem, self._texts, self._fitted = stem, {}, None

    def update(self, id: str, text: str | None) -> None:  # noqa: A002 (the contract)
        self._texts[id], self._fitted = text, None

    def scores(self, query: str) -> dict[str, float]:
        import bm25s

        options: dict[str, Any] = {"stopwords": "en", "show_progress": False}
        if self._stem:
            import Stemmer

            options["stemmer"] = Stemmer.Stemmer("english")
        if self._fitted is None:
            self._fitted = bm25s.BM25()
            self._fitted.index(bm25s.tokenize(list(self._texts.values()), **options), show_progress=False)
        asked = bm25s.tokenize([query], return_ids=False, **options)[0]
        known = [word for word in asked if word in self._fitted.vocab_dict]
        scores = self._fitted.get_scores(known) if known else [0.0] * len(self._texts)
        return dict(zip(self._texts, map(float, scores), strict=True))


def rankers() -> dict[str, Callable[[], RelevanceRanker]]:
    """Ours, and the peers that this interpreter has."""
    others: dict[str, Callable[[], RelevanceRanker]] = {"confidence only": OfOneOrder}
    try:
        import bm25s  # noqa: F401
        import sklearn  # noqa: F401
        import Stemmer  # noqa: F401
    except ImportError:
        print("peers are left out: this interpreter has none of them", file=sys.stderr)
    else:
        others |= {
            "scikit-learn TF-IDF": Sklearn,
            "bm25s": lambda: Bm25s(stem=False),
            "bm25s, stemmed": lambda: Bm25s(stem=True),
            "scikit-learn char 3-5": lambda: Sklearn(analyzer="char", ngram_range=(3, 5)),
        }
    ours = {"TfidfRanker": TfidfRanker, "Bm25Ranker": Bm25Ranker, "HybridRanker": HybridRanker}
    return {**others, **ours, "default_ranker": default_ranker}


def labelled() -> Iterator[tuple[str, list[Labelled]]]:
    """By name the sets, each cut by category where there are several."""
    for path in DATA:
        with path.open("rb") as file:
            items = [facts for facts, _ in read_lines(file, facts_in, print)]
        if path.stem == "dialogues":
            yield path.stem, items
            continue
        for category in sorted({q.category for item in items for q in item.queries}):
            yield (
                category,
                [Labelled(i.name, i.facts, [q for q in i.queries if q.category == category]) for i in items],
            )


def quality() -> Iterator[Row]:
    """recall@10 of each ranker on each set."""
    for name, items in labelled():
        base = None
        for ranker, factory in rankers().items():
            judged = [one for item in items for one in judge(factory, item)]
            at_5, at_10 = (statistics.mean(one.recall[i] for one in judged) for i in (0, 1))
            base = at_10 if ranker == "scikit-learn TF-IDF" else base
            more = {"recall@5": f"{at_5:.3f}", "nDCG@10": f"{statistics.mean(one.ndcg for one in judged):.3f}"}
            ratio = {"beside": "scikit-learn TF-IDF", "ratio": at_10 / base} if base else {}
            yield Row(f"{name}: {ranker}", at_10, "recall@10", more=more, **ratio)


def speed() -> Iterator[Row]:
    """Milliseconds of a query over facts generated from the words of the labelled ones."""
    dice = random.Random(1)
    texts = [text for _, items in labelled() for item in items for text in item.facts.values()]
    queries = [q.text for _, items in labelled() for item in items for q in item.queries][::4]
    words = " ".join(texts).split()
    for size, goal in GOALS_MS.items():
        ranker = default_ranker()
        facts = [f"{' '.join(dice.choices(words, k=9))} {i}" for i in range(size)]

        def fill(ranker: RelevanceRanker = ranker, facts: list[str] = facts) -> None:
            for i, fact in enumerate(facts):
                ranker.update(str(i), fact)

        filling = each(fill, times=1, repeat=1)
        per_query = each(lambda ranker=ranker: [ranker.scores(q) for q in queries], times=1, repeat=5) / len(queries)
        more = {"update us": f"{filling / size * 1e6:.0f}"}
        yield Row(f"a query over {size:,} facts", per_query * 1000, "ms", goal=goal, more=more)


def kept() -> Iterator[Row]:
    """Stores every labelled fact; those left out of a block can still be read by id."""
    for name, items in labelled():
        facts = {f"{item.name} {id_}": text for item in items for id_, text in item.facts.items()}
        with MemoryStore(":memory:") as store:
            ids = {store.add(text, user_id="ann").id: text for text in dict.fromkeys(facts.values())}
            question = items[0].queries[0].text
            sent, report = MemoryInjector(store, user_id="ann", max_tokens=500).inject([user(question)])
            intact = sum((m := store.get(id_, user_id="ann")) is not None and m.content == t for id_, t in ids.items())
        yield Row(
            f"{name}: facts in a block of 500 tokens", len(report.selected), "", "all facts",
            len(report.selected) / len(ids), retrievable=100 * intact / len(ids), invalid=invalid(sent),
        )  # fmt: skip


if __name__ == "__main__":
    again_with("rankers")
    own = "`autocontext bench facts FILE` ranks your own data instead (- reads standard input) and takes no option."
    sys.exit(run("facts", [quality, kept, speed], versions("rankers"), own))
