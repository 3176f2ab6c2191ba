"""What `add` accepts gives a request that a strict service takes, now and when the session is opened again."""

import json
import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.extras import need

need("openai")
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam

from autocontext import AutoContextMemory, ImageBlock, Msg, TextBlock
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_chat import from_openai, to_openai
from autocontext.formats.openai_responses import from_responses
from autocontext.formats.reading import read_messages
from autocontext.formats.strict import SDK_FIELDS
from tests.fakes import anthropic_server as claude
from tests.fakes.chat_rules import check_messages
from tests.fakes.openai_responses import as_chat
from tests.fakes.openai_server import _check_parts
from tests.formats.sdk_types import fault, hints, members, mutated, values

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
COMPATIBLE = frozenset(
    {
        "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "provider_specific_fields", "prefix",
        "extra_content", "images", "partial", "cache_control", "thought_signature", "format",
    }
)  # fmt: skip
"""What services that are compatible with OpenAI's take in messages, parts and calls."""
HELLO = {"role": "user", "content": "hello"}
URL = st.sampled_from(["https://a.b/c.png", "data:image/png;base64,AAAA"])
TEXT = st.sampled_from(["hi", "", " ", "看"])


def one(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fields.items()})


SOURCE = st.one_of(
    one(type="url", url=URL), one(type="base64", media_type="image/png", data="AAAA"), one(type="file", file_id="f")
)
TEXT_BLOCK = one(type="text", text=TEXT)
IMAGE = one(type="image", source=SOURCE)
CLAUDE = st.one_of(
    one(
        role="user",
        content=st.one_of(
            TEXT,
            st.lists(
                st.one_of(
                    TEXT_BLOCK,
                    IMAGE,
                    one(type="document", source=SOURCE, title="a"),
                    one(type="tool_result", tool_use_id="t1", content=st.one_of(TEXT, st.lists(TEXT_BLOCK | IMAGE))),
                ),
                max_size=3,
            ),
        ),
    ),
    one(
        role="assistant",
        content=st.lists(
            st.one_of(
                TEXT_BLOCK,
                one(type="thinking", thinking="hm", signature="s"),
                one(type="redacted_thinking", data="x"),
                one(type="tool_use", id="t1", name=st.sampled_from(["look", "a.b"]), input=one(q="x")),
            ),
            max_size=3,
        ),
        id="msg_1",
        model="m",
        usage=one(input_tokens=1),
    ),
)


def as_functions(message: dict[str, Any]) -> dict[str, Any]:
    """The message with calls as the fake service knows them: of functions, under `tool_calls`."""
    if "function_call" in message:
        return {**message, "content": message.get("content") or ""}
    calls = [
        {**c, "type": "function", "function": {"name": c["custom"]["name"], "arguments": c["custom"]["input"]}}
        if c["type"] == "custom"
        else c
        for c in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls} if calls else message


def strict_chat_service(messages: list[dict[str, Any]]) -> None:
    if messages:
        _check_parts(messages)
        # The legacy calls, which the fake service does not know, are what the SDK's types say of them.
        new = [m for m in messages if m["role"] != "function"]
        check_messages([as_functions(m) for m in new], ROLES)
    for message in messages:
        assert fault(message, ChatCompletionMessageParam, COMPATIBLE) is None
        assert message.get("content") != []
        for call in message.get("tool_calls") or ():
            assert call[call["type"]]["name"].replace("_", "a").replace("-", "a").isalnum()


def strict_responses_service(items: list[dict[str, Any]]) -> None:
    for item in items:
        plain = {k: v for k, v in item.items() if k not in ("id", "status")} if "role" in item else item
        # An assistant's message of parts is an output of the model; strict types want its id and status.
        if item.get("role") == "assistant" and isinstance(item["content"], list):
            plain = {"type": "message", "id": "msg_1", "status": "completed", **item}
            parts = [{"annotations": [], **p} if p["type"] == "output_text" else p for p in item["content"]]
            plain["content"] = parts
        assert fault(plain, ResponseInputItemParam) is None, plain
        assert str(item.get("id") or "msg").startswith("msg") or "role" not in item


def strict_claude(messages: list[dict[str, Any]]) -> None:
    claude.check_messages(messages)
    claude._check_pairs(messages)


def every_request(memory: AutoContextMemory) -> None:
    strict_chat_service(memory.to_openai())
    strict_responses_service(memory.to_responses())
    strict_claude(memory.to_anthropic())


def added(memory: AutoContextMemory, items: list[Any]) -> bool:
    taken = False
    for item in items:
        try:
            memory.add(item)
            taken = True
        except InvalidMessage:
            pass
    return taken


@given(st.lists(mutated(values(ChatCompletionMessageParam)), min_size=1, max_size=4))
@example([{"role": "user", "content": "x", "id": 17, "created_at": 3}])
@example([{"role": "user", "content": [{"type": "image", "url": "https://a.b/c.png"}]}])
@example([{"role": "user", "content": [{"type": "txt", "text": "a"}]}])
@example([{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x", "id": 1}]}])
@example([{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "a.b", "arguments": ""}}]}])
def test_every_chat_message_that_add_takes_can_be_sent_also_when_opened_again(items: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.db")
        with AutoContextMemory.open(path, session_id="s") as memory:
            memory.add(HELLO)
            added(memory, items)
            every_request(memory)
            before = memory.to_openai()
        with AutoContextMemory.open(path, session_id="s") as memory:
            assert memory.to_openai() == before
            every_request(memory)


OURS = ("function_call", "function_call_output", "custom_tool_call_output", "message", None)
"""The types of items that programs write; the service writes the others, and takes them back as they are."""
ITEMS = [(t, values(t)) for t in members(ResponseInputItemParam)]
OWN = [v for t, v in ITEMS if (*get_args(hints(t).get("type")), None)[0] in OURS]


@given(st.lists(mutated(st.one_of(OWN)) | values(ResponseInputItemParam), min_size=1, max_size=4))
def test_every_responses_item_that_add_takes_can_be_sent(items: list[Any]) -> None:
    memory = AutoContextMemory()
    memory.add(HELLO)
    added(memory, items)
    strict_responses_service(memory.to_responses())
    strict_chat_service(memory.to_openai())


@given(st.lists(mutated(CLAUDE), min_size=1, max_size=4))
def test_every_anthropic_message_that_add_takes_can_be_sent(items: list[Any]) -> None:
    memory = AutoContextMemory()
    memory.add(HELLO)
    added(memory, items)
    every_request(memory)


@given(st.lists(mutated(values(ChatCompletionMessageParam)), max_size=4))
@example([{"role": "assistant", "function_call": {"name": "看", "arguments": "hi"}}])
def test_what_an_earlier_version_has_stored_can_be_sent(items: list[Any]) -> None:
    """Before this version `add` was `add_messages(from_openai(...))`."""
    memory = AutoContextMemory()
    memory.add(HELLO)
    for item in items:
        if item.get("tool_calls") and item.get("function_call"):
            continue
        try:
            memory.add_messages(from_openai([item]))
        except InvalidMessage:
            continue
    every_request(memory)


def test_a_stored_part_of_no_known_kind_is_sent_as_a_text() -> None:
    memory = AutoContextMemory()
    parts = [{"type": "txt", "text": "a"}, {"type": "image", "url": "https://a.b/c"}, {"type": "text", "text": "b"}]
    memory.add_messages(from_openai([{"role": "user", "content": parts}]))
    memory.add_messages(from_responses([{"type": "foo", "id": "x"}]))
    assert memory.to_openai()[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "[image: https://a.b/c]"},
        {"type": "text", "text": "b"},
    ]
    assert memory.to_responses()[-1] == {"role": "assistant", "content": "[foo]"}


def test_a_result_without_an_output_is_sent_with_an_empty_one() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    memory = AutoContextMemory()
    memory.add([call, {"type": "function_call_output", "call_id": "c1"}])
    assert memory.to_responses()[1] == {"type": "function_call_output", "call_id": "c1", "output": ""}


SHELL = {
    "type": "local_shell_call",
    "id": "sh_1",
    "call_id": "s1",
    "action": {"command": ["ls"]},
    "status": "completed",
}
SHOWN = {"type": "local_shell_call_output", "id": "o_1", "call_id": "s1", "output": "a.py"}


@pytest.mark.parametrize("missing", [(0, "id"), (0, "status"), (1, "id")])
def test_a_call_that_no_service_takes_is_told_with_its_result(missing: tuple[int, str]) -> None:
    """One of the two alone is refused."""
    items = [dict(SHELL), dict(SHOWN)]
    del items[missing[0]][missing[1]]
    memory = AutoContextMemory()
    memory.add(HELLO)
    memory.add_messages(from_responses(items))
    sent = memory.to_responses()
    as_chat({"input": sent})
    assert [item.get("role") for item in sent] == ["user", "assistant", "user"]
    assert "ls" in sent[1]["content"]
    assert "a.py" in sent[2]["content"]


@given(st.lists(values(ChatCompletionMessageParam), max_size=4))
def test_what_the_sdk_s_types_allow_is_taken(items: list[Any]) -> None:
    """No valid message is refused, and none loses a field: only its form may change."""
    for item in items:
        if item.get("tool_calls") and item.get("function_call"):
            continue  # the types allow both, the service one of them
        unsent: list[str] = []
        assert len(read_messages(item, unsent)) == 1
        # The types do not say that the service takes only some characters in a name.
        assert [place for place in unsent if place != "messages[0].name"] == []


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({**HELLO, "nam": "ann"}, r"messages\[0\]\.nam: no provider takes this field; did you mean 'name'"),
        (
            {"role": "assistant", "content": "x", "tool_call": []},
            r"messages\[0\]\.tool_call: .* did you mean 'tool_calls'",
        ),
        ({"role": "user", "content": [{"type": "txt", "text": "a"}]}, r"content\[0\]\.type: 'txt' .* mean 'text'\?"),
        (
            {"role": "user", "content": [{"type": "image", "url": "x"}]},
            r"content\[0\]\.source: is missing; .*image_url",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "big"}}]},
            "one of auto",
        ),
        ({"role": "user", "content": None}, r"messages\[0\]\.content: must be a string"),
        ({**HELLO, "name": 17}, r"messages\[0\]\.name: must be a string, not int"),
        ({"type": "function_cal", "call_id": "c", "name": "f", "arguments": ""}, "did you mean 'function_call'"),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_eror": True}]}, "'is_error'"),
    ],
)
def test_what_is_misspelt_is_refused_with_the_nearest_name(item: Any, problem: str) -> None:
    memory = AutoContextMemory()
    with pytest.raises(InvalidMessage, match=problem):
        memory.add([HELLO, item][1:])
    assert len(memory) == 0


def test_a_field_that_no_provider_takes_is_warned_of_once_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    memory = AutoContextMemory()
    row = {"id": 17, "created_at": "2026-01-01", "role": "user", "content": "hi"}
    with caplog.at_level(logging.WARNING, "autocontext"):
        memory.add([row, row])
        memory.add(row)
    assert [(r.name, r.levelname) for r in caplog.records] == [("autocontext.messages", "WARNING")]
    assert "created_at" in caplog.text
    assert memory.to_openai() == [{"role": "user", "content": "hi"}] * 3
    assert to_openai(memory.get_original_memory_msgs()) == [row] * 3


def test_a_new_field_of_a_service_goes_back_with_the_sdk_s_own_object(caplog: pytest.LogCaptureFixture) -> None:
    reply = ChatCompletionMessage.model_validate({"role": "assistant", "content": "hi", "new_in_2027": {"x": 1}})
    memory = AutoContextMemory()
    with caplog.at_level(logging.WARNING, "autocontext"):
        memory.add([HELLO, reply])
    assert memory.to_openai()[1] == {"role": "assistant", "content": "hi", "new_in_2027": {"x": 1}}
    assert memory.messages[1].metadata[SDK_FIELDS] == ["new_in_2027"]
    assert caplog.records == []


def test_images_in_a_result_follow_it_in_a_message_of_the_user() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    memory = AutoContextMemory()
    memory.add([HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}])
    memory.add({"role": "tool", "tool_call_id": "c1", "content": [image]})
    assert [m["role"] for m in memory.to_openai()] == ["user", "assistant", "tool", "user"]
    strict_chat_service(memory.to_openai())
    assert memory.to_openai()[-1]["content"][-1] == image


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"path": "a.py", "content": "x', {"arguments": '{"path": "a.py", "content": "x'}),  # cut off by max_tokens
        ('[{"city": "K\u00f6ln"}]', {"arguments": '[{"city": "K\u00f6ln"}]'}),
        ('{"price": NaN}', {"arguments": '{"price": NaN}'}),
        (" ", {}),
        ("", {}),
    ],
)
def test_arguments_that_are_no_object_are_sent_as_one(raw: str, sent: dict[str, Any]) -> None:
    """DashScope, MiniMax, vLLM and others read the arguments of every call in a request."""
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "book", "arguments": raw}}
    call = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": raw}}
    chat = [HELLO, legacy, {"role": "function", "name": "book", "content": "no"}]
    chat += [{"role": "assistant", "content": None, "tool_calls": [call]}]
    chat += [{"role": "tool", "tool_call_id": "c1", "content": "Error: no JSON"}]
    memory = AutoContextMemory()
    memory.add(chat)
    assert [json.loads(text) for text in _arguments(memory.to_openai())] == [sent, sent]
    assert [json.loads(text) for text in _arguments(memory.to_responses())] == [sent, sent]
    assert to_openai(memory.get_original_memory_msgs()) == chat


def _arguments(found: Any) -> list[str]:
    if isinstance(found, dict):
        own = [found["arguments"]] if "arguments" in found else []
        return own + [text for inner in found.values() for text in _arguments(inner)]
    return [text for inner in found for text in _arguments(inner)] if isinstance(found, list) else []


PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoA"}


def test_an_image_or_document_of_the_assistant_is_named_to_claude() -> None:
    """Its messages hold none there; those of the user do."""
    memory = AutoContextMemory()
    drawn = [TextBlock(text="Here is the cat."), ImageBlock(source=PICTURE)]
    memory.add([HELLO, Msg(role="assistant", content=drawn), Msg(role="user", content=[ImageBlock(source=PICTURE)])])
    memory.add({"role": "assistant", "content": [{"type": "document", "source": PICTURE, "title": "the plan"}]})
    sent = memory.to_anthropic()
    claude.check_messages(sent)
    assert [block["type"] for message in sent[1:] for block in message["content"]] == ["text", "text", "image", "text"]
    assert sent[1]["content"][1]["text"].startswith("[image]")
    assert sent[3]["content"][0]["text"] == "[document: the plan]"


@pytest.mark.parametrize("name", ["functions.get weather", "看" * 70, "find-order"])
def test_the_result_of_a_call_from_before_tool_ids_has_the_name_of_its_call(name: str) -> None:
    memory = AutoContextMemory()
    call = {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}
    memory.add([HELLO, call, {"role": "function", "name": name, "content": "sun"}])
    strict_chat_service(memory.to_openai())
    assert memory.to_openai()[1]["function_call"]["name"] == memory.to_openai()[2]["name"]


@pytest.mark.parametrize("kind", ["image/svg+xml", "text/html", "application/pdf", "Image/PNG", "image/webp;x=1"])
def test_data_that_is_no_picture_is_sent_as_a_text(kind: str) -> None:
    memory = AutoContextMemory()
    url = f"data:{kind};base64,PHN2Zz4="
    memory.add({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    is_image = kind.startswith(("Image", "image/webp"))
    assert memory.to_openai()[0]["content"][0]["type"] == ("image_url" if is_image else "text")
    assert memory.to_responses()[0]["content"][0]["type"] == ("input_image" if is_image else "input_text")


@pytest.mark.parametrize("same", [True, False], ids=["the same message", "read again"])
def test_items_that_are_added_twice_have_their_ids_once(same: bool) -> None:
    """A program that starts again may add an answer once more."""
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "web_search_call",
            "id": "ws_1",
            "action": {"type": "search", "query": "K\u00f6ln"},
            "status": "completed",
        },
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "看"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]
    memory = AutoContextMemory()
    for item in items:
        read = read_messages(item)
        memory.add(read)
        memory.add(read if same else item)
    sent = memory.to_responses()
    ids = [item["id"] for item in sent if "id" in item]
    assert ids == ["rs_1", "ws_1", "msg_1", "fc_1"]
    as_chat({"input": [item for item in sent if item.get("type") != "web_search_call"]}, [])
