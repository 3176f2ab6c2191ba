"""The databases that storage tests run on: SQLite in memory and in a file, and the real PostgreSQL server."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autocontext.stores.database import Database
from autocontext.stores.opening import open_database
from tests.extras import need

SERVER = os.environ.get("AUTOCONTEXT_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
HOMES = ("memory", "file", "postgresql")
_NO_WAIT = "-csynchronous_commit%3Doff"
"""The tests kill processes but never this server, so what it has acknowledged need not be on the disk yet."""


@contextmanager
def home(kind: str, folder: Path) -> Iterator[str]:
    """A path or URL of an empty database of one kind; on the server it is a schema of its own."""
    if kind == "memory":
        yield ":memory:"
    elif kind == "file":
        yield str(folder / f"{uuid.uuid4().hex}.db")
    else:
        with own_schema() as url:
            yield url


@functools.cache
def _why_no_server() -> str:
    import psycopg

    try:
        psycopg.connect(SERVER, connect_timeout=10).close()
    except psycopg.OperationalError as e:
        return str(e).strip().splitlines()[0]
    return ""


def need_server() -> None:
    """Skip the test where there is no PostgreSQL, and say so; CI sets the variable that lets it fail instead."""
    need("sql")
    if (why := _why_no_server()) and not os.environ.get("AUTOCONTEXT_REQUIRE_POSTGRESQL"):
        pytest.skip(f"no PostgreSQL ({why}): start one, or name it in AUTOCONTEXT_TEST_POSTGRESQL")


@contextmanager
def own_schema() -> Iterator[str]:
    need_server()
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{SERVER}?options={_NO_WAIT}%20-csearch_path%3D{name}"
        finally:
            server.execute(f"DROP SCHEMA {name} CASCADE")


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    with home(kind, folder) as where:
        opened = open_database(where)
        try:
            yield opened
        finally:
            opened.close()
