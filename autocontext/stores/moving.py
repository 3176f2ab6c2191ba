"""Copies the rows of whole parts (contents, memories, saved states) between databases of any kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from autocontext.stores.database import Database, Row, Schema, Statement, Work

_AT_ONCE = 200
"""Rows per transaction."""
_TABLE = re.compile(r"\s*CREATE TABLE (\w+)\s*\(", re.IGNORECASE)
_DROPPED = re.compile(r"\s*DROP TABLE (\w+)", re.IGNORECASE)
_KEY = re.compile(r"PRIMARY KEY \(([^)]*)\)", re.IGNORECASE)
_ONE_COLUMN_KEY = re.compile(r"(\w+) \w+ PRIMARY KEY", re.IGNORECASE)
_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info(:name) ORDER BY cid",
    "postgresql": (
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = :name ORDER BY ordinal_position"
    ),
}


class Table(NamedTuple):
    """A table by its name and the columns of its key."""

    name: str
    key: tuple[str, ...]


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
        for table in tables_of(schema):
            if table.name not in schema.derived:
                copied += _copy(source, to, table, schema.derived, progress)
    return copied


def tables_of(schema: Schema) -> Iterator[Table]:
    """The tables that a schema creates and keeps."""
    statements = [sql for version in schema.versions for sql in version]
    dropped = {match[1] for sql in statements if (match := _DROPPED.match(sql))}
    for statement in statements:
        if (match := _TABLE.match(statement)) and match[1] not in dropped:
            key = _KEY.search(statement) or _ONE_COLUMN_KEY.search(statement)
            assert key is not None, f"{match[1]} has no primary key"  # noqa: S101 (a mistake in a schema, not in data)
            yield Table(match[1], tuple(name.strip() for name in key[1].split(",")))


def _copy(
    source: Database,
    to: Database,
    table: Table,
    without: Collection[str],
    progress: Callable[[str, int], object] | None,
) -> int:
    columns = [name for name in source.read(partial(_columns, table, source.dialect)) if name not in without]
    place = [columns.index(name) for name in table.key]
    copied, after = 0, None
    while rows := source.read(partial(rows_after, table.name, table.key, columns, after)):
        to.write(partial(_insert, table, columns, rows))
        copied += len(rows)
        after = [rows[-1][i] for i in place]
        if progress is not None:
            progress(table.name, copied)
    return copied


def _columns(table: Table, dialect: str) -> Work[list[str]]:
    return [name for (name,) in (yield Statement(_COLUMNS[dialect], {"name": table.name}))]


def rows_after(table: str, key: Sequence[str], columns: Sequence[str], after: Sequence[Any] | None) -> Work[list[Row]]:
    """The next rows by key, after the one with this key. Not by OFFSET, which gets slower towards the end."""
    names, bounds = ", ".join(key), [f"after_{i}" for i in range(len(key))]
    condition = "" if after is None else f"WHERE ({names}) > ({', '.join(f':{bound}' for bound in bounds)}) "
    return (
        yield Statement(
            f"SELECT {', '.join(columns)} FROM {table} {condition}ORDER BY {names} LIMIT {_AT_ONCE}",
            {} if after is None else dict(zip(bounds, after, strict=False)),
        )
    )


def _insert(table: Table, columns: list[str], rows: list[Row]) -> Work[None]:
    yield Statement(
        f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join(f':{c}' for c in columns)}) "
        f"ON CONFLICT ({', '.join(table.key)}) DO NOTHING",
        [dict(zip(columns, row, strict=True)) for row in rows],
    )
