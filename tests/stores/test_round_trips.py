"""How often a PostgreSQL server is asked and waited for: it is what an append costs over a network."""

import asyncio
import random
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extras import need

need("sql", "crypto")

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import Conflict
from autocontext.history.entries import Added
from autocontext.stores import EncryptedSessionStore, SessionKey, SqlSessionStore
from tests.profiles import WITH_FIXTURES
from tests.stores.homes import SERVER, own_schema
from tests.stores.servers import Proxy
from tests.stores.stores import KEY

CONFIG = AutoContextConfig(msg_threshold=10**6, max_token=10**9)


def added(count, text="hello"):
    return [Added(message=Msg(role="user", content=f"{text} {i}")) for i in range(count)]


class Counted:
    """A store by way of a proxy that counts."""

    def __init__(self, proxy, url, **options):
        self.proxy, self.store, self.sessions = proxy, SqlSessionStore(url, **options), 0

    def session(self):
        self.sessions += 1
        return SessionKey("u", f"s{self.sessions}")

    def turns(self, do):
        """How often the server is asked, what changes there, and what was said; without what is prepared for later.

        psycopg gives a name to a statement that it has sent five times, once a connection.
        """
        proxy = self.proxy
        turns, prepared, commits, said = proxy.turns, proxy.prepared, proxy.commits, len(proxy.asked)
        do()
        return proxy.turns - turns - (proxy.prepared - prepared), proxy.commits - commits, proxy.asked[said:]


@pytest.fixture(scope="module")
def counted():
    with own_schema() as url:
        proxy = Proxy(urlsplit(SERVER).port or 5432)
        made = Counted(proxy, proxy.through(url))
        made.session()
        made.store.append(made.session(), added(1), after=0)  # the connection is open from here on
        yield made
        made.store.close()
        proxy.close()


@settings(max_examples=30, deadline=None, suppress_health_check=WITH_FIXTURES)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8), ttl=st.sampled_from([None, 60.0]))
def test_an_append_is_one_round_trip_and_one_commit_however_many_entries_it_has(counted, sizes, ttl):
    store, session = counted.store, counted.session()
    store._ttl, entries = ttl, []
    for size in sizes:
        more, after = added(size), len(entries)
        turns, commits, asked = counted.turns(lambda more=more, after=after: store.append(session, more, after=after))
        assert (turns, commits) == (1, 1)
        assert not [sql for sql in asked if sql.startswith(("BEGIN", "COMMIT"))]
        entries += more
    assert store.read(session) == entries
    assert [r.entries for r in store.revisions(session)] == [sum(sizes[: i + 1]) for i in range(len(sizes))]


def test_a_memory_adds_messages_in_one_round_trip(counted):
    session = counted.session()
    memory = AutoContextMemory(CONFIG, store=counted.store, user_id=session[0], session_id=session[1])
    for count in (1, 1, 2000, 1):
        messages = [entry.message for entry in added(count)]
        assert counted.turns(lambda messages=messages: memory.add_messages(messages))[:2] == (1, 1)
    assert len(counted.store.read(session)) == 2003


def test_encrypted_entries_take_no_more(counted):
    store, session = EncryptedSessionStore(counted.store, KEY), counted.session()
    for after in (0, 3, 6):
        assert counted.turns(lambda after=after: store.append(session, added(3), after=after))[:2] == (1, 1)
    assert len(store.read(session)) == 9


def test_nor_does_an_append_of_asynchronous_code(counted):
    session = counted.session()

    async def go():
        store, proxy = counted.store, counted.proxy
        await store.aappend(session, added(1), after=0)
        before = proxy.turns, proxy.commits
        await store.aappend(session, added(1), after=1)
        await store.aappend(session, added(500), after=2)
        return proxy.turns - before[0], proxy.commits - before[1]

    assert asyncio.run(go()) == (2, 2)
    assert len(counted.store.read(session)) == 502


@pytest.mark.slow
def test_what_is_too_much_for_one_statement_is_one_transaction_all_the_same(counted):
    session, entries = counted.session(), added(30, random.Random(1).randbytes(200_000).hex())
    turns, commits, asked = counted.turns(lambda: counted.store.append(session, entries, after=0))
    assert (turns, commits) == (4, 1)  # BEGIN, two halves, COMMIT
    assert asked[0].startswith("BEGIN")
    assert counted.store.read(session) == entries
    for conflicting in (29, 31):
        with pytest.raises(Conflict):
            counted.store.append(session, entries, after=conflicting)
    assert counted.store.read(session) == entries


@pytest.mark.slow
def test_an_entry_that_is_longer_than_one_statement_takes_stands_anywhere(counted):
    long, entries = random.Random(2).randbytes(5_000_000).hex(), []
    session = counted.session()
    for texts in (["", long], [long, "", ""], ["", long, ""], [long]):
        more = [entry for text in texts for entry in added(1, text)]
        counted.store.append(session, more, after=len(entries))
        entries += more
    assert counted.store.read(session) == entries


def test_an_append_that_is_refused_adds_nothing_and_is_told(counted):
    session = counted.session()
    counted.store.append(session, added(2), after=0)
    for after in (0, 1, 3):
        for count in (1, 3):
            with pytest.raises(Conflict, match="has 2 entries"):
                counted.store.append(session, added(count), after=after)
    assert len(counted.store.read(session)) == 2


def test_opening_a_session_takes_as_many_round_trips_as_its_statements(counted):
    session = counted.session()
    counted.store.append(session, added(2000), after=0)

    def open_it():
        AutoContextMemory(CONFIG, store=counted.store, user_id=session[0], session_id=session[1])

    assert counted.turns(open_it)[0] == 4  # BEGIN, the session, its entries, COMMIT
