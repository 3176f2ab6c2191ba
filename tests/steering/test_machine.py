"""Archives, restores, pins, notes, passes and restarts in any order, against a model that only knows what was added."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autocontext import AutoContextConfig, AutoContextMemory, Msg
from autocontext.messages import is_pinned
from autocontext.stores import InMemorySessionStore
from autocontext.testing import assert_valid_chat, assistant, tool_exchange, user
from tests import invariants
from tests.invariants import unreachable

WINDOW = 3_000
numbers = st.tuples(st.integers(1, 60), st.integers(0, 12))
CONFIGS = {
    "window": AutoContextConfig.for_window(WINDOW),
    "assistant notes": AutoContextConfig.for_window(WINDOW, note_role="assistant"),
    "no ledger": AutoContextConfig.for_window(WINDOW, ledger_ratio=0.0),
}


class SteeringMachine(RuleBasedStateMachine):
    """The agent calls its tools as a loop would: the call is stored, then the tool runs, then its result is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.store = InMemorySessionStore()
        self.added: list[Msg] = []
        self.pinned: set[str] = set()
        self.notes: list[str] = []
        self.calls = 0

    @initialize(config=st.sampled_from(sorted(CONFIGS)))
    def open(self, config: str) -> None:
        self.config = CONFIGS[config]
        self.reopen()
        self.say([Msg(role="system", content="You fix bugs."), user("Fix the pool. Never delete tests.")])

    @rule()
    def reopen(self) -> None:
        self.memory = AutoContextMemory(self.config, store=self.store, session_id="42")

    def say(self, messages: Sequence[Msg]) -> None:
        self.memory.add_messages(messages)
        self.added += messages

    def ask(self, name: str, *, in_loop: bool = False, **arguments: Any) -> str:
        """What a tool answers; an error changes nothing."""
        self.calls += 1
        call, result = tool_exchange(f"context_{name}", arguments, "", id=f"call-{self.calls}")
        self.say([call])
        [tool] = self.memory.tools(name)
        before, entries = self.memory.messages, len(self.memory._log.entries)
        text = asyncio.run(tool.acall(**arguments)) if in_loop else tool(**arguments)
        if text.startswith("Error: "):
            assert text.endswith(".")
            assert len(text.splitlines()) == 1
            assert self.memory.messages == before
            assert len(self.memory._log.entries) == entries
        assert self.memory.messages[-1] == call
        block = result.tool_results[0].model_copy(update={"output": text})
        self.say([result.model_copy(update={"content": (block,)})])
        return text

    # -------------------------------------------------------------------------------------------------- operations
    @rule(size=st.sampled_from((3, 30, 120)), calls=st.integers(1, 3))
    def work(self, size: int, calls: int) -> None:
        for _ in range(calls):
            self.calls += 1
            text = " ".join(f"value_{self.calls}_{n}" for n in range(size))
            self.say(list(tool_exchange("read_file", {"path": f"src/f{self.calls}.py"}, text, id=f"call-{self.calls}")))

    @rule(text=st.sampled_from(("Go on.", "Use tabs.", "What now?")))
    def talk(self, text: str) -> None:
        self.say([assistant("Done so far."), user(text)])

    @rule(place=numbers, in_loop=st.booleans())
    def archive(self, place: tuple[int, int], in_loop: bool) -> None:
        wanted = f"m{place[0]}-m{place[0] + place[1]}"
        view, tokens = self.memory.messages, self.memory.token_count
        text = self.ask("archive", messages=wanted, reason="read", in_loop=in_loop)
        if text.startswith("Put away"):
            gone = [m for m in view if m not in self.memory.messages]
            assert gone
            assert not any(m.role == "system" or is_pinned(m) for m in gone)
            named = re.match(r"Put away (\S+):", text)
            assert named is not None
            assert set(map(id, self.memory.numbered(named[1]).values())) >= {id(m) for m in gone if m.origin is None}
            assert self.memory.token_count < tokens + 120  # the call and its result are new

    @rule(place=numbers, in_loop=st.booleans())
    def archive_and_restore(self, place: tuple[int, int], in_loop: bool) -> None:
        """What is put back is what was there, in its place."""
        before = self.memory.messages
        text = self.ask("archive", messages=f"m{place[0]}-m{place[0] + place[1]}", reason="", in_loop=in_loop)
        if not text.startswith("Put away"):
            return
        for uuid in {m.origin.uuid for m in self.memory.messages if m.origin is not None and m not in before}:
            note = next(m for m in self.memory.messages if m.origin is not None and m.origin.uuid == uuid)
            number = next(iter(self.memory._log.numbers([note.id])))
            answer = self.ask("restore", messages=f"m{number}")
            if not answer.startswith("Put back"):
                # Only a context that would be condensed at once, or an older note that was in the archive.
                assert "condensed from" in answer, answer
                return
        assert [m for m in self.memory.messages[: len(before)] if m.origin is None] == [
            m for m in self.memory.messages[: len(before)] if m in self.added or is_pinned(m)
        ]
        if not any(m.origin is not None for m in before):
            assert self.memory.messages[: len(before)] == before

    @rule(place=numbers)
    def restore(self, place: tuple[int, int]) -> None:
        wanted = f"m{place[0]}-m{place[0] + place[1] % 3}"
        text = self.ask("restore", messages=wanted)
        if text.startswith("Put back"):
            in_view = {m.id for m in self.memory.messages}
            low, high = place[0], place[0] + place[1] % 3
            assert {m.id for m in self.added[low - 1 : high]} <= in_view

    @rule(place=numbers, unpin=st.booleans())
    def pin(self, place: tuple[int, int], unpin: bool) -> None:
        wanted = f"m{place[0]}-m{place[0] + place[1] % 3}"
        exchange = {m.id for m in self.memory.numbered(wanted).values()}  # without the call of this tool
        text = self.ask("pin", messages=wanted, unpin=unpin)
        if text.startswith("Pinned"):
            self.pinned |= exchange
        elif text.startswith("Unpinned"):
            self.pinned -= exchange

    @rule(in_loop=st.booleans())
    def note(self, in_loop: bool) -> None:
        self.notes.append(f"decision {len(self.notes)}: keep lock {self.calls}")
        assert self.ask("note", text=self.notes[-1], in_loop=in_loop).startswith("Noted")

    @rule(force=st.booleans(), in_loop=st.booleans(), focus=st.sampled_from(("", "value_3_1")))
    def compress(self, force: bool, in_loop: bool, focus: str) -> None:
        if in_loop:
            asyncio.run(self.memory.acompress_if_needed(force=force, focus=focus))
        else:
            self.memory.compress_if_needed(force=force, focus=focus)
        pins = sum(map(self.memory.counter.count, [m for m in self.memory.messages if is_pinned(m)]))
        assert pins <= WINDOW // 4
        assert self.memory.token_count <= WINDOW

    @rule(in_loop=st.booleans(), focus=st.sampled_from(("", "value_3_1")))
    def condense(self, in_loop: bool, focus: str) -> None:
        tokens = self.memory.token_count
        text = self.ask("condense", in_loop=in_loop, focus=focus)
        assert text.startswith(("Condensed from ", "Nothing was condensed: "))
        assert self.memory.token_count < tokens + 200  # the call and its result are new

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(1, 200))
    def search(self, which: int) -> None:
        wanted = f"value_{1 + which % self.calls}_1"
        answer = self.ask("search", query=wanted, limit=3)
        results = ((n, block) for n, m in enumerate(self.added, 1) for block in m.tool_results)
        holders = [n for n, block in results if block.name == "read_file" and wanted in block.text.split()]
        if holders:
            assert f"m{holders[0]} " in answer.splitlines()[1]

    @rule()
    def look(self) -> None:
        text = self.ask("status")
        assert f"of {WINDOW:,} tokens are used" in text

    # ------------------------------------------------------------------------------------------------- what holds
    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.memory.get_original_memory_msgs() == self.added
        # In view a pinned message carries its mark, so it is not equal to the original.
        assert [m for m in unreachable(self.memory, self.added) if m.id not in self.pinned] == []

    @invariant()
    def the_view_is_valid(self) -> None:
        assert_valid_chat(self.memory.messages)
        assert sum(m.role == "system" for m in self.memory.messages) == 1

    @invariant()
    def pins_stay(self) -> None:
        assert {m.id for m in self.memory.messages if is_pinned(m)} == self.pinned

    @invariant()
    def notes_stay_word_for_word(self) -> None:
        if self.config.ledger_ratio and self.notes:
            shown = "\n".join(text for m in self.memory.messages for text in m.texts())
            assert self.notes[-1] in shown

    @invariant()
    def readings_agree(self) -> None:
        invariants.check(self.memory)
        assert self.store.read(self.memory.session) == self.memory._log.entries


TestSteering = SteeringMachine.TestCase
TestSteering.pytestmark = [pytest.mark.slow]
