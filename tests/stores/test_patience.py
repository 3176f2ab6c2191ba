"""Patience: a call that waits for a server, a lock or a connection ends with an error that says for what."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from tests.extras import need

need("sql")

import psycopg
import pytest

from autocontext import Msg
from autocontext.errors import StoreError
from autocontext.flows import run
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqlSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.postgres import SyncConnection, call
from autocontext.stores.sql_database import SqlDatabase
from tests.stores.homes import SERVER, own_schema
from tests.stores.servers import Proxy
from tests.stores.test_pooler import Pooler

S = SessionKey("u", "s")
HANGS = 120.0
"""Seconds after which a call counts as hanging; the patience is one."""


def added(text):
    return [Added(message=Msg(id=text, role="user", content=text))]


def one(sql):
    return (yield Statement(sql))


@pytest.fixture(params=["read", "aread"])
def read(request):
    """Reads from a database, in synchronous code or in one event loop."""
    loop = asyncio.new_event_loop()
    used = []

    def run(database, work):
        used.append(database)
        return database.read(work) if request.param == "read" else loop.run_until_complete(database.aread(work))

    yield run
    loop.run_until_complete(used[-1].aclose())
    loop.close()


def ends(call, *arguments):
    """What a call in another thread gives or raises; it must not hang."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(call, *arguments).result(timeout=HANGS)
    finally:
        pool.shutdown(wait=False)


@pytest.fixture
def proxied():
    proxy = Proxy(urlsplit(SERVER).port or 5432)
    with own_schema() as url:
        yield proxy, proxy.through(url)
    proxy.close()


@pytest.mark.parametrize("kind", [Proxy, Pooler])
@pytest.mark.parametrize("form", ["append", "aappend"])
def test_a_row_that_somebody_else_has_locked_is_waited_for_as_long_as_the_patience(kind, form):
    proxy = kind(urlsplit(SERVER).port or 5432)
    with own_schema() as url:
        _locked(url, SqlDatabase(proxy.through(url), patience=0.5), form)
    proxy.close()


def _locked(direct, database, form):
    store = SqlSessionStore(database)
    store.append(S, added("a"), after=0)

    def append():
        if form == "append":
            return store.append(S, added("b"), after=1)
        return asyncio.run(store.aappend(S, added("b"), after=1))

    with psycopg.connect(direct) as other:
        other.execute("SELECT * FROM autocontext_sessions FOR UPDATE")
        with pytest.raises(StoreError, match="lock_timeout"):
            ends(append)
    append()
    assert [e.message.text for e in store.read(S)] == ["a", "b"]
    database.close()


def test_a_network_that_passes_nothing_on_is_told_and_used_again_when_it_does(proxied, read):
    proxy, url = proxied
    database = SqlDatabase(url, patience=1)
    assert read(database, lambda: one("SELECT 1")) == [(1,)]
    proxy.stop_forwarding()
    with pytest.raises(StoreError, match=r"cannot be reached \((no answer for 1 s, and none on a new|connection time)"):
        ends(read, database, lambda: one("SELECT 1"))
    proxy.forward_again()
    assert ends(read, database, lambda: one("SELECT 1")) == [(1,)]
    database.close()


def test_an_answer_that_is_lost_is_not_waited_for(proxied, read):
    """The server answers on new connections, and knows of no question on this one."""
    proxy, url = proxied
    database = SqlDatabase(url, patience=1)

    def loses():
        yield Statement("SELECT 1")
        proxy.lose_answers()
        return (yield Statement("SELECT 2"))

    with pytest.raises(StoreError, match="the server knows of no question"):
        ends(read, database, loses)
    assert read(database, lambda: one("SELECT 1")) == [(1,)]
    database.close()


def test_a_statement_that_the_server_is_at_work_on_may_take_longer_than_the_patience(proxied, read):
    _, url = proxied
    database = SqlDatabase(url, patience=0)
    assert read(database, lambda: one("SELECT count(*) FROM pg_sleep(2.5)")) == [(1,)]
    database.close()


def test_connections_that_nobody_gives_back_are_closed_and_leave_the_pool_its_size():
    with own_schema() as url:
        database, kept = SqlDatabase(url, pool_size=1, patience=1), []
        for _ in range(20):
            lease = database._pool.take(database._generation)
            lease.connection = run(database._service.connecting(SyncConnection), call)
            kept.append(lease.connection)
            del lease
        assert all(connection.closed for connection in kept)
        assert database.read(lambda: one("SELECT 1")) == [(1,)]
        database.close()


def test_a_thread_waits_for_a_connection_that_others_use():
    with own_schema() as url:
        database = SqlDatabase(url, pool_size=1, patience=HANGS)
        inside, leave = threading.Barrier(3, timeout=240), threading.Event()

        def work():
            inside.wait()
            leave.wait()
            return (yield Statement("SELECT 1"))

        with ThreadPoolExecutor(3) as threads:
            busy = [threads.submit(database.read, work) for _ in range(2)]
            inside.wait()
            waits = threads.submit(database.read, lambda: one("SELECT 2"))
            leave.set()
            assert [each.result() for each in busy] == [[(1,)], [(1,)]]
            assert waits.result() == [(2,)]
        database.close()
