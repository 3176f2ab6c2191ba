"""A session that was deleted, and perhaps made anew under its name: a memory of it is told, and writes nothing."""

import contextlib
import threading
import time
from contextlib import closing

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.errors import Conflict, SessionGone
from autocontext.history.entries import Added, dump_entry
from autocontext.stores import InMemorySessionStore, SessionKey, copy_sessions
from autocontext.stores.protocol import Entries, Position, Version, new_version
from autocontext.testing import ScriptedModel, conversation
from tests.stores.homes import home
from tests.stores.processes import forked, waited
from tests.stores.stores import KINDS, PLACES, opened, stored

S = SessionKey("u", "s")
CONFIG = AutoContextConfig(msg_threshold=10, last_keep=2, max_token=100_000)


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    with stored(request.param, tmp_path) as made:
        yield made


def user(text):
    return Msg(role="user", content=text)


def added(*texts):
    return [Added(message=user(text)) for text in texts]


def memory_of(store):
    return AutoContextMemory(CONFIG, store=store, session_id="s", user_id="u")


def compressed(store):
    memory = memory_of(store)
    memory.add_messages(conversation(12))
    assert memory.compress_if_needed(force=True)
    return memory


ACTIONS = {
    "add": lambda m: m.add_message(user("one more")),
    "delete": lambda m: m.delete_message(3),
    "clear": lambda m: m.clear(),
    "undo": lambda m: m.undo(next(reversed(m.get_offload_context()))),
    "offload": lambda m: m.offload("mine", [user("aside")]),
    "load": lambda m: m.load_state_dict(m.state_dict()),
    "refresh": lambda m: m.refresh(),
}
ANEW = {"deleted": None, "one entry": 1, "as many entries": 0, "more entries": 40}


@pytest.mark.slow
@pytest.mark.parametrize("anew", ANEW)
def test_row_07_what_a_deleted_session_said_is_not_written_back(store, anew):
    memory = compressed(store)
    size = len(store.read(S))
    assert store.delete(S)
    count = ANEW[anew] if ANEW[anew] != 0 else size
    if count is not None:
        store.append(S, added(*(f"new {i}" for i in range(count))), after=0)
    new, state = store.read(S), memory.state_dict()
    told = "was deleted; nothing" if count is None else "created again: it is another one now; nothing"
    for act in ACTIONS.values():
        with pytest.raises(SessionGone, match=f"session 's' .*{told} of this memory was written"):
            act(memory)
        assert store.read(S) == new
    assert not memory.compress_if_needed(force=True)
    assert memory.get_messages()
    assert memory.get_offload_context() == compressed_state(state)
    assert memory.state_dict() == state
    assert store.read(S) == new
    again = memory_of(store)
    again.add_message(user("one more"))
    assert len(store.read(S)) == len(new) + 1


def compressed_state(state):
    return {uuid: [Msg.model_validate(m) for m in messages] for uuid, messages in state["offload_context"].items()}


@pytest.mark.slow
def test_row_07_a_deleted_session_is_told_at_the_first_attempt():
    class Counting(InMemorySessionStore):
        appends = 0

        def append(self, session, entries, *, after):
            self.appends += 1
            super().append(session, entries, after=after)

    store = Counting()
    memory = compressed(store)
    store.delete(S)
    store.appends = 0
    with pytest.raises(Conflict):
        memory.add_message(user("one more"))
    assert store.appends == 1


def test_row_07_a_memory_that_has_stored_nothing_yet_joins_whoever_begins(store):
    one, other = memory_of(store), memory_of(store)
    one.add_message(user("first"))
    other.add_message(user("second"))
    one.add_message(user("third"))
    assert [e.message.text for e in store.read(S)] == ["first", "second", "third"]


@pytest.mark.slow
def test_row_07_two_memories_that_begin_a_deleted_session_at_once_share_the_new_one(store):
    compressed(store)
    store.delete(S)
    memories = [memory_of(store) for _ in range(4)]
    threads = [threading.Thread(target=m.add_message, args=(user(str(i)),)) for i, m in enumerate(memories)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for memory in memories:
        memory.add_message(user("and more"))
    assert len(store.read(S)) == 8


def test_row_07_every_reading_and_every_position_names_the_session(store):
    version = new_version()
    store.append(S, added("a"), after=Position(0, version))
    assert store.read(S).version == store.read(S, after=5).version == version
    store.append(S, added("b"), after=Position(1, version))
    store.append(S, added("c"), after=2)
    with pytest.raises(SessionGone):
        store.append(S, added("d"), after=Position(3, new_version()))
    with pytest.raises(Conflict, match="has 3 entries, not 2") as told:
        store.append(S, added("d"), after=Position(2, version))
    assert not isinstance(told.value, SessionGone)
    assert store.read(SessionKey("u", "none")).version is None
    store.rewrite(S, {1: added("B")[0]})
    with pytest.raises(Conflict, match="was rewritten since it was read") as told:
        store.append(S, added("d"), after=Position(3, version))
    assert not isinstance(told.value, SessionGone)
    assert store.read(S).version == version._replace(edition=1)
    store.delete(S)
    store.append(S, added("a", "b", "c"), after=0)
    assert store.read(S).version.identity != version.identity


def test_row_07_a_store_of_ones_own_that_knows_no_identities_works_as_before():
    class Plain:
        def __init__(self):
            self.inner = InMemorySessionStore()
            self.close = self.inner.close

        def append(self, session, entries, *, after):
            self.inner.append(session, entries, after=int(after))

        def read(self, session, *, after=0, until=None):
            return list(self.inner.read(session, after=after, until=until))

    store = Plain()
    one, other = memory_of(store), memory_of(store)
    for memory in (one, other, memory_of(store)):
        memory.add_message(user("hello"))
    assert one.refresh() == 2
    assert len(store.read(S)) == 3


def test_row_07_a_store_that_reads_plain_lists_over_one_that_knows_versions_mixes_nothing():
    class Listing(InMemorySessionStore):
        def read(self, session, *, after=0, until=None):
            return list(super().read(session, after=after, until=until))

    store = Listing()
    memory = memory_of(store)
    memory.add_message(user("old"))
    store.delete(S)
    store.append(S, added("new", "newer"), after=0)
    with pytest.raises(SessionGone):
        memory.add_message(user("older"))
    assert [m.text for m in memory.messages] == ["old"]
    assert len(store.read(S)) == 2


@pytest.mark.slow
def test_what_another_process_has_erased_is_not_written_back_by_an_open_memory(store):
    memory, other = compressed(store), memory_of(store)
    secret = Msg(id="secret", role="user", content="my password is hunter2, remember that")
    memory.add_message(secret)
    assert other.refresh() == 1
    assert store.erase(S, ["secret"]) == 1
    for each in (memory, other):
        each.add_messages(conversation(6))
        each.get_messages()
        each.load_state_dict(each.state_dict())
        assert "[redacted]" in [m.text for m in each.get_original_memory_msgs()]
    assert "hunter2" not in "".join(map(dump_entry, store.read(S)))
    memory.refresh()
    assert memory.state_dict() == other.state_dict() == memory_of(store).state_dict()
    assert memory.token_count == other.token_count == memory_of(store).token_count


@pytest.mark.slow
def test_an_open_memory_takes_an_erasing_over_with_its_counts():
    store = InMemorySessionStore()
    memory = compressed(store)
    memory.add_message(Msg(id="secret", role="user", content="my password is hunter2 " * 30))
    assert memory.token_count
    store.erase(S, ["secret"])
    store.append(S, added("one more"), after=len(store.read(S)))
    assert memory.refresh() == 1
    fresh = memory_of(store)
    assert memory.messages == fresh.messages
    assert memory.token_count == fresh.token_count
    assert memory.refresh() == 0


@pytest.mark.slow
def test_an_erasure_during_a_pass_makes_it_give_up_and_its_note_is_not_stored(store):
    def asked(_request):
        assert store.erase(S, ["secret"]) == 1
        return "The password is hunter2."

    memory = AutoContextMemory(CONFIG, ScriptedModel(asked), store=store, session_id="s", user_id="u")
    memory.add_message(Msg(id="secret", role="user", content="my password is hunter2, remember that " * 50))
    memory.add_messages(conversation(20))
    assert memory.compress_if_needed(force=True).outcome == "busy"
    assert "hunter2" not in "".join(map(dump_entry, store.read(S)))
    assert memory.messages == memory_of(store).messages


def test_row_07_a_copy_does_not_mix_two_sessions_of_one_name(tmp_path):
    class Replaced(InMemorySessionStore):
        reads = 0

        def read(self, session, *, after=0, until=None):
            self.reads += 1
            if self.reads == 3:
                self.delete(session)
                self.append(session, added(*(f"new {i}" for i in range(1500))), after=0)
            return super().read(session, after=after, until=until)

    source, to = Replaced(), InMemorySessionStore()
    source.append(S, added(*(f"old {i}" for i in range(1500))), after=0)
    with pytest.raises(SessionGone):
        copy_sessions(source, to)
    assert {e.message.text[:3] for e in to.read(S)} == {"old"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite file", "postgresql", "encrypted sqlite"])
def test_row_07_processes_never_write_into_another_session_of_the_name(kind, tmp_path):
    """One deletes the session and makes it anew, again and again; three add to whichever they have opened."""
    with home(PLACES.get(kind, "postgresql"), tmp_path) as url:
        with closing(opened(kind, url)) as store:
            store.append(S, added("0"), after=0)

        def write():
            mine = opened(kind, url)
            name = "0"
            while name != "end":
                memory = memory_of(mine)
                name = memory.messages[0].text if memory.messages else "0"
                with contextlib.suppress(SessionGone):
                    for _ in range(10 * bool(memory.messages)):
                        memory.add_message(user(name))

        def renew():
            mine = opened(kind, url)
            for n in [*range(1, 30), "end"]:
                time.sleep(0.01)
                assert len({entry.message.text for entry in mine.read(S)}) == 1
                mine.delete(S)
                mine.append(S, added(str(n)), after=0)

        waited([forked(write) for _ in range(3)] + [forked(renew)])
        with closing(opened(kind, url)) as store:
            assert {entry.message.text for entry in store.read(S)} == {"end"}


def test_entries_are_a_list_that_knows_its_session():
    assert Entries(added("a"), Version(7)).version == (7, 0)
    assert Entries() == []
    assert Entries().version is None
    assert Position(3) == 3
    assert Position(3).version is None
