"""Which of many short texts matter for a query: lexical ranking in pure Python, updated text by text.

Shared by memories, content search, session search and the state optimiser. A ranker is told of texts under ids and
gives every id a score from 0 (nothing in common) to 1 for a query. Nothing here needs more than the standard library.

    ranker = default_ranker()
    ranker.update("f1", "Prefers pytest for testing")
    ranker.update("f2", "Uses Docker")
    ranker.scores("How do I write tests?")      # {"f1": 0.3, "f2": 0.0}, about
    ranker.update("f2", None)                   # forgets it

An embedding model plugs in through the same protocol: see `RelevanceRanker`.
"""

from autocontext.ranking.features import Weights
from autocontext.ranking.rankers import (
    Bm25Ranker,
    HybridRanker,
    InConversation,
    RelevanceRanker,
    TfidfRanker,
    default_ranker,
)

__all__ = [
    "Bm25Ranker",
    "HybridRanker",
    "InConversation",
    "RelevanceRanker",
    "TfidfRanker",
    "Weights",
    "default_ranker",
]
