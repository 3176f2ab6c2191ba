"""Behind PgBouncer in transaction mode each transaction has another session of the server: nothing may rest on one."""

import asyncio
import os
import threading
from urllib.parse import urlsplit

import pytest

from tests.extras import need

need("sql")

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import Conflict
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqlSessionStore
from tests.stores.homes import SERVER, need_server, own_schema
from tests.stores.servers import Conversation, Proxy, pgbouncer, pooled

CONFIG = AutoContextConfig(msg_threshold=10**6, max_token=10**9)
S = SessionKey("u", "s")


class Pooler(Proxy):
    """What tells a pooler: the process that a client was told is not the one that answers it."""

    def _conversation(self):
        return _Pooled(self)


class _Pooled(Conversation):
    def reply(self, kind, body):
        return [(kind, bytes(8))] if kind == b"K" else super().reply(kind, body)


@pytest.mark.parametrize("kind", [Proxy, Pooler])
def test_statements_are_prepared_only_in_a_session_of_ones_own(kind):
    with own_schema() as url:
        proxy = kind(urlsplit(SERVER).port or 5432)
        store = SqlSessionStore(proxy.through(url))
        for i in range(30):
            store.append(S, [Added(message=Msg(role="user", content=str(i)))], after=i)
        assert len(store.read(S)) == 30
        assert bool(proxy.prepared) == (kind is Proxy)
        proxy.prepared = 0

        async def go():
            for i in range(30, 60):
                await store.aappend(S, [Added(message=Msg(role="user", content=str(i)))], after=i)
            return len(await store.aread(S))

        assert asyncio.run(go()) == 60
        assert bool(proxy.prepared) == (kind is Proxy)
        store.close()
        proxy.close()


@pytest.mark.parametrize("size", [1, 3])
def test_where_backslashes_mean_something_in_texts_entries_are_stored_as_they_are(size):
    with own_schema() as url:
        proxy = Pooler(urlsplit(SERVER).port or 5432)
        off = "-cstandard_conforming_strings%3Doff%20-csearch_path"
        store = SqlSessionStore(proxy.through(url.replace("-csearch_path", off)))
        said = [Added(message=Msg(role="user", content=f"C:\\new\\{i}")) for i in range(size)]
        store.append(S, said, after=0)
        assert list(store.read(S)) == said
        store.close()
        proxy.close()


@pytest.mark.parametrize("size", [1, 3])
def test_an_append_is_one_round_trip_and_is_stored_once_when_its_answer_is_lost(size):
    with own_schema() as url:
        proxy = Pooler(urlsplit(SERVER).port or 5432)
        store = SqlSessionStore(proxy.through(url))
        store.sessions()
        turns, commits = proxy.turns, proxy.commits
        entries = [Added(message=Msg(role="user", content=f"100 % of 'it' \\ {i}")) for i in range(8 * size)]
        for after in range(0, 4 * size, size):
            store.append(S, entries[after : after + size], after=after)
        assert (proxy.turns - turns, proxy.commits - commits) == (4, 4)
        assert [sql for sql in proxy.asked if "INTO autocontext_entries" in sql and "lock_timeout" not in sql] == []

        proxy.cut_before_commit, after = 1, 4 * size
        store.append(S, entries[after : after + size], after=after)
        proxy.cut_after_commit, after = 1, 5 * size
        store.append(S, entries[after : after + size], after=after)
        with pytest.raises(Conflict):
            store.append(S, entries[:size], after=0)

        async def go():
            for after in (6 * size, 7 * size):
                await store.aappend(S, entries[after : after + size], after=after)

        asyncio.run(go())
        assert proxy.cuts == 2
        assert store.read(S) == entries
        store.close()
        proxy.close()


@pytest.fixture
def url():
    need_server()
    if pgbouncer() is None:
        if os.environ.get("AUTOCONTEXT_REQUIRE_PGBOUNCER"):
            pytest.fail("PgBouncer is not installed, or this is not root")
        pytest.skip("needs root and PgBouncer: it was NOT tested")
    with own_schema() as direct, pooled(direct) as through:
        yield through


def test_writers_behind_pgbouncer_lose_nothing_and_never_run_each_others_statements(url):
    stores = [SqlSessionStore(url) for _ in range(3)]

    def write(n):
        store = stores[n % 3]
        shared = AutoContextMemory(CONFIG, store=store, user_id="u", session_id="shared")
        own = AutoContextMemory(CONFIG, store=store, user_id="u", session_id=f"own {n}")
        for i in range(20):
            shared.add_message(Msg(role="user", content=f"{n} {i}"))
            own.add_messages([Msg(role="user", content=f"{n} {i} {part}") for part in "ab"])
            store.expire(SessionKey("u", f"own {n}"), 1000)
            assert len(store.read(SessionKey("u", f"own {n}"))) == 2 * i + 2

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [e.message.text for e in stores[0].read(SessionKey("u", "shared"))]
    assert len(said) == 120
    for n in range(6):
        assert [text for text in said if text.startswith(f"{n} ")] == [f"{n} {i}" for i in range(20)]
        own = [e.message.text for e in stores[1].read(SessionKey("u", f"own {n}"))]
        assert own == [f"{n} {i} {part}" for i in range(20) for part in "ab"]
    for store in stores:
        store.close()
