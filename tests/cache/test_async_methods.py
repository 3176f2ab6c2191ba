"""The asynchronous form of each method does what the method does."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

from autocontext.cache import MISS, CacheStats, ResultCache, canonical_key
from autocontext.cache.namespace import CacheEntry
from autocontext.cache.steps import is_large
from autocontext.errors import ConfigError
from tests.cache.conftest import Clock, Counted

METHODS = [
    "get", "set", "delete", "get_or_compute", "invalidate", "purge_expired", "stats", "export_json", "import_json",
    "clear", "close",
]  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_an_asynchronous_form_with_the_same_parameters(name: str) -> None:
    method, asynchronous = getattr(ResultCache, name), getattr(ResultCache, f"a{name}")
    assert inspect.iscoroutinefunction(asynchronous)
    assert list(inspect.signature(method).parameters) == list(inspect.signature(asynchronous).parameters)


class Blocking:
    """The synchronous methods, as if they were asynchronous."""

    def __init__(self, cache: ResultCache) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._cache, name.removeprefix("a"))(*args, **kwargs)

        return call


async def story(cache: Any, clock: Clock, path: Any) -> list[Any]:
    """A bit of everything; its results."""
    fn = Counted(lambda x: {"x": x, "n": fn.times})
    seen: list[Any] = [await cache.aset("k", [1], tags="t"), await cache.aget("k"), await cache.aget("none", None)]
    seen += [await cache.aget_or_compute("double", {"x": n % 3}, fn, ttl=10, tags="u") for n in range(5)]
    seen += [await cache.aexport_json(path), await cache.ainvalidate(tag="u"), await cache.aimport_json(path)]
    seen += [await cache.aget(canonical_key("double", {"x": 2})), await cache.adelete("k"), await cache.adelete("k")]
    clock.now += 11
    seen += [await cache.aget(canonical_key("double", {"x": 2})), await cache.apurge_expired()]
    for options in ({}, {"quantize": {"x": 10}}):
        with pytest.raises(LookupError):
            await cache.aget_or_compute("fail", {"x": 1}, Counted(LookupError("no")), **options)
    seen.append(await cache.aget_or_compute("odd", {"x": object()}, lambda x: str(type(x))))
    with pytest.raises(ConfigError):
        await cache.ainvalidate()
    for i in range(6):
        await cache.aset(f"k{i}", i)
        await cache.aget("k0")
    seen += [[await cache.aget(f"k{i}", None) for i in range(6)], await cache.astats(), await cache.aclear()]
    return seen


@pytest.mark.sampled
def test_both_tell_the_same_story(make_cache: Callable[..., ResultCache], clock: Clock, tmp_path: Any) -> None:
    blocking = asyncio.run(story(Blocking(make_cache("one", max_entries=4)), clock, tmp_path / "one.json"))

    async def asynchronous() -> list[Any]:
        async with make_cache("two", max_entries=4) as cache:
            return await story(cache, clock, tmp_path / "two.json")

    both = [blocking, asyncio.run(asynchronous())]
    assert [seen.pop() for seen in both] == [4, 4]
    stats = [seen.pop() for seen in both]
    assert both[0] == both[1]
    assert both[0][:4] == [True, [1], None, {"x": 0, "n": 1}]
    assert both[0][-1] == [0, None, None, 3, 4, 5]
    assert MISS in both[0]
    assert all(isinstance(s, CacheStats) for s in stats)
    assert [(s.hits, s.misses, s.computed, s.stored, s.evicted, s.entries) for s in stats] == [
        (stats[0].hits, stats[0].misses, stats[0].computed, stats[0].stored, stats[0].evicted, 4)
    ] * 2


def test_a_switched_off_cache_computes_in_both() -> None:
    async def main() -> None:
        async with ResultCache(namespace="n", enabled=False) as cache:
            fn = Counted(lambda: fn.times)
            assert [await cache.aget_or_compute("t", {}, fn) for _ in range(2)] == [1, 2]
            assert await cache.aset("k", 1) is False
            assert await cache.aget("k") is MISS
            assert (await cache.astats()).entries == 0
            assert await cache.ainvalidate(task="t") == await cache.apurge_expired() == 0

    asyncio.run(main())


@pytest.mark.sampled
def test_large_parameters_and_results_do_not_hold_up_the_loop(make_cache: Callable[..., ResultCache]) -> None:
    threads: dict[str, set[int]] = {"keys": set(), "results": set()}

    class Result(dict[str, Any]):
        def items(self) -> Any:  # asked for by whoever writes it as JSON
            threads["results"].add(threading.get_ident())
            return super().items()

    def normalizer(params: dict[str, Any]) -> dict[str, Any]:
        threads["keys"].add(threading.get_ident())
        return params

    async def main(x: Any) -> None:
        async with make_cache() as cache:
            for _ in range(2):
                await cache.aget_or_compute("t", {"x": x}, lambda x: Result(x=x), normalizer=normalizer)
            assert await cache.aget(canonical_key("t", {"x": x})) == {"x": x}
            assert await cache.aset("k", Result(x=x))

    asyncio.run(main([1]))
    assert threading.get_ident() in threads["keys"] & threads["results"]
    for large in ("x" * 1_000_000, list(range(10_000)), [[1] * 100] * 100, {str(i): i for i in range(5_000)}):
        for seen in threads.values():
            seen.clear()
        asyncio.run(main(large))
        assert threading.get_ident() not in threads["keys"] | threads["results"]
        assert all(threads.values())


def test_a_value_that_contains_itself_has_a_size_too() -> None:
    held: list[Any] = []
    held.append(held)
    assert is_large(held)
    assert not is_large({"a": [1, 2.0, None, object()]})


@pytest.mark.parametrize(("characters", "large"), [(128 * 1024, False), (128 * 1024 + 1, True)])
def test_a_result_of_more_than_128_kib_is_read_in_a_thread(characters: int, large: bool) -> None:
    entry = CacheEntry("k", "t", "", "", "value", "x" * characters, 0, 0, 0, 0)
    assert entry.is_large is large
