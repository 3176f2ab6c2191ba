"""The scripted model, the message factories, the validity rules and the generator of conversations."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from autocontext.adapters.openai_chat import to_openai
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.requests import ModelReply, ModelRequest, Usage
from autocontext.testing import (
    EMPTY,
    WHITESPACE,
    Delayed,
    ScriptedModel,
    assert_valid_chat,
    assistant,
    conversation,
    longer_than_source,
    system,
    tool_call,
    tool_exchange,
    tool_result,
    user,
)
from autocontext.text.chat_rules import first_violation
from tests.conversations import Exchange, Say, histories, play, texts, valid_histories
from tests.profiles import share

relaxed = settings(deadline=None)  # several test runs share the processor


def request(prompt: str = "p", purpose: str = "tool_run") -> ModelRequest:
    return ModelRequest(system="s", prompt=prompt, purpose=purpose)


def answers(model: ScriptedModel, count: int, *, asynchronous: bool) -> list[str]:
    """What the model says, an error as the name of its class."""
    outcomes = []
    for i in range(count):
        try:
            asked = request(str(i))
            reply = asyncio.run(model.acomplete(asked)) if asynchronous else model.complete(asked)
            outcomes.append(reply.text)
        except (OSError, ValueError, TypeError, AssertionError, KeyboardInterrupt) as e:
            outcomes.append(type(e).__name__)
    return outcomes


# ------------------------------------------------------------------------------------------------------------- model
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("replies", "outcomes"),
    [
        ("SUMMARY", ["SUMMARY"] * 3),
        (["a", "b"], ["a", "b", "b"]),
        ([TimeoutError("x"), EMPTY, WHITESPACE], ["TimeoutError", "", " \n\t"]),
        ([ValueError, KeyboardInterrupt()], ["ValueError", "KeyboardInterrupt", "KeyboardInterrupt"]),
        (lambda r: r.prompt * 2, ["00", "11", "22"]),
        (lambda r: OSError() if r.prompt == "1" else ModelReply(text=r.purpose), ["tool_run", "OSError", "tool_run"]),
        ([lambda r: "first", Delayed(0.0, "second"), Delayed(0.0, OSError)], ["first", "second", "OSError"]),
        (3, ["TypeError"] * 3),
    ],
)
def test_it_says_what_the_script_says(replies: Any, outcomes: list[str], asynchronous: bool) -> None:
    model = ScriptedModel(replies)
    assert answers(model, 3, asynchronous=asynchronous) == outcomes
    assert [r.prompt for r in model.requests] == ["0", "1", "2"]


def test_the_default_is_one_summary() -> None:
    assert answers(ScriptedModel(), 2, asynchronous=False) == ["SUMMARY"] * 2


@given(texts(max_chars=300))
def test_the_rambling_reply_is_longer_than_its_source(prompt: str) -> None:
    assert len(ScriptedModel(longer_than_source).complete(request(prompt)).text) > len(prompt)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_strict_script_ends(asynchronous: bool) -> None:
    model = ScriptedModel(["a", "b"], strict_script=True)
    assert answers(model, 3, asynchronous=asynchronous) == ["a", "b", "AssertionError"]
    assert answers(ScriptedModel([], strict_script=True), 1, asynchronous=asynchronous) == ["AssertionError"]
    assert answers(ScriptedModel("x", strict_script=True), 3, asynchronous=asynchronous) == ["x"] * 3
    with pytest.raises(ValueError, match="replies is empty"):
        ScriptedModel([])


def test_usage_is_made_up_for_texts_only() -> None:
    usage = ScriptedModel("eight ch").complete(request("x" * 10)).usage
    assert usage == Usage(input_tokens=3, output_tokens=2)
    given_reply = ModelReply(text="x", usage=Usage(input_tokens=7))
    assert ScriptedModel(given_reply).complete(request()) is given_reply


def test_latency_and_delay_add_up() -> None:
    model = ScriptedModel([Delayed(0.04, "x")], latency=0.03)
    begun = time.perf_counter()
    reply = model.complete(request())
    asyncio.run(model.acomplete(request()))
    assert time.perf_counter() - begun >= 0.13
    assert reply.usage is not None
    assert reply.usage.seconds == pytest.approx(0.07)


def test_tasks_wait_together_and_are_counted() -> None:
    model = ScriptedModel("x", latency=0.2)

    async def ask() -> None:
        await asyncio.gather(*(model.acomplete(request()) for _ in range(16)))

    asyncio.run(ask())
    assert model.max_concurrent == 16
    assert len(model.requests) == 16


def test_threads_share_one_script() -> None:
    both = threading.Barrier(2, timeout=60)

    def met(_: ModelRequest) -> str:
        return str(both.wait())

    model = ScriptedModel([met, met, *(str(i) for i in range(2, 200))], strict_script=True)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda i: model.complete(request(str(i))).text, range(200)))
    assert sorted(texts, key=int) == [str(i) for i in range(200)]
    assert 1 < model.max_concurrent <= 8


def test_a_cancelled_request_is_no_longer_counted() -> None:
    model = ScriptedModel(Delayed(30.0, "late"))

    async def give_up() -> None:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(model.acomplete(request()), 0.01)

    asyncio.run(give_up())
    assert model.max_concurrent == 1


# --------------------------------------------------------------------------------------------------------- factories
def test_factories() -> None:
    assert [(m.role, m.text, m.name) for m in (user("a"), assistant("b"), system("c", name="n"))] == [
        ("user", "a", "user"),
        ("assistant", "b", "assistant"),
        ("system", "c", "n"),
    ]
    assert user("a", id="x", metadata={"pinned": True}).metadata == {"pinned": True}
    call = tool_call("f", {"a": 1}, id="c", text="hm")
    assert call.content == (TextBlock(text="hm"), ToolUseBlock(id="c", name="f", input={"a": 1}))
    assert tool_result("c", "4", name="f", is_error=True).content == (
        ToolResultBlock(id="c", name="f", output="4", is_error=True),
    )
    first, second = tool_exchange("f", {}, "out"), tool_exchange("f", {}, "out")
    assert first[0].tool_uses[0].id == first[1].tool_results[0].id != second[0].tool_uses[0].id
    assert_valid_chat([*first, *second])


@given(st.integers(0, 4), st.integers(0, 3), st.integers(1, 400))
def test_conversations_are_deterministic_and_valid(rounds: int, tools: int, chars: int) -> None:
    messages = conversation(rounds, tools, chars)
    assert [m.to_dict() for m in messages] == [m.to_dict() for m in conversation(rounds, tools, chars)]
    assert len(messages) == 1 + rounds * (2 + 2 * tools)
    assert {len(b.text) for m in messages for b in m.tool_results} == ({chars} if rounds and tools else set())
    assert {len(m.text) for m in messages if m.role == "user"} == ({chars} if rounds else set())
    assert_valid_chat(messages)
    assert_valid_chat(to_openai(messages))


# ------------------------------------------------------------------------------------------------------------- rules
def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(key: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": ""}


SAID = {"role": "user", "content": "x"}
PARALLEL = Msg(role="assistant", content=[ToolUseBlock(id=k, name="f") for k in "ab"])
IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SAID, {"role": "assistant", "content": "y"}],
        [{"role": "developer", "content": ""}, {"role": "user", "content": "", "name": "Bob_1"}],
        [call("a", "b"), result("b"), result("a"), call("a"), result("a"), SAID],
        [{"role": "assistant", "content": None, "tool_calls": [CUSTOM]}, result("c")],
        [
            {"role": "assistant", "refusal": "no"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        ],
        [
            {"role": "assistant", "function_call": {"name": "f", "arguments": ""}},
            {"role": "function", "name": "f", "content": None},
        ],
        [{"role": "user", "content": [IMAGE]}],
        [PARALLEL, tool_result("b", ""), tool_result("a", "")],
        [PARALLEL, Msg(role="user", content=[ToolResultBlock(id=k, output="") for k in "ab"]), user("x")],
        [PARALLEL, Msg(role="user", content=[*(ToolResultBlock(id=k, output="") for k in "ab"), TextBlock(text="x")])],
    ],
)
def test_what_services_take_passes(messages: list[Any]) -> None:
    assert_valid_chat(messages)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([SAID, call("a")], r"messages\[1\]: calls \['a'\] are unanswered at the end"),
        ([call("a", "b"), result("a"), SAID], r"messages\[0\]: calls \['b'\] are unanswered before messages\[2\]"),
        ([call("a"), SAID, result("a")], r"messages\[0\]: .*unanswered call"),
        ([SAID, result("a")], r"messages\[1\]: the result 'a' .*orphan"),
        ([call("a"), result("b")], r"messages\[1\]: the result 'b' .*orphan"),
        ([call("a"), result("a"), result("a")], r"messages\[2\]: the call 'a' is answered twice"),
        ([call("a"), result("a"), SAID, result("a")], r"messages\[3\]: .*orphan"),
        ([call("a", "a"), result("a"), result("a")], r"messages\[0\]: tool ids \['a'\] are used twice"),
        ([{"role": "robot", "content": "x"}], r"messages\[0\]: the role 'robot' is unknown"),
        (["x"], r"messages\[0\]: is a str, not a message"),
        ([{"role": "assistant", "content": " "}], r"messages\[0\]: an assistant message without calls is empty"),
        ([{"role": "assistant", "content": None}], "is empty"),
        ([Msg(role="assistant", content=[ThinkingBlock(thinking="x")])], "is empty"),
        ([{**SAID, "tool_calls": call("a")["tool_calls"]}], "only the assistant may"),
        ([{**call("a"), "tool_calls": []}], "tool_calls must be a list that is not empty"),
        ([{**call("a"), "tool_calls": [{}]}], r"tool_calls\[0\].id must be a string"),
        ([{**call("a"), "tool_calls": [{"id": "a"}]}], r"tool_calls\[0\].type must be"),
        ([{**call("a"), "tool_calls": [{**CUSTOM, "custom": None}]}], "custom must be an object"),
        ([{**call("a"), "tool_calls": [{**CUSTOM, "custom": {"name": "f g", "input": ""}}]}], "name must match"),
        ([{**call("a"), "tool_calls": [{**CUSTOM, "custom": {"name": "f"}}]}], "input must be a string"),
        ([{"role": "tool", "content": ""}], "tool_call_id must be a string"),
        ([{"role": "function", "content": ""}], "name must be a string"),
        ([{**SAID, "name": "a b"}], "name must match"),
        ([{"role": "user"}], "must not be null or missing"),
        ([{"role": "user", "content": []}], "not empty"),
        ([{"role": "user", "content": 3}], "content must be"),
        ([{"role": "system", "content": [IMAGE]}], "a system message may hold text"),
        ([{"role": "user", "content": ["x"]}], r"content\[0\] is of type None"),
        ([{"role": "user", "content": [{"type": "text"}]}], r"content\[0\].text is missing"),
        ([Msg(role="tool", content="x")], "holds more than results"),
        ([Msg(role="tool")], "holds no tool result"),
        ([Msg(role="user", content=[ToolUseBlock(id="a", name="f")])], "only the assistant may"),
        ([Msg(role="system", content=[ToolResultBlock(id="a", output="")])], "a system message holds tool results"),
        (
            [Msg(role="assistant", content=[ToolResultBlock(id="a", output="")])],
            "an assistant message holds tool results",
        ),
        ([PARALLEL, user("x", name="u"), tool_result("a", "")], r"messages\[0\]: .*unanswered before messages\[1\]"),
    ],
)
def test_what_services_refuse_is_named(messages: list[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message) as e:
        assert_valid_chat(messages)
    assert "\n" not in str(e.value)


@relaxed
@given(histories())
def test_msgs_and_their_openai_form_agree(msgs: list[Msg]) -> None:
    """A valid history stays valid when written; a broken pairing cannot be written away."""
    as_msgs, as_dicts = first_violation(msgs), first_violation(to_openai(msgs))
    if as_msgs is None:
        assert as_dicts is None
    for word in ("unanswered", "orphan", "twice"):
        if as_msgs is not None and word in as_msgs:
            assert as_dicts is not None


# --------------------------------------------------------------------------------------------------------- generator
@relaxed
@given(valid_histories())
def test_valid_histories_are_valid(msgs: list[Msg]) -> None:
    assert_valid_chat(msgs)
    assert len({m.id for m in msgs}) == len(msgs)


@relaxed
@given(histories(surrogates=False), st.data())
def test_histories_can_do_without_surrogates(msgs: list[Msg], data: st.DataObject) -> None:
    json.dumps([m.to_dict() for m in msgs], ensure_ascii=False).encode()


SHAPES = {
    "unanswered": lambda ms: "unanswered" in (first_violation(ms) or ""),
    "orphan": lambda ms: "orphan" in (first_violation(ms) or ""),
    "answered twice": lambda ms: "twice" in (first_violation(ms) or ""),
    "parallel calls": lambda ms: any(len(m.tool_uses) > 1 for m in ms),
    "results in one message": lambda ms: any(len(m.tool_results) > 1 for m in ms),
    "results in the user's role": lambda ms: any(m.role == "user" and m.tool_results for m in ms),
    "error results": lambda ms: any(b.is_error for m in ms for b in m.tool_results),
    "result with an image": lambda ms: any(not isinstance(b.output, str) for m in ms for b in m.tool_results),
    "reused id": lambda ms: len(c := [b.id for m in ms for b in m.tool_uses]) > len(set(c)),
    "plan tool": lambda ms: any(b.name == "finish_plan" for m in ms for b in m.tool_uses),
    "pinned": lambda ms: any(m.metadata.get("pinned") for m in ms),
    "thinking": lambda ms: any(isinstance(b, ThinkingBlock) for m in ms for b in m.content),
    "image": lambda ms: any(b.type == "image" for m in ms for b in m.content),
    "late system message": lambda ms: any(m.role == "system" for m in ms[2:]),
    "greeting first": lambda ms: bool(ms) and ms[0].role == "assistant" and not ms[0].tool_uses,
    "user messages in a row": lambda ms: [m.role for m in ms[:3]] == ["user"] * 3,
    "surrogate": lambda ms: any("\ud800" in m.text for m in ms),
    "chinese": lambda ms: any("请" in m.text for m in ms),
    "huge": lambda ms: any(len(m.text) == 20_000 for m in ms),
    "empty": lambda ms: any(m.content and m.text == "" and not m.tool_uses for m in ms),
    "many tool messages": lambda ms: sum(bool(m.tool_uses or m.tool_results) for m in ms) >= 12,
}


@pytest.mark.slow
def test_histories_reach_every_shape() -> None:
    assert reached(histories(), SHAPES) == SHAPES.keys()


@pytest.mark.slow
def test_duplicates_are_on_demand() -> None:
    twins = {
        "same object": lambda ms: len({id(m) for m in ms}) < len(ms),
        "same id": lambda ms: len({m.id for m in ms}) < len({id(m) for m in ms}),
    }
    assert reached(histories(duplicates=True), twins, share(400)) == twins.keys()
    assert reached(histories(), twins, share(400)) == set()


def reached(strategy: st.SearchStrategy[list[Msg]], shapes: Any, examples: int = 400) -> set[str]:
    """Which shapes occur among some examples, always the same ones."""
    found_shapes: set[str] = set()

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(strategy)
    def look(msgs: list[Msg]) -> None:
        found_shapes.update(shape for shape, holds in shapes.items() if shape not in found_shapes and holds(msgs))

    look()
    return found_shapes


@relaxed
@given(histories(duplicates=True, max_moves=4))
def test_an_example_prints_as_what_it_was_played_from(msgs: list[Msg]) -> None:
    assert len(repr(msgs)) < 8_000
    names: dict[str, Any] = {}
    exec("from tests.conversations import *; from tests.conversations import _duplicate", names)  # noqa: S102 (our own repr)
    again = eval(repr(msgs), names)  # noqa: S307 (as above)
    assert [m.to_dict() for m in again] == [m.to_dict() for m in msgs]


def test_moves_repeat() -> None:
    from tests.conversations import Call, Repeated

    twice = Exchange((Call("f", {}, Repeated("x", 3)),), times=2)
    messages = play([Say("user", Repeated("hi"), times=2), twice])
    assert [m.id for m in messages] == [f"m{i}" for i in range(6)]
    assert [m.role for m in messages] == ["user", "user", "assistant", "tool", "assistant", "tool"]
    assert messages[3].tool_results[0].output == "xxx"
