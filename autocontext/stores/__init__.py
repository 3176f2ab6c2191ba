"""Where a memory's log is kept: the SessionStore protocol and its implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autocontext.stores.protocol import (
    Entries,
    Position,
    Revision,
    SessionInfo,
    SessionKey,
    SessionStore,
    Version,
)

if TYPE_CHECKING:
    from autocontext.stores.agentscope_java import import_agentscope_java
    from autocontext.stores.copying import Progress, copy_sessions
    from autocontext.stores.database_sessions import DatabaseSessionStore, SqliteSessionStore, SqlSessionStore
    from autocontext.stores.encrypted import EncryptedSessionStore
    from autocontext.stores.encrypted_database import EncryptedDatabase
    from autocontext.stores.in_memory import InMemorySessionStore
    from autocontext.stores.search import Found

__all__ = [
    "DatabaseSessionStore",
    "EncryptedDatabase",
    "EncryptedSessionStore",
    "Entries",
    "Found",
    "InMemorySessionStore",
    "Position",
    "Progress",
    "Revision",
    "SessionInfo",
    "SessionKey",
    "SessionStore",
    "SqlSessionStore",
    "SqliteSessionStore",
    "Version",
    "copy_sessions",
    "import_agentscope_java",
]

_LAZY = {
    "DatabaseSessionStore": "database_sessions",
    "EncryptedDatabase": "encrypted_database",
    "EncryptedSessionStore": "encrypted",
    "Found": "search",
    "InMemorySessionStore": "in_memory",
    "Progress": "copying",
    "SqlSessionStore": "database_sessions",
    "SqliteSessionStore": "database_sessions",
    "copy_sessions": "copying",
    "import_agentscope_java": "agentscope_java",
}


def __getattr__(name: str) -> Any:
    """What needs a database is imported at first use: a memory without a store has no need of it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    """The public names, those that are imported at first use too."""
    return sorted({*globals(), *__all__})
