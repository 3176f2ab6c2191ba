"""One database for everything: statements as generators, run on SQLite or PostgreSQL, in sync or async code.

An operation is a generator that yields statements and receives their rows (`Work`). It knows no driver, so it is
written once; a `Database` runs it as one transaction, and repeats it if the server asks for that. The SQL is the common
part of SQLite and PostgreSQL, without features that CockroachDB lacks: named `:parameters`, TEXT, BIGINT, DOUBLE
PRECISION and BYTEA, upserts by ON CONFLICT, no sequences, no advisory locks, no foreign keys.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from autocontext.errors import StoreError, StoreVersionError
from autocontext.flows import Operation
from autocontext.flows.threads import in_thread

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
"""Values of one row: str, int, float, bytes or None."""
Params: TypeAlias = Mapping[str, Any]
_UNSAFE = re.compile(r"[\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


def safe(text: str) -> str:
    """The text with NUL and lone surrogates escaped, which databases refuse. Different texts stay different."""
    return _UNSAFE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def unsafe(text: str) -> str:
    """The text that `safe` has escaped."""
    return _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)


SERVER_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
}
"""By dialect, SQL for the server's time in milliseconds since 1970."""
ENCRYPTION = "encryption"
"""The name of the part that every encrypted database has."""


class Statement(NamedTuple):
    """One SQL statement with named parameters; with a list of parameters it runs for each and returns no rows."""

    sql: str
    params: Params | Sequence[Params] = ()


class Alone(Statement):
    """A statement that is a transaction by itself, durable when its rows arrive.

    If a work begins with one, it saves the round trips of BEGIN and COMMIT; statements after it may be another
    transaction.
    """

    __slots__ = ()


class AtOnce(Statement):
    """The first statement of a work that may as well be left: with a StoreError, at once, while others write a file.

    A server makes it wait as long as any other.
    """

    __slots__ = ()


class Array(list[Any]):
    """The values of an array parameter; SQLite has no arrays."""


Work: TypeAlias = Generator[Statement, list[Row], T]
"""One transaction: yields statements, receives their rows, returns a result."""


def rows_of(sql: str, params: Params | Sequence[Params] = ()) -> Work[list[Row]]:
    """The rows of one statement."""
    return (yield Statement(sql, params))


class Read(NamedTuple):
    """A reading transaction, as a step of a flow."""

    work: Callable[[], Work[Any]]


class Write(NamedTuple):
    """A writing transaction, as a step of a flow."""

    work: Callable[[], Work[Any]]


Steps: TypeAlias = Generator[Read | Write, Any, T]
"""A flow of transactions: receives the result of each. `Database.do` and `ado` run them."""


def read(work: Callable[[], Work[T]]) -> Steps[T]:
    """Run a reading transaction and return its result."""
    result: T = yield Read(work)
    return result


def write(work: Callable[[], Work[T]]) -> Steps[T]:
    """Run a writing transaction and return its result."""
    result: T = yield Write(work)
    return result


class OnSqlite(str):
    """A statement of a schema for SQLite only."""

    __slots__ = ()


class Schema(NamedTuple):
    """The tables of one part of the library: for each version the statements that migrate from the version before."""

    part: str
    versions: tuple[tuple[str, ...], ...]
    derived: tuple[str, ...] = ()
    """Tables and columns that are made of the others: they are not copied."""


class Database(ABC):
    """A file or server that holds sessions, contents, cached results and memories together."""

    dialect: ClassVar[Literal["sqlite", "postgresql"]]
    name: str
    """For error messages: the file, or the URL without its password."""
    reads_encrypted: ClassVar[bool] = False
    """Whether it has the key of an encrypted database."""
    _closed: bool = False
    _pid: int
    """The process that opened its connections."""

    def read(self, work: Callable[[], Work[T]]) -> T:
        """Run a read-only transaction on one consistent state."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[], Work[T]]) -> T:
        """Run statements as one transaction: all or nothing, and durable when this returns.

        `work` may be called more than once: it starts again after a serialization failure or a lost connection. Raises
        StoreError if the database is locked for too long, full, read-only or not reachable.
        """
        return self._run(work, writes=True)

    async def aread(self, work: Callable[[], Work[T]]) -> T:
        """`read` without blocking the event loop."""
        return await self._arun(work, writes=False)

    async def awrite(self, work: Callable[[], Work[T]]) -> T:
        """`write` without blocking the event loop."""
        return await self._arun(work, writes=True)

    @abstractmethod
    def _run(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        """Run a transaction."""

    async def _arun(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        """`_run` without blocking the event loop: here, in a thread."""
        return await in_thread(lambda: self.write(work) if writes else self.read(work))

    def do(self, step: Read | Write | Operation) -> Any:
        """Do a step of a flow: run its transaction, or the operation."""
        if isinstance(step, Read):
            return self.read(step.work)
        return step.do() if isinstance(step, Operation) else self.write(step.work)

    async def ado(self, step: Read | Write | Operation) -> Any:
        """`do` without blocking the event loop."""
        if isinstance(step, Read):
            return await self.aread(step.work)
        return await (step.ado() if isinstance(step, Operation) else self.awrite(step.work))

    @abstractmethod
    def close(self) -> None:
        """Close all connections. Afterwards reading and writing raise StoreError; closing twice does nothing."""

    @abstractmethod
    async def aclose(self) -> None:
        """`close` for asynchronous callers: also closes the connections of the running event loop."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def _check_usable(self) -> None:
        """Raise StoreError after `close`, and in a child that cannot begin anew."""
        if self._closed:
            raise StoreError(f"{self.name} is closed; open the database again to use it")
        if self._pid != os.getpid():
            self._in_child()

    def _in_child(self) -> None:  # noqa: B027 (what wraps a database has no connections)
        """Begin without the parent's connections, or raise StoreError."""

    def scrub(self) -> None:  # noqa: B027 (only a file has something to do)
        """Remove replaced and deleted data from SQLite's write-ahead file; the database file has none.

        On a server this does nothing: it keeps old rows until its own VACUUM, and in its write-ahead log and backups as
        long as it is configured to.
        """

    def ensure(self, schema: Schema) -> None:
        """Create or migrate the tables of one part. Raises StoreVersionError if they are newer than this library."""
        if self.read(lambda: self._version(schema)) != len(schema.versions):
            self.write(lambda: self._migrate(schema))

    def parts(self) -> Work[list[str]]:
        """The parts with tables in this database, sorted by name."""
        if not (yield Statement(_FIND_SCHEMA[self.dialect])):
            return []
        rows = yield Statement("SELECT part FROM autocontext_schema ORDER BY part")
        return [str(part) for (part,) in rows]

    def _version(self, schema: Schema) -> Work[int]:
        if not (yield Statement(_FIND_SCHEMA[self.dialect])):
            return 0
        rows = yield Statement(
            "SELECT part, version FROM autocontext_schema WHERE part = :part OR part = :encryption",
            {"part": schema.part, "encryption": ENCRYPTION},
        )
        versions = {part: int(version) for part, version in rows}
        if ENCRYPTION in versions and not self.reads_encrypted:
            raise StoreError(
                f"{self.name} is encrypted: open it with its key, AutoContext.open(..., key=...) or "
                "EncryptedDatabase(database, key)"
            )
        version = versions.get(schema.part, 0)
        if version > len(schema.versions):
            raise StoreVersionError(
                f"{self.name}: its {schema.part} have version {version}, this library knows {len(schema.versions)}: "
                "upgrade autocontext-memory to open it; nothing was changed"
            )
        return version

    def _migrate(self, schema: Schema) -> Work[None]:
        yield Statement(_MAKE_SCHEMA)
        version = yield from self._version(schema)
        for statements in schema.versions[version:]:
            for sql in statements:
                if self.dialect == "sqlite" or not isinstance(sql, OnSqlite):
                    yield Statement(sql)
        yield Statement(
            "INSERT INTO autocontext_schema (part, version) VALUES (:part, :version) "
            "ON CONFLICT (part) DO UPDATE SET version = excluded.version",
            {"part": schema.part, "version": len(schema.versions)},
        )


_MAKE_SCHEMA = "CREATE TABLE IF NOT EXISTS autocontext_schema (part TEXT PRIMARY KEY, version BIGINT NOT NULL)"
_FIND_SCHEMA = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'autocontext_schema'",
    "postgresql": (
        "SELECT 1 FROM information_schema.tables "
        "WHERE table_schema = current_schema() AND table_name = 'autocontext_schema'"
    ),
}
