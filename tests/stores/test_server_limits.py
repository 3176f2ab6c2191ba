"""A PostgreSQL server that is full, restricts a role, or has defaults of its own: it is told, no default matters."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.extras import need

need("sql")

import psycopg
import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.errors import Conflict, StoreError
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqlSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.sql_database import SqlDatabase
from tests.stores.servers import can_run_a_server, own_server

pytestmark = pytest.mark.slow  # a server of its own, which it restarts
ROOT = Path(__file__).parents[2]
S = SessionKey("u", "s")


def added(*said):
    return [Added(message=Msg(id=text, role="user", content=text)) for text in said]


def texts(store):
    return [e.message.text for e in store.read(S)]


@pytest.fixture(scope="module")
def server():
    """A server with seven connections, two of them for the superuser, who stays `postgres`; agents are `agent`."""
    if not can_run_a_server():
        pytest.skip("needs root and PostgreSQL 15's server programs: a server's limits were NOT tested")
    with own_server() as server:
        as_admin(
            server,
            "ALTER SYSTEM SET max_connections = 7",
            "ALTER SYSTEM SET superuser_reserved_connections = 2",
            "CREATE ROLE agent LOGIN CREATEROLE",
            "GRANT CREATE ON DATABASE postgres TO agent",
        )
        server.stop("fast")
        server.start()
        yield server


@pytest.fixture
def url(server):
    """The role's URL to an empty schema; what a test sets for the role is reset."""
    as_admin(server, "CREATE SCHEMA test AUTHORIZATION agent", "ALTER ROLE agent SET search_path = test")
    yield server.url.replace("postgres@", "agent@")
    as_admin(server, "ALTER ROLE agent RESET ALL", "ALTER ROLE agent CONNECTION LIMIT -1")
    as_admin(server, "DROP SCHEMA test CASCADE")


def as_admin(server, *statements):
    with psycopg.connect(server.url, autocommit=True) as admin:
        for sql in statements:
            admin.execute(sql)


@pytest.fixture
def opened(url):
    """Opens a store, again and again; all are closed at the end."""
    databases = []

    def open_one(patience=60.0):
        databases.append(SqlDatabase(url, patience=patience))
        return SqlSessionStore(databases[-1])

    yield open_one
    for database in databases:
        database.close()


@contextmanager
def everything_taken(url, left=0):
    """All connections that the server gives this role are somebody else's, except the last `left`."""
    taken = []
    try:
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(psycopg.connect(url))
        for _ in range(left):
            taken.pop().close()
        yield
    finally:
        for connection in taken:
            connection.close()


def asleep():
    yield Statement("SELECT pg_sleep(0.05)")


def at_once(database, count):
    """What that many threads get that read at the same time: None, or the error."""
    together, got = threading.Barrier(count, timeout=240), []

    def read():
        together.wait()
        try:
            got.append(database.read(asleep))
        except StoreError as e:
            got.append(e)

    threads = [threading.Thread(target=read) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def test_a_full_server_is_waited_for_by_who_has_reached_it_and_named_to_who_has_not(server, url, opened):
    store = opened()
    store.append(S, added("a"), after=0)
    with everything_taken(url):
        store.append(S, added("b"), after=1)  # on the connection that it has
        # More callers than connections: each waits for its turn.
        assert at_once(store.database, 4) == [None] * 4
        with pytest.raises(StoreError, match=r"connection slots are reserved|too many"):
            opened()
    assert at_once(store.database, 4) == [None] * 4
    assert texts(opened()) == ["a", "b"]
    assert texts(store) == ["a", "b"]


def test_a_server_that_stays_full_is_named_when_patience_is_over(server, url, opened):
    store = opened(patience=0.5)
    store.append(S, added("a"), after=0)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER ROLE agent CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent'")
    for _ in range(8):  # as often as the pool has connections, and more: none leaks by failing
        with pytest.raises(StoreError, match="too many connections for role"):
            store.append(S, added("b"), after=1)
    as_admin(server, "ALTER ROLE agent CONNECTION LIMIT -1")
    store.append(S, added("b"), after=1)
    assert texts(store) == ["a", "b"]
    store.database.close()
    assert others_of(server) == 0


def others_of(server):
    """How many connections the role has, once those that were closed are gone."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with psycopg.connect(server.url) as admin:
            [(count,)] = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent'").fetchall()
        if not count:
            return 0
        time.sleep(0.02)
    return count


def test_sessions_that_the_server_ends_for_being_idle_are_opened_anew(server, url, opened):
    as_admin(server, "ALTER ROLE agent SET idle_session_timeout = 20")
    store = opened()

    async def go():
        for i in range(2, 4):
            await asyncio.sleep(0.1)
            await store.aappend(S, added(str(i)), after=i)
        await store.database.aclose()

    for i in range(2):
        store.append(S, added(str(i)), after=i)
        wait_until_gone(server)
    asyncio.run(go())
    assert texts(opened()) == list("0123")


def wait_until_gone(server):
    assert others_of(server) == 0


def test_a_role_that_may_only_read_is_told_so_and_reads(server, url, opened):
    opened().append(S, added("a"), after=0)
    as_admin(server, "ALTER ROLE agent SET default_transaction_read_only = on")
    store = opened()
    assert texts(store) == ["a"]
    with pytest.raises(StoreError, match="takes no writes"):
        store.append(S, added("b"), after=1)
    assert texts(store) == ["a"]


def test_a_store_goes_on_when_the_role_may_write_again(server, url, opened):
    opened().append(S, added("a"), after=0)
    as_admin(server, "ALTER ROLE agent SET default_transaction_read_only = on")
    store = opened()
    with pytest.raises(StoreError, match="takes no writes"):
        store.append(S, added("b"), after=1)
    as_admin(server, "ALTER ROLE agent SET default_transaction_read_only = off")
    store.append(S, added("b"), after=1)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_role_with_another_encoding_stores_every_text(server, opened, encoding):
    as_admin(server, f"ALTER ROLE agent SET client_encoding = '{encoding}'")
    store, key = opened(), SessionKey("税 Ā", "长")
    store.append(key, added("长 🜁"), after=0)
    assert [info.key for info in store.sessions()] == [key]
    assert [e.message.text for e in store.read(key)] == ["长 🜁"]


SETTINGS = {
    "serializable": {"default_transaction_isolation": "serializable"},
    "other defaults": {
        "default_transaction_isolation": "repeatable read",
        "default_transaction_deferrable": "on",
        "datestyle": "German, DMY",
        "timezone": "Asia/Kathmandu",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "-10",
        "standard_conforming_strings": "off",
        "backslash_quote": "off",
        "transform_null_equals": "on",
        "array_nulls": "off",
        "synchronous_commit": "off",
        "row_security": "off",
        "xmlbinary": "hex",
        "quote_all_identifiers": "on",
    },
    "short time limits": {
        "lock_timeout": "5",
        "idle_in_transaction_session_timeout": "2000",
        "deadlock_timeout": "1",
    },
    "another planner": {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashagg": "off"},
}
CONTRACT = ("tests/stores/contract", "tests/stores/test_search_index.py")


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_contract_of_stores_holds_whatever_a_role_has_as_defaults(settings):
    if not can_run_a_server():
        pytest.skip("needs root and PostgreSQL 15's server programs: other defaults were NOT tested")
    with own_server() as server:
        as_admin(server, *(f"ALTER ROLE postgres SET {name} = '{value}'" for name, value in settings.items()))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *CONTRACT, "-k", "postgresql"],
            cwd=ROOT,
            env={**os.environ, "AUTOCONTEXT_TEST_POSTGRESQL": server.url, "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6_000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read", "read committed", "read uncommitted"])
def test_writers_of_one_session_lose_nothing_at_any_default_isolation(server, opened, isolation):
    as_admin(server, f"ALTER ROLE agent SET default_transaction_isolation = '{isolation}'")
    opened().append(S, added("first"), after=0)

    stores = [opened(), opened(), opened()]

    def write(name):
        memory = AutoContextMemory(store=stores[name], session_id=S.session_id, user_id=S.user_id)
        for i in range(10):
            memory.add_message(Msg(role="user", content=f"{name} {i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = texts(opened())
    assert len(stored) == 31
    for name in range(3):
        assert [t for t in stored if t.startswith(f"{name} ")] == [f"{name} {i}" for i in range(10)]


def test_commits_that_a_server_forgets_are_a_conflict_and_nothing_is_mixed(server, url, opened):
    """synchronous_commit=off, or a failover to a replica that was behind: the log of an open memory is longer."""
    as_admin(server, "ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
    as_admin(server, "ALTER ROLE agent SET synchronous_commit = off")
    store = opened()
    store.append(S, added("0", "1"), after=0)
    as_admin(server, "CHECKPOINT")
    length = 2
    for i in range(2, 6):
        store.append(S, added(str(i)), after=i)
        length += 1
    server.stop("immediate")
    server.start()
    kept = texts(store)
    assert kept == [str(i) for i in range(len(kept))]
    assert len(kept) >= 2
    if len(kept) < length:
        with pytest.raises(Conflict, match="read it again"):
            store.append(S, added("after"), after=length)
    store.append(S, added("after"), after=len(kept))
    assert texts(store) == [*kept, "after"]
    as_admin(server, "ALTER SYSTEM RESET wal_writer_delay", "SELECT pg_reload_conf()")
