"""The stored search index of sessions: updated before each search, rebuilt if it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from sys import getsizeof
from typing import NamedTuple, TypeAlias

from autocontext.errors import StoreCorruptError
from autocontext.flows.forking import fork_lock
from autocontext.history.entries import Entry
from autocontext.stores import search_statements as statements
from autocontext.stores.database import Database, Row, Work
from autocontext.stores.kept import Kept
from autocontext.stores.protocol import SessionKey, Version
from autocontext.stores.search_index import BEFORE, FULL, LONGEST, Segment, segments, signs_of

_AT_ONCE = 2
"""Segments per transaction, so that the first search does not load a whole long history."""
_MOST_KEPT = 16_000_000
"""Stored bytes of the segments that a process keeps unpacked: about 160,000 messages."""
_SHORT = 2_000
"""Stored bytes of a session's only segment whose words are kept, so that a search for others need not look at it."""
_MOST_OUTLINED = 128_000_000
"""Bytes of what is kept of short segments: about 100,000 sessions."""
_PER_OUTLINE = 500
"""Bytes of one beside its words."""
_FEW = 0.2
"""Share of the segments of a user up to which single ones are read."""
_TOGETHER = 128
"""Sessions that grew by little since the last search: so many share a transaction."""
_ATTEMPTS = 3
"""Attempts; each follows a damaged index, or one that another process is rebuilding."""

_Key: TypeAlias = tuple[str, str, int, int, int, int]
"""User, session, identity, edition, start and until: with these, the content of a segment never changes."""

_Outline: TypeAlias = tuple[int, int, str]
"""Of the first segment of a session: messages, their words, and a text with all different ones. A plain tuple, which
the garbage collector need not look at."""


class Index(NamedTuple):
    """The segments that a search looks at, and what others count for."""

    segments: list[tuple[SessionKey, Segment]]
    """Those of a session together and in order."""
    messages: int = 0
    length: int = 0
    """Messages that are left out, and their words."""


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
        self._outlines = _Outlines()

    def segments(self, user_id: str, session_id: str | None, words: Sequence[str] | None = None) -> Index:
        """The segments of a user, or of one session, up to date.

        With `words`, those of short sessions without any of these terms are left out. Raises StoreCorruptError for a
        damaged entry, and for tables that cannot be repaired.
        """
        for _ in range(_ATTEMPTS):
            known = partial(statements.known, user_id, session_id)
            rows = self._database.read(known)
            keys, grown = _keys(user_id, rows)
            if grown and keys is not None:
                for together in _together(grown):
                    self._extend(together)
                needed = {row[1]: row[0] for row in rows}
                keys, grown = _keys(user_id, self._database.read(known))
                if any(session.until < needed.get(session.key.session_id, 0) for session in grown):
                    continue  # a session was deleted meanwhile, or another process is rebuilding the index
            try:
                if keys is not None and (found := self._stored(user_id, session_id, keys, words)) is not None:
                    return found
            except StoreCorruptError:
                keys = None
            if keys is None:
                self._database.write(partial(statements.forget, user_id))
        raise StoreCorruptError(f"{self._database.name}: the search index of user {user_id!r} cannot be rebuilt")

    def _extend(self, together: Sequence[tuple[statements.Known, int, int]]) -> None:
        """Index entries of sessions, from one number to another."""
        spans = [Span(known.key, max(0, begin - BEFORE), end) for known, begin, end in together]
        made = []
        for (known, begin, _), span, part in zip(together, spans, self._read(spans), strict=True):
            before, entries = part[: begin - span.after], part[begin - span.after :]
            bodies, start = [], begin
            for until, segment in segments(begin, entries, before):
                body = segment.packed(known.key, start, until)
                bodies.append((start, until, body))
                self._outlines.put((*known.key, *known.version, start, until), segment, len(body))
                start = until
            made.append((known.key, known.version, bodies))

        def put() -> Work[None]:
            for key, version, bodies in made:
                yield from statements.put(key, version, bodies)

        self._database.write(put)

    def _stored(
        self, user_id: str, session_id: str | None, keys: Sequence[_Key], words: Sequence[str] | None
    ) -> Index | None:
        """The segments with these keys; None if one is gone. Raises StoreCorruptError for a damaged one."""
        wanted, messages, length = keys, 0, 0
        if words is not None:
            signs, wanted = signs_of(words), []
            following = [*(key[1] for key in keys[1:]), None]
            for key, known, after in zip(keys, self._outlines.of(keys), following, strict=False):
                # The next segments of a session go by the first one: by what it numbers.
                if known is None or after == key[1] or any(map(known[2].__contains__, signs)):
                    wanted.append(key)
                else:
                    messages, length = messages + known[0], length + known[1]
        kept = {key: self._kept.get(key) for key in wanted}
        segments = {key: segment for key, segment in kept.items() if segment is not None}
        if missing := [key for key in wanted if key not in segments]:
            at = {(key[1], key[4]): key for key in missing}
            few = session_id is not None or len(missing) < len(keys) * _FEW
            places = [(key[1], key[4]) for key in missing] if few else None
            for id_, start, until, body in self._database.read(partial(statements.segments, user_id, places)):
                known_key = at.get((id_, start))
                if known_key is None or until < known_key[5]:
                    continue
                # Another process may have added to it since the keys were read.
                key = (*known_key[:5], until)
                segment = Segment.unpacked(SessionKey(user_id, id_), start, until, body)
                segments[at.pop((id_, start))] = segment
                # Of a short session first the outline only.
                if not self._outlines.put(key, segment, len(body)):
                    self._kept.put(key, segment, len(body))
            if at:
                return None
        return Index([(SessionKey(user_id, key[1]), segments[key]) for key in wanted], messages, length)


def _keys(user_id: str, rows: Sequence[Row]) -> tuple[list[_Key] | None, list[statements.Known]]:
    """The keys of segments (None where there is a gap), and the sessions that have grown since they were indexed."""
    keys, grown, end = [], [], 0
    for row, (_, next_id, *_) in zip(rows, [*rows[1:], (0, None)], strict=False):
        entries, id_, identity, edition, start, until = row
        if until is not None:
            if start != end:
                return None, []
            keys.append((user_id, *row[1:]))
            end = until
        if id_ != next_id:
            if end < entries:
                # Rebuild the last segment until it is full, so that small additions make no segments of their own.
                begin = start if until is not None and until - start < FULL else end
                version = Version(identity, edition)
                grown.append(statements.Known(SessionKey(user_id, id_), begin, end, entries, version))
            end = 0
    return keys, grown


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


class _Outlines:
    """What the first segments of short sessions hold; of a session the newest that was seen."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._outlines: dict[tuple[str, str], tuple[_Key, _Outline]] = {}
        self._size = 0

    def of(self, keys: Sequence[_Key]) -> list[_Outline | None]:
        """What is known of each."""
        with self._lock:
            found = [self._outlines.get(key[:2]) for key in keys]
        return [one[1] if one and one[0] == key else None for one, key in zip(found, keys, strict=True)]

    def put(self, key: _Key, segment: Segment, size: int) -> bool:
        """Keep what a segment of so many stored bytes holds, if that is little; whether it is new."""
        if size > _SHORT or key[4]:
            return False
        outline = segment.count, segment.total, segment.words()
        with self._lock:
            before = self._outlines.pop(key[:2], None)
            self._outlines[key[:2]] = key, outline
            self._size += _bytes_of(outline) - (_bytes_of(before[1]) if before else 0)
            while self._size > _MOST_OUTLINED:
                _, gone = self._outlines.pop(next(iter(self._outlines)))
                self._size -= _bytes_of(gone)
        return before is None or before[0] != key


def _bytes_of(outline: _Outline) -> int:
    return getsizeof(outline[2]) + _PER_OUTLINE
