"""Calls that are cancelled or interrupted anywhere: the next call for the key computes at once, here and elsewhere."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from autocontext.cache import ResultCache
from autocontext.cache.flights import Owner
from autocontext.stores.database import Database, Statement
from tests.cache.conftest import Clock
from tests.faults.interrupts import interrupted_everywhere
from tests.faults.script import Fault, cancel_this_task, stepped

Make = Callable[..., ResultCache]
GUARD = 60
"""Seconds after which a test says that something hangs. Where calls are abandoned the leases last an hour."""


@pytest.fixture
def caches(make_cache: Make) -> list[ResultCache]:
    """The cache whose calls are abandoned, and one as of another process."""
    return [make_cache(lease_seconds=3_600) for _ in range(2)]


def answers(caches: list[ResultCache], key: str) -> list[Any]:
    """What the caches answer when each is asked in a thread; "it hangs" if one never does."""
    found = ["it hangs"] * len(caches)

    def ask(number: int, cache: ResultCache) -> None:
        found[number] = cache.get_or_compute(key, {}, lambda: "later")

    for number, cache in enumerate(caches):
        thread = threading.Thread(target=ask, args=(number, cache), daemon=True)
        thread.start()
        thread.join(GUARD)
    return found


async def coroutine() -> str:
    await asyncio.sleep(0)
    return "first"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fn", "options"),
    [(coroutine, {"cache_exceptions": (LookupError,), "tags": ["t"]}), (lambda: "first", {})],
    ids=["coroutine", "function"],
)
def test_a_call_cancelled_at_any_await_leaves_its_key_free(
    caches: list[ResultCache], fn: Callable[[], Any], options: dict[str, Any]
) -> None:
    async def attempt(fault: Fault) -> None:
        work = stepped(caches[0].aget_or_compute(f"k{fault.at}", {}, fn, **options), fault)
        outcome = (await asyncio.gather(asyncio.ensure_future(_same(work)), return_exceptions=True))[0]
        assert outcome == "first" or isinstance(outcome, asyncio.CancelledError)
        assert await asyncio.to_thread(answers, caches, f"k{fault.at}") in (["first"] * 2, ["later"] * 2)

    async def main() -> int:
        for n in itertools.count(1):
            fault = Fault(n, cancel_this_task)
            await attempt(fault)
            if not fault.struck:
                break
        return n

    assert asyncio.run(main()) > 3


async def _same(work: Any) -> Any:
    return await work


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["dropped", "traceback kept"])
def test_an_interrupt_at_any_point_leaves_the_key_free(make_cache: Make, database: Database, kept: bool) -> None:
    """In the same thread, in others, and as of another process."""
    keys = (f"k{n}" for n in itertools.count())
    caches = [make_cache(lease_seconds=3_600) for _ in range(2)]

    def call(key: str) -> None:
        caches[0].get_or_compute(key, {}, lambda: "first", tags="t")

    def check(key: str) -> None:
        assert answers(caches, key) in (["first"] * 2, ["later"] * 2)

    assert interrupted_everywhere(lambda: next(keys), call, check, samples=40, kept=kept) >= 20


@pytest.mark.sampled
@pytest.mark.parametrize("table", ["autocontext_cache_tag", "autocontext_cache_computation"])
@pytest.mark.parametrize("outcome", ["result", None, {1: 2}, LookupError("from fn")], ids=repr)
def test_a_write_that_fails_after_computing_leaves_the_key_free(
    caches: list[ResultCache], database: Database, outcome: Any, table: str
) -> None:
    """A result goes to its caller also if it is not to be stored, or cannot be."""

    def rename(old: str, new: str) -> None:
        database.write(lambda: (yield Statement(f"ALTER TABLE {old} RENAME TO {new}")))

    def fn() -> Any:
        rename(table, f"{table}_away")
        if isinstance(outcome, LookupError):
            raise outcome
        return outcome

    try:
        with pytest.raises(LookupError) if isinstance(outcome, LookupError) else nullcontext():
            assert caches[0].get_or_compute("k", {}, fn, tags="t") == outcome
    finally:
        rename(f"{table}_away", table)
    assert answers(caches, "k") == ["later"] * 2


@pytest.mark.sampled
def test_one_thread_renews_the_leases_of_all_caches_on_a_database(make_cache: Make) -> None:
    caches = [make_cache(f"session {n}") for n in range(20)]
    begun, go = threading.Semaphore(0), threading.Event()

    def fn() -> str:
        begun.release()
        assert go.wait(GUARD)
        return "result"

    def renewing() -> int:
        return [thread.name for thread in threading.enumerate()].count("autocontext leases")

    calls = [threading.Thread(target=cache.get_or_compute, args=("t", {}, fn), daemon=True) for cache in caches]
    others = renewing()
    for call in calls:
        call.start()
    assert all(begun.acquire(timeout=GUARD) for _ in caches)
    now = renewing()
    go.set()
    for call in calls:
        call.join(GUARD)
    assert 1 <= now <= others + 1


@pytest.mark.slow
def test_recomputing_in_the_background_takes_few_threads(make_cache: Make, clock: Clock) -> None:
    cache = make_cache()
    go = threading.Event()

    def ask(n: int, result: str) -> Any:
        return cache.get_or_compute(
            "t", {"n": n}, lambda n: result if go.wait(GUARD) else "", ttl=1, stale_while_revalidate=60
        )

    go.set()
    assert {ask(n, "old") for n in range(40)} == {"old"}
    clock.now += 2
    go.clear()
    assert {ask(n, "new") for n in range(40)} == {"old"}
    assert 0 < [thread.name for thread in threading.enumerate()].count("autocontext cache") <= 8
    go.set()
    for _ in range(40):
        cache.close()  # waits for them
        if {ask(n, "new") for n in range(40)} == {"new"}:
            break
    else:
        pytest.fail("some results are never recomputed")


def test_a_call_that_ends_while_it_is_looked_at_is_not_alive() -> None:
    async def nothing() -> None: ...

    call = nothing()
    call.close()
    seen = iter([call, None, None])

    class Ending(Owner):
        runs = property(lambda self: next(seen), lambda self, value: None)  # type: ignore[assignment]

    assert not Ending().alive
