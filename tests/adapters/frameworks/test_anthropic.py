"""What is written for Anthropic has the types of Anthropic's own SDK."""

from __future__ import annotations

from typing import Any

from anthropic.types import Message, MessageParam, TextBlock, ToolUseBlock, Usage
from hypothesis import given
from pydantic import TypeAdapter

from autocontext.adapters.anthropic_messages import from_anthropic, request, to_anthropic
from autocontext.messages import Msg
from tests.conversations import valid_histories

MESSAGES: TypeAdapter[Any] = TypeAdapter(list[MessageParam])


@given(valid_histories())
def test_the_sdk_takes_what_is_written(history: list[Msg]) -> None:
    MESSAGES.validate_python(request(history)["messages"])


def test_the_sdk_s_answer_is_read() -> None:
    said: list[Any] = [
        TextBlock(type="text", text="Let me look."),
        ToolUseBlock(type="tool_use", id="toolu_1", name="read", input={"path": "a.txt"}),
    ]
    usage = Usage(input_tokens=3, output_tokens=5)
    answer = Message(
        id="msg_1", type="message", role="assistant", model="m", content=said, stop_reason="tool_use", usage=usage
    )
    [msg] = from_anthropic([answer])
    assert (msg.id, msg.text, msg.tool_uses[0].input) == ("msg_1", "Let me look.", {"path": "a.txt"})
    assert to_anthropic([msg])[0]["content"][1]["input"] == {"path": "a.txt"}
