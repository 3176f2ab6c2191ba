"""An interrupt at any point of a call leaves a database that works at once, and no transaction that others wait for."""

import gc
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress

from tests.extras import need

need("sql")

import psycopg
import pytest

from autocontext.stores.database import Alone, Statement
from autocontext.stores.opening import open_database
from tests.faults.interrupts import Alarm, Interrupted, cancelled_everywhere, interrupted_everywhere
from tests.stores.homes import home


@pytest.fixture(autouse=True)
def _collected_only_in_between():
    """What runs in a collection of garbage (Hypothesis does) would swallow the interrupt."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def begin():
    yield Statement("DROP TABLE IF EXISTS things")
    yield Statement("CREATE TABLE things (n BIGINT)")


def add_two():
    yield Statement("INSERT INTO things VALUES (:n)", {"n": 1})
    yield Statement("INSERT INTO things VALUES (:n)", {"n": 2})


def add_batch():
    yield Statement("INSERT INTO things VALUES (:n)", [{"n": 1}, {"n": 2}])


def add_alone():
    yield Alone("INSERT INTO things VALUES (:n)", {"n": 1})
    yield Alone("INSERT INTO things VALUES (:n)", {"n": 2})


def fail():
    yield from add_two()
    raise KeyError


def things():
    return sorted(n for (n,) in (yield Statement("SELECT n FROM things")))


def quietly_fail(db):
    with suppress(KeyError):
        db.write(fail)


CALLS = {
    "write": lambda db: db.write(add_two),
    "batch": lambda db: db.write(add_batch),
    "read": lambda db: db.read(things),
    "alone": lambda db: db.write(add_alone),
    "fail": quietly_fail,
    "scrub": lambda db: db.scrub(),
}


class Opened:
    """A database with an empty table, where others can look at it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.database = open_database(where)
        self.database.write(begin)

    def others_see(self) -> list[int] | None:
        """What another process reads, after it has written and taken that back; it waits for nobody."""
        if self.where == ":memory:":
            return None
        if "://" in self.where:
            with closing(psycopg.connect(self.where)) as other:
                other.execute("SET lock_timeout = '120s'")
                other.execute("LOCK TABLE things")
                return sorted(n for (n,) in other.execute("SELECT n FROM things"))
        with closing(sqlite3.connect(self.where, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("INSERT INTO things VALUES (0)")
            other.execute("ROLLBACK")
            return sorted(n for (n,) in other.execute("SELECT n FROM things"))


@pytest.mark.sampled
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_after_an_interrupt_at_any_point_of_a_call_a_file_is_free_and_whole(tmp_path, kind, call, kept):
    check_everywhere(kind, tmp_path, call, kept=kept, samples=None, error=Interrupted)


@pytest.mark.slow
# Nothing of ours: psycopg leaves the end of a batch that was interrupted to the collector.
@pytest.mark.filterwarnings(r"ignore:Exception ignored in. <generator object BasePipeline\._exit_gen")
@pytest.mark.parametrize("error", [Alarm, Interrupted])
@pytest.mark.parametrize("call", ["write", "batch", "read", "alone", "fail"])
def test_after_an_interrupt_at_any_point_of_a_call_a_server_is_free_and_whole(tmp_path, call, error):
    check_everywhere("postgresql", tmp_path, call, kept=False, samples=80, error=error)


def check_everywhere(kind, tmp_path, call, *, kept, samples, error):
    with home(kind, tmp_path) as where:
        last, hidden = [], []

        def make():
            while last:
                last.pop().database.close()
            last.append(Opened(where))
            return last[0]

        def check(opened):
            there, seen = opened.database.read(things), opened.others_see()
            assert there in ([], [1], [1, 2]) if call == "alone" else there in ([], [1, 2])
            assert seen in (there, None)
            opened.database.write(add_two)
            assert opened.database.read(things) == sorted([*there, 1, 2])
            assert opened.others_see() in (sorted([*there, 1, 2]), None)

        def work(opened):
            try:
                CALLS[call](opened.database)
            except AssertionError as e:
                hidden.append(e)
                raise

        found = interrupted_everywhere(make, work, check, kept=kept, samples=samples, error=error)
        assert found > 10 or (kind, call) == ("memory", "scrub")
        assert hidden == []
        make().database.close()


STUBBORN = """
CREATE OR REPLACE FUNCTION stubborn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(30); RETURN NULL; EXCEPTION WHEN query_canceled THEN
    -- The server signals the process and its group: the second signal may come later, and is no second question.
    BEGIN PERFORM pg_sleep(0.1); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(0.1); END; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER stubborn AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (new.n = 1) EXECUTE FUNCTION stubborn()
"""


@pytest.mark.slow
def test_a_commit_that_an_interrupt_cannot_stop_is_waited_for(tmp_path):
    """Else a read after the interrupt would not see what a later read sees."""
    with home("postgresql", tmp_path) as where:
        opened = Opened(where)
        with closing(psycopg.connect(where, autocommit=True)) as other:
            other.execute(STUBBORN)

        def interrupt(*_):
            raise Interrupted

        def interrupt_the_commit():
            asleep = """SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'
                AND query = 'COMMIT' AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'things'::regclass)"""
            with closing(psycopg.connect(where, autocommit=True)) as other:
                while other.execute(asleep).fetchone() is None:
                    time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGALRM)

        before = signal.signal(signal.SIGALRM, interrupt)
        interrupter = threading.Thread(target=interrupt_the_commit)
        try:
            interrupter.start()
            with pytest.raises(Interrupted):
                opened.database.write(add_two)
        finally:
            signal.signal(signal.SIGALRM, before)
            interrupter.join()
        assert opened.database.read(things) == opened.others_see() == [1, 2]
        opened.database.close()


@pytest.mark.slow
@pytest.mark.parametrize("call", ["write", "read", "alone"])
def test_a_task_that_is_cancelled_at_any_await_leaves_a_server_free_and_whole(tmp_path, call):
    with home("postgresql", tmp_path) as where:
        work, form = {"write": (add_two, "awrite"), "read": (things, "aread"), "alone": (add_alone, "awrite")}[call]
        opened = Opened(where)

        def make():
            opened.database.write(begin)
            return opened.database

        async def check(database):
            there = await database.aread(things)
            assert there in ([], [1], [1, 2]) if call == "alone" else there in ([], [1, 2])
            assert opened.others_see() == there
            await database.awrite(add_two)
            await database.aclose()
            database._closed = False

        assert cancelled_everywhere(make, lambda database: getattr(database, form)(work), check) > 2
        opened.database.close()
