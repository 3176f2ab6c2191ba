"""PostgreSQL, and CockroachDB by its own dialect, through SQLAlchemy Core and psycopg 3."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from autocontext.errors import MissingExtraError, StoreError
from autocontext.flows.forking import fork_lock, part_at_fork
from autocontext.models.per_loop import PerLoop
from autocontext.stores.checks import checked_patience, refused_value
from autocontext.stores.database import Database, Row, Statement, Work

try:
    import psycopg
    from sqlalchemy import CursorResult, TextClause, create_engine, event, make_url, text
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

    from autocontext.stores.sql_errors import Attempts
except ImportError as e:
    raise MissingExtraError("PostgreSQL", "sql") from e

if TYPE_CHECKING:
    from sqlalchemy import Engine

T = TypeVar("T")
_DRIVERS = {
    **dict.fromkeys(("postgres", "postgresql", "postgresql+psycopg"), "postgresql+psycopg"),
    **dict.fromkeys(("cockroachdb", "cockroachdb+psycopg"), "cockroachdb+psycopg"),
}
_ISOLATION = {
    "postgresql": ("REPEATABLE READ", "READ COMMITTED"),
    # The only level that every version and configuration of it has.
    "cockroachdb": ("SERIALIZABLE", "SERIALIZABLE"),
}
"""Of reading and of writing transactions. Whatever collides begins again."""


class SqlDatabase(Database):
    """A server by its postgresql:// or cockroachdb:// URL; connections are pooled, those of async code per event loop.

    `patience` is how many seconds a call goes on trying while the server is away or transactions collide. A child
    process opens connections of its own; those of its parent are cut off there, which the parent does not notice.
    """

    dialect: ClassVar[Literal["sqlite", "postgresql"]] = "postgresql"

    def __init__(self, url: str, *, patience: float = 30.0, pool_size: int = 5) -> None:
        self._url = _checked(url)
        self._reading, self._writing = _ISOLATION[self._url.get_backend_name()]
        self.name = self._url.render_as_string(hide_password=True)
        self._patience = checked_patience(patience)
        self._reached = False
        """A server that never answered is reported at once: most likely the URL is wrong."""
        # What users say must not be in an error's text, which ends in somebody's log.
        self._pool = {"pool_size": pool_size, "max_overflow": pool_size, "pool_recycle": 1800, "hide_parameters": True}
        self._lock = fork_lock()
        self._sync: Engine | None = None
        self._engines: PerLoop[AsyncEngine] = PerLoop(self._open_async, lambda engine: engine.dispose())
        self._connections: weakref.WeakSet[psycopg.Connection[Any] | psycopg.AsyncConnection[Any]] = weakref.WeakSet()
        """Those of this process, in use or not."""
        self._pid = os.getpid()
        part_at_fork(self)

    def __repr__(self) -> str:
        return f"SqlDatabase({self.name!r})"

    def read(self, work: Callable[[], Work[T]]) -> T:
        """Run reading statements on one consistent state."""
        return self._run(work, self._reading)

    def write(self, work: Callable[[], Work[T]]) -> T:
        """Run statements as one transaction."""
        return self._run(work, self._writing)

    async def aread(self, work: Callable[[], Work[T]]) -> T:
        """`read` on an asynchronous connection."""
        return await self._arun(work, self._reading)

    async def awrite(self, work: Callable[[], Work[T]]) -> T:
        """`write` on an asynchronous connection."""
        return await self._arun(work, self._writing)

    def close(self) -> None:
        """Close the pooled connections of synchronous code; only `aclose` reaches those of an event loop."""
        self._closed = True
        engine, self._sync = self._sync, None
        if engine is not None:
            engine.dispose()

    async def aclose(self) -> None:
        """Close the connections of synchronous code and of the running event loop."""
        self.close()
        await self._engines.aclose()

    def before_fork(self, until: float) -> None:
        """Nothing to wait for: a transaction goes on in the parent."""

    def after_fork(self, *, in_child: bool) -> None:
        """Let go of the parent's connections in a child, which would read the answers to each other's questions."""
        if not in_child:
            return
        self._pid = os.getpid()
        nowhere, gone = socket.socketpair()
        with nowhere, gone:
            for connection in self._connections:
                if not connection.closed:
                    # Whatever is still done with it, to close it too, then says nothing on the parent's connection.
                    os.dup2(nowhere.fileno(), connection.fileno(), inheritable=False)
                    connection.pgconn.finish()
        self._connections.clear()
        self._sync = None

    def _run(self, work: Callable[[], Work[T]], isolation: Any) -> T:
        attempts = Attempts(self.name, self._patience)
        while True:
            self._check_open()
            try:
                with self._engine().connect().execution_options(isolation_level=isolation) as c, c.begin():
                    self._reached = True
                    return _drive(self.name, work(), lambda s: c.execute(_clause(s.sql), s.params or None))
            except (SQLAlchemyError, AssertionError) as e:
                time.sleep(attempts.pause_after(e, reached=self._reached))

    async def _arun(self, work: Callable[[], Work[T]], isolation: Any) -> T:
        attempts = Attempts(self.name, self._patience)
        while True:
            self._check_open()
            try:
                self._check_process()
                engine = await self._engines.client()
                async with engine.connect() as c:
                    await c.execution_options(isolation_level=isolation)
                    self._reached = True
                    async with c.begin():
                        return await c.run_sync(
                            lambda sync: _drive(
                                self.name, work(), lambda s: sync.execute(_clause(s.sql), s.params or None)
                            )
                        )
            except (SQLAlchemyError, AssertionError) as e:
                await asyncio.sleep(attempts.pause_after(e, reached=self._reached))

    def _engine(self) -> Engine:
        self._check_process()
        with self._lock:
            if self._sync is None:
                self._sync = create_engine(self._url, **self._pool)
                event.listen(self._sync, "connect", self._connected)
            return self._sync

    async def _open_async(self) -> AsyncEngine:
        engine = create_async_engine(self._url, **self._pool)
        event.listen(engine.sync_engine, "connect", self._connected)
        return engine

    def _connected(self, connection: Any, _record: object) -> None:
        self._connections.add(getattr(connection, "driver_connection", connection))

    def _check_process(self) -> None:
        """Notice a fork by C code that has told nobody."""
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self.after_fork(in_child=True)


def _drive(name: str, work: Work[T], execute: Callable[[Statement], CursorResult[Any]]) -> T:
    rows: list[Row] | None = None
    while True:
        try:
            statement = work.send(rows)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration as done:
            result: T = done.value
            return result
        if statement.params == []:
            rows = []
            continue
        try:
            done_ = execute(statement)
        except (SQLAlchemyError, UnicodeEncodeError, OverflowError) as e:
            if (refused := refused_value(name, statement.params)) is not None:
                raise refused from e
            raise
        rows = [tuple(row) for row in done_] if done_.returns_rows else []


@functools.lru_cache(maxsize=512)
def _clause(sql: str) -> TextClause:
    return text(sql)


def _checked(url: str) -> Any:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as e:
        raise StoreError("the database URL cannot be read; give postgresql://user:password@host:5432/name") from e
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise StoreError(
            f"{parsed.drivername} is not supported; give a postgresql:// URL, cockroachdb:// or a path for SQLite"
        )
    parsed = parsed.set(drivername=driver)
    try:
        parsed.get_dialect()
    except NoSuchModuleError as e:
        raise MissingExtraError("CockroachDB", "cockroachdb") from e
    return parsed
