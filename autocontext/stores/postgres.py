"""Runs one work on a psycopg connection.

The connection is in autocommit mode, and the statements of a work are between BEGIN and COMMIT, each a round trip. A
statement that is `Alone` needs neither: one round trip, and it is durable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.types.array import ListBinaryDumper

from autocontext.flows import arun, run
from autocontext.stores.checks import refused_value
from autocontext.stores.database import Alone, Array, Row, Statement, Work

T = TypeVar("T")
_REFUSED = (psycopg.Error, UnicodeEncodeError, OverflowError)
_PARAM = re.compile(r"(?<![:\w]):(\w+)")


def drive(connection: psycopg.Connection[Any], name: str, isolation: str, work: Work[T]) -> T:
    """Run a work on a connection; its changes are durable when this returns."""

    def answer(statement: Statement) -> list[Row]:
        cursor = connection.cursor(binary=bool(statement.params))
        try:
            if isinstance(statement.params, list):
                cursor.executemany(_query(statement.sql), statement.params)
            elif statement.params:
                cursor.execute(_query(statement.sql), statement.params)
            else:
                cursor.execute(statement.sql, prepare=False)  # preparing BEGIN and COMMIT saves nothing
            return cursor.fetchall() if cursor.description else []
        except _REFUSED as e:
            _check_values(name, statement, e)
            raise

    return run(_in_transaction(isolation, work), answer)


async def adrive(connection: psycopg.AsyncConnection[Any], name: str, isolation: str, work: Work[T]) -> T:
    """`drive` on an asynchronous connection."""

    async def answer(statement: Statement) -> list[Row]:
        cursor = connection.cursor(binary=bool(statement.params))
        try:
            if isinstance(statement.params, list):
                await cursor.executemany(_query(statement.sql), statement.params)
            elif statement.params:
                await cursor.execute(_query(statement.sql), statement.params)
            else:
                await cursor.execute(statement.sql, prepare=False)
            return await cursor.fetchall() if cursor.description else []
        except _REFUSED as e:
            _check_values(name, statement, e)
            raise

    return await arun(_in_transaction(isolation, work), answer)


def prepare(connection: Any, driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Prepare a new connection (SQLAlchemy's, and psycopg's beneath) for `drive`."""
    driver.adapters.register_dumper(Array, _ArrayDumper)
    cursor = connection.cursor()
    cursor.execute("SELECT pg_backend_pid()")
    if cursor.fetchone() != (driver.info.backend_pid,):
        # A pooler such as PgBouncer gives each transaction another session of the server, which does not have our
        # prepared statements, or has another client's under the same name.
        driver.prepare_threshold = None
    cursor.close()


class _ArrayDumper(ListBinaryDumper):
    """Dumps arrays in the binary format, which takes a fifth of the time."""


def _in_transaction(isolation: str, work: Work[T]) -> Generator[Statement, list[Row], T]:
    """The statements of a work, with BEGIN and COMMIT where needed."""
    rows: Any = None
    begun = False
    while True:
        try:
            statement = work.send(rows)
        except StopIteration as done:
            result: T = done.value
            break
        if statement.params == []:
            rows = []
            continue
        if not begun and not isinstance(statement, Alone):
            yield Statement(f"BEGIN ISOLATION LEVEL {isolation}")
            begun = True
        rows = yield statement
    if begun:
        yield Statement("COMMIT")
    return result


@functools.lru_cache(maxsize=512)
def _query(sql: str) -> str:
    """A statement with its `:parameters` in psycopg's syntax."""
    return _PARAM.sub(r"%(\1)s", sql.replace("%", "%%"))


def _check_values(name: str, statement: Statement, error: Exception) -> None:
    """Raise StoreError naming the parameter that caused a statement's error, if one did."""
    params = statement.params
    if isinstance(params, Mapping):
        params = {param: value for param, value in params.items() if not isinstance(value, Array)}
    if (refused := refused_value(name, params)) is not None:
        raise refused from error
