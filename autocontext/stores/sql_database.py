"""PostgreSQL and CockroachDB, through psycopg 3."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from autocontext.errors import needs_extra
from autocontext.flows import Flow, arun, run
from autocontext.models.per_loop import PerLoop
from autocontext.stores.checks import checked_patience
from autocontext.stores.connections import Connections, Lease
from autocontext.stores.database import Database, Work
from autocontext.stores.sql_url import parsed

with needs_extra("PostgreSQL", "sql"):
    import psycopg
    from psycopg.pq import TransactionStatus

    from autocontext.stores.postgres import AsyncConnection, Service, SyncConnection, acall, call, driven
    from autocontext.stores.sql_errors import AllInUse, Attempts

T = TypeVar("T")
Connection = TypeVar("Connection", SyncConnection, AsyncConnection)
_FAILURES = (psycopg.Error, AllInUse)
_OLDEST = 1800.0
"""Seconds after which a connection is not used again: a server that has moved is found anew, its memory is freed."""
_ISOLATION = {
    "postgresql": ("REPEATABLE READ", "READ COMMITTED"),
    # The only level of every version and configuration.
    "cockroachdb": ("SERIALIZABLE", "SERIALIZABLE"),
}
"""Isolation levels of reading and writing transactions. Colliding ones are repeated."""


class SqlDatabase(Database):
    """A server by its postgresql:// or cockroachdb:// URL; connections are pooled, those of async code per event loop.

    A call retries for `patience` seconds while the server is unreachable or transactions collide, and waits no longer
    than that for a lock or a server that is silent. A pool keeps `pool_size` connections and opens up to as many more
    under load. A forked child opens its own connections and drops the parent's without disturbing them.
    """

    dialect: ClassVar[Literal["sqlite", "postgresql"]] = "postgresql"

    def __init__(self, url: str, *, patience: float = 30.0, pool_size: int = 5) -> None:
        address = parsed(url)
        self.name = address.name
        self._patience, self._size = checked_patience(patience), pool_size
        self._service = Service.at(address, self._patience)
        self._isolation = _ISOLATION[address.engine]
        self._reached = False
        """False until the server has answered once. Until then errors are not retried: the URL may be wrong."""
        self._generation = 0
        """Increases when a connection is lost: connections of that age are probably lost, too."""
        self._begin()

    def _begin(self) -> None:
        """Begin without connections, as in a child, whose parent's would read each other's answers."""
        self._pid = os.getpid()
        self._pool: Connections[SyncConnection] = Connections(_close, most=2 * self._size, kept=self._size)
        self._pools: PerLoop[Connections[AsyncConnection]] = PerLoop(self._make_pool, _close_pool)

    _in_child = _begin

    def __repr__(self) -> str:
        return f"SqlDatabase({self.name!r})"

    def close(self) -> None:
        """Close the pooled connections of synchronous code; only `aclose` reaches those of an event loop."""
        self._closed = True
        self._pool.close()

    async def aclose(self) -> None:
        """Close the connections of synchronous code and of the running event loop."""
        self.close()
        await self._pools.aclose()

    def _run(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        # Closed, since an interrupt may end the driver without a word to the flow, which has a connection.
        with closing(self._attempts(work, self._isolation[writes], SyncConnection)) as flow:
            return run(flow, call)

    async def _arun(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        return await arun(self._attempts(work, self._isolation[writes], AsyncConnection), acall)

    def _attempts(self, work: Callable[[], Work[T]], isolation: str, kind: type[Connection]) -> Flow[T]:
        asynchronous = kind is AsyncConnection
        attempts = Attempts(self.name, self._patience)
        while True:
            self._check_usable()
            pool: Any = (yield self._pools.client) if asynchronous else self._pool
            try:
                lease = pool.take(self._generation, _OLDEST)
                if lease is None:
                    raise AllInUse
                if lease.connection is None:
                    lease.connection = yield from self._service.connecting(kind)
                    self._reached = True
                try:
                    return (yield from driven(lease.connection, isolation, work()))
                except psycopg.errors.ReadOnlySqlTransaction:
                    lease.close()  # it stays so, also once the server takes writes again
                    raise
                finally:
                    self._give_back(pool, lease)
            except _FAILURES as e:
                pause = attempts.pause_after(e, reached=self._reached)
                yield partial(asyncio.sleep if asynchronous else time.sleep, pause)

    def _give_back(self, pool: Connections[Connection], lease: Lease[Connection]) -> None:
        """Keep a connection that waits for nothing and is in no transaction; close any other."""
        status = TransactionStatus.UNKNOWN if lease.connection is None else lease.connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            pool.give(lease)
            return
        if status == TransactionStatus.UNKNOWN:  # lost
            self._generation = max(self._generation, lease.generation + 1)
        lease.close()

    async def _make_pool(self) -> Connections[AsyncConnection]:
        return Connections(_close, most=2 * self._size, kept=self._size)


def _close(connection: SyncConnection | AsyncConnection) -> None:
    connection.pgconn.finish()


async def _close_pool(pool: Connections[AsyncConnection]) -> None:
    pool.close()
