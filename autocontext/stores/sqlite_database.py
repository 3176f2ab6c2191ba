"""SQLite as a database: one file, many threads and processes, write-ahead log."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, NoReturn, ParamSpec, TypeVar

from autocontext.errors import AutoContextError, StoreCorruptError, StoreError
from autocontext.flows import run
from autocontext.flows.forking import part_at_fork
from autocontext.flows.logs import logger
from autocontext.stores.checks import checked_patience, checked_place, refused_value
from autocontext.stores.connections import Connections, Lease
from autocontext.stores.database import Alone, AtOnce, Database, Row, Statement, Work, rows_of

T = TypeVar("T")
P = ParamSpec("P")

_log = logger("autocontext.stores")
_PREFIX = "autocontext_"
"""How the names of all tables of this library begin."""
_STATEMENTS_KEPT = 256
_LAST_PAUSE = 0.05
_MOST, _KEPT = 64, 32
"""Connections that are open at a time, and those that are kept: each takes two or three of the process's files."""
_PAGE = 1024
"""Page size of new files. Small, because the write-ahead file takes whole pages, up to ten for a small change."""
_LOG = 4_000_000
"""Size of the write-ahead file at which SQLite empties it: its default, 1,000 pages of 4,096 bytes."""
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DAMAGED = (
    "no such table: autocontext_",
    "table autocontext_",
    "index autocontext_",
    "unsupported file format",
    "Could not decode to UTF-8",
)
"""Beginnings of errors that this library's statements meet only in a damaged file."""
_WAYS_OUT = {
    sqlite3.SQLITE_FULL: "the disk or its quota is full: free some space and try again",
    sqlite3.SQLITE_READONLY: "it is read-only: check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened: give a file, in a folder that exists and may be written to, and look whether the process "
        "has as many files open as it may (ulimit -n)"
    ),
    sqlite3.SQLITE_IOERR: "the disk fails to read or write: check that it is there, not full, and may be written to",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite takes (1 GB); nothing was changed",
    sqlite3.SQLITE_PERM: "access is denied: check the permissions of the file and its folder",
}
_inherited: dict[str, list[object]] = {}
"""Connections that a parent process had open when it forked, by file; they are neither used nor closed here.

SQLite keeps the locks of a file in memory, so in the child they look as if the parent's threads still held them.
"""


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def foreign_tables(rows: Iterable[Row]) -> str:
    """The first tables of a file that has some, and none of this library's; else "". `rows` are those of TABLES."""
    names = [str(name) for (name,) in rows]
    if any(name.startswith(_PREFIX) for name in names):
        return ""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


class SqliteDatabase(Database):
    """A SQLite file, or `:memory:` for as long as this object lives.

    A call waits up to `patience` seconds for other processes, then raises StoreError. With `power_safe` each commit
    waits for the disk (synchronous=FULL); without it a commit survives any crash of the process, but the last ones may
    not survive a power failure.

    A process may fork: it waits for running transactions, closes the connections, and parent and child open their own.
    In the child a `:memory:` database is a copy.
    """

    dialect: ClassVar[Literal["sqlite", "postgresql"]] = "sqlite"

    def __init__(self, url: str | Path, *, patience: float = 60.0, power_safe: bool = False) -> None:
        self.name = checked_place(url)
        self._patience, self._power_safe = checked_patience(patience), power_safe
        self._in_memory = self.name == ":memory:"
        self._file = f":memory: {id(self)}" if self._in_memory else os.path.realpath(self.name)
        self._identity: tuple[int, int] | None = None
        self._generation = 0
        """Increases when another file stands at the path: connections to the one before are not used any more."""
        self._pool = self._new_pool()
        self._alone = threading.RLock()
        """Held by who uses the one connection of a `:memory:` database."""
        self._pid = os.getpid()
        self._held = False
        """Whether a fork under way holds it, too."""
        self._memory = self._open() if self._in_memory else None
        if self._memory is not None:
            weakref.finalize(self, self._memory.close)
        part_at_fork(self)
        # Open it now: an error should not wait for the first write.
        if tables := foreign_tables(self.read(lambda: rows_of(TABLES))):
            _log.warning(
                "%s holds the tables of another program (%s). Ours, named %s..., are added beside them, which are left "
                "alone; give the library a file of its own if that was not meant",
                self.name,
                tables,
                _PREFIX,
            )

    def scrub(self) -> None:
        """Empty the write-ahead file into the database, which keeps no deleted data (secure_delete).

        Raises StoreError if others read it for longer than `patience`.
        """
        if self._in_memory:
            return
        try:
            self._lent(lambda connection: self._with_retries(_truncate, connection))
        except _Busy as e:
            raise StoreError(
                f"{self.name}: others kept reading it for {self._patience:g} s, so its write-ahead file still holds "
                "what was erased: when they are done, run `autocontext purge` on it, or call scrub() again"
            ) from e
        except sqlite3.Error as e:
            raise self._translated(e) from e

    def close(self) -> None:
        """Close the database. A connection in use is closed when its call ends. `:memory:` is lost."""
        self._closed = True
        self._pool.close()
        if self._memory is not None:
            with self._alone:
                self._memory.close()

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()

    def before_fork(self, until: float) -> None:
        """Wait for running transactions, then close all connections: SQLite forbids using them in a child."""
        self._pool.pause(until)
        self._held = self._alone.acquire(timeout=max(0.0, until - time.monotonic()))

    def after_fork(self, *, in_child: bool) -> None:
        """Continue. In a child whose parent had connections in use, reading and writing raise StoreError."""
        held, self._held = self._held, False
        if in_child:
            lent, pool = self._pool.lent(), self._pool
            self._alone, self._pool = threading.RLock(), self._new_pool()
            if held and not lent:
                self._pid = os.getpid()
            else:
                _inherited.setdefault(self._file, []).extend([pool, *lent])
            return
        self._pool.resume()
        if held:
            self._alone.release()

    def _new_pool(self) -> Connections[sqlite3.Connection]:
        return Connections(sqlite3.Connection.close, most=_MOST, kept=_KEPT)

    def _run(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        """Run one transaction on a connection that nobody else is using; a writing one after those of other writers."""
        transaction = partial(self._transaction, "BEGIN IMMEDIATE" if writes else "BEGIN", work)
        try:
            return self._lent(transaction, 0 if writes else _KEPT)
        except sqlite3.Error as e:
            raise self._translated(e) from e
        except UnicodeDecodeError as e:  # what SQLite quotes of a damaged table of contents
            raise StoreCorruptError(f"{self.name}: its tables are damaged; restore it from a backup") from e

    def _lent(self, use: Callable[[sqlite3.Connection], T], spare: int = 0) -> T:
        """Use a connection of the pool, which has it back unless the disk has failed it; or the one of `:memory:`."""
        if self._memory is not None:
            with self._alone:
                self._check_usable()
                return use(self._memory)
        again = True
        while True:
            self._check_usable()
            lease = self._with_retries(self._lease, spare)
            try:
                if lease.connection is None:
                    lease.connection = self._with_retries(self._open)
                    lease.generation = self._generation_now()
                return use(lease.connection)
            except sqlite3.Error as e:
                if _primary_code(e) in _WAYS_OUT:
                    lease.close()
                # SQLite opens a file for reading only where it may not write: a new connection may write by now.
                if not again or _primary_code(e) != sqlite3.SQLITE_READONLY:
                    raise
                again = False
            finally:
                if not lease.closed:
                    # Still in a transaction only if rolling back failed.
                    if lease.connection is None or lease.connection.in_transaction:
                        lease.close()
                    else:
                        self._pool.give(lease)

    def _lease(self, spare: int) -> Lease[sqlite3.Connection]:
        lease = self._pool.take(self._generation_now(), spare=spare)
        if lease is None:  # all are in use, or another thread forks
            raise _Busy
        return lease

    def _transaction(self, begin: str, work: Callable[[], Work[T]], connection: sqlite3.Connection) -> T:
        def rows(statement: Statement) -> list[Row]:
            if not connection.in_transaction:
                if isinstance(statement, Alone):
                    return self._with_retries(self._rows, connection, statement)
                if isinstance(statement, AtOnce):
                    self._at_once(connection, begin)
                else:
                    self._with_retries(connection.execute, begin)
            return self._rows(connection, statement)

        # The one place where a transaction ends: C code, which no interrupt divides, commits it or rolls it back.
        with connection:
            return run(work(), rows)

    def _at_once(self, connection: sqlite3.Connection, begin: str) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute(begin)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self._patience)}")

    def _generation_now(self) -> int:
        """The generation of the file at the path. Raises StoreError if there is none any more: it was deleted or moved.

        What is written to such a file is lost, and SQLite would not say so.
        """
        try:
            found = os.stat(self._file)  # noqa: PTH116 (each call makes one, and a Path takes twice as long)
        except OSError as e:
            if self._identity is None:
                return self._generation  # it is made now
            raise StoreError(
                f"{self.name}: the file was deleted or moved while it was open, nothing was changed: put it back ({e})"
            ) from None
        if (identity := (found.st_dev, found.st_ino)) != self._identity:
            self._identity, self._generation = identity, self._generation + 1
        return self._generation

    def _in_child(self) -> NoReturn:
        raise StoreError(
            f"{self.name}: this process was forked while its parent was using the database, which SQLite cannot share: "
            'fork before it is used, or start processes with multiprocessing.get_context("spawn")'
        )

    def _open(self) -> sqlite3.Connection:
        if self._file in _inherited:
            self._in_child()
        if not self._in_memory:
            with contextlib.suppress(OSError):
                # Only the owner may read it; SQLite gives its side files the same permissions.
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(
            self.name if self._in_memory else self._file,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS_KEPT,
        )
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE}")  # does nothing to a file that is a database already
            [(page,)] = connection.execute("PRAGMA page_size")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG // page}")
            connection.execute("PRAGMA secure_delete = ON")
            # Otherwise large sorts go to files in /var/tmp, where erased texts would stay.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._power_safe else 'NORMAL'}")
            if not self._in_memory and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, connection: sqlite3.Connection, statement: Statement) -> list[Row]:
        """The rows of a statement; for one without results an empty row per changed row."""
        sql, params = statement
        try:
            if isinstance(params, list):
                connection.executemany(sql, params)
                return []
            cursor = connection.execute(sql, params)
        except (sqlite3.ProgrammingError, sqlite3.InterfaceError, UnicodeEncodeError, OverflowError) as e:
            if (refused := refused_value(self.name, params)) is not None:
                raise refused from e
            raise
        return cursor.fetchall() if cursor.description else [()] * cursor.rowcount

    def _with_retries(self, attempt: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Retry while the file is locked: SQLite's own timeout does not cover every case."""
        deadline, pause = time.monotonic() + self._patience, 0.0
        while True:
            try:
                return attempt(*args, **named)
            except sqlite3.OperationalError as e:
                if _primary_code(e) not in _LOCKED or time.monotonic() > deadline:
                    raise
            pause = min(2 * pause + 0.001, _LAST_PAUSE)
            time.sleep(pause * random.random())

    def _translated(self, error: sqlite3.Error) -> AutoContextError:
        """The library's error for SQLite's."""
        code = _primary_code(error)
        if code in _LOCKED:
            return StoreError(f"{self.name}: other processes kept it locked for {self._patience:g} s: try again")
        if code in _CORRUPT:
            return StoreCorruptError(f"{self.name}: {error}; restore it from a backup, nothing was overwritten")
        if code in (0, sqlite3.SQLITE_ERROR) and str(error).startswith(_DAMAGED):
            return StoreCorruptError(f"{self.name}: its tables are damaged ({error}); restore it from a backup")
        if code in _WAYS_OUT:
            return StoreError(f"{self.name}: {_WAYS_OUT[code]} ({error})")
        return StoreError(f"{self.name}: a statement failed, nothing was changed ({error})")


class _Busy(sqlite3.OperationalError):
    """Others have all connections, or read the write-ahead file, or empty it; SQLite does not wait for the last."""

    sqlite_errorcode = sqlite3.SQLITE_BUSY


def _truncate(connection: sqlite3.Connection) -> None:
    """Empty the write-ahead file."""
    [(busy, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if busy:
        raise _Busy


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the detail in its upper bits; 0 when the error has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
