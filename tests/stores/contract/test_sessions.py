"""What every store does with whole sessions: one contract over all of them."""

import asyncio
import io
import math
import threading
import time
from contextlib import closing

import pytest

from autocontext import AutoContextMemory, Msg, ToolResultBlock, ToolUseBlock
from autocontext.errors import ConfigError, Conflict, InvalidMessage
from autocontext.history.entries import Added, Cleared, NoteReplaced, Offloaded
from autocontext.stores import InMemorySessionStore, Revision, SessionKey, SqliteSessionStore, copy_sessions
from autocontext.testing import conversation
from tests.stores.homes import home
from tests.stores.stores import DURABLE, KINDS, PLACES, opened, stored

S = SessionKey("u1", "s")


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    with stored(request.param, tmp_path) as opened:
        yield opened


def added(*texts):
    return [Added(message=Msg(role="user", content=text)) for text in texts]


def test_entries_come_back_as_they_went(store):
    entries = [*added("a", "\ud800 half", "x\x00y", "长" * 5000), NoteReplaced(message=None), Cleared()]
    entries.append(Offloaded(uuid="mine", messages=tuple(conversation(1))))
    store.append(S, entries[:2], after=0)
    store.append(S, entries[2:], after=2)
    assert store.read(S) == entries
    assert store.read(S, after=1, until=3) == entries[1:3]
    assert store.read(S, after=7) == store.read(S, until=0) == store.read(S, after=99) == []
    assert store.read(S, until=99) == entries


def test_an_unknown_session_is_empty(store):
    assert store.read(S) == store.revisions(S) == store.sessions() == []
    assert store.delete(S) is store.expire(S, 10) is False


@pytest.mark.parametrize("wrong", [-1, "2", 1.5, True])
def test_numbers_of_entries_that_are_none_are_named(store, wrong):
    store.append(S, added("a", "b"), after=0)
    for call, name in (
        (lambda: store.read(S, after=wrong), "read: after"),
        (lambda: store.read(S, until=wrong), "read: until"),
        (lambda: asyncio.run(store.aread(S, after=wrong)), "read: after"),
        (lambda: store.fork(S, at=wrong), "fork: at"),
    ):
        with pytest.raises(InvalidMessage, match=f"{name} must be a whole number of at least 0"):
            call()


@pytest.mark.parametrize("name", ["x" * 240, "x" * 255, "长" * 85, ".jsonl"], ids=len)
def test_an_export_takes_any_name_that_a_file_may_have(name, tmp_path):
    store = InMemorySessionStore()
    store.append(S, added("a"), after=0)
    for _ in range(2):
        assert store.export_jsonl(S, tmp_path / name) == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_nothing_appended_makes_no_session(store):
    store.append(S, [], after=0)
    assert store.sessions() == []


@pytest.mark.parametrize("after", [0, 1, 3, 10**6])
def test_a_session_that_is_not_as_long_is_a_conflict_and_nothing_is_stored(store, after):
    store.append(S, added("a", "b"), after=0)
    with pytest.raises(Conflict, match=f"session 's' has 2 entries, not {after}: read it again"):
        store.append(S, added("c", "d", "e"), after=after)
    assert len(store.read(S)) == 2


def test_a_session_that_is_not_there_is_a_conflict_too(store):
    with pytest.raises(Conflict, match="has 0 entries, not 4"):
        store.append(S, added("c"), after=4)
    assert store.sessions() == []


def test_sessions_are_listed_latest_first_with_their_sizes_and_times(store):
    before = time.time_ns() // 1_000_000
    for i, key in enumerate([("u1", "a"), ("u2", "a"), ("u1", "b")]):
        store.append(SessionKey(*key), added(*"xyz"[: i + 1]), after=0)
        time.sleep(0.002)
    store.append(SessionKey("u1", "a"), added("more"), after=1)
    listed = store.sessions("u1")
    assert [(s.key, s.entries) for s in listed] == [(("u1", "a"), 2), (("u1", "b"), 3)]
    assert before <= listed[0].created_at < listed[0].updated_at <= time.time_ns() // 1_000_000
    assert len(store.sessions()) == 3
    assert store.sessions("nobody") == []


@pytest.mark.parametrize("user", ["u1", None])
def test_sessions_in_pages_are_all_of_them_once(store, user):
    for i in range(7):  # some in the same millisecond
        store.append(SessionKey(f"u{i % 2}", f"s{6 - i}"), added("x"), after=0)
    pages = [store.sessions(user, limit=2)]
    while len(pages[-1]) == 2 and len(pages) < 9:
        pages.append(store.sessions(user, limit=2, after=pages[-1][-1]))
    assert [info for page in pages for info in page] == store.sessions(user)
    assert asyncio.run(store.asessions(user, limit=1)) == pages[0][:1]
    with pytest.raises(ConfigError, match="limit must be a whole number of at least 1, or None for all"):
        store.sessions(user, limit=0)


def test_a_deleted_session_is_gone_and_can_begin_anew(store):
    store.append(S, added("a", "b"), after=0)
    store.append(SessionKey("u2", "s"), added("other"), after=0)
    assert store.delete(S) is True
    assert store.read(S) == [] == store.search("a", user_id="u1")
    store.append(S, added("c"), after=0)
    assert [e.message.text for e in store.read(S)] == ["c"]
    assert [e.message.text for e in store.read(SessionKey("u2", "s"))] == ["other"]


def test_expired_sessions_are_purged_and_no_others(store):
    for id_ in ("gone", "kept", "endless"):
        store.append(SessionKey("u", id_), added("x"), after=0)
    assert store.expire(SessionKey("u", "gone"), -1)
    assert store.expire(SessionKey("u", "kept"), 3600)
    assert store.expire(SessionKey("u", "endless"), -1)
    assert store.expire(SessionKey("u", "endless"), None)
    assert store.purge_expired() == 1
    assert {s.session_id for s in store.sessions("u")} == {"kept", "endless"}
    assert store.purge_expired() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_row_06_what_was_said_about_expiry_stands_whatever_is_appended(kind, tmp_path):
    with home(PLACES.get(kind, "postgresql"), tmp_path) as where:
        store = InMemorySessionStore(ttl=10_000) if kind == "in memory" else opened(kind, where, ttl=10_000)
        with closing(store):
            said = {"nothing": 0, "never": None, "longer": 100_000, "shorter": 1_000, "never, then longer": None}
            for id_, ttl in said.items():
                key = SessionKey("u", id_)
                store.append(key, added("x"), after=0)
                assert id_ == "nothing" or store.expire(key, ttl)
            store.expire(SessionKey("u", "never, then longer"), 100_000)
            for after in (1, 2):
                for id_ in said:
                    store.append(SessionKey("u", id_), added("y"), after=after)
            infos = {info.session_id: info for info in store.sessions("u")}
            left = {id_: info.expires_at and round(info.expires_at / 1000 - time.time()) for id_, info in infos.items()}
            assert left == {
                "nothing": pytest.approx(10_000, abs=900), "never": None, "longer": pytest.approx(100_000, abs=900),
                "shorter": pytest.approx(10_000, abs=900), "never, then longer": pytest.approx(100_000, abs=900),
            }  # fmt: skip
            assert [id_ for id_, info in infos.items() if info.stays] == ["never"]
            to = InMemorySessionStore(ttl=50)
            copy_sessions(store, to)
            to.append(SessionKey("u", "never"), added("z"), after=3)
            assert {i.session_id for i in to.sessions() if i.expires_at is None} == {"never"}
            assert store.expire(SessionKey("u", "never"), -1)
            assert store.purge_expired() == 1


def test_row_06_a_session_that_nobody_spoke_for_gets_the_ttl_of_a_later_store(tmp_path):
    path = tmp_path / "agent.db"
    with SqliteSessionStore(path) as store:
        store.append(S, added("a"), after=0)
        assert store.sessions()[0].expires_at is None
    with SqliteSessionStore(path, ttl=100) as store:
        store.append(S, added("b"), after=1)
        assert store.sessions()[0].expires_at


@pytest.mark.parametrize("kind", DURABLE)
def test_a_ttl_reaches_what_was_written_before_it_was_set(kind, tmp_path):
    said = {"never": None, "longer": 3600, "nothing": ...}
    with home(PLACES.get(kind, kind.removeprefix("encrypted ")), tmp_path) as where:
        with closing(opened(kind, where)) as store:
            for id_, ttl in said.items():
                store.append(SessionKey("u", id_), added("a"), after=0)
                assert ttl is ... or store.expire(SessionKey("u", id_), ttl)
            before = {info.session_id: info for info in store.sessions()}
        with closing(opened(kind, where, ttl=100)) as store:
            [info] = [info for info in store.sessions() if info.session_id == "nothing"]
            assert info == before["nothing"]._replace(expires_at=info.updated_at + 100_000)
            assert {i.session_id: i for i in store.sessions()} == before | {"nothing": info}
            assert store.purge_expired() == 0
        time.sleep(0.01)
        with closing(opened(kind, where, ttl=0.001)) as store:
            assert store.purge_expired() == 1
            assert {info.session_id for info in store.sessions()} == {"never", "longer"}


@pytest.mark.parametrize("ttl", [None, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_expires_when_its_session_does(kind, ttl, tmp_path):
    with home(PLACES.get(kind, kind.removeprefix("encrypted ").removeprefix("in ")), tmp_path) as where:
        store = InMemorySessionStore(ttl=ttl) if kind == "in memory" else opened(kind, where, ttl=ttl)
        with closing(store):
            for expiry in (..., 3600, -1, None):
                session = SessionKey("u", str(expiry))
                store.append(session, added("a"), after=0)
                assert expiry is ... or store.expire(session, expiry)
                fork = store.fork(session)
                infos = {info.key: info for info in store.sessions()}
                assert infos[fork].stays is infos[session].stays
                if ttl is not None and expiry in (..., -1):  # by its own last entry
                    assert infos[fork].expires_at == pytest.approx(infos[fork].updated_at + 100_000, abs=60_000)
                elif infos[session].expires_at is None:
                    assert infos[fork].expires_at is None
                else:
                    assert infos[fork].expires_at == pytest.approx(infos[session].expires_at, abs=60_000)


def test_a_fork_lists_no_sessions(store, monkeypatch):
    store.append(S, added("a"), after=0)
    of_all = type(store).sessions
    listed = []
    monkeypatch.setattr(type(store), "sessions", lambda *args, **page: listed.append(args) or of_all(*args, **page))
    assert store.read(store.fork(S)) == store.read(S)
    assert listed == []


HALVES = ("\ud800", "\udc00x", "\ud83d\ude00", "\ufffd", "plain")


def test_row_09_halves_of_surrogate_pairs_in_keys_come_back_byte_for_byte(store):
    nested = {half: {half: [{half: half}]} for half in HALVES}
    entries = [
        Added(message=Msg(role="user", content="x", metadata=nested)),
        Added(message=Msg(role="assistant", content=[ToolUseBlock(id="c", name="n", input=nested)])),
        Added(message=Msg(role="tool", content=[ToolResultBlock(id="c", name="n", output="o", metadata=nested)])),
    ]
    store.append(S, entries, after=0)
    read = store.read(S)
    assert read == entries
    assert list(read[0].message.metadata) == list(HALVES)
    memory = AutoContextMemory(store=store, session_id="s", user_id="u1")
    memory.load_state_dict(memory.state_dict())
    again = AutoContextMemory(store=store, session_id="s", user_id="u1")
    assert again.get_original_memory_msgs() == [entry.message for entry in entries]
    store.export_jsonl(S, out := io.StringIO())
    store.import_jsonl(SessionKey("u", "copy"), io.StringIO(out.getvalue().encode().decode()))
    assert store.read(SessionKey("u", "copy")) == store.read(S)


def test_revisions_tell_the_states_a_session_was_in(store):
    store.append(S, added("a"), after=0)
    store.append(S, added("b", "c"), after=1)
    revisions = store.revisions(S)
    assert [r.entries for r in revisions] == [1, 3]
    assert all(isinstance(r, Revision) and abs(r.time - time.time() * 1000) < 600_000 for r in revisions)


def test_a_fork_is_a_session_of_its_own_from_any_revision(store):
    store.append(S, added("a", "b", "c"), after=0)
    to = store.fork(S, at=2, new_id="branch")
    assert to == SessionKey("u1", "branch")
    store.append(to, added("other way"), after=2)
    assert [e.message.text for e in store.read(to)] == ["a", "b", "other way"]
    assert [e.message.text for e in store.read(S)] == ["a", "b", "c"]
    assert len(store.read(store.fork(S))) == 3
    with pytest.raises(Conflict, match="'branch' exists already; choose another new_id"):
        store.fork(S, new_id="branch")
    with pytest.raises(InvalidMessage, match="has no entries to copy"):
        store.fork(SessionKey("u2", "s"))


def test_rewriting_replaces_by_number(store):
    store.append(S, added("a", "b", "c"), after=0)
    [new] = added("B")
    store.rewrite(S, {1: new})
    assert [e.message.text for e in store.read(S)] == ["a", "B", "c"]


def test_export_and_import_give_the_same_session(store, tmp_path):
    entries = [*added("a", "\ud800", "税"), Cleared()]
    store.append(S, entries, after=0)
    assert store.export_jsonl(S, tmp_path / "s.jsonl") == 4
    to = SessionKey("u2", "copy")
    assert store.import_jsonl(to, tmp_path / "s.jsonl") == 4
    assert store.read(to) == entries
    with pytest.raises(Conflict, match="exists already; import it under another id"):
        store.import_jsonl(to, tmp_path / "s.jsonl")


def test_a_session_that_is_gone_leaves_its_last_export(store, tmp_path):
    path = tmp_path / "s.jsonl"
    store.append(S, added("a"), after=0)
    store.export_jsonl(S, path)
    exported = path.read_bytes()
    store.expire(S, -1)
    assert store.purge_expired() == 1
    for to in (path, io.StringIO()):
        with pytest.raises(InvalidMessage, match="session 's' of user 'u1' has no entries to export"):
            store.export_jsonl(S, to)
    assert path.read_bytes() == exported
    for empty in ('{"type":"session","entries":0,"checksum":0}\n', "\n", ""):
        with pytest.raises(InvalidMessage, match="it has no entries"):
            store.import_jsonl(S, io.StringIO(empty))


def test_a_damaged_line_is_named_and_nothing_is_imported(store, tmp_path):
    store.append(S, added("a", "b", "c"), after=0)
    path = tmp_path / "s.jsonl"
    store.export_jsonl(S, path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:-9], lines[2]]))
    with pytest.raises(InvalidMessage, match=r"s\.jsonl:2: "):
        store.import_jsonl(SessionKey("u1", "t"), path)
    assert store.read(SessionKey("u1", "t")) == []


def test_row_12_an_export_that_was_cut_or_mixed_up_is_told_and_an_old_one_is_read(tmp_path):
    store = InMemorySessionStore()
    store.append(S, added("a", "b", "税\u2028", "\ud800", "e"), after=0)
    path = tmp_path / "s.jsonl"
    store.export_jsonl(S, path)
    head, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    to = SessionKey("u1", "t")
    for wrong in (lines[:-1], lines[1:], [lines[1], lines[0], *lines[2:]], [*lines, lines[0]], []):
        with pytest.raises(InvalidMessage, match=rf"{len(wrong)} entries are not the 5 that were exported"):
            store.import_jsonl(to, io.StringIO("\n".join([head, *wrong])))
        assert store.read(to) == []
    for i, right in enumerate(("\r\n".join([head, *lines]), "\n".join(lines), "\n\n".join([head, *lines]) + "\n")):
        assert store.import_jsonl(SessionKey("u1", str(i)), io.StringIO(right, newline="")) == 5
        assert store.read(SessionKey("u1", str(i))) == store.read(S)


def test_threads_that_append_get_in_behind_each_other(store):
    mine = {}

    def work(name):
        mine[name] = 0
        for i in range(12):
            while True:
                try:
                    store.append(S, added(f"{name} {i}"), after=len(store.read(S)))
                    break
                except Conflict:
                    continue
            mine[name] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in "abc"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    texts = [e.message.text for e in store.read(S)]
    assert [t for t in texts if t[0] == "b"] == [f"b {i}" for i in range(12)]
    assert len(texts) == len(set(texts)) == 36


@pytest.mark.sampled
def test_a_memory_opens_where_it_was_left(store):
    memory = AutoContextMemory(store=store, session_id="m", user_id="u")
    memory.add_messages(conversation(40))
    assert memory.compress_if_needed(force=True)
    again = AutoContextMemory(store=store, session_id="m", user_id="u")
    assert again.state_dict() == memory.state_dict()


def test_ids_that_databases_cannot_hold_are_refused(store):
    for key in (SessionKey("u\x00", "s"), SessionKey("u", "s\ud800")):
        with pytest.raises(InvalidMessage, match="holds NUL or half a surrogate pair"):
            store.append(key, added("a"), after=0)


def test_names_that_look_like_sql_are_only_names(store):
    odd = [
        SessionKey("' OR 1=1 --", ":user_id"),
        SessionKey("%", "_"),
        SessionKey("", "税 🏳️‍🌈"),
        SessionKey("\\", "x" * 1000),
    ]
    for key in odd:
        store.append(key, added(str(key)), after=0)
    for key in odd:
        assert [e.message.text for e in store.read(key)] == [str(key)]
        assert [s.key for s in store.sessions(key.user_id)] == [key]


@pytest.mark.parametrize("kind", KINDS)
def test_async_twins_do_the_same(kind, tmp_path):
    async def go(store):
        await store.aappend(S, added("a", "b"), after=0)
        with pytest.raises(Conflict):
            await store.aappend(S, added("c"), after=0)
        assert [e.message.text for e in await store.aread(S, after=1)] == ["b"]
        assert [info.key for info in await store.asessions("u1")] == [S]
        [found] = await store.asearch("b", user_id="u1")
        assert await store.aerase(S, [found.message_id]) == 1
        assert await store.adelete(S) is True
        assert await store.aread(S) == []
        await store.aclose()

    with stored(kind, tmp_path) as store:
        asyncio.run(go(store))


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_is_run_again_finds_the_same_entries(kind, tmp_path):
    with stored("sqlite file", tmp_path) as source, stored(kind, tmp_path) as to:
        for number in (math.nan, math.inf, -0.0, "\ud800"):
            message = Msg(role="user", content="x", metadata={"n": number})
            source.append(SessionKey("u1", repr(number)), [Added(message=message)], after=0)
        assert copy_sessions(source, to) == 4
        assert copy_sessions(source, to) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", DURABLE)
def test_copies_arrive_whole_can_be_taken_up_again_and_keep_tenants_apart(kind, tmp_path):
    told = []
    with stored("sqlite file", tmp_path) as source, stored(kind, tmp_path) as to:
        for user, id_, n in (("u1", "s", 3), ("u2", "s", 2), ("u1", "long", 700)):
            source.append(SessionKey(user, id_), added(*(f"{user} {id_} {i}" for i in range(n))), after=0)
        source.expire(SessionKey("u2", "s"), 3600)
        to.append(S, source.read(S, until=1), after=0)
        assert copy_sessions(source, to, progress=told.append) == 704
        assert copy_sessions(source, to) == 0
        for info in source.sessions():
            assert to.read(info.key) == source.read(info.key)
            [there] = [i for i in to.sessions(info.user_id) if i.key == info.key]
            assert there.expires_at == pytest.approx(info.expires_at, abs=60_000) if info.expires_at else True
        assert [(p.done, p.total) for p in told] == [(1, 3), (2, 3), (3, 3)]
        source.append(S, added("grown"), after=3)
        assert copy_sessions(source, to, user_id="u2") == 0
        assert copy_sessions(source, to, user_id="u1") == 1
        to.append(SessionKey("u3", "s"), added("mine"), after=0)
        source.append(SessionKey("u3", "s"), added("yours"), after=0)
        with pytest.raises(Conflict, match="of user 'u3' exists at the target with other entries"):
            copy_sessions(source, to)
