"""OpenAI chat lists and Msgs: loss-free one way, meaning kept the other way, one clear line for a bad list."""

import functools
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_chat import from_openai, to_openai
from autocontext.messages import (
    AudioBlock,
    ImageBlock,
    Msg,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from autocontext.testing import ScriptedModel, assert_valid_chat, conversation, tool_call, tool_result, user
from tests.conversations import histories, json_objects, texts, valid_histories
from tests.extras import need
from tests.fakes import FakeOpenAI
from tests.fakes.chat_rules import check_messages
from tests.profiles import share

REPLAY = Path(__file__).parent.parent / "data" / "replay_dev.jsonl"
relaxed = settings(deadline=None)  # several test runs share the processor
TOO_DEEP = json.loads('{"a":' * 300 + "1" + "}" * 300)


# ------------------------------------------------------------------------------------------------ OpenAI chat lists
def maybe(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have some of these keys."""
    return st.fixed_dictionaries({}, optional=optional)


def joined(*objects: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*objects).map(lambda found: {k: v for o in found for k, v in o.items()})


def always(**keys: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in keys.items()})


SHORT = st.one_of(
    st.sampled_from(["", "hi", "你好", "\ud800", "[image]", "[file: a.pdf]", "a\nb"]), texts(max_chars=200)
)
ANY_JSON = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.just(1.0), SHORT, json_objects(), st.just([1, True])
)
UNKNOWN = maybe(cache_control=always(type="ephemeral"), extra_content=ANY_JSON, index=ANY_JSON, _x=ANY_JSON)
IDS = st.sampled_from(["call_1", "call_2", "call_3", "x", "functions.f:0", ""])
NAMES = st.sampled_from(["f", "read_file", "create_plan", "查"])
URLS = st.sampled_from(
    [
        "https://e.org/a.png", "data:image/png;base64,aGk=", "data:image/png;base64,", "data:;base64,aGk=",
        "data:image/svg+xml;utf8,<svg/>", "data:image/png;charset=x;base64,aGk=", "DATA:image/png;base64,aGk=", "",
        "data:image/png;base64,a\nb",
    ]
)  # fmt: skip
ODD_ARGUMENTS = [
    "", " ", "{}", "{ }", "[]", "[1]", "1", "null", "true", '"text"', "{", '{"a": 1', '{"a": 1}\n',
    '{"a":1,"a":2}',
    '{"b":1, "a":2}', '{"a": 1.0}', '{"a": 1e5}', '{"a": 1e999}', '{"a": NaN}', '{"a": -0.0}', '{"a": 1.50}',
    '{"a": "\\ud800"}', '{"a": "\\u00e9"}', '{"a": "é/\\/"}', '{"a": "\ud800"}', '{"arguments": "{}"}',
    '{"arguments": 1}', '{"a": %s}' % ("9" * 5000), json.dumps(TOO_DEEP), "[" * 100_000, '{"a":' * 5000,
    "not json",
]  # fmt: skip
ARGUMENTS = st.one_of(
    json_objects().map(json.dumps),
    json_objects().map(lambda o: json.dumps(o, ensure_ascii=False, separators=(",", ":"))),
    json_objects().map(lambda o: json.dumps(o, ensure_ascii=False)),
    json_objects().map(lambda o: json.dumps(o, indent=2, sort_keys=True)),
    st.sampled_from(ODD_ARGUMENTS),
    SHORT,
)  # fmt: skip
TEXT_PART = joined(always(type="text", text=SHORT), UNKNOWN)
REFUSAL_PART = joined(always(type="refusal", refusal=SHORT), UNKNOWN)
DETAIL = joined(always(url=URLS), maybe(detail=st.sampled_from(["low", "high", None]), x=ANY_JSON))
AUDIO_DATA = joined(
    always(data=SHORT, format=st.sampled_from(["wav", "mp3", "mpeg", "audio/mpeg", "pcm16", ""])), maybe(x=ANY_JSON)
)
FILE = maybe(
    file_id=st.just("file-1"),
    filename=st.just("a.pdf"),
    file_data=st.just("data:application/pdf;base64,aGk="),
    x=ANY_JSON,
)
MEDIA_PART = st.one_of(
    joined(always(type="image_url", image_url=st.one_of(DETAIL, URLS)), UNKNOWN),
    joined(always(type="video_url", video_url=DETAIL), UNKNOWN),
    joined(always(type="input_audio", input_audio=AUDIO_DATA), UNKNOWN),
    joined(always(type="file", file=st.one_of(FILE, ANY_JSON)), UNKNOWN),
    joined(always(type="something_new"), UNKNOWN),
)
CONTENT = st.one_of(SHORT, st.none(), st.lists(st.one_of(TEXT_PART, MEDIA_PART), max_size=3))
COMMON = joined(UNKNOWN, maybe(id=st.one_of(SHORT, ANY_JSON)))
NAMED = maybe(
    name=st.one_of(st.none(), st.sampled_from(["user", "Bob-1", "system", "developer", "张三", "a b", "", "\ud800"]))
)
CALL = st.one_of(
    joined(
        always(id=IDS, function=joined(always(name=NAMES, arguments=ARGUMENTS), UNKNOWN)),
        UNKNOWN,
        st.sampled_from([{"type": "function"}] * 5 + [{}]),
    ),
    joined(always(id=IDS, type="custom", custom=joined(always(name=NAMES, input=SHORT), UNKNOWN)), UNKNOWN),
)
ASSISTANT = joined(
    always(role="assistant"),
    maybe(
        content=st.one_of(SHORT, st.none(), st.lists(st.one_of(TEXT_PART, REFUSAL_PART), max_size=3)),
        tool_calls=st.one_of(st.lists(CALL, max_size=3), st.none()),
        function_call=st.one_of(st.none(), joined(always(name=NAMES, arguments=ARGUMENTS), UNKNOWN)),
        refusal=st.one_of(st.none(), SHORT),
        audio=st.one_of(st.none(), always(id="audio_1")),
        annotations=st.one_of(
            st.none(), st.just([]), st.just([{"type": "url_citation", "url_citation": {"end_index": 1}}])
        ),
        reasoning_content=st.one_of(st.none(), SHORT),
        reasoning=ANY_JSON,
    ),
    NAMED,
    COMMON,
)
MESSAGES = st.one_of(
    joined(
        always(role=st.sampled_from(["user", "user", "system", "developer"])), maybe(content=CONTENT), NAMED, COMMON
    ),
    ASSISTANT,
    joined(always(role="tool", tool_call_id=IDS), maybe(content=CONTENT), NAMED, COMMON),
    joined(always(role="function", name=NAMES), maybe(content=st.one_of(SHORT, st.none())), COMMON),
)


def exact(value: Any) -> str:
    """JSON text: unlike ==, it tells 1 from 1.0 and True."""
    return json.dumps(value, sort_keys=True)


def calling_with(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize("arguments", ODD_ARGUMENTS, ids=lambda a: ascii(a[:20]))
def test_odd_arguments_come_back_to_the_letter(arguments: str) -> None:
    msgs = from_openai([calling_with(arguments)])
    assert to_openai(msgs) == [calling_with(arguments)]
    text = json.dumps([m.to_dict() for m in msgs], allow_nan=False)
    assert to_openai([Msg.model_validate(m) for m in json.loads(text)]) == [calling_with(arguments)]


@settings(max_examples=share(400), deadline=None)
@given(st.lists(MESSAGES, max_size=5))
def test_every_list_comes_back_as_it_was(messages: list[dict[str, Any]]) -> None:
    before = exact(messages)
    msgs = from_openai(messages)
    assert len(msgs) == len(messages)
    assert exact(to_openai(msgs)) == before
    assert exact(messages) == before, "the input was changed"
    saved = [Msg.model_validate(json.loads(json.dumps(m.to_dict()))) for m in msgs]
    assert exact(to_openai(saved)) == before, "saving and loading lost something"


@relaxed
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), texts(max_chars=2000)), max_size=5))
def test_a_plain_message_has_no_metadata(plain: list[tuple[str, str]]) -> None:
    msgs = from_openai([{"role": role, "content": text} for role, text in plain])
    assert [(m.role, m.text, m.name, m.metadata) for m in msgs] == [(role, text, role, {}) for role, text in plain]
    assert all(not b.metadata for m in msgs for b in m.content)


def conversations() -> list[Any]:
    lines = REPLAY.read_text(encoding="utf-8").splitlines()
    return [pytest.param(found["messages"], id=found["id"]) for found in map(json.loads, lines)]


def test_all_conversations_are_there() -> None:
    assert len(conversations()) == 19


@pytest.mark.sampled
@pytest.mark.parametrize("messages", conversations())
def test_real_conversations_come_back_byte_for_byte(messages: list[dict[str, Any]]) -> None:
    assert_valid_chat(messages)
    msgs = from_openai(messages)
    assert_valid_chat(msgs)
    assert json.dumps(to_openai(msgs)) == json.dumps(messages)  # the order of keys too


@pytest.mark.slow
@pytest.mark.parametrize("messages", conversations()[1:])
def test_a_compressed_conversation_is_a_valid_list(messages: list[dict[str, Any]]) -> None:
    config = AutoContextConfig.for_window(4_000)
    memory = AutoContextMemory(config, ScriptedModel("Everything went well."))
    memory.add_messages(from_openai(messages))
    sent = to_openai(memory.get_messages())
    assert_valid_chat(sent)
    check_messages(sent, frozenset({"system", "user", "assistant", "tool"}))


# ------------------------------------------------------------------------------------------------- what is understood
def only(message: dict[str, Any]) -> Msg:
    (msg,) = from_openai([message])
    assert exact(to_openai([msg])) == exact([message])
    return msg


def test_roles() -> None:
    assert only({"role": "developer", "content": "x"}).role == "system"
    legacy = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "4"},
    ]
    call, result = from_openai(legacy)
    assert (call.role, result.role) == ("assistant", "tool")
    assert call.tool_uses[0].id == result.tool_results[0].id
    assert result.tool_results[0].output == "4"
    assert to_openai([call, result]) == legacy


def test_calls_and_results_are_typed() -> None:
    calls = [{"id": k, "type": "function", "function": {"name": n, "arguments": '{"a": [1]}'}} for k, n in ("xf", "yg")]
    results = [{"role": "tool", "tool_call_id": k, "content": f"of {k}"} for k in "yx"]
    call, *answers = from_openai([{"role": "assistant", "content": None, "tool_calls": calls}, *results])
    assert [(b.id, b.name, b.input, b.metadata) for b in call.tool_uses] == [
        ("x", "f", {"a": [1]}, {}),
        ("y", "g", {"a": [1]}, {}),
    ]
    blocks = [b for m in answers for b in m.tool_results]
    assert [(b.id, b.name, b.output, b.metadata) for b in blocks] == [("y", "g", "of y", {}), ("x", "f", "of x", {})]
    assert [m.metadata for m in (call, *answers)] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        ("{", {"arguments": "{"}),
        ("[1]", {"arguments": "[1]"}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
    ],
)
def test_arguments_are_read_and_kept_to_the_letter(arguments: str, value: dict[str, Any]) -> None:
    msg = only(calling_with(arguments))
    assert msg.tool_uses[0].input == value


def test_parts_are_typed() -> None:
    parts = [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        {"type": "video_url", "video_url": {"url": "https://e.org/v"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "..."}},
    ]
    text, image, audio, video, file = only({"role": "user", "content": parts}).content
    assert text == TextBlock(text="look", metadata={"_openai": {"extra": {"cache_control": {"type": "ephemeral"}}}})
    assert isinstance(image, ImageBlock)
    assert image.source == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert isinstance(audio, AudioBlock)
    assert audio.source == {"type": "base64", "media_type": "audio/mpeg", "data": "aGk="}
    assert isinstance(video, VideoBlock)
    assert video.source == {"type": "url", "url": "https://e.org/v"}
    assert isinstance(file, TextBlock)
    assert file.text == "[file: a.pdf]"


@pytest.mark.parametrize("form", ["wav", "mp3", "mpeg", "audio/mpeg", "pcm16", ""])
def test_audio_formats_come_back(form: str) -> None:
    only({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": form}}]})


def test_reasoning_and_refusal_are_seen() -> None:
    msg = only({"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": "No."})
    assert isinstance(msg.content[0], ThinkingBlock)
    assert msg.text == "No."


def test_message_ids() -> None:
    assert only({"role": "user", "content": "x", "id": "msg_1"}).id == "msg_1"
    plain = {"role": "user", "content": "x"}
    first, second = from_openai([plain, plain])
    assert first.id != second.id
    assert only({**plain, "id": None}).id
    assert only({**plain, "id": ""}).id


def test_the_sdks_own_objects_are_taken() -> None:
    need("openai")
    from openai.types.chat import ChatCompletionMessage

    reply = {"role": "assistant", "content": "4", "refusal": None, "annotations": []}
    (msg,) = from_openai([ChatCompletionMessage.model_validate(reply)])
    assert to_openai([msg]) == [reply]


def test_the_result_is_the_callers_to_change() -> None:
    given_list = [{"role": "user", "content": [{"type": "text", "text": "x", "y": {"z": [1]}}], "w": {"v": [2]}}]
    msgs = from_openai(given_list)
    given_list[0]["w"]["v"].append(3)
    back = to_openai(msgs)
    back[0]["content"][0]["y"]["z"].append(4)
    assert to_openai(msgs) == [
        {"role": "user", "content": [{"type": "text", "text": "x", "y": {"z": [1]}}], "w": {"v": [2]}}
    ]


# --------------------------------------------------------------------------------------------------- rewritten messages
def rewritten(msg: Msg, *blocks: Any) -> Msg:
    return msg.model_copy(update={"content": blocks, "origin": Origin(uuid="u", kind="stub")})


@relaxed
@given(MESSAGES, SHORT)
def test_a_rewritten_message_says_its_new_text_only(message: dict[str, Any], text: str) -> None:
    (msg,) = from_openai([message])
    marked = f"«new»{text}"
    blocks = [TextBlock(text=marked, metadata=b.metadata) if isinstance(b, TextBlock) else b for b in msg.content]
    blocks = [b.model_copy(update={"output": marked}) if isinstance(b, ToolResultBlock) else b for b in blocks]
    if not any(b != old for b, old in zip(blocks, msg.content, strict=True)):
        blocks.insert(0, TextBlock(text=marked))
    (sent,) = to_openai([rewritten(msg, *blocks)])
    said = {k: sent.get(k) for k in ("content", "refusal")}
    assert marked in exact_text(said)
    assert sent["role"] == message["role"]
    assert not {"audio", "annotations"} & sent.keys()
    assert exact([m.text for m in from_openai([sent])]) == exact([m.text for m in [rewritten(msg, *blocks)]])


def exact_text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(exact_text, value.values()))
    if isinstance(value, list):
        return "\n".join(map(exact_text, value))
    return str(value)


@relaxed
@given(ARGUMENTS, json_objects())
def test_changed_arguments_are_sent_as_changed(arguments: str, value: dict[str, Any]) -> None:
    (msg,) = from_openai([calling_with(arguments)])
    use = msg.tool_uses[0].model_copy(update={"input": value})
    (sent,) = to_openai([rewritten(msg, use)])
    sent_arguments = sent["tool_calls"][0]["function"]["arguments"]
    try:
        same = exact(json.loads(sent_arguments)) == exact(value)
    except ValueError:
        same = False
    unchanged = exact(value) == exact(msg.tool_uses[0].input)
    assert same or (unchanged and sent_arguments == arguments)


def test_a_shortened_call_with_broken_arguments_sends_the_short_text() -> None:
    (msg,) = from_openai([calling_with("{" * 500)])
    use = msg.tool_uses[0].model_copy(update={"input": {"arguments": "{{{..."}})
    assert to_openai([rewritten(msg, use)])[0]["tool_calls"][0]["function"]["arguments"] == "{{{..."


@pytest.mark.parametrize("value", [True, 1.0])
def test_values_that_python_takes_for_equal_are_told_apart(value: Any) -> None:
    (msg,) = from_openai([calling_with('{"a":   1}')])
    use = msg.tool_uses[0].model_copy(update={"input": {"a": value}})
    assert exact(to_openai([rewritten(msg, use)])) == exact([calling_with(json.dumps({"a": value}))])


def test_a_file_whose_stand_in_was_replaced_is_gone() -> None:
    (msg,) = from_openai([{"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf"}}]}])
    short = msg.content[0].model_copy(update={"text": "The file said hello."})
    assert to_openai([rewritten(msg, short)])[0]["content"] == [{"type": "text", "text": "The file said hello."}]


def test_parts_that_fall_away_leave_a_valid_message() -> None:
    (msg,) = from_openai([{"role": "assistant", "content": [{"type": "text", "text": "x"}], "audio": {"id": "a"}}])
    assert to_openai([rewritten(msg, TextBlock(text="y"))]) == [
        {"role": "assistant", "content": [{"type": "text", "text": "y"}]}
    ]
    assert to_openai([rewritten(msg)])[0]["content"] == ""


# ------------------------------------------------------------------------------------------------------- native Msgs
KEYS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


@relaxed
@given(histories(duplicates=True))
def test_native_messages_use_only_what_the_api_knows(msgs: list[Msg]) -> None:
    sent = to_openai(msgs)
    assert all(m.keys() <= KEYS[m["role"]] for m in sent)
    back = from_openai(sent)
    assert exact(to_openai(back)) == exact(sent)
    assert what_was_called(back) == what_was_called(msgs)
    assert what_was_answered(back) == what_was_answered(msgs)
    assert what_was_said(back) == what_was_said(msgs)


def what_was_called(msgs: list[Msg]) -> list[Any]:
    return [(b.id, b.name, exact(b.input)) for m in msgs for b in m.tool_uses]


def what_was_answered(msgs: list[Msg]) -> list[Any]:
    return [(b.id, without_stand_ins(b.text)) for m in msgs for b in m.tool_results]


def what_was_said(msgs: list[Msg]) -> list[Any]:
    """Texts by role; an empty one and those that show a tool's images say nothing of their own."""
    said = [(m.role, without_stand_ins(m.text)) for m in msgs if not m.text.startswith("From the result of tool call")]
    return [(role, text) for role, text in said if text]


def without_stand_ins(text: str) -> str:
    return re.sub(r"\n?\[(image|audio)[^\]]*\]$", "", text)


@settings(max_examples=share(50), deadline=None)
@given(valid_histories(surrogates=False))
def test_valid_histories_give_lists_that_services_take(msgs: list[Msg]) -> None:
    sent = to_openai(msgs)
    assert_valid_chat(sent)
    if sent:
        check_messages(sent, frozenset({"system", "user", "assistant", "tool"}))


@settings(max_examples=share(50), deadline=None)
@given(valid_histories(surrogates=False))
def test_valid_histories_give_lists_that_the_sdks_types_allow(msgs: list[Msg]) -> None:
    openai_messages().validate_json(json.dumps(to_openai(msgs)))


@functools.cache
def openai_messages() -> TypeAdapter[Any]:
    need("openai")
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(list[ChatCompletionMessageParam])


def test_every_result_is_a_message_of_its_own() -> None:
    results = (
        ToolResultBlock(id="a", name="f", output="1"),
        ToolResultBlock(id="b", output=[TextBlock(text="2"), TextBlock(text="3")]),
    )
    expected = [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2\n3"},
    ]
    assert to_openai([Msg(role="tool", content=results)]) == expected
    both = Msg(role="user", content=(TextBlock(text="and?"), *results))
    assert to_openai([both]) == [*expected, {"role": "user", "content": "and?"}]
    uses = (ToolUseBlock(id="a", name="f"), ToolUseBlock(id="b", name="f"))
    call, *rest = to_openai([Msg(role="assistant", content=(*results, *uses))])
    assert [c["id"] for c in call["tool_calls"]] == ["a", "b"]
    assert rest == expected


def test_names_are_sent_where_the_api_takes_them() -> None:
    sent = to_openai([user("x", name="Bob_1"), user("x", name="张 三"), user("x"), user("x", name="n" * 65)])
    assert [m.get("name") for m in sent] == ["Bob_1", None, None, None]
    assert "name" not in to_openai([Msg(role="tool", name="Bob", content=tool_result("a", "x").content)])[0]


def test_thinking_stays_out() -> None:
    thought = ThinkingBlock(thinking="hm")
    assert to_openai([Msg(role="assistant", content=[thought, TextBlock(text="x")])]) == [
        {"role": "assistant", "content": "x"}
    ]
    assert to_openai([Msg(role="assistant", content=[thought]), Msg(role="assistant")]) == []


def test_images_of_results_follow_the_results() -> None:
    image = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": "aGk="})
    calls = Msg(role="assistant", content=[ToolUseBlock(id=k, name="f") for k in "ab"])
    shot = Msg(role="tool", content=[ToolResultBlock(id="a", output=[TextBlock(text="done"), image])])
    only_shot = Msg(role="tool", content=[ToolResultBlock(id="b", output=[image])])
    sent = to_openai([calls, shot, only_shot, user("nice")])
    assert [m["role"] for m in sent] == ["assistant", "tool", "tool", "user", "user"]
    assert [m["content"] for m in sent[1:3]] == ["done", "[image]"]
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    note = "From the result of tool call "
    assert sent[3]["content"] == [
        {"type": "text", "text": f"{note}a:"},
        part,
        {"type": "text", "text": f"{note}b:"},
        part,
    ]
    assert to_openai([calls, only_shot])[-1]["role"] == "user"
    assert_valid_chat(sent)


def test_media_where_only_text_may_stand_is_named() -> None:
    image = ImageBlock(source={"type": "url", "url": "https://e.org/a.png"})
    sound = AudioBlock(source={"type": "url", "url": "https://e.org/a.wav"})
    assert to_openai([Msg(role="assistant", content=[image])])[0]["content"] == "[image: https://e.org/a.png]"
    assert to_openai([user("x").model_copy(update={"content": (sound,)})])[0]["content"] == [
        {"type": "text", "text": "[audio: https://e.org/a.wav]"}
    ]


def test_a_tool_message_without_a_result_is_the_users() -> None:
    assert to_openai([Msg(role="tool", content="x")]) == [{"role": "user", "content": "x"}]
    assert to_openai([Msg(role="tool")]) == []


def test_a_call_and_the_text_beside_it_are_one_message() -> None:
    sent = to_openai([tool_call("f", {"a": 1}, id="x", text="let me see")])
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert sent == [{"role": "assistant", "content": "let me see", "tool_calls": [call]}]


def test_the_real_sdk_sends_it_and_its_reply_goes_on() -> None:
    """A conversation with SDK objects in it goes through the client twice, and arrives as it was written."""
    need("openai")
    from openai import OpenAI

    msgs = [*conversation(2, 2, 80), user("and now?")]
    with FakeOpenAI() as service, OpenAI(base_url=service.base_url, api_key="test-key") as client:
        sent = to_openai(msgs)
        reply = client.chat.completions.create(model="m", messages=sent)  # type: ignore[arg-type]  # dicts, as users write
        msgs += [*from_openai([reply.choices[0].message]), user("more")]
        client.chat.completions.create(model="m", messages=to_openai(msgs))  # type: ignore[arg-type]  # as above
        arrived = [r.body["messages"] for r in service.requests]
    assert arrived[0] == sent
    assert arrived[1] == [*sent, {"role": "assistant", "content": "SUMMARY"}, {"role": "user", "content": "more"}]


# -------------------------------------------------------------------------------------------------------- bad lists
GOOD = {"role": "user", "content": "x"}
FUNCTION = {"name": "f", "arguments": "{}"}


def calling(call: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def with_part(part: Any) -> dict[str, Any]:
    return {"role": "user", "content": ["skip", part][1:]}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"role": "robot", "content": "x"}, "messages[1].role: must be one of"),
        ({"role": ["user"], "content": "x"}, "messages[1].role: must be one of"),
        ({"content": "x"}, "messages[1].role: is missing"),
        ("hello", "messages[1]: must be an object, not str"),
        (user("x"), "messages[1]: is a Msg already"),
        ({"role": "user", "content": 3}, "messages[1].content: must be a string, a list of parts or null, not int"),
        ({"role": "tool", "tool_call_id": "a", "content": {"x": 1}}, "messages[1].content: must be a string"),
        ({"role": "tool", "content": "x"}, "messages[1].tool_call_id: is missing"),
        (
            {"role": "tool", "tool_call_id": None, "content": "x"},
            "messages[1].tool_call_id: must be a string, not null",
        ),
        ({"role": "function", "content": "x"}, "messages[1].name: is missing"),
        (with_part("x"), "messages[1].content[0]: must be an object, not str"),
        (with_part({"text": "x"}), "messages[1].content[0].type: is missing"),
        (with_part({"type": "text"}), "messages[1].content[0].text: is missing"),
        (with_part({"type": "image_url", "image_url": {}}), "messages[1].content[0].image_url.url: is missing"),
        (with_part({"type": "image_url"}), "messages[1].content[0].image_url: is missing"),
        (
            with_part({"type": "input_audio", "input_audio": 1}),
            "messages[1].content[0].input_audio: must be an object, not int",
        ),
        (
            with_part({"type": "input_audio", "input_audio": {"data": ""}}),
            "messages[1].content[0].input_audio.format: is missing",
        ),
        ({"role": "assistant", "tool_calls": "x"}, "messages[1].tool_calls: must be a list or null, not str"),
        (calling("x"), "messages[1].tool_calls[0]: must be an object"),
        (calling({"type": "function", "function": FUNCTION}), "messages[1].tool_calls[0].id: is missing"),
        (calling({"id": "c", "type": "magic"}), "messages[1].tool_calls[0].type: must be 'function' or 'custom'"),
        (calling({"id": "c", "type": "function"}), "messages[1].tool_calls[0].function: is missing"),
        (
            calling({"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}),
            "messages[1].tool_calls[0].function.arguments: must be a string, not dict",
        ),
        ({"role": "assistant", "function_call": "f"}, "messages[1].function_call: must be an object, not str"),
        ({**GOOD, "x": {1, 2}}, "messages[1].x: x is a set"),
        ({**GOOD, "x": {1: 2}}, "messages[1].x: key 1 in x is not a string"),
        (with_part({"type": "text", "text": "x", "y": object()}), "messages[1].content[0].y: y is a object"),
        ({**GOOD, "x": TOO_DEEP}, "messages[1].x: is nested more than 100 levels deep"),
    ],
)
def test_a_bad_message_is_named_in_one_line(bad: Any, said: str) -> None:
    with pytest.raises(InvalidMessage) as e:
        from_openai([GOOD, bad])
    assert str(e.value).startswith(said)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("bad", ["text", GOOD, None, 3, user("x")])
def test_what_is_no_list_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"^messages: must be a list"):
        from_openai(bad)


def test_writing_names_what_is_no_msg() -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a dict, not a Msg"):
        to_openai([user("x"), GOOD])  # type: ignore[list-item]  # that is the point


def test_foreign_metadata_does_no_harm() -> None:
    odd = user("x", metadata={"_openai": "mine"}), user("x", metadata={"_openai": {"extra": 3, "content": 7}})
    assert to_openai(odd) == [GOOD, GOOD]


@relaxed
@given(st.lists(st.sampled_from(["a", "b"]), max_size=6))
def test_results_get_the_name_of_the_latest_call_with_their_id(names: list[str]) -> None:
    """A reused id means the call before, not the first one."""
    msgs = [m for name in names for m in (tool_call(name, id="same"), tool_result("same", "x"))]
    back = from_openai(to_openai(msgs))
    assert [b.name for m in back for b in m.tool_results] == names
    assert [k for k, _ in groupby(m.role for m in back)] == ["assistant", "tool"] * len(names)


@pytest.mark.parametrize(
    "url",
    ["", "/srv/a.png", "C:\\a.png", "file:///srv/a.png", "data:image/png;base64,", "data:image/png;base64,<bytes>"],
)
def test_an_image_that_no_service_takes_becomes_a_text(url: str) -> None:
    memory = AutoContextMemory()
    memory.add({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    (chat,), (response,), (claude,) = memory.to_openai(), memory.to_responses(), memory.to_anthropic()
    assert [chat["content"][0]["type"], response["content"][0]["type"]] == ["text", "input_text"]
    assert claude["content"] if isinstance(claude["content"], str) else claude["content"][0]["type"] == "text"
    assert to_openai(memory.get_original_memory_msgs())[0]["content"][0]["image_url"]["url"] == url


@pytest.mark.parametrize(
    ("data", "kind"), [("iVBORw0KGgoAAAA=", "png"), ("/9j/4AAQSkZJRg==", "jpeg"), ("UklGRgAA", "webp")]
)
def test_base64_alone_is_sent_as_a_data_url(data: str, kind: str) -> None:
    memory = AutoContextMemory()
    memory.add({"role": "user", "content": [{"type": "image_url", "image_url": {"url": data}}]})
    assert memory.to_openai()[0]["content"][0]["image_url"]["url"] == f"data:image/{kind};base64,{data}"


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,iVBO\nRw0K\n", " data:image/png;base64,iVBORw0K", "data:image/png;base64,iVBO%52w0K"]
)
def test_breaks_and_escapes_in_the_data_of_an_image_are_taken_out(url: str) -> None:
    memory = AutoContextMemory()
    memory.add({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    assert memory.to_openai()[0]["content"][0]["image_url"]["url"] == "data:image/png;base64,iVBORw0K"


SPOKEN = {"audio": {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "盘 number 65."}}
DRAWN = {"images": [{"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}]}


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}])
@pytest.mark.parametrize(
    ("answer", "text"), [(SPOKEN, "盘 number 65."), ({"audio": {"id": "a"}}, "[audio]"), (DRAWN, "[image]")]
)
def test_a_spoken_or_drawn_answer_is_said_in_every_request(answer: Any, text: str, content: Any) -> None:
    chat = [{"role": "user", "content": "Which?"}, {"role": "assistant", **content, **answer}]
    chat += [{"role": "user", "content": "Sure?"}]
    assert to_openai(from_openai(chat)) == chat
    memory = AutoContextMemory()
    memory.add(chat)
    sent = memory.to_openai()
    assert_valid_chat(sent)
    [key] = answer
    assert sent[1][key] == ({"id": answer[key]["id"]} if key == "audio" else answer[key])
    assert not sent[1].get("content")
    assert memory.to_anthropic()[1]["content"].strip() == text
    assert text in str(memory.to_responses()[1])
    assert memory.messages[1].text.strip() == text


def test_the_words_of_a_sound_stay_where_a_compression_has_shortened_them() -> None:
    [msg] = from_openai([{"role": "assistant", "content": None, **SPOKEN}])
    short = msg.content[0].model_copy(update={"text": "盘 65"})
    made = msg.model_copy(update={"content": (short,), "origin": Origin(uuid="u" * 8, kind="stub")})
    assert to_openai([made]) == [{"role": "assistant", "content": "盘 65"}]
