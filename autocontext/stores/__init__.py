"""Stores of sessions: the SessionStore protocol and its implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autocontext.flows.lazy import imports
from autocontext.history.entries import Entry, dump_entry, load_entry
from autocontext.stores.protocol import Entries, Position, Revision, SessionInfo, SessionKey, SessionStore, Version

if TYPE_CHECKING:
    from autocontext.stores.agentscope_java import import_agentscope_java
    from autocontext.stores.copying import Progress, copy_sessions
    from autocontext.stores.database_sessions import (
        DatabaseSessionStore,
        InMemorySessionStore,
        SqliteSessionStore,
        SqlSessionStore,
    )
    from autocontext.stores.encrypted import EncryptedSessionStore as EncryptedSessionStore
    from autocontext.stores.encrypted_database import EncryptedDatabase as EncryptedDatabase
    from autocontext.stores.search import Found
    from autocontext.stores.sql_database import SqlDatabase as SqlDatabase
    from autocontext.stores.sqlite_database import SqliteDatabase

# Without those that need an extra, `crypto` or `sql`: a star must not need it.
__all__ = [
    "DatabaseSessionStore",
    "Entries",
    "Entry",
    "Found",
    "InMemorySessionStore",
    "Position",
    "Progress",
    "Revision",
    "SessionInfo",
    "SessionKey",
    "SessionStore",
    "SqlSessionStore",
    "SqliteDatabase",
    "SqliteSessionStore",
    "Version",
    "copy_sessions",
    "dump_entry",
    "import_agentscope_java",
    "load_entry",
]

_LAZY = {
    "DatabaseSessionStore": "database_sessions",
    "EncryptedDatabase": "encrypted_database",
    "EncryptedSessionStore": "encrypted",
    "Found": "search",
    "InMemorySessionStore": "database_sessions",
    "Progress": "copying",
    "SqlDatabase": "sql_database",
    "SqlSessionStore": "database_sessions",
    "SqliteDatabase": "sqlite_database",
    "SqliteSessionStore": "database_sessions",
    "copy_sessions": "copying",
    "import_agentscope_java": "agentscope_java",
}
__getattr__ = imports(__name__, _LAZY)  # a memory without a store needs none of them


def __dir__() -> list[str]:
    """The public names, including those that are imported at first use."""
    return sorted({*globals(), *_LAZY})
