"""A session store in the process's memory."""

from __future__ import annotations

from autocontext.stores.database_sessions import DatabaseSessionStore


class InMemorySessionStore(DatabaseSessionStore):
    """Sessions for as long as this object lives, in a `:memory:` database of SQLite. `ttl` as in the other stores."""

    def __init__(self, *, ttl: float | None = None) -> None:
        super().__init__(":memory:", ttl=ttl)
