"""AutoContextSession as a Session of the SDK: what the SDK's own sessions promise, and what the filter does."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp.types
import pytest
from agents import (
    Agent,
    AgentHooks,
    AgentOutputSchema,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrail,
    Model,
    ModelResponse,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    SQLiteSession,
    ToolCallOutputItem,
    Usage,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.exceptions import UserError
from agents.extensions.handoff_filters import remove_all_tools
from agents.mcp import MCPServer
from agents.memory import Session
from agents.run import CallModelData, ModelInputData
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI, BadRequestError
from openai.types.responses import ResponseOutputItem
from pydantic import BaseModel, Field, TypeAdapter

from autocontext import AutoContextConfig
from autocontext.adapters.openai_agents import AutoContextSession, _led_on
from autocontext.errors import ConfigError
from autocontext.formats.call_ids import with_own_ids
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.stores import SqliteSessionStore
from autocontext.tokens import get_counter
from tests.fakes import FakeOpenAI, Raw, Reply
from tests.fakes.openai_responses import as_chat
from tests.formats.test_openai_responses import ITEMS

set_tracing_disabled(disabled=True)
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default="Very well.") as service:
        yield service


def said(*texts: str) -> list[Any]:
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(texts)]


def calling(name: str, call_id: str = "c1") -> Reply:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return Reply(text=None, finish="tool_calls", tool_calls=[call])


# ------------------------------------------------------------------------------------------------ as any session
async def test_it_is_a_session() -> None:
    session = AutoContextSession(session_id="s1")
    assert isinstance(session, Session)
    assert (session.session_id, session.session_settings) == ("s1", None)
    assert await session.get_items() == []
    assert await session.pop_item() is None


UNCOMPACTED = ITEMS.map(lambda items: [item for item in items if item.get("type") != "compaction"])


@given(items=UNCOMPACTED, more=UNCOMPACTED, limit=st.integers(0, 9))
async def test_items_are_kept_in_order(items: list[Any], more: list[Any], limit: int) -> None:
    session = AutoContextSession()
    await session.add_items(items)
    await session.add_items(more)
    held = await session.get_items()
    assert held == [*items, *more]
    assert await session.get_items(limit) == held[len(held) - min(limit, len(held)) :]


async def test_what_the_service_compacts_takes_the_place_of_what_was_before(server: FakeOpenAI) -> None:
    session = AutoContextSession(config=AutoContextConfig.for_window(100_000))
    limits: Any = [{"type": "compaction", "compact_threshold": 900}]
    async with AsyncOpenAI(base_url=server.base_url, api_key="test-key", max_retries=0) as client:
        settings = ModelSettings(context_management=limits, store=False)
        agent = Agent("a", model=OpenAIResponsesModel("m", client), model_settings=settings)
        for n in range(6):
            await session.run(agent, f"{n}: " + "the lock waits; " * 100)
    assert not server.refused
    kinds = [item.get("type", "message") for item in server.requests[-1].body["input"]]
    assert kinds.count("compaction") == 1
    assert len(kinds) < 6
    assert len([m for m in session.memory.get_original_memory_msgs() if m.role == "user"]) == 6


async def test_items_are_popped_one_by_one() -> None:
    session = AutoContextSession()
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    items = [*said("hi"), call, result, {"role": "assistant", "content": "It is 42."}]
    await session.add_items(items)
    for left in range(len(items) - 1, -1, -1):
        assert await session.pop_item() == items[left]
        assert await session.get_items() == items[:left]


async def test_clearing_leaves_nothing() -> None:
    session = AutoContextSession()
    await session.add_items(said("hi", "hello"))
    await session.clear_session()
    assert await session.get_items() == []
    assert session.memory.get_original_memory_msgs() == []


async def test_sessions_in_one_file_do_not_meet(tmp_path: Path) -> None:
    def opened(session_id: str, user_id: str) -> AutoContextSession:
        store = SqliteSessionStore(tmp_path / "agent.db")
        return AutoContextSession(store=store, session_id=session_id, user_id=user_id)

    for key in (("s1", "u1"), ("s1", "u2"), ("s2", "u1")):
        await opened(*key).add_items(said(f"I am {key}"))
    assert await opened("s1", "u2").get_items() == said("I am ('s1', 'u2')")


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("in_turn", [False, True])
async def test_shortened_items_are_popped_as_they_were(calls: int, in_turn: bool) -> None:
    """Also those that go with another one, as the results of one answer's calls do."""
    session = AutoContextSession(config=AutoContextConfig.for_window(1_000))
    called = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(calls)]
    results = [
        {"type": "function_call_output", "call_id": f"c{n}", "output": f"{n} Zeile\n" * 900} for n in range(calls)
    ]
    pairs = [item for pair in zip(called, results, strict=True) for item in pair]
    items = [*said("hi"), *(pairs if in_turn else [*called, *results])]
    await session.add_items(items)
    assert str(await session.get_items()) != str(items)
    for left in range(len(items) - 1, 0, -1):
        assert await session.pop_item() == items[left]
        assert len(await session.get_items()) == left


# ----------------------------------------------------------------------------------------------------- in a run
async def run(server: FakeOpenAI, session: AutoContextSession, text: Any, **options: Any) -> Any:
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        given = {"name": "a", "instructions": "Be brief.", "tools": session.tools, **options.pop("agent", {})}
        agent: Agent[Any] = Agent(model=model, **{k: v(model) if k == "handoffs" else v for k, v in given.items()})
        config = options.pop("run_config", None) or session.run_config()
        return await Runner.run(agent, text, session=session, run_config=config, **options)


def sent(server: FakeOpenAI, number: int = -1) -> list[str]:
    messages = server.requests[number].body["messages"]
    return [m["content"] for m in messages if m["role"] in ("user", "assistant") and m["content"]]


async def test_the_same_words_again_are_a_new_turn(server: FakeOpenAI) -> None:
    session = AutoContextSession()
    for _ in range(3):
        await run(server, session, "yes")
    assert sent(server) == ["yes", "Very well.", "yes", "Very well.", "yes"]
    assert len(await session.get_items()) == 6


async def test_a_limit_of_the_run_holds_for_what_is_read(server: FakeOpenAI) -> None:
    from agents import SessionSettings

    session = AutoContextSession()
    await session.add_items(said("one", "two", "three", "four"))
    config = session.run_config(session_settings=SessionSettings(limit=2))
    await run(server, session, "five", run_config=config)
    # The filter sends the view: it is small already, and says more than the newest two items.
    assert sent(server) == ["one", "two", "three", "four", "five"]


async def test_input_of_a_callback_s_own_is_sent_and_not_kept(server: FakeOpenAI) -> None:
    def remind(history: list[Any], new: list[Any]) -> list[Any]:
        return [*history, *new]

    async def with_note(data: CallModelData[Any]) -> ModelInputData:
        data.model_data.input = [*data.model_data.input, {"role": "user", "content": "It is noon."}]
        return await session.model_input_filter(data)

    session = AutoContextSession()
    config = RunConfig(call_model_input_filter=with_note, session_input_callback=remind)
    await run(server, session, "hi", run_config=config)
    assert sent(server) == ["hi", "It is noon."]
    assert [m.text for m in session.memory.messages] == ["hi", "Very well."]


async def test_a_handoff_keeps_one_conversation(server: FakeOpenAI) -> None:
    server.script([calling("transfer_to_expert"), "The expert says hi."])
    session = AutoContextSession()

    def experts(model: Any) -> list[Any]:
        return [handoff(Agent(name="expert", instructions="You are the expert.", model=model, tools=session.tools))]

    result = await run(server, session, "Ask the expert.", agent={"handoffs": experts})
    assert result.final_output == "The expert says hi."
    assert server.refused == []
    await run(server, session, "Thanks.")
    assert sent(server) == ["Ask the expert.", "The expert says hi.", "Thanks."]


def only_the_last(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=data.input_history[-1:], pre_handoff_items=(), new_items=())


def last_for_the_model(data: HandoffInputData) -> HandoffInputData:
    """The session gets all."""
    return data.clone(input_history=data.input_history[-1:], pre_handoff_items=(), input_items=())


def each_item(change: Any) -> Any:
    """A filter that changes each item of the history and each result."""

    def filter_(data: HandoffInputData) -> HandoffInputData:
        def changed(items: Any) -> Any:
            return tuple(
                replace(i, raw_item=change(i.raw_item)) if isinstance(i, ToolCallOutputItem) else i for i in items
            )

        history: Any = data.input_history if isinstance(data.input_history, str) else map(change, data.input_history)
        return data.clone(
            input_history=history if isinstance(history, str) else tuple(history),
            pre_handoff_items=changed(data.pre_handoff_items),
            new_items=changed(data.new_items),
        )

    return filter_


shortening = each_item(lambda item: {k: str(v)[:200] if k == "output" else v for k, v in item.items()})
rewriting = each_item(lambda item: json.loads(json.dumps(item).replace("SALARY", "WAGE")))


def summing_up(data: HandoffInputData) -> HandoffInputData:
    said = {"role": "user", "content": "They have talked about salaries."}
    return data.clone(input_history=(said,), pre_handoff_items=(), input_items=())


def last_three(data: HandoffInputData) -> HandoffInputData:
    return data.clone(input_history=data.input_history[-3:])


FILTERS = [None, remove_all_tools, only_the_last, last_for_the_model, shortening, rewriting, summing_up, last_three]


@function_tool
def look_up(n: int) -> str:
    """Look up a salary."""
    return f"SALARY {n} " + "and what was said about it, " * 300


def looking_up(n: int) -> Reply:
    function = {"name": "look_up", "arguments": json.dumps({"n": n})}
    return Reply(text=None, finish="tool_calls", tool_calls=[{"id": f"n{n}", "type": "function", "function": function}])


async def handed_over(server: FakeOpenAI, session: Any, *, stream: bool = False, looks: int = 1, **how: Any) -> None:
    """Two runs; in the second one agent looks up and hands over, the other looks up twice and answers."""
    *asked, last = [looking_up(n) for n in range(looks + 2)]
    server.script(["Hello.", *asked[:-1], calling("transfer_to_b"), asked[-1], last, "B here."])
    nest = how.pop("nest_handoff_history", False)
    fields: Any = {"nest_handoff_history": nest}
    if isinstance(session, AutoContextSession):
        fields["call_model_input_filter"] = session.model_input_filter
    options: Any = {"session": session, "run_config": RunConfig(**fields), "max_turns": 100}
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        b: Agent[Any] = Agent(name="b", instructions="You are B.", model=model, tools=[look_up])
        a: Agent[Any] = Agent(name="a", model=model, tools=[look_up], handoffs=[handoff(b, **how)])
        for text in ("I am Zoë.", "Look, then hand over."):
            if stream:
                async for _ in Runner.run_streamed(a, text, **options).stream_events():
                    pass
            else:
                await Runner.run(a, text, **options)
    assert server.refused == []


def plain(message: Any) -> tuple[Any, ...]:
    """What a message says; of the SDK's summary of a run, only that it is one, since it quotes JSON."""
    content = message.get("content")
    return message["role"], content if "CONVERSATION HISTORY" not in str(content) else "...", message.get("tool_calls")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", [*({"input_filter": f} for f in FILTERS), {"nest_handoff_history": True}])
async def test_what_a_handoff_keeps_back_the_other_agent_does_not_get(how: Any, stream: bool) -> None:
    bodies = []
    for session in (SQLiteSession("s"), AutoContextSession()):
        with FakeOpenAI() as server:
            await handed_over(server, session, stream=stream, **how)
        chats = [[plain(m) for m in request.body["messages"]] for request in server.requests]
        bodies.append([chat for chat in chats if chat[0][1] == "You are B."])
    assert len(bodies[0]) == 3
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("how", [*({"input_filter": f} for f in FILTERS[1:4]), {"nest_handoff_history": True}])
async def test_nor_does_a_note_tell_it(how: Any) -> None:
    session = AutoContextSession(config=AutoContextConfig.for_window(6_000))
    with FakeOpenAI() as server:
        await handed_over(server, session, looks=20, **how)
    assert session.memory.get_compression_events()
    chats = [request.body["messages"] for request in server.requests]
    of_b = [chat[1:] for chat in chats if chat[0]["content"] == "You are B."]
    assert len(of_b) == 3
    outside = [m for chat in of_b for m in chat if "CONVERSATION HISTORY" not in str(m)]
    assert 20 in {n for n in range(30) if f"SALARY {n} " in str(outside)} <= {20, 21}
    first = "Look, then hand over." if "input_filter" in how and how["input_filter"] is not remove_all_tools else "Zoë"
    assert all(first in str(chat[0]) for chat in of_b)


@pytest.mark.parametrize(
    ("input_filter", "stream"),
    [(remove_all_tools, False), (shortening, True), (rewriting, False), (summing_up, True), (last_three, False)],
)
async def test_after_a_filtered_handoff_each_request_is_valid_and_fits(input_filter: Any, stream: bool) -> None:
    """It tells no more than the filter has left, and what the agent then finds; the session keeps all."""
    session = AutoContextSession(config=AutoContextConfig.for_window(4_000))
    left: list[str] = []

    async def noting(data: CallModelData[Any]) -> ModelInputData:
        left.append(str(data.model_data.input))
        return await session.model_input_filter(data)

    script: list[Any] = [reply for n in range(6) for reply in (looking_up(n), f"Salary {n} is known.")]
    by_a, by_b = [*range(20, 28)], [*range(40, 52)]
    script += [*map(looking_up, by_a), calling("transfer_to_b"), *map(looking_up, by_b), "B here.", looking_up(60)]
    options: Any = {"session": session, "run_config": RunConfig(call_model_input_filter=noting), "max_turns": 100}
    with FakeOpenAI(default="Very well.") as server:
        server.script(script)
        async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
            model = OpenAIChatCompletionsModel("m", openai_client=client)
            b: Agent[Any] = Agent(name="b", instructions="You are B.", model=model, tools=[look_up])
            a: Agent[Any] = Agent(
                name="a", model=model, tools=[look_up], handoffs=[handoff(b, input_filter=input_filter)]
            )
            for text in (*(f"Look at {n}." for n in range(6)), "Look, then hand over.", "And more?", "Thanks."):
                if stream:
                    async for _ in Runner.run_streamed(a, text, **options).stream_events():
                        pass
                else:
                    await Runner.run(a, text, **options)
    assert not server.refused
    assert max(server.turn(request.body).tokens for request in server.requests) <= 4_000
    chats = [str(request.body["messages"]) for request in server.requests]
    of_b = [n for n, chat in enumerate(chats) if "You are B." in chat]
    assert len(of_b) == len(by_b) + 1
    known = set(re.findall(r"SALARY \d+", left[of_b[0]]))
    assert set(re.findall(r"SALARY [0-3]\d?\b", "".join(chats[n] for n in of_b))) <= known
    results = [r.id for m in session.memory.get_original_memory_msgs() for r in m.tool_results if r.name == "look_up"]
    assert sorted(results) == sorted(f"n{n}" for n in (*range(6), *by_a, *by_b, 60))


async def test_an_agent_that_a_filtered_handoff_leads_to_reloads_what_it_is_told_of() -> None:
    """The numbers of its notes are those of its own conversation."""
    session = AutoContextSession(config=AutoContextConfig.for_window(4_000))
    shown = re.compile(r"SALARY (4\d) .*\[m(\d+): ")

    def answer(turn: Any) -> Reply:
        chat = turn.messages
        outputs = [m["content"] for m in chat if m["role"] == "tool"]
        if "You are B." not in chat[0]["content"]:
            return calling("transfer_to_b") if len(outputs) == 8 else looking_up(20 + len(outputs))
        if told := [found for output in outputs if (found := shown.search(str(output).replace("\n", " ")))]:
            if "showing" in outputs[-1]:
                return Reply(f"{told[0][1]} is {outputs[-1]}")
            arguments = json.dumps({"working_context_offload_uuid": f"m{told[0][2]}"})
            function = {"name": "context_reload", "arguments": arguments}
            return Reply(text=None, tool_calls=[{"id": "r1", "type": "function", "function": function}])
        return looking_up(40 + sum(f"SALARY 4{n}" in str(outputs) for n in range(10)))

    with FakeOpenAI(default=answer) as server:
        async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
            model = OpenAIChatCompletionsModel("m", openai_client=client)
            tools = [look_up, *session.tools]
            b: Agent[Any] = Agent(name="b", instructions="You are B.", model=model, tools=tools)
            hand_over = handoff(b, input_filter=shortening)
            a: Agent[Any] = Agent(name="a", model=model, tools=tools, handoffs=[hand_over])
            result = await Runner.run(a, "Look.", session=session, run_config=session.run_config(), max_turns=100)
    number, _, page = result.final_output.partition(" is ")
    assert f"SALARY {number} " in page


async def test_what_a_filter_leaves_condensed_stays_so() -> None:
    """Also where a later note of the run is about that and about what the filter has kept back."""
    session = AutoContextSession(config=AutoContextConfig.for_window(4_000))
    await session.add_items(said(*(f"{n}: " + "it matters that all is checked twice; " * 12 for n in range(60))))
    read = await session.get_items()
    notes = {item["content"] for item in read if "CONTEXT_OFFLOAD" in item["content"]}
    looks = [
        {"type": "function_call", "call_id": f"c{n // 2}", "name": "f", "arguments": "{}"}
        if n % 2 == 0
        else {"type": "function_call_output", "call_id": f"c{n // 2}", "output": f"{n} line\n" * 900}
        for n in range(12)
    ]
    await session.add_items(looks)
    await session.memory.acompress_if_needed(max_token=2_000)
    assert not notes & {m.text for m in session.memory.messages}
    left = [*read, *looks[:8], *looks[10:]]
    session._branch_off(left)
    assert session._branch is not None
    branched = session._branch.messages
    assert notes <= {m.text for m in branched if m.origin is not None}
    assert sum(m.origin is not None for m in branched if m.tool_results) >= 4
    assert [item.get("call_id") for item in to_responses(branched)] == [item.get("call_id") for item in left]


async def test_results_beside_a_handoff_are_kept_back_like_others(server: FakeOpenAI) -> None:
    functions = [{"name": "send", "arguments": "{}"}, {"name": "transfer_to_b", "arguments": "{}"}]
    both = [{"id": f"h{n}", "type": "function", "function": function} for n, function in enumerate(functions)]
    server.script([Reply(text=None, finish="tool_calls", tool_calls=both), calling("send"), "B here."])
    session = AutoContextSession()

    def experts(model: Any) -> list[Any]:
        b: Agent[Any] = Agent(name="b", instructions="You are B.", model=model, tools=[send, *session.tools])
        return [handoff(b, input_filter=remove_all_tools)]

    await run(server, session, "Send it, and ask B.", agent={"tools": [send], "handoffs": experts})
    of_b = [request.body["messages"] for request in server.requests[1:]]
    assert [[m["role"] for m in chat] for chat in of_b] == [["system", "user"], ["system", "user", "assistant", "tool"]]
    assert all("context_reload" in chat[0]["content"] for chat in of_b)


def without_calls(data: HandoffInputData) -> HandoffInputData:
    """Reasoning stays."""

    def kept(items: Any, of: Any) -> Any:
        return tuple(item for item in items if "call_id" not in of(item))

    history: Any = data.input_history if isinstance(data.input_history, str) else kept(data.input_history, dict)
    before, new = (kept(items, lambda i: i.to_input_item()) for items in (data.pre_handoff_items, data.new_items))
    return data.clone(input_history=history, pre_handoff_items=before, new_items=new)


class Thinking(Model):
    """Answers with these items, and checks as the service does that all reasoning comes with what it led to."""

    def __init__(self, *outputs: list[dict[str, Any]]) -> None:
        self._outputs, self._put_out = iter(outputs), list[list[dict[str, Any]]]()
        self.sent: list[list[Any]] = []

    async def get_response(self, *_more: Any, **named: Any) -> ModelResponse:
        self.sent.append(named["input"])
        as_chat(named, self._put_out)
        self._put_out.append(next(self._outputs))
        output = TypeAdapter(list[ResponseOutputItem]).validate_python(self._put_out[-1])
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_more: Any, **_named: Any) -> Any:
        raise NotImplementedError


def thinking(n: int, *items: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "reasoning", "id": f"rs_{n}", "summary": []}, *items]


def call(name: str, n: int) -> dict[str, Any]:
    arguments = json.dumps({"n": n} if name == "look_up" else {})
    return {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": name, "arguments": arguments}


def saying(n: int) -> dict[str, Any]:
    part = {"type": "output_text", "text": f"Answer {n}.", "annotations": []}
    return {"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": [part]}


async def test_an_approval_that_comes_after_another_run_was_handed_over_goes_on_with_its_own_run() -> None:
    def asking(name: str) -> list[dict[str, Any]]:
        return [{"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": name, "arguments": "{}"}]

    model = Thinking(asking("delete"), asking("transfer_to_b"), [saying(1)], [saying(2)])
    b: Agent[Any] = Agent(name="b", model=model)
    new = handoff(b, input_filter=lambda data: data.clone(input_history=(), pre_handoff_items=()))
    a: Agent[Any] = Agent(name="a", model=model, tools=[delete], handoffs=[new])
    session = AutoContextSession()
    state = (await session.run(a, "Delete it.")).to_state()
    await session.run(a, "What time is it?")
    state.approve(state.get_interruptions()[0])
    await session.run(a, state)
    said = [item.get("output") or item.get("content") or item.get("call_id") for item in model.sent[-1]]
    assert said == ["Delete it.", "delete", "It is gone."]


@pytest.mark.parametrize("window", [6_000, 100_000])
async def test_reasoning_whose_call_a_handoff_keeps_back_is_left_out(window: int) -> None:
    model = Thinking(
        [*thinking(1), saying(1), *thinking(2), call("look_up", 2)],
        *(thinking(n, call("look_up", n)) for n in range(3, 14)),
        thinking(20, saying(20)),
        thinking(21, saying(21), call("transfer_to_b", 21)),
        thinking(22, saying(22)),
    )
    session = AutoContextSession(config=AutoContextConfig.for_window(window))
    b: Agent[Any] = Agent(name="b", model=model)
    a: Agent[Any] = Agent(name="a", model=model, tools=[look_up], handoffs=[handoff(b, input_filter=without_calls)])
    for text in ("Look.", "Hand over."):
        await Runner.run(a, text, session=session, run_config=session.run_config(), max_turns=100)
    ids = [item.get("id") for item in model.sent[-1]]
    assert ids == [None, "rs_1", "msg_1", "rs_20", "msg_20", None, "rs_21", "msg_21"]
    assert bool(session.memory.get_compression_events()) is (window == 6_000)
    assert {f"rs_{n}" for n in range(2, 14)} <= set(
        re.findall(r"rs_\d+", str(session.memory.get_original_memory_msgs()))
    )


@pytest.mark.parametrize("ids", [(None, None), ("__fake_id__", "__fake_id__"), ("rs_1", "rs_2")])
def test_reasoning_is_told_apart_whatever_its_id(ids: Any) -> None:
    thoughts = [{"type": "reasoning", "id": id_, "summary": [{"text": f"{n}"}]} for n, id_ in enumerate(ids)]
    items = [thoughts[0], saying(1), thoughts[1], call("look_up", 2)]
    assert _led_on(items, items) == items
    assert _led_on(items, items[:3]) == items[:2]
    assert _led_on(items, [thoughts[0], call("look_up", 2)]) == [call("look_up", 2)]


async def test_a_guardrail_that_trips_leaves_a_session_that_goes_on(server: FakeOpenAI) -> None:
    async def refuse(_context: Any, _agent: Any, _input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    session = AutoContextSession()
    with pytest.raises(Exception, match="Guardrail"):
        await run(server, session, "bad", agent={"input_guardrails": [InputGuardrail(refuse)]})
    await run(server, session, "good")
    assert sent(server)[-1] == "good"
    assert server.refused == []


async def test_a_run_that_waits_for_approval_goes_on(server: FakeOpenAI) -> None:
    server.script([calling("delete"), "Deleted."])
    session = AutoContextSession()
    agent = {"tools": [delete, *session.tools]}
    first = await run(server, session, "Delete it.", agent=agent)
    assert first.interruptions
    state = first.to_state()
    state.approve(first.interruptions[0])
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        state._current_agent.model = OpenAIChatCompletionsModel("m", openai_client=client)
        second = await Runner.run(state._current_agent, state, session=session, run_config=session.run_config())
    assert second.final_output == "Deleted."
    assert server.refused == []
    kinds = [item.get("type") or item["role"] for item in await session.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message"]


@function_tool(needs_approval=True)
def delete() -> str:
    """Delete everything."""
    return "It is gone."


@pytest.mark.parametrize("way", ["here", "streamed", "elsewhere"])
@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize("question", [(), ("It is noon.",), ("send", "It is noon.")])
async def test_an_approval_may_come_after_other_turns(
    server: FakeOpenAI, tmp_path: Path, question: Any, handed_over: bool, way: str
) -> None:
    """The run goes on with what it had; the session has each message once."""

    def opened() -> AutoContextSession:
        return AutoContextSession(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s1")

    async def go(given: Any) -> Any:
        options: Any = {"session": session, "run_config": session.run_config(nest_handoff_history=False)}
        if way != "streamed":
            return await Runner.run(a, given, **options)
        result = Runner.run_streamed(a, given, **options)
        async for _ in result.stream_events():
            pass
        return result

    first = [calling("transfer_to_b", "h1")] if handed_over else []
    asked = [text if " " in text else calling(text, "q1") for text in question]
    server.script(["Hello.", *first, calling("delete", "d1"), *asked, calling("send", "s1"), "Deleted.", "Bye."])
    session = opened()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        b: Agent[Any] = Agent(name="b", model=model, tools=[delete, send])
        by_summary = handoff(b, input_filter=summing_up)
        a: Agent[Any] = Agent(name="a", model=model, tools=[delete, send], handoffs=[by_summary])
        await go("My secret is 42.")
        state = (await go("Delete it.")).to_state()
        if question:
            await go("What time is it?")
        if way == "elsewhere":
            session, state = opened(), await RunState.from_json(a, json.loads(json.dumps(state.to_json())))
        state.approve(state.get_interruptions()[0])
        before = len(server.requests)
        await go(state)
        await go("Thanks.")
    assert not server.refused
    chats = [
        [m["content"] or m["tool_calls"][0]["id"] for m in request.body["messages"]] for request in server.requests
    ]
    had = ["They have talked about salaries."] if handed_over else ["My secret is 42.", "Hello.", "Delete it."]
    assert chats[before] == [*had, "d1", "It is gone."]
    assert chats[before + 1] == [*had, "d1", "It is gone.", "s1", "It is sent."]
    kept = [*(["h1", "h1"] if handed_over else []), "d1"]
    meanwhile = ["What time is it?", *(["q1", "q1"] if len(question) > 1 else []), "It is noon."] if question else []
    said = [
        m.text or (m.tool_uses[0].id if m.tool_uses else m.tool_results[0].id)
        for m in opened().memory.get_original_memory_msgs()
    ]
    after = ["d1", "s1", "s1", "Deleted.", "Thanks.", "Bye."]
    assert said == ["My secret is 42.", "Hello.", "Delete it.", *kept, *meanwhile, *after]


@pytest.mark.parametrize("asked", [["It is noon."], [calling("send", "q1"), "It is noon."]])
async def test_an_agent_as_a_tool_that_is_approved_after_another_turn_sees_its_own_conversation(
    server: FakeOpenAI, asked: list[Any]
) -> None:
    function = {"name": "ask", "arguments": '{"input": "Answer."}'}
    call = Reply(text=None, tool_calls=[{"id": "k1", "type": "function", "function": function}])
    server.script([call, *asked, "42.", "It is 42."])
    session = AutoContextSession()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        expert: Agent[Any] = Agent(name="expert", model=model)
        a: Agent[Any] = Agent(name="a", model=model, tools=[send, expert.as_tool("ask", "Ask.", needs_approval=True)])
        state = (await session.run(a, "My secret is 42.")).to_state()
        await session.run(a, "What time is it?")
        state.approve(state.get_interruptions()[0])
        await session.run(a, state)
    *_, inside, outside = (sent(server, n) for n in range(-2, 0))
    assert inside == ["Answer."]
    assert outside == ["My secret is 42."]


# --------------------------------------------------------------------------------------------------- the short way
async def test_a_run_of_the_session_has_all_that_belongs_to_it(server: FakeOpenAI) -> None:
    server.script([calling("context_reload"), "Done.", calling("context_reload", "c2"), "Done."])
    other, session = AutoContextSession(), AutoContextSession()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        agent: Agent[Any] = Agent(name="a", model=model, tools=[send, *other.tools])
        result = await session.run(agent, "Look.", max_turns=3, run_config=RunConfig(workflow_name="looking"))
        assert result.final_output == "Done."
        streamed = session.run_streamed(agent, "Look again.")
        assert [event async for event in streamed.stream_events()]
    assert (agent.tools, agent.hooks) == ([send, *other.tools], None)
    assert [m.role for m in session.memory.messages] == ["user", "assistant", "tool", "assistant"] * 2
    assert other.memory.messages == []
    offered = server.requests[-1].body["tools"]
    assert [tool["function"]["name"] for tool in offered] == ["send", "context_reload"]
    assert "context_reload" in server.requests[-1].body["messages"][0]["content"]


def test_a_run_of_the_session_without_a_loop(server: FakeOpenAI) -> None:
    client = AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0)
    session = AutoContextSession()
    agent: Agent[Any] = Agent(name="a", model=OpenAIChatCompletionsModel("m", openai_client=client))
    try:
        assert session.run_sync(agent, "hi").final_output == "Very well."
    finally:
        # The SDK keeps a loop open for each thread that calls run_sync.
        loop = asyncio.get_event_loop_policy().get_event_loop()
        loop.run_until_complete(client.close())
        loop.close()
        asyncio.set_event_loop(None)


async def test_an_agent_without_the_tool_is_not_told_to_call_it(server: FakeOpenAI) -> None:
    session = AutoContextSession()
    await run(server, session, "hi", agent={"tools": []})
    assert server.requests[-1].body["messages"][0]["content"] == "Be brief."


class Report(BaseModel):
    """What an inspector has found."""

    rooms: list[str] = Field(description="The rooms in the order of the visit; die Räume in der Reihenfolge. " * 20)


@pytest.mark.parametrize("model", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
@pytest.mark.parametrize(
    "output", [Report, list[Report], AgentOutputSchema(Report, strict_json_schema=False), str, None]
)
async def test_the_schema_of_structured_output_is_counted(server: FakeOpenAI, model: Any, output: Any) -> None:
    session = AutoContextSession()
    server.default = Reply('{"rooms": [], "response": []}')
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        await Runner.run(
            Agent("a", model=model("m", client), output_type=output),
            "Go.",
            session=session,
            run_config=session.run_config(),
        )
    body = server.requests[-1].body
    form = body.get("response_format") or body.get("text", {}).get("format")
    assert bool(form) == (output not in (str, None))
    tokens = get_counter("o200k_base").count_text(json.dumps(form, ensure_ascii=False)) if form else 0
    assert tokens <= session.memory.count([]) <= tokens + 10


# ---------------------------------------------------------------------------------------------------- calls in flight
class Noted(AgentHooks[Any]):
    """Notes what it is called with, and what the memory holds by then."""

    def __init__(self, session: AutoContextSession) -> None:
        self.session, self.noted = session, []

    def calls(self) -> list[str]:
        return [use.id for m in self.session.memory.messages for use in m.tool_uses]

    async def on_llm_start(self, *_: Any) -> None:
        self.noted.append(("asked", self.calls()))

    async def on_llm_end(self, *_: Any) -> None:
        self.noted.append(("answered", self.calls()))

    async def on_tool_start(self, *_: Any) -> None:
        self.noted.append(("runs", self.calls()))


class Counting(AgentHooks[Any]):
    """Counts the answers."""

    count = 0

    async def on_llm_end(self, *_: Any) -> None:
        self.count += 1


@function_tool
def send() -> str:
    """Send a letter."""
    return "It is sent."


async def test_the_agent_s_own_hooks_go_on_being_called(server: FakeOpenAI) -> None:
    server.script([calling("send"), "Sent."])
    session = AutoContextSession()
    hooks = Noted(session)
    await run(server, session, "Send it.", agent={"tools": [send], "hooks": hooks})
    assert hooks.noted == [
        ("asked", []),
        ("answered", ["c1"]),
        ("runs", ["c1"]),
        ("asked", ["c1"]),
        ("answered", ["c1"]),
    ]
    assert [m.role for m in session.memory.get_original_memory_msgs()] == ["user", "assistant", "tool", "assistant"]
    assert session.memory.get_original_memory_msgs()[2].tool_results[0].name == "send"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])  # noqa: S301
@pytest.mark.parametrize("own", [None, Counting])
async def test_an_agent_can_be_copied_after_a_run(server: FakeOpenAI, copied: Any, own: Any) -> None:
    session = AutoContextSession()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        agent: Agent[Any] = Agent(name="a", model=model, hooks=own and own())
        await Runner.run(agent, "hi", session=session, run_config=session.run_config())
        agent.model = None  # its client cannot be copied
        again = copied(agent)
        again.model = model
        await Runner.run(again, "hi again", session=session, run_config=session.run_config())
    assert sent(server) == ["hi", "Very well.", "hi again"]
    if own:
        assert again.hooks.count == 2


async def test_one_agent_serves_four_sessions_at_once() -> None:
    def answer(turn: Any) -> Reply:
        return Reply("Sent.") if turn.messages[-1]["role"] == "tool" else calling("send")

    sessions = [AutoContextSession(session_id=f"s{n}") for n in range(4)]
    with FakeOpenAI(default=answer) as server:
        client = AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0)
        agent: Agent[Any] = Agent(name="a", model=OpenAIChatCompletionsModel("m", openai_client=client), tools=[send])
        await asyncio.gather(
            *(Runner.run(agent, f"I am {s.session_id}.", session=s, run_config=s.run_config()) for s in sessions)
        )
        await Runner.run(agent, "Nobody's turn.")  # the hook is still there
        await client.close()
    for session in sessions:
        originals = session.memory.get_original_memory_msgs()
        assert [m.role for m in originals] == ["user", "assistant", "tool", "assistant"]
        assert originals[0].text == f"I am {session.session_id}."


async def test_an_agent_within_a_tool_is_not_taken_for_the_one_outside(server: FakeOpenAI) -> None:
    """The same agent answers inside, without a session."""
    server.script([calling("ask_itself"), calling("send"), "Sent.", "The letter is sent."])
    session = AutoContextSession()
    held: list[Agent[Any]] = []

    @function_tool
    async def ask_itself() -> str:
        """Ask."""
        return str((await Runner.run(held[0], "Send it.")).final_output)

    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        held.append(Agent(name="a", model=model, tools=[ask_itself, send]))
        await Runner.run(held[0], "Ask yourself.", session=session, run_config=session.run_config())
    calls = [use.name for m in session.memory.get_original_memory_msgs() for use in m.tool_uses]
    assert calls == ["ask_itself"]


def delegating(turn: Any) -> Reply:
    """Outside the one call of `ask`; in the run inside, whose services count ids anew, one of `send`."""
    said = [m for m in turn.messages if m["role"] != "system"]
    if said[-1]["role"] == "tool":
        return Reply("Sent." if "sent" in said[-1]["content"] else "The letter is sent.")
    if "Send it" in said[-1]["content"]:
        return calling("send")
    arguments = {"name": "ask", "arguments": '{"input": "Send it."}'}
    return Reply(text=None, finish="tool_calls", tool_calls=[{"id": "c1", "type": "function", "function": arguments}])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("inner", ["another", "itself", "approved", "approved elsewhere", "approved after a look"])
async def test_an_agent_as_a_tool_has_a_conversation_of_its_own(tmp_path: Path, inner: str, stream: bool) -> None:
    """The SDK gives it the filter of the run outside."""

    def opened() -> AutoContextSession:
        return AutoContextSession(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s1")

    async def go(session: AutoContextSession, given: Any) -> Any:
        if not stream:
            return await session.run(agent, given)
        result = session.run_streamed(agent, given)
        async for _ in result.stream_events():
            pass
        return result

    session = opened()
    with FakeOpenAI(default=delegating) as server:
        async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
            model = OpenAIChatCompletionsModel("m", openai_client=client)
            agent: Agent[Any] = Agent(name="a", model=model)
            asked = agent if inner == "itself" else Agent[Any](name="expert", model=model, tools=[send])
            needs: Any = inner.startswith("approved")
            agent.tools = [asked.as_tool("ask", "Ask.", needs_approval=needs), *([send] if inner == "itself" else [])]
            result = await go(session, "My secret is 42.")
            if needs:
                state = result.to_state()
                state.approve(result.interruptions[0])
                if inner != "approved":
                    session = opened()
                if inner == "approved after a look":
                    await session.get_items()
                await go(session, state)
    assert server.refused == []
    texts = [str([m for m in request.body["messages"] if m["role"] != "system"]) for request in server.requests]
    assert ["secret" in text for text in texts] == [True, False, False, True]
    assert [text.count("Send it") for text in texts] == [0, 1, 1, 1]
    originals = opened().memory.get_original_memory_msgs()
    assert [m.role for m in originals] == ["user", "assistant", "tool", "assistant"]
    assert [use.name for m in originals for use in m.tool_uses] == ["ask"]


@pytest.mark.parametrize("way", ["run", "run_sync"])
def test_after_a_refused_request_the_next_run_s_are_smaller(server: FakeOpenAI, way: str) -> None:
    session = AutoContextSession(config=AutoContextConfig.for_window(8_000))
    for n in range(12):
        session.memory.add(said(f"Go on with {n}.", "\n".join(f"{n}.{line}: nothing unusual" for line in range(60))))

    def go(question: str) -> Any:
        client = AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0)
        agent: Agent[Any] = Agent(name="a", model=OpenAIChatCompletionsModel("m", openai_client=client))
        loop = asyncio.new_event_loop()  # which run_sync takes, and keeps open
        asyncio.set_event_loop(loop)
        try:
            if way == "run_sync":
                return session.run_sync(agent, question).final_output
            return loop.run_until_complete(session.run(agent, question)).final_output
        finally:
            loop.run_until_complete(client.close())
            loop.close()
            asyncio.set_event_loop(None)

    too_long = "This model's maximum context length is 4000 tokens."
    error = {"message": too_long, "type": "invalid_request_error", "code": "context_length_exceeded"}
    server.script([Raw(400, {"error": error})])
    with pytest.raises(BadRequestError, match="maximum context length"):
        go("And now?")
    assert go("And then?") == "Very well."
    first, second = (server.turn(request.body).tokens for request in server.requests)
    assert second < 0.7 * first


async def test_the_refusal_of_an_agent_that_is_a_tool_changes_nothing(server: FakeOpenAI) -> None:
    session = AutoContextSession(config=AutoContextConfig.for_window(8_000))
    for n in range(12):
        session.memory.add(said(f"Go on with {n}.", "\n".join(f"{n}.{line}: nothing unusual" for line in range(60))))
    error = {"message": "prompt is too long", "type": "invalid_request_error", "code": "context_length_exceeded"}
    call = {"name": "ask", "arguments": '{"input": "Ask."}'}
    server.script([Reply(text=None, tool_calls=[{"id": "c1", "type": "function", "function": call}])])
    server.script([Raw(400, {"error": error})])
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        asked: Agent[Any] = Agent(name="b", model=model)
        tool = asked.as_tool("ask", "Ask.", failure_error_function=None)
        with pytest.raises(UserError, match="too long"):
            await session.run(Agent(name="a", model=model, tools=[tool]), "Ask the other one.")
    assert len(server.requests) == 2
    assert session.memory.get_compression_events() == []


async def test_the_usage_of_an_agent_that_is_a_tool_is_not_this_session_s(server: FakeOpenAI) -> None:
    session = AutoContextSession(config=AutoContextConfig.for_window(8_000))
    call = {"name": "ask", "arguments": '{"input": "Ask."}'}
    server.script(
        [Reply(text=None, tool_calls=[{"id": "c1", "type": "function", "function": call}], input_tokens=2_000)]
    )
    server.script([Reply(text="42", input_tokens=7_000), Reply(text="It is 42.", input_tokens=0)])
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        tool = Agent[Any](name="b", model=model).as_tool("ask", "Ask.")
        await session.run(Agent(name="a", model=model, tools=[tool]), "Ask the other one.")
    assert 2_000 <= session.memory.token_count <= 2_200


async def test_the_filter_alone_keeps_nothing(server: FakeOpenAI) -> None:
    server.script([calling("send"), "Sent."])
    session = AutoContextSession()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        agent: Agent[Any] = Agent(name="a", model=OpenAIChatCompletionsModel("m", openai_client=client), tools=[send])
        await Runner.run(agent, "Send it.", run_config=session.run_config())
    assert session.memory.get_original_memory_msgs() == []


async def test_a_run_that_waited_for_approval_goes_on_in_another_process(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script(["Hello.", calling("delete"), "Deleted."])

    def opened() -> AutoContextSession:
        return AutoContextSession(store=SqliteSessionStore(tmp_path / "agent.db"), session_id="s1")

    await run(server, opened(), "I am Zoë.")
    saved = (await run(server, opened(), "Delete it.", agent={"tools": [delete]})).to_state().to_json()
    session = opened()
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url, max_retries=0) as client:
        model = OpenAIChatCompletionsModel("m", openai_client=client)
        agent: Agent[Any] = Agent(name="a", instructions="Be brief.", model=model, tools=[delete])
        state = await RunState.from_json(agent, saved)
        state.approve(state.get_interruptions()[0])
        second = await Runner.run(agent, state, session=session, run_config=session.run_config())
    assert second.final_output == "Deleted."
    assert server.refused == []
    roles = ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert [m.role for m in opened().memory.get_original_memory_msgs()] == roles
    assert [m["role"] for m in server.requests[-1].body["messages"]] == ["system", *roles[:-1]]


async def test_an_agent_without_the_reload_tool_is_not_told_to_call_it(
    server: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    @function_tool
    def look() -> str:
        """Look around."""
        return "Nothing."

    session = AutoContextSession(config=AutoContextConfig.for_window(4_000))
    await session.add_items(said("word " * 5_000, "Read."))
    for tools, offered in (([look, *session.tools], True), ([look], False), ([look], False)):
        await run(server, session, "And now?", agent={"tools": tools})
        assert ("context_reload" in str(server.requests[-1].body["messages"])) == offered
        told = [r.levelname for r in caplog.records if "context_reload" in r.getMessage()]
        assert told == ([] if offered else ["WARNING"])


class Tools(MCPServer):
    """A server with the tools of a memory, as `autocontext mcp` is one."""

    name = "memory"

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any: ...
    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        return [mcp.types.Tool(name="context_reload", inputSchema={"type": "object", "properties": {}})]


async def test_an_agent_whose_server_has_the_reload_tool_is_not_warned_of(
    server: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    @function_tool
    def look() -> str:
        """Look around."""
        return "Nothing."

    session = AutoContextSession(config=AutoContextConfig.for_window(4_000))
    await session.add_items(said("word " * 5_000, "Read."))
    await run(server, session, "And now?", agent={"tools": [look], "mcp_servers": [Tools()]})
    assert {t["function"]["name"] for t in server.requests[-1].body["tools"]} == {"look", "context_reload"}
    assert session.memory.get_compression_events()
    assert [r for r in caplog.records if "context_reload" in r.getMessage()] == []


async def test_a_service_may_use_call_ids_again(server: FakeOpenAI) -> None:
    """The SDK sends one call and one result of each id, apart from each other, which services refuse."""
    session = AutoContextSession()
    for n in range(1, 4):
        server.script([calling("send"), f"Sent {n}."])
        await run(server, session, "Send it.", agent={"tools": [send]})
    assert server.refused == []
    assert [m["role"] for m in server.requests[-1].body["messages"]].count("tool") == 3
    assert [use.id for m in session.memory.messages for use in m.tool_uses] == ["c1"] * 3


@pytest.mark.parametrize("ids", [("x", "x", "x"), ("x", "x-2", "x"), ("x", "x", "x-2")])
def test_ids_that_come_again_are_told_apart(ids: tuple[str, ...]) -> None:
    """Whether they come in one message or one after the other, and whatever ids there are besides."""
    calls = [{"type": "function_call", "call_id": id_, "name": f"f{n}", "arguments": "{}"} for n, id_ in enumerate(ids)]
    outputs = [{"type": "function_call_output", "call_id": id_, "output": f"{n}"} for n, id_ in enumerate(ids)]
    in_turn = [item for pair in zip(calls, outputs, strict=True) for item in pair]
    for items in ([*calls, *outputs], in_turn):
        sent = to_responses(with_own_ids(from_responses(items), in_all=True))
        called = [item["call_id"] for item in sent if item["type"] == "function_call"]
        assert len({*called}) == 3
        assert sorted(item["call_id"] for item in sent if item["type"] != "function_call") == sorted(called)
        assert called[0] == "x"
    names = {item["call_id"]: item["name"] for item in sent if item["type"] == "function_call"}
    assert [names[item["call_id"]] for item in sent if item["type"] != "function_call"] == ["f0", "f1", "f2"]


async def test_the_usage_of_an_answer_for_which_the_service_searched_is_not_used() -> None:
    """It is the sum of what the service has read before and after each search."""

    class Counting(Thinking):
        async def get_response(self, *_more: Any, **_named: Any) -> ModelResponse:
            output = TypeAdapter(list[ResponseOutputItem]).validate_python(next(self._outputs))
            usage = Usage(requests=1, input_tokens=50_000, output_tokens=5, total_tokens=50_005)
            return ModelResponse(output=output, usage=usage, response_id=None)

    action = {"type": "search", "query": "q"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    session = AutoContextSession(config=AutoContextConfig.for_window(100_000))
    agent: Agent[Any] = Agent(name="a", model=Counting([search, saying(1)], [saying(2)]))
    counts = []
    for text in ("Search.", "Go on."):
        await session.run(agent, text)
        counts.append(session.memory.token_count)
    assert counts[0] < 50_000 <= counts[1]


async def test_tools_of_another_session_are_refused(server: FakeOpenAI) -> None:
    ann, bob = AutoContextSession(session_id="a", user_id="ann"), AutoContextSession(session_id="b", user_id="bob")
    await ann.add_items(said("The code of the safe is 7719."))
    async with AsyncOpenAI(base_url=server.base_url, api_key="test-key", max_retries=0) as client:
        agent = Agent("a", model=OpenAIChatCompletionsModel("m", client), tools=list(ann.tools))
        with pytest.raises(ConfigError, match="context_reload of agent 'a' is that of session 'a'"):
            await Runner.run(agent, "What is it?", session=bob, run_config=bob.run_config())
        assert server.requests == []
        namesake = AutoContextSession(session_id="a", user_id="ann")  # of another database
        await namesake.add_items(said("Hello."))
        with pytest.raises(ConfigError, match="context_reload of agent 'a' is that of session 'a'"):
            await Runner.run(agent, "What is it?", session=namesake, run_config=namesake.run_config())
        assert (await bob.run(agent, "What is it?")).final_output == "Very well."
        assert (await Runner.run(agent, "And?", session=ann, run_config=ann.run_config())).final_output == "Very well."
