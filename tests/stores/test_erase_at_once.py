"""Erasing and rotating keys at the same time: what one has erased, the other does not bring back."""

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from autocontext import Msg
from autocontext.history.entries import Added, Offloaded, dump_entry
from autocontext.stores import (
    InMemorySessionStore,
    SessionKey,
    SqliteSessionStore,
    copy_sessions,
)
from autocontext.stores.database import Statement
from autocontext.stores.erasing import ERASED
from autocontext.stores.sqlite_database import SqliteDatabase
from tests.extras import need
from tests.stores.homes import home
from tests.stores.processes import forked, waited
from tests.stores.stores import KEY, PLACES, opened, stored

S = SessionKey("u", "s")
ONCE = secrets.token_bytes(32)


def said_and_noted(store, count):
    """A session of many messages, and an entry that holds all of them: every redaction rewrites it."""
    messages = [Msg(id=f"m{i}", role="user", content=f"secret number {i}.") for i in range(count)]
    store.append(S, [*(Added(message=m) for m in messages), Offloaded(uuid="all", messages=tuple(messages))], after=0)
    return messages


def together(*works):
    """Run functions at the same moment, each in a thread; raises what one of them raises."""
    ready = threading.Barrier(len(works))

    def run(work):
        ready.wait(240)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def erase(kind, where, ids):
    own = opened(kind, where)
    assert own.erase(S, ids) == len(ids)
    own.close()


def text_of(store):
    return "".join(map(dump_entry, store.read(S)))


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["in memory", "sqlite file", "encrypted sqlite", "postgresql", "encrypted postgresql"])
def test_row_05_redactions_at_once_do_not_undo_each_other(kind, tmp_path):
    for round_ in range(4):
        (tmp_path / str(round_)).mkdir()
        with stored(kind, tmp_path / str(round_)) as store:
            messages = said_and_noted(store, 4)
            done = together(*[partial(store.erase, S, [m.id]) for m in messages])
            assert done == [1, 1, 1, 1]
            assert "secret number" not in text_of(store)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["in memory", "sqlite file", "postgresql"])
def test_row_05_a_rotation_does_not_undo_a_redaction(kind, tmp_path):
    need("crypto")
    from autocontext.stores import EncryptedSessionStore

    for round_ in range(4):
        (tmp_path / str(round_)).mkdir()
        with stored(kind, tmp_path / str(round_)) as plain:
            said_and_noted(EncryptedSessionStore(plain, {"old": KEY}), 40)
            both = EncryptedSessionStore(plain, {"old": KEY, "new": ONCE}, current="new")
            together(partial(both.rotate, S), partial(both.erase, S, [f"m{i}" for i in range(0, 40, 2)]))
            both.rotate(S)
            left = text_of(EncryptedSessionStore(plain, {"new": ONCE}))
            assert [i for i in range(0, 40, 2) if f"secret number {i}." in left] == []
            assert [i for i in range(1, 40, 2) if f"secret number {i}." not in left] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite file", "encrypted sqlite", "postgresql", "encrypted postgresql"])
def test_row_05_processes_redact_at_once(kind, tmp_path):
    with home(PLACES.get(kind, "postgresql"), tmp_path) as where:
        for round_ in range(15):
            store = opened(kind, where)
            store.delete(S)
            messages = said_and_noted(store, 6)
            store.close()
            shares = [[m.id for m in messages[n::3]] for n in range(3)]
            waited([forked(partial(erase, kind, where, ids)) for ids in shares])
            store = opened(kind, where)
            assert "secret number" not in text_of(store), round_
            assert len(store.read(S)) == 7
            store.close()


def test_row_05_scrubbing_waits_for_others_as_long_as_its_patience(tmp_path):
    store = SqliteSessionStore(SqliteDatabase(tmp_path / "agent.db", patience=240))
    said_and_noted(store, 2)
    reading, may_end = threading.Event(), threading.Event()

    def slowly():
        yield Statement("SELECT * FROM autocontext_entries")
        reading.set()
        may_end.wait(240)

    with ThreadPoolExecutor() as pool:
        reader = pool.submit(store.database.read, slowly)
        assert reading.wait(240)
        store.append(S, [Added(message=Msg(role="user", content="more"))], after=3)
        scrubs = [pool.submit(store.scrub) for _ in range(4)]
        assert not [s for s in scrubs if s.done() and s.exception()]
        may_end.set()
        for each in (reader, *scrubs):
            each.result(240)
    assert (tmp_path / "agent.db-wal").stat().st_size == 0


def test_row_05_a_store_of_somebody_elses_without_swap_is_erased_and_rotated():
    class Old:
        """Has what the protocol asked for before."""

        def __init__(self):
            self.inner = InMemorySessionStore()

        def __getattr__(self, name):
            if name == "swap":
                raise AttributeError(name)
            return getattr(self.inner, name)

    need("crypto")
    from autocontext.stores import EncryptedSessionStore

    plain = Old()
    store = EncryptedSessionStore(plain, {"old": KEY})
    said_and_noted(store, 3)
    store = EncryptedSessionStore(plain, {"old": KEY, "new": ONCE}, current="new")
    assert store.erase(S, ["m1"]) == 1
    assert store.rotate(S) == 2
    copy_sessions(EncryptedSessionStore(plain, {"new": ONCE}), InMemorySessionStore())
    assert "secret number 1." not in text_of(store)
    assert ERASED in text_of(store)
