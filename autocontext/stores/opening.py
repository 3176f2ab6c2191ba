"""Opening a database by its address."""

from __future__ import annotations

from pathlib import Path

from autocontext.stores.database import Database


def open_database(url: Database | str | Path) -> Database:
    """Open a database by its file path, `:memory:`, or a `postgresql://` or `cockroachdb://` URL.

    An open Database is returned as it is. Raises StoreError for a URL of another kind, MissingExtraError when the extra
    `sql` (or `cockroachdb`) is not installed.
    """
    if isinstance(url, Database):
        return url
    if isinstance(url, str) and "://" in url:
        from autocontext.stores.sql_database import SqlDatabase  # noqa: PLC0415 (sqlalchemy is an extra)

        return SqlDatabase(url)
    from autocontext.stores.sqlite_database import SqliteDatabase  # noqa: PLC0415 (sqlite3: only who opens one needs it)

    return SqliteDatabase(url)
