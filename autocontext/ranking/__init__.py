"""Rank short texts by how relevant they are to a query: lexical, in pure Python, updated text by text.

Memories, content search and the state optimiser use these rankers. A ranker holds texts under ids and scores each of
them from 0 (nothing in common with the query) to 1.

    ranker = default_ranker()
    ranker.update("f1", "Prefers pytest for testing")
    ranker.update("f2", "Uses Docker")
    ranker.scores("How do I write tests?")      # {"f1": 0.3, "f2": 0.0}, about
    ranker.update("f2", None)                   # remove it

To use an embedding model instead, implement `RelevanceRanker`.
"""

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
    "default_ranker",
]
