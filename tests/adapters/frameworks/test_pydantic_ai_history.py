"""pydantic-ai's messages come back as they were; histories that are passed, cut or taken back are understood."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, PromptedOutput, Tool, ToolOutput, UsageLimitExceeded, UsageLimits
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from autocontext import AutoContextConfig
from autocontext.adapters.pydantic_ai import AutoContextCapability
from autocontext.adapters.pydantic_ai_messages import from_pydantic_ai, recognized, to_pydantic_ai
from autocontext.messages import Msg
from autocontext.stores import SqliteSessionStore
from autocontext.stores.kept import Kept
from tests.conversations import json_objects, texts, valid_histories
from tests.fakes import FakeOpenAI, Reply

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHORT = st.one_of(st.sampled_from(["", "hi", "你好"]), texts(max_chars=100, surrogates=False))
ITEMS = st.one_of(
    SHORT,
    st.sampled_from(
        [
            ImageUrl(url="https://e.org/a.png"),
            BinaryContent(data=b"hi", media_type="image/png"),
            BinaryContent(data=b"hi", media_type="application/pdf"),
            AudioUrl(url="https://e.org/a.mp3"),
            DocumentUrl(url="https://e.org/a.pdf"),
        ]
    ),
)
CONTENT = st.one_of(SHORT, st.lists(ITEMS, max_size=3))
IMAGE = BinaryContent(data=b"x", media_type="image/png")
OUTPUT = st.one_of(SHORT, json_objects(), st.none(), st.sampled_from([[1, "a"], IMAGE, ["seen:", IMAGE]]))
ASKED = st.one_of(
    st.builds(lambda c: UserPromptPart(c, timestamp=NOON), CONTENT),
    st.builds(lambda c: SystemPromptPart(c, timestamp=NOON), SHORT),
    st.builds(lambda c: ToolReturnPart("f", c, tool_call_id="c1", timestamp=NOON, metadata={"a": 1}), OUTPUT),
    st.builds(lambda c: ToolReturnPart("f", c, tool_call_id="c1", timestamp=NOON, outcome="retried"), SHORT),
    st.builds(lambda c: RetryFeedbackPart(c, timestamp=NOON, retry=RetryInfo("no_output")), SHORT),
)
ANSWERED = st.one_of(
    st.builds(TextPart, SHORT),
    st.builds(lambda c: ThinkingPart(c, signature="sig", provider_name="openai"), SHORT),
    st.builds(
        lambda args: ToolCallPart("f", args, tool_call_id="c1"),
        st.one_of(st.none(), json_objects(), st.sampled_from(["", "{}", '{"a":1}', "{broken"])),
    ),
)
HISTORY = st.lists(
    st.one_of(
        st.builds(
            lambda parts: ModelRequest(parts, instructions="Be brief.", timestamp=NOON),
            st.lists(ASKED, min_size=1, max_size=3),
        ),
        st.builds(lambda parts: ModelResponse(parts, model_name="m", timestamp=NOON), st.lists(ANSWERED, max_size=3)),
    ),
    max_size=4,
)


def as_json(messages: list[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


@given(HISTORY)
def test_messages_come_back_as_they_were(history: list[ModelMessage]) -> None:
    msgs = from_pydantic_ai(history)
    for held in (msgs, [Msg.model_validate(json.loads(json.dumps(m.to_dict()))) for m in msgs]):
        assert as_json(to_pydantic_ai(held)) == as_json(history)
    again = ModelMessagesTypeAdapter.validate_python(as_json(history))
    assert [m.id for m in from_pydantic_ai(again)] == [m.id for m in msgs]


def at_times(history: list[ModelMessage], start: int) -> list[ModelMessage]:
    """The same said at other times, each message and part at one of its own."""
    times = itertools.count(start)

    def restamped(value: Any) -> Any:
        if isinstance(value, list):
            return [restamped(v) for v in value]
        if not isinstance(value, dict):
            return value
        changed = {k: restamped(v) for k, v in value.items()}
        return {**changed, **({"timestamp": f"2026-02-01T00:00:00.{next(times):06}Z"} if "timestamp" in value else {})}

    return ModelMessagesTypeAdapter.validate_python(restamped(as_json(history)))


@given(HISTORY, st.data())
def test_a_history_that_is_made_anew_is_known_again(history: list[ModelMessage], data: st.DataObject) -> None:
    originals = from_pydantic_ai(at_times(history, 0))
    kept = data.draw(st.integers(2, len(history))) if len(history) > 1 else len(history)
    anew = from_pydantic_ai(at_times(history[:kept], 500))
    same = recognized(anew, originals)
    texts_of = {msg.id: (msg.role, *msg.texts()) for msg in originals}
    for was, now in zip(originals[: len(anew) - 1], anew[:-1], strict=False):
        words = [b for b in now.content if b.type != "thinking" and (b.type != "text" or b.text)]
        # A response without a time of its own is the same as it was. What is said again is where it was said last.
        if words and now.id != was.id:
            assert texts_of[same[now.id]] == texts_of[was.id]
        else:
            assert now.id not in same


@pytest.mark.parametrize(
    ("history", "known"),
    [
        (["q1", "a1", "q2", "a2", "q3"], ["q1", "a1", "q2", "a2"]),
        (["q1", "a1", "q2 anew", "a2"], ["q1", "a1"]),  # another branch: what it answers is its own
        (["q2", "a2", "q3"], ["q2", "a2"]),  # an application that cuts off the beginning
        (["q1"], []),  # alone, the last message is new
        (["q1", "a1", "q1"], ["q1", "a1"]),
        (["你好", "a1"], []),
        (["yes", "a4", "q5"], ["yes", "a4"]),  # said before: it is where what follows was said
        (["yes", "a3", "q5"], ["yes", "a3"]),
    ],
)
def test_only_what_was_said_there_is_known(history: list[str], known: list[str]) -> None:
    def messages(texts_: list[str]) -> list[Msg]:
        return [Msg(role="assistant" if text.startswith("a") else "user", content=text) for text in texts_]

    originals, anew = messages(["yes", "a3", "q1", "a1", "q2", "a2", "yes", "a4"]), messages(history)
    same = recognized(anew, originals)
    assert [m.text for m in anew if m.id in same] == known
    assert [m.text for m in originals if m.id in same.values()] == known


@given(valid_histories())
def test_valid_messages_become_a_history(history: list[Msg]) -> None:
    parts = [part for message in to_pydantic_ai(history) for part in message.parts]
    assert [p.tool_call_id for p in parts if isinstance(p, ToolCallPart)] == [
        u.id for m in history for u in m.tool_uses
    ]
    results = [p.tool_call_id for p in parts if isinstance(p, ToolReturnPart)]
    assert results == [r.id for m in history for r in m.tool_results]


# ---------------------------------------------------------------------------------------------------- in the agent
@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(default="Very well.") as service:
        yield service


async def run(server: FakeOpenAI, capability: AutoContextCapability, text: str, **options: Any) -> Any:
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url) as client:
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, instructions="Be brief.", capabilities=[capability], **options.pop("agent", {}))
        return await agent.run(text, **options)


def sent(server: FakeOpenAI) -> list[str]:
    return [m["content"] for m in server.requests[-1].body["messages"] if m["role"] != "system"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_history_that_is_passed_is_held_once(server: FakeOpenAI) -> None:
    capability = AutoContextCapability(config=AutoContextConfig.for_window(8_000))
    first = await run(server, capability, "one", conversation_id="c1")
    saved = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    second = await run(server, capability, "two", message_history=saved)
    assert sent(server) == ["one", "Very well.", "two"]
    assert len(second.all_messages()) == len(capability.memory("c1").messages) == 4
    await run(server, capability, "three", conversation_id="c1")
    assert sent(server) == ["one", "Very well.", "two", "Very well.", "three"]


@pytest.mark.anyio
async def test_a_turn_that_is_taken_back_goes_out_of_view(server: FakeOpenAI) -> None:
    capability = AutoContextCapability()
    first = await run(server, capability, "one", conversation_id="c1")
    await run(server, capability, "wrong", message_history=first.all_messages())
    await run(server, capability, "right", message_history=first.all_messages())
    assert sent(server) == ["one", "Very well.", "right"]
    assert "wrong" in [m.text for m in capability.memory("c1").get_original_memory_msgs()]


@pytest.mark.anyio
async def test_a_branch_that_comes_back_is_in_view_again(server: FakeOpenAI) -> None:
    capability = AutoContextCapability()
    start = await run(server, capability, "plan a trip", conversation_id="c1")
    last = {c: await run(server, capability, f"to {c}", message_history=start.all_messages()) for c in ("Rome", "Oslo")}
    for city in ("Rome", "Oslo", "Rome"):
        asked = len(last[city].all_messages()) // 2 - 1
        last[city] = await run(server, capability, "where to?", message_history=last[city].all_messages())
        assert sent(server)[::2] == ["plan a trip", f"to {city}", *["where to?"] * asked]


@pytest.mark.anyio
async def test_runs_at_once_on_one_conversation_each_keep_their_question(server: FakeOpenAI) -> None:
    """The second begins, with the history as it was, while the first waits for its answer (two tabs)."""
    capability = AutoContextCapability()
    history = (await run(server, capability, "hello", conversation_id="c1")).all_messages()
    answering, other_done = threading.Event(), threading.Event()

    def answer(body: Any) -> Any:
        if body["messages"][-1]["content"] == "one of two":
            answering.set()
            other_done.wait(60)
            return calling("work")
        return "Done."

    server.default = answer
    tools = {"tools": [Tool(lambda: "worked", name="work")]}
    one = asyncio.create_task(run(server, capability, "one of two", message_history=history, agent=tools))
    await asyncio.to_thread(answering.wait, 60)
    await run(server, capability, "two of two", message_history=history)
    other_done.set()
    await one
    assert {"one of two", "worked"} <= {*sent(server)}


@pytest.mark.anyio
async def test_conversations_of_one_agent_do_not_meet(server: FakeOpenAI) -> None:
    capability = AutoContextCapability()
    for name in ("c1", "c2", "c1"):
        await run(server, capability, f"I am {name}", conversation_id=name)
    assert sent(server) == ["I am c1", "Very well.", "I am c1"]
    await run(server, capability, "Who am I?")
    assert sent(server) == ["Who am I?"]


@pytest.mark.anyio
async def test_processes_that_take_turns_keep_a_history_once(server: FakeOpenAI, tmp_path: Path) -> None:
    workers = [AutoContextCapability(store=SqliteSessionStore(tmp_path / "agent.db")) for _ in range(2)]
    history: list[ModelMessage] = []
    for i, question in enumerate(("one", "two", "three", "four")):
        result = await run(server, workers[i % 2], question, message_history=history, conversation_id="c1")
        history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    assert as_json(to_pydantic_ai(workers[1].memory("c1").get_original_memory_msgs())) == as_json(history)


def of_a_browser(history: list[ModelMessage]) -> list[ModelMessage]:
    """What it was shown: no calls, no results, no thinking, no instructions."""
    anew: list[ModelMessage] = []
    for message in history:
        if isinstance(message, ModelRequest):
            said = [UserPromptPart(p.content) for p in message.parts if isinstance(p, UserPromptPart)]
            anew += [ModelRequest(said)] if said else []
        else:
            spoken = [TextPart(p.content) for p in message.parts if isinstance(p, TextPart)]
            anew += [ModelResponse(spoken)] if spoken else []
    return anew


@pytest.mark.anyio
@pytest.mark.parametrize("made_anew", [of_a_browser, lambda history: at_times(history, len(history) * 1_000)])
@pytest.mark.parametrize("as_history", [True, False])
async def test_a_history_that_is_made_anew_is_held_once(server: FakeOpenAI, made_anew: Any, as_history: bool) -> None:
    """By a front end, which passes the user's new message in it, or from a database."""

    def look() -> str:
        return "seen"

    capability = AutoContextCapability()
    history: list[ModelMessage] = []
    questions = ("ok", "weiter", "ok", "继续")
    for question in questions:
        server.script([calling("look")])
        asked = made_anew(history)
        if as_history:
            asked.append(ModelRequest([UserPromptPart(question)]))
        text = None if as_history else question
        tools = {"tools": [look]}
        result = await run(server, capability, text, message_history=asked, conversation_id="c1", agent=tools)
        history += [ModelRequest([UserPromptPart(question)])] if as_history else []
        history += result.new_messages()
    originals = capability.memory("c1").get_original_memory_msgs()
    assert [m.role for m in originals] == ["user", "assistant", "tool", "assistant"] * len(questions)
    assert [m.text for m in originals[::4]] == list(questions)
    assert [m["role"] for m in server.requests[-1].body["messages"] if m["role"] != "system"] == [
        m.role for m in originals[:-1]
    ]


@pytest.mark.anyio
async def test_a_run_that_is_broken_off_is_forgotten(server: FakeOpenAI) -> None:
    capability = AutoContextCapability()
    capability._runs = Kept(2, forgotten=False)
    async with AsyncOpenAI(api_key="test-key", base_url=server.base_url) as client:
        agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)), capabilities=[capability])
        for _ in range(4):
            async with agent.iter("one", conversation_id="c1") as steps:
                async for _step in steps:
                    break
    assert len(capability._runs._values) == 2


def calling(name: str, **arguments: Any) -> Reply:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return Reply(text=None, finish="tool_calls", tool_calls=[{"id": "c1", "type": "function", "function": function}])


@pytest.mark.anyio
async def test_a_history_without_the_call_does_not_take_it_back(server: FakeOpenAI) -> None:
    """An application that saves the history of a run at its end has nothing of one that was cut off."""
    sending = asyncio.Event()

    async def send() -> str:
        sending.set()
        await asyncio.Event().wait()
        return "sent"

    server.script(["Very well.", calling("send")])
    capability = AutoContextCapability()
    saved = (await run(server, capability, "one", conversation_id="c1")).all_messages()
    turn = asyncio.create_task(run(server, capability, "Send it.", message_history=saved, agent={"tools": [send]}))
    await asyncio.wait_for(sending.wait(), 60)
    assert [use.name for m in capability.memory("c1").messages for use in m.tool_uses] == ["send"]
    turn.cancel()
    await asyncio.wait([turn])
    assert dict(capability._runs._values) == {}
    await run(server, capability, "Was it sent?", message_history=saved)
    shown = [m for m in server.requests[-1].body["messages"] if m["role"] != "system"]
    assert [m["role"] for m in shown] == ["user", "assistant", "user", "assistant", "tool", "user"]
    assert "The process ended before a result" in shown[4]["content"]
    assert server.refused == []


@pytest.mark.anyio
async def test_a_function_that_takes_the_output_finds_its_call_kept(server: FakeOpenAI) -> None:
    found: list[dict[str, Any]] = []

    def send(to: str) -> str:
        found.extend(dict(use.input) for m in capability.memory("c1").messages for use in m.tool_uses)
        return f"sent to {to}"

    server.script([calling("final_result", to="ann")])
    capability = AutoContextCapability()
    result = await run(server, capability, "Send it.", conversation_id="c1", agent={"output_type": send})
    assert (result.output, found) == ("sent to ann", [{"to": "ann"}])
    originals = capability.memory("c1").get_original_memory_msgs()
    assert as_json(to_pydantic_ai(originals)) == as_json(result.all_messages())


@pytest.mark.anyio
async def test_a_run_that_fails_keeps_what_it_has_come_to(server: FakeOpenAI) -> None:
    def send() -> str:
        return "sent"

    server.script([calling("send")])
    capability = AutoContextCapability()
    limits = UsageLimits(request_limit=1)
    with pytest.raises(UsageLimitExceeded):
        await run(server, capability, "Send it.", conversation_id="c1", agent={"tools": [send]}, usage_limits=limits)
    assert [m.role for m in capability.memory("c1").messages] == ["user", "assistant", "tool"]
    assert dict(capability._runs._values) == {}


class Found(BaseModel):
    """What was found."""

    place: str = Field(description="where it was found, in full sentences " * 40)
    note: str = Field(description="谁发现的，什么时候 " * 40)


@pytest.mark.anyio
@pytest.mark.parametrize("form", [ToolOutput, NativeOutput, PromptedOutput])
async def test_the_schema_of_a_structured_answer_is_counted(server: FakeOpenAI, form: Any) -> None:
    capability = AutoContextCapability()
    found = {"place": "here", "note": "n"}
    counted, sent = [], []
    for name, output_type in (("c1", str), ("c2", form(Found))):
        structured = calling("final_result", **found) if form is ToolOutput else json.dumps(found)
        server.script(["Very well." if output_type is str else structured])
        await run(server, capability, "Report.", conversation_id=name, agent={"output_type": output_type})
        counted.append(capability.memory(name).count([]))
        sent.append(server.turn(server.requests[-1].body).tokens)
    assert sent[1] - sent[0] > 500
    assert -10 <= (counted[1] - counted[0]) - (sent[1] - sent[0]) <= 30


def test_messages_have_the_time_that_their_history_tells() -> None:
    history = [
        ModelRequest([UserPromptPart("Check the pool.", timestamp=NOON)]),
        ModelResponse([TextPart("40.")], timestamp=NOON.replace(hour=13)),
    ]
    said = from_pydantic_ai(history)
    assert [datetime.fromisoformat(m.timestamp).hour for m in said] == [12, 13]
    capability = AutoContextCapability(config=AutoContextConfig.for_window("16k"))
    with FakeOpenAI(default=Reply(text="Very well.")) as server:
        asyncio.run(_asked(server.base_url, capability, history))
    assert "days later" in str(server.requests[0].body["messages"][-2:])


async def _asked(base_url: str, capability: AutoContextCapability, history: list[ModelMessage]) -> None:
    async with AsyncOpenAI(api_key="test-key", base_url=base_url) as client:
        model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, capabilities=[capability])
        await agent.run("And now?", message_history=history, conversation_id="c")
