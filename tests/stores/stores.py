"""Every session store, made empty: what the contract runs over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autocontext import stores
from tests.extras import need
from tests.stores.homes import home

KEY = bytes(range(32))
KINDS = ("in memory", "sqlite file", "postgresql", "encrypted sqlite", "encrypted postgresql")
DURABLE = ("sqlite file", "postgresql", "encrypted sqlite", "encrypted postgresql")
PLACES = {"sqlite file": "file", "encrypted sqlite": "file"}


@contextmanager
def stored(kind: str, folder: Path) -> Iterator[Any]:
    """A store of one kind; `store.reopened()` below opens the same place again."""
    if kind == "in memory":
        with stores.InMemorySessionStore() as store:
            yield store
        return
    with home(PLACES.get(kind, "postgresql"), folder) as where:
        store = opened(kind, where)
        try:
            yield store
        finally:
            store.close()


def opened(kind: str, where: str, **options: Any) -> Any:
    plain = (stores.SqlSessionStore if "postgresql" in kind else stores.SqliteSessionStore)(where, **options)
    if not kind.startswith("encrypted"):
        return plain
    need("crypto")
    return stores.EncryptedSessionStore(plain, KEY)


def place(store: Any) -> Any:
    """The open database beneath a store."""
    return getattr(store, "store", store).database
