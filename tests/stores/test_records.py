"""How entries lie in a database, how many statements write one, and which are read only when they are needed."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Added, Removed, entry_bytes
from autocontext.history.log import Log
from autocontext.history.recorded import Stored
from autocontext.messages import COMPACTION
from autocontext.stores import SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.records import _SIGNS, added, from_bytes, id_of_added, to_bytes, unpack

S = SessionKey("u", "s")
PARTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from([phrase.decode() for phrase, _ in _SIGNS]),
    st.sampled_from([sign.decode() for _, sign in _SIGNS]),
    st.sampled_from(["\0", "\\", '"', "\ud800", "\ufffd", COMPACTION, "word " * 300]),
)
TEXTS = st.lists(PARTS, max_size=5).map("".join)
METADATA = st.dictionaries(st.one_of(st.just(COMPACTION), TEXTS), TEXTS, max_size=2)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=METADATA),
    st.builds(ToolUseBlock, id=TEXTS, name=TEXTS, input=METADATA),
    st.builds(ToolResultBlock, id=TEXTS, output=TEXTS),
)
ADDED = st.builds(
    lambda **fields: Added(message=Msg(**fields)),
    id=st.one_of(st.uuids().map(str), TEXTS.filter(lambda text: text and "\ud800" not in text)),
    role=st.sampled_from(["user", "assistant", "tool", "system"]), name=TEXTS,
    content=st.lists(BLOCKS, max_size=3), metadata=METADATA, timestamp=TEXTS,
)  # fmt: skip


@given(st.one_of(ADDED, st.builds(Removed, ids=st.lists(TEXTS).map(tuple))))
def test_an_entry_comes_back_as_it_went(entry):
    body = to_bytes(entry)
    assert unpack(body, zlib.crc32(body)) == entry == from_bytes(entry_bytes(entry))


@given(ADDED)
def test_what_is_read_later_has_its_id_and_no_compaction(entry):
    for body in (to_bytes(entry), entry_bytes(entry), zlib.compress(entry_bytes(entry))):
        id_ = id_of_added(body)
        assert id_ in (None, entry.message.id)
        if any(COMPACTION in block.metadata for block in entry.message.content):
            assert id_ is None


@pytest.mark.parametrize("size", [10, 900, 2000, 9000])
def test_usual_messages_are_read_later_and_are_small(size):
    for role in ("user", "assistant", "system"):
        message = Msg(role=role, content="a word or two " * (size // 14))
        body = to_bytes(Added(message=message))
        assert id_of_added(body) == message.id
        assert added(body) == message
        assert len(body) < 125 + size * (1 if size < 1000 else 0.2)


def statements(store, work):
    """What the connection executes; the statements of the trigger go by the name of the one that fires it."""
    connection = store.database._memory or store.database._pool._idle[0].connection
    executed = []
    connection.set_trace_callback(executed.append)
    work()
    connection.set_trace_callback(None)
    return list(dict.fromkeys(executed))


def test_one_message_is_one_statement(tmp_path):
    with SqliteSessionStore(tmp_path / "a.db") as store:
        memory = AutoContextMemory(store=store)
        memory.add_message(Msg(role="user", content="begins the session"))
        [insert] = statements(store, lambda: memory.add_message(Msg(role="assistant", content="hello")))
        assert insert.startswith("INSERT INTO autocontext_entries")
        assert [info.entries for info in store.sessions()] == [2]


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_entries_are_a_statement_each_and_three_for_all(counts):
    with SqliteSessionStore(":memory:") as store:
        there = 0
        for count in [1, *counts]:
            entries = [Added(message=Msg(role="user", content=f"{n}")) for n in range(there, there + count)]
            done = statements(store, lambda entries=entries, there=there: store.append(S, entries, after=there))
            assert len(done) == (1 if count == 1 and there else count + 3), done
            there += count
            assert [info.entries for info in store.sessions()] == [there]
        assert len(store.read(S)) == there


def entries_of(log):
    return [log.entries[n] for n in range(len(log.entries))]


def test_what_is_out_of_view_is_not_read_when_a_session_opens(tmp_path):
    with SqliteSessionStore(tmp_path / "a.db") as store:
        memory = AutoContextMemory(AutoContextConfig.for_window(4000), store=store, session_id="s", user_id="u")
        for n in range(120):
            memory.add_message(Msg(role=("user", "assistant")[n % 2], content=f"{n}: " + "it was said " * 20))
            memory.compress_if_needed()
        memory.delete_message(len(memory.messages) - 1)
        memory.offload("mine", memory.messages[:2])
        entries = store.read_lazily(S)
        read = []
        for stored in (e for e in entries if isinstance(e, Stored)):
            stored._read = lambda number, body, inner=stored._read: read.append(number) or inner(number, body)
        log, again = Log(entries), Log(store.read(S))
        assert log.view_ids == again.view_ids
        assert len(read) <= 2  # what was offloaded by hand is compared with what is there
        assert log.view_messages == again.view_messages == memory.messages
        assert 0 < len(read) < 60
        assert log.entries == again.entries == entries_of(log)
        assert sorted(read) == [n for n, e in enumerate(entries) if isinstance(e, Stored)]  # each one once
        log = Log(store.read_lazily(S))
        added = [entry.message for entry in log.entries if isinstance(entry, Added)]
        assert all(a is b for a, b in zip(added, log.read(log.original), strict=True))
        log = Log(store.read_lazily(S))
        fork = log.as_it_is()
        assert all(a is b for a, b in zip(log.view_messages, fork.view_messages, strict=True))
        assert fork.snapshot() == again.snapshot() == log.snapshot()
        assert log.entries[-1:] == store.read(S)[-1:]


OPERATIONS = {
    "same id": lambda memory: memory.add_message(Msg(id="same", role="user", content="said again " * 9)),
    "compact": lambda memory: memory.compress_if_needed(force=True),
    "delete": lambda memory: len(memory) and memory.delete_message(len(memory) // 2),
    "offload": lambda memory: memory.offload("mine", memory.messages[:3]),
    "clear": lambda memory: memory.clear(),
    "load": lambda memory: memory.load_state_dict(memory.state_dict()),
}
READINGS = {
    "entries": lambda log: [*log.entries],
    "view": lambda log: log.view_messages,
    "originals": lambda log: log.read(log.original),
    "snapshot": lambda log: log.snapshot(),
    "as it is": lambda log: log.as_it_is().snapshot(),
    "one": lambda log: log.entries[len(log.entries) // 2 :][:1],
}


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.one_of(st.integers(1, 9), st.sampled_from(sorted(OPERATIONS))), max_size=12),
    st.permutations(sorted(READINGS)),
)
def test_a_log_of_stored_messages_reads_as_one_of_messages(operations, order):
    with SqliteSessionStore(":memory:") as store:
        config = AutoContextConfig(msg_threshold=12, last_keep=3, max_token=10**6)
        memory = AutoContextMemory(config, store=store, session_id="s", user_id="u")
        for operation in operations:
            if isinstance(operation, str):
                OPERATIONS[operation](memory)
            else:
                memory.add_messages(
                    Msg(role=("user", "assistant")[n % 2], content=f"{n} " * 90) for n in range(operation)
                )
        lazy, eager = Log(store.read_lazily(S)), Log(store.read(S))
        assert lazy.view_ids == eager.view_ids
        for name in order:
            assert READINGS[name](lazy) == READINGS[name](eager), name


def test_bytes_that_are_no_message_are_told_with_their_place_when_they_are_read(tmp_path):
    with SqliteSessionStore(tmp_path / "a.db") as store:
        for n in range(3):
            store.append(S, [Added(message=Msg(id=f"m{n}", role="user", content="hello"))], after=n)
        body = to_bytes(Added(message=Msg(id="m1", role="user", content="hello"))).replace(b"hello", b'"')

        def work():
            yield Statement(
                "UPDATE autocontext_entries SET body = :body, checksum = :sum WHERE sequence = 1",
                {"body": body, "sum": zlib.crc32(body)},
            )
            yield Statement(
                "UPDATE autocontext_entries SET previous = :sum WHERE sequence = 2", {"sum": zlib.crc32(body)}
            )

        store.database.write(work)
        memory = AutoContextMemory(store=store, session_id="s", user_id="u")
        for _ in range(2):
            with pytest.raises(StoreCorruptError, match="user 'u', session 's', sequence 1: entry"):
                _ = memory.messages
        with pytest.raises(StoreCorruptError, match="sequence 1: entry"):
            store.read(S)
