"""The log: its entries survive JSON, and replaying them gives every reading again."""

import json
import math
import time
import tracemalloc
import warnings
from copy import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticSerializationError

from autocontext import AutoContextMemory, CompressionEvent, Msg, ToolResultBlock, ToolUseBlock
from autocontext.errors import StoreCorruptError
from autocontext.history.entries import (
    Added,
    Cleared,
    Edited,
    Entry,
    Forgotten,
    NoteReplaced,
    Offloaded,
    Pinned,
    Removed,
    Restored,
    dump_entry,
    entry_bytes,
    load_entry,
)
from autocontext.history.log import Log, ViewChange
from autocontext.history.proposals import Proposal, build
from autocontext.history.state import dump, load
from autocontext.history.view import View
from autocontext.messages import Origin, OriginKind, is_pinned
from autocontext.testing import assistant, conversation, tool_exchange, user
from tests import invariants
from tests.conversations import histories
from tests.invariants import CONFIGS, new_memory


def again(entry: Entry) -> Entry:
    """An entry as it comes back from a store."""
    return load_entry(dump_entry(entry).encode().decode())


def shorten(log: Log, start: int, stop: int) -> Edited:
    """An entry that replaces a stretch of the view by a note."""
    view = View(log.view_ids, log.view_messages)
    edit = build(Proposal(view.span(start, stop), "Short."), [])
    return Edited(edits=(edit,), events=(CompressionEvent(event_type="TEST", timestamp=1, compressed_message_count=2),))


def log_of(*messages: Msg) -> Log:
    return Log(Added(message=m) for m in messages)


def used_memory(history: list[Msg]) -> AutoContextMemory:
    """A memory that has seen every kind of entry."""
    memory = new_memory("tiny", estimate=True)
    memory.add_messages(conversation(rounds=2))
    memory.compress_if_needed(force=True)
    memory.load_state_dict(memory.state_dict())
    memory.clear()
    memory.offload("own", conversation(rounds=1))
    memory.add_messages(history)
    memory.add_messages(conversation(rounds=3))
    memory.compress_if_needed(force=True)
    keys = list(memory.get_offload_context())
    any(map(memory.undo, keys))
    memory.delete_message(0)
    memory.clear_offload(keys[-1])
    memory.follow([memory._log.original[0]])
    memory.bring_back(memory._log.original[::2])
    return memory


# -------------------------------------------------------------------------------------------------------- as a whole
@given(histories(max_moves=4, duplicates=True))
def test_every_kind_of_entry_survives_json_and_replays(history: list[Msg]) -> None:
    log = used_memory(history)._log
    assert {e.type for e in log.entries} >= {
        "added", "edited", "removed", "restored", "offloaded", "forgotten", "cleared", "snapshot",
    }  # fmt: skip
    assert [again(e) for e in log.entries] == log.entries
    invariants.check_replay(log)
    invariants.check_replay(Log(again(e) for e in log.entries))


@pytest.mark.slow
@given(histories(), st.sampled_from(sorted(CONFIGS)))
def test_what_passes_have_made_survives_json_too(history: list[Msg], config: str) -> None:
    memory = new_memory(config)
    memory.add_messages([*conversation(rounds=4, chars=800), *history, *conversation(rounds=4, chars=800)])
    memory.compress_if_needed(force=True)
    assert [again(e) for e in memory._log.entries] == memory._log.entries
    invariants.check_replay(memory._log)


@pytest.mark.slow
@given(histories(duplicates=True))
def test_the_log_passes_over_the_ledger_of_an_earlier_release(history: list[Msg]) -> None:
    log = used_memory(history)._log
    view = log.view_ids.copy()
    ledger = user("a = 1", id="ledger", origin=Origin(uuid="u" * 8, kind="ledger"))
    log.record(NoteReplaced(message=ledger, after=view[len(view) // 2]))
    assert log.view_ids == view
    assert log.record(Removed(ids=("ledger",))) == ViewChange()
    log.record(NoteReplaced(message=None))
    assert log.view_ids == view
    assert [again(e) for e in log.entries] == log.entries
    invariants.check_replay(log)


@pytest.mark.slow
@given(histories(duplicates=True))
def test_a_snapshot_stands_for_all_entries_before_it(history: list[Msg]) -> None:
    log = used_memory(history)._log
    whole = Log([again(log.snapshot())])
    for reading in ("view_ids", "view_messages", "original", "messages", "offloads", "events"):
        assert getattr(whole, reading) == getattr(log, reading), reading


ODD = (
    "\ud800", "half \udc00 pair", "\ud83d\ude00 in two halves, \U0001f600 in one", "\udfff\ud800", "\x00", "\u2028\n",
)  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_an_entry_keeps_every_character_and_can_be_written_as_utf_8(text: str) -> None:
    entry = Added(message=user(text, metadata={text: [text, {"deep": text}]}))
    line = dump_entry(entry)
    assert "\n" not in line
    assert json.loads(line.encode())
    assert again(entry) == entry


@given(st.text(st.characters(categories=("Cs",)), max_size=4), st.text(max_size=4))
def test_surrogates_survive_in_any_order(halves: str, rest: str) -> None:
    entry = Added(message=user(rest + halves + rest))
    assert again(entry) == entry


HALVES = st.text(st.sampled_from("\ud800\udc00\ud83d\ude00\ufffda"), max_size=4)


@pytest.mark.slow
@given(st.dictionaries(HALVES, st.recursive(HALVES, lambda inner: st.dictionaries(HALVES, inner)), min_size=1), HALVES)
def test_row_09_surrogates_survive_in_keys(values: dict[str, object], text: str) -> None:
    call = ToolUseBlock(id="c" + text, name="n" + text, input=values)
    result = ToolResultBlock(id="c", name="n", output=text, metadata=values)
    message = Msg(role="assistant", content=[call, result], metadata=values)
    offloaded = Offloaded(uuid="u" + text, messages=(message,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for entry in (Added(message=message), offloaded, Log([offloaded, Added(message=message)]).snapshot()):
            line = dump_entry(entry)
            assert json.loads(line.encode())
            assert load_entry(line) == entry


@pytest.mark.parametrize("number", [-0.0, 1e-320, 1e308, math.inf, -math.inf, math.nan, 2**80, -(2**63)])
def test_an_entry_keeps_every_number(number: float) -> None:
    entry = Added(message=user("x", metadata={"n": number}))
    found = load_entry(dump_entry(entry))
    assert isinstance(found, Added)
    assert repr(found.message.metadata["n"]) == repr(number)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"invented"}', "", "{", "null", '{"type":"added"}', '{"type":"added","message":{"role":"king"}}',
        '{"type":"base64","data":"?"}', '{"type":"base64","data":"/w=="}', '{"type":"base64","data":"e30="}',
        '{"type":"base64","data":"ew=="}', '{"type":"removed","ids":["a"],"more":1}',
    ],
)  # fmt: skip
def test_a_damaged_entry_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(StoreCorruptError, match=r"^entry[^\n]*$"):
        load_entry(text)


# ----------------------------------------------------------------------------------------------------- entry by entry
def test_one_object_added_twice_stands_twice() -> None:
    log = log_of(user("a", id="m"), user("b", id="m"), user("a", id="m"))
    assert len(set(log.view_ids)) == 3
    assert [m.text for m in log.view_messages] == ["a", "b", "a"]
    log.record(Removed(ids=(log.view_ids[0],)))
    assert [m.text for m in log.view_messages] == ["b", "a"]
    assert [m.text for m in log.read(log.original)] == ["a", "b", "a"]


def test_an_edit_changes_view_and_offloads_but_no_original() -> None:
    call, result = tool_exchange("t")
    log = log_of(user("a"), call, result, assistant("b"))
    entry = shorten(log, 1, 3)
    change = log.record(entry)
    (edit,) = entry.edits
    assert set(change.removed) == {call.id, result.id}
    assert change.added == (edit.messages[0].id,)
    assert log.view_messages[1] == edit.messages[0]
    assert log.originals_of(edit.uuid) == [call, result]
    assert log.read(log.original)[1:3] == [call, result]
    assert log.events == list(entry.events)


def test_what_was_undone_stands_where_the_note_stood() -> None:
    log = log_of(*conversation(rounds=1))
    before = list(log.view_ids)
    entry = shorten(log, 2, 4)
    log.record(entry)
    note = log.note_of(entry.edits[0].uuid)
    assert note is not None
    change = log.record(Restored(uuid=entry.edits[0].uuid, note=note, ids=log.behind(note)))
    assert log.view_ids == before
    assert change == ((note,), tuple(before[2:4]), False)
    assert log.note_of(entry.edits[0].uuid) is None


def test_a_pin_marks_the_message_in_view_and_no_original() -> None:
    log = log_of(*conversation(rounds=1))
    originals, pinned = list(log.view_messages), log.view_ids[1]
    assert log.record(again(Pinned(ids=(pinned,)))) == ((), (), False)
    assert [is_pinned(m) for m in log.view_messages] == [id_ == pinned for id_ in log.view_ids]
    assert log.read(log.original) == originals
    for twin in (Log(map(again, log.entries)), Log([again(log.snapshot())]), Log([load(dump(log))])):
        assert twin.view_messages == log.view_messages
        assert twin.read(twin.original) == originals
        twin.record(again(Pinned(ids=(pinned,), pinned=False)))
        assert twin.view_messages == originals
        assert dump(twin).keys() == dump(log_of(*originals)).keys()


def test_a_shortened_message_inside_an_entry_reads_as_its_original() -> None:
    log = log_of(*conversation(rounds=1))
    original = log.view_messages[1]
    view = View(log.view_ids, log.view_messages)
    stub = build(Proposal(view.span(1, 2), blocks={-1: "cut"}, kind="stub"), [])
    log.record(Edited(edits=(stub,), events=()))
    outer = shorten(log, 1, 4)
    log.record(outer)
    assert log.originals_of(outer.edits[0].uuid)[0] == original


@pytest.mark.parametrize("kind", ["tool_run", "stub", "fold"])
def test_a_copy_of_what_an_edit_made_is_an_original_like_any_other(kind: OriginKind) -> None:
    log = log_of(*conversation(rounds=1))
    view = View(log.view_ids, log.view_messages)
    edit = build(Proposal(view.span(1, 2), "Short.", kind=kind), [])
    log.record(Edited(edits=(edit,), events=()))
    copied = edit.messages[0]
    log.record(Added(message=copied))
    log.record(Removed(ids=(copied.id,)))
    assert log.view_messages[-1] == copied
    assert log.note_of(edit.uuid) is None
    outer = shorten(log, len(log.view_ids) - 2, len(log.view_ids))
    log.record(outer)
    assert log.originals_of(outer.edits[0].uuid)[-1] == copied


def test_a_caller_s_entry_shares_what_is_held_and_keeps_doubles() -> None:
    log = log_of(user("a", id="m"))
    held = log.view_messages[0]
    log.record(Offloaded(uuid="own", messages=(held, user("b", id="m"), held)))
    assert log.offloads["own"][0] == "m"
    assert [m.text for m in log.originals_of("own")] == ["a", "b", "a"]
    log.record(Forgotten(uuid="own"))
    assert log.originals_of("own") == []
    log.record(Forgotten(uuid="never there"))


def test_after_clearing_nothing_is_held() -> None:
    log = log_of(*conversation(rounds=1))
    log.record(shorten(log, 1, 3))
    change = log.record(Cleared())
    assert change.all_new
    assert (log.view_ids, log.original, log.offloads, log.events, log.messages) == ([], [], {}, [], {})


def readings(log: Log) -> list[object]:
    """All that a log says of its view and its originals, in copies."""
    plain = log.view_ids, log.view_messages, log.offloads, log.replaced, log.pins, log.events, log.compactions
    branches = copy(log.taken_back)
    numbers = [log.numbers([id_]) for id_ in log.view_ids]
    return [*map(copy, plain), branches, numbers, [*log.entries], [*log.originals], log.original[::-1]]


@pytest.mark.slow
@given(histories(duplicates=True), st.data())
def test_a_log_as_it_is_stays_so_until_it_is_renewed(history: list[Msg], data: st.DataObject) -> None:
    entries = [*used_memory(history)._log.entries]
    place = data.draw(st.integers(0, len(entries)), label="place")
    log = Log(entries[:place])
    now, before = log.as_it_is(), readings(log)
    for entry in entries[place:]:
        log.record(entry)
    assert readings(now) == before
    known = {*now.view_ids}
    change = now.renew(log)
    assert readings(now) == readings(log)
    assert known - {*change.removed} | {*change.added} == {*log.view_ids}
    assert change.all_new is any(entry.type in ("cleared", "snapshot") for entry in entries[place:])


def test_a_log_as_it_is_takes_no_more_room_the_longer_the_history() -> None:
    sizes = []
    for messages in (100, 4_000):
        log = log_of(*(user(f"text {i}") for i in range(messages)))
        log.record(Removed(ids=tuple(log.view_ids[:-20])))
        tracemalloc.start()
        try:
            now = log.as_it_is()
            sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert now.view_messages == log.view_messages
    assert sizes[1] < sizes[0] + 1_000


@pytest.mark.slow
def test_row_24_messages_that_share_an_id_take_linear_time() -> None:
    began = time.thread_time()
    log = log_of(*(user(f"text {i}", id="same") for i in range(12_000)))
    fork = Log(log.entries)
    fork.record(Added(message=user("more", id="same")))
    assert time.thread_time() - began < 10
    assert (log.view_ids[:3], log.view_ids[-1]) == (["same", "same~2", "same~3"], "same~12000")
    assert (fork.view_ids[-1], len(log.view_ids)) == ("same~12001", 12_000)
    log.record(Added(message=user("of another", id="same~12001")))
    log.record(Added(message=user("again", id="same")))
    assert log.view_ids[-2:] == ["same~12001", "same~12002"]


class _Fails:
    """What a signal makes of a writer that it comes in: Pydantic tells of it as of any other error."""

    def __init__(self, says: str) -> None:
        self.says = says

    def to_json(self, *_args: object, **_named: object) -> bytes:
        raise PydanticSerializationError(self.says)


@pytest.mark.parametrize("text", ["plain", "with \ufffd", "half \ud800"])
def test_an_entry_whose_writer_fails_is_written_whole_or_not_at_all(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Added(message=user(text))
    monkeypatch.setattr(Added, "__pydantic_serializer__", _Fails("Error serializing to JSON"))
    written = entry_bytes(entry)
    monkeypatch.setattr(Added, "__pydantic_serializer__", _Fails("Error calling function `f`: KeyboardInterrupt: "))
    with pytest.raises(KeyboardInterrupt):
        entry_bytes(entry)
    monkeypatch.undo()
    assert written == entry_bytes(entry)
    assert load_entry(written) == entry
