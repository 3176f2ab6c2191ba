"""Opens a database by its path or URL."""

from __future__ import annotations

from pathlib import Path

from autocontext.stores.database import Database


def open_database(url: Database | str | Path) -> Database:
    """Open a database by its file path, `:memory:`, or a `postgresql://` or `cockroachdb://` URL.

    An open Database is returned unchanged. Raises StoreError for other URLs, MissingExtraError without the extra `sql`.
    """
    if isinstance(url, Database):
        return url
    if isinstance(url, str) and "://" in url:
        from autocontext.stores.sql_database import SqlDatabase  # noqa: PLC0415 (psycopg is an extra)

        return SqlDatabase(url)
    from autocontext.stores.sqlite_database import SqliteDatabase  # noqa: PLC0415 (sqlite3: only who opens one needs it)

    return SqliteDatabase(url)
