"""Search over stored contents: pages that may match, then their passages in order of relevance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from autocontext.content.contents import StoredContent
from autocontext.content.paging import unpack
from autocontext.content.records import ContentHit
from autocontext.ranking import default_ranker
from autocontext.text import rendering
from autocontext.text.words import is_cjk, pairs, rarity, words

_PASSAGE = 600
"""Characters."""
_PAGES = 40
"""Pages whose passages are ranked; other pages have fewer of the query's words."""
_MOST_TERMS = 128
"""Words of a query that select pages: the first ones, each once."""
_STEM = 5
"""First letters of a word that must be on a page: enough to find its other forms."""
_EXACT = 1.0
"""Added to the score of a passage that contains the exact query."""


_Page: TypeAlias = tuple[StoredContent, int, str]
"""A content, the position of the page's first character, and the text of the page."""


def best_passages(rows: Iterable[tuple[StoredContent, int, bytes]], query: str, limit: int) -> list[ContentHit]:
    """The passages of stored pages with the highest scores; [] if nothing matches."""
    pages = [(content, start, unpack(content.ref, [body])) for content, start, body in rows]
    exact = query.strip().lower()
    if not exact or limit < 1:
        return []
    ranker = default_ranker()
    passages = [
        (page, start + at, passage)
        for page, start, text in _candidates(pages, exact)
        for at, passage in rendering.passages(text, _PASSAGE)
    ]
    for i, (*_, text) in enumerate(passages):
        ranker.update(str(i), text)
    scores = ranker.scores(query)
    hits = []
    for i, (content, start, text) in enumerate(passages):
        score = scores[str(i)] + (_EXACT if exact in text.lower() else 0.0)
        if score > 0:
            hits.append(ContentHit(content.ref, content.key, content.info().name, start, text, score))
    return sorted(hits, key=lambda h: (-h.score, h.ref, h.offset))[:limit]


def _candidates(pages: list[_Page], query: str) -> list[_Page]:
    """The pages with most of the query's words; rare words weigh more."""
    if len(pages) <= _PAGES:
        return pages
    terms = list(islice(dict.fromkeys(_terms(query)), _MOST_TERMS))
    lowered = [text.lower() for *_, text in pages]
    holders = {t: sum(t in text for text in lowered) for t in terms}
    weights = {t: rarity(n, len(lowered)) for t, n in holders.items() if n}
    points = [sum(w for t, w in weights.items() if t in text) + (query in text) for text in lowered]
    best = sorted((i for i, p in enumerate(points) if p > 0), key=lambda i: -points[i])[:_PAGES]
    return [pages[i] for i in sorted(best)]


def _terms(query: str) -> Iterator[str]:
    """What to look for in pages: the first letters of words, and pairs of CJK characters."""
    for word, _ in words(query):
        if is_cjk(word):
            yield from pairs(word)
        else:
            yield word[:_STEM]
