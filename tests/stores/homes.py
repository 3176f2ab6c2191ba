"""The databases that storage tests run on: SQLite in memory and in a file, and the real PostgreSQL server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from autocontext.stores.database import Database, open_database

SERVER = os.environ.get("AUTOCONTEXT_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1:5432/test")
HOMES = ("memory", "file", "postgresql")


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


@contextmanager
def own_schema() -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(SERVER, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{SERVER}?options=-csearch_path%3D{name}"
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
