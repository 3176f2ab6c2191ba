"""`cockroachdb://`: connections, isolation and retries, in front of PostgreSQL in CockroachDB's words.

Nothing here has met CockroachDB itself, and the pages say so.
"""

import asyncio
import re
import threading
from urllib.parse import urlsplit

import pytest

from tests.extras import need

need("sql")

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.cache import ResultCache
from autocontext.content.store import DatabaseContentStore
from autocontext.errors import StoreError
from autocontext.history.entries import Added
from autocontext.memories import MemoryStore
from autocontext.stores import SessionKey, SqlSessionStore
from autocontext.stores.sql_database import SqlDatabase
from autocontext.suite import AutoContext
from tests.stores.homes import SERVER, own_schema
from tests.stores.servers import Disguise

S = SessionKey("u", "s")


@pytest.fixture
def disguise():
    """PostgreSQL that looks like CockroachDB, and its address without a scheme."""
    address = urlsplit(SERVER)
    with own_schema() as direct:
        proxy = Disguise(address.port or 5432)
        yield proxy, proxy.through(direct).split("://", 1)[1]
        proxy.close()


def added(*said):
    return [Added(message=Msg(id=text, role="user", content=text)) for text in said]


def texts(store):
    return [e.message.text for e in store.read(S)]


def test_row_14_a_postgresql_url_of_another_kind_of_server_is_told(disguise):
    _, rest = disguise
    with pytest.raises(StoreError, match=r"this is not PostgreSQL .*CockroachDB CCL.*give a cockroachdb:// URL"):
        SqlSessionStore(f"postgresql://{rest}")
    with pytest.raises(StoreError, match="give a cockroachdb:// URL"):
        asyncio.run(SqlDatabase(f"postgresql://{rest}").aread(lambda: iter(())))


@pytest.mark.parametrize("scheme", ["cockroachdb", "cockroachdb+psycopg"])
def test_row_14_sessions_are_stored_and_read(disguise, scheme):
    _, rest = disguise
    store = SqlSessionStore(f"{scheme}://{rest}")
    store.append(S, added("a", "b"), after=0)

    async def more():
        await store.aappend(S, added("c"), after=2)
        found = await store.aread(S)
        await store.aclose()
        return [e.message.text for e in found]

    assert asyncio.run(more()) == ["a", "b", "c"]


@pytest.mark.parametrize("times", [1, 4])
def test_row_14_a_transaction_that_must_begin_again_does(disguise, times):
    proxy, rest = disguise
    store = SqlSessionStore(f"cockroachdb://{rest}")
    store.append(S, added("a"), after=0)
    proxy.refuse_commits = times
    store.append(S, added("b", "c"), after=1)
    assert texts(store) == ["a", "b", "c"]
    proxy.refuse_commits = times
    asyncio.run(store.aappend(S, added("d"), after=3))
    assert proxy.refuse_commits == 0
    assert texts(store) == ["a", "b", "c", "d"]
    assert [r.entries for r in store.revisions(S)] == [1, 3, 4]
    store.close()


def test_row_14_a_commit_of_which_the_server_is_not_sure_stores_exactly_once(disguise):
    proxy, rest = disguise
    store = SqlSessionStore(f"cockroachdb://{rest}")
    store.append(S, added("a"), after=0)
    proxy.doubt_commits = 2
    store.append(S, added("b"), after=1)
    assert proxy.doubt_commits == 0
    assert texts(store) == ["a", "b"]
    proxy.cut_after_commit = 1
    store.append(S, added("c"), after=2)
    assert texts(store) == ["a", "b", "c"]
    store.close()


def test_row_14_what_never_goes_through_is_told_after_the_patience(disguise):
    proxy, rest = disguise
    database = SqlDatabase(f"cockroachdb://{rest}", patience=0.2)
    store = SqlSessionStore(database)
    proxy.refuse_commits = 10**6
    with pytest.raises(StoreError, match=r"kept colliding .*restart transaction"):
        store.append(S, added("a"), after=0)
    proxy.refuse_commits = 0
    assert store.sessions() == []
    database.close()


def test_row_14_writers_at_once_on_one_session_lose_nothing(disguise):
    _, rest = disguise
    config = AutoContextConfig(msg_threshold=10**6, max_token=10**9)
    store = SqlSessionStore(f"cockroachdb://{rest}")

    def write(name):
        memory = AutoContextMemory(config, store=store, user_id="u", session_id="s")
        for i in range(15):
            memory.add_message(Msg(role="user", content=f"{name} {i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(4):
        assert [t for t in texts(store) if t.startswith(f"{name} ")] == [f"{name} {i}" for i in range(15)]
    store.close()


LACKS = re.compile(
    r"advisory_lock|pg_notify|\b(?:serial|bigserial|nextval|sequence\s+\w+\s+start|listen|notify|ctid|xmin|do\s+\$|"
    r"create\s+(?:function|trigger|temp|extension|rule|domain)|references|inherits|lock\s+table|exclude\s+using|"
    r"declare\s+\w+\s+cursor|vacuum|deferrable|tablesample|merge\s+into|repeatable\s+read)\b",
    re.IGNORECASE,
)
"""What CockroachDB documents as missing or different ("PostgreSQL Compatibility", "Known Limitations")."""


def test_row_14_no_statement_of_any_part_asks_for_what_it_lacks(disguise):
    proxy, rest = disguise
    with AutoContext.open(f"cockroachdb://{rest}") as context:
        session = context.session("s", user_id="u")
        session.add(Msg(role="user", content="hello"))
        session.save()
        context.sessions.search("hello", user_id="u")
        context.sessions.expire(S, 100)
        context.sessions.erase(S, ["m1"])
        context.sessions.delete(S)
        content = DatabaseContentStore(context.database)
        content.put("text", key="k", ttl=60)
        content.put("other", key="k")
        content.search("text")
        content.delete("k")
        content.purge_expired()
        cache = ResultCache(context.database, namespace="n", max_entries=2)
        for i in range(4):
            assert cache.get_or_compute("square", {"n": i}, lambda n: n * n, tags="t") == i * i
        cache.invalidate(tag="t")
        cache.purge_expired()
        memories = MemoryStore(context.database, max_memories=2)
        for i in range(3):
            memories.add(f"fact {i}", user_id="u", tags=["t"])
        assert memories.search("fact", user_id="u")
        assert memories.stats(user_id="u").total_memories == 2
    asked = {sql for sql in proxy.asked if "autocontext_" in sql or "BEGIN" in sql}
    assert len(asked) > 40
    assert {sql for sql in asked if LACKS.search(sql)} == set()
    assert {sql for sql in asked if sql.startswith("BEGIN")} == {"BEGIN ISOLATION LEVEL SERIALIZABLE"}
