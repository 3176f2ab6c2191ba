"""Responses items and Msgs: loss-free one way, what a compression changed is written from the blocks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.formats.sendable import INTERRUPTED
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock
from autocontext.testing import assert_valid_chat, tool_exchange, user
from tests.conversations import json_objects, valid_histories
from tests.extras import need
from tests.fakes.openai_responses import as_chat
from tests.fakes.sealing import seal
from tests.formats.test_openai_chat import ARGUMENTS, SHORT, always, exact, joined, maybe

MORE = maybe(status=st.sampled_from(["completed", None]), x=json_objects(), id=st.sampled_from(["msg_1", "fc_2", None]))
INPUT_PART = st.one_of(
    joined(always(type="input_text", text=SHORT), maybe(x=json_objects())),
    joined(
        always(
            type="input_image",
            image_url=st.sampled_from(
                ["https://e.org/a.png", "data:image/png;base64,aGk=", "data:a/b;c=d;base64,aGk=", "data:,x", ""]
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
    st.one_of(
        always(type="function_call_output", call_id=IDS), always(type="custom_tool_call_output", call_id=st.just("c9"))
    ),
    always(output=st.one_of(SHORT, st.lists(INPUT_PART, max_size=2))),
    MORE,
)


def screenshot(url: str | None, **fields: Any) -> dict[str, Any]:
    """What a `computer_call` gives."""
    output = {"type": "computer_screenshot", **({"image_url": url} if url else {}), **fields}
    return {"type": "computer_call_output", "call_id": "s1", "output": output, "acknowledged_safety_checks": []}


OTHERS = st.sampled_from(
    [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "item_reference", "id": "msg_9"},
        {"type": "shell_call", "id": "sh_1", "call_id": "s2", "status": "completed", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "s2", "output": [{"stdout": "a", "outcome": {"type": "exit"}}]},
        {"type": "custom_tool_call", "call_id": "c9", "name": "patch", "input": "*** Begin"},
        {"type": "compaction", "encrypted_content": "x"},
        screenshot("data:image/png;base64,aGk="),
        screenshot("https://e.org/a.png", detail="original"),
        screenshot(None, file_id="file-1"),
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


def thought(n: int) -> dict[str, Any]:
    return {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": seal("hm " * 30)}


def asked(n: int, text: str = "看") -> dict[str, Any]:
    arguments = json.dumps({"n": n, "text": text})
    return {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "f", "arguments": arguments}


def told(n: int, text: str = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{n}", "output": text}


SAYS = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}
OUTPUTS = {
    "a call": ([thought(0), asked(0)], [told(0)]),
    "words": ([thought(0), SAYS], []),
    "words and a call": ([thought(0), SAYS, asked(0)], [told(0)]),
    "two thoughts": ([thought(0), thought(1), asked(1)], [told(1)]),
}


def added_one_by_one(items: list[dict[str, Any]]) -> AutoContextMemory:
    memory = AutoContextMemory()
    for item in items:
        memory.add(item)
    return memory


@pytest.mark.parametrize(("output", "results"), OUTPUTS.values(), ids=OUTPUTS)
def test_items_added_one_by_one_keep_their_reasoning(
    output: list[dict[str, Any]], results: list[dict[str, Any]]
) -> None:
    """As they come from a stream, with `response.output_item.done`."""
    items = [{"role": "user", "content": "Go."}, *output, *results, {"role": "user", "content": "And?"}]
    sent = added_one_by_one(items).to_responses()
    assert sent == items
    as_chat({"input": sent}, [output])


@pytest.mark.parametrize("after", [[], [{"role": "user", "content": "Stop."}]], ids=["nothing", "the user"])
def test_reasoning_that_led_to_nothing_is_left_out(after: list[dict[str, Any]]) -> None:
    sent = added_one_by_one([{"role": "user", "content": "Go."}, thought(0), *after]).to_responses()
    assert sent == [{"role": "user", "content": "Go."}, *after]
    as_chat({"input": sent}, [[thought(0), asked(0)]])


@pytest.mark.parametrize("kept", [[2], [3], [2, 3], []], ids=str)
def test_reasoning_whose_call_a_list_has_lost_is_left_out(kept: list[int]) -> None:
    """The call, its result, or both; what the model said next has not come of it."""
    memory = added_one_by_one([{"role": "user", "content": "Go."}, thought(0), asked(0), told(0), SAYS])
    ids = [m.id for m in memory.messages]
    memory.follow([id_ for at, id_ in enumerate(ids) if at not in {2, 3} - {*kept}], gone=ids)
    sent = memory.to_responses()
    as_chat({"input": sent}, [[thought(0), asked(0)], [SAYS]])
    assert (thought(0) in sent) is (2 in kept)
    assert memory.reload("m2") == memory.get_original_memory_msgs()[1:4]


@pytest.mark.parametrize("between", [[{"role": "user", "content": "Also the tests."}], [asked(2), told(2)]])
def test_output_whose_reasoning_is_not_sent_has_no_id(between: list[dict[str, Any]]) -> None:
    """The user spoke while it streamed, or the first call was taken back: of what has no id nothing is demanded."""
    memory = added_one_by_one([{"role": "user", "content": "Go."}, thought(0), *between, asked(0), told(0)])
    if len(between) > 1:
        memory.delete_message(2)
        memory.add(thought(3))
        memory.add(SAYS)
    sent = memory.to_responses()
    as_chat({"input": sent}, [[thought(0), *between[:-1], asked(0)], [thought(3), SAYS]])
    assert {key: value for key, value in asked(0).items() if key != "id"} in sent


def test_output_of_a_turn_without_reasoning_keeps_its_ids() -> None:
    memory = added_one_by_one(
        [{"role": "user", "content": "Go."}, thought(0), SAYS, {"role": "user", "content": "On."}]
    )
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "git", "name": "push", "arguments": "{}"}
    memory.add([request])
    memory.delete_message(1)
    assert request in memory.to_responses()


@pytest.mark.sampled
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_no_compression_leaves_a_call_without_its_reasoning(window: int, one_by_one: bool, parts: int) -> None:
    memory = AutoContextMemory(AutoContextConfig.for_window(window))
    outputs = []
    for n in range(40):
        if n % 7 == 0:
            memory.add({"role": "user", "content": f"Go on with {n}, please."})
        says = {**SAYS, "id": f"msg_{n}", "content": [{**SAYS["content"][0], "text": f"I read log {n} now."}]}
        calls = [asked(n, "word " * (n % 9) * (30 if parts == 1 else 1)), asked(n + 100)][: max(1, parts - 1)]
        outputs.append([thought(n), *([says] if parts > 1 else []), *calls])
        for items in outputs[-1] if one_by_one else [outputs[-1]]:
            memory.add(items)
        memory.add(told(n, f"line {n} is here\n" * (5 + n % 5 * 40)))
        memory.add([told(n + 100, f"more of {n}")] if parts > 2 else [])
        as_chat({"input": memory.to_responses()}, outputs)
    assert memory.get_compression_events()


SPECIAL: dict[str, dict[str, Any]] = {
    "custom_tool_call": {"name": "apply_patch", "input": "*** Begin Patch"},
    "shell_call": {"action": {"commands": ["make deploy"]}, "status": "completed"},
    "local_shell_call": {"action": {"type": "exec", "command": ["ls"], "env": {}}, "status": "completed"},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "x"}, "status": "completed"},
    "computer_call": {"action": {"type": "screenshot"}, "pending_safety_checks": [], "status": "completed"},
}


def special(kind: str) -> dict[str, Any]:
    return {"type": kind, "id": "x_1", "call_id": "s1", **SPECIAL[kind]}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    "beside", [[], [asked(1)], [asked(1), told(1)]], ids=["alone", "beside one", "beside answered"]
)
def test_a_special_call_without_a_result_is_answered_as_its_kind_demands(kind: str, beside: list[Any]) -> None:
    """After a crash, for instance: what happened is said in an item of its own kind, or else both are texts."""
    memory = AutoContextMemory()
    memory.add([{"role": "user", "content": "Go."}, special(kind), *beside])
    sent = memory.to_responses()
    as_chat({"input": sent})
    assert INTERRUPTED in str(sent)
    said = json.dumps(SPECIAL[kind].get("input") or SPECIAL[kind].get("action") or SPECIAL[kind]["operation"])
    assert said[1:-1] in json.dumps(sent).replace("\\", "")
    at = [i for i, item in enumerate(sent) if item.get("call_id") == "c1"]
    assert not any("role" in item for i, item in enumerate(sent) if at and at[0] < i < at[1])  # the two stay together


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_special_call_with_the_id_of_an_answered_one_leaves_that_as_it_is(kind: str) -> None:
    memory = AutoContextMemory()
    answered = [asked(1, "看"), told(1, "42")]
    memory.add([{"role": "user", "content": "Go."}, *answered, {**special(kind), "call_id": "c1"}])
    sent = memory.to_responses()
    as_chat({"input": sent})
    assert exact(sent[1:3]) == exact(answered)
    assert INTERRUPTED in str(sent[4:])


OUTPUTS: dict[str, Any] = {
    "function_call": "r",
    "custom_tool_call": [{"type": "input_text", "text": "r"}],
    "apply_patch_call": "r",
    "shell_call": [{"stdout": "r", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    "computer_call": {"type": "computer_screenshot", "image_url": "https://e.org/r.png"},
}


@pytest.mark.parametrize("answer", OUTPUTS)
@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_result_is_sent_as_an_item_of_its_call_s_kind(kind: str, answer: str) -> None:
    """Programs answer with `function_call_output` what else the model called: the API finds no call for that."""
    call = {**asked(1), "call_id": "s1"} if kind == "function_call" else special(kind)
    status = {"status": "completed"} if answer == "apply_patch_call" else {}
    output = {"type": f"{answer}_output", "call_id": "s1", "output": OUTPUTS[answer], **status}
    items = [{"role": "user", "content": "Go."}, call, output]
    memory = AutoContextMemory()
    memory.add(items)
    sent = memory.to_responses()
    as_chat({"input": sent})
    outputs = [item for item in sent if item.get("type", "").endswith("_output")]
    assert [item["type"] for item in outputs] in ([f"{kind}_output"], [])
    assert outputs or kind in ("shell_call", "computer_call")
    assert "r" in str(sent[2:])
    assert kind != answer or exact(sent) == exact(items)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"type": "tool_search_output", "tools": [{"name": "rate"}]}, '{"tools": [{"name": "rate"}]}'),
        ({"type": "mcp_call_output", "output": None, "error": "refused", "id": "o"}, '{"error": "refused"}'),
    ],
)
def test_a_result_that_has_no_output_is_sent_with_what_it_says(said: dict[str, Any], text: str) -> None:
    own = {"type": said["type"].removesuffix("_output").removesuffix("_call") + "_call", "call_id": "c1"}
    result = {"call_id": "c1", **said}
    assert exact(to_responses(from_responses([own, result]))) == exact([own, result])
    items = to_responses(from_responses([{**asked(1), "call_id": "c1"}, result]))
    assert items[1] == {"type": "function_call_output", "call_id": "c1", "output": text}


CUSTOM = [
    {"role": "user", "content": "Go."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** 看.py"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Done"},
]


@pytest.mark.parametrize("answered", [True, False])
def test_a_custom_call_of_chat_completions_is_one_here(answered: bool) -> None:
    memory = AutoContextMemory()
    memory.add(CUSTOM if answered else CUSTOM[:-1])
    sent = memory.to_responses()
    as_chat({"input": sent})
    assert sent[1:] == [
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** 看.py"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done" if answered else INTERRUPTED},
    ]


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
