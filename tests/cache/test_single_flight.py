"""One computation per key, whoever asks: threads, coroutines, other caches on the same database, other processes."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autocontext.cache import MISS, ResultCache, canonical_key
from autocontext.cache.leases import Claim, ask, give_back, look
from autocontext.cache.watching import Flights
from autocontext.stores.database import Database, Statement
from tests.cache.conftest import Clock, Counted

Make = Callable[..., ResultCache]
KEY = canonical_key("t", {})
GUARD = 60
"""Seconds after which a test says that something hangs."""


def claim(holder: str) -> Claim:
    return Claim(KEY, (), holder, None)


def slow(result: Any = "result", seconds: float = 0.1) -> Counted:
    def fn() -> Any:
        time.sleep(seconds)
        return result

    return Counted(fn)


def together(times: int, ask_: Callable[[], Any]) -> list[Any]:
    """Results, or exceptions, of as many threads that ask at once."""
    gate = threading.Barrier(times)

    def one() -> Any:
        gate.wait()
        try:
            return ask_()
        except Exception as error:  # noqa: BLE001 (each thread's outcome is looked at)
            return error

    with ThreadPoolExecutor(times) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(times)]]


# ------------------------------------------------------------------------------------------------------- one process
def test_defect_stampede_of_threads(cache: ResultCache) -> None:
    fn = slow({"a": [1]})
    results = together(50, lambda: cache.get_or_compute("t", {}, fn))
    assert results == [{"a": [1]}] * 50
    assert fn.times == 1
    results[0]["a"].append(2)
    assert results[1] == {"a": [1]}
    stats = cache.stats()
    assert stats.computed == 1
    assert stats.waited + stats.hits == 49


def test_defect_stampede_of_coroutines(cache: ResultCache) -> None:
    calls = []

    async def fn() -> str:
        calls.append(1)
        await asyncio.sleep(0.05)
        return "result"

    async def main() -> list[Any]:
        results = await asyncio.gather(*(cache.aget_or_compute("t", {}, fn) for _ in range(50)))
        await cache.aclose()
        return results

    assert asyncio.run(main()) == ["result"] * 50
    assert calls == [1]


def test_threads_and_coroutines_share_one_flight(cache: ResultCache) -> None:
    fn = slow()

    async def main() -> list[Any]:
        threads = [asyncio.to_thread(cache.get_or_compute, "t", {}, fn) for _ in range(10)]
        coroutines = [cache.aget_or_compute("t", {}, fn) for _ in range(10)]
        return list(await asyncio.gather(*threads, *coroutines))

    assert asyncio.run(main()) == ["result"] * 20
    assert fn.times == 1


def test_two_caches_on_one_database_share_a_lease(make_cache: Make) -> None:
    caches = [make_cache(clock=time.time) for _ in range(4)]
    fn = slow()
    turns = iter(caches * 2)
    assert together(8, lambda: next(turns).get_or_compute("t", {}, fn)) == ["result"] * 8
    assert fn.times == 1


def test_a_failure_is_shared_by_those_who_wait_and_by_nobody_else(cache: ResultCache, database: Database) -> None:
    end = time.monotonic() + GUARD

    def waiting() -> int:
        [flight] = [f for f in Flights.of(database)._watched if f.namespace == cache._namespace]
        return len(flight._wake)

    def fail() -> None:
        while waiting() < 9 and time.monotonic() < end:
            time.sleep(0.01)
        raise LookupError("no")

    fn = Counted(fail)
    errors = together(10, lambda: cache.get_or_compute("t", {}, fn))
    assert [type(error) for error in errors] == [LookupError] * 10
    assert fn.times == len({id(error) for error in errors}) == 1
    assert cache.get_or_compute("t", {}, lambda: "fine") == "fine"


def test_results_that_cannot_be_copied_are_not_shared(cache: ResultCache) -> None:
    fn = Counted(lambda: time.sleep(0.05) or object())
    results = together(5, lambda: cache.get_or_compute("t", {}, fn))
    assert len({id(result) for result in results}) == 5
    assert fn.times == 5


def test_another_key_does_not_wait(cache: ResultCache) -> None:
    started, go = threading.Event(), threading.Event()

    def held(x: int) -> str:
        started.set()
        assert go.wait(GUARD)
        return "held"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cache.get_or_compute, "t", {"x": 1}, held)
        assert started.wait(GUARD)
        assert cache.get_or_compute("t", {"x": 2}, lambda x: "quick") == "quick"
        go.set()
        assert first.result() == "held"


def test_a_function_that_asks_for_itself_does_not_wait_for_ever(cache: ResultCache) -> None:
    def outer() -> list[str]:
        return [cache.get_or_compute("t", {}, lambda: "inner")]

    assert cache.get_or_compute("t", {}, outer) == ["inner"]


def test_a_coroutine_that_asks_for_itself_does_not_wait_for_ever(cache: ResultCache) -> None:
    async def inner() -> str:
        return "inner"

    async def outer() -> list[Any]:
        blocking = cache.get_or_compute("t", {}, lambda: "blocking")
        return [await cache.aget_or_compute("t", {}, inner), blocking]

    async def main() -> Any:
        results = await cache.aget_or_compute("t", {}, outer)
        await cache.aclose()
        return results

    assert asyncio.run(main()) == ["inner", "blocking"]


def test_blocking_code_in_the_loop_of_a_leader_does_not_wait_for_ever(cache: ResultCache) -> None:
    async def main() -> list[Any]:
        begun, go = asyncio.Event(), asyncio.Event()

        async def fn() -> str:
            begun.set()
            await go.wait()
            return "led"

        leader = asyncio.create_task(cache.aget_or_compute("t", {}, fn))
        await begun.wait()
        blocking = cache.get_or_compute("t", {}, lambda: "blocking")
        go.set()
        results = [await leader, blocking]
        await cache.aclose()
        return results

    assert asyncio.run(main()) == ["led", "blocking"]


def test_a_leader_that_is_cancelled_leaves_the_work_to_the_next(cache: ResultCache) -> None:
    calls: list[int] = []

    async def main() -> list[Any]:
        begun = asyncio.Event()

        async def fn() -> str:
            calls.append(1)
            begun.set()
            await asyncio.sleep(60 if len(calls) == 1 else 0)
            return "second"

        leader = asyncio.create_task(cache.aget_or_compute("t", {}, fn))
        await begun.wait()
        waiting = [asyncio.create_task(cache.aget_or_compute("t", {}, fn)) for _ in range(3)]
        await asyncio.sleep(0.02)
        waiting[0].cancel()
        leader.cancel()
        results = await asyncio.gather(leader, *waiting, return_exceptions=True)
        await cache.aclose()
        return results

    results = asyncio.run(main())
    assert [type(result) for result in results[:2]] == [asyncio.CancelledError] * 2
    assert results[2:] == ["second"] * 2
    assert len(calls) == 2


def test_a_synchronous_function_does_not_hold_up_the_loop(cache: ResultCache) -> None:
    async def main() -> bool:
        beats = asyncio.Event()

        async def beat() -> None:
            await asyncio.sleep(0.01)
            beats.set()

        task = asyncio.create_task(beat())
        go = threading.Event()
        computing = asyncio.create_task(cache.aget_or_compute("t", {}, lambda: go.wait(GUARD)))
        await asyncio.wait_for(beats.wait(), GUARD)
        go.set()
        await task
        return bool(await computing)

    assert asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------ leases
@pytest.mark.sampled
def test_a_lease_that_is_over_is_taken_by_another(make_cache: Make, database: Database) -> None:
    cache = make_cache(clock=time.time, lease_seconds=0.2)
    now = int(time.time() * 1000)
    # As if another process had begun, and died.
    assert database.write(lambda: ask(cache._namespace, claim("other"))) is True
    taken = database.write(lambda: ask(cache._namespace, claim("third")))
    assert not taken or int(time.time() * 1000) >= now + 200
    assert cache.get_or_compute("t", {}, lambda: "mine") == "mine"
    assert int(time.time() * 1000) >= now + 200


def test_a_lease_ends_with_the_computation_however_that_ends(cache: ResultCache, database: Database) -> None:
    class Ended(BaseException):
        pass

    for error in (LookupError, Ended):
        with pytest.raises(error):
            cache.get_or_compute("t", {}, Counted(error()))
    cache.get_or_compute("t", {}, object)
    cache.get_or_compute("t", {}, lambda: "fine")
    ns = {"ns": json.dumps(list(cache.namespace))}

    def leases() -> Any:
        return (yield Statement("SELECT key FROM autocontext_cache_computation WHERE namespace = :ns", ns))

    assert database.read(leases) == []


def test_a_lease_is_waited_for_though_there_is_an_expired_result(
    make_cache: Make, database: Database, clock: Clock
) -> None:
    cache = make_cache()
    cache.set(KEY, "old", ttl=1)
    clock.now += 2
    assert database.write(lambda: ask(cache._namespace, claim("other"))) is True
    assert database.read(lambda: look(cache._namespace, claim("third"), ())) == ("other", False)


def test_a_lease_is_given_beside_a_result_that_its_caller_has_and_from_the_moment_a_result_expires(
    make_cache: Make, database: Database, clock: Clock
) -> None:
    cache = make_cache()
    cache.set(KEY, "old", ttl=10)
    namespace = cache._namespace
    there = database.read(lambda: namespace.lookup(KEY))
    assert there is not None
    for known, now, given in ((None, 9.999, False), (there.created, 9.999, True), (None, 10, True)):
        clock.now = 1_800_000_000 + now
        asking = claim(f"{known} {now}")._replace(known=known)
        assert (database.write(lambda asking=asking: ask(namespace, asking)) is True) is given
        database.write(lambda asking=asking: give_back(namespace.text, asking))


@pytest.mark.parametrize("tags", [(), ("user", "page")])
@pytest.mark.parametrize("lease_seconds", [60, None])
def test_a_lease_is_given_again_to_who_has_it_and_did_not_hear_of_it(
    make_cache: Make, database: Database, lease_seconds: float | None, tags: tuple[str, ...]
) -> None:
    namespace = make_cache(lease_seconds=lease_seconds)._namespace
    asking = claim("one")._replace(tags=tags)
    assert database.write(lambda: ask(namespace, asking)) is True
    assert database.write(lambda: ask(namespace, asking)) is True
    assert database.write(lambda: ask(namespace, claim("another"))) is (lease_seconds is None)


@pytest.mark.parametrize(("renews", "wanted"), [(True, True), (False, False)])
def test_no_lease_is_kept_to_renew_what_is_gone_or_for_what_nobody_wants_any_more(
    make_cache: Make, database: Database, renews: bool, wanted: bool
) -> None:
    namespace = make_cache()._namespace
    asking = claim("one")._replace(renews=renews)
    assert database.write(lambda: ask(namespace, asking, lambda: wanted)) is False
    assert database.write(lambda: ask(namespace, claim("another"))) is True


@pytest.mark.sampled
def test_without_leases_a_process_still_computes_once(make_cache: Make) -> None:
    cache = make_cache(lease_seconds=None)
    fn = slow()
    assert together(10, lambda: cache.get_or_compute("t", {}, fn)) == ["result"] * 10
    assert fn.times == 1


# ------------------------------------------------------------------------------------------------ stale and early
def test_stale_while_revalidate(make_cache: Make, clock: Clock) -> None:
    cache = make_cache()
    go = threading.Event()
    results = iter(["first", "second"])

    def fn() -> str:
        assert go.wait(GUARD)
        return next(results)

    def ask_() -> Any:
        return cache.get_or_compute("t", {}, fn, ttl=10, stale_while_revalidate=5)

    go.set()
    assert ask_() == "first"
    go.clear()
    clock.now += 12
    assert [ask_() for _ in range(5)] == ["first"] * 5
    assert cache.get(KEY) is MISS
    assert cache.purge_expired() == 0
    go.set()
    cache.close()
    assert ask_() == "second"
    assert cache.stats().computed == 2
    assert cache.stats().stale == 5
    clock.now += 15
    assert cache.purge_expired() == 1
    assert cache.stats().entries == 0


@pytest.mark.sampled
def test_a_stale_result_is_given_until_the_time_for_that_is_over(make_cache: Make, clock: Clock) -> None:
    cache = make_cache()
    for result in ("first", "second"):
        assert cache.get_or_compute("t", {}, lambda r=result: r, ttl=10, stale_while_revalidate=5) == result
        clock.now += 15


@pytest.mark.sampled
def test_stale_while_revalidate_for_coroutines(cache: ResultCache, clock: Clock) -> None:
    async def main() -> list[Any]:
        fn = Counted(lambda: fn.times)

        async def ask_() -> Any:
            return await cache.aget_or_compute("t", {}, fn, ttl=10, stale_while_revalidate=5)

        results = [await ask_()]
        clock.now += 12
        results += [await ask_()]
        await cache.aclose()
        return [*results, await ask_()]

    assert asyncio.run(main()) == [1, 1, 2]


def test_a_refresh_leaves_the_work_to_another_process_that_does_it(
    make_cache: Make, database: Database, clock: Clock
) -> None:
    cache, fn = make_cache(), Counted()
    options: Any = {"ttl": 10, "stale_while_revalidate": 50}
    assert cache.get_or_compute("t", {}, lambda: "old", **options) == "old"
    clock.now += 12
    assert database.write(lambda: ask(cache._namespace, claim("another"))) is True
    assert cache.get_or_compute("t", {}, fn, **options) == "old"
    cache.close()
    assert fn.times == 0
    assert cache.stats().refresh_failed == 0


def test_a_failed_refresh_leaves_the_old_result(cache: ResultCache, clock: Clock) -> None:
    options: Any = {"ttl": 10, "stale_while_revalidate": 50, "cache_exceptions": (LookupError,)}
    assert cache.get_or_compute("t", {}, lambda: "old", **options) == "old"
    clock.now += 12
    failing = Counted(LookupError("down"))
    assert cache.get_or_compute("t", {}, failing, **options) == "old"
    cache.close()
    assert failing.times == 1
    assert cache.stats().refresh_failed == 1
    assert cache.get_or_compute("t", {}, lambda: "new", **options) == "old"
    cache.close()
    assert cache.get_or_compute("t", {}, Counted(), **options) == "new"


def test_early_refresh(cache: ResultCache, clock: Clock) -> None:
    fn = Counted(lambda: fn.times)
    assert cache.get_or_compute("t", {}, fn, ttl=100, early_beta=1.0) == 1
    # It took no time to compute, so that long before its end there is no reason to do it again.
    assert cache.get_or_compute("t", {}, fn, ttl=100, early_beta=1.0) == 1
    assert fn.times == 1
    # With so large a factor every moment is late enough.
    clock.now += 1
    assert cache.get_or_compute("t", {}, fn, ttl=100, early_beta=1e12) == 1
    cache.close()
    assert fn.times == 2
    assert cache.get_or_compute("t", {}, fn, ttl=100) == 2


# --------------------------------------------------------------------------------------------------------- processes
WRITER = """
import sys
from autocontext.cache import ResultCache
path, number = sys.argv[1], int(sys.argv[2])
cache = ResultCache(path, namespace="shared")
sys.stdin.readline()
for i in range(100):
    assert cache.set(f"{number}-{i}", {"writer": number, "i": i})
"""
ASKER = """
import sys, threading, time
from autocontext.cache import ResultCache
path, log = sys.argv[1], sys.argv[2]
cache = ResultCache(path, namespace="shared")
def fn():
    with open(log, "a") as file:
        file.write("computed\\n")
    time.sleep(0.3)
    return "result"
def ask():
    assert cache.get_or_compute("t", {}, fn) == "result"
sys.stdin.readline()
threads = [threading.Thread(target=ask) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def processes(program: str, arguments: list[list[str]]) -> None:
    """Run a program as several processes that begin at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, *args],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for args in arguments
    ]  # fmt: skip
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=5 * GUARD)[1] for process in running] == [""] * len(running)


@pytest.mark.slow
def test_b002_a_processes_write_and_nothing_is_lost(tmp_path: Path) -> None:
    writers = 8
    path = str(tmp_path / "cache.db")
    processes(WRITER, [[path, str(number)] for number in range(writers)])
    with ResultCache(path, namespace="shared") as cache:
        assert cache.stats().entries == writers * 100
        for number in range(writers):
            assert [cache.get(f"{number}-{i}") for i in range(100)] == [{"writer": number, "i": i} for i in range(100)]


@pytest.mark.slow
def test_b002_c_many_threads_of_many_processes_compute_once(tmp_path: Path) -> None:
    path, log = str(tmp_path / "cache.db"), tmp_path / "log"
    processes(ASKER, [[path, str(log)]] * 4)
    assert log.read_text() == "computed\n"
