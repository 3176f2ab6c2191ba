"""One content store of each kind; the contract tests run over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autocontext.content import SqlContentStore, SqliteContentStore
from autocontext.content.store import DatabaseContentStore
from tests.stores.homes import HOMES, home


class Clock:
    """Milliseconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=HOMES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[DatabaseContentStore]:
    with home(request.param, tmp_path) as where:
        kind = SqlContentStore if request.param == "postgresql" else SqliteContentStore
        opened = kind(where, clock=clock)
        yield opened
        opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteContentStore]:
    opened = SqliteContentStore(tmp_path / "agent.db")
    yield opened
    opened.close()


@pytest.fixture
def memory_store() -> Iterator[SqliteContentStore]:
    opened = SqliteContentStore(":memory:")
    yield opened
    opened.close()
