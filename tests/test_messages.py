"""Messages: a JSON round trip, values nobody can change, errors in one line."""

import copy
import json
import pickle
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings

from autocontext.errors import AutoContextError, InvalidMessage
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
    as_messages,
    freeze,
    is_compressed,
    is_final_reply,
    is_fold,
    is_ledger,
    is_note,
    is_pinned,
    is_reasoning,
    is_tool_message,
    is_user_turn,
    thaw,
)
from autocontext.testing import assistant, tool_call, tool_result, user
from tests.conversations import histories, json_objects

relaxed = settings(deadline=None)  # several test runs share the processor


# -------------------------------------------------------------------------------------------------------- round trip
@relaxed
@given(histories(duplicates=True))
def test_messages_come_back_from_json(msgs: list[Msg]) -> None:
    text = json.dumps([m.to_dict() for m in msgs])
    back = [Msg.model_validate(value) for value in json.loads(text)]
    assert back == msgs
    assert json.dumps([m.to_dict() for m in back]) == text


@relaxed
@given(histories(max_moves=3))
def test_messages_come_back_from_pickle_and_copy(msgs: list[Msg]) -> None:
    for back in (pickle.loads(pickle.dumps(list(msgs))), copy.deepcopy(list(msgs))):  # noqa: S301 (our own bytes)
        assert back == msgs
        assert [m.to_dict() for m in back] == [m.to_dict() for m in msgs]


@given(json_objects())
def test_json_values_thaw_as_they_were_frozen(value: dict[str, Any]) -> None:
    frozen = freeze(value)
    assert json.dumps(frozen) == json.dumps(value)
    thawed = thaw(frozen)
    assert json.dumps(thawed) == json.dumps(value)
    thawed["new"] = 1
    assert "new" not in frozen


def test_every_block_comes_back() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    result = ToolResultBlock(id="c", name="f", output=[TextBlock(text="a"), ImageBlock(source=source)], is_error=True)
    blocks = [
        TextBlock(text="a", metadata={"x": [1]}),
        ThinkingBlock(thinking="b"),
        ToolUseBlock(id="c", name="f", input={"a": {"b": [None]}}),
        result,
        ImageBlock(source={"type": "url", "url": "u"}),
        AudioBlock(source=source),
        VideoBlock(source=source),
    ]
    msg = Msg(role="assistant", content=blocks, origin=Origin(uuid="u", kind="stub", fallback=True))
    assert Msg.model_validate(json.loads(json.dumps(msg.to_dict()))) == msg
    assert [b["type"] for b in msg.to_dict()["content"]] == [b.type for b in blocks]
    assert Msg(role="assistant", content=[b.model_dump() for b in blocks]).content == msg.content
    assert result.text == "a"


def test_what_is_left_out_is_filled_in() -> None:
    msg = Msg(role="user", content="hi")
    assert (msg.name, msg.text, msg.metadata, msg.origin) == ("user", "hi", {}, None)
    assert datetime.fromisoformat(msg.timestamp).tzinfo is not None
    assert msg.id != Msg(role="user", content="hi").id
    assert Msg(role="user").content == Msg(role="user", content=None).content == ()
    assert set(msg.to_dict()) == {"id", "role", "name", "content", "timestamp"}


# --------------------------------------------------------------------------------------------------------- frozenness
def changes(value: Any) -> list[Any]:
    """Every way to change a frozen dict or list in place."""
    if isinstance(value, dict):
        return [
            lambda: value.update(a=2),
            lambda: value.__setitem__("a", 2),
            lambda: value.__delitem__("a"),
            lambda: value.__ior__({"a": 2}),
            lambda: value.setdefault("z", 1),
            lambda: value.pop("a"),
            value.popitem,
            value.clear,
        ]
    return [
        lambda: value.append(1),
        lambda: value.extend([1]),
        lambda: value.insert(0, 1),
        lambda: value.remove(1),
        lambda: value.__setitem__(0, 2),
        lambda: value.__delitem__(0),
        lambda: value.__iadd__([1]),
        lambda: value.__imul__(2),
        value.pop,
        value.clear,
        value.sort,
        value.reverse,
    ]


def test_nothing_in_a_message_can_be_changed() -> None:
    use = ToolUseBlock(id="c", name="f", input={"a": [1, {"b": 2}]})
    image = ImageBlock(source={"type": "url", "url": "u", "a": 1})
    msg = Msg(role="assistant", content=[use, image], metadata={"a": {"a": [1]}})
    before = json.dumps(msg.to_dict())
    inside = [
        use.input,
        use.input["a"],
        use.input["a"][1],
        image.source,
        msg.metadata,
        msg.metadata["a"],
        msg.metadata["a"]["a"],
    ]
    for value in inside:
        for change in changes(value):
            with pytest.raises(TypeError, match="frozen"):
                change()
    for name, value in (("role", "user"), ("content", ()), ("id", "x")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(msg, name, value)
    with pytest.raises(ValueError, match="frozen"):
        msg.content[0].name = "g"  # type: ignore[union-attr,misc]  # that is the point
    assert json.dumps(msg.to_dict()) == before


def test_the_callers_values_stay_the_callers() -> None:
    given_input: dict[str, Any] = {"a": [1]}
    use = ToolUseBlock(id="c", name="f", input=given_input)
    given_input["a"].append(2)
    assert use.input == {"a": [1]}
    exported = Msg(role="assistant", content=[use]).to_dict()
    exported["content"][0]["input"]["a"].append(2)
    assert use.input == {"a": [1]}


def test_a_copy_of_a_frozen_value_may_be_changed() -> None:
    msg = user("x", metadata={"a": {"b": [1]}})
    copied = thaw(msg.metadata)
    copied["a"]["b"].append(2)
    assert (copied, msg.metadata) == ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}})


# ------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Msg(role="robot", content="x"), "Msg.role: "),
        (lambda: Msg(content="x"), "Msg.role: Field required"),
        (lambda: Msg(role="user", content=3), "Msg.content: "),
        (lambda: Msg(role="user", content=[{"type": "poem", "text": "x"}]), "Msg.content.0: "),
        (lambda: Msg(role="user", content=[{"type": "text"}]), "Msg.content.0.TextBlock.text: Field required"),
        (
            lambda: Msg(role="tool", content=[{"type": "tool_result", "id": "c", "output": [{"type": "text"}]}]),
            ".0.TextBlock.text: Field required",
        ),
        (lambda: Msg(role="user", content="x", id=""), "Msg.id: "),
        (lambda: Msg(role="user", content="x", colour="red"), "Msg.colour: "),
        (lambda: Msg(role="user", content="x", metadata={"a": {1, 2}}), "Msg.metadata: a is a set"),
        (lambda: Msg(role="user", content="x", metadata={1: 2}), "Msg.metadata: key 1 is not a string"),
        (lambda: Msg(role="user", content="x", metadata=[]), "Msg.metadata: must be an object"),
        (lambda: ToolUseBlock(id="c", name="f", input={"a": [object()]}), "ToolUseBlock.input: a[0] is a object"),
        (lambda: ToolResultBlock(id="c", output=7), "ToolResultBlock.output"),
        (lambda: ImageBlock(source={"type": "ftp"}), "ImageBlock.source: `type` must be 'url' or 'base64'"),
        (lambda: ImageBlock(source={"type": "base64", "data": "x"}), "ImageBlock.source: a base64 source needs"),
        (lambda: Msg.model_validate({"role": "user", "content": 3}), "Msg.content: "),
        (lambda: as_messages([user("x"), "y"]), "messages[1] is a str, not a Msg"),  # type: ignore[list-item]  # the point
    ],
)
def test_errors_name_the_field_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(InvalidMessage) as e:
        make()
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert isinstance(e.value, AutoContextError)
    assert isinstance(e.value, ValueError)


def test_an_error_shows_little_of_a_huge_value() -> None:
    with pytest.raises(InvalidMessage) as e:
        Msg(role="user", content=["x" * 100_000])
    assert len(str(e.value)) < 1_000


# --------------------------------------------------------------------------------------------------------- predicates
def by(kind: Any, role: Any = "user") -> Msg:
    return Msg(role=role, content="x", origin=Origin(uuid="u", kind=kind))


@pytest.mark.parametrize(
    ("msg", "true"),
    [
        (user("x"), {is_user_turn}),
        (assistant("x"), {is_final_reply}),
        (Msg(role="assistant", content=[ThinkingBlock(thinking="x")]), {is_reasoning}),
        (Msg(role="assistant", content=[ThinkingBlock(thinking="x"), TextBlock(text="y")]), {is_final_reply}),
        (tool_call("f"), {is_tool_message}),
        (tool_result("c", "x"), {is_tool_message}),
        (Msg(role="user", content=[ToolResultBlock(id="c", output="x")]), {is_tool_message}),
        (by("stub"), {is_user_turn, is_compressed}),
        (by("tool_run"), {is_note, is_compressed}),
        (by("fold"), {is_note, is_fold, is_compressed}),
        (by("ledger"), {is_note, is_ledger, is_compressed}),
        (by("round_summary", "assistant"), {is_final_reply, is_compressed}),
        (by("current_round", "assistant"), {is_note, is_compressed}),
        (assistant("x", metadata={"_compress_meta": {"compressed_current_round": True}}), {is_note, is_compressed}),
        (assistant("x", metadata={"_compress_meta": {"offloaduuid": "u"}}), {is_final_reply, is_compressed}),
        (user("x", metadata={"pinned": True}), {is_user_turn, is_pinned}),
        (user("x", metadata={"pinned": 1}), {is_user_turn}),
        (Msg(role="system", content="x"), set()),
    ],
)
def test_predicates(msg: Msg, true: set[Any]) -> None:
    every = {
        is_reasoning,
        is_user_turn,
        is_final_reply,
        is_tool_message,
        is_note,
        is_fold,
        is_ledger,
        is_compressed,
        is_pinned,
    }
    assert {p.__name__ for p in every if p(msg)} == {p.__name__ for p in true}


def test_one_message_is_a_list_of_one() -> None:
    one = user("x")
    assert list(as_messages(one)) == list(as_messages(iter([one]))) == [one]


@relaxed
@given(histories(max_moves=4))
def test_text_and_blocks_tell_the_same(msgs: list[Msg]) -> None:
    for m in msgs:
        assert m.text == "\n".join(b.text for b in m.content if isinstance(b, TextBlock))
        assert len(m.tool_uses) + len(m.tool_results) == sum(
            isinstance(b, ToolUseBlock | ToolResultBlock) for b in m.content
        )


def test_half_a_surrogate_pair_is_kept_as_a_key_too():
    odd = {"\ud800": 1, "a": [{"\udc00": "\ud83d"}]}
    msg = Msg(role="assistant", content=[ToolUseBlock(id="c", name="t", input=odd)], metadata=odd)
    assert msg.to_dict()["metadata"] == msg.to_dict()["content"][0]["input"] == odd
    assert Msg.model_validate(json.loads(json.dumps(msg.to_dict()))) == msg
