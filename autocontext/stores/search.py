"""Searching sessions: BM25 over the terms of their segments, and a snippet of each match."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from autocontext.errors import InvalidMessage
from autocontext.history.entries import Entry
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_index import Hit, Segment, messages_of, searchable
from autocontext.text.stems import stem
from autocontext.text.stop_words import STOP_WORDS
from autocontext.text.words import rarity, terms

_K1, _B = 1.2, 0.5
"""BM25's k1 and b, as in `autocontext.ranking`."""
_AROUND = 160
"""Characters of a snippet."""
_WEAK = {stem(word) for word in STOP_WORDS}
_MOST_TERMS = 128
"""Different words of a query that count, the first ones."""
_MOST_SHOWN = 32
"""Words of a query that a snippet is chosen by; more fit into none."""
_MOST_PLACES = 64
"""Places of one word that are looked at: a word that occurs more often says little about where to look."""
_STEM = 4
"""Characters of a word that are searched for when the text has the word in another form."""


class Found(NamedTuple):
    """A message that fits a search."""

    session: SessionKey
    message_id: str
    sequence: int
    """Number of the log entry it came with."""
    snippet: str
    """The stretch of the message where most of the query's words are; "..." where it goes on."""
    score: float
    """From 0 to 1, for putting results of one search in order."""


class Ranked(NamedTuple):
    """A hit without its text."""

    score: float
    session: SessionKey
    sequence: int
    message_id: str


def query_terms(text: str, limit: int) -> list[str]:
    """The first terms of a query, each once; stop words count only when there are no other words.

    Raises InvalidMessage for a limit below 1.
    """
    if limit < 1:
        raise InvalidMessage(f"search: limit must be 1 or more (got {limit!r})")
    words = list(dict.fromkeys(terms(text)))
    return ([term for term in words if term not in _WEAK] or words)[:_MOST_TERMS]


def best_hits(query: Sequence[str], segments: Iterable[tuple[SessionKey, Segment]], limit: int) -> list[Ranked]:
    """The best hits; a score is a share of the highest that this query can give.

    BM25 (Robertson and Walker 1994) with the inverse document frequency of Lucene.
    """
    documents = total = 0
    emptied: dict[SessionKey, int] = {}
    hits: dict[str, list[tuple[SessionKey, Hit]]] = {term: [] for term in query}
    for session, segment in segments:
        documents += segment.count
        total += segment.total
        emptied[session] = max(segment.emptied, emptied.get(session, -1))
        for term in hits:
            hits[term] += ((session, hit) for hit in segment.holders(term))
    weights = {term: rarity(len(holders), documents) for term, holders in hits.items()}
    most = math.fsum(weights.values())
    mean = total / documents if total else 1.0
    scores: dict[tuple[SessionKey, int, str], float] = {}
    for term, postings in hits.items():
        for session, (document, times) in postings:
            if document.sequence >= emptied[session]:  # what the user has cleared stays out of results
                damping = _K1 * (1 - _B + _B * document.length / mean)
                key = (session, document.sequence, document.message_id)
                scores[key] = scores.get(key, 0.0) + weights[term] * times / (times + damping) / most
    best = heapq.nsmallest(limit, scores.items(), key=lambda item: (-item[1], item[0]))
    return [Ranked(score, *key) for key, score in best]


def with_snippets(
    query: str, hits: Iterable[Ranked], read: Callable[[SessionKey, int], Sequence[Entry]]
) -> list[Found]:
    """The hits with their snippets; messages that were deleted meanwhile are left out."""
    results = []
    for score, session, sequence, message_id in hits:
        for msg in (m for entry in read(session, sequence) for m in messages_of(entry) if m.id == message_id):
            results.append(Found(session, message_id, sequence, snippet(query, searchable(msg)), score))
            break
    return results


def snippet(query: str, text: str) -> str:
    """The stretch of a text where most of the query's words stand; looks at the first places of each word."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters become longer in lower case; places would be off
        lowered = text
    different = islice(dict.fromkeys(terms(query)), _MOST_SHOWN)
    words = [term if term in lowered else term[:_STEM] for term in different]
    best, start = 0, 0
    for at in sorted(at for word in words for at in islice(_places(word, lowered), _MOST_PLACES)):
        near = sum(lowered.find(word, at, at + _AROUND // 2 + len(word) - 1) >= 0 for word in words)
        if near > best:
            best, start = near, max(0, at - _AROUND // 4)
    stop = min(len(text), start + _AROUND)
    start = max(0, stop - _AROUND)
    inner = " ".join(text[start:stop].split())
    return ("..." if start else "") + inner + ("..." if stop < len(text) else "")


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
