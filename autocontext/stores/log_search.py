"""Searches a log in memory, for a memory without a database or a store without an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Unpack

from autocontext.history.entries import Entry
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search import Filters, Found, best_hits, question, with_snippets
from autocontext.stores.search_index import BEFORE, FULL, Segment, segments

_NOWHERE = SessionKey("", "")


class _Part(NamedTuple):
    """An indexed part of a log."""

    start: int
    until: int
    last: Entry
    """Its last entry, to recognize the log."""
    segment: Segment


class LogSearch:
    """Finds messages in one log, and keeps the index: the next search indexes only new entries.

    search = LogSearch()
    search.find(log.entries, "lock timeout", tool="bash", numbers=(1, 200))
    """

    def __init__(self, session: SessionKey = _NOWHERE) -> None:
        """`session` is the session that results name."""
        self._session = session
        self._parts: tuple[_Part, ...] = ()

    def find(self, entries: Sequence[Entry], text: str, *, limit: int = 10, **filters: Unpack[Filters]) -> list[Found]:
        """The messages in these entries that match best, like a store's `search`.

        `entries` is the whole log; it may have grown. Raises InvalidMessage naming a wrong argument.
        """
        hits = best_hits(question(text, limit, **filters), self.index(entries))
        return with_snippets(text, hits, lambda places: {place: entries[place[1]] for place in places})

    def index(self, entries: Sequence[Entry]) -> list[tuple[SessionKey, Segment]]:
        """The segments of a whole log."""
        parts = list(self._parts)
        until = parts[-1].until if parts else 0
        if parts and (until > len(entries) or entries[until - 1] is not parts[-1].last):
            parts, until = [], 0  # another log, or one that was rewritten
        if until < len(entries):
            if parts and until - parts[-1].start < FULL:
                until = parts.pop().start
            for end, segment in segments(until, entries[until:], entries[max(0, until - BEFORE) : until]):
                parts.append(_Part(until, end, entries[end - 1], segment))
                until = end
            self._parts = tuple(parts)  # in one go, so that several threads may search
        return [(self._session, part.segment) for part in parts]
