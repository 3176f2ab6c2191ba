"""Users with many memories: a stored index leads to those that a query may mean, and the rest is not read."""

import asyncio
from contextlib import closing
from itertools import product
from random import Random

import pytest

from autocontext import Msg
from autocontext.errors import StoreCorruptError
from autocontext.memories import MemoryInjector, MemoryStore
from autocontext.memories.large import FEW, MOST, MemoryBlock, candidates
from autocontext.memories.schema import SCHEMA
from autocontext.ranking import TfidfRanker
from autocontext.stores.copying import copy_parts
from autocontext.stores.database import Statement
from tests.costs import CountingDatabase
from tests.extras import need
from tests.stores.homes import HOMES, database
from tests.stores.races import written

MANY = FEW + 100
USER = {"user_id": "ann"}


def filled(store, count=MANY, user="ann"):
    facts = [
        {"id": f"fact_{i}", "content": f"Machine {i} stands in room {i % 50} beside the printer", "confidence": 0.5}
        for i in range(count)
    ]
    store.import_json({"version": "1.0", "facts": facts}, user_id=user)
    return store


@pytest.fixture(params=HOMES)
def store(request, tmp_path):
    with database(request.param, tmp_path) as db:
        yield filled(MemoryStore(db))


def found(store, query, **options):
    return [hit.memory.content for hit in store.search(query, **USER, **options)]


def blocks(store):
    return store.database.read(lambda: (yield Statement("SELECT user_id, body FROM autocontext_memory_block")))


def outside(store):
    sql = "SELECT id FROM autocontext_memories WHERE block IS NULL"
    return {id_ for (id_,) in store.database.read(lambda: (yield Statement(sql)))}


def test_words_parts_of_words_and_chinese_words_of_two_characters_are_found(store) -> None:
    store.add("She prefers pytest", **USER)
    store.add("用户喜欢配置文件", **USER)
    assert found(store, "What does she prefer?")[0] == "She prefers pytest"
    assert found(store, "tests", limit=1) == ["She prefers pytest"]
    assert found(store, "配置") == ["用户喜欢配置文件"]
    assert found(store, "machine 77", limit=1) == ["Machine 77 stands in room 27 beside the printer"]
    assert found(store, "the of and") == found(store, "zebra") == []
    assert asyncio.run(store.asearch("pytest", **USER))[0].memory.content == "She prefers pytest"
    assert blocks(store)


def test_filters_come_before_the_ranking_and_the_limit(store) -> None:
    kept = store.add("Machine 77 is the user's own", tags=["own"], importance=9, **USER)
    assert found(store, "printer room", tags=["own"]) == []
    assert found(store, "machine", tags=["own"]) == [kept.content]
    assert found(store, "", min_importance=8) == [kept.content]
    assert len(found(store, "", limit=300)) == 300
    store.update(kept.id, archived="old", **USER)
    assert found(store, "machine", tags=["own"]) == found(store, "", min_importance=8) == []


def test_other_users_see_nothing_of_it(store) -> None:
    filled(store, user="bob")
    store.add("The secret word is xyzzy", user_id="bob")
    assert found(store, "xyzzy") == []
    assert {user for user, _ in blocks(store)} == {"ann"}
    assert store.clear(user_id="bob") == MANY + 1
    assert len(store.all(**USER)) == MANY


@pytest.mark.parametrize("change", ["delete", "update", "clear"])
def test_a_block_goes_with_what_it_says(store, change) -> None:
    found(store, "machine")
    before = blocks(store)
    if change == "delete":
        store.delete("fact_7", **USER)
    elif change == "update":
        store.update("fact_7", content="Something else", **USER)
    else:
        store.clear(**USER)
    left = blocks(store)
    assert len(left) == (0 if change == "clear" else len(before) - 1)
    assert "fact_7" not in {id_ for _, body in left for id_ in MemoryBlock.unpacked(body).ids}
    assert "Machine 7 stands in room 7 beside the printer" not in found(store, "machine 7")
    assert len(outside(store)) <= FEW


def test_what_is_not_said_anew_stays_in_its_block(store) -> None:
    found(store, "machine")
    before = blocks(store)
    store.update("fact_7", confidence=0.9, importance=2, archived="old", **USER)
    store.add("Machine 8 stands in room 8 beside the printer", **USER)
    assert blocks(store) == before


def test_a_damaged_block_is_made_anew(store) -> None:
    found(store, "machine")
    store.database.write(lambda: (yield Statement("UPDATE autocontext_memory_block SET body = :b", {"b": b"x"})))
    with MemoryStore(store.database) as again:
        assert len(found(again, "machine 77")) == 5


@pytest.mark.slow
def test_a_search_reads_as_many_rows_at_every_size(tmp_path) -> None:
    read = []
    for count in (MOST, 4 * MOST):
        database = CountingDatabase(tmp_path / f"{count}.db")
        with closing(database):
            store = filled(MemoryStore(database), count)
            found(store, "machine 77")
            database.rows = 0
            found(store, "machine 77")
            read.append([database.rows - count // MOST])  # without the numbers of the blocks
            database.rows = 0
            store.document_about("machine 77", **USER)
            read[-1].append(database.rows - count // MOST)
    assert read[0] == read[1]


class Bodies(CountingDatabase):
    """Counts the blocks that are read."""

    read_blocks = 0

    def count(self, sql, rows):
        self.read_blocks += sql.startswith("SELECT body")


def test_a_search_after_a_delete_reads_no_block(tmp_path) -> None:
    with MemoryStore(database := Bodies(tmp_path / "a.db")) as store:
        filled(store, 2 * MOST)
        found(store, "machine 7")
        before = database.read_blocks
        store.delete("fact_7", **USER)
        assert found(store, "machine 8", limit=1) == ["Machine 8 stands in room 8 beside the printer"]
        assert (database.read_blocks - before, len(blocks(store)), outside(store)) == (0, 2, set())


def test_a_request_gets_what_is_near_what_is_sure_and_corrections(store) -> None:
    store.add("Never restart the printer at noon", category="correction", **USER)
    store.add("The user is called Ann", confidence=1.0, **USER)
    outgoing, report = MemoryInjector(store, **USER).inject([Msg(role="user", content="Where is machine 77?")])
    block = outgoing[0].text
    for line in ("Never restart", "called Ann", "Machine 77 stands"):
        assert line in block
    assert len(report.selected) + len(report.dropped) < FEW
    mine = MemoryInjector(store, **USER, ranker=TfidfRanker()).inject([Msg(role="user", content="Machine 77?")])[1]
    assert len(mine.selected) + len(mine.dropped) == MANY + 2


def test_an_encrypted_index_says_nothing(tmp_path) -> None:
    need("crypto")
    from autocontext.stores import EncryptedDatabase

    with database("file", tmp_path) as db, MemoryStore(EncryptedDatabase(db, b"k" * 32)) as store:
        filled(store).add("Our codeword is xyzzy", **USER)
        assert found(store, "xyzzy") == ["Our codeword is xyzzy"]
        sealed = db.read(lambda: (yield Statement("SELECT body FROM autocontext_memory_block")))
        assert sealed
        for (body,) in sealed:
            with pytest.raises(Exception, match="damaged"):
                MemoryBlock.unpacked(body)


def block_of(contents):
    return MemoryBlock.of([(content, content, "[]", "context") for content in contents])


def test_a_frequent_word_leads_to_no_more_than_20_000_memories() -> None:
    blocks = [block_of(f"machine {i}" for i in range(1000)), *[block_of(["machine"] * 1000)] * 29]
    assert len(candidates(blocks, "machine")) == 20_000
    assert (candidates(blocks, "machine 77")[0], len(candidates(blocks, "machine 77"))) == ("machine 77", 20_000)


def test_a_memory_is_found_by_its_words_though_each_is_frequent() -> None:
    words = (
        "Anna Bruno Carla David Elena Felix Greta Henry", "paints bought sold repairs teaches studies borrows breaks",
        "用户 pianos docker chess sushi violins python bikes", "Munich Paris Lisbon Oslo Vienna Prague Madrid Bonn",
    )  # fmt: skip
    facts = [" ".join(fact) for fact in product(*(row.split() for row in words))]
    Random(1).shuffle(facts)
    blocks = [block_of(facts[start : start + 1000]) for start in range(0, len(facts), 1000)]
    assert [candidates(blocks, fact)[0] for fact in facts[::100]] == facts[::100]


def test_the_score_of_a_memory_stays_when_a_user_gets_an_index(tmp_path) -> None:
    with MemoryStore(tmp_path / "a.db") as store:
        filled(store, FEW - 2)
        store.add("Is allergic to peanuts and hazelnuts", **USER)
        store.add("咖啡店的经理对花生过敏", **USER)
        queries = ("Which food is she allergic to?", "machine 77", "Which printer?", "谁对花生过敏")

        def scores():
            return [store.search(query, **USER, limit=1)[0].score for query in queries]

        before = scores()
        store.add("Something else entirely", **USER)
        assert scores() == pytest.approx(before, abs=0.03)
        assert blocks(store)


def test_a_copy_is_indexed_anew(tmp_path) -> None:
    with database("file", tmp_path) as db, database("memory", tmp_path) as other:
        store = filled(MemoryStore(db))
        found(store, "machine")
        copy_parts(db, other, [SCHEMA], print)
        copied = MemoryStore(other)
        assert (len(blocks(store)), len(blocks(copied)), len(outside(copied))) == (1, 0, MANY)
        assert found(copied, "machine 77", limit=1) == ["Machine 77 stands in room 27 beside the printer"]


@pytest.mark.slow
def test_archived_memories_take_no_room_from_those_in_use(tmp_path) -> None:
    with database("file", tmp_path) as db:
        store = filled(MemoryStore(db), 3 * FEW)
        store.add("Machine zulu stands in the cellar beside the printer", confidence=0.5, **USER)
        store.add("Never restart machine zulu", category="correction", confidence=0.5, **USER)
        old = [
            {"id": f"old_{i}", "content": f"Machine zulu stood in room {i}", "category": "correction"}
            for i in range(900)
        ]
        store.import_json({"version": "1.0", "facts": old}, user_id="ann")
        for fact in old:
            store.update(fact["id"], archived="moved", **USER)
        block = MemoryInjector(store, **USER).inject([Msg(role="user", content="Where is machine zulu?")])[0][0].text
        assert "in the cellar" in block
        assert "Never restart" in block


@pytest.mark.slow
def test_filters_leave_out_no_match_that_only_frequent_words_lead_to(tmp_path) -> None:
    with database("file", tmp_path) as db:
        store = filled(MemoryStore(db), 3 * FEW)
        for i in range(5):
            store.add(f"Machine rule {i}", category="correction", **USER)
        store.import_json(
            {"version": "1.0", "facts": [{"id": f"z{i}", "content": f"Zulu note {i}"} for i in range(250)]},
            user_id="ann",
        )
        assert len(found(store, "zulu machine", categories=["correction"], limit=9)) == 5


def test_the_last_words_of_a_long_text_count(store) -> None:
    store.add("A zebrafish lives in the hall", **USER)
    words = " ".join(f"word{n}" for n in range(300))
    assert found(store, f"{words} zebrafish", limit=1) == ["A zebrafish lives in the hall"]
    said = [Msg(role="user", content=words), Msg(role="user", content="Where is the zebrafish?")]
    outgoing, _ = MemoryInjector(store, **USER).inject(said)
    assert any("lives in the hall" in m.text for m in outgoing)


def test_damaged_tags_break_no_search(store) -> None:
    tags = "UPDATE autocontext_memories SET tags = 'x' WHERE id = 'fact_3'"
    store.database.write(lambda: (yield Statement(tags)))
    assert found(store, "machine 77", limit=1) == ["Machine 77 stands in room 27 beside the printer"]


def test_a_user_without_memories_has_no_candidates(tmp_path) -> None:
    with database("file", tmp_path) as db:
        store = filled(MemoryStore(db))
        large = store._large
        store.clear(**USER)
        assert large.near("ann", "machine", (), 10, 0) == []


def test_the_surest_memories_are_a_quarter_of_the_candidates_at_least(tmp_path) -> None:
    with database("file", tmp_path) as db:
        store = filled(MemoryStore(db), 30)
        lasting = [store.add(f"She likes number {n}", confidence=0.9 - n / 10, **USER) for n in range(3)]
        passing = [store.add(f"She waits for train {n}", confidence=0.95, ttl=60, **USER) for n in range(6)]
        later = passing[0].expires_at + 1_000
        for count, found in ((8, lasting[:2]), (9, lasting)):
            near = store._large.near("ann", "", (), count, later)
            assert {memory.content for memory in near} == {memory.content for memory in found}


def test_a_request_needs_no_index_that_cannot_be_written(tmp_path) -> None:
    with MemoryStore(tmp_path / "a.db") as store:
        filled(store)
        with written(tmp_path / "a.db"):
            outgoing, _ = MemoryInjector(store, **USER).inject([Msg(role="user", content="Where is machine 77?")])
            assert "room 27" in outgoing[0].text
        assert blocks(store) == []


def test_a_damaged_encrypted_memory_is_an_error_and_no_endless_search(tmp_path) -> None:
    need("crypto")
    from autocontext.stores import EncryptedDatabase

    with database("file", tmp_path) as db, MemoryStore(EncryptedDatabase(db, b"k" * 32)) as store:
        filled(store, MOST + 9)
        found(store, "machine 77")
        other = "(SELECT content FROM autocontext_memories WHERE block IS NOT NULL LIMIT 1)"
        sql = f"UPDATE autocontext_memories SET content = {other} WHERE block IS NULL"
        db.write(lambda: (yield Statement(sql)))
        with pytest.raises(StoreCorruptError):
            found(store, "machine 78")
