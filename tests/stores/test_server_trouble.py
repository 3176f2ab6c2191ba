"""A PostgreSQL server that restarts, refuses to serialize, or whose answers are lost: nothing is lost or doubled."""

import asyncio
import signal
import threading
import uuid
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

from tests.extras import need

need("sql")

import psycopg
import pytest

from autocontext import Msg
from autocontext.errors import Conflict, StoreError
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqlSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.sql_database import SqlDatabase
from tests.stores.homes import SERVER, own_schema
from tests.stores.servers import Proxy, can_run_a_server, own_server

S = SessionKey("u", "s")


def added(*said):
    return [Added(message=Msg(id=text, role="user", content=text)) for text in said]


def texts(store):
    return [e.message.text for e in store.read(S)]


@pytest.fixture
def proxied():
    """A proxy to the server, the URL through it, and the direct one."""
    address = urlsplit(SERVER)
    proxy = Proxy(address.port or 5432)
    with own_schema() as direct:
        yield proxy, proxy.through(direct), direct
    proxy.close()


@pytest.mark.parametrize("moment", ["cut_after_commit", "cut_before_commit"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_connection_lost_around_the_commit_stores_exactly_once(proxied, moment, times):
    proxy, url, _ = proxied
    store = SqlSessionStore(url)
    store.append(S, added("a"), after=0)
    setattr(proxy, moment, times)
    store.append(S, added("b", "c"), after=1)
    assert proxy.cuts == times
    assert texts(store) == ["a", "b", "c"]
    assert [r.entries for r in store.revisions(S)] == [1, 3]
    setattr(proxy, moment, 1)
    store.append(SessionKey("u", "new"), added("first"), after=0)
    setattr(proxy, moment, 1)
    assert store.delete(SessionKey("u", "new")) in (True, False)
    assert [s.key for s in store.sessions("u")] == [S]
    store.close()


@pytest.mark.parametrize("moment", ["cut_after_commit", "cut_before_commit"])
def test_the_same_in_async_code(proxied, moment):
    proxy, url, _ = proxied

    async def go():
        store = SqlSessionStore(url)
        await store.aappend(S, added("a"), after=0)
        setattr(proxy, moment, 1)
        await store.aappend(S, added("b"), after=1)
        proxy.cut_all()
        found = await store.aread(S)
        await store.aclose()
        return [e.message.text for e in found]

    assert asyncio.run(go()) == ["a", "b"]


def test_somebody_elses_entry_is_a_conflict_even_when_our_answer_was_lost(proxied):
    proxy, url, direct = proxied
    ours, theirs = SqlSessionStore(url), SqlSessionStore(direct)
    ours.append(S, added("a"), after=0)
    theirs.append(S, added("theirs"), after=1)
    proxy.cut_before_commit = 1
    with pytest.raises(Conflict):
        ours.append(S, added("ours"), after=1)
    assert texts(theirs) == ["a", "theirs"]
    ours.close()
    theirs.close()


def test_connections_that_break_between_calls_are_opened_anew(proxied):
    proxy, url, _ = proxied
    store = SqlSessionStore(url)
    for i in range(5):
        store.append(S, added(str(i)), after=i)
        proxy.cut_all()
    assert texts(store) == list("01234")
    store.close()


def test_one_lost_connection_tells_of_all_that_are_as_old(proxied):
    proxy, url, _ = proxied
    database, together = SqlDatabase(url), threading.Barrier(4, timeout=240)
    attempts: list[str] = []

    def waiting():
        yield Statement("SELECT 1")
        together.wait()

    def counted(what):
        attempts.append(what)
        return (yield Statement("SELECT 1"))

    threads = [threading.Thread(target=database.read, args=(waiting,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proxy.cut_all()
    for what in ("first", "second"):
        assert database.read(lambda what=what: counted(what)) == [(1,)]
    assert attempts == ["first", "first", "second"]

    async def go():
        await asyncio.gather(*(database.aread(lambda: counted("async")) for _ in range(4)))
        proxy.cut_all()
        del attempts[:]
        await database.aread(lambda: counted("async"))
        await database.aread(lambda: counted("async"))

    asyncio.run(go())
    assert attempts == ["async"] * 3
    database.close()


@contextmanager
def when_asleep(wake):
    """A statement that sleeps; `wake` is called in a thread when the server runs it, however long that takes."""
    mark = f"asleep {uuid.uuid4().hex}"
    asleep = "FROM pg_stat_activity WHERE query LIKE %s AND state = 'active' AND pid != pg_backend_pid()"
    over = threading.Event()

    def send():
        with psycopg.connect(SERVER, autocommit=True) as server:
            while not over.is_set() and not server.execute(f"SELECT 1 {asleep}", [f"%{mark}%"]).fetchall():
                over.wait(0.005)
            if not over.is_set():
                wake()
            over.wait()
            # Or a server's process whose client is gone goes on sleeping.
            server.execute(f"SELECT pg_terminate_backend(pid) {asleep}", [f"%{mark}%"])

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield f"SELECT pg_sleep(60) -- {mark}"
    finally:
        over.set()
        sender.join()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_what_is_interrupted_changes_nothing_and_leaves_the_pool_whole(error, caplog):
    with own_schema() as url:
        database = SqlDatabase(url, pool_size=1, patience=5)
        database.write(lambda: one("CREATE TABLE things (thing BIGINT)"))

        def interrupted():
            yield Statement("INSERT INTO things VALUES (1)")
            raise error

        def alarmed(*_):
            raise error

        def alarm():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

        async def cancelled():
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            cancel = partial(loop.call_soon_threadsafe, task.cancel)
            with pytest.raises(asyncio.CancelledError), when_asleep(cancel) as sleep:
                await database.awrite(lambda: one(sleep))

        async def go():
            for _ in range(4):
                with pytest.raises(error):
                    await database.awrite(interrupted)
                await asyncio.create_task(cancelled())
            return await database.aread(lambda: one("SELECT thing FROM things"))

        handler = signal.signal(signal.SIGALRM, alarmed)
        try:
            for _ in range(4):
                with pytest.raises(error):
                    database.write(interrupted)
                with pytest.raises(error), when_asleep(alarm) as sleep:
                    database.write(lambda sleep=sleep: one(sleep))
        finally:
            signal.signal(signal.SIGALRM, handler)
        assert database.read(lambda: one("SELECT thing FROM things")) == []
        if error is KeyError:  # the other one ends an event loop
            assert asyncio.run(go()) == []
        assert caplog.text == ""
        database.close()


def one(sql):
    return (yield Statement(sql))


def test_patience_ends_with_one_clear_error(proxied):
    proxy, url, _ = proxied
    database = SqlDatabase(url, patience=0.3)
    store = SqlSessionStore(database)
    store.append(S, added("a"), after=0)
    proxy.cut_before_commit = 10**6
    with pytest.raises(StoreError, match="cannot be reached"):
        store.append(S, added("b"), after=1)
    proxy.cut_before_commit = 0
    assert texts(store) == ["a"]
    database.close()


def refuse(url, table, state, times):
    """Let the server itself refuse the first `times` inserts with an SQLSTATE; sequences do not roll back."""
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE SEQUENCE tries")
        server.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('tries') <= {times} THEN RAISE EXCEPTION 'injected' USING ERRCODE = '{state}'; END IF; "
            "RETURN NEW; END $$"
        )
        server.execute(f"CREATE TRIGGER refusing BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()")


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_serialization_failures_are_tried_again(state):
    with own_schema() as url:
        store = SqlSessionStore(url)
        refuse(url, "autocontext_entries", state, 4)
        store.append(S, added("a", "b"), after=0)
        store.append(S, added("c"), after=2)
        assert texts(store) == ["a", "b", "c"]
        store.close()


def test_serialization_failures_without_end_are_told():
    with own_schema() as url:
        database = SqlDatabase(url, patience=0.2)
        store = SqlSessionStore(database)
        refuse(url, "autocontext_entries", "40001", 10**6)
        with pytest.raises(StoreError, match="injected"):
            store.append(S, added("a"), after=0)
        assert store.sessions() == []
        database.close()


@pytest.mark.slow
def test_a_server_that_crashes_while_we_write_loses_nothing_acknowledged():
    if not can_run_a_server():
        pytest.skip("needs root and PostgreSQL 15's server programs: the crash of a server was NOT tested")
    with own_server() as server:
        # Patient, as a server may take long to recover.
        store = SqlSessionStore(SqlDatabase(server.url, patience=240))
        acknowledged: list[str] = []
        enough = threading.Event()

        def write():
            while not enough.is_set():
                text = f"message {len(acknowledged)}"
                store.append(S, added(text), after=len(acknowledged))
                acknowledged.append(text)

        writer = threading.Thread(target=write)

        def wait_for(count):
            while len(acknowledged) < count and writer.is_alive():
                enough.wait(0.005)

        writer.start()
        try:
            for crash in range(2):
                wait_for(30 * (crash + 1))
                server.stop("immediate")
                server.start()
            wait_for(len(acknowledged) + 20)
        finally:
            enough.set()
            writer.join()
        assert texts(store) == acknowledged
        assert len(acknowledged) >= 80
        store.database.close()
