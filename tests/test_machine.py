"""A memory in the hands of Hypothesis: any operations in any order, with models and stores that fail."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autocontext import AutoContextMemory, ContextOffloadTool, ModelRequest, Msg
from autocontext.history.entries import Entry
from autocontext.stores import InMemorySessionStore
from autocontext.testing import ScriptedModel, assistant, conversation, tool_exchange, user
from tests import invariants
from tests.conversations import histories
from tests.invariants import CONFIGS, ESTIMATE, REPLIES, assert_pairs_kept, handles, owed, reach, unreachable

places = st.integers(0, 999)


class FragileStore:
    """An in-memory store whose n-th append from now on raises, when it is told so."""

    def __init__(self) -> None:
        self.inner = InMemorySessionStore()
        self.fails_in = 0

    def append(self, session: tuple[str, str], entries: Sequence[Entry], *, after: int) -> None:
        self.fails_in -= 1
        if self.fails_in == 0:
            raise OSError("no space left on device")
        self.inner.append(session, entries, after=after)

    def read(self, session: tuple[str, str], *, after: int = 0) -> list[Entry]:
        return self.inner.read(session, after=after)


class MemoryMachine(RuleBasedStateMachine):
    """Knows what was added, and what the caller himself has put out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.store = FragileStore()
        self.added: list[Msg] = []
        self.excused: list[Msg] = []
        """Originals that a deletion or clear_offload may have put out of reach."""
        self.kept: dict[str, list[Msg]] = {}
        """Entries the caller has made."""
        self.saved: tuple[str, list[Msg], list[Msg], dict[str, list[Msg]]] | None = None
        self.reply: Callable[[ModelRequest], str] = REPLIES["good"]
        self.keys = 0

    @initialize(config=st.sampled_from(sorted(CONFIGS)), rounds=st.integers(0, 3))
    def open(self, config: str, rounds: int) -> None:
        self.config = CONFIGS[config].model_copy(update=ESTIMATE)
        self.reopen()
        self.add(conversation(rounds=rounds) if rounds else [])

    @rule()
    def reopen(self) -> None:
        self.memory = AutoContextMemory(self.config, ScriptedModel(self.answer), store=self.store, session_id="machine")

    def answer(self, request: ModelRequest) -> str:
        return self.reply(request)  # whichever way of answering a rule has chosen

    # -------------------------------------------------------------------------------------------------- operations
    @rule(history=histories(max_moves=4, duplicates=True))
    def add(self, history: list[Msg]) -> None:
        before = self.memory.messages
        self.memory.add_messages(history)
        self.added += history
        assert self.memory.messages == [*before, *history]

    @rule(start=places, count=st.integers(1, 4))
    def add_what_the_view_shows(self, start: int, count: int) -> None:
        """Notes and all, as a careless caller may do."""
        view = self.memory.messages
        self.add(view[start % len(view) :][:count] if view else [])

    @precondition(lambda self: any(map(handles, self.memory.messages)))
    @rule(place=places)
    def add_what_a_compression_made(self, place: int) -> None:
        notes = [m for m in self.memory.messages if handles(m)]
        self.add([notes[place % len(notes)]])

    @precondition(lambda self: any(map(handles, self.memory.messages)))
    @rule(place=places, answered=st.booleans())
    def reload(self, place: int, answered: bool) -> None:
        """As an agent does: the page stands in the conversation from then on."""
        keys = [key for m in self.memory.messages for key in handles(m)]
        key = keys[place % len(keys)]
        self.keys += 1
        page = ContextOffloadTool(self.memory)(key)
        asked = {"working_context_offload_uuid": key}
        exchange = tool_exchange(ContextOffloadTool.name, asked, page, id=f"reload-{self.keys}")
        self.add([*exchange, assistant("I see."), user("Go on.")] if answered else list(exchange))

    @precondition(lambda self: self.added)
    @rule(place=places)
    def reload_by_number(self, place: int) -> None:
        """The page stands in the conversation from then on, and is no page of any offload entry."""
        self.keys += 1
        number = f"m{1 + place % len(self.added)}"
        assert self.added[place % len(self.added)] in self.memory.reload(number)
        page = ContextOffloadTool(self.memory)(number)
        assert page.startswith("[m")
        asked = {"working_context_offload_uuid": number}
        self.add(list(tool_exchange(ContextOffloadTool.name, asked, page, id=f"numbered-{self.keys}")))

    @rule(model=st.sampled_from(sorted(REPLIES)), in_loop=st.booleans())
    def get(self, model: str, in_loop: bool) -> None:
        self.reply = REPLIES[model]
        before = self.memory.messages
        after = asyncio.run(self.memory.aget_messages()) if in_loop else self.memory.get_messages()
        assert_pairs_kept(after, before)

    @rule(model=st.sampled_from(sorted(REPLIES)), in_loop=st.booleans())
    def compress(self, model: str, in_loop: bool) -> None:
        self.reply = REPLIES[model]
        before, tokens = self.memory.messages, self.memory.token_count
        if in_loop:
            report = asyncio.run(self.memory.acompress_if_needed(force=True))
        else:
            report = self.memory.compress_if_needed(force=True)
        assert_pairs_kept(self.memory.messages, before)
        assert (self.memory.token_count < tokens) if report else (self.memory.messages == before)

    @precondition(lambda self: self.memory.messages)
    @rule(place=places)
    def delete(self, place: int) -> None:
        before = self.memory.messages
        index = place % len(before)
        self.excused += reach(self.memory, [before[i] for i in self.exchange(index)])
        removed = self.memory.delete_message(index)
        assert before[index] in removed
        assert len(self.memory.messages) == len(before) - len(removed)
        for now, then in zip(owed(self.memory.messages), owed(before), strict=True):
            assert now <= then

    def exchange(self, index: int) -> list[int]:
        """Everything that hangs together with a message by calls and results, however far."""
        view = self.memory.messages
        ids = [{b.id for b in (*m.tool_uses, *m.tool_results)} for m in view]
        group = {index}
        while more := {i for i in range(len(view)) if i not in group and any(ids[i] & ids[j] for j in group)}:
            group |= more
        return sorted(group)

    @rule()
    def clear(self) -> None:
        self.memory.clear()
        self.added, self.excused, self.kept = [], [], {}
        assert self.memory.messages == self.memory.get_compression_events() == []

    @precondition(lambda self: self.memory.get_offload_context())
    @rule(place=places, in_view=st.booleans())
    def undo(self, place: int, in_view: bool) -> None:
        """What the view shows the handle of, or any entry at all."""
        before = self.memory.messages
        visible_keys = [key for m in before for key in handles(m)] if in_view else []
        keys = visible_keys or list(self.memory.get_offload_context())
        done = self.memory.undo(keys[place % len(keys)])
        assert_pairs_kept(before, self.memory.messages)
        assert done or self.memory.messages == before

    @rule(messages=histories(max_moves=2, duplicates=True, prefix="own"))
    def offload(self, messages: list[Msg]) -> None:
        self.keys += 1
        self.memory.offload(f"own-key-{self.keys}", messages)
        self.kept[f"own-key-{self.keys}"] = messages

    @precondition(lambda self: self.memory.get_offload_context())
    @rule(place=places)
    def clear_offload(self, place: int) -> None:
        keys = list(self.memory.get_offload_context())
        key = keys[place % len(keys)]
        self.excused += reach(self.memory, self.memory.reload(key))
        self.memory.clear_offload(key)
        self.kept.pop(key, None)
        assert self.memory.reload(key) == []

    @rule()
    def save(self) -> None:
        text = json.dumps(self.memory.state_dict())
        self.saved = (text, list(self.added), list(self.excused), dict(self.kept))

    @precondition(lambda self: self.saved)
    @rule()
    def load(self) -> None:
        assert self.saved is not None
        text, added, excused, kept = self.saved
        self.memory.load_state_dict(json.loads(text))
        self.added, self.excused, self.kept = list(added), list(excused), dict(kept)
        assert self.memory.state_dict() == json.loads(text)

    # --------------------------------------------------------------------------------------------------- failures
    @rule(operation=st.sampled_from(("add", "clear", "delete", "undo", "offload", "load")), place=places)
    def the_store_fails(self, operation: str, place: int) -> None:
        """Whatever was asked for has not happened, neither here nor in the store."""
        before, entries = self.memory.state_dict(), len(self.memory._log.entries)
        self.store.fails_in = 1
        try:
            self.attempt(operation, place)
        except OSError:
            assert self.store.fails_in == 0
        finally:
            self.store.fails_in = 0
        assert self.memory.state_dict() == before
        assert len(self.memory._log.entries) == entries

    def attempt(self, operation: str, place: int) -> None:
        size, keys = len(self.memory.messages), list(self.memory.get_offload_context())
        calls: dict[str, Callable[[], Any]] = {
            "add": lambda: self.memory.add_messages([Msg(role="user", content="one"), Msg(role="user", content="two")]),
            "clear": self.memory.clear,
            "delete": lambda: size and self.memory.delete_message(place % size),
            "undo": lambda: keys and self.memory.undo(keys[place % len(keys)]),
            "offload": lambda: self.memory.offload("never", [Msg(role="user", content="kept")]),
            "load": lambda: self.memory.load_state_dict(AutoContextMemory().state_dict()),
        }
        calls[operation]()

    @rule(write=st.integers(1, 4), in_loop=st.booleans())
    def the_store_fails_in_a_pass(self, write: int, in_loop: bool) -> None:
        """What was stored before the failure counts, and nothing else; the next pass goes on from there."""
        before, done = self.memory.messages, len(self.memory._log.entries)
        self.store.fails_in = write
        try:
            if in_loop:
                asyncio.run(self.memory.acompress_if_needed(force=True))
            else:
                self.memory.compress_if_needed(force=True)
        except OSError:
            assert len(self.memory._log.entries) == done + write - 1
        finally:
            self.store.fails_in = 0
        assert_pairs_kept(self.memory.messages, before)

    # ------------------------------------------------------------------------------------------------- what holds
    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.memory.get_original_memory_msgs() == self.added
        assert [m for m in unreachable(self.memory, self.added) if m not in self.excused] == []
        for key, messages in self.kept.items():
            assert self.memory.reload(key) == messages

    @invariant()
    def numbers_lead_where_they_led(self) -> None:
        assert self.memory.numbered("m1-m999999") == dict(enumerate(self.added, 1))

    @invariant()
    def readings_agree(self) -> None:
        invariants.check(self.memory)
        assert self.store.read(self.memory.session) == self.memory._log.entries


TestMemory = MemoryMachine.TestCase


def test_the_fragile_store_fails_when_told() -> None:
    store = FragileStore()
    store.fails_in = 2
    store.append(("", "s"), [], after=0)
    with pytest.raises(OSError, match="no space"):
        store.append(("", "s"), [], after=0)
    store.append(("", "s"), [], after=0)
