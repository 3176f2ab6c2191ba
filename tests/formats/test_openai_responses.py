"""Responses items and Msgs: loss-free one way, what a compression changed is written from the blocks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock
from autocontext.testing import assert_valid_chat, tool_exchange, user
from tests.conversations import json_objects, valid_histories
from tests.extras import need
from tests.fakes.openai_responses import as_chat
from tests.formats.test_openai_chat import ARGUMENTS, SHORT, always, exact, joined, maybe

MORE = maybe(status=st.sampled_from(["completed", None]), x=json_objects(), id=st.sampled_from(["msg_1", "fc_2", None]))
INPUT_PART = st.one_of(
    joined(always(type="input_text", text=SHORT), maybe(x=json_objects())),
    joined(
        always(
            type="input_image",
            image_url=st.sampled_from(
                ["https://e.org/a.png", "data:image/png;base64,aGk=", "data:image/png;base64,", "data:,x", ""]
            ),
        ),
        maybe(detail=st.sampled_from(["auto", "low"])),
    ),
    always(type="input_image", file_id="file-1", detail="auto"),
    always(type="input_file", filename="a.pdf", file_data="data:application/pdf;base64,aGk="),
)
OUTPUT_PART = st.one_of(
    joined(always(type="output_text", text=SHORT), maybe(annotations=st.just([]), logprobs=st.just([]))),
    always(type="refusal", refusal=SHORT),
    always(type="something_new", x=1),
)
SPOKEN = joined(
    always(role="assistant"),
    maybe(content=st.one_of(SHORT, st.none(), st.lists(OUTPUT_PART, max_size=3)), type=st.just("message")),
    MORE,
)
SAID = joined(
    always(role=st.sampled_from(["user", "system", "developer"])),
    maybe(content=st.one_of(SHORT, st.none(), st.lists(INPUT_PART, max_size=3)), type=st.just("message")),
    MORE,
)
IDS = st.sampled_from(["call_1", "call_2"])
CALL = joined(always(type="function_call", call_id=IDS, name="f", arguments=ARGUMENTS), MORE)
RESULT = joined(
    always(type=st.sampled_from(["function_call_output", "custom_tool_call_output"]), call_id=IDS),
    always(output=st.one_of(SHORT, st.lists(INPUT_PART, max_size=2))),
    MORE,
)
OTHERS = st.sampled_from(
    [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "item_reference", "id": "msg_9"},
        {"type": "shell_call", "id": "sh_1", "call_id": "s1", "status": "completed", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "a", "outcome": {"type": "exit"}}]},
        {"type": "custom_tool_call", "call_id": "c9", "name": "patch", "input": "*** Begin"},
        {"type": "compaction", "encrypted_content": "x"},
    ]
)  # fmt: skip
ITEMS = st.lists(st.one_of(SPOKEN, SAID, CALL, RESULT, OTHERS), max_size=8)


@given(ITEMS)
def test_items_come_back_as_they_were(items: list[dict[str, Any]]) -> None:
    msgs = from_responses(items)
    assert exact(to_responses(msgs)) == exact(items)
    again = [Msg.model_validate(json.loads(json.dumps(m.to_dict()))) for m in msgs]
    assert exact(to_responses(again)) == exact(items)


@given(valid_histories())
def test_valid_messages_become_items_that_the_service_takes(history: list[Msg]) -> None:
    items = to_responses(history)
    if items:
        chat = as_chat({"input": items})
        calls = [c["id"] for m in chat for c in m.get("tool_calls") or ()]
        assert calls == [use.id for m in history for use in m.tool_uses]


def test_one_answer_of_the_model_is_one_message() -> None:
    items = [
        {"role": "user", "content": "Go."},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
    ]
    msgs = from_responses(items)
    assert [m.role for m in msgs] == ["user", "assistant", "tool", "tool"]
    assert msgs[2].tool_results[0].name == "f"
    assert_valid_chat(msgs)


def test_what_a_compression_replaced_is_written_anew() -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(1_000))
    spoken = {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "output_text", "text": "word " * 800, "annotations": [{"index": 3}], "logprobs": []}],
    }
    shell = [
        {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "line\n" * 2000}]},
    ]
    memory.add_messages(
        from_responses([{"role": "user", "content": "A"}, *shell, spoken, {"role": "user", "content": "B"}])
    )
    items = to_responses(memory.get_messages())
    assert memory.get_compression_events()
    assert not any(item.get("type") == "shell_call_output" for item in items)
    assert not any(part.get("annotations") for item in items for part in item["content"] if isinstance(part, dict))
    as_chat({"input": items})


def test_messages_from_elsewhere_are_plain_items() -> None:
    made = [user("hi"), *tool_exchange("f", {"a": 1}, "out", id="c1")]
    said = Msg(role="assistant", content=[ThinkingBlock(thinking="hm"), TextBlock(text="bye")])
    assert to_responses([*made, said, Msg(role="tool", content=[ToolResultBlock(id="c2", output="")])]) == [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "out"},
        {"role": "assistant", "content": "bye"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("hi", "items[0]: must be an object, not str"),
        ({"role": "bot", "content": "x"}, "items[0].role"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "items[0].call_id: is missing"),
        ({"role": "user", "content": [{"text": "x"}]}, "items[0].content[0].type: is missing"),
    ],
)
def test_a_bad_item_is_named(item: Any, said: str) -> None:
    with pytest.raises(InvalidMessage, match=said.replace("[", r"\[")):
        from_responses([item])


@pytest.mark.parametrize("wrong", ["hi", {"role": "user", "content": "hi"}, None])
def test_what_is_no_list_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match="items: must be a list of message objects, not "):
        from_responses(wrong)


def test_the_sdks_own_objects_are_taken() -> None:
    need("openai")
    from openai.types.responses import ResponseFunctionToolCall

    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name="f", arguments="{}")
    assert to_responses(from_responses([call])) == [call.model_dump(exclude_unset=True)]
