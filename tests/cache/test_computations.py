"""Computations under way: circles, leases that are renewed, invalidations; and transactions that pass each other."""

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autocontext.cache import MISS, ResultCache, canonical_key, rows
from autocontext.cache.flights import Flight, Owner
from autocontext.cache.invalidating import purging
from autocontext.cache.leases import Claim, ask
from autocontext.cache.misses import miss, value_of
from autocontext.cache.namespace import completed, content_space
from autocontext.cache.rows import storing
from autocontext.cache.watching import Flights
from autocontext.errors import CacheCycle, StoreCorruptError, StoreError
from autocontext.stores.database import Database, Schema, Statement, Work, safe
from tests.cache.conftest import Clock, Counted
from tests.stores import homes

Make = Callable[..., ResultCache]
KEY = canonical_key("t", {})
GUARD = 60
"""Seconds after which a test says that something hangs."""
LEASE = 3_600
"""Seconds: longer than any machine holds up a renewal."""


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """What functions return or raise that run at the same time; fails when one never ends."""
    outcomes: list[Any] = ["it hangs"] * len(functions)

    def run(number: int, fn: Callable[[], Any]) -> None:
        try:
            outcomes[number] = fn()
        except Exception as error:  # noqa: BLE001 (looked at by the test)
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    return outcomes


# ----------------------------------------------------------------------------------------------------------- circles
def needing(first: ResultCache, second: ResultCache) -> list[Callable[[], Any]]:
    """Two calls that compute a key each, and then need the other's."""
    both = threading.Barrier(2)

    def call(own: ResultCache, key: str, other: ResultCache, needed: str) -> Any:
        def fn() -> Any:
            both.wait(GUARD)
            return other.get_or_compute(needed, {}, lambda: "never reached")

        return own.get_or_compute(key, {}, fn)

    return [lambda: call(first, "a", second, "b"), lambda: call(second, "b", first, "a")]


def test_row_23_threads_that_need_each_others_keys_get_an_error(cache: ResultCache) -> None:
    outcomes = in_threads(*needing(cache, cache))
    assert [type(outcome) for outcome in outcomes] == [CacheCycle] * 2
    assert all("a:" in str(outcome) and "b:" in str(outcome) for outcome in outcomes)
    assert cache.get_or_compute("a", {}, lambda: "fine") == "fine"


def test_row_23_so_do_caches_that_wait_for_each_others_leases(make_cache: Make) -> None:
    outcomes = in_threads(*needing(make_cache(clock=time.time), make_cache(clock=time.time)))
    assert CacheCycle in [type(outcome) for outcome in outcomes]
    assert "it hangs" not in outcomes


def test_row_23_a_longer_circle_is_found(cache: ResultCache) -> None:
    all_begun = threading.Barrier(4)

    def call(number: int) -> Any:
        def fn() -> Any:
            all_begun.wait(GUARD)
            return cache.get_or_compute(f"k{(number + 1) % 4}", {}, lambda: "never reached")

        return cache.get_or_compute(f"k{number}", {}, fn)

    outcomes = in_threads(*[lambda n=n: call(n) for n in range(4)])
    assert [type(outcome) for outcome in outcomes] == [CacheCycle] * 4


def test_row_23_tasks_that_need_each_others_keys_get_an_error(cache: ResultCache) -> None:
    async def call(key: str, needed: str, begun: asyncio.Event, other: asyncio.Event) -> Any:
        async def fn() -> Any:
            begun.set()
            await other.wait()
            # As a computation does that asks for several at once.
            return await asyncio.gather(cache.aget_or_compute(needed, {}, lambda: "never reached"))

        return await cache.aget_or_compute(key, {}, fn)

    async def main() -> list[Any]:
        one, two = asyncio.Event(), asyncio.Event()
        outcomes = await asyncio.wait_for(
            asyncio.gather(call("a", "b", one, two), call("b", "a", two, one), return_exceptions=True), GUARD
        )
        await cache.aclose()
        return outcomes

    assert [type(outcome) for outcome in asyncio.run(main())] == [CacheCycle] * 2


def test_row_23_a_thread_and_a_task_too(cache: ResultCache) -> None:
    begun = [threading.Event(), threading.Event()]

    async def fn() -> Any:
        begun[0].set()
        await asyncio.to_thread(begun[1].wait, GUARD)
        return await cache.aget_or_compute("b", {}, lambda: "never reached")

    def other() -> Any:
        begun[1].set()
        assert begun[0].wait(GUARD)
        return cache.get_or_compute("a", {}, lambda: "never reached")

    async def main() -> Any:
        try:
            return await cache.aget_or_compute("a", {}, fn)
        finally:
            await cache.aclose()

    outcomes = in_threads(lambda: asyncio.run(main()), lambda: cache.get_or_compute("b", {}, other))
    assert [type(outcome) for outcome in outcomes] == [CacheCycle] * 2


@pytest.mark.parametrize("inner", ["task", "thread"])
def test_row_23_what_a_computation_starts_may_ask_for_its_key(cache: ResultCache, inner: str) -> None:
    async def asking() -> Any:
        return await asyncio.create_task(cache.aget_or_compute("t", {}, lambda: "inner"))

    def blocking() -> Any:
        return cache.get_or_compute("t", {}, lambda: "inner")

    async def main() -> Any:
        outcome = await asyncio.wait_for(cache.aget_or_compute("t", {}, asking if inner == "task" else blocking), GUARD)
        await cache.aclose()
        return outcome

    assert asyncio.run(main()) == "inner"


def test_row_23_a_key_that_needs_itself_without_end_is_told(cache: ResultCache) -> None:
    def fn() -> Any:
        return cache.get_or_compute("t", {}, fn)

    with pytest.raises(CacheCycle, match="same key"):
        cache.get_or_compute("t", {}, fn)


def test_row_23_keys_that_build_on_each_other_without_a_circle_work(cache: ResultCache) -> None:
    def fibonacci(n: int) -> Any:
        if n < 2:
            return n
        return sum(cache.get_or_compute("fibonacci", {"n": n - back}, fibonacci) for back in (1, 2))

    calls = [lambda n=n: cache.get_or_compute("fibonacci", {"n": n}, fibonacci) for n in (12, 11, 12, 10, 9)]
    assert in_threads(*calls) == [144, 89, 144, 55, 34]


@pytest.mark.sampled
def test_who_gave_up_waiting_is_in_no_circle(make_cache: Make) -> None:
    one, two = make_cache(clock=time.time), make_cache(clock=time.time)
    begun, gave_up = threading.Event(), threading.Event()

    def b() -> Any:
        begun.set()
        assert gave_up.wait(GUARD)
        return two.get_or_compute("a", {}, lambda: "never reached")

    async def a() -> str:
        assert await asyncio.to_thread(begun.wait, GUARD)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(one.aget_or_compute("b", {}, lambda: "never reached"), 0.3)
        gave_up.set()
        await asyncio.sleep(0.3)
        return "done"

    async def main() -> Any:
        result = await one.aget_or_compute("a", {}, a)
        await one.aclose()
        return result

    assert in_threads(lambda: asyncio.run(main()), lambda: two.get_or_compute("b", {}, b)) == ["done"] * 2


NEEDING = """
import sys, time
from pathlib import Path
from autocontext.cache import ResultCache
url, folder, own, other = sys.argv[1:]
cache = ResultCache(url, namespace="shared")
def fn():
    Path(folder, own).touch()
    while not Path(folder, other).exists():
        time.sleep(0.01)
    return cache.get_or_compute(other, {}, lambda: "never reached")
try:
    cache.get_or_compute(own, {}, fn)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_row_23_processes_that_need_each_others_keys_get_an_error(kind: str, tmp_path: Path) -> None:
    with homes.home(kind, tmp_path) as url:
        ResultCache(url, namespace="shared").close()
        both = [
            subprocess.Popen(
                [sys.executable, "-c", NEEDING, url, str(tmp_path), *names], stdout=subprocess.PIPE, text=True
            )
            for names in (("a", "b"), ("b", "a"))
        ]
        outcomes = [process.communicate(timeout=5 * GUARD)[0].strip() for process in both]
    assert "CacheCycle" in outcomes


# ------------------------------------------------------------------------------------------------------------ leases
def ends(flight: Flight) -> Work[int]:
    """When its lease ends, in milliseconds of the server's clock."""
    table, holder = "autocontext_cache_computation", {"holder": flight.holder}
    return (yield Statement(f"SELECT until FROM {table} WHERE holder = :holder", holder))[0][0]


def shorten(flight: Flight, seconds: int) -> Work[None]:
    table, params = "autocontext_cache_computation", {"holder": flight.holder, "length": seconds * 1_000}
    yield Statement(f"UPDATE {table} SET until = until - :length WHERE holder = :holder", params)


def outlast(database: Database) -> str:
    """Compute for longer than a lease lasts while another cache waits: the time passes for the lease alone."""
    flights, end = Flights.of(database), time.monotonic() + GUARD

    def waited_for() -> list[Flight]:
        watched = [*flights._watched]
        waiting = {flight.waits_for for flight in watched}
        return [flight for flight in watched if flight.holder in waiting]

    while not (found := waited_for()):
        assert time.monotonic() < end
        time.sleep(0.005)
    [flight] = found
    for _ in range(2):
        left = database.read(lambda: ends(flight))
        database.write(lambda: shorten(flight, LEASE * 3 // 4))
        flight.granted -= LEASE * 3 / 4
        while flight.lease_left(time.monotonic()) < 0.9 and time.monotonic() < end:
            time.sleep(0.005)
        assert database.read(lambda: ends(flight)) >= left, "it was not renewed"
    return "result"


def test_row_23_a_computation_longer_than_its_lease_runs_once(make_cache: Make, database: Database) -> None:
    caches = [make_cache(clock=time.time, lease_seconds=LEASE) for _ in range(2)]
    fn = Counted(lambda: outlast(database))
    calls = [lambda cache=cache: cache.get_or_compute("t", {}, fn) for cache in caches]
    assert in_threads(*calls) == ["result"] * 2
    assert fn.times == 1


def test_row_23_so_does_a_coroutine(make_cache: Make, database: Database) -> None:
    caches = [make_cache(clock=time.time, lease_seconds=LEASE) for _ in range(2)]
    calls = []

    async def fn() -> str:
        calls.append(1)
        return await asyncio.to_thread(outlast, database)

    async def main() -> list[Any]:
        results = await asyncio.gather(*(cache.aget_or_compute("t", {}, fn) for cache in caches))
        for cache in caches:
            await cache.aclose()
        return results

    assert asyncio.run(main()) == ["result"] * 2
    assert calls == [1]


@pytest.mark.sampled
def test_row_23_a_lease_ends_by_the_servers_clock(make_cache: Make) -> None:
    # The second process believes that an hour has passed.
    one, two = make_cache(clock=time.time), make_cache(clock=lambda: time.time() + 3600)
    begun = threading.Event()

    def fn() -> str:
        begun.set()
        time.sleep(0.3)
        return "result"

    def late() -> Any:
        assert begun.wait(GUARD)
        return two.get_or_compute("t", {}, Counted("twice"))

    assert in_threads(lambda: one.get_or_compute("t", {}, fn, ttl=10_000), late) == ["result"] * 2


@pytest.mark.parametrize(("passed", "renews"), [(0.2, False), (0.5, True)])
def test_a_lease_is_renewed_once_a_third_of_it_is_over(
    make_cache: Make, database: Database, passed: float, renews: bool
) -> None:
    flights, renewed = Flights.of(database), []

    def fn() -> str:
        [flight] = [flight for flight in flights._watched if flight.key.startswith("renewed:") and flight.open]
        database.write(lambda: shorten(flight, 5))
        before = database.read(lambda: ends(flight))
        flight.granted -= passed * LEASE
        flights.settle()
        renewed.append(database.read(lambda: ends(flight)) > before)
        return "result"

    assert make_cache(clock=time.time, lease_seconds=LEASE).get_or_compute("renewed", {}, fn) == "result"
    assert renewed == [renews]


@pytest.mark.sampled
def test_nothing_is_renewed_when_nothing_is_computed(make_cache: Make) -> None:
    def renewing() -> bool:
        # One whose start was interrupted, in another test, is listed for ever.
        return "autocontext leases" in [thread.name for thread in threading.enumerate() if thread.is_alive()]

    cache = make_cache(clock=time.time, lease_seconds=0.1)
    assert [cache.get_or_compute("t", {"n": number}, lambda n: renewing()) for number in range(3)] == [True] * 3
    end = time.monotonic() + GUARD
    while renewing() and time.monotonic() < end:
        time.sleep(0.02)
    assert not renewing()


def test_purging_forgets_the_tags_of_computations_that_have_ended(make_cache: Make, database: Database) -> None:
    cache = make_cache(clock=time.time)

    def tags() -> Work[int]:
        table, where = "autocontext_cache_computation_tag", {"ns": cache._namespace.text}
        return (yield Statement(f"SELECT COUNT(*) FROM {table} WHERE namespace = :ns", where))[0][0]

    def fn() -> list[int]:
        counts = [database.read(tags)]
        cache.purge_expired()
        counts.append(database.read(tags))
        cache.clear()
        cache.purge_expired()
        return [*counts, database.read(tags)]

    assert cache.get_or_compute("t", {}, fn, tags=("u", "v")) == [2, 2, 0]


# ------------------------------------------------------------------------------------------------------ invalidating
BY: dict[str, dict[str, Any]] = {
    "key": {"key": KEY}, "task": {"task": "t"}, "tag": {"tag": "u"}, "prefix": {"prefix": "t:"}, "everything": {},
}  # fmt: skip


@pytest.mark.parametrize("name", BY)
@pytest.mark.parametrize("lease", [60, None])
def test_row_23_an_invalidation_counts_whatever_the_clock_says(make_cache: Make, name: str, lease: Any) -> None:
    here = make_cache(clock=time.time, lease_seconds=lease)
    behind = make_cache(clock=lambda: time.time() - 3600)

    def invalidated() -> str:
        if BY[name]:
            behind.invalidate(**BY[name])
        else:
            behind.clear()
        return "outdated"

    assert here.get_or_compute("t", {}, invalidated, tags="u") == "outdated"
    assert here.get(KEY) is MISS
    assert here.get_or_compute("t", {}, lambda: "new", tags="u") == "new"
    assert here.get(KEY) == "new"


@pytest.mark.parametrize("other", [{"key": "t:x"}, {"task": "s"}, {"tag": "v"}, {"prefix": "s"}])
def test_an_invalidation_of_something_else_lets_a_computation_be_stored(cache: ResultCache, other: Any) -> None:
    cache.get_or_compute("t", {}, lambda: cache.invalidate(**other), tags="u")
    assert cache.get(KEY) == 0


def test_computations_below_an_invalidated_namespace_are_not_stored(make_cache: Make) -> None:
    above, below = make_cache(), make_cache("below")
    below.get_or_compute("t", {}, lambda: above.invalidate(namespace=above.namespace))
    assert below.get(KEY) is MISS


def test_who_asks_after_an_invalidation_gets_no_older_result(cache: ResultCache) -> None:
    begun, go = threading.Event(), threading.Event()

    def outdated() -> str:
        begun.set()
        assert go.wait(GUARD)
        return "outdated"

    def later() -> Any:
        assert begun.wait(GUARD)
        cache.invalidate(task="t")
        try:
            return cache.get_or_compute("t", {}, lambda: "new")
        finally:
            go.set()

    assert in_threads(lambda: cache.get_or_compute("t", {}, outdated), later) == ["outdated", "new"]
    assert cache.get(KEY) == "new"


class Running(Owner):
    """The owner of a flow that a test runs step by step."""

    alive = True  # type: ignore[assignment]


def test_what_another_read_before_an_invalidation_is_not_for_who_comes_after_it(cache: ResultCache) -> None:
    cache.get_or_compute("t", {}, lambda: "outdated")
    call = cache._call("t", {}, lambda: lambda: "never reached", completed({}))
    assert call is not None
    flow = miss(call, Running())
    step = flow.send(cache._do(next(flow)))
    # The leader has read the result, and is about to return it.
    cache.invalidate(task="t")

    def go_on() -> Any:
        time.sleep(0.2)
        answer = cache._do(step)
        while True:
            try:
                answer = cache._do(flow.send(answer))
            except StopIteration as done:
                return value_of(done.value)

    assert in_threads(lambda: cache.get_or_compute("t", {}, lambda: "new"), go_on) == ["new", "outdated"]


@pytest.mark.sampled
@pytest.mark.parametrize("seconds", [0.5, pytest.param(10, marks=pytest.mark.slow)])
def test_nobody_gets_what_was_computed_before_an_invalidation_that_has_returned(
    make_cache: Make, seconds: float
) -> None:
    """Caches as of three processes; one of them changes what the function reads, and says so."""
    source, announced = [0], [0]
    end = time.monotonic() + seconds

    def compute() -> int:
        value = source[0]
        time.sleep(0.01)
        return value

    def changing(cache: ResultCache) -> int:
        while not source[0] or time.monotonic() < end:
            source[0] += 1
            cache.invalidate(task="t")
            announced[0] = source[0]
            time.sleep(0.02)
        return source[0]

    def asking(cache: ResultCache) -> list[tuple[int, int]]:
        outdated = []
        while time.monotonic() < end:
            known = announced[0]
            value = cache.get_or_compute("t", {}, compute)
            if value < known:
                outdated.append((value, known))
            time.sleep(random.random() / 50)
        return outdated

    caches = [make_cache(clock=time.time) for _ in range(3)]
    calls = [lambda cache=cache: asking(cache) for cache in caches * 2]
    changes, *outdated = in_threads(lambda: changing(caches[0]), *calls)
    assert changes
    assert outdated == [[]] * 6


# ----------------------------------------------------------------------------- transactions that pass each other
def passing(database: Database, work: Callable[[], Work[Any]], before: str, other: Callable[[], Any]) -> list[Any]:
    """Stop a transaction before the statement that begins like this, and begin another one; their results.

    On PostgreSQL the other goes as far as it can meanwhile; SQLite lets it wait.
    """
    stopped, go = threading.Event(), threading.Event()

    def stepwise() -> Work[Any]:
        steps, answer = work(), None
        while True:
            try:
                statement = steps.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                return done.value
            if statement.sql.startswith(before) and not stopped.is_set():
                stopped.set()
                go.wait(GUARD)
            answer = yield statement

    def meanwhile() -> Any:
        assert stopped.wait(GUARD)
        threading.Timer(0.2, go.set).start()
        return other()

    return in_threads(lambda: database.write(stepwise), meanwhile)


@pytest.mark.sampled
def test_row_23_an_invalidation_waits_for_what_is_being_stored(make_cache: Make, database: Database) -> None:
    cache = make_cache()
    namespace = cache._namespace
    claim = Claim(KEY, (), "holder", None)
    entry = namespace.entry(KEY, "value", '"outdated"', completed({}))
    assert database.write(lambda: ask(namespace, claim)) is True
    work = storing(namespace, entry, claim)
    passing(database, work, "INSERT INTO autocontext_cache (", lambda: cache.invalidate(task="t"))
    assert cache.get(KEY) is MISS


@pytest.mark.sampled
def test_row_23_a_lease_is_not_granted_for_what_was_stored_meanwhile(make_cache: Make, database: Database) -> None:
    cache = make_cache()
    namespace = cache._namespace
    claim = Claim(KEY, (), "holder", None)
    assert database.write(lambda: ask(namespace, claim)) is True
    entry = namespace.entry(KEY, "value", '"stored"', completed({}))
    asking = claim._replace(holder="another")
    stored, reply = passing(
        database, storing(namespace, entry, claim), "INSERT INTO autocontext_cache (",
        lambda: database.write(lambda: ask(namespace, asking)),
    )  # fmt: skip
    assert stored
    assert reply is not True


@pytest.mark.sampled
def test_row_03_what_is_put_while_others_are_evicted_stays(make_cache: Make, database: Database) -> None:
    cache = make_cache()
    for i in range(4):
        cache.set(f"k{i}", "old")
    evicting = partial(rows.evict, cache._namespace.text, 2, 10**9, cache._namespace.now())
    passing(database, evicting, "DELETE FROM autocontext_cache ", lambda: cache.set("k0", "new"))
    assert cache.get("k0") == "new"


@pytest.mark.sampled
def test_row_03_what_is_put_while_expired_results_are_purged_stays(
    make_cache: Make, database: Database, clock: Clock
) -> None:
    cache = make_cache()
    for i in range(4):
        cache.set(f"k{i}", "x" * 40_000, ttl=1, tags="t")
    clock.now += 2
    work = lambda: purging(cache._namespace)
    passing(database, work, "DELETE FROM autocontext_cache_tag", lambda: cache.set("k0", "new", tags="t"))
    assert [cache.get(f"k{i}", None) for i in range(4)] == ["new", None, None, None]
    assert cache.invalidate(tag="t") == 1


@pytest.mark.sampled
def test_results_put_under_one_key_at_once_leave_nothing_behind(make_cache: Make, database: Database) -> None:
    cache = make_cache()
    namespace = cache._namespace
    body = json.dumps("x" * 40_000)
    work = storing(namespace, namespace.entry("k", "value", body, completed({"tags": "old"})))
    passing(database, work, "INSERT INTO autocontext_cache_tag", lambda: cache.set("k", "new", tags="new"))
    assert cache.get("k") == "new"
    assert cache.invalidate(tag="old") == 0
    space = {"ns": safe(content_space(namespace.text))}
    count = "SELECT COUNT(*) FROM autocontext_content_key WHERE namespace = :ns"
    assert database.read(lambda: (yield Statement(count, space))) == [(0,)]


# The tables of the first version that the second one does without.
FIRST = [
    *rows.SCHEMA.versions[0],
    (
        "CREATE TABLE autocontext_cache_lease (namespace TEXT NOT NULL, key TEXT NOT NULL, holder TEXT NOT NULL, "
        "until BIGINT NOT NULL, PRIMARY KEY (namespace, key))"
    ),
    (
        "CREATE TABLE autocontext_cache_invalidated (namespace TEXT NOT NULL, scope TEXT NOT NULL, at BIGINT NOT NULL, "
        "PRIMARY KEY (namespace, scope))"
    ),
]


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_database_of_the_first_version_opens_with_its_results(kind: str, tmp_path: Path) -> None:
    with homes.database(kind, tmp_path) as old:
        old.ensure(Schema("cache", (tuple(FIRST),)))
        old.write(
            lambda: (
                yield Statement(
                    "INSERT INTO autocontext_cache VALUES "
                    "(:ns, 'k', 'k', '', '', 'value', '1', 0, 0, :never, :never, 0, 2, '[]')",
                    {"ns": '["n"]', "never": 2**62},
                )
            )
        )
        old.write(lambda: (yield Statement("INSERT INTO autocontext_cache_invalidated VALUES ('[\"n\"]', 'all', 1)")))
        cache = ResultCache(old, namespace="n")
        assert cache.get("k") == 1
        assert cache.get_or_compute("t", {}, lambda: "new") == "new"
        assert cache.get(KEY) == "new"
        with pytest.raises((StoreError, StoreCorruptError)):
            old.read(lambda: (yield Statement("SELECT * FROM autocontext_cache_lease")))
