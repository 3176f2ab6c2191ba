"""One contract for every database: transactions, errors told in one line, schema versions."""

import asyncio
import contextlib
import gc
import random
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from autocontext import AutoContextMemory
from autocontext.errors import StoreCorruptError, StoreError, StoreVersionError
from autocontext.stores.database import Schema, Statement
from autocontext.stores.opening import open_database
from tests.extras import need
from tests.stores.homes import HOMES, SERVER, database, need_server, own_schema

NOTES = Schema(
    "notes", (("CREATE TABLE autocontext_notes (id TEXT PRIMARY KEY, n BIGINT, body BYTEA, x DOUBLE PRECISION)",),)
)


@pytest.fixture(params=HOMES)
def db(request, tmp_path):
    with database(request.param, tmp_path) as opened:
        opened.ensure(NOTES)
        yield opened


def put(id_, n=1, body=b"", x=0.5):
    yield Statement(
        "INSERT INTO autocontext_notes VALUES (:id, :n, :body, :x) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
        {"id": id_, "n": n, "body": body, "x": x},
    )


def rows():
    return (yield Statement("SELECT id, n, body, x FROM autocontext_notes ORDER BY id"))


def test_values_come_back_as_they_went(db):
    db.write(lambda: put("a", 2**62, bytes(range(256)), 0.1))
    db.write(lambda: put("b", None, b"\x00", -1e300))
    assert db.read(rows) == [("a", 2**62, bytes(range(256)), 0.1), ("b", None, b"\x00", -1e300)]


def test_many_parameters_run_in_one_transaction(db):
    def many(count):
        yield Statement(
            "INSERT INTO autocontext_notes (id, n) VALUES (:id, :n)", [{"id": f"{i:03}", "n": i} for i in range(count)]
        )

    db.write(lambda: many(0))
    db.write(lambda: many(50))
    assert [n for _, n, _, _ in db.read(rows)] == list(range(50))


def test_a_failing_work_leaves_nothing(db):
    def half():
        yield from put("a")
        raise KeyError

    with pytest.raises(KeyError):
        db.write(half)
    assert db.read(rows) == []
    db.write(lambda: put("b"))
    assert len(db.read(rows)) == 1


def test_async_twins_do_the_same(db):
    async def go():
        await asyncio.gather(*(db.awrite(lambda i=i: put(str(i), i)) for i in range(8)))
        found = await db.aread(rows)
        await db.aclose() if db.name != ":memory:" else None
        return found

    assert [n for _, n, _, _ in asyncio.run(go())] == list(range(8))


def test_writers_in_many_threads_wait_for_each_other(db):
    db.write(lambda: put("sum", 0))

    def add_one():
        # A change that reads first is safe when it says so in the statement: compare and set.
        [(n,)] = yield Statement("SELECT n FROM autocontext_notes WHERE id = 'sum'")
        done = yield Statement(
            "UPDATE autocontext_notes SET n = :new WHERE id = 'sum' AND n = :old RETURNING n", {"new": n + 1, "old": n}
        )
        return len(done)

    def work():
        done = 0
        while done < 25:
            done += db.write(add_one)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert db.read(rows)[0][1] == 100


def test_a_schema_grows_by_versions_and_a_newer_one_is_refused(db):
    newer = Schema("notes", (*NOTES.versions, ("ALTER TABLE autocontext_notes ADD COLUMN tag TEXT",)))
    db.write(lambda: put("a"))
    db.ensure(newer)
    db.ensure(newer)

    def tags():
        return (yield Statement("SELECT id, tag FROM autocontext_notes"))

    assert db.read(tags) == [("a", None)]
    with pytest.raises(StoreVersionError, match="notes have version 2, this library knows 1: upgrade"):
        db.ensure(NOTES)


def test_parts_have_versions_of_their_own(db):
    db.ensure(Schema("others", (("CREATE TABLE autocontext_others (id TEXT PRIMARY KEY)",), ())))
    db.ensure(NOTES)


def test_an_open_database_passes_through(db):
    assert open_database(db) is db


def test_a_url_of_another_kind_is_refused():
    need("sql")
    with pytest.raises(StoreError, match="mysql is not supported; give a postgresql:// URL"):
        open_database("mysql://root:secret@localhost/test")


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@127.0.0.1:1/test", "postgresql://127.0.0.1:1/test?user=me&password=secret"]
)
def test_a_server_that_is_not_there_is_told_at_once_and_without_the_password(url):
    need("sql")
    db = open_database(url)
    with pytest.raises(StoreError, match="cannot be reached") as told:
        db.ensure(NOTES)
    assert "secret" not in str(told.value) + repr(db)
    assert "127.0.0.1:1" in str(told.value)


def test_a_missing_database_on_the_server_is_named():
    need_server()
    db = open_database(f"{SERVER.rpartition('/')[0]}/no_such_database")
    with pytest.raises(StoreError, match="no_such_database"):
        db.ensure(NOTES)


def test_processes_that_make_the_same_tables_at_once_agree():
    with own_schema() as url:
        dbs = [open_database(url) for _ in range(6)]
        threads = [threading.Thread(target=db.ensure, args=(NOTES,)) for db in dbs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for db in dbs:
            assert db.read(rows) == []
            db.close()


def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path):
    path = tmp_path / "agent.db"
    path.write_bytes(b"this is no database, " * 500)
    with pytest.raises(StoreCorruptError, match=r"agent\.db: .*nothing was overwritten"):
        open_database(path).ensure(NOTES)
    assert path.read_bytes() == b"this is no database, " * 500


def test_a_missing_folder_is_told(tmp_path):
    with pytest.raises(StoreError, match="in a folder that exists"):
        open_database(tmp_path / "nowhere" / "agent.db")


def test_a_new_file_belongs_to_its_owner_alone(tmp_path):
    path = tmp_path / "agent.db"
    db = open_database(path)
    db.ensure(NOTES)
    assert {f.stat().st_mode & 0o777 for f in tmp_path.iterdir()} == {0o600}


@pytest.mark.slow
def test_a_database_that_is_dropped_closes_its_file_without_a_warning(tmp_path):
    db = open_database(tmp_path / "agent.db")
    db.ensure(NOTES)
    db.itself = db  # only the garbage collector finds it
    assert {f.name for f in tmp_path.iterdir()} == {"agent.db", "agent.db-shm", "agent.db-wal"}
    del db
    gc.collect()
    assert [f.name for f in tmp_path.iterdir()] == ["agent.db"]


@pytest.mark.sampled
@pytest.mark.parametrize("page", [None, 512, 4096])
def test_a_file_keeps_its_page_size_and_the_write_ahead_file_its_bounds(tmp_path, page):
    path = tmp_path / "agent.db"
    if page is not None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as made:
            made.execute(f"PRAGMA page_size = {page}")
            made.execute("CREATE TABLE kept (x)")
    db = open_database(path)
    db.ensure(NOTES)
    for i in range(300):
        db.write(lambda i=i: put(f"{i}", body=random.randbytes(20_000)))
    assert int.from_bytes(path.read_bytes()[16:18]) == (page or 1024)
    assert 3_900_000 < (tmp_path / "agent.db-wal").stat().st_size < 4_300_000
    db.close()
    assert len(open_database(path).read(rows)) == 300


def test_a_locked_file_is_waited_for_and_then_told(tmp_path):
    from autocontext.stores.sqlite_database import SqliteDatabase

    first, second = open_database(tmp_path / "a.db"), SqliteDatabase(tmp_path / "a.db", patience=0.2)
    first.ensure(NOTES)

    def writes_meanwhile():
        yield from put("a")
        with pytest.raises(StoreError, match=r"kept it locked for 0\.2 s"):
            second.write(lambda: put("b"))

    first.write(writes_meanwhile)
    second.write(lambda: put("b"))
    assert len(first.read(rows)) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the open files as Linux shows them")
def test_many_writers_of_a_locked_file_wait_and_take_and_keep_few_of_the_process_s_files(tmp_path):
    db = open_database(tmp_path / "a.db")
    db.ensure(NOTES)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    before = len(list(Path("/proc/self/fd").iterdir()))
    writers = [threading.Thread(target=db.write, args=(lambda i=i: put(f"{i}"),)) for i in range(150)]
    for writer in writers:
        writer.start()
    time.sleep(1)
    other.execute("ROLLBACK")
    for writer in writers:
        writer.join()
    other.close()
    assert len(db.read(rows)) == 150
    # SQLite closes no file itself while another connection of the process has it open.
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 64 + 32


def test_who_gets_no_connection_for_as_long_as_the_patience_is_told_and_one_that_is_dropped_is_free(tmp_path):
    from autocontext.stores.sqlite_database import SqliteDatabase

    db = SqliteDatabase(tmp_path / "a.db", patience=0.2)
    leases = [db._pool.take(db._generation) for _ in range(64)]

    def one():
        return (yield Statement("SELECT 1"))

    with pytest.raises(StoreError, match=r"for 0\.2 s: try again"):
        db.write(one)
    assert db.read(one) == [(1,)]  # readers do not wait behind writers
    leases.pop()
    assert db.write(one) == [(1,)]


def test_a_file_of_another_program_is_told_once_before_it_gets_our_tables(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
        other.execute("INSERT INTO customers VALUES ('ann')")
        other.commit()
    for _ in range(2):
        with AutoContextMemory.open(file, session_id="s") as memory:
            memory.add({"role": "user", "content": "hi"})
    with AutoContextMemory.open(tmp_path / "own.db", session_id="s"):
        pass
    told = [r.getMessage() for r in caplog.records if r.name == "autocontext.stores"]
    assert len(told) == 1
    assert "shop.db holds the tables of another program (customers)" in told[0]
    with contextlib.closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT name FROM customers").fetchall() == [("ann",)]
