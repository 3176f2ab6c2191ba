"""One content store of each kind; the contract tests run over all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autocontext import content
from autocontext.content.store import PagedContentStore
from tests.extras import need
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


@pytest.fixture(params=[*HOMES, "folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[PagedContentStore]:
    if request.param in ("folder", "s3"):
        need("cloud")
    if request.param == "folder":
        yield content.ObjectContentStore(tmp_path.as_uri(), clock=clock)
        return
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        yield content.ObjectContentStore(f"s3://bucket/{uuid.uuid4().hex}", clock=clock, **server)
        return
    with home(request.param, tmp_path) as where:
        kind = content.SqlContentStore if request.param == "postgresql" else content.SqliteContentStore
        opened = kind(where, clock=clock)
        yield opened
        opened.close()


@pytest.fixture(params=HOMES)
def database_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[content.SqliteContentStore | content.SqlContentStore]:
    with home(request.param, tmp_path) as where:
        kind = content.SqlContentStore if request.param == "postgresql" else content.SqliteContentStore
        opened = kind(where)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """What obstore needs to reach moto's S3 server on this machine, with the bucket `bucket` in it."""
    need("cloud", "moto")
    from tests.fakes.s3_server import running_s3

    with running_s3() as options:
        yield options


@pytest.fixture
def file(tmp_path: Path) -> Iterator[content.SqliteContentStore]:
    opened = content.SqliteContentStore(tmp_path / "agent.db")
    yield opened
    opened.close()


@pytest.fixture
def memory_store() -> Iterator[content.SqliteContentStore]:
    opened = content.SqliteContentStore(":memory:")
    yield opened
    opened.close()
