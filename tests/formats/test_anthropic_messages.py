"""Anthropic messages and Msgs: loss-free one way, fit for the API the other way, one clear line for a bad list."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.sendable import sendable
from autocontext.errors import InvalidMessage
from autocontext.formats.anthropic_messages import from_anthropic, request, system_of, to_anthropic
from autocontext.formats.openai_chat import from_openai, to_openai
from autocontext.messages import Msg, TextBlock, ThinkingBlock
from autocontext.testing import assert_valid_chat, assistant, system, tool_call, tool_result, user
from tests.conversations import json_objects, valid_histories
from tests.formats.test_openai_chat import SHORT, always, exact, joined, maybe

CACHED = maybe(cache_control=always(type="ephemeral"), x=json_objects())
TEXT = joined(always(type="text", text=SHORT), CACHED, maybe(citations=st.sampled_from([None, [{"type": "x"}]])))
IMAGE = joined(
    always(
        type="image",
        source=st.one_of(
            always(type="base64", media_type="image/png", data="aGk="),
            always(type="url", url="https://e.org/a.png"),
            always(type="file", file_id="file_1"),
        ),
    ),
    CACHED,
)
DOCUMENT = st.sampled_from(
    [
        {"type": "document", "title": "a.pdf", "source": {"type": "url", "url": "https://e.org/a.pdf"}},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]},
        {"type": "something_new"},
    ]
)
USE = joined(always(type="tool_use", id=st.sampled_from(["t1", "t2"]), name="f", input=json_objects()), CACHED)
RESULT = joined(
    always(type="tool_result", tool_use_id=st.sampled_from(["t1", "t2"])),
    maybe(
        content=st.one_of(SHORT, st.lists(st.one_of(TEXT, IMAGE, DOCUMENT), max_size=3)),
        is_error=st.booleans(),
    ),
    CACHED,
)
THOUGHT = st.sampled_from(
    [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    ]
)
MESSAGES = st.one_of(
    joined(
        always(role="user", content=st.one_of(SHORT, st.lists(st.one_of(TEXT, IMAGE, DOCUMENT, RESULT), max_size=4))),
        maybe(x=json_objects(), id=st.just("u1")),
    ),
    joined(
        always(role="assistant", content=st.one_of(SHORT, st.lists(st.one_of(TEXT, THOUGHT, USE), max_size=4))),
        maybe(stop_reason=st.just("end_turn"), id=st.just("msg_1"), usage=json_objects()),
    ),
)
SYSTEM = st.one_of(st.none(), SHORT, st.lists(TEXT, max_size=2))


@given(st.lists(MESSAGES, max_size=6), SYSTEM)
def test_messages_come_back_as_they_were(messages: list[dict[str, Any]], prompt: Any) -> None:
    msgs = from_anthropic(messages, prompt)
    for held in (msgs, [Msg.model_validate(json.loads(json.dumps(m.to_dict()))) for m in msgs]):
        assert exact(to_anthropic(held)) == exact(messages)
        assert exact(system_of(held)) == exact(prompt)


def first_fault(messages: list[dict[str, Any]]) -> str | None:
    """The first rule of the Messages API that is broken: roles, blocks, each call answered in the next message."""
    waiting: list[str] = []
    for i, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [b["type"] for b in blocks]
        if message["role"] not in ("user", "assistant") or not isinstance(content, str | list):
            return f"{i}: form"
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            return f"{i}: calls {waiting}, results {results}"
        if "tool_result" in kinds[len(results) :] and results:
            return f"{i}: results must come first"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
    return f"{waiting} unanswered" if waiting else None


@given(valid_histories())
def test_valid_messages_become_a_request_that_the_service_takes(history: list[Msg]) -> None:
    made = request(history)
    assert first_fault(made["messages"]) is None
    assert ("system" in made) == any(m.role == "system" for m in history)
    json.dumps(made)


@pytest.mark.slow
def test_a_long_conversation_in_a_small_window() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000))
    memory.add_messages(from_anthropic([{"role": "user", "content": "Read all."}], "Be brief."))
    for n in range(20):
        uses = [{"type": "tool_use", "id": f"t{n}{k}", "name": "read", "input": {"n": n}} for k in "ab"]
        results = [
            {"type": "tool_result", "tool_use_id": u["id"], "content": [{"type": "text", "text": f"line {n} " * 200}]}
            for u in uses
        ]
        thought = {"type": "thinking", "thinking": "Next.", "signature": "sig"}
        memory.add_messages(
            from_anthropic([{"role": "assistant", "content": [thought, *uses]}, {"role": "user", "content": results}])
        )
        made = request(sendable(memory.get_messages()))
        assert first_fault(made["messages"]) is None
        assert made["system"] == "Be brief."
        assert memory.token_count <= 2_000
    assert memory.get_compression_events()


def test_parallel_results_are_one_message() -> None:
    both = [tool_call("f", id="t1").tool_uses[0], tool_call("g", id="t2").tool_uses[0]]
    msgs = [user("Go."), Msg(role="assistant", content=both), tool_result("t1", "1"), tool_result("t2", "2")]
    assert [len(m["content"]) for m in to_anthropic(msgs)[1:]] == [2, 2]
    assert [m["role"] for m in to_anthropic(msgs)] == ["user", "assistant", "user"]


def test_what_the_api_would_refuse_stays_out() -> None:
    thought = Msg(role="assistant", content=[ThinkingBlock(thinking="hm")])
    said = Msg(role="assistant", content=[ThinkingBlock(thinking="hm"), TextBlock(text="Hello.")])
    assert to_anthropic([user("hi"), thought, said]) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
    ]
    assert to_anthropic([assistant("fine")]) == [{"role": "assistant", "content": "fine"}]
    assert request([system("one"), user("hi"), system("two")])["system"] == "one\n\ntwo"


def test_a_conversation_moves_to_openai_and_back() -> None:
    chat = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [_call("c1"), _call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        {"role": "tool", "tool_call_id": "c2", "content": "rain"},
        {"role": "assistant", "content": "Mixed."},
    ]
    there = to_anthropic(from_openai(chat))
    assert first_fault(there) is None
    back = from_anthropic(there)
    assert_valid_chat(back)
    assert [m.get("content") for m in to_openai(back)] == [m["content"] for m in chat]
    assert all(a["role"] != b["role"] for a, b in pairwise(there))


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": '{"in": "here"}'}}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("hi", r"messages\[0\]: must be an object"),
        ({"role": "system", "content": "x"}, r"messages\[0\].role: must be user or assistant"),
        ({"role": "user"}, r"messages\[0\].content: must be a string or a list of blocks, not null"),
        ({"role": "user", "content": [{"text": "x"}]}, r"messages\[0\].content\[0\].type: is missing"),
        ({"role": "user", "content": "x", "id": "\ud800"}, r"messages\[0\].Msg.id: Input should be a valid string"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, r"messages\[0\].content\[0\].tool_use_id: is missing"),
    ],
)
def test_a_bad_message_is_named(message: Any, said: str) -> None:
    with pytest.raises(InvalidMessage, match=said):
        from_anthropic([message])


def test_a_cache_mark_of_a_text_alone_is_sent() -> None:
    memory = AutoContextMemory()
    marked = [{"type": "text", "text": "Read this.", "cache_control": {"type": "ephemeral"}}]
    memory.add({"role": "system", "content": marked})
    memory.add({"role": "user", "content": marked})
    assert request(memory.messages) == {"system": marked, "messages": [{"role": "user", "content": marked}]}
