"""What a run of pydantic-ai changes by itself: results beside a streamed answer, system prompts, completed messages."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext, ToolReturn, capture_run_messages
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext.adapters.pydantic_ai import AutoContextCapability
from autocontext.adapters.pydantic_ai_messages import from_pydantic_ai
from autocontext.messages import Msg

LONG = "You are the assistant of the pump factory. " + "Be exact about pumps. " * 150


class Answer(BaseModel):
    city: str


class Script:
    """A model that answers with what it is told to, and keeps the messages of each request."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.requests: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def parts(self, messages: list[ModelMessage]) -> list[Any]:
        self.requests.append(messages)
        return self.answers.pop(0) if self.answers else [TextPart("Very well.")]

    def answer(self, messages: list[ModelMessage], _info: Any) -> ModelResponse:
        return ModelResponse(self.parts(messages))

    async def stream(self, messages: list[ModelMessage], _info: Any) -> AsyncIterator[Any]:
        for i, part in enumerate(self.parts(messages)):
            if isinstance(part, TextPart):
                yield part.content
            else:
                yield {i: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}

    def sent(self, kind: type = UserPromptPart) -> list[Any]:
        """What parts of a kind say in the newest request, in their order."""
        return [part.content for m in self.requests[-1] for part in m.parts if isinstance(part, kind)]


def call(id_: str, name: str, **args: Any) -> ToolCallPart:
    return ToolCallPart(name, args, tool_call_id=id_)


async def pay(n: int) -> ToolReturn:
    """Pay."""
    if n == 0:
        raise ModelRetry("not nothing")
    if n < 0:
        raise ValueError("boom")
    return ToolReturn(f"receipt {n}", content=f"a picture of receipt {n}", metadata={"n": n})


def original_results(capability: AutoContextCapability) -> dict[str, str]:
    results = [r for m in capability.memory("c").get_original_memory_msgs() for r in m.tool_results]
    assert len({r.id for r in results}) == len(results)
    return {r.id: str(r.output) for r in results}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_is_strange(caplog: pytest.LogCaptureFixture) -> Any:
    """What the framework changes itself is no second compression."""
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


# ------------------------------------------------------------------------------------------- results beside the answer
@pytest.mark.anyio
@pytest.mark.parametrize("passes_history", [True, False])
@pytest.mark.parametrize("strategy", ["early", "graceful", "exhaustive"])
@pytest.mark.parametrize("final", [call("c2", "final_result", city="Rome"), TextPart("Rome.")])
async def test_results_beside_a_streamed_answer_are_kept(strategy: Any, final: Any, passes_history: bool) -> None:
    script = Script([final, call("c1", "pay", n=7), call("c3", "pay", n=0)])
    capability = AutoContextCapability()
    agent = Agent(
        script.model, output_type=[Answer, str], tools=[pay], capabilities=[capability], end_strategy=strategy
    )
    async with agent.run_stream("Pay and book.", conversation_id="c") as result:
        assert await result.get_output() in (Answer(city="Rome"), "Rome.")
    own = [part for m in result.all_messages() for part in m.parts]
    returned = {part.tool_call_id: part.content for part in own if isinstance(part, ToolReturnPart)}
    assert {"c1", "c3"} <= returned.keys()
    assert original_results(capability) == returned
    history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json()) if passes_history else None
    await agent.run("And now?", conversation_id="c", message_history=history)
    assert script.sent(ToolReturnPart) == [*returned.values()]
    assert script.sent() == [part.content for part in own if isinstance(part, UserPromptPart)] + ["And now?"]
    assert original_results(capability) == returned


@pytest.mark.anyio
async def test_a_streamed_answer_whose_tool_fails_keeps_the_results_of_others() -> None:
    script = Script([TextPart("Rome."), call("c1", "pay", n=7), call("c2", "pay", n=-1)])
    capability = AutoContextCapability()
    agent = Agent(script.model, tools=[pay], capabilities=[capability])

    async def streamed() -> None:
        async with agent.run_stream("Pay.", conversation_id="c") as result:
            await result.get_output()

    with pytest.raises(ValueError, match="boom"):
        await streamed()
    assert original_results(capability) == {"c1": "receipt 7"}


class Connection:
    """A value without a JSON form."""


@pytest.mark.anyio
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_value_without_a_json_form_beside_the_answer_breaks_no_turn(*, is_streamed: bool) -> None:
    script = Script([call("c1", "connect"), call("c2", "final_result", city="Rome")])
    capability = AutoContextCapability()
    agent = Agent(script.model, output_type=Answer, capabilities=[capability], end_strategy="exhaustive")

    @agent.tool_plain
    def connect() -> ToolReturn:
        return ToolReturn({"open": Connection()}, metadata=Connection())

    if is_streamed:
        async with agent.run_stream("Go.", conversation_id="c") as result:
            output = await result.get_output()
    else:
        output = (await agent.run("Go.", conversation_id="c")).output
    assert output == Answer(city="Rome")
    assert "Connection object" in original_results(capability)["c1"]


@pytest.mark.anyio
async def test_a_value_without_a_json_form_hides_no_error_of_another_tool() -> None:
    script = Script([call("c1", "connect"), call("c2", "pay", n=-1)])
    capability = AutoContextCapability()
    agent = Agent(script.model, tools=[pay], capabilities=[capability])

    @agent.tool_plain
    async def connect() -> Any:
        return Connection()

    with pytest.raises(ValueError, match="boom"):
        await agent.run("Go.", conversation_id="c")
    assert "Connection object" in original_results(capability)["c1"]


@pytest.mark.anyio
async def test_calls_whose_results_come_later_stay_open() -> None:
    script = Script([call("c1", "approve", n=7)])
    capability = AutoContextCapability()
    agent = Agent(script.model, output_type=[str, DeferredToolRequests], capabilities=[capability])

    @agent.tool_plain(requires_approval=True)
    def approve(n: int) -> str:
        return f"approved {n}"

    async with agent.run_stream("Approve.", conversation_id="c") as result:
        asked = await result.get_output()
    assert isinstance(asked, DeferredToolRequests)
    assert original_results(capability) == {}
    await agent.run(
        message_history=result.all_messages(),
        conversation_id="c",
        deferred_tool_results=asked.build_results(approve_all=True),
    )
    assert original_results(capability) == {"c1": "approved 7"}


async def book(n: int) -> str:
    """The same without a picture."""
    return str((await pay(n)).return_value)


@pytest.mark.anyio
@pytest.mark.parametrize("tool", [pay, book])
async def test_a_message_that_the_framework_completes_is_held_once(tool: Any) -> None:
    script = Script([call("c1", tool.__name__, n=7), call("c2", tool.__name__, n=-1)])
    capability = AutoContextCapability()
    agent = Agent(script.model, tools=[tool], capabilities=[capability])
    with capture_run_messages() as messages, pytest.raises(ValueError, match="boom"):
        await agent.run("Pay both.", conversation_id="c")
    history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
    again = await agent.run("Try again.", message_history=history, conversation_id="c")
    # Here it joins the results and the user's new words.
    await agent.run("And now?", message_history=again.all_messages(), conversation_id="c")
    said = ["Pay both.", *(["a picture of receipt 7"] if tool is pay else []), "Try again.", "And now?"]
    assert script.sent() == said
    assert [m.text for m in capability.memory("c").get_original_memory_msgs() if m.role == "user"] == said
    assert original_results(capability)["c1"] == "receipt 7"
    assert script.sent(ToolReturnPart)[0] == "receipt 7"
    assert len(script.sent(ToolReturnPart)) == 2


@pytest.mark.anyio
async def test_requests_that_the_framework_joins_are_held_once() -> None:
    """It puts results before what a tool has shown besides."""
    script = Script([call("c1", "pay", n=7), call("c2", "final_result", city="Rome")])
    capability = AutoContextCapability()
    agent = Agent(script.model, output_type=[Answer, str], tools=[pay], capabilities=[capability])
    history: list[ModelMessage] = []
    said = ["one", "a picture of receipt 7", "two", "three", "four"]
    for text in ("one", "two", "three", "four"):
        result = await agent.run(text, message_history=history, conversation_id="c")
        history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    assert script.sent() == said
    assert [m.text for m in capability.memory("c").get_original_memory_msgs() if m.role == "user"] == said
    assert original_results(capability) == {"c1": "receipt 7", "c2": "Final result processed."}


# ------------------------------------------------------------------------------------------------------ system prompts
@pytest.mark.anyio
async def test_a_system_prompt_is_in_each_request_once(tmp_path: Path) -> None:
    script = Script()
    for i in range(20):
        capability = AutoContextCapability.open(tmp_path / f"{i // 10}.db", window="8k")  # half of them begin anew
        agent = Agent(script.model, system_prompt=(LONG, "Be kind."), capabilities=[capability])
        await agent.run(f"question {i}", conversation_id="c")
        assert script.sent(SystemPromptPart) == [LONG, "Be kind."]
        assert [part.content for part in script.requests[-1][0].parts][:2] == [LONG, "Be kind."]
    originals = capability.memory("c").get_original_memory_msgs()
    assert [m.text for m in originals if m.role == "system"] == [LONG, "Be kind."]
    assert [m.text for m in originals if m.role == "user"] == [f"question {i}" for i in range(10, 20)]


@pytest.mark.anyio
async def test_agents_on_one_conversation_each_have_their_own_prompts() -> None:
    script = Script()
    capability = AutoContextCapability()
    prompts: dict[str, Any] = {"planner": "You plan.", "critic": ("You criticize.", "Be kind."), "helper": ()}
    agents = {k: Agent(script.model, system_prompt=v, capabilities=[capability]) for k, v in prompts.items()}
    for name in ("planner", "critic", "planner", "helper", "critic", "critic", "planner"):
        await agents[name].run(name, conversation_id="c")
        prompt = prompts[name]
        assert script.sent(SystemPromptPart) == ([prompt] if isinstance(prompt, str) else [*prompt])
        assert isinstance(script.requests[-1][0].parts[0], SystemPromptPart) is (name != "helper")
    assert script.sent() == ["planner", "critic", "planner", "helper", "critic", "critic", "planner"]
    originals = capability.memory("c").get_original_memory_msgs()
    assert [m.text for m in originals if m.role == "system"] == ["You plan.", "You criticize.", "Be kind."]


@pytest.mark.anyio
async def test_agents_at_work_at_once_each_have_their_own_prompt() -> None:
    script, other = Script([call("c1", "ask")]), Script()
    capability = AutoContextCapability()
    agent = Agent(script.model, system_prompt="You plan.", capabilities=[capability])
    critic = Agent(other.model, system_prompt="You criticize.", capabilities=[capability])
    answering = script.answer

    async def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
        if not script.requests:
            await critic.run("two", conversation_id="c")
        return answering(messages, info)

    @agent.tool_plain
    def ask() -> str:
        return "asked"

    with agent.override(model=FunctionModel(answer)):
        await agent.run("one", conversation_id="c")
    assert script.sent(SystemPromptPart) == ["You plan."]
    assert script.sent() == ["one", "two"]
    assert (other.sent(SystemPromptPart), other.sent()) == (["You criticize."], ["one", "two"])


@pytest.mark.anyio
async def test_runs_that_begin_while_another_waits_for_its_view_leave_it_its_prompts() -> None:
    """Between its start and its request a run waits, as for a compression; others begin in that time."""
    script, asked, end = Script(), asyncio.Queue[list[Any]](), asyncio.Event()
    others: list[asyncio.Task[Any]] = []

    async def answer(messages: list[ModelMessage], _info: Any) -> ModelResponse:
        await asked.put([part.content for part in messages[0].parts if isinstance(part, SystemPromptPart)])
        await end.wait()
        return ModelResponse([TextPart("Later.")])

    async def begin(prompt: str) -> None:
        others.append(asyncio.create_task(Agent(FunctionModel(answer), **of(prompt)).run("other")))
        assert await asked.get() == [prompt]

    class Waiting(AutoContextMemory):
        async def aget_messages(self, *arguments: Any, **options: Any) -> list[Msg]:
            if others:
                return await super().aget_messages(*arguments, **options)
            await begin("You criticize.")
            view = await super().aget_messages(*arguments, **options)
            await begin("You help.")
            return view

    capability = AutoContextCapability(Waiting())

    def of(*prompts: str) -> dict[str, Any]:
        return {"system_prompt": prompts, "capabilities": [capability]}

    await Agent(script.model, **of("You plan.", "Be kind.")).run("one")
    assert script.sent(SystemPromptPart) == ["You plan.", "Be kind."]
    assert script.sent() == ["one", "other"]
    end.set()
    await asyncio.gather(*others)


@pytest.mark.anyio
async def test_a_prompt_that_the_application_changes_in_the_history_counts() -> None:
    script = Script()
    capability = AutoContextCapability()
    agent = Agent(script.model, system_prompt="You plan.", capabilities=[capability])
    first, *others = (await agent.run("one", conversation_id="c")).all_messages()
    changed = replace(first, parts=[SystemPromptPart("You act."), *first.parts[1:]])
    await agent.run("two", message_history=[changed, *others], conversation_id="c")
    assert (script.sent(SystemPromptPart), script.sent()) == (["You act."], ["one", "two"])
    await agent.run("three", conversation_id="c")
    assert (script.sent(SystemPromptPart), script.sent()) == (["You plan."], ["one", "two", "three"])


@pytest.mark.anyio
async def test_a_session_that_has_a_prompt_many_times_shows_it_once() -> None:
    """As versions before this one have stored it."""
    script = Script()
    capability = AutoContextCapability()
    for i in range(5):
        asked = ModelRequest([SystemPromptPart("You plan."), UserPromptPart(f"question {i}")], run_id=f"run {i}")
        capability.memory("c").add_messages(from_pydantic_ai([asked, ModelResponse([TextPart("Yes.")])]))
    await Agent(script.model, system_prompt="You plan.", capabilities=[capability]).run("one", conversation_id="c")
    assert script.sent(SystemPromptPart) == ["You plan."]
    assert script.sent() == [*(f"question {i}" for i in range(5)), "one"]


@pytest.mark.anyio
async def test_what_a_run_says_as_the_system_stays() -> None:
    """Only the prompts with which runs begin are an agent's own."""
    script = Script([call("c1", "note")])
    capability = AutoContextCapability()
    agent = Agent(script.model, system_prompt="You plan.", capabilities=[capability])

    @agent.tool
    def note(ctx: RunContext[None]) -> str:
        ctx.enqueue(ModelRequest([SystemPromptPart("The plan is approved.")]))
        return "noted"

    for text in ("one", "two"):
        await agent.run(text, conversation_id="c")
        assert script.sent(SystemPromptPart) == ["You plan."]
        assert "<system>The plan is approved.</system>" in script.sent()


def told(script: Script) -> list[tuple[str, Any]]:
    return [(part.part_kind, getattr(part, "content", None)) for m in script.requests[-1] for part in m.parts]


@pytest.mark.anyio
@pytest.mark.parametrize("on_change", ["replace", "append"])
async def test_a_dynamic_prompt_is_sent_as_without_us(on_change: Any) -> None:
    """In runs with the history of the conversation, two of them with calls."""
    seen = []
    for capabilities in ([], [AutoContextCapability()]):
        works = [[call(id_, "work")] for id_ in ("c1", "c2")]
        script, now, history = Script([TextPart("one")], works[0], [TextPart("2")], [TextPart("3")], works[1]), 0, None
        agent = Agent(script.model, system_prompt="You plan.", capabilities=capabilities)

        @agent.system_prompt(dynamic=True, on_change=on_change)
        def minute() -> str:
            return f"It is minute {now}."  # noqa: B023 (called in this turn)

        @agent.tool_plain
        def work() -> str:
            return "worked"

        requests = []
        for text, minutes in (("one", 1), ("two", 2), ("three", 2), ("four", 1), ("five", 3)):
            now = minutes
            result = await agent.run(text, message_history=history, conversation_id="c")
            history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
            requests.append(told(script))
        seen.append(requests)
        # The user goes back to the first turn.
        await agent.run("other", message_history=history[:2], conversation_id="c")
        requests.append(told(script))
    assert seen[1] == seen[0]
    originals = capabilities[0].memory("c").get_original_memory_msgs()
    assert [m.text for m in originals if m.role == "user"] == ["one", "two", "three", "four", "five", "other"]


@pytest.mark.anyio
async def test_a_history_without_its_beginning_keeps_the_prompt() -> None:
    script = Script()
    capability = AutoContextCapability()
    agent = Agent(script.model, system_prompt="You plan.", capabilities=[capability])
    history: list[ModelMessage] = []
    for text in ("one", "two", "three"):
        result = await agent.run(text, message_history=history, conversation_id="c")
        history = result.all_messages()[-2:]
        assert (script.sent(SystemPromptPart), script.sent()[-1]) == (["You plan."], text)


# ------------------------------------------------------------------------------------------------ runs that overlap
@pytest.mark.anyio
async def test_a_message_that_is_answered_while_a_tool_runs_leaves_the_first_run_whole() -> None:
    script = Script([call("c1", "ask")], [TextPart("Second.")], [call("c2", "ask")], [TextPart("First.")])
    capability = AutoContextCapability()
    agent = Agent(script.model, capabilities=[capability])
    asked = 0

    @agent.tool_plain
    async def ask() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            assert (await agent.run("two", conversation_id="c")).output == "Second."
        return "asked"

    assert (await agent.run("one", conversation_id="c")).output == "First."
    kinds = [[part.part_kind for message in request for part in message.parts] for request in script.requests]
    both = ["user-prompt", "user-prompt", "text", "tool-call", "tool-return"]
    assert kinds[2:] == [both, [*both, "tool-call", "tool-return"]]


@pytest.mark.anyio
async def test_the_usage_of_an_answer_for_which_the_service_searched_is_not_used() -> None:
    """It is the sum of what the service has read before and after each search."""
    search = NativeToolCallPart("web_search", {"query": "q"}, tool_call_id="ws_1")
    answers = [[search, TextPart("Found.")], [TextPart("Very well.")]]

    def answer(_messages: list[ModelMessage], _info: Any) -> ModelResponse:
        return ModelResponse(answers.pop(0), usage=RequestUsage(input_tokens=50_000, output_tokens=5))

    capability = AutoContextCapability(config=AutoContextConfig.for_window(100_000))
    agent = Agent(FunctionModel(answer), capabilities=[capability])
    counts = []
    for text in ("Search.", "Go on."):
        await agent.run(text, conversation_id="c")
        counts.append(capability.memory("c").token_count)
    assert counts[0] < 50_000 <= counts[1]
