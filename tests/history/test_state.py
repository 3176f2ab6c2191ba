"""Saved states: loading one is the identity, and a damaged one changes nothing and names its field."""

import copy
import gc
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextMemory, CompressionEvent, Msg
from autocontext.errors import StateError
from autocontext.history import state
from autocontext.history.edits import Edit
from autocontext.history.entries import Added, Edited, Offloaded, Removed, Restored
from autocontext.history.log import Log
from autocontext.messages import Origin
from autocontext.testing import conversation, tool_call, user
from tests.conversations import histories
from tests.invariants import CONFIGS, new_memory, unreachable

KEYS = ["version", "working_memory_storage", "original_memory_storage", "offload_context", "compression_events"]


def compressed(history: list[Msg], config: str = "tiny") -> AutoContextMemory:
    memory = new_memory(config)
    memory.add_messages([*conversation(rounds=3), *history])
    memory.offload("own", history[:2])
    memory.compress_if_needed(force=True)
    return memory


def loaded(saved: Any, config: str = "tiny") -> AutoContextMemory:
    memory = new_memory(config)
    memory.add_message(user("to be replaced"))
    memory.load_state_dict(json.loads(json.dumps(saved)))
    return memory


# -------------------------------------------------------------------------------------------------------- round trips
@given(histories(duplicates=True), st.sampled_from(sorted(CONFIGS)))
def test_loading_replaces_everything_by_what_was_saved(history: list[Msg], config: str) -> None:
    memory = compressed(history, config)
    other = loaded(memory.state_dict(), config)
    assert other.state_dict() == memory.state_dict()
    assert other.messages == memory.messages
    assert other.get_original_memory_msgs() == memory.get_original_memory_msgs()
    assert other.get_offload_context() == memory.get_offload_context()
    assert other.get_compression_events() == memory.get_compression_events()
    assert other.token_count == memory.token_count
    assert unreachable(other, memory.get_original_memory_msgs()) == []


@pytest.mark.slow
@given(histories(duplicates=True))
def test_a_loaded_memory_undoes_and_compresses_as_the_saved_one(history: list[Msg]) -> None:
    memory = compressed(history)
    other = loaded(memory.state_dict())
    for key in reversed(memory.get_offload_context()):
        assert other.undo(key) == memory.undo(key)
        assert other.messages == memory.messages
    before = other.messages
    other.compress_if_needed(force=True)
    assert unreachable(other, before) == []


def test_the_keys_are_the_contract() -> None:
    saved = compressed([]).state_dict()
    assert list(saved) == KEYS
    assert saved["version"] == 1
    assert saved["offload_context"]["own"] == []


def test_equal_messages_are_told_apart_after_loading() -> None:
    """Without the log's own ids, undoing the first "ok" would put a second copy of the one in view there."""
    memory = new_memory("tiny")
    same = user("ok " * 100, id="same")
    memory.add_messages([same, *conversation(rounds=2), same])
    memory.compress_if_needed(force=True)
    saved = memory.state_dict()
    assert list(saved) == [*KEYS, "ids"]
    other = loaded(saved)
    (key,) = [k for k, messages in other.get_offload_context().items() if same in messages][:1]
    assert other.undo(key) == memory.undo(key) is True
    assert other.messages == memory.messages
    assert other.messages.count(same) == 2


def test_where_copies_cannot_be_told_apart_undo_puts_none_in_view_twice() -> None:
    memory = new_memory("tiny")
    same = user("ok " * 100, id="same")
    memory.add_messages([same, *conversation(rounds=2), same])
    memory.compress_if_needed(force=True)
    saved = memory.state_dict()
    del saved["ids"]
    other = loaded(saved)
    undone = [key for key in other.get_offload_context() if other.undo(key)]
    assert len(set(other._log.view_ids)) == len(other.messages)
    assert other.messages.count(same) <= 2
    assert len(undone) < len(other.get_offload_context())


def test_a_state_without_our_own_ids_is_read_too() -> None:
    """Another program's state, in which one id stands for two messages."""
    memory = new_memory("tiny")
    memory.add_messages([user("one", id="x"), user("two", id="x"), user("one", id="x")])
    saved = memory.state_dict()
    del saved["ids"]
    other = loaded(saved)
    assert [m.text for m in other.messages] == ["one", "two", "one"]
    assert [m.text for m in other.get_original_memory_msgs()] == ["one", "two", "one"]
    assert loaded(other.state_dict()).state_dict() == other.state_dict()


def test_a_message_is_read_once_however_many_lists_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = compressed(conversation(rounds=9))
    saved = json.loads(json.dumps(memory.state_dict()))
    lists = [saved["original_memory_storage"], saved["working_memory_storage"], *saved["offload_context"].values()]
    read: list[Any] = []
    validate = Msg.model_validate

    def counted(data: Any) -> Msg:
        read.append(data)
        return validate(data)

    monkeypatch.setattr(Msg, "model_validate", counted)
    state.load(saved)
    assert len(read) == len({m["id"] for messages in lists for m in messages}) < sum(map(len, lists))


def test_messages_of_one_id_are_told_apart_by_all_they_hold() -> None:
    first, second = (user("Hello").to_dict() | {"id": "same", "metadata": {"n": n}} for n in range(2))
    saved = new_memory("tiny").state_dict()
    saved |= {"original_memory_storage": [first, second], "working_memory_storage": [second, first]}
    assert [m.metadata["n"] for m in loaded(saved).messages] == [1, 0]


@pytest.mark.parametrize("value", [True, 1.0])
def test_messages_of_one_id_are_told_apart_by_the_kind_of_a_number(value: float) -> None:
    first, second = (
        tool_call("deploy", {"dry_run": n}, id="c1", timestamp="2026-11-01T00:00:00Z").to_dict() | {"id": "same"}
        for n in (1, value)
    )
    saved = new_memory("tiny").state_dict()
    saved |= {"original_memory_storage": [first, second], "working_memory_storage": [second, first]}
    inputs = [m.tool_uses[0].input["dry_run"] for m in loaded(saved).messages]
    assert [*map(repr, inputs)] == [repr(value), "1"]


def test_a_saved_state_is_the_caller_s_own() -> None:
    memory = compressed([])
    saved = memory.state_dict()
    whole = json.dumps(saved)
    saved["working_memory_storage"].clear()
    saved["original_memory_storage"][0]["content"] = []
    assert json.dumps(memory.state_dict()) == whole


# ------------------------------------------------------------------------------------------------------------ damage
def changed(path: str, value: Any) -> dict[str, Any]:
    """A good state but for the value at a path; a path that ends in "!" is taken out."""
    saved = copy.deepcopy(SAVED)
    *way, last = path.removesuffix("!").split(".")
    place: Any = saved
    for key in way:
        place = place[int(key)] if isinstance(place, list) else place[key]
    if path.endswith("!"):
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return saved


def _saved() -> dict[str, Any]:
    memory = new_memory("tiny")
    memory.add_messages([user("a", id="x"), user("b", id="x"), *conversation(rounds=3)])
    memory.offload("own", [user("kept")])
    memory.compress_if_needed(force=True)
    return memory.state_dict()


SAVED = _saved()
DAMAGED = {
    "not an object": (["a", "list"], "the state is a list"),
    "nothing": (None, "the state is a NoneType"),
    "another version": (changed("version", 2), "state.version is 2"),
    "no version": (changed("version!", None), "state.version is missing"),
    "no working memory": (changed("working_memory_storage!", None), "state.working_memory_storage is missing"),
    "originals no array": (changed("original_memory_storage", {}), "state.original_memory_storage"),
    "offloads no object": (changed("offload_context", []), "state.offload_context"),
    "events null": (changed("compression_events", None), "state.compression_events"),
    "an entry no array": (changed("offload_context.own", {}), "state.offload_context.own"),
    "an unknown role": (changed("original_memory_storage.0.role", "robot"), r"original_memory_storage\[0\].*role"),
    "an unknown block": (
        changed("working_memory_storage.1.content", [{"type": "scent"}]),
        r"working_memory_storage\[1\].*scent",
    ),
    "a message no object": (changed("original_memory_storage.2", 7), r"original_memory_storage\[2\]"),
    "a bad offload": (changed("offload_context.own.0.role", 1), r"offload_context.own\[0\].*role"),
    "a bad event": (changed("compression_events.0.timestamp", "noon"), r"compression_events\[0\].*timestamp"),
    "an unknown key": (changed("original_memory_storage.0.mood", "good"), r"original_memory_storage\[0\].*mood"),
    "ids no object": (changed("ids", 3), "state.ids"),
    "ids too few": (changed("ids.working_memory_storage", []), "state.ids.working_memory_storage"),
    "ids no texts": (changed("ids.original_memory_storage.0", [1]), "state.ids.original_memory_storage"),
    "an id twice": (
        changed("ids.original_memory_storage", ["x"] * len(SAVED["original_memory_storage"])),
        "state.ids.original_memory_storage names the same message twice",
    ),
    "pins no indices": (changed("pinned", ["x"]), "state.pinned must be a list of indices below"),
    "pins out of view": (changed("pinned", [999]), "state.pinned must be a list of indices below"),
    "branches no list": (changed("taken_back", 3), "state.taken_back must be a list of indices below"),
    "branches not there": (changed("taken_back", [-1]), "state.taken_back must be a list of indices below"),
    "an id for two": (changed("ids.offload_context.own.0", "x"), "'x' stands for two different messages"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_state_is_refused_and_changes_nothing(damage: str) -> None:
    state, problem = DAMAGED[damage]
    memory = compressed([])
    before, entries = memory.state_dict(), len(memory._log.entries)
    with pytest.raises(StateError, match=problem) as caught:
        memory.load_state_dict(state)
    assert "\n" not in str(caught.value)
    assert memory.state_dict() == before
    assert len(memory._log.entries) == entries


def test_the_state_that_is_damaged_here_is_good_itself() -> None:
    assert loaded(SAVED).state_dict() == SAVED


@given(st.recursive(st.none() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_whatever_json_is_loaded_the_error_is_a_state_error(state: Any) -> None:
    memory = new_memory("tiny")
    for attempt in (state, {"version": 1, **dict.fromkeys(KEYS[1:], state)}, {**SAVED, "ids": state}):
        before = memory.state_dict()
        try:
            memory.load_state_dict(attempt)
        except StateError:
            assert memory.state_dict() == before


def test_a_note_that_shared_its_entry_and_was_undone_is_nothing_to_the_state() -> None:
    """Two notes under one handle, the first undone: it is in none of the saved lists, so nothing is said about it."""
    log = Log([Added(message=user(text)) for text in ("first", "second", "third")])
    for id_ in log.view_ids[:2]:
        note = Msg(role="assistant", content="note", origin=Origin(uuid="shared-handle", kind="tool_run"))
        edit = Edit(uuid="shared-handle", ids=(id_,), messages=(note,), offload=(id_,), event_type="TEST")
        event = CompressionEvent(
            event_type="TEST", timestamp=1, compressed_message_count=1, compressed_message_id=note.id
        )
        log.record(Edited(edits=(edit,), events=(event,)))
    first = log.view_ids[0]
    assert log.shared() == {first: (log.original[0],)}
    assert "replaced" in state.dump(log)["ids"]
    log.record(Restored(uuid="shared-handle", note=first, ids=(log.original[0],)))
    saved = json.loads(json.dumps(state.dump(log)))
    again = Log([state.load(saved)])
    assert state.dump(again) == state.dump(log)
    assert [m.text for m in again.view_messages] == ["first", "note", "third"]


@pytest.mark.parametrize("own", [False, True], ids=["of an edit", "of the caller"])
def test_an_entry_whose_note_was_removed_gives_the_same_messages_when_loaded(*, own: bool) -> None:
    """Of an edit its originals, also those behind an older note in it; of the caller what was stored."""
    log = Log([Added(message=user(text)) for text in ("Cancel A-7714.", "pytest fails", "看")])
    for uuid, size in (("older-handle", 1), ("newer-handle", 2)):
        ids = tuple(log.view_ids[:size])
        note = Msg(role="assistant", content=f"note {uuid}", origin=Origin(uuid=uuid, kind="fold"))
        event = CompressionEvent(
            event_type="TEST", timestamp=1, compressed_message_count=size, compressed_message_id=note.id
        )
        log.record(
            Edited(edits=(Edit(uuid=uuid, ids=ids, messages=(note,), offload=ids, event_type="TEST"),), events=(event,))
        )
    if own:
        log.record(Offloaded(uuid="own-handle", messages=tuple(log.read(log.offloads["newer-handle"]))))
    log.record(Removed(ids=(log.view_ids[0],)))
    saved = json.loads(json.dumps(state.dump(log)))
    again, restarted = Log([state.load(saved)]), Log([log.snapshot()])
    for uuid in log.offloads:
        assert again.originals_of(uuid) == restarted.originals_of(uuid) == log.originals_of(uuid)
    assert state.dump(again) == saved
    assert [m.text for m in again.originals_of("newer-handle")] == ["Cancel A-7714.", "pytest fails"]


@pytest.mark.parametrize("edited", [3, ["nowhere"], [1]])
def test_a_state_that_names_entries_it_does_not_have_is_refused(edited: Any) -> None:
    with pytest.raises(StateError, match=r"state\.edited must be a list of UUIDs of offload_context"):
        state.load({**SAVED, "edited": edited})


@pytest.mark.slow
@pytest.mark.parametrize("one_text", [True, False])
def test_row_24_a_state_of_messages_that_share_an_id_loads_in_linear_time(*, one_text: bool) -> None:
    def seconds(size: int) -> float:
        log = Log([Added(message=user("text" if one_text else f"text {i}", id="same")) for i in range(size)])
        saved = state.dump(log)
        del saved["ids"]
        saved["working_memory_storage"] = saved["working_memory_storage"][-size // 2 :]
        gc.collect()
        gc.disable()  # it looks through whatever other tests have left
        try:
            began = time.thread_time()
            loaded = state.load(saved)
            took = time.thread_time() - began
        finally:
            gc.enable()
        assert len(loaded.messages) == size
        assert [loaded.messages[id_] for id_ in loaded.view] == log.view_messages[-size // 2 :]
        return took

    large, small = map(min, zip(*((seconds(4_000), seconds(500)) for _ in range(2)), strict=True))
    assert large < 30 * small  # were it quadratic: 64 times
