"""Each entry names the checksum of the one before: what was moved, left out or cut off is told."""

import contextlib
import random
from contextlib import closing
from zlib import crc32

import pytest

from autocontext import AutoContextMemory, Msg
from autocontext.errors import SessionGone, StoreCorruptError, StoreError
from autocontext.history.entries import Added
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores.database import Database, Schema, Statement
from autocontext.stores.opening import open_database
from autocontext.stores.records import to_bytes
from autocontext.stores.session_statements import SCHEMA
from tests.extras import need
from tests.stores.homes import home
from tests.stores.stores import DURABLE, KEY, PLACES, opened, place, stored

S, T = SessionKey("u", "s"), SessionKey("u", "t")


def added(*texts):
    return [Added(message=Msg(id=f"m{i}", role="user", content=text)) for i, text in enumerate(texts)]


ENTRIES = added(*(f"what was said {i}" for i in range(20)))
FLIPS = 1_500


def execute(store, *statements):
    def work():
        for sql in statements:
            yield Statement(sql)

    (store if isinstance(store, Database) else place(store)).write(work)


@pytest.fixture(params=DURABLE)
def store(request, tmp_path):
    with stored(request.param, tmp_path) as made:
        made.append(S, ENTRIES[:10], after=0)
        for i, entry in enumerate(ENTRIES[10:], 10):
            made.append(S, [entry], after=i)
        made.append(T, added("another session"), after=0)
        made.append(T, added("entirely"), after=1)
        yield made


OF = "WHERE user_id = 'u' AND session_id = 's'"
FROM = "FROM autocontext_entries x WHERE x.user_id = 'u' AND x.session_id"
MOVE = "UPDATE autocontext_entries SET sequence"
COUNT = "UPDATE autocontext_sessions SET entries"
BODY = "UPDATE autocontext_entries SET (checksum, body) = (SELECT x.checksum, x.body"
DAMAGES = {
    "two entries change places": (7, [
        f"{MOVE} = 99 {OF} AND sequence = 7",
        f"{MOVE} = 7 {OF} AND sequence = 13",
        f"{MOVE} = 13 {OF} AND sequence = 99",
    ]),
    "neighbours change places": (12, [
        f"{MOVE} = 99 {OF} AND sequence = 12",
        f"{MOVE} = 12 {OF} AND sequence = 13",
        f"{MOVE} = 13 {OF} AND sequence = 99",
    ]),
    "an entry stands twice": (9, [f"{BODY} {FROM} = 's' AND x.sequence = 3) {OF} AND sequence = 8"]),
    "the last is the one before": (18, [
        f"DELETE FROM autocontext_entries {OF} AND sequence = 18", f"{MOVE} = 18 {OF} AND sequence = 19",
        f"{COUNT} = 19 {OF}",
    ]),
    "one is left out": (5, [
        f"DELETE FROM autocontext_entries {OF} AND sequence = 5", f"{MOVE} = sequence + 99 {OF} AND sequence > 5",
        f"{MOVE} = sequence - 100 {OF} AND sequence > 5", f"{COUNT} = 19 {OF}",
    ]),
    "the first is left out": (0, [
        f"DELETE FROM autocontext_entries {OF} AND sequence = 0", f"{MOVE} = sequence + 99 {OF}",
        f"{MOVE} = sequence - 100 {OF}", f"{COUNT} = 19 {OF}",
    ]),
    "the end is cut off": (15, [f"DELETE FROM autocontext_entries {OF} AND sequence >= 15", f"{COUNT} = 15 {OF}"]),
    "one of another session": (1, [f"{BODY} {FROM} = 't' AND x.sequence = 0) {OF} AND sequence = 0"]),
    "the last of another session": (20, [f"{BODY} {FROM} = 't' AND x.sequence = 0) {OF} AND sequence = 19"]),
}  # fmt: skip


@pytest.mark.sampled(7)
@pytest.mark.parametrize("damage", DAMAGES)
def test_row_12_what_was_moved_or_left_out_is_told(store, damage):
    lost, statements = DAMAGES[damage]
    execute(store, *statements)
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match=rf"user 'u', session 's', sequence {lost}: .*\(chain\)"):
            place_read(store)
    with pytest.raises(StoreCorruptError):
        AutoContextMemory(store=store, session_id="s", user_id="u")
    if store is getattr(store, "store", store):  # not encrypted
        assert len(store.read(S, until=lost)) == lost
    assert len(store.read(T)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        f"DELETE FROM autocontext_entries {OF} AND sequence >= 15",
        f"DELETE FROM autocontext_entries {OF} AND sequence = 0",
        f"{MOVE} = 40 {OF} AND sequence = 19",
        f"{COUNT} = 19 {OF}",
    ],
)
def test_the_revisions_of_a_session_that_lacks_entries_are_refused(store, damage):
    assert [revision.entries for revision in store.revisions(S)][-1] == 20
    execute(store, damage)
    with pytest.raises(StoreCorruptError, match="user 'u', session 's': "):
        store.revisions(S)
    assert [revision.entries for revision in store.revisions(T)][-1] == 2


def place_read(store):
    """The entries as they lie there: an encrypted store would also tell by its own tags."""
    return getattr(store, "store", store).read(S)


def test_row_12_rewriting_keeps_the_chain(store):
    for numbers in ((0,), (19,), (3, 4), (18, 19), range(20)):
        new = {n: Added(message=Msg(id=f"m{n}", role="user", content=f"rewritten {n}")) for n in numbers}
        store.rewrite(S, new)
        read = store.read(S)
        assert all(read[n] == entry for n, entry in new.items())
        for after in range(20):
            assert store.read(S, after=after, until=after + 1) == read[after : after + 1]
    assert store.erase(S, ["m7", "m19"]) == 2
    store.append(S, added("on and on"), after=20)
    assert len(store.read(S)) == 21


def of_version_one(where, counts):
    """A database as the first version wrote it: no identities, no chain."""
    database = open_database(where)
    database.ensure(Schema("sessions", SCHEMA.versions[:1]))

    def work():
        for name, count in counts.items():
            yield Statement(
                "INSERT INTO autocontext_sessions (user_id, session_id, entries, edition, created_at, updated_at, "
                "expires_at) VALUES ('u', :name, :count, 0, 1700000000000, 1700000000000, NULL)",
                {"name": name, "count": count},
            )
            yield from old_entries(name, 0, ENTRIES[:count])

    database.write(work)
    database.close()


def old_entries(name, start, entries):
    for i, body in enumerate(map(to_bytes, entries), start):
        yield Statement(
            "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, body) "
            "VALUES ('u', :name, :sequence, 1, :checksum, :body)",
            {"name": name, "sequence": i, "checksum": crc32(body), "body": body},
        )


@pytest.mark.parametrize("kind", ["sqlite file", "postgresql"])
def test_row_12_sessions_of_the_first_version_are_read_and_go_on(kind, tmp_path):
    with home(PLACES.get(kind, "postgresql"), tmp_path) as where:
        of_version_one(where, {"s": 12, "t": 3})
        with opened(kind, where) as store:
            assert store.read(S) == ENTRIES[:12]
            assert store.search("said", user_id="u", limit=50)
            memory = AutoContextMemory(store=store, session_id="s", user_id="u")
            other = AutoContextMemory(store=store, session_id="s", user_id="u")
            for i, entry in enumerate(ENTRIES[12:16]):
                (memory, other)[i % 2].add_message(entry.message)
            assert store.read(S) == ENTRIES[:16]

            def beside():  # a process of the earlier release that is still running
                yield Statement(f"{COUNT} = 18 {OF}")
                yield from old_entries("s", 16, ENTRIES[16:18])

            store.database.write(beside)
            assert store.read(S) == ENTRIES[:18]
            store.append(S, ENTRIES[18:19], after=18)
            store.append(S, ENTRIES[19:], after=19)
            assert store.read(S) == ENTRIES
            store.rewrite(S, {5: ENTRIES[6], 19: ENTRIES[18]})
            assert store.read(S)[19] == ENTRIES[18]
            execute(store, f"DELETE FROM autocontext_entries {OF} AND sequence = 19", f"{COUNT} = 19 {OF}")
            assert len(store.read(S, until=19)) == 19
            memory = AutoContextMemory(store=store, session_id="t", user_id="u")
            store.delete(T)
            store.append(T, ENTRIES[:3], after=0)
            with pytest.raises(SessionGone):
                memory.add_message(ENTRIES[3].message)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite file", "encrypted sqlite"])
def test_row_12_a_bit_flipped_anywhere_is_never_silent(kind, tmp_path):
    whole, path = tmp_path / "whole.db", tmp_path / "damaged.db"
    with closing(opened(kind, whole)) as store:
        for i, entry in enumerate(ENTRIES):
            store.append(S, [entry], after=i)
        store.append(T, ENTRIES, after=0)
        found = store.search("said", user_id="u", limit=50)
        store.scrub()
    content = whole.read_bytes()
    rng = random.Random(1)
    told = 0
    for _ in range(FLIPS):
        damaged = bytearray(content)
        at = rng.randrange(100, len(damaged))
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        # A StoreError that is no StoreCorruptError: the id of an encrypted entry's key was hit.
        with contextlib.suppress(StoreCorruptError, StoreError):
            told += 1
            with closing(opened(kind, path)) as store:
                checked(store, found, at)
            told -= 1
        for file in tmp_path.glob("damaged.db*"):
            file.unlink()
    assert told > FLIPS / 40  # the rest hit unused space, times and batches


def checked(store, found, at):
    for session in (S, T):
        assert store.read(session) == ENTRIES, at
        for n in (0, 9, 19):
            assert store.read(session, after=n, until=n + 1) == [ENTRIES[n]], at
    if {info.key for info in store.sessions()} == {S, T}:
        assert store.search("said", user_id="u", limit=50) == found, at


def test_a_store_of_the_first_version_refuses_nothing_it_wrote(tmp_path):
    need("crypto")
    from autocontext.stores import EncryptedSessionStore

    of_version_one(str(tmp_path / "old.db"), {"s": 20})
    with SqliteSessionStore(tmp_path / "old.db") as store:
        store.append(S, added("more"), after=20)
        copy = store.fork(S)
        assert store.read(copy) == store.read(S)
    assert EncryptedSessionStore(SqliteSessionStore(":memory:"), KEY).read(S) == []
