import inspect
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autocontext.cache import ResultCache
from autocontext.stores.database import Database
from tests.stores import homes
from tests.stores.homes import HOMES


class Clock:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Counted:
    """A function that counts its calls."""

    def __init__(self, result: Any = "result") -> None:
        self.result = result
        if callable(result):
            self.__signature__ = inspect.signature(result)
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self.calls.append((args, kwargs))
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(*args, **kwargs) if callable(self.result) else self.result

    @property
    def times(self) -> int:
        return len(self.calls)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module", params=HOMES)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Each kind of place a cache can live in, one for all tests of a module."""
    with homes.database(request.param, tmp_path_factory.mktemp("cache")) as opened:
        yield opened


@pytest.fixture
def make_cache(database: Database, clock: Clock) -> Iterator[Callable[..., ResultCache]]:
    """Makes caches in one place, in namespaces that no other test has."""
    opened: list[ResultCache] = []
    mine = uuid.uuid4().hex

    def make(namespace: Any = (), **options: Any) -> ResultCache:
        below = (namespace,) if isinstance(namespace, str) else namespace
        opened.append(ResultCache(database, namespace=(mine, *below), **{"clock": clock, **options}))
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()


@pytest.fixture
def cache(make_cache: Callable[..., ResultCache]) -> ResultCache:
    return make_cache()
