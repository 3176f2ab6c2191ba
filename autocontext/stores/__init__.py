"""Where a memory's log is kept: the SessionStore protocol and its implementations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autocontext.stores.in_memory import InMemorySessionStore
from autocontext.stores.protocol import Revision, SessionInfo, SessionKey, SessionStore

if TYPE_CHECKING:
    from autocontext.stores.database_sessions import DatabaseSessionStore, SqliteSessionStore, SqlSessionStore

__all__ = [
    "DatabaseSessionStore",
    "InMemorySessionStore",
    "Revision",
    "SessionInfo",
    "SessionKey",
    "SessionStore",
    "SqlSessionStore",
    "SqliteSessionStore",
]

_LAZY = {
    "DatabaseSessionStore": "database_sessions",
    "SqlSessionStore": "database_sessions",
    "SqliteSessionStore": "database_sessions",
}


def __getattr__(name: str) -> Any:
    """What needs a database is imported at first use: a memory without a store has no need of it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
