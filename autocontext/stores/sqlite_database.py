"""SQLite as a database: one file, many threads and processes, write-ahead log."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, ParamSpec, TypeVar

from autocontext.errors import AutoContextError, StoreCorruptError, StoreError
from autocontext.flows.forking import Level, fork_lock, part_at_fork
from autocontext.flows.threads import in_thread
from autocontext.stores.checks import checked_patience, checked_place, refused_value
from autocontext.stores.database import Alone, Database, Row, Statement, Work

T = TypeVar("T")
P = ParamSpec("P")

_STATEMENTS_KEPT = 256
_LAST_PAUSE = 0.05
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
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: give a file, in a folder that exists and may be written to",
    sqlite3.SQLITE_IOERR: "the disk fails to read or write: check that it is there and not full",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite takes (1 GB); nothing was changed",
    sqlite3.SQLITE_PERM: "access is denied: check the permissions of the file and its folder",
}
_inherited: dict[str, list[sqlite3.Connection]] = {}
"""Connections that a parent process had open when it forked, by file; they are neither used nor closed here.

SQLite keeps the locks of a file in memory, so in the child they look as if the parent's threads still held them.
"""


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
        self._lock = fork_lock(Level.DATABASE)
        self._changed = threading.Condition(self._lock)
        """Notified when `_busy` or `_forking` changes."""
        self._idle: list[sqlite3.Connection] = []
        # Closes them if nobody calls `close`: Python warns of connections that were not closed.
        weakref.finalize(self, _close_all, self._idle)
        self._busy = 0
        """Connections in use."""
        self._forking = False
        self._pid = os.getpid()
        part_at_fork(self)
        # Open it now: an error should not wait for the first write.
        self._run("BEGIN", _nothing)

    def read(self, work: Callable[[], Work[T]]) -> T:
        """Run a read-only transaction on one consistent state."""
        return self._run("BEGIN", work)

    def write(self, work: Callable[[], Work[T]]) -> T:
        """Run statements as one transaction, after those of all other writers."""
        return self._run("BEGIN IMMEDIATE", work)

    async def aread(self, work: Callable[[], Work[T]]) -> T:
        """`read` in a thread."""
        return await in_thread(lambda: self.read(work))

    async def awrite(self, work: Callable[[], Work[T]]) -> T:
        """`write` in a thread."""
        return await in_thread(lambda: self.write(work))

    def scrub(self) -> None:
        """Empty the write-ahead file into the database, which keeps no deleted data (secure_delete).

        Raises StoreError if others read it for longer than `patience`.
        """
        if self._in_memory:
            return
        connection = self._take()
        deadline, pause = time.monotonic() + self._patience, 0.001
        try:
            # SQLite waits for readers, but not for another checkpoint.
            while (busy := _truncated(connection)) and time.monotonic() < deadline:
                time.sleep(pause * random.random())
                pause = min(2 * pause, _LAST_PAUSE)
        except sqlite3.Error as e:
            raise self._translated(e) from e
        finally:
            self._put_back(connection)
        if busy:
            raise StoreError(
                f"{self.name}: others kept reading it for {self._patience:g} s, so its write-ahead file still holds "
                "what was erased: call scrub() again when they are done"
            )

    def close(self) -> None:
        """Close the database. A connection in use is closed when its call ends. `:memory:` is lost."""
        with self._lock:
            self._closed = True
        _close_all(self._idle)

    async def aclose(self) -> None:
        """The same as `close`."""
        self.close()

    def before_fork(self, until: float) -> None:
        """Wait for running transactions, then close all connections: SQLite forbids using them in a child."""
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return
        try:
            self._forking = True
            self._changed.wait_for(lambda: not self._busy, timeout=max(0.0, until - time.monotonic()))
            if not self._in_memory:
                _close_all(self._idle)
        finally:
            self._lock.release()

    def after_fork(self, *, in_child: bool) -> None:
        """Continue. In a child whose parent had connections in use, reading and writing raise StoreError."""
        with self._lock:
            stopped, self._forking = self._forking, False
            self._changed.notify_all()
            if in_child and not self._busy and (not self._idle or (stopped and self._in_memory)):
                self._pid = os.getpid()
            elif in_child:
                _inherited.setdefault(self._file, []).extend(self._idle)
                self._idle.clear()

    def _run(self, begin: str, work: Callable[[], Work[T]]) -> T:
        if not self._in_memory:
            return self._with_connection(begin, work)
        with self._lock:  # there is one connection only, so it is waited for
            return self._with_connection(begin, work)

    def _with_connection(self, begin: str, work: Callable[[], Work[T]]) -> T:
        """Run one transaction on a connection that nobody else is using."""
        connection = None
        try:
            connection = self._take()
            return self._transaction(connection, begin, work())
        except sqlite3.Error as e:
            raise self._translated(e) from e
        except UnicodeDecodeError as e:  # what SQLite quotes of a damaged table of contents
            raise StoreCorruptError(f"{self.name}: its tables are damaged; restore it from a backup") from e
        finally:
            if connection is not None:
                self._put_back(connection)

    def _transaction(self, connection: sqlite3.Connection, begin: str, work: Work[T]) -> T:
        rows: list[Row] | None = None
        begun = False
        try:
            while True:
                try:
                    statement = work.send(rows)  # type: ignore[arg-type]  # None starts a generator
                except StopIteration as done:
                    result: T = done.value
                    break
                if not begun and not isinstance(statement, Alone):
                    self._with_retries(connection.execute, begin)
                    begun = True
                rows = (
                    self._rows(connection, statement)
                    if begun
                    else self._with_retries(self._rows, connection, statement)
                )
            if begun:
                connection.execute("COMMIT")
        except BaseException:
            if begun:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        return result

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            while self._forking:
                self._changed.wait()
            if self._closed:
                self._check_open()
            if self._pid != os.getpid():
                raise self._cannot_be_shared()
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._with_retries(self._open)
        except BaseException:
            self._put_back(None)
            raise

    def _put_back(self, connection: sqlite3.Connection | None) -> None:
        """Keep a connection for the next call, or close it when the database was closed meanwhile."""
        with self._lock:
            self._busy -= 1
            if self._forking:
                self._changed.notify_all()
            if connection is None:
                return
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _cannot_be_shared(self) -> StoreError:
        return StoreError(
            f"{self.name}: this process was forked while its parent was using the database, which SQLite cannot share: "
            'fork before it is used, or start processes with multiprocessing.get_context("spawn")'
        )

    def _open(self) -> sqlite3.Connection:
        if self._file in _inherited:
            raise self._cannot_be_shared()
        if not self._in_memory:
            with contextlib.suppress(OSError):
                # Only the owner may read it; SQLite gives its side files the same permissions.
                os.close(os.open(self.name, os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(
            self.name,
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


def _close_all(idle: list[sqlite3.Connection]) -> None:
    """Close connections that nobody is using, and forget them."""
    with contextlib.suppress(IndexError):  # another thread may close them, too
        while True:
            idle.pop().close()


def _truncated(connection: sqlite3.Connection) -> bool:
    """Try to empty the write-ahead file; returns whether others prevented it."""
    [(busy, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return bool(busy)


def _nothing() -> Work[None]:
    return
    yield


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without the detail in its upper bits; 0 when the error has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
