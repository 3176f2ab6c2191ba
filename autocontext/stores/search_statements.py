"""The statements of the search index: which sessions have grown, and their segments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from autocontext.errors import Conflict, StoreCorruptError
from autocontext.stores.database import Row, Statement, Work, rows_of
from autocontext.stores.outlines import LOW, Sums
from autocontext.stores.protocol import SessionKey, Version
from autocontext.stores.session_statements import hold

_AT_ONCE = 100
"""Segments, entries or ranges that a statement names."""
_IDENTITY = "COALESCE(s.identity, s.created_at)"
_KINDS: tuple[set[type], ...] = ({int}, {str}, {int}, {int}, {int, type(None)}, {int, type(None)})
"""Of the columns of `known`."""

Range: TypeAlias = tuple[str, str | None]
"""The sessions of a user from an id up to before another one, as the database orders them.

None: up to the last one; the same id twice: this one.
"""


class Known(NamedTuple):
    """A session and how far it is indexed; `start` is where its next segment begins."""

    key: SessionKey
    start: int
    until: int
    entries: int
    version: Version


def sums(user_id: str, ranges: Sequence[Range]) -> Work[list[Sums]]:
    """The `sums` of each range of a user's sessions, as a shard has them that has all of it."""
    found: dict[int, Sums] = {}
    for at in range(0, len(ranges), _AT_ONCE):
        params = {"user_id": user_id}
        selects = []
        for i, within in enumerate(ranges[at : at + _AT_ONCE], at):
            condition, bounds = _within(within, f"_{i}")
            params |= bounds
            selects.append(
                f"SELECT {i}, SUM(s.entries & {LOW}), SUM(s.edition & {LOW}), SUM({_IDENTITY} & {LOW}) "
                f"FROM autocontext_sessions s WHERE s.user_id = :user_id{condition}"
            )
        rows = yield Statement(" UNION ALL ".join(selects), params)
        found |= {int(i): tuple(total or 0 for total in totals) for i, *totals in rows}  # NULL: of no sessions
    return [found[i] for i in range(len(ranges))]


def known(user_id: str, ranges: Sequence[Range]) -> Work[list[list[Row]]]:
    """How far the sessions of these ranges are indexed: a row for each segment, in order, or one with None.

    Each is the number of entries in the session, then session id, identity, edition, and start and until. Raises
    StoreCorruptError for a damaged row.
    """
    found = []
    for within in ranges:
        condition, bounds = _within(within)
        rows = yield Statement(
            f"SELECT s.entries, s.session_id, {_IDENTITY}, s.edition, x.start, x.until "
            "FROM autocontext_sessions s LEFT JOIN autocontext_search x "
            f"ON x.user_id = s.user_id AND x.session_id = s.session_id WHERE s.user_id = :user_id{condition} "
            "ORDER BY s.session_id, x.start",
            {"user_id": user_id, **bounds},
        )
        for column, kinds in zip(zip(*rows, strict=True), _KINDS, strict=False):
            if not set(map(type, column)) <= kinds:  # SQLite's columns hold any type
                raise StoreCorruptError("the search index or the row of a session is damaged")
        found.append(rows)
    return found


def _within(within: Range, number: str = "") -> tuple[str, dict[str, str]]:
    """The condition for a range of sessions, and its parameters, with a number behind their names."""
    first, end = within
    condition = f" AND s.session_id {'=' if first == end else '>='} :first{number}"
    bounds = {f"first{number}": first}
    if end is not None and end != first:
        condition += f" AND s.session_id < :end{number}"
        bounds[f"end{number}"] = end
    return condition, bounds


def put(session: SessionKey, version: Version, segments: list[tuple[int, int, bytes]]) -> Work[None]:
    """Store segments (start, until, body), unless the session was rewritten or deleted since they were built."""
    with suppress(Conflict):
        yield from hold(session, version)  # nobody erases messages in between
        yield Statement(
            "INSERT INTO autocontext_search (user_id, session_id, start, until, body) "
            "VALUES (:user_id, :session_id, :start, :until, :body) "
            "ON CONFLICT (user_id, session_id, start) DO UPDATE SET until = excluded.until, body = excluded.body "
            "WHERE autocontext_search.until < excluded.until",
            [{**session._asdict(), "start": start, "until": until, "body": body} for start, until, body in segments],
        )


def segments(user_id: str, places: Sequence[tuple[str, int]]) -> Work[list[Row]]:
    """The segments at these places (session id, start) of a user: session id, start, until, body."""
    return _at("SELECT session_id, start, until, body FROM autocontext_search", "start", user_id, places)


def bodies(places: Sequence[tuple[SessionKey, int]]) -> Work[list[Row]]:
    """The rows of some entries of a user: his id, session id, sequence, checksum, body. Unknown ones are left out."""
    select = "SELECT user_id, session_id, sequence, checksum, body FROM autocontext_entries"
    user_id = next((session.user_id for session, _ in places), "")
    return _at(select, "sequence", user_id, [(session.session_id, number) for session, number in places])


def _at(select: str, column: str, user_id: str, places: Sequence[tuple[str, int]]) -> Work[list[Row]]:
    found: list[Row] = []
    for at in range(0, len(places), _AT_ONCE):
        some = places[at : at + _AT_ONCE]
        fields = {f"{name}{i}": value for i, place in enumerate(some) for name, value in zip("st", place, strict=True)}
        values = ", ".join(f"(:s{i}, :t{i})" for i in range(len(some)))
        found += yield Statement(
            # Not IN (VALUES ...), for which SQLite looks at all rows of the user.
            f"WITH wanted (id, place) AS (VALUES {values}) {select} "
            f"JOIN wanted ON user_id = :user_id AND session_id = id AND {column} = place",
            {"user_id": user_id, **fields},
        )
    return found


def forget(user_id: str) -> Work[list[Row]]:
    """Delete the segments of a user."""
    return rows_of("DELETE FROM autocontext_search WHERE user_id = :user_id", {"user_id": user_id})
