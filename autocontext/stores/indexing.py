"""The stored search index of sessions: updated before each search, rebuilt if it is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Entry
from autocontext.stores import search_statements as statements
from autocontext.stores.database import Database, Row, Work
from autocontext.stores.kept import Kept
from autocontext.stores.outlines import Key, Outline, Shard
from autocontext.stores.protocol import SessionKey, Version, storable
from autocontext.stores.search_index import BEFORE, FULL, LONGEST, DamagedIndex, Segment, segments, signs_of

_AT_ONCE = 2
"""Segments per transaction, so that the first search does not load a whole long history."""
_MOST_KEPT = 16_000_000
"""Stored bytes of the segments that a process keeps unpacked: about 160,000 messages."""
_MOST_OUTLINED = 128_000_000
"""Bytes of what is kept of the short sessions of all users: about 200,000 of them."""
_SHORT = 2_000
"""Stored bytes of a session's only segment whose words are kept, so that a search for others need not look at it."""
_SHARD = 256
"""Segments of a shard, about: of more it is divided."""
_TOGETHER = 128
"""Sessions that grew by little since the last search: so many share a transaction."""
_ATTEMPTS = 3
"""Attempts; each follows a damaged index, or one that another process is rebuilding."""


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


class _Changed(Exception):
    """A session was deleted meanwhile, or another process is rebuilding the index."""


class SearchIndex:
    """The segments of all sessions in a database; `read` returns the entries of each span, from one transaction."""

    def __init__(self, database: Database, read: Callable[[Sequence[Span]], Sequence[Sequence[Entry]]]) -> None:
        self._database, self._read = database, read
        self._kept: Kept[Key, Segment] = Kept(_MOST_KEPT)
        self._shards: Kept[str, list[Shard]] = Kept(_MOST_OUTLINED, forgotten=False)

    def segments(self, user_id: str, session_id: str | None, words: Sequence[str] | None = None) -> Index:
        """The segments of a user, or of one session, up to date.

        With `words`, those of short sessions without any of these terms are left out. Raises StoreCorruptError for a
        damaged entry, and for tables that cannot be repaired.
        """
        user_id, one = storable(SessionKey(user_id, session_id or ""))
        for _ in range(_ATTEMPTS):
            try:
                shards = self._of_user(user_id) if session_id is None else self._of_session(user_id, one)
                return self._stored(user_id, session_id, shards, words)
            except _Changed:
                continue
            except DamagedIndex:
                self._shards.drop(user_id)
                self._database.write(partial(statements.forget, user_id))
        raise StoreCorruptError(f"{self._database.name}: the search index of user {user_id!r} cannot be rebuilt")

    def _of_user(self, user_id: str) -> list[Shard]:
        """The shards of a user, in order: as they are kept, but for those whose sessions have changed.

        Each goes on until the next one, so that together they have all sessions, whatever is kept of them.
        """
        kept = self._shards.get(user_id) or [Shard([], {})]
        firsts = [shard.keys[0][1] for shard in kept[1:]]
        ranges = list(zip(["", *firsts], [*firsts, None], strict=True))

        def changed() -> Work[tuple[list[int], list[list[Row]]]]:
            sums = yield from statements.sums(user_id, ranges)
            stale = [n for n, shard in enumerate(kept) if shard.sums != sums[n]]
            return stale, (yield from statements.known(user_id, [ranges[n] for n in stale]))

        stale, rows = self._database.read(changed)
        made = dict[Key, Outline]()
        new = dict(zip(stale, self._indexed(user_id, [ranges[n] for n in stale], rows, made), strict=True))
        shards = list[Shard]()
        for n, shard in enumerate(kept):
            if n not in new:
                shards.append(shard)
                continue
            outlines = shard.outlines | {key: made[key] for key in new[n] if key in made}
            shards += [Shard(part, outlines) for part in _parts(new[n])]
        self._keep(user_id, shards)
        return shards

    def _of_session(self, user_id: str, session_id: str) -> list[Shard]:
        """The segments of one session as a shard of its own."""
        ranges = [(session_id, session_id)]
        rows = self._database.read(partial(statements.known, user_id, ranges))
        return [Shard(keys, {}) for keys in self._indexed(user_id, ranges, rows, {})]

    def _indexed(
        self, user_id: str, ranges: Sequence[statements.Range], rows: Sequence[Sequence[Row]], made: dict[Key, Outline]
    ) -> list[list[Key]]:
        """The keys of the segments in these ranges, once all their sessions are indexed; `rows` are those of `known`.

        `made` gets the outlines of short sessions.
        """
        keys, grown = _keys(user_id, rows)
        if grown:
            for together in _together(grown):
                self._extend(together, made)
            needed = {row[1]: row[0] for some in rows for row in some}
            keys, grown = _keys(user_id, self._database.read(partial(statements.known, user_id, ranges)))
            if any(session.until < needed.get(session.key.session_id, 0) for session in grown):
                raise _Changed
        return keys

    def _keep(self, user_id: str, shards: Sequence[Shard]) -> None:
        """Keep the shards of a user, as far as they fit."""
        kept, size = list[Shard](), 0
        for shard in shards:
            if size + shard.size <= _MOST_OUTLINED:
                kept.append(shard)
                size += shard.size
        self._shards.put(user_id, kept, size)

    def _extend(self, together: Sequence[tuple[statements.Known, int, int]], made: dict[Key, Outline]) -> None:
        """Index entries of sessions, from one number to another."""
        spans = [Span(known.key, max(0, begin - BEFORE), end) for known, begin, end in together]
        indexed = []
        for (known, begin, _), span, part in zip(together, spans, self._read(spans), strict=True):
            before, entries = part[: begin - span.after], part[begin - span.after :]
            bodies, start = [], begin
            for until, segment in segments(begin, entries, before):
                body = segment.packed(known.key, start, until)
                bodies.append((start, until, body))
                if _is_short(key := (*known.key, *known.version, start, until), len(body)):
                    made[key] = _outline(segment)
                start = until
            indexed.append((known.key, known.version, bodies))

        def put() -> Work[None]:
            for key, version, bodies in indexed:
                yield from statements.put(key, version, bodies)

        self._database.write(put)

    def _stored(
        self, user_id: str, session_id: str | None, shards: Sequence[Shard], words: Sequence[str] | None
    ) -> Index:
        """The segments of these shards."""
        wanted, messages, length = dict[Key, Shard](), 0, 0
        signs = None if words is None else signs_of(words)
        for shard in shards:
            keys, others, their_length = (shard.keys, 0, 0) if signs is None else shard.holding(signs)
            wanted |= dict.fromkeys(keys, shard)
            messages, length = messages + others, length + their_length
        segments = {key: segment for key in wanted if (segment := self._kept.get(key)) is not None}
        if missing := {(key[1], key[4]): key for key in wanted if key not in segments}:
            outlined = dict[Key, Outline]()
            try:
                rows = self._database.read(partial(statements.segments, user_id, [*missing]))
            except StoreCorruptError as e:
                raise DamagedIndex(str(e)) from e
            for id_, start, until, body in rows:
                key = missing.get((id_, start))  # None: a damaged file gives rows that nobody asked for
                # Another process may have added to it since the keys were read: what it has more does no harm.
                if key is None or until < key[5]:
                    continue
                del missing[id_, start]
                segments[key] = segment = Segment.unpacked(SessionKey(user_id, id_), start, until, body)
                # Of a short session first the outline only.
                if session_id is None and _is_short(key, len(body)) and key not in wanted[key].outlines:
                    outlined[key] = _outline(segment)
                else:
                    self._kept.put(key, segment, len(body))
            if missing:
                self._shards.drop(user_id)
                raise _Changed
            if outlined:
                self._keep(user_id, [shard.also(outlined) for shard in shards])
        return Index([(SessionKey(user_id, key[1]), segments[key]) for key in wanted], messages, length)


def _keys(user_id: str, ranges: Sequence[Sequence[Row]]) -> tuple[list[list[Key]], list[statements.Known]]:
    """The keys of segments in each range, and the sessions that have grown since. Raises DamagedIndex for a gap."""
    found, grown = [], []
    for rows in ranges:
        keys = []
        for id_, those in groupby(rows, key=itemgetter(1)):
            end = 0
            for row in those:
                *_, start, until = row
                if until is not None:
                    if start != end:
                        raise DamagedIndex(f"the search index of session {id_!r} has a gap before entry {start}")
                    keys.append((user_id, *row[1:]))
                    end = until
            entries, _, identity, edition, *_ = row
            if end < entries:
                # Rebuild the last segment until it is full, so that small additions make no segments of their own.
                begin = start if until is not None and until - start < FULL else end
                version = Version(identity, edition)
                grown.append(statements.Known(SessionKey(user_id, id_), begin, end, entries, version))
        found.append(keys)
    return found, grown


def _parts(keys: Sequence[Key]) -> list[list[Key]]:
    """The keys in parts of about the same size, in order, those of a session in one."""
    size = len(keys) // (len(keys) // _SHARD + 1) + 1
    parts = list[list[Key]]()
    for _, those in groupby(keys, key=itemgetter(1)):
        if not parts or len(parts[-1]) >= size:
            parts.append([])
        parts[-1] += those
    return parts


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


def _is_short(key: Key, size: int) -> bool:
    """Whether a segment of so many stored bytes may be the only one of a short session."""
    return size <= _SHORT and not key[4]


def _outline(segment: Segment) -> Outline:
    return segment.count, segment.total, segment.words()
