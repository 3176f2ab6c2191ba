"""Writers of one user's memories at once: no change is lost, no index falls behind."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from autocontext.errors import Conflict
from autocontext.memories import MemoryStore, changes, statements
from autocontext.stores.database import Work
from tests.stores.homes import home
from tests.stores.races import SERVED, at_once, run_between

USER = {"user_id": "ann"}


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with home(request.param, tmp_path) as where:
        yield where


def interleaved(
    work: Callable[[str, int], Work[object]], other: Callable[[MemoryStore, str], object]
) -> Iterator[tuple[object, MemoryStore, str]]:
    """What `work` gave, the store and a memory's id, for `other` running before each statement of `work` in turn."""
    with home("postgresql", Path()) as url, MemoryStore(url) as store, MemoryStore(url) as another:
        for before in itertools.count():
            memory = store.add(f"fact {before}", **USER)
            result, ran = run_between(
                store.database, partial(work, memory.id, memory.revision), partial(other, another, memory.id), before
            )
            if not ran:
                assert before, "the change has no statement"
                return
            yield result, store, memory.id


def test_row_02_two_updates_of_one_memory_both_stand() -> None:
    for _, store, memory_id in interleaved(
        lambda memory_id, _: changes.update("ann", memory_id, {"importance": 9}, None),
        lambda another, memory_id: another.update(memory_id, tags=["new"], confidence=0.5, **USER),
    ):
        memory = store.get(memory_id, **USER)
        assert memory is not None
        assert (memory.importance, memory.tags, memory.confidence) == (9, ("new",), 0.5)


def test_row_02_of_two_updates_of_one_revision_one_is_a_conflict(url: str) -> None:
    def update(store: MemoryStore, memory_id: str, revision: int, importance: int) -> int:
        try:
            store.update(memory_id, expected_revision=revision, importance=importance, **USER)
        except Conflict:
            return 0
        return importance

    with MemoryStore(url) as store:
        for n in range(10):
            memory = store.add(f"fact {n}", importance=1, **USER)
            made = at_once(*(partial(update, store, memory.id, memory.revision, i) for i in range(2, 6)))
            after = store.get(memory.id, **USER)
            assert after is not None
            assert sorted(made) == [0, 0, 0, after.importance]


@pytest.mark.parametrize("change", ["update", "add", "touch"])
def test_row_02_an_access_is_counted_while_the_memory_changes(change: str) -> None:
    def work(memory_id: str, _: int) -> Work[object]:
        if change == "update":
            return changes.update("ann", memory_id, {"importance": 9}, None)
        if change == "touch":
            return statements.touch("ann", [memory_id], 1)
        return same_again(memory_id)

    def same_again(memory_id: str) -> Work[object]:
        memory = yield from statements.find("ann", memory_id)
        assert memory is not None
        return (yield from changes.add(memory, None))

    for _, store, memory_id in interleaved(work, lambda another, _: another.search("fact", limit=1_000, **USER)):
        memory = store.get(memory_id, **USER)
        assert memory is not None
        assert memory.access_count == 1 + (change == "touch")
        assert memory.last_accessed > 1, "an earlier access does not turn it back"


def test_row_02_of_two_deletions_one_says_that_it_deleted(url: str) -> None:
    with MemoryStore(url) as store:
        for n in range(10):
            memory = store.add(f"fact {n}", **USER)
            assert sum(at_once(*[partial(store.delete, memory.id, **USER)] * 4)) == 1


def test_row_02_an_index_that_others_brought_forward_meanwhile_forgets_what_was_deleted(url: str) -> None:
    with MemoryStore(url) as store:
        store.add("kept", **USER)
        store.all(**USER)
        slow = store._all(**USER)
        step = next(slow)
        deleted = store.add("deleted", **USER)
        assert len(store.all(**USER)) == 2
        store.delete(deleted.id, **USER)
        answer = store.database.do(step)
        while True:
            try:
                step = slow.send(answer)
            except StopIteration as done:
                memories = done.value
                break
            answer = store.database.do(step)
        assert [m.content for m in memories] == ["kept"]
        assert [m.content for m in store.all(**USER)] == ["kept"]


def random_changes(store: MemoryStore, seed: int, count: int) -> None:
    """Add, confirm, change, delete and find a few memories; "fact 0" is never deleted."""
    dice = random.Random(seed)
    for _ in range(count):
        content = f"fact {dice.randrange(1, 5)}"
        match dice.randrange(5):
            case 0:
                store.add(content, **USER)
            case 1:
                store.delete(store.add(content, **USER).id, **USER)
            case 2:
                store.add("fact 0", tags=[f"from {seed}"], **USER)
            case 3:
                memory = store.add("fact 0", **USER)
                store.update(memory.id, source=f"{seed}", **USER)
            case _:
                store.search("", limit=100, **USER)


@pytest.mark.parametrize("count", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_row_02_random_changes_leave_index_and_table_alike(url: str, count: int) -> None:
    with MemoryStore(url) as store, MemoryStore(url) as another:
        stores = [store, store, another, another]
        at_once(*(partial(random_changes, each, seed, count) for seed, each in enumerate(stores)))
        with MemoryStore(url) as fresh:
            expected = [(m.id, m.content, m.tags, m.revision) for m in fresh.all(**USER)]
        for each in (store, another):
            assert [(m.id, m.content, m.tags, m.revision) for m in each.all(**USER)] == expected


def test_row_02_a_document_that_others_have_overtaken_is_a_conflict(url: str) -> None:
    with MemoryStore(url) as store:
        memory = store.add("Drinks tea", **USER)
        document = store.export_json(**USER)
        document["facts"][0]["content"] = "Drinks coffee"
        store.update(memory.id, content="Drinks water", **USER)
        with pytest.raises(Conflict):
            store.import_json(document, expected_revision=document["revision"], **USER)
        assert [m.content for m in store.all(**USER)] == ["Drinks water"]
