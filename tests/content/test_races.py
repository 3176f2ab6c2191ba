"""Writers of one content store at once, in threads and processes: nothing is lost, nothing is left over."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autocontext.content import queries
from autocontext.content.contents import FOREVER, candidates
from autocontext.content.paging import packed
from autocontext.content.store import DatabaseContentStore, PagedContentStore
from autocontext.stores.database import Statement, Work
from autocontext.stores.opening import open_database
from tests.content.conftest import Clock
from tests.stores.homes import home
from tests.stores.races import SERVED, at_once, run_between

REF = "c_982d9e3eb996"
"""The handle of "text"."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with home(request.param, tmp_path) as where:
        yield where


def rows(store: DatabaseContentStore, sql: str) -> list[Any]:
    def select() -> Work[list[Any]]:
        return (yield Statement(sql))

    return store.database.read(select)


def left_over(store: DatabaseContentStore) -> dict[str, list[Any]]:
    """Contents that nothing leads to, and keys and pages without their content."""
    same = "WHERE o.namespace = {0}.namespace AND o.ref = {0}.ref"
    return {
        "contents": rows(
            store,
            "SELECT c.ref FROM autocontext_content c WHERE c.held_until = 0 AND NOT EXISTS "
            f"(SELECT 1 FROM autocontext_content_key o {same.format('c')})",
        ),
        "keys": rows(
            store,
            "SELECT k.key FROM autocontext_content_key k WHERE NOT EXISTS "
            f"(SELECT 1 FROM autocontext_content o {same.format('k')})",
        ),
        "pages": rows(
            store,
            "SELECT p.ref FROM autocontext_content_page p WHERE NOT EXISTS "
            f"(SELECT 1 FROM autocontext_content o {same.format('p')})",
        ),
    }


NOTHING: dict[str, list[Any]] = {"contents": [], "keys": [], "pages": []}


def rounds_of_puts(url: str, rounds: int) -> None:
    """Two keys on one content; four threads at once put another content under one of the keys."""
    lost = leaked = 0
    with DatabaseContentStore(url) as store, ThreadPoolExecutor(4) as pool:
        for n in range(rounds):
            shared, texts = f"shared {n}", [f"text {n} {thread}" for thread in range(4)]
            store.put(shared, key="moving")
            store.put(shared, key="staying")
            list(pool.map(partial(store.put, key="moving"), texts))
            staying, moving = store.read("staying"), store.read("moving")
            lost += staying is None or staying.text != shared or moving is None or moving.text not in texts
            leaked += rows(store, "SELECT COUNT(*) FROM autocontext_content") != [(2,)]
        assert left_over(store) == NOTHING
    assert (lost, leaked) == (0, 0)


@pytest.mark.sampled
def test_row_02_a_key_that_many_threads_change_lets_go_of_its_content_once(url: str) -> None:
    rounds_of_puts(url, 20)


@pytest.mark.slow
def test_row_02_many_rounds(url: str) -> None:
    rounds_of_puts(url, 1_000)


@pytest.mark.soak
def test_row_02_ten_thousand_rounds(url: str) -> None:
    rounds_of_puts(url, 10_000)


def random_changes(store: DatabaseContentStore, seed: int, count: int) -> None:
    """Put, move, delete and purge a few keys over a few contents; contents named `kept` are only ever put."""
    dice = random.Random(seed)
    for n in range(count):
        key, text = f"key {dice.randrange(6)}", f"text {dice.randrange(6)}"
        change = dice.randrange(12)
        if change < 6:
            store.put(text, key=key)
        elif change < 9:
            store.delete(key)
        elif change == 9:
            store.delete(store.put(text, key=key).ref)
        elif change == 10:
            store.put(f"kept {dice.randrange(3)}", key=dice.choice([None, key]), ttl=dice.choice([None, 0.001]))
        else:
            store.purge_expired()
        if n % 10 == 0:
            store.put(f"mine {seed}", key=f"mine {seed}")
            page = store.read(f"mine {seed}")
            assert page is not None, f"lost after {n} changes"
            assert page.text == f"mine {seed}"


def changed_by_threads(url: str, count: int) -> None:
    with DatabaseContentStore(url) as store:
        at_once(*(partial(random_changes, store, seed, count) for seed in range(4)))
        time.sleep(0.01)  # until the last content with a lifetime has expired: not between the next two calls
        for key in store.keys(limit=1_000):
            assert store.read_bytes(key) is not None, f"{key} leads to nothing"
        assert left_over(store) == NOTHING
        for key in store.keys(limit=1_000):
            store.delete(key)
        assert all(text.startswith("kept") for text in texts_of(store)), "only what was put without a key is left"
        store.clear()
        assert store.stats().contents == store.stats().pages == store.stats().keys == 0


def texts_of(store: DatabaseContentStore) -> list[str]:
    pages = (store.read(ref) for (ref,) in rows(store, "SELECT ref FROM autocontext_content"))
    return [page.text for page in pages if page is not None]


@pytest.mark.sampled
def test_row_02_random_changes_by_threads_leave_nothing_over(url: str) -> None:
    changed_by_threads(url, 40)


@pytest.mark.slow
def test_row_02_many_random_changes_by_threads_leave_nothing_over(url: str) -> None:
    changed_by_threads(url, 2_500)


@pytest.mark.slow
def test_row_02_random_changes_by_processes_leave_nothing_over(url: str) -> None:
    code = (
        "import sys\nfrom autocontext.content.store import DatabaseContentStore\n"
        "from tests.content.test_races import random_changes\n"
        "random_changes(DatabaseContentStore(sys.argv[1]), int(sys.argv[2]), 2_500)\n"
    )
    DatabaseContentStore(url).close()
    started = [subprocess.Popen([sys.executable, "-c", code, url, str(seed)], cwd=ROOT) for seed in range(4)]
    assert [process.wait(timeout=600) for process in started] == [0] * 4
    changed_by_threads(url, 10)


def interleaved(change: str, other: Callable[[DatabaseContentStore], object]) -> Iterator[DatabaseContentStore]:
    """The store after a change during which `other` ran: before its first statement, before its second and so on."""
    clock = Clock()
    with (
        home("postgresql", Path()) as url,
        DatabaseContentStore(url, clock=clock) as store,
        DatabaseContentStore(url, clock=clock) as another,
    ):
        for before in itertools.count():
            store.clear()
            store.put("text", key="old", ttl=1)
            store.put("text", ttl=1)
            clock.now += 5_000
            work = {
                "purge": partial(queries.purge, clock.now),
                "clear": partial(queries.clear, "", clock.now),
                "delete": partial(queries.delete, "", "old", clock.now - 4_500),
                "delete by handle": partial(queries.delete, "", REF, clock.now - 4_500),
            }[change]
            if not run_between(store.database, work, partial(other, another), before)[1]:
                assert before, "the change has no statement"
                return
            yield store


@pytest.mark.parametrize("key", [None, "old", "new"])
@pytest.mark.parametrize("change", ["purge", "clear", "delete", "delete by handle"])
def test_row_03_what_is_put_while_others_delete_is_whole_or_gone(change: str, key: str | None) -> None:
    def put(other: DatabaseContentStore) -> None:
        other.put("text", key=key)

    for store in interleaved(change, put):
        page = store.read(key or REF)
        if change == "purge":
            assert page is not None, "it was put again, so its time is not over"
        if page is not None:
            assert page.text == "text"
        store.purge_expired()
        assert left_over(store) == NOTHING
        store.put("text", key="again")
        page = store.read("again")
        assert page is not None
        assert page.text == "text"


def test_row_13_the_longest_promise_alone_counts(store: PagedContentStore, clock: Clock) -> None:
    def ends_in() -> int | None:
        """Seconds until the content is over; None: never."""
        info = store.info(ref)
        assert info is not None
        return None if info.expires_at is None else (info.expires_at - clock.now) // 1000

    ref = store.put("text", ttl=10).ref
    store.put("text", key="k")
    assert ends_in() is None
    store.delete("k")
    assert ends_in() == 10
    store.put("text", key="k", ttl=100)
    store.put("text", ttl=5)
    assert ends_in() == 100
    store.put("text", key="k", ttl=20)
    assert ends_in() == 20, "the key was put again, for less"
    clock.now += 15_000
    assert store.read(ref) is not None
    store.put("other", key="k")
    assert store.read(ref) is None, "its own time is over and no key leads to it"
    store.purge_expired()
    assert store.stats().contents == 1


def test_row_13_a_database_of_the_first_version_opens(url: str) -> None:
    database = open_database(url)
    database.ensure(queries.SCHEMA._replace(versions=queries.SCHEMA.versions[:1]))
    contents = {"held": (2, 1, FOREVER), "keyed": (1, 0, FOREVER), "leaked": (1, 0, FOREVER), "timed": (1, 1, 1)}

    def written() -> Work[None]:
        for text, (holders, held, ends) in contents.items():
            content = packed(text)
            row = {"ref": next(candidates(content.sha256)), "sha256": content.sha256, "about": '["", "", "text", ""]'}
            row |= {"chars": len(text), "holders": holders, "held": held, "ends": ends, "body": content.pages()[0]}
            yield Statement(
                "INSERT INTO autocontext_content VALUES "
                "('', :ref, :sha256, 'utf-8', :chars, 1, 1, :holders, :held, :ends, 1, '', :about)",
                row,
            )
            yield Statement("INSERT INTO autocontext_content_page VALUES ('', :ref, 0, :body)", row)
            if holders > held:
                yield Statement(
                    "INSERT INTO autocontext_content_key VALUES ('', :key, :ref, '', :ends, 1, :about)",
                    {**row, "key": f"key of {text}"},
                )
        yield Statement("DELETE FROM autocontext_content_key WHERE key = 'key of leaked'")

    database.write(written)
    database.close()
    with DatabaseContentStore(url) as store:
        assert store.purge_expired() == 2
        assert left_over(store) == NOTHING
        assert {key: store.read_bytes(key) for key in store.keys(limit=1_000)} == {
            "key of held": b"held",
            "key of keyed": b"keyed",
        }
        for key in store.keys(limit=1_000):
            assert store.delete(key)
        assert texts_of(store) == ["held"]
