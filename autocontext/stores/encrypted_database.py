"""Encryption around any database: the disk, the server and backups never see a text.

`places` says which columns hold texts. They are encrypted on their way into a statement and decrypted on their way out
of its rows, so the parts that keep their tables here know nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar, cast

from autocontext.errors import ConfigError, StoreCorruptError, StoreError
from autocontext.stores.closing import awaitable
from autocontext.stores.copying import rows_after
from autocontext.stores.database import ENCRYPTION, Database, Params, Row, Schema, Statement, Work, rows_of
from autocontext.stores.database_sessions import DatabaseSessionStore
from autocontext.stores.encrypted import EncryptedSessionStore
from autocontext.stores.places import PLACES, Place
from autocontext.stores.sealing import Keyring, Names
from autocontext.stores.statement_columns import Column, Columns, columns_of

T = TypeVar("T")

SCHEMA = Schema(
    ENCRYPTION, (("CREATE TABLE autocontext_keys (name TEXT PRIMARY KEY, key_id TEXT NOT NULL, body BYTEA NOT NULL)",),)
)
_NAMES = "names"


class _Beneath(Database):
    """The database beneath, for code that has its key."""

    reads_encrypted: ClassVar[bool] = True

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        self.dialect: Literal["sqlite", "postgresql"] = database.dialect  # type: ignore[misc]  # of each object here

    def _run(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        return (self._database.write if writes else self._database.read)(self._through(work))

    async def _arun(self, work: Callable[[], Work[T]], *, writes: bool) -> T:
        return await (self._database.awrite if writes else self._database.aread)(self._through(work))

    def _through(self, work: Callable[[], Work[T]]) -> Callable[[], Work[T]]:
        """The transaction as the database beneath runs it."""
        return work

    def scrub(self) -> None:
        """Remove replaced and deleted data from the files; see `Database.scrub`."""
        self._database.scrub()

    def close(self) -> None:
        """Close the database beneath."""
        self._database.close()

    async def aclose(self) -> None:
        """`close` for asynchronous callers."""
        await self._database.aclose()

    @property
    def closed(self) -> bool:
        """Whether the database beneath was closed."""
        return self._database.closed


class EncryptedDatabase(_Beneath):
    """Encrypts texts with AES-256-GCM before `database` sees them; needs the extra `crypto`.

    `key` and `current` are those of EncryptedSessionStore. A text is bound to its row. Columns that rows are looked up
    by (cache keys, tags, file names) are encrypted with AES-SIV: equal values of one owner stay equal. Ids, times,
    sizes and counts stay readable. Closing it closes `database`. Raises StoreError for a wrong key, and for a database
    with texts that are not encrypted.
    """

    def __init__(self, database: Database, key: bytes | Mapping[str, bytes], *, current: str | None = None) -> None:
        if isinstance(database, EncryptedDatabase):
            raise ConfigError(f"{database.name} is open with its key already: leave out `key`")
        super().__init__(database)
        self._keys = Keyring(key, current)
        self._beneath = _Beneath(database)
        self._names = Names(self._names_key())

    def __repr__(self) -> str:
        return f"EncryptedDatabase({self._database!r}, {self._keys!r})"

    def ensure(self, schema: Schema) -> None:
        """Create or update the tables of one part. Sessions have `session_store`."""
        if schema.part == "sessions":
            raise ConfigError(
                f"{self.name} is encrypted: its sessions are in AutoContext.sessions, or in `session_store()`"
            )
        super().ensure(schema)

    def session_store(self, *, ttl: float | None = None) -> EncryptedSessionStore:
        """The sessions of this database; each entry is encrypted for its position."""
        return EncryptedSessionStore(DatabaseSessionStore(self._beneath, ttl=ttl), self._keys)

    def rotate(self) -> int:
        """Encrypt with the current key all rows that have another, sessions too; returns their number.

        May be run again, and while others use the database. The other keys are not needed afterwards.
        """
        sessions = self.session_store()
        done = sum(sessions.rotate(info.key) for info in sessions.sessions())
        parts = self._beneath.read(self._beneath.parts)
        for place in PLACES:
            if place.texts and place.part in parts and place.part != "sessions":
                done += self._rotate_table(place)
        self._keep_names_key(self._names.key, again=True)
        return done

    arotate = awaitable(rotate)

    def _rotate_table(self, place: Place) -> int:
        """`rotate` for one table; keeps what others write meanwhile."""
        done, missed, names = 0, True, (*place.key, *place.texts)
        columns = Columns({name: Column(name, place) for name in names}, tuple(Column(name, place) for name in names))
        while missed:
            missed, after = False, None
            while rows := self._beneath.read(partial(rows_after, place.table, place.key, names, after)):
                for row in rows:
                    old = {name: value for name, value in zip(names, row, strict=True) if value is not None}
                    texts = [name for name in place.texts if name in old]
                    if all(self._keys.key_of(old[name]) == self._keys.current for name in texts):
                        continue
                    opened = dict(zip(names, self._opened_row(columns, row, {}), strict=True))
                    values = {f"old_{name}": old[name] for name in texts} | self._sealed_params(columns, opened)
                    swapped = self._beneath.write(partial(_swap, place, texts, values))
                    done += swapped
                    missed |= not swapped  # somebody else has written to it: read it again
                after = rows[-1]
        return done

    # ------------------------------------------------------------------------------------------------------ statements
    def _through(self, work: Callable[[], Work[T]]) -> Callable[[], Work[T]]:
        def encrypted() -> Work[T]:
            steps, rows = work(), None
            while True:
                try:
                    statement = steps.send(rows)  # type: ignore[arg-type]  # None starts a generator
                except StopIteration as done:
                    result: T = done.value
                    return result
                rows = self._opened(statement, (yield self._sealed(statement)))

        return encrypted

    def _sealed(self, statement: Statement) -> Statement:
        columns = columns_of(statement.sql)
        if columns is None or not statement.params:
            return statement
        if isinstance(statement.params, Mapping):
            return statement._replace(params=self._sealed_params(columns, statement.params))
        return statement._replace(params=[self._sealed_params(columns, params) for params in statement.params])

    def _sealed_params(self, columns: Columns, params: Params) -> dict[str, Any]:
        values = _values(columns, params)
        sealed = {param: params[param] for param in columns.params}
        for param, (name, place, is_prefix) in columns.params.items():
            value = params[param]
            if not isinstance(value, str | bytes):
                continue
            if place is None:
                raise StoreError(f"a statement cannot be encrypted: its parameter {param!r} has no name of one column")
            if name in place.texts:
                sealed[param] = self._keys.seal_value(cast("str", value), bound_to(place, name, values))
            elif name in place.names:
                if is_prefix:
                    raise ConfigError(f"{self.name} is encrypted: nothing is found by the beginning of its {name}")
                sealed[param] = self._names.seal(str(value), name, owner_of(place, values))
        return sealed

    def _opened(self, statement: Statement, rows: list[Row]) -> list[Row]:
        columns = columns_of(statement.sql)
        if columns is None or not rows:
            return rows
        if len(rows[0]) != len(columns.results):
            raise StoreError(f"a statement has results whose columns are not known: {statement.sql}")
        values = _values(columns, statement.params if isinstance(statement.params, Mapping) else {})
        return [self._opened_row(columns, row, values) for row in rows]

    def _opened_row(self, columns: Columns, row: Row, params: Mapping[str, Any]) -> Row:
        found = [
            (i, column.name, column.place, row[i])
            for i, column in enumerate(columns.results)
            if column is not None and column.place is not None
        ]
        values = {**params, **{name: value for _, name, _, value in found}}
        opened = list(row)
        # First the columns that rows are looked up by, since texts are bound to them.
        for i, name, place, value in found:
            if name in place.names and value is not None:
                opened[i] = values[name] = self._names.open(str(value), name, owner_of(place, values), self.name)
        for i, name, place, value in found:
            if name in place.texts and value is not None:
                where = f"{self.name}: {place.table}"
                opened[i] = self._keys.open_value(value, bound_to(place, name, values), where=where)
        return tuple(opened)

    # ------------------------------------------------------------------------------------------------------------ keys
    def _names_key(self) -> bytes:
        """The key of columns that rows are looked up by: created once, stored encrypted with the current key."""
        if self._beneath.read(lambda: self._beneath._version(SCHEMA)) == 0:  # noqa: SLF001 (the same class)
            self._beneath.read(self._nothing_readable)
            self._beneath.ensure(SCHEMA)
        stored = partial(rows_of, "SELECT key_id, body FROM autocontext_keys WHERE name = :name", {"name": _NAMES})
        if not self._beneath.read(stored):
            self._keep_names_key(os.urandom(64))
        [(key_id, body)] = self._beneath.read(stored)
        if key_id not in self._keys.ids:
            raise StoreError(f"{self.name} is encrypted with key {key_id!r}: pass it, key={{{key_id!r}: ...}}")
        try:
            return self._keys.open_value(bytes(body), [_NAMES], where=self.name)
        except StoreCorruptError as e:
            raise StoreError(f"{self.name}: key {key_id!r} is not the one that it is encrypted with") from e

    def _keep_names_key(self, key: bytes, *, again: bool = False) -> None:
        """Store the key, encrypted with the current one; `again` replaces the stored one."""
        change = "UPDATE SET key_id = excluded.key_id, body = excluded.body" if again else "NOTHING"
        params = {"name": _NAMES, "key_id": self._keys.current, "body": self._keys.seal_value(key, [_NAMES])}
        insert = "INSERT INTO autocontext_keys (name, key_id, body) VALUES (:name, :key_id, :body) "
        self._beneath.write(partial(rows_of, f"{insert}ON CONFLICT (name) DO {change}", params))

    def _nothing_readable(self) -> Work[None]:
        for part in (yield from self._beneath.parts()):
            for place in PLACES:
                if place.part == part and (yield Statement(f"SELECT 1 FROM {place.table} LIMIT 1")):
                    raise StoreError(
                        f"{self.name} holds {part} that are not encrypted: open it without a key, or copy it into an "
                        "encrypted database with AutoContext.copy_to"
                    )


def _values(columns: Columns, params: Params) -> dict[str, Any]:
    """The values of a statement's parameters by their columns."""
    return {column.name: params[param] for param, column in columns.params.items() if param in params}


def bound_to(place: Place, column: str, values: Mapping[str, Any]) -> list[Any]:
    """What a text is bound to: its column, and the key of its row."""
    return [place.table, column, *(_value(place, name, values) for name in place.key)]


def owner_of(place: Place, values: Mapping[str, Any]) -> str:
    """The owner of a row, the first column of its key: a user's id, or a namespace."""
    return str(_value(place, place.key[0], values))


def _value(place: Place, column: str, values: Mapping[str, Any]) -> Any:
    if column not in values:
        raise StoreError(f"a statement on {place.table} cannot be encrypted: its {column} is not known")
    return values[column]


def _swap(place: Place, texts: Iterable[str], values: Mapping[str, Any]) -> Work[bool]:
    """Replace the texts of a row unless somebody has changed them; `values` has them under `old_` and their names."""
    same = [*(f"{column} = :{column}" for column in place.key), *(f"{column} = :old_{column}" for column in texts)]
    rows = yield Statement(
        f"UPDATE {place.table} SET {', '.join(f'{column} = :{column}' for column in texts)} "
        f"WHERE {' AND '.join(same)} RETURNING {place.key[0]}",
        values,
    )
    return bool(rows)
