"""The stored search index of sessions: brought up to date before a search, made anew where it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Entry
from autocontext.stores import search_statements as statements
from autocontext.stores.database import Database, Row
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_index import BEFORE, LONGEST, Segment, segments

_AT_ONCE = 2
"""Segments that one transaction stores: the first search of a long history does not hold all of it in memory."""
_ATTEMPTS = 3
"""Each after the index was found damaged, or while another process made it anew."""


class SearchIndex:
    """The segments of all sessions in a database; `read(session, after, until)` gives their entries."""

    def __init__(self, database: Database, read: Callable[[SessionKey, int, int], Sequence[Entry]]) -> None:
        self._database, self._read = database, read

    def segments(self, user_id: str, session_id: str | None) -> list[tuple[SessionKey, Segment]]:
        """The segments of a user, or of one session, with all that was added until now.

        Raises StoreCorruptError for an entry that cannot be read, and for tables that cannot be mended.
        """
        for _ in range(_ATTEMPTS):
            known = self._database.read(partial(statements.known, user_id, session_id))
            for session in known:
                if session.until < session.entries:
                    self._extend(session)
            rows = self._database.read(partial(statements.segments, user_id, session_id))
            try:
                segments = _checked(user_id, rows)
            except StoreCorruptError:
                self._database.write(partial(statements.forget, user_id))
                continue
            ends = {key: until for key, _, until in segments}
            # Not so: a session was deleted meanwhile, or another process makes the index anew.
            if all(ends.get(session.key, 0) >= session.entries for session in known):
                return [(key, segment) for key, segment, _ in segments]
        raise StoreCorruptError(f"{self._database.name}: the search index of user {user_id!r} cannot be made anew")

    def _extend(self, session: statements.Known) -> None:
        """Index what a session has gained. A last segment that is not full yet is made anew with it."""
        step = _AT_ONCE * LONGEST
        for begin in range(session.start, session.entries, step):
            lead = max(0, begin - BEFORE)
            part = self._read(session.key, lead, min(session.entries, begin + step))
            before, entries = part[: begin - lead], part[begin - lead :]
            made, start = [], begin
            for until, segment in segments(begin, entries, before):
                made.append((start, until, segment.packed(session.key, start, until)))
                start = until
            self._database.write(partial(statements.put, session.key, session.version, made))


def _checked(user_id: str, rows: Sequence[Row]) -> list[tuple[SessionKey, Segment, int]]:
    """The stored segments and where they end. Raises StoreCorruptError for a damaged one, or a gap between two."""
    segments: list[tuple[SessionKey, Segment, int]] = []
    ends: dict[str, int] = {}
    for id_, start, until, body in rows:
        key = SessionKey(user_id, id_)
        segments.append((key, Segment.unpacked(key, start, until, body), until))
        if start != ends.get(id_, 0):
            raise StoreCorruptError(f"the search index of session {id_!r} has a gap before entry {start}")
        ends[id_] = until
    return segments
