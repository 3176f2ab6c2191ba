"""The stored search index of sessions: updated before each search, rebuilt if it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Entry
from autocontext.stores import search_statements as statements
from autocontext.stores.database import Database, Work
from autocontext.stores.kept import Kept
from autocontext.stores.protocol import SessionKey, Version
from autocontext.stores.search_index import BEFORE, LONGEST, Segment, segments

_AT_ONCE = 2
"""Segments per transaction, so that the first search does not load a whole long history."""
_MOST_KEPT = 16_000_000
"""Stored bytes of the segments that a process keeps unpacked: about 160,000 messages, or 30,000 short sessions."""
_TOGETHER = 128
"""Sessions that grew by little since the last search: so many share a transaction."""
_ATTEMPTS = 3
"""Attempts; each follows a damaged index, or one that another process is rebuilding."""


class Span(NamedTuple):
    """Some entries of a session, by number."""

    session: SessionKey
    after: int
    until: int


class SearchIndex:
    """The segments of all sessions in a database; `read` returns the entries of each span, from one transaction."""

    def __init__(self, database: Database, read: Callable[[Sequence[Span]], Sequence[Sequence[Entry]]]) -> None:
        self._database, self._read = database, read
        self._kept: Kept[_Key, Segment] = Kept(_MOST_KEPT)

    def segments(self, user_id: str, session_id: str | None) -> list[tuple[SessionKey, Segment]]:
        """The segments of a user, or of one session, up to date.

        Raises StoreCorruptError for a damaged entry, and for tables that cannot be repaired.
        """
        for _ in range(_ATTEMPTS):
            known = self._database.read(partial(statements.known, user_id, session_id))
            for together in _together([session for session in known if session.until < session.entries]):
                self._extend(together)
            try:
                segments = self._stored(user_id, session_id, {session.key: session.version for session in known})
            except StoreCorruptError:
                self._database.write(partial(statements.forget, user_id))
                continue
            ends = {key: until for key, until, _ in segments}
            # Otherwise a session was deleted meanwhile, or another process is rebuilding the index.
            if all(ends.get(session.key, 0) >= session.entries for session in known):
                return [(key, segment) for key, _, segment in segments]
        raise StoreCorruptError(f"{self._database.name}: the search index of user {user_id!r} cannot be rebuilt")

    def _extend(self, together: Sequence[tuple[statements.Known, int, int]]) -> None:
        """Index entries of sessions, from one number to another."""
        spans = [Span(known.key, max(0, begin - BEFORE), end) for known, begin, end in together]
        made = []
        for (known, begin, _), span, part in zip(together, spans, self._read(spans), strict=True):
            before, entries = part[: begin - span.after], part[begin - span.after :]
            bodies, start = [], begin
            for until, segment in segments(begin, entries, before):
                bodies.append((start, until, segment.packed(known.key, start, until)))
                start = until
            made.append((known.key, known.version, bodies))

        def put() -> Work[None]:
            for key, version, bodies in made:
                yield from statements.put(key, version, bodies)

        self._database.write(put)

    def _stored(
        self, user_id: str, session_id: str | None, versions: Mapping[SessionKey, Version]
    ) -> list[tuple[SessionKey, int, Segment]]:
        """The segments and where they end. Raises StoreCorruptError for a damaged one, or a gap between two."""
        read = partial(statements.segments, user_id, session_id)
        keys = [_key(user_id, row, versions) for row in self._database.read(partial(read, bodies=False))]
        found = {key: segment for key in keys if (segment := self._kept.get(key)) is not None}
        if len(found) < len(keys):
            found = {}
            for *row, body in self._database.read(read):
                key = _key(user_id, row, versions)
                segment = self._kept.get(key)
                if segment is None:
                    segment = Segment.unpacked(key.session, key.start, key.until, body)
                    if key.version is not None:
                        self._kept.put(key, segment, len(body))
                found[key] = segment
        ends: dict[SessionKey, int] = {}
        for session, start, until, _ in found:
            if start != ends.get(session, 0):
                raise StoreCorruptError(f"the search index of session {session[1]!r} has a gap before entry {start}")
            ends[session] = until
        return [(key.session, key.until, segment) for key, segment in found.items()]


def _together(grown: Sequence[statements.Known]) -> Iterator[list[tuple[statements.Known, int, int]]]:
    """What one transaction indexes: a part of a long session, or many that are short.

    A last segment that is not full yet is rebuilt.
    """
    group: list[tuple[statements.Known, int, int]] = []
    room = step = _AT_ONCE * LONGEST
    for known in sorted(grown, key=lambda known: known.key):  # two searches lock sessions in the same order
        for begin in range(known.start, known.entries, step):
            end = min(known.entries, begin + step)
            if group and (end - begin > room or len(group) == _TOGETHER):
                yield group
                group, room = [], step
            group.append((known, begin, end))
            room -= end - begin
    if group:
        yield group


class _Key(NamedTuple):
    """The key of a segment, which never changes within one version of a session."""

    session: SessionKey
    start: int
    until: int
    version: Version | None


def _key(user_id: str, row: Sequence[Any], versions: Mapping[SessionKey, Version]) -> _Key:
    session = SessionKey(user_id, row[0])
    return _Key(session, row[1], row[2], versions.get(session))
