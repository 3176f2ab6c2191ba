"""Every block that AgentScope 1 knows, through its adapter: taken, and given back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agentscope import message as agentscope

from autocontext import AutoContextMemory
from autocontext.adapters._agentscope_v1_messages import from_agentscope, to_agentscope
from tests.every_part import instances, members
from tests.kept_parts import Kept, check_kept


def _message(block: Any) -> list[Any]:
    role = "system" if block["type"] == "tool_result" else "assistant"
    return [agentscope.Msg("n", [block], role, timestamp="2026-01-02 03:04:05.000")]


def _call(block: Any) -> list[Any]:
    call = agentscope.ToolUseBlock(type="tool_use", id=block.get("id", ""), name="f", input={})
    return [agentscope.Msg("n", [call], "assistant")] if block["type"] == "tool_result" else []


def _view(memory: AutoContextMemory) -> list[Any]:
    return to_agentscope(memory.as_sent(memory.get_messages()))


KEPT = Kept(
    from_agentscope,
    to_agentscope,
    _view,
    _call,
    _message,
    shown=lambda block, view: block["type"] == "thinking" or any(block in m.content for m in view),  # never alone
    dumped=lambda m: (m.role, m.name, m.content, m.timestamp),
)


def test_every_block_is_kept(tmp_path: Path) -> None:
    parts = list(instances(agentscope.ContentBlock))
    assert {p["type"] for p in parts} >= {"text", "thinking", "image", "audio", "video", "tool_use", "tool_result"}
    assert len(members(agentscope.ContentBlock)) == len({p["type"] for p in parts})
    check_kept(KEPT, parts, tmp_path / "a.db")


@pytest.mark.parametrize(
    "block", [{"type": "hologram", "rays": ["a", 1]}, {"type": "text"}, {"type": "image"}, {"type": "tool_use"}]
)
def test_a_block_of_another_kind_is_kept(block: Any) -> None:
    [msg] = from_agentscope(_message(block))
    assert to_agentscope([msg])[0].content == [block]
