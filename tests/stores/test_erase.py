"""Erasing: what a message said is nowhere any more, and the conversation stays valid."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.history.entries import Added, NoteReplaced, Offloaded, dump_entry
from autocontext.messages import Origin
from autocontext.stores import InMemorySessionStore, SessionKey, SqliteSessionStore
from autocontext.stores.database import Statement
from autocontext.stores.erasing import ERASED
from autocontext.stores.records import to_bytes
from autocontext.testing import ScriptedModel, assert_valid_chat, conversation, tool_exchange, user
from autocontext.text.rendering import written_note
from tests.profiles import share
from tests.stores.stores import KINDS, stored

SECRET = "hunter2-swordfish"
U = SessionKey("u", "s")


def memory_on(store, **options):
    return AutoContextMemory(store=store, session_id="s", user_id="u", **options)


def filled(store, *, passes=2):
    """A session in which a secret was said, called with, answered with, summarised, shortened and offloaded."""
    tried = f"The password {SECRET} was tried in /src/login.py, line 7."
    memory = memory_on(store, model=ScriptedModel(lambda asked: tried if SECRET in asked.prompt else "In short."))
    call = tool_exchange("login", {"password": SECRET}, f"accepted {SECRET}\n" * 900)
    told = user(f"my password is {SECRET}", metadata={"hint": SECRET})
    memory.add_messages([*conversation(3), told, *call, *conversation(8, chars=1000)])
    for _ in range(passes):
        memory.compress_if_needed(force=True)
        memory.add_messages(conversation(3))
    memory.offload("mine", [told])
    return memory, [told.id, call[0].id, call[1].id]


def said(store):
    return "".join(map(dump_entry, store.read(U)))


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_an_erased_message_is_nowhere_and_pairing_stays_valid(kind, tmp_path):
    with stored(kind, tmp_path) as store:
        memory, ids = filled(store)
        assert store.search(SECRET, user_id="u")
        assert SECRET in said(store)
        before = memory.get_original_memory_msgs()
        assert store.erase(U, [*ids, "unknown"]) == 3
        assert SECRET not in said(store)
        assert store.search(SECRET, user_id="u") == []
        again = memory_on(store)
        assert_valid_chat(again.messages)
        after = again.get_original_memory_msgs()
        assert [m.id for m in after] == [m.id for m in before]
        assert [m for m in after if m.id not in ids] == [m for m in before if m.id not in ids]
        assert {ERASED in str(m.to_dict()) for m in after if m.id in ids if not m.tool_uses} == {True}
        assert again.get_offload_context().keys() == memory.get_offload_context().keys()
        assert store.erase(U, ids) == 3


def erases_beside(number, store, *, loaded):
    """Erase a message of a session in which another holds this number."""
    memory = memory_on(store)
    memory.add_messages([user(SECRET, metadata={"score": number}), user("hello", metadata={"score": number})])
    told, kept = memory.messages
    if loaded:  # one entry holds all of its messages
        memory.load_state_dict(memory.state_dict())
    assert store.erase(U, [told.id]) == 1
    assert SECRET not in said(store)
    assert repr(memory_on(store).messages[1]) == repr(kept)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_erased_whatever_number_stands_in_it(kind, loaded, tmp_path):
    with stored(kind, tmp_path) as store:
        erases_beside(math.nan, store, loaded=loaded)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("number", [math.nan, -math.inf, -0.0, 2**80])
def test_a_store_without_a_swap_erases_whatever_number_stands_there(number, loaded):
    class Own(InMemorySessionStore):
        swap = None

    erases_beside(number, Own(), loaded=loaded)


def imported(store, note, *, offloaded=False):
    """A session of AgentScope-Java with a note, which is in view or has itself been offloaded."""
    said_then = conversation(2)
    before, after = [user(f"my password is {SECRET}", name="told"), said_then[0]], said_then[1:]
    view = [note, *after]
    lists = {"working_memory_storage": after if offloaded else view, "original_memory_storage": [*before, *after]}
    offloads = {UUID: before, **({"later": [note]} if offloaded else {})}
    memory = memory_on(store)
    memory.load_state_dict(
        {
            "version": 1,
            **{name: [m.to_dict() for m in messages] for name, messages in lists.items()},
            "offload_context": {uuid: [m.to_dict() for m in messages] for uuid, messages in offloads.items()},
            "compression_events": [],
        }
    )
    return memory, before[0]


UUID = "0b9d4f3e-7c1a-4b52-9a3f-2f6f0a1f7d11"
MARK = {"_compress_meta": {"offloaduuid": UUID}}


@pytest.mark.parametrize("kind", ["sqlite file", "encrypted sqlite"])
@pytest.mark.parametrize(
    ("text", "metadata", "offloaded"),
    [
        (f"The user's password is {SECRET}.\n<!-- CONTEXT_OFFLOAD: uuid={UUID} -->", MARK, False),
        (f"用户的密码是 {SECRET}。\n<!-- CONTEXT_OFFLOAD: uuid={UUID} -->", MARK, True),
        (f"用户的密码是 {SECRET}。", {}, False),
        (f"They said: {SECRET}", {"_compress_meta": "of another release"}, True),
    ],
    ids=["in view", "offloaded", "without a mark", "with another mark"],
)
def test_a_note_of_agentscope_java_that_may_quote_it_is_emptied(kind, text, metadata, offloaded, tmp_path):
    with stored(kind, tmp_path) as store:
        note = Msg(role="assistant", content=text, metadata=metadata)
        memory, told = imported(store, note, offloaded=offloaded)
        assert [hit.message_id for hit in store.search(SECRET, user_id="u")] == [told.id]
        memory.compress_if_needed(force=True)  # its own notes are made of that one
        assert store.erase(U, [told.id]) == 1
        assert SECRET not in said(store)
        assert store.search(SECRET, user_id="u") == []
        again = memory_on(store)
        assert again.get_original_memory_msgs()[1:] == memory.get_original_memory_msgs()[1:]
        assert [m.id for m in again.reload(UUID)] == [m.id for m in memory.reload(UUID)]
        held = [*again.messages, *(m for messages in again.get_offload_context().values() for m in messages)]
        tag = f"\n<!-- CONTEXT_OFFLOAD: uuid={UUID} -->" if metadata == MARK else ""
        assert {m.text for m in held if m.id == note.id} == {ERASED + tag}


def test_a_note_of_agentscope_java_about_other_messages_keeps_its_words():
    store = InMemorySessionStore()
    memory, _ = imported(store, Msg(role="assistant", content="In short.", metadata=MARK))
    before = memory.messages
    told = user(f"my other password is {SECRET}")
    memory.add_message(told)
    store.erase(U, [told.id])
    assert memory_on(store).messages[:-1] == before


def pieces(entry):
    """Stretches of an entry's stored bytes that would be found in the file, also where it is spread over pages."""
    body = to_bytes(entry)
    return [body[i : i + 24] for i in range(30, len(body) - 24, 1000)] + [body[-24:]]


def files(folder):
    return b"".join(f.read_bytes() for f in folder.iterdir())


def random_entries(count):
    rng = random.Random(7)
    sizes = [rng.choice((5, 60, 400, 2000, 9000)) for _ in range(count)]
    return [
        Added(message=Msg(id=f"{i}", role="user", content=rng.randbytes(size).hex(), timestamp="t"))
        for i, size in enumerate(sizes)
    ]


@pytest.mark.slow
def test_what_was_erased_is_not_in_the_files_bytes(tmp_path):
    entries = random_entries(60)
    store = SqliteSessionStore(tmp_path / "agent.db")
    for i, entry in enumerate(entries):
        store.append(U, [entry], after=i)
    store.search("ab", user_id="u")
    written = files(tmp_path)
    assert all(piece in written for entry in entries for piece in pieces(entry)[:1])
    random.Random(3).shuffle(entries)
    for at in range(0, 60, 20):
        store.erase(U, [e.message.id for e in entries[at : at + 20]])
        written = files(tmp_path)
        assert [e.message.id for e in entries[: at + 20] for piece in pieces(e) if piece in written] == []
        assert (tmp_path / "agent.db-wal").stat().st_size == 0

    def integrity():
        return (yield Statement("PRAGMA integrity_check"))

    assert store.database.read(integrity) == [("ok",)]


def test_deleting_and_scrubbing_leaves_no_bytes_either(tmp_path):
    entries = random_entries(30)
    store = SqliteSessionStore(tmp_path / "agent.db")
    store.append(U, entries, after=0)
    store.append(SessionKey("u", "other"), random_entries(1), after=0)
    store.delete(U)
    store.scrub()
    written = files(tmp_path)
    assert not any(piece in written for entry in entries[1:] for piece in pieces(entry))


def test_what_was_added_while_erasing_is_erased_too():
    class Growing(InMemorySessionStore):
        """Another process notes the secret down between the reading and the rewriting."""

        def rewrite(self, session, entries):
            if len(self.read(session)) == before:
                self.append(session, [Offloaded(uuid="late", messages=(told,))], after=before)
            super().rewrite(session, entries)

    store = Growing()
    _, [told_id, *_] = filled(store, passes=0)
    told = next(m for m in memory_on(store).get_original_memory_msgs() if m.id == told_id)
    before = len(store.read(U))
    store.erase(U, [told_id])
    assert "my password is" not in said(store)


@pytest.mark.slow
def test_a_ledger_of_an_earlier_release_that_may_quote_it_is_emptied():
    store = InMemorySessionStore()
    _, ids = filled(store)
    quoting = Msg(role="user", content=f"password {SECRET}", origin=Origin(uuid="u" * 8, kind="ledger"))
    store.append(U, [NoteReplaced(message=quoting)], after=len(store.read(U)))
    store.erase(U, ids)
    (noted,) = [e for e in store.read(U) if isinstance(e, NoteReplaced)]
    assert SECRET not in dump_entry(noted)
    assert noted.message.origin == quoting.origin


@pytest.mark.parametrize("loaded", [False, True])
def test_a_note_about_other_messages_keeps_its_words(loaded):
    store, first = InMemorySessionStore(), InMemorySessionStore()
    config = AutoContextConfig.for_window(2_000)
    memory = memory_on(first if loaded else store, config=config, model=ScriptedModel("Three orders are open."))
    memory.add_messages(conversation(8, chars=1000))
    assert memory.compress_if_needed()
    if loaded:  # one entry holds all of its messages
        memory, state = memory_on(store), memory.state_dict()
        memory.load_state_dict(state)
    before = memory.messages
    assert any("Three orders are open." in m.text for m in before)
    told = user(f"my password is {SECRET}")
    memory.add_messages([told, *conversation(1)])
    store.erase(U, [told.id])
    assert memory_on(store).messages[: len(before)] == before
    assert SECRET not in said(store)


def test_a_note_that_stands_for_loaded_ones_about_other_messages_keeps_its_words():
    store = InMemorySessionStore()
    config = AutoContextConfig.for_window(2_000)
    memory = memory_on(InMemorySessionStore(), config=config, model=ScriptedModel("Three orders are open."))
    memory.add_messages(conversation(8, chars=1000))
    assert memory.compress_if_needed()
    state = memory.state_dict()
    memory = memory_on(store, config=config)
    memory.load_state_dict(state)
    loaded = {m.id for m in memory.messages if m.origin is not None}
    memory.add_messages(conversation(8, chars=1000))
    assert memory.compress_if_needed(force=True)
    before = memory.messages
    assert any(m.origin is not None and m.id not in loaded for m in before)
    assert not loaded <= {m.id for m in before}
    told = user(f"my password is {SECRET}")
    memory.add_messages([told, *conversation(1)])
    store.erase(U, [told.id])
    assert memory_on(store).messages[: len(before)] == before


@pytest.mark.slow
def test_of_an_emptied_note_a_later_one_takes_over_nothing():
    store = InMemorySessionStore()
    config = AutoContextConfig.for_window(2_000)
    memory = memory_on(store, config=config, model=ScriptedModel(f"The password is {SECRET}."))
    memory.add_messages(conversation(8, chars=1000))
    assert memory.compress_if_needed()
    notes = [m for m in memory.messages if m.origin is not None and SECRET in m.text]
    assert any(SECRET in written_note(m) for m in notes)
    store.erase(U, [m.id for m in memory.get_original_memory_msgs()])
    again = memory_on(store)
    emptied = [m for m in again.messages if m.id in {n.id for n in notes}]
    assert [m.id for m in emptied] == [m.id for m in notes]
    assert [written_note(m) for m in emptied] == [""] * len(notes)


@settings(max_examples=share(15))
@given(st.sets(st.integers(0, 60), max_size=12), st.booleans())
def test_erasing_any_messages_keeps_the_view_valid_and_the_others_whole(wanted, passes):
    store = InMemorySessionStore()
    memory, _ = filled(store, passes=int(passes))
    messages = memory.get_original_memory_msgs()
    ids = {messages[i].id for i in wanted if i < len(messages)}
    store.erase(U, ids)
    again = memory_on(store)
    assert_valid_chat(again.messages)
    left = [m for m in again.get_original_memory_msgs() if m.id not in ids]
    assert left == [m for m in messages if m.id not in ids]


def test_the_earlier_name_does_the_same() -> None:
    store = InMemorySessionStore()
    assert type(store).redact is type(store).erase
    assert type(store).aredact is type(store).aerase


# ------------------------------------------------------------------------------------ what reading tools have answered
def asked(memory, tool, *, named=True, **arguments):
    """The result when the agent calls a tool of the memory; some frameworks do not name the tool."""
    [this] = memory.tools(tool)
    call, result = tool_exchange(this.name, arguments, this(**arguments))
    block = result.tool_results[0].model_copy(update={} if named else {"name": ""})
    memory.add_messages([call, result.model_copy(update={"content": (block,)})])
    return memory.get_original_memory_msgs()[-1]


def read_again(store):
    """A session in which a secret was said, and stored by the caller."""
    memory = memory_on(store, config=AutoContextConfig.for_window(4_000))
    told = user(f"my password is {SECRET} " + "and so on " * 150, id="told")
    memory.add_messages([*conversation(8), user("hello"), told, *conversation(4)])
    memory.offload(UUID, [told])
    return memory


LONG_LIST = ",".join(f"m{number}" for number in range(3, 52, 3))
READ = {
    "a number": ("reload", {"working_context_offload_uuid": "m51"}),
    "a range": ("reload", {"working_context_offload_uuid": "m49-m53"}),
    "a UUID": ("reload", {"working_context_offload_uuid": UUID}),
    "its beginning": ("reload", {"working_context_offload_uuid": UUID[:10], "query": "password"}),
    "a long list": ("reload", {"working_context_offload_uuid": LONG_LIST, "query": "password"}),
    "a search": ("search", {"query": "password"}),
    "the status": ("status", {}),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("loaded", [False, True], ids=["added", "loaded"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("way", READ)
def test_what_a_tool_has_quoted_of_it_goes_too_and_what_it_read_of_others_stays(way, named, loaded, tmp_path):
    with stored("sqlite file", tmp_path) as store:
        memory = read_again(InMemorySessionStore() if loaded else store)
        others = {"working_context_offload_uuid": "m1,m8-m9"}
        tool, arguments = READ[way]
        kept = [asked(memory, "reload", **others), asked(memory, tool, named=named, **arguments)]
        quoting = kept.pop()
        assert SECRET in quoting.tool_results[0].text
        number = f"m{len(memory.get_original_memory_msgs())}"
        page = asked(memory, "reload", named=named, working_context_offload_uuid=number)
        assert SECRET in page.tool_results[0].text
        kept.append(asked(memory, "reload", named=named, **others, query="module"))
        if loaded:
            state, memory = memory.state_dict(), memory_on(store)
            memory.load_state_dict(state)
        assert store.erase(U, ["told"]) == 1
        assert SECRET not in said(store)
        assert store.search(SECRET, user_id="u") == []
        again = memory_on(store)
        assert [m for m in again.get_original_memory_msgs() if m.id in {m.id for m in kept}] == kept
        assert_valid_chat(again.messages)
        entries = list(store.read(U))
        assert store.erase(U, ["told"]) == 1
        assert list(store.read(U)) == entries


def test_a_note_about_a_page_that_quoted_it_is_emptied_and_what_stands_beside_the_page_stays():
    store = InMemorySessionStore()
    memory = read_again(store)
    [reload] = memory.tools("reload")
    calls = [("context_reload", reload(working_context_offload_uuid="m51")), ("t", f"about {ERASED}")]
    uses, results = zip(*(tool_exchange(name, {}, output) for name, output in calls), strict=True)
    uses, results = ([b for m in messages for b in m.content] for messages in (uses, results))
    memory.add_messages([Msg(role="assistant", content=uses), Msg(id="both", role="tool", content=results)])
    memory.add_messages(conversation(40, chars=1000))
    summary = ScriptedModel(lambda asked: f"It is {SECRET}." if SECRET in asked.prompt else "In short.")
    again = memory_on(store, config=AutoContextConfig.for_window(2_000), model=summary)
    assert again.compress_if_needed(force=True)
    assert "both" not in {m.id for m in again.messages}
    store.erase(U, ["told"])
    assert SECRET not in said(store)
    [both] = [m for m in memory_on(store).get_original_memory_msgs() if m.id == "both"]
    assert both.tool_results[0].text.endswith(ERASED)
    assert both.tool_results[1] == results[1]


@pytest.mark.parametrize("loaded", [False, True], ids=["added", "loaded"])
def test_a_page_goes_too_whose_uuid_is_forgotten(loaded):
    store = InMemorySessionStore()
    memory = read_again(InMemorySessionStore() if loaded else store)
    asked(memory, "reload", working_context_offload_uuid=UUID)
    memory.clear_offload(UUID)
    if loaded:
        memory_on(store).load_state_dict(memory.state_dict())
    assert said(store).count(SECRET) >= 2
    store.erase(U, ["told"])
    assert SECRET not in said(store)
