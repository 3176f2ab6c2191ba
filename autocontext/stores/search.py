"""Searches sessions: BM25 over the terms of their segments, filters, and a snippet of each match."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple, TypeAlias, TypedDict, Unpack

from autocontext.errors import InvalidMessage, short
from autocontext.history.entries import Entry
from autocontext.notes.notes import LOOKING
from autocontext.stores.checks import check_text, check_whole
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_blocks import bm25, telling
from autocontext.stores.search_index import Segment, messages_of, milliseconds, searchable, segments
from autocontext.text.words import terms

EntryAt: TypeAlias = tuple[SessionKey, int]
"""A session, and the number of an entry in it."""
_AROUND = 160
"""Characters of a snippet."""
_MOST_TERMS = 128
"""Words of a query that count: the first ones, each once."""
_MOST_SHOWN = 32
"""Words of a query that select a snippet; more do not fit into one."""
_MOST_PLACES = 64
"""Occurrences of a word to look at; more frequent words say little."""
_STEM = 4
"""First characters of a word to search for if the text has the word in another form."""


class Found(NamedTuple):
    """A message that matches a search."""

    session: SessionKey
    message_id: str
    sequence: int
    """Number of its log entry."""
    snippet: str
    """The part of the message with most of the query's words; "..." where more text follows or precedes."""
    score: float
    """From 0 to 1; compares results of one search."""
    number: int | None = None
    """Its number in the session: 41 for "m41". None for a message that only `offload` has stored."""


class Hit(NamedTuple):
    """A result without its snippet."""

    found: Found
    place: int
    """Index of the message among those of its log entry: there, several may have one id."""


class Question(NamedTuple):
    """The parsed arguments of a search; messages must match all of them."""

    terms: Sequence[str]
    """BM25 ranks messages with any of these; without terms the newest come first."""
    limit: int
    tool: str | None = None
    after: int | None = None
    before: int | None = None
    """Milliseconds since 1970."""
    numbers: tuple[int, int] | None = None
    """First and last number."""


class Filters(TypedDict, total=False):
    """Filters of a search; messages must match all of them."""

    tool: str | None
    """Name of a tool that the message calls or has a result of."""
    after: datetime | str | None
    before: datetime | str | None
    """From `after` on, and before `before`, by the message's timestamp. A text is ISO 8601, in UTC without a zone."""
    numbers: tuple[int, int] | None
    """First and last number: (12, 40) for m12 to m40."""


def question(text: str, limit: int, **filters: Unpack[Filters]) -> Question:
    """Parse the arguments of a search. Raises InvalidMessage naming a wrong one.

    The first terms of the text count, each once; stop words only if there are no other words.
    """
    check_text("search: text", text, InvalidMessage)
    check_whole("search: limit", limit, 1, InvalidMessage)
    if unknown := filters.keys() - Filters.__annotations__.keys():
        raise InvalidMessage(
            f"search: there is no {min(unknown)!r}; one can ask for {', '.join(Filters.__annotations__)}"
        )
    tool, numbers = filters.get("tool"), filters.get("numbers")
    if tool is not None:
        check_text("search: tool", tool, InvalidMessage)
    pair = isinstance(numbers, tuple | list) and len(numbers) == 2 and all(isinstance(n, int) for n in numbers)
    if numbers is not None and not pair:
        raise InvalidMessage(f"search: numbers must be the first and the last, such as (12, 40) (got {short(numbers)})")
    words = list(dict.fromkeys(terms(text)))
    words = telling(words)[:_MOST_TERMS]
    after, before = _moment("after", filters.get("after")), _moment("before", filters.get("before"))
    return Question(words, limit, tool, after, before, numbers)


def _moment(name: str, value: datetime | str | None) -> int | None:
    if value is None:
        return None
    found = milliseconds(value.isoformat() if isinstance(value, datetime) else str(value))
    if found is None:
        raise InvalidMessage(f"search: {name} must be a datetime or an ISO 8601 text (got {short(value)})")
    return found


class _Stretch(NamedTuple):
    """A segment and its position."""

    session: SessionKey
    segment: Segment
    numbered: int
    """Number of originals before it."""


def _in_use(index: Iterable[tuple[SessionKey, Segment]]) -> list[_Stretch]:
    """The segments since each session was last cleared: cleared messages are not found. Those of one are together."""
    stretches: list[_Stretch] = []
    last, begin, numbered = None, 0, 0
    for session, segment in index:
        if session != last:
            last, begin, numbered = session, len(stretches), 0
        if segment.emptied >= 0:
            del stretches[begin:]
            numbered = 0
        stretches.append(_Stretch(session, segment, numbered))
        numbered += segment.originals
    return stretches


def best_hits(
    asked: Question, index: Iterable[tuple[SessionKey, Segment]], others: tuple[int, int] = (0, 0)
) -> list[Hit]:
    """The best hits; a score is a share of the highest possible one.

    The segments of a session come together and in order. Only messages of these segments, and the `others` without any
    of the terms (their number, and words), count for how rare a word is. An agent's earlier searches and reloads repeat
    the words of what they found, so they come behind everything else.
    """
    stretches = _in_use(index)
    if asked.terms:
        scores = _scores(asked.terms, stretches, others)
        found = {n: stretches[n] for n, _ in scores}
        fitting = {n: _fitting(asked, stretch) for n, stretch in found.items()}
        looks = {n: () if asked.tool else stretch.segment.only_of(LOOKING) for n, stretch in found.items()}
        hits = (
            (i in looks[n], -score, *_stands(stretches[n], i), n, i)
            for (n, i), score in scores.items()
            if i in fitting[n]
        )
        return [_hit(-score, stretches[n], i) for _, score, *_, n, i in heapq.nsmallest(asked.limit, hits)]
    if all(filter_ is None for filter_ in asked[2:]):
        return []
    everywhere = ((n, i) for n, stretch in enumerate(stretches) for i in _fitting(asked, stretch))
    at = {(n, i): (stretches[n].segment.messages.times[i] or 0, *_stands(stretches[n], i)) for n, i in everywhere}
    return [_hit(0.0, stretches[n], i) for n, i in heapq.nlargest(asked.limit, at, key=at.__getitem__)]


def _fitting(asked: Question, stretch: _Stretch) -> Collection[int]:
    """The messages of a segment that match all filters."""
    segment, before = stretch.segment, stretch.numbered
    those: Collection[int] = range(segment.count)
    if asked.numbers is not None:
        low, high = (number - before for number in asked.numbers)
        if high < 1 or low > segment.originals:
            return ()
        those = [i for i in those if max(1, low) <= segment.messages.numbers[i] <= high]
    if asked.tool is not None:
        users = segment.of_tool(asked.tool)
        those = [i for i in those if i in users]
    if asked.after is not None or asked.before is not None:
        earliest = -math.inf if asked.after is None else asked.after
        latest = math.inf if asked.before is None else asked.before
        those = [i for i in those if (at := segment.messages.times[i]) is not None and earliest <= at < latest]
    return those if isinstance(those, range) else frozenset(those)


def _scores(
    query: Sequence[str], stretches: Sequence[_Stretch], others: tuple[int, int]
) -> dict[tuple[int, int], float]:
    """The scores of the messages with a term, by segment and place in it: shares of the highest possible one."""
    segments = [stretch.segment for stretch in stretches]
    found = ([segment.holders(term) for segment in segments] for term in query)
    texts = sum((segment.count for segment in segments), others[0])
    total = sum((segment.total for segment in segments), others[1])
    scores, limit = bm25(
        ((sum(map(len, parts)), parts) for parts in found), lambda n: segments[n].messages.lengths, texts, total
    )
    return {place: score / limit for place, score in scores.items()}


def _stands(stretch: _Stretch, i: int) -> tuple[SessionKey, int, int]:
    """The position of a message, which orders equal scores."""
    return stretch.session, stretch.segment.messages.sequences[i], i


def _hit(score: float, stretch: _Stretch, i: int) -> Hit:
    session, segment, before = stretch
    messages = segment.messages
    sequence, number = messages.sequences[i], messages.numbers[i]
    found = Found(session, segment.ids[i], sequence, "", score, before + number if number else None)
    return Hit(found, i - bisect_left(messages.sequences, sequence))


def find(
    logs: Mapping[SessionKey, Sequence[Entry]], text: str, *, limit: int = 10, **filters: Unpack[Filters]
) -> list[Found]:
    """The messages of whole logs that match best, like a store's `search` without an index: reads all of them."""
    asked = question(text, limit, **filters)
    index = ((session, segment) for session, entries in logs.items() for _, segment in segments(0, entries))
    return with_snippets(text, best_hits(asked, index), lambda places: {p: logs[p[0]][p[1]] for p in places})


def with_snippets(
    query: str, hits: Sequence[Hit], read: Callable[[Sequence[EntryAt]], Mapping[EntryAt, Entry]]
) -> list[Found]:
    """The hits with snippets; `read` returns the entries. Leaves out messages that were deleted meanwhile."""
    entries = read(sorted({(found.session, found.sequence) for found, _ in hits}))
    results = []
    for found, place in hits:
        entry = entries.get((found.session, found.sequence))
        msg = next(islice(messages_of(entry), place, None), None) if entry is not None else None
        if msg is not None and msg.id == found.message_id:
            results.append(found._replace(snippet=snippet(query, searchable(msg))))
    return results


def snippet(query: str, text: str) -> str:
    """The part of a text with most of the query's words; looks at the first occurrences of each."""
    different = islice(dict.fromkeys(terms(query)), _MOST_SHOWN)
    # Lowercasing a long text takes longer than all the rest, unless it is ASCII.
    looked, cases = (text.lower(), lambda word: (word,)) if text.isascii() else (text, _cases)
    words = [term if any(form in looked for form in cases(term)) else term[:_STEM] for term in different]
    places = {at for word in words for form in cases(word) for at in islice(_places(form, looked), _MOST_PLACES)}
    size = _AROUND // 2 + max(map(len, words), default=0)
    best, start = 0, 0
    for at in sorted(places):
        around = text[at : at + size].lower()
        near = sum(around.find(word, 0, _AROUND // 2 + len(word) - 1) >= 0 for word in words)
        if near > best:
            best, start = near, max(0, at - _AROUND // 4)
    stop = min(len(text), start + _AROUND)
    start = max(0, stop - _AROUND)
    inner = " ".join(text[start:stop].split())
    return ("..." if start else "") + inner + ("..." if stop < len(text) else "")


def _cases(word: str) -> tuple[str, ...]:
    """The usual spellings of a word."""
    return tuple(dict.fromkeys((word, word.capitalize(), word.upper())))


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
