"""LangChain messages and Msgs: loss-free one way, what a compression changed is written from the blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.langchain_messages import from_langchain, to_langchain
from autocontext.errors import InvalidMessage
from autocontext.messages import Msg
from autocontext.testing import assert_valid_chat
from tests.conversations import json_objects, texts, valid_histories

SHORT = st.one_of(st.sampled_from(["", "hi", "你好", "[image]"]), texts(max_chars=100, surrogates=False))
PARTS = st.one_of(
    SHORT,
    st.builds(lambda text: {"type": "text", "text": text}, SHORT),
    st.sampled_from(
        [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
            {"type": "image", "url": "https://e.org/a.png", "id": "x"},
            {"type": "image", "file_id": "file-1"},
            {"type": "audio", "base64": "aGk=", "mime_type": "audio/wav"},
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "reasoning", "reasoning": "Hm."},
            {"type": "text", "text": "cached", "cache_control": {"type": "ephemeral"}},
            {"type": "non_standard", "value": {"a": 1}},
            {"text": "no type"},
        ]
    ),
)
CONTENT = st.one_of(SHORT, st.lists(PARTS, max_size=3))
EXTRA = st.fixed_dictionaries(
    {}, optional={"additional_kwargs": json_objects(), "response_metadata": json_objects(), "name": st.just("bob")}
)
CALLS = st.lists(
    st.builds(
        lambda id_, args: {"name": "f", "args": args, "id": id_, "type": "tool_call"},
        st.sampled_from(["c1", "c2", None]),
        json_objects(),
    ),
    max_size=3,
)
INVALID = st.lists(
    st.builds(
        lambda name, id_, args, error: {
            "name": name, "args": args, "id": id_, "error": error, "type": "invalid_tool_call"
        },
        st.sampled_from(["f", None]),
        st.sampled_from(["c1", "c3", None]),
        st.sampled_from(['{"x": 1', "[1]", '{"x": 1}', "", "错", None]),
        st.sampled_from(["Unterminated string", None]),
    ),
    max_size=2,
)  # fmt: skip


def _answer(content: Any, calls: list[Any], invalid: list[Any], extra: dict[str, Any], *, anthropic: bool) -> AIMessage:
    if anthropic and isinstance(content, list):
        every = [*calls, *invalid]
        content = [*content, *({"type": "tool_use", "id": c["id"], "name": "f", "input": c["args"]} for c in every)]
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    own = {"tool_calls": calls, "invalid_tool_calls": invalid, "usage_metadata": usage}
    return AIMessage(content=content, id="a1", **own, **extra)


MESSAGES = st.one_of(
    st.builds(lambda c, e: HumanMessage(c, id="h1", **e), CONTENT, EXTRA),
    st.builds(lambda c, e: SystemMessage(c, id="s1", **e), CONTENT, EXTRA),
    st.builds(lambda c, e: ChatMessage(c, role="critic", id="x1", **e), CONTENT, EXTRA),
    st.builds(lambda c: FunctionMessage(c, name="f", id="f1"), SHORT),
    st.builds(
        lambda c, calls, invalid, e, a: _answer(c, calls, invalid, e, anthropic=a),
        CONTENT,
        CALLS,
        INVALID,
        EXTRA,
        st.booleans(),
    ),
    st.builds(
        lambda c, status, artifact: ToolMessage(
            c, tool_call_id="c1", name="f", id="t1", status=status, artifact=artifact
        ),
        CONTENT,
        st.sampled_from(["success", "error"]),
        st.one_of(st.none(), json_objects()),
    ),
)


@given(MESSAGES)
@example(_answer([], [{"name": "f", "args": {}, "id": None, "type": "tool_call"}], [], {}, anthropic=True))
def test_messages_come_back_as_they_were(message: BaseMessage) -> None:
    [msg] = from_langchain([message])
    assert msg.id == message.id
    assert to_langchain([msg]) == [message]
    stored = Msg.model_validate(json.loads(json.dumps(msg.to_dict())))
    assert to_langchain([stored]) == [message]


@given(INVALID)
def test_a_malformed_call_is_a_call(invalid: list[Any]) -> None:
    [msg] = from_langchain([AIMessage("", invalid_tool_calls=invalid)])
    assert [(use.id, use.name) for use in msg.tool_uses] == [(c["id"] or "", c["name"] or "") for c in invalid]


def test_a_message_that_an_earlier_version_has_stored_is_written_as_it_was() -> None:
    call = {"name": "f", "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}
    stored = Msg(
        id="a1", role="assistant", content="", metadata={"_langchain": {"rest": {"invalid_tool_calls": [call]}}}
    )
    assert to_langchain([stored]) == [AIMessage("", id="a1", invalid_tool_calls=[call])]


@given(valid_histories())
def test_valid_messages_become_a_valid_history(history: list[Msg]) -> None:
    written = to_langchain(history)
    calls = [c["id"] for m in written if isinstance(m, AIMessage) for c in m.tool_calls]
    assert calls == [use.id for m in history for use in m.tool_uses]
    results = [m.tool_call_id for m in written if isinstance(m, ToolMessage)]
    assert results == [result.id for m in history for result in m.tool_results]


def test_a_compressed_view_is_a_valid_history() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(2_000))
    spoken = AIMessage([{"type": "text", "text": "word " * 900}], id="a0", response_metadata={"model": "m"})
    memory.add_messages(from_langchain([HumanMessage("Go.", id="h0"), spoken]))
    for n in range(6):
        call = {"name": "f", "args": {"n": n}, "id": f"c{n}", "type": "tool_call"}
        answer = AIMessage("", tool_calls=[call], id=f"a1{n}")
        memory.add_messages(from_langchain([answer, ToolMessage("line " * 300, tool_call_id=f"c{n}", id=f"t{n}")]))
    written = to_langchain(memory.get_messages())
    assert memory.get_compression_events()
    assert_valid_chat(convert_to_openai_messages(written))


def test_what_is_no_json_stays_behind() -> None:
    [msg] = from_langchain([ToolMessage("42", tool_call_id="c1", artifact=object())])
    assert "object object" in json.dumps(msg.to_dict())


def test_chunks_are_messages() -> None:
    [msg] = from_langchain([AIMessageChunk("hi", id="a1")])
    assert to_langchain([msg]) == [AIMessage("hi", id="a1")]


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[1\]: a RemoveMessage"):
        from_langchain([HumanMessage("hi"), RemoveMessage(id="x")])
