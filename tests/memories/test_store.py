"""One contract for the memory store, on SQLite in memory and in a file and on PostgreSQL."""

import asyncio
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext.errors import Conflict, InvalidMemory, StateError, StoreCorruptError, StoreError
from autocontext.memories import (
    MemoryStats,
    MemoryStore,
    dynamic_importance,
    normalised_tags,
    parse_update,
    recency,
    retention,
    statements,
)
from autocontext.memories.changes import changed_fields
from autocontext.memories.records import DAY, Memory
from autocontext.stores.database import Statement
from tests.profiles import WITH_FIXTURES, share
from tests.stores.homes import HOMES, database
from tests.stores.races import written

NOW = 1_700_000_000_000


class Kind(str, Enum):  # noqa: UP042 (the older form, whose `str` is "Kind.GOAL")
    GOAL = "goal"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture(params=HOMES)
def db(request, tmp_path):
    with database(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(db, clock):
    return MemoryStore(db, clock=clock)


def contents(found) -> list[str]:
    return [s.memory.content for s in found]


def test_what_was_added_reads_back_in_another_store(store, db) -> None:
    made = store.add(
        "Prefers pytest", user_id="ann", category="Preference", tags=["Unit Tests", "unit_tests", "测试"], importance=7,
        confidence=0.8, context={"turn": 3}, source="thread-1", ttl=60, source_error=None, metadata={"by": "test"},
    )  # fmt: skip
    assert made.id.startswith("fact_")
    assert (made.category, made.tags) == ("preference", ("unit_tests", "测试"))
    assert made.expires_at == NOW + 60_000
    again = MemoryStore(db).get(made.id, user_id="ann")
    assert again == made
    assert MemoryStore(db).get("fact_unknown", user_id="ann") is None


def test_nothing_of_one_user_is_there_for_another(store) -> None:
    made = store.add("Ann's secret", user_id="ann", tags=["secret"])
    other = store.add("Ann's secret", user_id="bob")
    assert other.confirmation_count == 0
    assert store.get(made.id, user_id="bob") is None
    assert store.update(made.id, user_id="bob", importance=9) is None
    assert store.delete(made.id, user_id="bob") is False
    assert [s.memory.user_id for s in store.search("secret", user_id="bob")] == ["bob"]
    assert store.search("secret", user_id="carl") == []
    assert store.stats(user_id="carl") == MemoryStats(0, 0.0, ())
    store.clear(user_id="bob")
    assert store.get(made.id, user_id="ann") == made
    for wrong in ("", None, 126):
        with pytest.raises(InvalidMemory, match="user_id"):
            store.add("x", user_id=wrong)
        with pytest.raises(InvalidMemory, match="user_id"):
            store.search("x", user_id=wrong)


def test_a_change_of_tags_is_read_once_as_a_transaction_may_be_tried_again(store: MemoryStore) -> None:
    made = store.add("Likes tea", user_id="ann")
    changed = store.update(made.id, user_id="ann", tags=(tag for tag in ("Green Tea", "drinks")))
    assert changed is not None
    assert changed.tags == ("green_tea", "drinks")
    fields = changed_fields({"tags": (tag for tag in ("tea",))}, NOW)
    assert fields["tags"] == ("tea",)
    with pytest.raises(InvalidMemory, match="tags must be a list"):
        store.update("unknown", user_id="ann", tags="tea")


def test_the_same_content_again_confirms_what_is_there(store, clock) -> None:
    first = store.add("Likes tea", user_id="ann", tags=["drinks"], importance=3, confidence=0.5)
    clock.now += 1000
    again = store.add("  likes  TEA ", user_id="ann", tags=["tea"], importance=6, confidence=0.4)
    assert again == replace(
        first, tags=("drinks", "tea"), importance=6, updated_at=NOW + 1000, last_confirmed_at=NOW + 1000,
        confirmation_count=1, revision=again.revision,
    )  # fmt: skip
    assert store.get(first.id, user_id="ann") == again
    assert store.stats(user_id="ann").total_memories == 1


def test_filters_come_first_then_the_ranking_then_the_limit(store) -> None:
    for i in range(20):
        store.add(f"Important thing number {i} about work", user_id="ann", importance=10)
    store.add("Her hamster is called Biscuit", user_id="ann", importance=1, tags=["pets"])
    store.add("100% of _all_ hamsters bite", user_id="ann", importance=2, tags=["pets", "facts"])
    assert contents(store.search("hamster name Biscuit", user_id="ann", limit=1)) == ["Her hamster is called Biscuit"]
    assert contents(store.search("hamster", user_id="ann", min_importance=2)) == ["100% of _all_ hamsters bite"]
    assert len(store.search("hamster thing", user_id="ann", tags=["PETS", "none"], tag_match="any")) == 2
    assert len(store.search("hamster thing", user_id="ann", tags=["pets", "facts"], tag_match="all")) == 1
    assert store.search("hamster", user_id="ann", tags=["pets", "none"], tag_match="all") == []
    assert store.search("hamster", user_id="ann", limit=0) == []
    assert store.search("%", user_id="ann") == store.search("_", user_id="ann") == []
    assert len(store.search("pets", user_id="ann")) == 2  # a tag is found like a word
    assert store.search("hamster", user_id="ann", categories=["goal"]) == []


def test_times_are_aware_and_recency_counts(store, clock) -> None:
    old = store.add("Went hiking in May", user_id="ann")
    clock.now += 400 * DAY
    new = store.add("Went hiking in June", user_id="ann")
    assert [s.memory.id for s in store.search("hiking", user_id="ann")] == [new.id, old.id]
    between = datetime.fromtimestamp(NOW / 1000, UTC) + timedelta(days=200)
    assert [s.memory.id for s in store.search("hiking", user_id="ann", since=between)] == [new.id]
    assert [s.memory.id for s in store.search("hiking", user_id="ann", until=between.isoformat())] == [old.id]
    assert [s.memory.id for s in store.search("hiking", user_id="ann", since=NOW, until=NOW)] == [old.id]
    with pytest.raises(InvalidMemory, match="since has no time zone"):
        store.search("hiking", user_id="ann", since=datetime(2024, 1, 1))  # noqa: DTZ001 (the mistake)


def test_a_search_is_explained_counts_as_access_and_an_empty_one_gives_the_most_important(store, clock) -> None:
    low, high = store.add("Likes tea", user_id="ann", importance=2), store.add("Likes jam", user_id="ann", importance=9)
    assert [s.memory.id for s in store.search("", user_id="ann")] == [high.id, low.id]
    clock.now += 5
    (hit,) = store.search("tea", user_id="ann", explain=True)
    assert hit.explanation.keys() == {"similarity", "importance", "recency", "age_days"}
    assert hit.explanation["similarity"] * (0.7 + 0.2 * hit.explanation["importance"] + 0.1) == pytest.approx(hit.score)
    assert store.search("tea", user_id="ann")[0].explanation == {}
    read = store.get(low.id, user_id="ann")
    assert (read.access_count, read.last_accessed) == (3, NOW + 5)
    assert store.search("tea", user_id="ann", min_score=1.0) == []


def test_expired_memories_are_out_of_use_and_come_back_when_said_again(store, clock) -> None:
    made = store.add("Is in Rome this week", user_id="ann", ttl=7 * 86_400)
    clock.now += 7 * DAY
    assert store.search("Rome", user_id="ann") == store.all(user_id="ann") == []
    assert store.stats(user_id="ann").total_memories == 0
    assert [m.id for m in store.all(user_id="ann", archived=True)] == [made.id]
    assert store.add("Is in Rome this week", user_id="ann").id == made.id
    assert contents(store.search("Rome", user_id="ann")) == ["Is in Rome this week"]


def test_an_update_changes_what_it_names_and_a_stale_one_nothing(store, clock) -> None:
    made = store.add("Likes tea", user_id="ann", tags=["a"])
    clock.now += 9
    changed = store.update(made.id, user_id="ann", content="Likes coffee", tags=["b"], importance=8, ttl=None)
    assert changed == replace(
        made, content="Likes coffee", tags=("b",), importance=8, updated_at=NOW + 9, revision=changed.revision
    )
    assert contents(store.search("coffee", user_id="ann")) == ["Likes coffee"]
    assert store.search("tea", user_id="ann") == []
    assert store.stats(user_id="ann").top_tags == (("b", 1),)
    with pytest.raises(Conflict, match="read it again"):
        store.update(made.id, user_id="ann", importance=1, expected_revision=made.revision)
    store.add("Likes jam", user_id="ann")
    with pytest.raises(InvalidMemory, match="content equals that of memory"):
        store.update(made.id, user_id="ann", content="likes JAM")
    with pytest.raises(InvalidMemory, match="user_id2: no such field"):
        store.update(made.id, user_id="ann", user_id2="bob")
    assert store.get(made.id, user_id="ann") == replace(changed, access_count=1, last_accessed=NOW + 9)


def test_stats_are_rounded_and_name_the_five_most_used_tags(store) -> None:
    for i, importance in enumerate((3, 3, 4)):
        store.add(f"fact {i}", user_id="ann", importance=importance, tags=["all", *"abcdef"[: i + 3]])
    assert store.stats(user_id="ann") == MemoryStats(3, 3.33, (("a", 3), ("all", 3), ("b", 3), ("c", 3), ("d", 2)))


def test_a_deleted_memory_is_gone_for_good_also_for_stores_that_knew_it(store, db, clock) -> None:
    made, kept = store.add("Likes tea", user_id="ann", tags=["x"]), store.add("Likes milk tea", user_id="ann")
    other = MemoryStore(db, clock=clock)
    assert len(other.search("tea", user_id="ann")) == 2
    assert store.delete(made.id, user_id="ann") is True
    assert store.delete(made.id, user_id="ann") is False
    assert [s.memory.id for s in other.search("tea", user_id="ann")] == [kept.id]
    assert store.stats(user_id="ann").top_tags == ()
    assert store.clear(user_id="ann") == 1
    assert other.search("tea", user_id="ann") == []
    assert store.add("Likes tea", user_id="ann").confirmation_count == 0


def test_too_many_memories_archive_the_least_worth_keeping(db, clock) -> None:
    store = MemoryStore(db, max_memories=10, clock=clock)
    correction = store.add("Jo, not Joe", user_id="ann", category="correction", confidence=0.1)
    for i in range(12):
        clock.now += DAY
        store.add(f"fact {i}", user_id="ann", confidence=0.9 if i != 5 else 0.2)
    used = store.all(user_id="ann")
    assert len(used) == 10
    assert correction.id in {m.id for m in used}
    gone = [m for m in store.all(user_id="ann", archived=True) if m.archived]
    assert {m.archived for m in gone} == {"over max_memories"}
    assert "fact 5" in {m.content for m in gone}
    assert store.update(gone[0].id, user_id="ann", archived=None).archived is None
    for wrong in (0, 2.5, "5", True):
        with pytest.raises(InvalidMemory, match="max_memories must be a whole number of at least 1, or None"):
            MemoryStore(db, max_memories=wrong)


@pytest.mark.parametrize("way", ["add", "import"])
@pytest.mark.parametrize("most", [1, 3, 20])
def test_a_full_store_keeps_what_is_new_though_all_others_are_surer_and_in_use(db, clock, most, way) -> None:
    store = MemoryStore(db, max_memories=most, clock=clock)
    for i in range(most):
        store.add(f"Project {i} uses Python", user_id="ann", category="correction" if i < 3 else "context")
    clock.now += DAY
    for i in range(most):
        store.add(f"Project {i} uses Python", user_id="ann")
        store.search(f"Project {i}", user_id="ann")
    if way == "add":
        made = store.add("Is allergic to nuts", user_id="ann", confidence=0.1)
        assert store.get(made.id, user_id="ann") == made
    else:
        store.import_json({"facts": [{"content": "Is allergic to nuts", "confidence": 0.1}]}, user_id="ann")
    assert "Is allergic to nuts" in {m.content for m in store.all(user_id="ann")}
    assert len(store.all(user_id="ann")) == most
    assert len(store.all(user_id="ann", archived=True)) == most + 1


def test_of_several_new_ones_the_used_give_way_before_the_new(db, clock) -> None:
    store = MemoryStore(db, max_memories=20, clock=clock)
    for i in range(20):
        store.add(f"Project {i} uses Python", user_id="ann")
    clock.now += 10 * DAY
    for i in range(20):
        store.search(f"Project {i}", user_id="ann", limit=3)
    for food in ("nuts", "milk", "eggs"):
        clock.now += 1
        store.add(f"Is allergic to {food}", user_id="ann")
    assert len([m for m in store.all(user_id="ann") if "allergic" in m.content]) == 3


@pytest.mark.parametrize("count", [3, 520])
def test_a_memory_is_found_by_its_id_as_the_block_names_it(clock, count) -> None:
    with MemoryStore(":memory:", clock=clock) as store:
        made = [store.add(f"Note number {i}", user_id="ann", importance=i % 9 + 1) for i in range(count)]
        for memory in made[:: max(1, count // 5)]:
            assert store.search(f" {memory.id} ", user_id="ann", limit=1)[0].memory.content == memory.content
        store.update(made[0].id, user_id="ann", archived="stale")
        assert store.search(made[0].id, user_id="ann") == []
        assert store.search(made[1].id, user_id="bob") == []
        assert store.search("nul \x00 and half \ud800", user_id="ann") == []


def test_a_full_store_reads_no_archived_memory_when_one_is_added(db, clock) -> None:
    store = MemoryStore(db, max_memories=2, clock=clock)
    store.add("Was in Rome", user_id="ann", ttl=1)
    clock.now += 2000
    for i in range(4):
        store.add(f"fact {i}", user_id="ann")
    damage = "UPDATE autocontext_memories SET importance = 9 WHERE archived IS NOT NULL OR expires_at IS NOT NULL"

    def work():
        yield Statement(damage)

    db.write(work)  # which only who reads it notices
    assert store.add("fact 4", user_id="ann").archived is None
    with pytest.raises(StoreCorruptError):
        MemoryStore(db, clock=clock).all(user_id="ann")


def test_a_search_finds_also_while_somebody_else_writes(tmp_path) -> None:
    with MemoryStore(tmp_path / "a.db") as store:
        made = store.add("Likes tea", user_id="ann")
        with written(tmp_path / "a.db"):
            hits = [*store.search("tea", user_id="ann"), *asyncio.run(store.asearch("tea", user_id="ann"))]
            assert contents(hits) == ["Likes tea"] * 2
        assert store.get(made.id, user_id="ann").access_count == 0
        store.search("tea", user_id="ann")
        assert store.get(made.id, user_id="ann").access_count == 1


def test_what_an_earlier_version_has_stored_can_be_updated(store) -> None:
    made = store.add("Likes tea", user_id="ann", tags=["drinks"])
    old = replace(made, category="c" * 101, tags=("t" * 101, "Has blanks"), content="x" * 100_001)
    store.database.write(lambda: statements.put(old, made))
    changed = store.update(made.id, user_id="ann", importance=9)
    assert changed == replace(old, importance=9, updated_at=changed.updated_at, revision=changed.revision)
    assert store.get(made.id, user_id="ann") == changed
    for field, value in (("category", "c" * 101), ("tags", ["t" * 101]), ("content", "x" * 100_001)):
        with pytest.raises(InvalidMemory, match=field):
            store.update(made.id, user_id="ann", **{field: value})


def test_the_async_twins_do_the_same(store) -> None:
    async def work():
        made = await store.aadd("Likes tea", user_id="ann", tags=["drinks"])
        found = await store.asearch("tea", user_id="ann")
        changed = await store.aupdate(made.id, user_id="ann", importance=9)
        stats = await store.astats(user_id="ann")
        document = await store.aexport_json(user_id="ann")
        assert await store.aget(made.id, user_id="ann") == replace(changed, access_count=1)
        assert len(await store.aall(user_id="ann")) == 1
        gone = await store.adelete(made.id, user_id="ann")
        await store.aimport_json(document, user_id="ann")
        report = await store.aapply_update({"factsToRemove": [made.id]}, user_id="ann")
        assert (report.removed, await store.arevision(user_id="ann")) == (1, store.revision(user_id="ann"))
        cleared = await store.aclear(user_id="ann")
        if store.database.name != ":memory:":
            await store.database.aclose()
        return contents(found), changed.importance, stats.total_memories, len(document["facts"]), gone, cleared

    assert asyncio.run(work()) == (["Likes tea"], 9, 1, 1, True, 1)


def test_many_threads_lose_nothing_and_make_nothing_twice(store) -> None:
    def work(worker: int) -> None:
        for i in range(6):
            store.add(f"worker {worker} fact {i}", user_id="ann")
            store.add(f"shared fact {i}", user_id="ann")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.stats(user_id="ann").total_memories == 30
    shared = [m for m in store.all(user_id="ann") if m.content.startswith("shared")]
    assert [m.confirmation_count for m in shared] == [3] * 6


def test_powers_and_fractions_are_no_digits(store) -> None:
    said = ["The limit is 102 kg", "The limit is 10² kg", "Takes 11/2 hours", "Takes 1½ hours", "H₂O", "H2O"]
    for content in said:
        store.add(content, user_id="ann")
    assert {m.content for m in store.all(user_id="ann")} == set(said)
    assert store.add("The LIMIT is １０² kg", user_id="ann").content == "The limit is 10² kg"


@pytest.mark.parametrize("field", ["categories", "tags"])
@pytest.mark.parametrize("wrong", [[1], 1, "tea", [None]])
def test_a_search_names_what_is_no_list_of_strings(store, field, wrong) -> None:
    with pytest.raises(InvalidMemory, match=field):
        store.search("tea", user_id="ann", **{field: wrong})


# --------------------------------------------------------------------------------------------------- memory.json
FACT = {
    "id": "fact_12ab34cd", "content": "Prefers pytest", "category": "preference", "confidence": 0.9,
    "createdAt": "2023-05-01T10:00:00Z", "source": "thread-9",
}  # fmt: skip
DOCUMENT = {
    "version": "1.0",
    "lastUpdated": "2023-05-02T10:00:00Z",
    "user": {"workContext": {"summary": "Writes compilers", "updatedAt": "2023-05-01T10:00:00Z"}},
    "history": {"recentMonths": {"summary": "Moved to Oslo", "updatedAt": ""}},
    "facts": [
        FACT,
        {
            "id": "fact_0",
            "content": "Is Jo",
            "category": "correction",
            "confidence": 1,
            "sourceError": "Joe",
            "expected_valid_days": 9,
            "mine": [1],
        },
    ],
}


def test_004_7_a_document_comes_in_and_goes_out(store, tmp_path) -> None:
    report = store.import_json(DOCUMENT, user_id="ann")
    assert (report.added, report.confirmed, report.skipped, report.sections) == (2, 0, (), 2)
    out = store.export_json(tmp_path / "memory.json", user_id="ann")
    assert json.loads((tmp_path / "memory.json").read_text()) == out
    assert [p.name for p in tmp_path.iterdir() if "memory.json" in p.name] == ["memory.json"]
    pytest_fact, jo = sorted(out["facts"], key=lambda f: f["id"], reverse=True)
    assert {**pytest_fact, "createdAt": "2023-05-01T10:00:00Z"} == {**FACT, "importance": 5}
    assert (jo["sourceError"], jo["mine"], jo["source"]) == ("Joe", [1], "unknown")
    assert out["user"]["workContext"]["summary"] == "Writes compilers"
    assert out["history"]["earlierContext"] == {"summary": "", "updatedAt": ""}
    again = store.import_json(tmp_path / "memory.json", user_id="bob")
    assert again.added == 2
    assert store.export_json(user_id="bob")["facts"] == out["facts"]
    kept = store.get("fact_0", user_id="ann")
    # Days of validity ask for a review; they never drop a memory.
    assert (kept.expires_at, kept.metadata["expected_valid_days"]) == (None, 9)


def test_importing_again_confirms_and_never_overwrites_what_is_newer(store) -> None:
    store.import_json(DOCUMENT, user_id="ann")
    store.update("fact_12ab34cd", user_id="ann", content="Prefers nose")
    report = store.import_json(DOCUMENT, user_id="ann")
    assert (report.added, report.confirmed) == (0, 1)
    assert report.skipped == ((0, "memory fact_12ab34cd was changed after this document was written"),)
    assert store.get("fact_12ab34cd", user_id="ann").content == "Prefers nose"
    with pytest.raises(Conflict, match="at revision"):
        store.import_json(DOCUMENT, user_id="ann", expected_revision=0)


def test_what_was_changed_in_the_millisecond_of_an_export_stays() -> None:
    store = MemoryStore(":memory:", clock=lambda: 1_000)
    tea = store.add("Prefers tea", user_id="ann")
    document = store.export_json(user_id="ann")
    store.update(tea.id, user_id="ann", content="Prefers coffee")
    report = store.import_json(document, user_id="ann")
    assert report.skipped == ((0, f"memory {tea.id} was changed after this document was written"),)
    assert [m.content for m in store.all(user_id="ann")] == ["Prefers coffee"]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("{", StoreCorruptError, "is not JSON"),
        ("[]", StoreCorruptError, "not a memory.json"),
        ('{"facts": {}}', StoreCorruptError, "not a memory.json"),
        ('{"version": "2.0", "facts": []}', StateError, "version 2.0"),
        ("\xff", StoreCorruptError, "is not JSON"),
    ],
)
def test_a_damaged_file_is_told_and_changes_nothing(store, tmp_path, text, error, says) -> None:
    store.import_json(DOCUMENT, user_id="ann")
    before = store.export_json(user_id="ann")["facts"]
    file = tmp_path / "memory.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(error, match=says):
        store.import_json(file, user_id="ann")
    assert store.export_json(user_id="ann")["facts"] == before
    with pytest.raises(OSError, match="none"):
        store.import_json(tmp_path / "none.json", user_id="ann")


def test_entries_that_are_no_facts_are_named_and_the_rest_comes_in(store) -> None:
    entries = [
        3,
        {"content": " "},
        {"content": "x" * 100_001},
        {"content": "kept", "confidence": float("nan"), "createdAt": "?"},
    ]
    report = store.import_json({"facts": entries}, user_id="ann")
    assert [place for place, _ in report.skipped] == [0, 1, 2]
    (kept,) = store.all(user_id="ann")
    assert (kept.confidence, kept.created_at) == (0.0, NOW)


NEVER = "9999-12-31T23:59:59.9999999Z"  # what .NET and SQL Server write


@pytest.mark.parametrize(
    "odd",
    [
        {"confirmationCount": True},
        {"confirmationCount": 10**30},
        {"confirmationCount": [2]},
        {"confidence": -0.0},
        {"confidence": "0.9"},
        {"importance": "7"},
        {"createdAt": NEVER},
        {"expiresAt": NEVER},
        {"expiresAt": 10**20},
        {"content": "half \ud800 of a pair", "tags": ["\ud800"]},
        {"source": Kind.GOAL, "category": Kind.GOAL, "id": Kind.GOAL},
    ],
)
def test_an_odd_value_of_a_document_costs_no_memory(store, db, odd) -> None:
    store.add("Likes tea", user_id="ann")
    document = {"user": {"workContext": {"summary": "half \ud800", "updatedAt": NEVER}}}
    report = store.import_json({**document, "facts": [{"content": "Likes jam", **odd}]}, user_id="ann")
    assert (report.added, report.sections) == (1, 1)
    again = MemoryStore(db, clock=Clock())
    assert len(again.all(user_id="ann")) == 2
    out = again.export_json(user_id="ann")
    assert store.import_json(json.loads(json.dumps(out)), user_id="bob").added == 2
    assert again.export_json(user_id="bob")["facts"] == out["facts"]


@pytest.mark.parametrize(
    "odd", [{"tags": 5}, {"tags": "python"}, {"id": "\ud800"}, {"source": "\ud800"}, {"expiresAt": [1]}]
)
def test_an_entry_that_cannot_be_read_is_named_and_the_others_come_in(store, odd) -> None:
    report = store.import_json({"facts": [{"content": "odd", **odd}, {"content": "good"}]}, user_id="ann")
    [(place, why)] = report.skipped
    assert (report.added, place) == (1, 0)
    assert next(iter(odd)) in why


def test_what_is_added_reads_back_as_it_was_answered(store, db, clock) -> None:
    tea = store.add("Likes tea", user_id=Kind.GOAL, confidence=-0.0, importance=7.0)
    clock.now += 1
    rome = store.add("Knows Rome", user_id="goal", category=Kind.GOAL, source=Kind.GOAL, confidence=1, ttl=10**12)
    assert [tea, rome] == MemoryStore(db, clock=clock).all(user_id="goal") == store.all(user_id=Kind.GOAL)
    assert contents(store.search("Rome", user_id=Kind.GOAL)) == ["Knows Rome"]
    assert store.export_json(user_id="goal")["facts"][1]["expiresAt"] == "9999-12-31T23:59:59.999Z"


def test_a_clock_may_give_parts_of_milliseconds_but_no_text(db) -> None:
    store = MemoryStore(db, clock=lambda: NOW + 0.25)
    made = store.add("Likes tea", user_id="ann")
    assert store.all(user_id="ann") == [made]
    assert made.created_at == NOW
    with pytest.raises(InvalidMemory, match="clock must be"):
        MemoryStore(db, clock=lambda: None).add("Likes jam", user_id="ann")


def test_what_a_model_learned_reaches_the_store(store, clock) -> None:
    acme, rome = store.add("Works at Acme", user_id="ann"), store.add("Lives in Rome", user_id="ann")
    store.add("Works at Acme", user_id="bob")
    clock.now += 1000
    update = parse_update(
        json.dumps(
            {
                "user": {"workContext": {"summary": "Builds bolts", "shouldUpdate": True}},
                "factsToRemove": [acme.id, "unknown", 7, "\ud800\x00"],
                "newFacts": [
                    {"content": "Works at Bolt", "confidence": "0.95", "category": "knowledge"},
                    {"content": "Guess", "confidence": 0.3},
                    {"content": "x" * 100_001, "confidence": 1},
                ],
            }
        )
    )

    report = store.apply_update(update, user_id="ann", source="t1")
    assert (report.added, report.confirmed, report.removed, report.sections) == (1, 0, 1, 1)
    assert [place for place, _ in report.skipped] == [1]
    kept, new = store.all(user_id="ann")
    assert (kept, new.content, new.category, new.source) == (rome, "Works at Bolt", "knowledge", "t1")
    assert store.get(acme.id, user_id="ann").archived == "removed by an update"
    assert store.document(user_id="ann")["user"]["workContext"]["summary"] == "Builds bolts"
    assert len(store.all(user_id="bob")) == 1


def test_an_update_confirms_what_the_store_has_and_may_say_anew_what_it_removes(store) -> None:
    tea, jam = store.add("Likes tea", user_id="ann"), store.add("Likes jam", user_id="ann")
    facts = [{"content": content, "confidence": 0.9} for content in ("likes TEA", "Likes jam")]
    revision = store.revision(user_id="ann")
    with pytest.raises(Conflict, match="at revision"):
        store.apply_update({"newFacts": facts}, user_id="ann", expected_revision=revision - 1)
    report = store.apply_update(
        {"newFacts": facts, "factsToRemove": [tea.id]}, user_id="ann", expected_revision=revision
    )
    assert (report.added, report.confirmed, report.removed) == (0, 2, 1)
    assert {m.id: m.confirmation_count for m in store.all(user_id="ann")} == {tea.id: 1, jam.id: 1}
    assert store.apply_update({"user": 3, "newFacts": "x", "factsToRemove": None}, user_id="ann").added == 0


# --------------------------------------------------------------------------------------------------- bad input
@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", " \n"),
        ("content", 3),
        ("content", "x" * 100_001),
        ("importance", 0),
        ("importance", 11),
        ("importance", 2.5),
        ("importance", True),
        ("confidence", 1.1),
        ("confidence", float("nan")),
        ("confidence", 10**400),
        ("confidence", "1"),
        ("tags", "one"),
        ("tags", [3]),
        ("ttl", 0),
        ("ttl", float("inf")),
        ("ttl", "60"),
        ("context", {1, 2}),
        ("context", float("nan")),
        ("category", None),
        ("source", 3),
        ("metadata", {"a": object()}),
    ],
)
def test_bad_fields_are_named_and_nothing_is_stored(store, field, value) -> None:
    fields = {"content": "fine", field: value}
    with pytest.raises(InvalidMemory, match="list of strings" if field == "tags" and value == "one" else field):
        store.add(fields.pop("content"), user_id="ann", **fields)
    assert store.all(user_id="ann") == []


def test_a_time_beyond_any_float_is_the_longest(store) -> None:
    assert store.add("fine", user_id="ann", ttl=10**400).expires_at == NOW + 10**15


@given(st.text(min_size=1, max_size=40).filter(str.strip), st.lists(st.text(max_size=12), max_size=4))
@settings(max_examples=share(25), deadline=None, suppress_health_check=WITH_FIXTURES)
def test_any_text_is_stored_found_by_id_and_exported(store, content, tags) -> None:
    try:
        made = store.add(content, user_id="ann", tags=tags)
    except InvalidMemory:
        assert not content.replace("\x00", "").strip()
        return
    assert store.get(made.id, user_id="ann") == made
    json.dumps(store.export_json(user_id="ann"))
    store.delete(made.id, user_id="ann")


# ------------------------------------------------------------------------------------------------------ formulas
def test_dynamic_importance_is_the_original_s_formula() -> None:
    memory = Memory(id="a", user_id="u", content="x", importance=5, confidence=1.0, created_at=NOW, access_count=2)
    assert dynamic_importance(memory, NOW) == pytest.approx(5 + 0.2 + 0.1 + 0.1)
    assert dynamic_importance(memory, NOW + 15 * DAY) == pytest.approx(5 + 0.1 + 0.1 + 0.1)
    assert dynamic_importance(replace(memory, access_count=99), NOW + 60 * DAY) == pytest.approx(5 + 0.3 + 0.1)
    assert dynamic_importance(replace(memory, importance=10), NOW) == 10
    assert dynamic_importance(replace(memory, importance=1, confidence=0.0, access_count=0), NOW + 99 * DAY) == 1


def test_004_10_recency_and_retention() -> None:
    memory = Memory(id="a", user_id="u", content="x", created_at=NOW, confidence=1.0)
    assert recency(memory, NOW + 30 * DAY) == 1
    assert recency(memory, NOW + 130 * DAY) == pytest.approx(0.3679, abs=1e-4)
    assert retention(memory, NOW) == pytest.approx(0.65 + 0.25 * 0.5)
    said_again = replace(memory, last_confirmed_at=NOW, access_count=1, last_accessed=NOW)
    assert retention(said_again, NOW) == pytest.approx(1.0)
    assert retention(said_again, NOW + 90 * DAY) == pytest.approx(0.65 + 0.125 + 0.1 * 2.718281828**-3)


def test_tags_are_normalised_and_a_closed_vocabulary_maps_only_what_it_names() -> None:
    assert normalised_tags(["Work Life", "work_life", " C++!", "ÉTÉ", "", "?"]) == ("work_life", "c", "été")
    closed = {"allowed": {"art", "meeting"}, "synonyms": {"painting": "art"}}
    assert normalised_tags(["painting", "paint", "Meeting", "pain"], **closed) == ("art", "meeting")


def test_methods_are_called_what_they_are() -> None:
    twins = (MemoryStore.add, MemoryStore.aadd)
    assert [(f.__name__, f.__qualname__) for f in twins] == [("add", "MemoryStore.add"), ("aadd", "MemoryStore.aadd")]


def test_a_with_block_closes_what_the_store_has_opened() -> None:
    async def main() -> MemoryStore:
        async with MemoryStore(":memory:") as opened:
            await opened.aadd("x", user_id="ann")
            return opened

    with MemoryStore(":memory:") as opened:
        opened.add("x", user_id="ann")
    for store in (opened, asyncio.run(main())):
        with pytest.raises(StoreError, match="is closed"):
            store.all(user_id="ann")


@pytest.mark.parametrize("field", ["context", "metadata"])
def test_a_whole_number_of_thousands_of_digits_is_refused_by_name(store, field) -> None:
    kept, value = store.add("Prefers tea", user_id="ann"), {"count": [10**4300]}
    with pytest.raises(InvalidMemory, match=f"{field} is not a JSON value"):
        store.add("Prefers coffee", user_id="ann", **{field: value})
    with pytest.raises(InvalidMemory, match=f"{field} is not a JSON value"):
        store.update(kept.id, user_id="ann", **{field: value})
    assert store.all(user_id="ann") == [kept]
