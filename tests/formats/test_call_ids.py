"""In a request each call has an id that the service takes, and its results go with it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocontext import AutoContextMemory
from autocontext.formats.call_ids import with_own_ids
from autocontext.messages import Msg, ToolUseBlock
from autocontext.testing import assert_valid_chat, tool_result, user
from tests.fakes.anthropic_server import _check_pairs, check_messages

LITELLM = "call_ab12__thought__" + "Q+/=" * 230
"""What Gemini has to be sent again, in the id, as LiteLLM gives it."""


def call(call_id: str, name: str = "f") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def answer(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def asked(calls: list[dict[str, Any]], *results: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


@pytest.mark.parametrize("call_id", ["", "call_0", "functions.f:0"])
@pytest.mark.parametrize("late", [False, True])
def test_calls_of_one_message_with_one_id_are_told_apart_and_answered_in_order(call_id: str, late: bool) -> None:
    memory = AutoContextMemory()
    calls = asked([call(call_id, "weather"), call(call_id, "time")])
    memory.add([{"role": "user", "content": "go"}, *calls, answer(call_id, "sunny")])
    if late:
        memory.add({"role": "user", "content": "hurry"})
    memory.add(answer(call_id, "12:00"))
    chat = memory.to_openai()
    assert_valid_chat(chat)
    ids = [c["id"] for c in chat[1]["tool_calls"]]
    assert len({*ids}) == 2
    assert "" not in ids
    assert [(m["tool_call_id"], m["content"]) for m in chat if m["role"] == "tool"] == [
        (ids[0], "sunny"),
        (ids[1], "12:00"),
    ]
    items = memory.to_responses()
    outputs = [(i["call_id"], i["output"]) for i in items if i.get("type") == "function_call_output"]
    assert outputs == [
        (i["call_id"], text)
        for i, text in zip((i for i in items if i.get("type") == "function_call"), ("sunny", "12:00"), strict=True)
    ]
    check_messages(memory.to_anthropic())
    _check_pairs(memory.to_anthropic())
    names = [result.name for m in memory.as_sent(memory.messages) for result in m.tool_results]
    assert names == ["weather", "time"]
    assert [use.id for m in memory.messages for use in m.tool_uses] == [call_id] * 2  # the memory's own stay


@pytest.mark.parametrize("call_id", ["functions.get_weather:0", LITELLM, "看", "call_1", "a b", ""])
def test_an_id_of_another_provider_is_fitted_the_same_each_time(call_id: str) -> None:
    memory = AutoContextMemory()
    memory.add([{"role": "user", "content": "go"}, *asked([call(call_id)], answer(call_id, "sunny"))])
    sent = memory.to_anthropic()
    check_messages(sent)
    _check_pairs(sent)
    items = memory.to_responses()
    assert items[1]["call_id"] == items[2]["call_id"]
    assert 1 <= len(items[1]["call_id"]) <= 64
    memory.add([{"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And now?"}])
    assert memory.to_anthropic()[: len(sent)] == sent
    assert memory.to_responses()[: len(items)] == items


def test_an_id_that_fits_stays_as_it_is_and_so_do_those_of_the_same_format() -> None:
    memory = AutoContextMemory()
    memory.add([{"role": "user", "content": "go"}, *asked([call(LITELLM)], answer(LITELLM, "sunny"))])
    assert memory.to_openai()[1]["tool_calls"][0]["id"] == LITELLM
    memory = AutoContextMemory()
    memory.add([{"role": "user", "content": "go"}, *asked([call("toolu_1")], answer("toolu_1", "sunny"))])
    assert memory.to_anthropic()[1]["content"][0]["id"] == memory.to_responses()[1]["call_id"] == "toolu_1"
    memory = AutoContextMemory()
    output = {"type": "function_call_output", "call_id": LITELLM, "output": "sunny"}
    memory.add([{"type": "function_call", "call_id": LITELLM, "name": "f", "arguments": "{}"}, output])
    assert [item["call_id"] for item in memory.to_responses()] == [LITELLM] * 2


def test_an_id_that_a_later_message_uses_again_is_another_one_for_claude() -> None:
    memory = AutoContextMemory()
    memory.add({"role": "user", "content": "go"})
    for n in range(3):
        memory.add(asked([call("call_0")], answer("call_0", f"page {n}")))
    check_messages(memory.to_anthropic())
    _check_pairs(memory.to_anthropic())
    results = [m["content"][0]["content"] for m in memory.to_anthropic()[2::2]]
    assert results == ["page 0", "page 1", "page 2"]


IDS = st.sampled_from(["a", "b", "f:0", ""])


@given(st.lists(st.lists(IDS, max_size=3), max_size=4))
def test_every_result_stays_with_its_call(turns: list[list[str]]) -> None:
    """Where each call is answered in order."""
    history, said = [user("go")], []
    for n, ids in enumerate(turns):
        history.append(Msg(role="assistant", content=[ToolUseBlock(id=i, name=f"f{n}{k}") for k, i in enumerate(ids)]))
        history += [tool_result(i, f"{n}{k}") for k, i in enumerate(ids)]
        said += [f"{n}{k}" for k in range(len(ids))]
    made = with_own_ids(history, lambda use: use.id.isalnum() or use.id.startswith("call_"), in_all=True)
    calls = [use for m in made for use in m.tool_uses]
    assert len({use.id for use in calls}) == len(calls)
    answers = {result.id: result.text for m in made for result in m.tool_results}
    assert [(f"f{answers[use.id]}") for use in calls] == [use.name for use in calls]
    assert [result.text for m in made for result in m.tool_results] == said
    assert with_own_ids(made, in_all=True) == made
