"""Copies the rows of whole parts (contents, memories, saved states) between databases of any kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from autocontext.stores.database import Database, Row, Schema, Statement, Work
from autocontext.stores.places import PLACES, Place

_AT_ONCE = 200
"""Rows per transaction."""


def copy_parts(
    source: Database, to: Database, schemas: Sequence[Schema], *, progress: Callable[[str, int], object] | None = None
) -> int:
    """Copy all rows of these parts; rows that are there already stay as they are. Returns how many were read.

    It can be stopped and run again. `progress` gets the table and how many of its rows are done.
    """
    copied = 0
    for schema in schemas:
        source.ensure(schema)
        to.ensure(schema)
        for place in PLACES:
            if place.part == schema.part and place.table not in schema.derived:
                copied += _copy(source, to, place, schema.derived, progress)
    return copied


def _copy(
    source: Database,
    to: Database,
    place: Place,
    without: Collection[str],
    progress: Callable[[str, int], object] | None,
) -> int:
    columns = [name for name in (*place.texts, *place.names, *place.readable) if name not in without]
    key = [columns.index(name) for name in place.key]
    copied, after = 0, None
    while rows := source.read(partial(rows_after, place.table, place.key, columns, after)):
        to.write(partial(_insert, place, columns, rows))
        copied += len(rows)
        after = [rows[-1][i] for i in key]
        if progress is not None:
            progress(place.table, copied)
    return copied


def rows_after(table: str, key: Sequence[str], columns: Sequence[str], after: Sequence[Any] | None) -> Work[list[Row]]:
    """The next rows by key, after the one with this key. Not by OFFSET, which gets slower towards the end."""
    names = ", ".join(key)
    condition = "" if after is None else f"WHERE ({names}) > ({', '.join(f':{name}' for name in key)}) "
    return (
        yield Statement(
            f"SELECT {', '.join(columns)} FROM {table} {condition}ORDER BY {names} LIMIT {_AT_ONCE}",
            {} if after is None else dict(zip(key, after, strict=False)),
        )
    )


def _insert(place: Place, columns: list[str], rows: list[Row]) -> Work[None]:
    yield Statement(
        f"INSERT INTO {place.table} ({', '.join(columns)}) VALUES ({', '.join(f':{c}' for c in columns)}) "
        f"ON CONFLICT ({', '.join(place.key)}) DO NOTHING",
        [dict(zip(columns, row, strict=True)) for row in rows],
    )
