"""Ids of calls that are used again in each turn, as some services number them, change nothing but the ids shown."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocontext import AutoContextMemory, ContextOffloadTool, Msg, ToolResultBlock, ToolUseBlock
from autocontext.adapters.openai_chat import to_openai
from autocontext.content.pruning import prune_messages
from autocontext.content.store import SqliteContentStore
from autocontext.formats.compactions import block_first
from autocontext.formats.sendable import sendable
from autocontext.sessions import SessionState, StateOptimizer
from autocontext.testing import assistant, tool_call, tool_exchange, tool_result, user
from tests.invariants import CONFIGS, ESTIMATE, without_accidents
from tests.profiles import share

_ID = re.compile(r"\bc[0-9]{5}\b")
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|\bc_[0-9a-f]{12,}|\d{4}-\d\d-\d\dT[\d:.+]*")
STEPS = ("look", "change", "test", "write")
ACTIONS = ("plan", "read", "read again", "change", "test", "fail", "note")


def exchange(action: str, turn: int, id_: str) -> list[Msg]:
    """A call and its result."""
    if action == "plan":
        done = min(turn, len(STEPS))
        todos = [{"content": s, "status": "completed" if i < done else "pending"} for i, s in enumerate(STEPS)]
        return list(tool_exchange("todo_write", {"todos": todos}, "Todos are up to date.", id=id_))
    if action.startswith("read"):
        path = "src/shop.py" if action == "read again" else f"src/module_{turn}.py"
        text = f"def price_{turn if action == 'read' else 0}(order):\n    return order.total\n" * 12
        return list(tool_exchange("read_file", {"path": path}, text, id=id_))
    if action == "change":
        arguments = {"path": "src/shop.py", "old": "total", "new": f"total_{turn}"}
        return list(tool_exchange("edit_file", arguments, "Edited src/shop.py", id=id_))
    if action == "note":
        return list(tool_exchange("context_note", {"text": f"Prices of round {turn} are net."}, "Noted.", id=id_))
    failed = action == "fail"
    text = f"FAILED tests/test_shop.py::test_{turn} - assert {turn} == 0\n" if failed else "12 passed in 0.3 s\n"
    call = tool_call("run", {"command": "pytest -q"}, id=id_)
    return [call, tool_result(id_, text * 3, name="run", is_error=failed)]


@st.composite
def conversations(draw: st.DrawFn) -> list[Msg]:
    """Rounds with calls, of which each has an id of its own."""
    history: list[Msg] = []
    calls = 0
    for turn in range(draw(st.integers(2, 6))):
        history.append(user(f"Do part {turn} of the work: m{turn} and all that belongs to it."))
        for action in draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=5)):
            history += exchange(action, turn, f"c{calls:05}")
            calls += 1
        history.append(assistant(f"Part {turn} is done; the total is {turn * 7}."))
    return [m.model_copy(update={"id": f"m{i:04}"}) for i, m in enumerate(history)]


def used_again(history: list[Msg]) -> list[Msg]:
    """The same with ids that begin anew in each turn; they are as long, and of as many tokens."""
    names: dict[str, str] = {}
    renamed: list[Msg] = []
    for m in history:
        if m.role == "user":
            names = {}
        blocks: list[Any] = []
        for block in m.content:
            if isinstance(block, ToolUseBlock | ToolResultBlock):
                new = names.setdefault(block.id, f"c9{len(names):04}")
                blocks.append(block.model_copy(update={"id": new}))
            else:
                blocks.append(block)
        renamed.append(m.model_copy(update={"content": tuple(blocks)}))
    return renamed


def compressed(config: str) -> Callable[[list[Msg]], str]:
    def of(history: list[Msg]) -> str:
        memory = AutoContextMemory(CONFIGS[config].model_copy(update=ESTIMATE))
        for m in history:
            memory.add_message(m)
            if m.role == "user":
                memory.get_messages()
        memory.compress_if_needed(force=True)
        pages = [ContextOffloadTool(memory)(handle) for handle in memory.get_offload_context()]
        return "\n".join([without_accidents(memory), *pages, json.dumps(memory.to_openai())])

    return of


def optimised(history: list[Msg]) -> str:
    state, _ = StateOptimizer(store=SqliteContentStore(":memory:")).optimize(
        SessionState("s", "ann", history, user_input="What is left?")
    )
    return json.dumps([m.to_dict() for m in state.messages]) + json.dumps(state.memory_context, default=str)


def pruned(history: list[Msg]) -> str:
    result = prune_messages(history, store=SqliteContentStore(":memory:"))
    return json.dumps([m.to_dict() for m in result.messages])


def sent(history: list[Msg]) -> str:
    cut = [m for i, m in enumerate(history) if m.role != "tool" or i % 5 != 2]
    return json.dumps([m.to_dict() for m in sendable(cut)])


def named(history: list[Msg]) -> str:
    """Added as dicts, whose results do not name their tool."""
    memory = AutoContextMemory()
    half = len(history) // 2
    memory.add(to_openai(history[:half]))
    memory.add(to_openai(history[half:]))
    return json.dumps([[b.name for b in m.tool_results] for m in memory.messages])


def block_of_claude(history: list[Msg]) -> str:
    """Behind a compaction, pinned exchanges stay and no others."""
    block = {"type": "compaction", "content": "So far."}
    memory = AutoContextMemory()
    memory.add(history)
    place = next(i for i, m in enumerate(history) if m.tool_uses)
    pinned = [m.model_copy(update={"metadata": {"pinned": True}}) if i == place else m for i, m in enumerate(history)]
    memory = AutoContextMemory()
    memory.add([*pinned, {"role": "assistant", "content": [block]}, {"role": "user", "content": "Go on."}])
    return json.dumps([m.id for m in block_first(memory.messages)[:-2]])


READINGS: dict[str, Callable[[list[Msg]], str]] = {
    **{f"compressed, {name}": compressed(name) for name in CONFIGS},
    "optimised": optimised,
    "pruned": pruned,
    "sent": sent,
    "named": named,
    "behind a compaction": block_of_claude,
}


def without_ids(text: str) -> str:
    numbers: dict[str, str] = {}
    text = _MADE_UP.sub(lambda m: numbers.setdefault(m[0], f"#{len(numbers)}"), text)
    return _ID.sub("ID", text)


QUICK = ("compressed, window", "optimised", "named", "behind a compaction")


@pytest.mark.slow
@pytest.mark.parametrize(
    "reading", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in READINGS]
)
@settings(max_examples=share(15))  # eleven readings
@given(history=conversations())
def test_ids_that_are_used_again_change_nothing(reading: str, history: list[Msg]) -> None:
    of = READINGS[reading]
    assert without_ids(of(used_again(history))) == without_ids(of(history))


def test_a_plan_is_in_the_note_although_its_call_had_the_id_of_a_later_one() -> None:
    history = [user("Begin."), *exchange("plan", 1, "call_0"), assistant("Begun.")]
    for turn in range(2, 9):
        history += [user(f"Part {turn}."), *exchange("read", turn, "call_0"), assistant("Done. " * 40)]
    memory = AutoContextMemory(CONFIGS["window"].model_copy(update={"strategies": (), "target_ratio": 0.3}))
    memory.add_messages(history)
    memory.compress_if_needed(force=True)
    assert not any(use.name == "todo_write" for m in memory.messages for use in m.tool_uses)
    notes = "\n".join(m.text for m in memory.messages)
    assert all(step in notes for step in STEPS)
