"""Files of earlier versions open, hold what they held, and go on; also beside a process of the version before."""

import json
import shutil
import sqlite3
from zlib import crc32

import pytest

from autocontext import AutoContext, AutoContextConfig, AutoContextMemory, Msg
from autocontext.cache import ResultCache
from autocontext.errors import StoreVersionError
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores import session_statements as sessions
from autocontext.stores.database import Statement
from tests.data.databases.make import CACHED, HERE, held, messages, seen

NAMES = sorted(path.stem for path in HERE.glob("*.db"))
CONFIG = AutoContextConfig(msg_threshold=10**6, max_token=10**9)
LONG = SessionKey("u", "long")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def path(name, tmp_path):
    copy = tmp_path / "agent.db"
    shutil.copy(HERE / f"{name}.db", copy)
    return copy


@pytest.fixture
def store(path):
    with SqliteSessionStore(path) as opened:
        yield opened


@pytest.fixture
def read_then(name):
    """Digests of what the code that wrote the file read of it."""
    return json.loads((HERE / f"{name}.json").read_text())


def memory_of(store, user_id, session_id):
    return AutoContextMemory(CONFIG, store=store, user_id=user_id, session_id=session_id)


def test_there_is_a_file_of_every_version():
    versions = []
    for name in NAMES:
        with sqlite3.connect(f"file:{HERE / name}.db?mode=ro&immutable=1", uri=True) as file:
            versions += file.execute("SELECT version FROM autocontext_schema WHERE part = 'sessions'").fetchone()
        file.close()
    with SqliteSessionStore(":memory:") as new:
        assert rows(new, "SELECT version FROM autocontext_schema WHERE part = 'sessions'") == [(max(versions),)]
    assert sorted(set(versions)) == list(range(1, max(versions) + 1))


def test_what_an_earlier_version_read_is_read_now(store, read_then):
    del read_then["parts"]
    for session, digests in read_then.items():
        user_id, session_id = session.split("/")
        assert seen(memory_of(store, user_id, session_id)) == digests
    assert memory_of(store, *LONG).get_original_memory_msgs() == list(messages())


def test_what_a_note_of_an_earlier_version_stands_for_comes_back(store):
    memory = memory_of(store, *LONG)
    notes = [m.origin.uuid for m in memory.messages if m.origin is not None]
    assert notes
    originals = {m.id for m in messages()}
    for uuid in notes:
        assert {m.id for m in memory.reload(uuid)} <= originals
    assert [m.text for m in memory.reload("mine")] == ["set aside"]


@pytest.mark.sampled
def test_contents_results_memories_and_states_of_an_earlier_version_are_there_and_go_on(path, read_then):
    assert held(path) == read_then["parts"]
    with AutoContext(path) as context:
        context.content.put("new", key="new", namespace="u")
        context.memories.add("And something new.", user_id="u")
        [found] = context.memories.search("module seven", user_id="u", limit=1)
        assert found.memory.content == "The build runs on module seven."
        assert context.content.search("words", namespace="u")
        session = context.session("worked", user_id="u")
        session.add(Msg(role="user", content="and on"))
        session.save()
        assert session.state().messages[-1].text == "and on"
    with ResultCache(path, namespace=("u", "agent")) as cache:
        assert cache.get_or_compute("task", {"n": 1}, lambda n: n + 4) == 5
        assert cache.invalidate(tag="all") == len(CACHED)
    with AutoContext(path) as context:
        assert context.content.read("new", namespace="u").text == "new"
        assert len(context.memories.all(user_id="u")) == 4
        assert len(context.session("worked", user_id="u").memory) == 11


@pytest.mark.sampled
def test_a_session_of_an_earlier_version_goes_on(store):
    before = memory_of(store, *LONG).get_original_memory_msgs()
    for n in range(3):
        memory_of(store, *LONG).add_message(Msg(role="user", content=f"later {n}"))
    memory = memory_of(store, *LONG)
    assert memory.get_original_memory_msgs()[: len(before)] == before
    assert [m.text for m in memory.messages[-3:]] == ["later 0", "later 1", "later 2"]
    memory = AutoContextMemory(AutoContextConfig.for_window(4000), store=store, user_id="u", session_id="long")
    assert memory.compress_if_needed(force=True)
    assert [m.id for m in memory_of(store, *LONG).messages] == [m.id for m in memory.messages]
    assert store.read(store.fork(LONG)) == store.read(LONG)
    assert store.search("module seven", user_id="u")
    assert store.erase(LONG, ["u5"]) == 1
    assert all("what was said 5" not in m.text for m in memory_of(store, *LONG).get_original_memory_msgs())


def test_a_process_of_the_version_before_writes_beside(store):
    """Version 2 moves the counter itself, then adds the entry: the trigger leaves it where it is."""
    [(size, head)] = rows(store, "SELECT entries, head FROM autocontext_sessions WHERE session_id = 'short'")
    added = "('u', 'short', :at, 1, :checksum, :previous, :body)"
    body = b'{"type":"added","message":{"id":"old","role":"user","name":"user","content":[],"timestamp":"t"}}'
    params = {"at": size, "checksum": crc32(body), "previous": head, "body": body, "then": size + 1}
    rows(
        store,
        "UPDATE autocontext_sessions SET entries = :then, previous = head, head = :checksum "
        "WHERE session_id = 'short' AND entries = :at",
        "INSERT INTO autocontext_entries (user_id, session_id, sequence, batch, checksum, previous, body) VALUES "
        + added,
        **params,
    )
    memory = memory_of(store, "u", "short")
    memory.add_message(Msg(id="new", role="user", content="and on"))
    assert [m.id for m in memory_of(store, "u", "short").messages] == ["s1", "old", "new"]


def test_an_older_version_refuses_a_newer_file(path, monkeypatch):
    """What version 2 has to say about version 3, with the list of statements that it had."""
    SqliteSessionStore(path).close()
    before = path.read_bytes()
    older = sessions.SCHEMA._replace(versions=sessions.SCHEMA.versions[:2])
    monkeypatch.setattr(sessions, "SCHEMA", older)
    with pytest.raises(StoreVersionError, match="sessions have version 3, this library knows 2: upgrade"):
        SqliteSessionStore(path)
    assert path.read_bytes() == before


def rows(store, *statements, **params):
    def work():
        for sql in statements:
            found = yield Statement(sql, params)
        return found

    return store.database.write(work)
