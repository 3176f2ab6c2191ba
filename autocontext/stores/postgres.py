"""Connections of psycopg that notice when their server is gone, and one work run on them.

The flows here yield calls of psycopg's methods, whose results are to be awaited on an asynchronous connection.

A connection is in autocommit mode, and the statements of a work are between BEGIN and COMMIT, each a round trip. A
statement that is `Alone` needs neither: one round trip, and it is durable. Where it does need them, for a limit that
holds in one transaction only, all three go together.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import closing, suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import capabilities, generators, waiting
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.array import ListBinaryDumper

from autocontext.errors import StoreError
from autocontext.flows import Flow, Operation, ado, arun, compute, do, operation, run
from autocontext.flows.forking import part_at_fork
from autocontext.stores.checks import refused_value
from autocontext.stores.database import Alone, Array, Row, Statement, Work
from autocontext.stores.sql_url import Address

T = TypeVar("T")
_REFUSED = (psycopg.Error, UnicodeEncodeError, OverflowError)
_PARAM = re.compile(r"(?<![:\w]):(\w+)")
_LOOK = 0.1
"""Seconds between two looks at the clock while a server is waited for."""
_GRACE = 1.0
"""Seconds for an answer that may be on its way, and for taking a question back."""
_BEGUN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class Service(NamedTuple):
    """A server, and how long it is waited for."""

    address: Address
    conninfo: str
    patience: float

    @classmethod
    def at(cls, address: Address, patience: float) -> Service:
        """A server whose machine must answer within the patience, unless the URL says otherwise."""
        seconds = max(1, math.ceil(patience))
        limits = {
            "connect_timeout": max(2, seconds),  # the least that libpq takes
            "tcp_user_timeout": 1000 * seconds,
            "keepalives_idle": max(1, seconds // 2),
            "keepalives_interval": max(1, seconds // 6),
            "keepalives_count": 3,
        }
        try:
            conninfo = make_conninfo("", **(limits | address.options | {"client_encoding": "utf8"}))
        except psycopg.Error as e:
            raise StoreError(f"{address.name}: the database URL cannot be read ({str(e).strip()})") from None
        return cls(address, conninfo, patience)

    def connecting(self, kind: type[Connection], *, asking: bool = False) -> Flow[Connection]:
        """Open a connection of this kind, an asynchronous one for the running event loop."""
        made: Connection = yield partial(kind.connect, self.conninfo, autocommit=True)
        made.service, made.process, made.asking = self, os.getpid(), asking
        yield from made.beginning(made)
        return made


class _Silent(Exception):
    """Nothing has come for a while."""


class _Question:
    """A question to the server, whose answer is waited for in pieces."""

    def __init__(self, steps: Generator[Any, Any, Any], process: int) -> None:
        self._steps, self._step, self._process = steps, None, process
        self.lost = False
        """Whether the server says that it has no such question."""

    def answer(self, seconds: float) -> Generator[Any, Any, Any]:
        """Wait, or wait on, for the answer; raises _Silent after so many seconds in which nothing came."""
        until = time.monotonic() + seconds
        ready = None
        try:
            while True:
                if self._process != os.getpid():
                    raise psycopg.OperationalError("the connection belongs to the parent of this process")
                if ready:
                    until = time.monotonic() + seconds
                elif time.monotonic() > until:
                    raise _Silent
                if self._step is None or ready is not None:
                    self._step = self._steps.send(ready)
                ready = yield self._step
        except StopIteration as done:
            return done.value


class _Watched:
    """What a connection of either kind knows of its server."""

    service: Service
    process: int
    pgconn: psycopg.pq.abc.PGconn
    asking = False
    """Whether it was opened to ask what has become of another one."""
    pooled = False
    """Whether a pooler such as PgBouncer is between: each transaction may have another session of the server."""
    limit = ""
    """What limits the wait for a lock in each transaction, if that cannot be said once."""

    def __del__(self, *_: Any) -> None:
        """Without psycopg's warning: a connection that an interrupt took from its pool is closed by its collection."""

    def before_fork(self, until: float) -> None:
        """Wait for nothing: what is under way goes on in the parent alone."""

    def after_fork(self, *, in_child: bool) -> None:
        """Let go of it in a child: the server ends the transaction of a killed parent when nobody has its socket."""
        if in_child:
            with suppress(psycopg.OperationalError, OSError):  # closed, or being closed
                socket = self.pgconn.socket
                # Its number stays taken: the library must not find another file under it.
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, socket, inheritable=False)
                os.close(nothing)

    def beginning(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Flow[None]:
        """What a new connection does first."""
        part_at_fork(self)
        connection.adapters.register_dumper(Array, ListBinaryDumper)  # in a fifth of the time that texts take
        version = connection.info.parameter_status("crdb_version")
        if version and self.service.address.engine != "cockroachdb":
            name = self.service.address.name
            raise StoreError(f"{name}: this is not PostgreSQL ({version}); for CockroachDB give a cockroachdb:// URL")
        ask = "SELECT pg_backend_pid(), current_setting('lock_timeout', true)"
        [(backend, limit)] = yield (yield partial(connection.execute, ask)).fetchall
        milliseconds = max(1, round(1000 * self.service.patience))
        if backend != connection.info.backend_pid:
            # The next session does not have our prepared statements, or has another client's under the same name.
            self.pooled, connection.prepare_threshold = True, None
            self.limit = f"; SET LOCAL lock_timeout = {milliseconds}" if limit == "0" else ""
        elif limit == "0":  # otherwise the URL or the server says how long to wait
            yield partial(connection.execute, f"SELECT set_config('lock_timeout', '{milliseconds}', false)")

    @property
    def patience(self) -> float:
        """Seconds of silence after which the server is asked what it is doing."""
        return max(1.0, self.service.patience)

    def waiting(self, gen: Generator[Any, Any, T], cancel: Callable[..., Any]) -> Flow[T]:
        """Wait for the answer to a question; `cancel` is psycopg's for this kind of connection."""
        question = _Question(gen, self.process)
        try:
            while True:
                try:
                    result: T = yield self._coming(question, _GRACE if question.lost else self.patience)
                    return result  # noqa: TRY300 (the loop goes on after a silence)
                except _Silent:
                    yield from compute(lambda: self._look_after(question))
        except (psycopg.Error, GeneratorExit):  # closed, a coroutine may await nothing more
            raise
        except BaseException:  # interrupted: nobody waits for the answer
            # Take it back, if it is of this process, and there is a way to do that which cannot hang.
            active = self.pgconn.transaction_status == TransactionStatus.ACTIVE
            if active and self.process == os.getpid() and capabilities.has_cancel_safe():
                with suppress(psycopg.Error, _Silent):
                    yield operation(cancel, cancel, timeout=_GRACE)
                    # A COMMIT may have come before that, and may still run.
                    yield self._coming(_Question(generators.execute(self.pgconn), self.process), _GRACE)
            raise

    def _coming(self, question: _Question, seconds: float) -> Operation:
        """Wait for an answer, unless nothing comes for so many seconds."""
        steps, socket = question.answer(seconds), self.pgconn.socket
        return operation(waiting.wait, waiting.wait_async, steps, socket, interval=_LOOK)

    def _look_after(self, question: _Question) -> None:
        """Find out what has become of a question. Raises OperationalError unless the server is at work on it."""
        what = "either" if self.asking else "and the server knows of no question" if question.lost else ""
        if not what:
            try:
                question.lost = not self._is_at_work()
            except psycopg.OperationalError as e:
                what = f"and none on a new connection ({str(e).strip()})"
        if what:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer for {self.patience:g} s, {what}")

    def _is_at_work(self) -> bool:
        try:
            with closing(run(self.service.connecting(SyncConnection, asking=True), call)) as other:
                states = other.execute(
                    "SELECT state FROM pg_stat_activity WHERE pid = %s", [self.pgconn.backend_pid]
                ).fetchall()
        except psycopg.OperationalError as e:
            if ":  " in str(e):  # the server's own words in any language, as in "FATAL:  too many clients": it is there
                return True
            raise
        unknown = self.pooled or self.service.address.engine == "cockroachdb"
        return unknown or any(not str(state).startswith("idle") for (state,) in states)


class SyncConnection(_Watched, psycopg.Connection[Any]):
    """A connection that waits for its server as long as that is at work."""

    def wait(self, gen: Generator[Any, Any, T], *_args: Any, **_named: Any) -> T:
        """Wait for the answer to a question."""
        return run(self.waiting(gen, self.cancel_safe), do)


class AsyncConnection(_Watched, psycopg.AsyncConnection[Any]):
    """The same for asynchronous code."""

    async def wait(self, gen: Generator[Any, Any, T], *_args: Any, **_named: Any) -> T:
        """Wait for the answer to a question."""
        return await arun(self.waiting(gen, self.cancel_safe), ado)


Connection = TypeVar("Connection", SyncConnection, AsyncConnection)


def call(step: Callable[[], Any]) -> Any:
    """Do a step of the flows here, a call of psycopg."""
    return step()


async def acall(step: Callable[[], Awaitable[Any]]) -> Any:
    """`call` on an asynchronous connection."""
    return await step()


def driven(connection: SyncConnection | AsyncConnection, isolation: str, work: Work[T]) -> Flow[T]:
    """Run a work on a connection; its changes are durable when this returns."""
    try:
        return (yield from _in_transaction(connection, isolation, work))
    except GeneratorExit:
        raise
    except BaseException:
        if connection.pgconn.transaction_status in _BEGUN:
            with suppress(psycopg.Error):
                yield partial(connection.execute, "ROLLBACK")
        raise


def _answer(connection: SyncConnection | AsyncConnection, statement: Statement) -> Flow[list[Row]]:
    """Send a statement; its rows."""
    cursor: Any = connection.cursor(binary=bool(statement.params))
    if isinstance(statement, _Together):
        kind: Any = psycopg.ClientCursor if isinstance(connection, SyncConnection) else psycopg.AsyncClientCursor
        cursor = kind(connection)
    try:
        yield partial(_send, cursor, statement)
        return (yield cursor.fetchall) if _has_rows(cursor) else []
    except _REFUSED as e:
        _check_values(connection, statement, e)
        raise
    except GeneratorExit:
        raise
    except BaseException as e:
        if isinstance(statement.params, list):
            # An interrupt may have come between two steps of psycopg's pipeline, which then cannot be used again, and
            # whose assertions take the place of the interrupt.
            connection.pgconn.finish()
            if isinstance(e, AssertionError) and e.__context__ is not None:
                raise e.__context__ from None
        raise


def _send(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any], statement: Statement) -> Any:
    """Send a statement; that of an asynchronous cursor is to be awaited."""
    if isinstance(statement.params, list):
        return cursor.executemany(_query(statement.sql), statement.params)
    if statement.params:
        return cursor.execute(_query(statement.sql), statement.params)
    return cursor.execute(statement.sql, prepare=False)  # preparing BEGIN and COMMIT saves nothing


class _Together(Statement):
    """Several statements in one question, with their parameters written into them."""

    __slots__ = ()


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Whether a statement has given rows; of several that were sent together, go to the one that has.

    `description` says so, too, but describes every column for it.
    """
    while cursor.pgresult is not None and not cursor.pgresult.nfields and cursor.nextset():
        pass
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _in_transaction(connection: SyncConnection | AsyncConnection, isolation: str, work: Work[T]) -> Flow[T]:
    """Run the statements of a work, with BEGIN and COMMIT where needed."""
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
        if not begun:
            begin = f"BEGIN ISOLATION LEVEL {isolation}{connection.limit}"
            if isinstance(statement, Alone) and not connection.limit:
                rows = yield from _answer(connection, statement)
                continue
            # If a backslash in a quoted text is one: else what is written into a statement may not be what is stored.
            plain = connection.pgconn.parameter_status(b"standard_conforming_strings") == b"on"
            if isinstance(statement, Alone) and plain:
                sql, params = statement
                rows = yield from _answer(connection, _Together(f"{begin}; {sql}; COMMIT", params))
                continue
            yield from _answer(connection, Statement(begin))
            begun = True
        rows = yield from _answer(connection, statement)
    if begun:
        yield from _answer(connection, Statement("COMMIT"))
    return result


@lru_cache(maxsize=512)
def _query(sql: str) -> str:
    """A statement with its `:parameters` in psycopg's syntax."""
    return _PARAM.sub(r"%(\1)s", sql.replace("%", "%%"))


def _check_values(connection: _Watched, statement: Statement, error: Exception) -> None:
    """Raise StoreError naming the parameter that caused a statement's error, if one did."""
    params = statement.params
    if isinstance(params, Mapping):
        params = {param: value for param, value in params.items() if not isinstance(value, Array)}
    if (refused := refused_value(connection.service.address.name, params)) is not None:
        raise refused from error
