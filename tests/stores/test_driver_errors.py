"""What drivers and servers refuse reaches callers as StoreError or ConfigError, with the name of what is wrong."""

import asyncio
import threading
import time
from pathlib import Path

from tests.extras import need

need("sql", "cloud")

import psycopg
import pytest

from autocontext import Msg
from autocontext.cache import ResultCache
from autocontext.content import SqliteContentStore
from autocontext.content.objects import ObjectContentStore
from autocontext.errors import ConfigError, StoreError
from autocontext.history.entries import Added
from autocontext.memories import MemoryStore
from autocontext.optimizer.states import StateStore
from autocontext.stores import SessionKey, SqliteSessionStore, SqlSessionStore
from autocontext.stores.checks import checked_patience
from autocontext.stores.database import Statement
from autocontext.stores.opening import open_database
from autocontext.stores.sql_database import SqlDatabase
from autocontext.stores.sqlite_database import SqliteDatabase
from autocontext.suite import AutoContext
from tests.stores.homes import database, own_schema

S = SessionKey("u", "s")


def added(text):
    return [Added(message=Msg(id=text, role="user", content=text))]


def one(sql, **params):
    def work():
        return (yield Statement(sql, params))

    return work


def test_a_schema_that_is_not_there_is_told_with_the_way_out():
    with own_schema() as url, pytest.raises(StoreError, match=r"schema .* is missing: create it first \(CREATE SCHEMA"):
        SqlSessionStore(f"{url}_not_made").close()


# ------------------------------------------------------------------------------------------------------------ timeouts
def test_row_26_a_statement_timeout_is_told_with_the_way_out():
    with own_schema() as url:
        opened = SqlDatabase(f"{url}%20-cstatement_timeout%3D50", patience=0)
        with pytest.raises(StoreError, match=r"statement_timeout .*allow more"):
            opened.write(one("SELECT pg_sleep(5)"))
        with pytest.raises(StoreError, match="statement_timeout"):
            asyncio.run(opened.awrite(one("SELECT pg_sleep(5)")))
        opened.close()


def test_row_26_a_lock_timeout_is_waited_for_and_then_told():
    with own_schema() as url:
        store = SqlSessionStore(url)
        store.append(S, added("a"), after=0)
        impatient = SqlDatabase(f"{url}%20-clock_timeout%3D20", patience=0)
        patient = SqlDatabase(f"{url}%20-clock_timeout%3D20")
        with psycopg.connect(url) as other:
            other.execute("SELECT * FROM autocontext_sessions FOR UPDATE")
            with pytest.raises(StoreError, match="lock_timeout"):
                SqlSessionStore(impatient).append(S, added("b"), after=1)
            writer = threading.Thread(target=SqlSessionStore(patient).append, args=(S, added("b")), kwargs={"after": 1})
            writer.start()
            time.sleep(0.1)  # a few timeouts
        writer.join()
        assert [e.message.text for e in store.read(S)] == ["a", "b"]
        for each in (impatient, patient, store):
            each.close()


def test_row_26_a_transaction_that_the_server_ended_while_we_stood_still_begins_again():
    with own_schema() as url, psycopg.connect(url, autocommit=True) as other:
        opened = SqlDatabase(f"{url}%20-cidle_in_transaction_session_timeout%3D200", patience=240)
        opened.read(one("SELECT 1"))
        attempts = []

        def work():
            [(server_process,)] = yield Statement("SELECT pg_backend_pid()")
            attempts.append(server_process)
            if len(attempts) == 1:
                until = time.monotonic() + 240
                there = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
                while time.monotonic() < until and other.execute(there, attempts).fetchall():
                    time.sleep(0.01)
            return (yield Statement("SELECT 2"))

        assert opened.write(work) == [(2,)]
        assert len(attempts) > 1  # more than two, if the machine lets us stand still again
        opened.close()


# -------------------------------------------------------------------------------------------------------------- values
WRONG = {"surrogate": "a\ud800", "number": 2**70, "object": object(), "list": ["a"]}


@pytest.mark.parametrize("home", ["memory", "postgresql"])
@pytest.mark.parametrize("kind", WRONG)
def test_row_26_a_value_that_no_database_takes_is_named(tmp_path, home, kind):
    with database(home, tmp_path) as opened:
        column = "BIGINT" if kind in ("number", "list") else "TEXT"
        opened.write(one(f"CREATE TABLE things (thing {column})"))
        sql = "INSERT INTO things (thing) VALUES (:thing)"
        with pytest.raises(StoreError, match="thing is "):
            opened.write(one(sql, thing=WRONG[kind]))
        with pytest.raises(StoreError, match="thing is "):
            asyncio.run(opened.awrite(one(sql, thing=WRONG[kind])))

        def many():
            yield Statement(sql, [{"thing": "fine"}, {"thing": WRONG[kind]}])

        with pytest.raises(StoreError, match="thing is "):
            opened.write(many)
        assert opened.read(one("SELECT * FROM things")) == []


def test_row_26_nul_is_named_where_the_server_does_not_take_it():
    with own_schema() as url:
        opened = SqlDatabase(url)
        with pytest.raises(StoreError, match="thing is a text with NUL"):
            opened.read(one("SELECT CAST(:thing AS TEXT)", thing="a\0b"))
        opened.close()


@pytest.mark.parametrize("home", ["memory", "postgresql"])
def test_row_26_any_other_error_of_a_driver_is_a_store_error(tmp_path, home):
    with database(home, tmp_path) as opened:
        for sql in ("SELECT * FROM nothing_of_this_name", "SELEC 1", "SELECT :missing"):
            with pytest.raises(StoreError):
                opened.read(one(sql))


def test_row_26_a_pool_without_a_free_connection_says_so():
    with own_schema() as url:
        opened = SqlDatabase(url, pool_size=1, patience=0.05)
        inside, leave = threading.Barrier(3, timeout=240), threading.Event()

        def work():
            inside.wait()
            leave.wait()
            return (yield Statement("SELECT 1"))

        threads = [threading.Thread(target=opened.read, args=(work,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        inside.wait()
        with pytest.raises(StoreError, match="connections are in use"):
            opened.read(one("SELECT 1"))
        leave.set()
        for thread in threads:
            thread.join()
        opened.close()


# ----------------------------------------------------------------------------------------------------------- addresses
OPENERS = [
    open_database,
    SqliteDatabase,
    SqliteSessionStore,
    SqliteContentStore,
    MemoryStore,
    StateStore,
    AutoContext.open,
    ObjectContentStore,
    lambda url: ResultCache(url, namespace="n"),
]


@pytest.mark.parametrize("url", ["", "  ", None, 42, b"agent.db", "a\0b", ["agent.db"]])
def test_row_26_an_address_that_is_none_is_refused_by_name(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    for open_it in OPENERS:
        with pytest.raises(ConfigError, match="url"):
            open_it(url)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("url", ["postgresql://h:port/db", "mysql://h/db", "://", "postgresql://[::1/db"])
def test_row_26_a_url_that_cannot_be_read_is_told(url):
    with pytest.raises(StoreError, match="postgresql://"):
        open_database(url)


@pytest.mark.parametrize("patience", [-1, None, "5", True, float("nan")])
def test_row_26_a_patience_that_is_none_is_refused_by_name(patience):
    with pytest.raises(ConfigError, match="patience"):
        SqliteDatabase(":memory:", patience=patience)
    with pytest.raises(ConfigError, match="patience"):
        SqlDatabase("postgresql://127.0.0.1/x", patience=patience)
    assert checked_patience(float("inf")) * 1000 < 2**31, "SQLite counts milliseconds in 32 bits"
