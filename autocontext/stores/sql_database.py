"""PostgreSQL, and CockroachDB by its own dialect, through psycopg 3.

SQLAlchemy finds the driver of a URL and keeps the pool of connections; statements go to psycopg itself (`postgres`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from autocontext.errors import MissingExtraError, StoreError
from autocontext.flows.forking import fork_lock, part_at_fork
from autocontext.models.per_loop import PerLoop
from autocontext.stores.checks import checked_patience
from autocontext.stores.database import Database, Work

try:
    import psycopg
    from psycopg.pq import TransactionStatus
    from sqlalchemy import create_engine, event, make_url
    from sqlalchemy.exc import ArgumentError, DisconnectionError, NoSuchModuleError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

    from autocontext.stores.postgres import adrive, drive, prepare
    from autocontext.stores.sql_errors import FAILURES, Attempts
except ImportError as e:
    raise MissingExtraError("PostgreSQL", "sql") from e

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")
_DRIVERS = {
    **dict.fromkeys(("postgres", "postgresql", "postgresql+psycopg"), "postgresql+psycopg"),
    **dict.fromkeys(("cockroachdb", "cockroachdb+psycopg"), "cockroachdb+psycopg"),
}
_ISOLATION = {
    "postgresql": ("REPEATABLE READ", "READ COMMITTED"),
    # The only level of every version and configuration.
    "cockroachdb": ("SERIALIZABLE", "SERIALIZABLE"),
}
"""Isolation levels of reading and writing transactions. Colliding ones are repeated."""
_SECRETS = ("password", "sslpassword")
"""Options of a URL that nobody else is to see."""
_GENERATION = "autocontext_generation"
"""The key of a connection's generation in the pool's `info`."""


class SqlDatabase(Database):
    """A server by its postgresql:// or cockroachdb:// URL; connections are pooled, those of async code per event loop.

    A call retries for `patience` seconds while the server is unreachable or transactions collide. A forked child opens
    its own connections and drops the parent's without disturbing them.
    """

    dialect: ClassVar[Literal["sqlite", "postgresql"]] = "postgresql"

    def __init__(self, url: str, *, patience: float = 30.0, pool_size: int = 5) -> None:
        self._url = _checked(url)
        self._reading, self._writing = _ISOLATION[self._url.get_backend_name()]
        hidden = {field: "***" for field in _SECRETS if field in self._url.query}
        self.name = self._url.update_query_dict(hidden).render_as_string(hide_password=True)
        self._patience = checked_patience(patience)
        self._reached = False
        """False until the server has answered once. Until then errors are not retried: the URL may be wrong."""
        self._pool = {
            "pool_size": pool_size,
            "max_overflow": pool_size,
            "pool_recycle": 1800,
            # Errors end up in logs and must not quote what users said.
            "hide_parameters": True,
            "connect_args": {"autocommit": True},
        }
        self._lock = fork_lock()
        self._sync: Engine | None = None
        self._engines: PerLoop[AsyncEngine] = PerLoop(self._open_async, lambda engine: engine.dispose())
        self._connections: weakref.WeakSet[psycopg.Connection[Any] | psycopg.AsyncConnection[Any]] = weakref.WeakSet()
        """All connections of this process."""
        self._generation = 0
        """Increases when a connection is lost: connections of that age are probably lost, too."""
        self._pid = os.getpid()
        part_at_fork(self)

    def __repr__(self) -> str:
        return f"SqlDatabase({self.name!r})"

    def read(self, work: Callable[[], Work[T]]) -> T:
        """Run a read-only transaction on one consistent state."""
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
        """Nothing to wait for: transactions continue in the parent."""

    def after_fork(self, *, in_child: bool) -> None:
        """Drop the parent's connections in a child: both would read each other's answers."""
        if not in_child:
            return
        self._pid = os.getpid()
        nowhere, gone = socket.socketpair()
        with nowhere, gone:
            for connection in self._connections:
                if not connection.closed:
                    # Whatever still uses or closes it then sends nothing on the parent's connection.
                    os.dup2(nowhere.fileno(), connection.fileno(), inheritable=False)
                    connection.pgconn.finish()
        self._connections.clear()
        self._sync = None

    def _run(self, work: Callable[[], Work[T]], isolation: str) -> T:
        attempts = Attempts(self.name, self._patience)
        while True:
            self._check_open()
            try:
                with closing(self._engine().raw_connection()) as pooled:
                    self._reached = True
                    connection: Any = pooled.driver_connection
                    try:
                        return drive(connection, self.name, isolation, work())
                    except BaseException as e:
                        if self._is_lost(connection, pooled.info):
                            pooled.invalidate(e)
                        raise
            except FAILURES as e:
                time.sleep(attempts.pause_after(e, reached=self._reached))

    async def _arun(self, work: Callable[[], Work[T]], isolation: str) -> T:
        attempts = Attempts(self.name, self._patience)
        while True:
            self._check_open()
            try:
                self._check_process()
                engine = await self._engines.client()
                async with _Pooled(engine.connect()) as pooled:
                    self._reached = True
                    raw = await pooled.get_raw_connection()
                    connection: Any = raw.driver_connection
                    try:
                        return await adrive(connection, self.name, isolation, work())
                    except GeneratorExit:  # dropped: nothing can be awaited any more
                        raise
                    except BaseException as e:
                        if self._is_lost(connection, raw.info):
                            await pooled.invalidate(e)
                        raise
            except FAILURES as e:
                await asyncio.sleep(attempts.pause_after(e, reached=self._reached))

    def _is_lost(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], info: dict[Any, Any]
    ) -> bool:
        """Whether a connection is unusable after an error; otherwise the pool rolls back and keeps it."""
        if connection.closed:
            self._generation = max(self._generation, info[_GENERATION] + 1)
            return True
        # Interrupted by a signal: the answer is still on its way.
        return connection.info.transaction_status == TransactionStatus.ACTIVE

    def _engine(self) -> Engine:
        self._check_process()
        with self._lock:
            if self._sync is None:
                self._sync = self._with_events(create_engine(self._url, **self._pool))
            return self._sync

    async def _open_async(self) -> AsyncEngine:
        engine = create_async_engine(self._url, **self._pool)
        self._with_events(engine.sync_engine)
        return engine

    def _with_events(self, engine: Engine) -> Engine:
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "checkout", self._taken)
        return engine

    def _connected(self, connection: Any, record: ConnectionPoolEntry) -> None:
        driver = getattr(connection, "driver_connection", connection)
        self._connections.add(driver)
        record.info[_GENERATION] = self._generation
        prepare(connection, driver)

    def _taken(self, _connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info[_GENERATION] < self._generation:
            raise DisconnectionError  # the pool takes a new one instead

    def _check_process(self) -> None:
        """Notice a fork by C code, which runs no hooks of Python."""
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self.after_fork(in_child=True)


class _Pooled:
    """A connection that returns to its pool, except when a coroutine is dropped: no event loop runs then."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def __aenter__(self) -> AsyncConnection:
        return await self._connection.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not GeneratorExit:
            await self._connection.__aexit__(kind, error, trace)


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
