"""The reference's estimate, against every sum that was recorded from it."""

import json
from pathlib import Path

import pytest

from autocontext.messages import ImageBlock, Msg, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.tokens import get_counter

DATA = Path(__file__).parent.parent / "data"
RECORDED = (DATA / "conformance_dev.jsonl", DATA / "conformance_more.jsonl")
COUNTER = get_counter("agentscope_java")


def expanded(value):
    if isinstance(value, dict):
        if set(value) == {"repeat"}:
            return value["repeat"][0] * value["repeat"][1]
        return {k: expanded(v) for k, v in value.items()}
    return [expanded(v) for v in value] if isinstance(value, list) else value


def test_every_recorded_sum_comes_out():
    cases = [json.loads(line) for file in RECORDED for line in file.read_text(encoding="utf-8").splitlines()]
    sums = {c["name"]: sum(COUNTER.count(Msg(**expanded(m))) for m in c["messages"]) for c in cases}
    assert sums == {c["name"]: c["expect"]["tokens_before"] for c in cases}
    assert len(sums) == 103


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ({"k": "v", "n": 5}, '{"k":"v","n":5}'),
        ({"q": 'say "hi"\n'}, '{"q":"say "hi"\n"}'),
        ({"a": True, "b": False, "c": None, "d": 1.5}, '{"a":true,"b":false,"c":null,"d":1.5}'),
        ({"o": {"l": [1, "x", []]}}, '{"o":{"l":[1,"x",[]]}}'),
        ({}, ""),
    ],
)
def test_arguments_are_written_unescaped_and_without_spaces(arguments, written):
    call = ToolUseBlock(id="id", name="tool", input=arguments)
    around = 5 + 4 + 4 + 10 + 1 + 2  # message, role and name "assistant", call, id, tool
    assert COUNTER.count(Msg(role="assistant", content=[call])) == around + COUNTER.count_text(written)


def test_blocks_that_are_not_text_cost_five_each():
    image = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": "A" * 10_000})
    assert COUNTER.count(Msg(role="user", content=[image, ThinkingBlock(thinking="long " * 100)])) == 5 + 2 + 2 + 5 + 5
    result = ToolResultBlock(id="id", name="tool", output=[image])
    assert COUNTER.count(Msg(role="tool", content=[result])) == 5 + 2 + 2 + 8 + 1 + 2 + 5
