"""Dicts of any provider, told apart by their shape, in and out of a memory."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from autocontext import AutoContextMemory, Msg
from autocontext.errors import InvalidMessage
from autocontext.formats.anthropic_messages import from_anthropic, to_anthropic
from autocontext.formats.openai_chat import from_openai, to_openai
from autocontext.formats.openai_responses import to_responses
from autocontext.formats.reading import read_messages
from autocontext.testing import conversation
from tests.conversations import valid_histories
from tests.extras import need

CALL = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"pattern": "x"}'}}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    {"role": "assistant", "content": "Nothing."},
]
ANTHROPIC = [
    {"role": "user", "content": "What is this?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "grep", "input": {"pattern": "x"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "nothing"}]},
    {"role": "assistant", "content": "Nothing."},
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}]},
    {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": '{"pattern": "x"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Nothing."}]},
]


@pytest.mark.parametrize(
    ("items", "write"), [(CHAT, "to_openai"), (ANTHROPIC, "to_anthropic"), (RESPONSES, "to_responses")]
)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_provider_s_messages_come_back_as_they_went_in(items: list[Any], write: str, one_by_one: bool) -> None:
    memory = AutoContextMemory()
    for part in items if one_by_one else [items]:
        memory.add(part)
    assert getattr(memory, write)() == items
    assert [b.name for m in memory for b in m.tool_results] == ["grep"]


def plain(items: list[Any]) -> bool:
    """Whether nothing in these says whose format it is."""
    parts = [part for item in items if isinstance(item.get("content"), list) for part in item["content"]]
    return all({*item} == {"role", "content"} for item in items) and all(part["type"] == "text" for part in parts)


def said(item: dict[str, Any]) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


@given(valid_histories())
def test_every_format_is_told_from_the_others(history: list[Msg]) -> None:
    """What a writer writes is read as its own format wherever it says which it is."""
    for write in (to_openai, to_anthropic, to_responses):
        items = write(history)
        read = read_messages(items)
        # A list of plain texts is every provider's; as content parts of type "text" it is read as OpenAI's.
        assert write(read) == items or (plain(items) and [m.text for m in read] == [said(item) for item in items])
        calls = [(u.id, u.name, json.dumps(dict(u.input), default=str)) for m in history for u in m.tool_uses]
        assert [(u.id, u.name, json.dumps(dict(u.input), default=str)) for m in read for u in m.tool_uses] == calls


def test_objects_of_the_sdk_and_own_messages_are_taken_too() -> None:
    need("openai")
    from openai.types.chat import ChatCompletionMessage

    memory = AutoContextMemory()
    memory.add([Msg(role="user", content="Hi"), ChatCompletionMessage(role="assistant", content="Hello")])
    assert [m.text for m in memory] == ["Hi", "Hello"]


def test_what_an_sdk_has_parsed_is_not_sent_back() -> None:
    """`chat.completions.stream` and `parse` add keys that the API refuses, with calls, texts or Responses items."""
    need("openai")
    from openai.types.chat import ParsedChatCompletionMessage
    from openai.types.responses import ParsedResponseFunctionToolCall

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"parsed": 1}'}}
    streamed = {**call, "index": 0, "function": {**call["function"], "parsed_arguments": {"parsed": 1}}}
    reply = ParsedChatCompletionMessage[Any].model_validate(
        {"role": "assistant", "content": None, "parsed": None, "tool_calls": [streamed]}
    )
    said = ParsedChatCompletionMessage[Any].model_validate(
        {"role": "assistant", "content": "{}", "parsed": {}, "tool_calls": []}
    )
    assert to_openai(read_messages([reply])) == [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert to_openai(read_messages([said])) == [{"role": "assistant", "content": "{}"}]
    item = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    parsed = ParsedResponseFunctionToolCall.model_validate({**item, "parsed_arguments": {}})
    assert to_responses(read_messages([parsed])) == [item]


def test_dicts_may_hold_the_objects_of_an_sdk() -> None:
    """As in `{"role": "assistant", "content": None, "tool_calls": reply.tool_calls}`."""
    need("openai")
    from openai.types.chat import ChatCompletionMessageToolCall

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    chat = {"role": "assistant", "content": None, "tool_calls": [call]}
    held = {**chat, "tool_calls": [ChatCompletionMessageToolCall.model_validate(call)]}
    assert to_openai(read_messages(held)) == [chat] == to_openai(from_openai([held]))

    class Use(BaseModel):
        type: str
        id: str
        name: str
        input: dict[str, Any]

    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"parsed": 1}}
    claude = {"role": "assistant", "content": [use]}
    held = {**claude, "content": [Use.model_validate(use)]}
    assert to_anthropic(read_messages(held)) == [claude] == to_anthropic(from_anthropic([held]))


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ("hi", r"messages: 'hi' is not a message"),
        (3, r"messages: 3 is not a message"),
        ([{"role": "user", "content": "x"}, "y"], r"messages\[1\]: 'y' is not a message"),
        ({"content": "x"}, r"messages\[0\]\.role: is missing; .*\(got 'content'\)"),
        ({}, r"messages\[0\]\.role: is missing; .*no keys"),
        ({"role": "user"}, r"messages\[0\]\.content: is missing"),
        ([Msg(role="user", content="x"), {"role": "usr", "content": "x"}], r"messages\[1\]\.role: must be one of"),
        ([CHAT[2], ANTHROPIC[1]], r"messages\[1\] has the format of Anthropic, messages\[0\] that of OpenAI chat"),
        ([RESPONSES[1], CHAT[3]], r"messages\[1\] has the format of OpenAI chat, .* OpenAI Responses"),
        ([*CHAT[:2], {"role": "tool", "content": "x"}], r"messages\[2\]\.tool_call_id"),
    ],
)
def test_a_wrong_shape_is_refused_by_index_and_key_and_nothing_is_added(items: Any, problem: str) -> None:
    memory = AutoContextMemory()
    with pytest.raises(InvalidMessage, match=problem):
        memory.add(items)
    assert len(memory) == 0


TEXT_PART = {"role": "user", "content": [{"type": "text", "text": "q"}]}
OWN: dict[str, list[Any]] = {
    "OpenAI chat": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}]},
        {"role": "assistant", "content": "x", "refusal": None},
        {"role": "assistant", "content": "x", "reasoning_content": "y"},
    ],
    "OpenAI Responses": [
        *RESPONSES,
        {"type": "message", "role": "user", "content": "x"},
        {"type": "reasoning", "id": "r", "summary": []},
    ],
    "Anthropic": [
        *ANTHROPIC[1:3],
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]},
    ],
}
"""Messages that one provider's format has alone."""
SHARED = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]
"""And two that all have."""


@given(st.permutations(sorted(OWN)), st.data())
def test_a_list_of_two_formats_is_refused_with_both_places_and_nothing_is_added(kinds: list[str], data: Any) -> None:
    first, second = kinds[:2]
    other = st.sampled_from([*OWN[first], *SHARED])
    before = [*data.draw(st.lists(other, max_size=3)), data.draw(st.sampled_from(OWN[first]))]
    wrong, after = data.draw(st.sampled_from(OWN[second])), data.draw(st.lists(other, max_size=2))
    at = next(i for i, item in enumerate(before) if item in OWN[first])
    memory = AutoContextMemory()
    told = rf"messages\[{len(before)}\] has the format of {second}, messages\[{at}\] that of {first}; add each"
    with pytest.raises(InvalidMessage, match=told):
        memory.add([*before, wrong, *after])
    assert len(memory) == 0
    for item in before:  # each is one by itself
        assert len(read_messages([item])) == 1


@pytest.mark.parametrize("item", OWN["OpenAI Responses"])
def test_parts_of_type_text_are_none_of_the_responses_api(item: Any) -> None:
    for items in ([TEXT_PART, item], [item, TEXT_PART]):
        with pytest.raises(InvalidMessage, match=r"messages\[1\] .*OpenAI Responses.*|messages\[1\] .*OpenAI chat or"):
            read_messages(items)
    for kind in ("OpenAI chat", "Anthropic"):
        assert len(read_messages([TEXT_PART, OWN[kind][0]])) == 2


def test_messages_that_agree_two_by_two_and_not_together_are_refused() -> None:
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    new = {"type": "message", "role": "assistant", "content": [{"type": "new"}]}
    with pytest.raises(InvalidMessage, match=r"messages\[2\] .* those before it that of OpenAI chat; add"):
        read_messages([refusal, TEXT_PART, new])
    assert len(read_messages([refusal, TEXT_PART])) == 2


def test_a_dict_for_add_message_is_answered_with_the_way() -> None:
    with pytest.raises(InvalidMessage, match=r"from_openai and its like read dicts, and memory\.add takes"):
        AutoContextMemory().add_message({"role": "user", "content": "x"})  # type: ignore[arg-type]


def test_a_call_without_a_result_is_answered_in_what_is_sent() -> None:
    memory = AutoContextMemory()
    memory.add(CHAT[:3])
    assert memory.to_openai()[-1]["content"].startswith("Error: The process ended before a result")
    assert memory.to_anthropic()[-1]["content"][0]["is_error"]
    assert memory.to_responses()[-1]["type"] == "function_call_output"
    assert len(memory) == 3


@pytest.mark.slow
def test_what_is_sent_is_compressed_first() -> None:
    memory = AutoContextMemory()
    memory.add_messages(conversation(rounds=60))
    assert len(memory.to_openai()) < 100 < len(memory.get_original_memory_msgs())
