"""One pass under the `agentscope_java` preset does what AgentScope-Java did, vector by vector."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from autocontext import AutoContextConfig, AutoContextMemory, CompressionReport, Msg, TextBlock, ToolResultBlock
from autocontext.testing import ScriptedModel
from tests.conformance.vectors import Vector, vectors

VECTORS = vectors()
PLAN_TOOLS = {
    "create_plan", "update_plan_info", "revise_current_plan", "update_subtask_state", "finish_subtask",
    "view_subtasks", "get_subtask_count", "finish_plan", "view_historical_plans", "recover_historical_plan",
}  # fmt: skip
NAMES = {
    "1": "tool_runs",
    "2": "large_messages_protected",
    "3": "large_messages",
    "4": "rounds",
    "5a": "current_round_large_messages",
    "5b": "current_round",
}
EVENTS = {
    "1": "TOOL_INVOCATION_COMPRESS",
    "2": "LARGE_MESSAGE_OFFLOAD_WITH_PROTECTION",
    "3": "LARGE_MESSAGE_OFFLOAD",
    "4": "PREVIOUS_ROUND_CONVERSATION_SUMMARY",
    "5a": "CURRENT_ROUND_LARGE_MESSAGE_SUMMARY",
    "5b": "CURRENT_ROUND_MESSAGE_COMPRESS",
}


def _sync(memory: AutoContextMemory) -> CompressionReport:
    return memory.compress_if_needed()


def _async(memory: AutoContextMemory) -> CompressionReport:
    return asyncio.run(memory.acompress_if_needed())


def filled(vector: Vector) -> tuple[AutoContextMemory, ScriptedModel]:
    model = ScriptedModel(vector.reply)
    memory = AutoContextMemory(AutoContextConfig.agentscope_java(**vector.config), model)
    memory.add_messages(vector.messages)
    memory.attach_plan_note(vector.plan)
    return memory, model


def test_row_36_there_are_103_vectors_and_every_strategy_is_among_them() -> None:
    strategies = Counter(v.expect["strategy"] for v in VECTORS)
    assert len({v.name for v in VECTORS}) == len(VECTORS) == 103
    assert strategies == {None: 26, "1": 22, "2": 9, "3": 9, "4": 14, "5a": 9, "5b": 14}


@pytest.mark.parametrize("compress", [_sync, _async], ids=["sync", "async"])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_vector(vector: Vector, compress: Callable[[AutoContextMemory], CompressionReport]) -> None:
    memory, model = filled(vector)
    expect = vector.expect
    assert memory.token_count == expect["tokens_before"]

    report = compress(memory)

    assert (report.outcome != "not_needed") is expect["triggered"]
    _compare_strategy(report, memory, expect)
    _compare_working(memory, vector)
    assert memory.get_original_memory_msgs() == list(vector.messages)
    assert bool(model.requests) is _asks_the_model(vector)
    assert memory.token_count == _recount(vector, memory.messages)
    if expect["strategy"]:
        assert report.tokens_before == expect["tokens_before"] > report.tokens_after == memory.token_count


def _compare_strategy(report: CompressionReport, memory: AutoContextMemory, expect: dict[str, Any]) -> None:
    strategy = expect["strategy"]
    assert bool(report) is (strategy is not None)
    assert [s.name for s in report.strategies if s.applied] == ([NAMES[strategy]] if strategy else [])
    events = Counter((e.event_type, e.compressed_message_count) for e in memory.get_compression_events())
    assert events == Counter((e["type"], e["count"]) for e in expect["events"])
    assert {e["type"] for e in expect["events"]} == ({EVENTS[strategy]} if strategy else set())


def _compare_working(memory: AutoContextMemory, vector: Vector) -> None:
    """Every message of the view is the one added, or the new one expected in this place with its offload entry."""
    added = {m.id: m for m in vector.messages}
    offloads = memory.get_offload_context()
    found = memory.messages
    assert len(found) == len(vector.expect["working"])
    for msg, expected in zip(found, vector.expect["working"], strict=True):
        if isinstance(expected, str):
            assert msg == added[expected]
            continue
        entry = [added[id_] for id_ in vector.expect["offloads"][expected["offload"]]]
        assert msg.role == expected["role"]
        assert [b.type for b in msg.content] == expected["blocks"]
        assert [b.id for b in msg.content if b.type in ("tool_use", "tool_result")] == expected["tool_ids"]
        uuid = msg.metadata["_compress_meta"]["offloaduuid"]
        assert offloads[uuid] == entry
        assert memory.reload(uuid) == entry
        _compare_text(msg, uuid, entry, vector)
    assert len(offloads) == len(vector.expect["offloads"])


def _compare_text(msg: Msg, uuid: str, entry: list[Msg], vector: Vector) -> None:
    """What 02 says of a new message's text; the recordings hold none."""
    tag = f"<!-- CONTEXT_OFFLOAD: uuid={uuid} -->"
    tagged = [t for t in _texts(msg) if t.endswith(tag)]
    assert tagged
    if vector.expect["strategy"] in ("2", "3"):
        size = AutoContextConfig.agentscope_java(**vector.config).offload_single_preview
        assert tagged == [f"{t[:size]}...\n{tag}" for t in _texts(entry[0])]
    elif any(getattr(b, "name", "") not in PLAN_TOOLS for m in entry for b in m.content):
        assert all(t.startswith(vector.reply.strip()) for t in tagged)
    assert msg.metadata["_compress_meta"].get("compressed_current_round", False) is (vector.expect["strategy"] == "5b")


def _texts(msg: Msg) -> list[str]:
    """A message's text, or the text of each of its results."""
    if msg.text:
        return [msg.text]
    return [b.text for b in msg.content if isinstance(b, TextBlock | ToolResultBlock)]


def _asks_the_model(vector: Vector) -> bool:
    """Whether anything but plan tools is left to be summarised; strategies 2 and 3 never ask."""
    replaced = {id_ for entry in vector.expect["offloads"] for id_ in entry}
    blocks = [b for m in vector.messages if m.id in replaced for b in m.content]
    worth_asking = any(getattr(b, "name", "") not in PLAN_TOOLS for b in blocks)
    return worth_asking and vector.expect["strategy"] not in ("2", "3", None)


def _recount(vector: Vector, messages: list[Msg]) -> int:
    fresh = AutoContextMemory(AutoContextConfig.agentscope_java(**vector.config), ScriptedModel())
    fresh.add_messages(messages)
    return fresh.token_count
