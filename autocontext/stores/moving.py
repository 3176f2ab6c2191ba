"""Copies the rows of whole parts (contents, memories, saved states) between databases of any kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from autocontext.stores.database import Database, Row, Schema, Statement, Work

_AT_ONCE = 200
"""Rows per transaction."""
_TABLE = re.compile(r"\s*CREATE TABLE (\w+)\s*\(", re.IGNORECASE)
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
            copied += _copy(source, to, table, progress)
    return copied


def tables_of(schema: Schema) -> Iterator[Table]:
    """The tables that a schema creates."""
    for statement in (sql for version in schema.versions for sql in version):
        if match := _TABLE.match(statement):
            key = _KEY.search(statement) or _ONE_COLUMN_KEY.search(statement)
            assert key is not None, f"{match[1]} has no primary key"  # noqa: S101 (a mistake in a schema, not in data)
            yield Table(match[1], tuple(name.strip() for name in key[1].split(",")))


def _copy(source: Database, to: Database, table: Table, progress: Callable[[str, int], object] | None) -> int:
    columns = source.read(partial(_columns, table, source.dialect))
    place = [columns.index(name) for name in table.key]
    copied, after = 0, None
    while rows := source.read(partial(_rows, table, columns, after)):
        to.write(partial(_insert, table, columns, rows))
        copied += len(rows)
        after = [rows[-1][i] for i in place]
        if progress is not None:
            progress(table.name, copied)
    return copied


def _columns(table: Table, dialect: str) -> Work[list[str]]:
    return [name for (name,) in (yield Statement(_COLUMNS[dialect], {"name": table.name}))]


def _rows(table: Table, columns: list[str], after: list[Any] | None) -> Work[list[Row]]:
    """The next rows by key. Not by OFFSET, which gets slower towards the end."""
    key = ", ".join(table.key)
    bounds = ", ".join(f":after_{i}" for i in range(len(table.key)))
    return (
        yield Statement(
            f"SELECT {', '.join(columns)} FROM {table.name} "
            + ("" if after is None else f"WHERE ({key}) > ({bounds}) ")
            + f"ORDER BY {key} LIMIT {_AT_ONCE}",
            {} if after is None else {f"after_{i}": value for i, value in enumerate(after)},
        )
    )


def _insert(table: Table, columns: list[str], rows: list[Row]) -> Work[None]:
    yield Statement(
        f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join(f':{c}' for c in columns)}) "
        f"ON CONFLICT ({', '.join(table.key)}) DO NOTHING",
        [dict(zip(columns, row, strict=True)) for row in rows],
    )
