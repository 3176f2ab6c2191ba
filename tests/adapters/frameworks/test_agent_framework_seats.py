"""AutoContextCompaction in agent-framework's two seats, beside its own history and context providers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    CompactionStrategy,
    Content,
    ContextProvider,
    FunctionInvocationLayer,
    FunctionMiddleware,
    InMemoryHistoryProvider,
    Message,
    MiddlewareTermination,
    SlidingWindowStrategy,
    tool,
)
from agent_framework.openai import OpenAIChatCompletionClient
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic import BaseModel, Field

from autocontext import AutoContextConfig, AutoContextMemory
from autocontext import Msg as OwnMsg
from autocontext.adapters.agent_framework import AutoContextCompaction, from_agent_framework, to_agent_framework
from autocontext.errors import ConfigError, InvalidMessage
from autocontext.stores import SqliteSessionStore
from autocontext.testing import assert_valid_chat
from tests.adapters.contract.driver import ROOM, WINDOW, Setup
from tests.adapters.contract.scripted_agent import ScriptedAgent
from tests.adapters.contract.suite import READ
from tests.fakes import FakeOpenAI

# ---------------------------------------------------------------------------------------------------- translation
TEXT = st.text(max_size=10)
CONTENTS = st.one_of(
    st.builds(Content.from_text, TEXT),
    st.builds(Content.from_text_reasoning, text=TEXT, protected_data=st.none() | st.just("p")),
    st.builds(Content.from_uri, st.just("data:image/png;base64,AAAA"), media_type=st.just("image/png")),
    st.builds(Content.from_uri, st.just("https://a.example/b.png"), media_type=st.just("image/png")),
    st.builds(Content.from_uri, st.just("data:application/pdf;base64,AAAA"), media_type=st.just("application/pdf")),
    st.builds(
        Content.from_function_call,
        TEXT,
        TEXT,
        arguments=st.sampled_from(['{"a":1}', '{"a": 1}', "", '{"a":', "[1]", {"a": 1}, {}]),
    ),
    st.builds(Content.from_function_result, TEXT, result=TEXT, exception=st.none() | st.just("failed")),
    st.just(Content.from_hosted_file("file_1")),
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
    st.lists(CONTENTS, max_size=4),
    author_name=st.none() | st.just("ann"),
    message_id=st.just("m1"),
    additional_properties=st.just({}) | st.just({"note": "x"}),
)


@given(MESSAGES)
def test_messages_come_back_as_they_were(message: Message) -> None:
    before = message.to_json()
    [read] = from_agent_framework([message])
    [written] = to_agent_framework([OwnMsg.model_validate(json.loads(json.dumps(read.to_dict())))])
    assert written.to_dict() == message.to_dict()
    assert message.to_json() == before


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(InvalidMessage, match=r"messages\[1\] is a str"):
        from_agent_framework([Message("user", ["hi"]), "hi"])


# ---------------------------------------------------------------------------------------------------------- agents
class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers by a function of the messages."""

    def __init__(self, answer: Callable[[Sequence[Message]], Message] | None = None) -> None:
        super().__init__()
        self.answer = answer or (lambda _: Message("assistant", ["hello"]))
        self.requests: list[list[Message]] = []

    async def _inner_get_response(self, *, messages: Sequence[Message], **_: Any) -> ChatResponse[Any]:
        self.requests.append(list(messages))
        assert_valid_chat(from_agent_framework(messages))
        return ChatResponse(messages=[self.answer(messages)])


def texts(messages: Sequence[Message]) -> list[str]:
    return [m.text for m in messages]


def talk(agent: Agent, *questions: str, session: AgentSession | None = None) -> None:
    async def use() -> None:
        mine = session or agent.create_session(session_id="s")
        for question in questions:
            await agent.run(question, session=mine)

    asyncio.run(use())


def test_a_run_holds_the_history_and_the_memory_every_word_once() -> None:
    client, compaction = Scripted(), AutoContextCompaction()
    talk(Agent(client, context_providers=[compaction]), "yes", "yes", "no", "yes")
    said = [t for q in ("yes", "yes", "no", "yes") for t in (q, "hello")]
    assert [m.text for m in compaction.memory("s").get_original_memory_msgs()] == said
    assert texts(client.requests[-1]) == said[:-1]


def test_with_another_history_provider_every_word_counts_once_as_well() -> None:
    client, compaction = Scripted(), AutoContextCompaction()
    talk(Agent(client, context_providers=[InMemoryHistoryProvider(), compaction]), "yes", "yes", "no", "yes")
    said = [t for q in ("yes", "yes", "no", "yes") for t in (q, "hello")]
    assert [m.text for m in compaction.memory("s").get_original_memory_msgs()] == said
    assert texts(client.requests[-1]) == said[:-1]


def test_what_other_providers_add_passes_through() -> None:
    class Facts(ContextProvider):
        async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
            context.extend_messages(self, [Message("user", ["It is Tuesday."])])

    client, compaction = Scripted(), AutoContextCompaction()
    talk(Agent(client, context_providers=[compaction, Facts("facts")]), "one", "two")
    assert texts(client.requests[-1]) == ["one", "hello", "It is Tuesday.", "two"]
    said = [m.text for m in compaction.memory("s").get_original_memory_msgs()]
    assert said == ["one", "hello", "two", "hello"]


def test_one_provider_serves_many_sessions_and_keeps_nothing_in_theirs() -> None:
    compaction = AutoContextCompaction(user_id="ann")
    agent = Agent(Scripted(), context_providers=[compaction])
    for name in ("a", "b"):
        session = agent.create_session(session_id=name)
        talk(agent, f"I am {name}", session=session)
        assert "I am" not in json.dumps(session.to_dict())
    assert [m.text for m in compaction.memory("b").get_original_memory_msgs()] == ["I am b", "hello"]
    bound = Agent(Scripted(), context_providers=[AutoContextCompaction(session_id="one")])
    talk(bound, "hi", session=bound.create_session(session_id="a"))
    with pytest.raises(ConfigError, match="'b'"):
        talk(bound, "hi", session=bound.create_session(session_id="b"))


def test_a_second_compaction_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    strategy = SlidingWindowStrategy(keep_last_groups=5)
    agent = Agent(Scripted(), context_providers=[AutoContextCompaction()], compaction_strategy=strategy)
    with caplog.at_level(logging.WARNING, "autocontext"):
        talk(agent, "one", "two")
    assert [r.getMessage() for r in caplog.records if "SlidingWindowStrategy" in r.getMessage()][1:] == []
    assert "SlidingWindowStrategy" in caplog.text


def test_a_conversation_of_the_service_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    client, compaction = Scripted(), AutoContextCompaction()
    agent = Agent(client, context_providers=[compaction])
    session = AgentSession(session_id="s", service_session_id="conv_1")
    with caplog.at_level(logging.WARNING, "autocontext"):
        talk(agent, "one", session=session)
    assert "store=False" in caplog.text
    assert texts(client.requests[0]) == ["one"]


def test_both_seats_may_be_taken() -> None:
    client, compaction = Scripted(), AutoContextCompaction(config=AutoContextConfig.for_window(4_000))
    agent = Agent(client, context_providers=[compaction], compaction_strategy=compaction)
    questions = [f"question {n} " + f"word{n} " * 300 for n in range(12)]
    talk(agent, *questions)
    said = [m.text for m in compaction.memory("s").get_original_memory_msgs()]
    assert said == [t for q in questions for t in (q, "hello")]
    assert compaction.memory("s").get_compression_events()


# ----------------------------------------------------------------------------------------- the compaction strategy
def test_the_strategy_changes_a_list_in_place_and_its_messages_not() -> None:
    async def use() -> None:
        memory = AutoContextMemory(AutoContextConfig(msg_threshold=6, last_keep=1))
        strategy = AutoContextCompaction(memory)
        assert isinstance(strategy, CompactionStrategy)
        messages = [Message("user", ["hi"])]
        assert await strategy(messages) is False
        for n in range(6):
            call = Content.from_function_call(f"c{n}", "f", arguments={"n": n})
            messages.append(Message("assistant", [call]))
            messages.append(
                Message("tool", [Content.from_function_result(f"c{n}", result=f"part {n} " + "word " * 2_000)])
            )
        held, before = list(messages), [m.to_json() for m in messages]
        assert await strategy(messages) is True
        assert [m.to_json() for m in held] == before
        assert len(json.dumps([m.to_dict() for m in messages])) < len("".join(before)) / 2
        assert_valid_chat(from_agent_framework(messages))
        messages.append(Message("user", ["hi"]))  # the same words again are a new question
        await strategy(messages)
        assert [m.text for m in memory.get_original_memory_msgs() if m.role == "user"] == ["hi", "hi"]
        assert messages[-1].text == "hi"

    asyncio.run(use())


def test_the_last_message_of_a_request_is_new_though_it_was_said_before() -> None:
    async def use() -> list[str]:
        memory = AutoContextMemory()
        strategy = AutoContextCompaction(memory)
        await strategy([Message("user", ["yes"])])
        await strategy([Message("user", ["yes"]), Message("assistant", ["sure?"]), Message("user", ["no"])])
        await strategy([Message("user", ["yes"])])
        return [m.text for m in memory.get_original_memory_msgs()]

    assert asyncio.run(use()) == ["yes", "sure?", "no", "yes"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_with_the_strategy_alone_ends_its_long_run(stream: bool) -> None:
    script = ScriptedAgent()

    async def use(base_url: str) -> list[str]:
        setup = Setup(base_url=base_url)
        # The strategy is not told what a request holds besides messages: it needs a little more room for it.
        compaction = AutoContextCompaction(config=AutoContextConfig.for_window(WINDOW - 2 * ROOM))
        async with AsyncOpenAI(api_key="test-key", base_url=base_url, max_retries=0) as service:
            client = OpenAIChatCompletionClient(model="m", async_client=service)
            client.function_invocation_configuration["max_iterations"] = 100
            agent = Agent(
                client,
                instructions=f"{setup.system}\n\n{compaction.instructions}",
                tools=[tool(approval_mode="never_require")(setup.tool), *compaction.tools],
                compaction_strategy=compaction,
            )
            session = agent.create_session()
            answers = []
            for question in (READ, "[task 2: recall 3] And part 3?"):
                if stream:
                    run = agent.run(question, session=session, stream=True)
                    response = await run.get_final_response()
                else:
                    response = await agent.run(question, session=session)
                answers.append(response.messages[-1].text)
        originals = compaction.memory().get_original_memory_msgs()
        assert len({m.id for m in originals}) == len(originals)
        said = [r.text for m in originals for r in m.tool_results if r.text.startswith("part ")]
        assert len(set(said)) == len(said)
        return answers

    with FakeOpenAI(default=script, window=WINDOW) as server:
        answers = asyncio.run(use(server.base_url))
    assert answers[0] == "All parts of alpha are read."
    assert answers[1].startswith("It is S-alpha-3-")
    assert (server.refused, script.faults) == ([], [])


# -------------------------------------------------------------------------------------------------- calls in flight
def twice(messages: Sequence[Message]) -> Message:
    """Calls `send` two times, then is done; as of a service that numbers the calls of each answer anew."""
    calls = sum(c.type == "function_call" for m in messages for c in m.contents)
    return Message("assistant", ["done" if calls >= 2 else Content.from_function_call("c0", "send", arguments="{}")])


class Rewording(ChatMiddleware):
    """Changes what the model has said, after this library has seen it."""

    async def process(self, context: Any, call_next: Any) -> None:
        await call_next()
        for message in context.result.messages:
            message.contents.append(Content.from_text("(checked)"))


def test_an_answer_that_is_reworded_is_kept_once() -> None:
    found: list[int] = []

    @tool(approval_mode="never_require")
    def send() -> str:
        """Send a letter."""
        found.append(len(compaction.memory("s").get_original_memory_msgs()))
        return "sent"

    compaction = AutoContextCompaction()
    agent = Agent(Scripted(twice), tools=[send], context_providers=[compaction], middleware=[Rewording()])
    talk(agent, "Send two letters.")
    assert found == [2, 4]
    roles = [m.role for m in compaction.memory("s").get_original_memory_msgs()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_an_approval_after_parallel_calls_sends_all_their_results() -> None:
    """While a call waits, the history is repaired: each result stands in a message of its own, under the same id."""

    @tool(approval_mode="never_require")
    def read(key: str) -> str:
        """Read a text."""
        return f"text of {key}"

    @tool(approval_mode="always_require")
    def send() -> str:
        """Send a letter."""
        return "sent"

    def call(call_id: str, name: str, arguments: str) -> Content:
        return Content.from_function_call(call_id, name, arguments=arguments)

    parallel = [call(f"c{key}", "read", json.dumps({"key": key})) for key in "ab"]
    script = iter([parallel, ["done"], [call("c1", "send", "{}")], ["sent, done"], ["bye"]])
    client, compaction = Scripted(lambda _: Message("assistant", next(script))), AutoContextCompaction()

    async def use() -> None:
        agent = Agent(client, tools=[read, send], context_providers=[compaction])
        session = agent.create_session(session_id="s")
        await agent.run("Read a and b.", session=session)
        asked = await agent.run("Send it.", session=session)
        answers = [request.to_function_approval_response(True) for request in asked.user_input_requests]
        assert (await agent.run(Message("user", answers), session=session)).text == "sent, done"
        await agent.run("Thanks.", session=session)

    asyncio.run(use())
    for request in client.requests[3:]:
        results = [c.result for m in request for c in m.contents if c.type == "function_result"]
        assert results == ["text of a", "text of b", "sent"]


class Ending(FunctionMiddleware):
    """Ends the run when a tool has run."""

    async def process(self, context: Any, call_next: Any) -> None:
        await call_next()
        raise MiddlewareTermination("enough", result=context.result)


@pytest.mark.parametrize(("middleware", "last"), [([], ["assistant", "tool", "assistant"]), ([Ending()], [])])
def test_a_run_that_ends_at_a_limit_is_kept_once(middleware: list[Any], last: list[str]) -> None:
    @tool(approval_mode="never_require")
    def send() -> str:
        """Send a letter."""
        return "sent"

    client = Scripted(twice)
    client.function_invocation_configuration["max_iterations"] = 2
    compaction = AutoContextCompaction()
    agent = Agent(client, tools=[send], context_providers=[compaction], middleware=middleware)
    talk(agent, "Send letters.")
    roles = [m.role for m in compaction.memory("s").get_original_memory_msgs()]
    assert roles == ["user", "assistant", "tool", *last]


def test_messages_of_a_session_without_a_name_are_not_stored() -> None:
    with SqliteSessionStore(":memory:") as store:
        provider = AutoContextCompaction(store=store)
        asyncio.run(provider.save_messages(None, [Message("user", ["hello"])]))
        assert texts(asyncio.run(provider.get_messages(None))) == ["hello"]
        assert store.sessions() == []


class Report(BaseModel):
    """What was found."""

    place: str = Field(description="where it was found, in full sentences " * 40)
    note: str = Field(description="谁发现的，什么时候 " * 40)


AS_DICT = {"type": "json_schema", "json_schema": {"name": "Report", "schema": Report.model_json_schema()}}


@pytest.mark.parametrize("form", [Report, AS_DICT])
def test_the_schema_of_a_structured_answer_is_counted(form: Any) -> None:
    async def asked(server: FakeOpenAI, provider: AutoContextCompaction, name: str, options: Any) -> tuple[int, int]:
        async with AsyncOpenAI(api_key="test-key", base_url=server.base_url) as client:
            agent = Agent(OpenAIChatCompletionClient("m", async_client=client), context_providers=[provider])
            await agent.run("Report.", session=agent.create_session(session_id=name), options=options)
        return provider.memory(name).count([]), server.turn(server.requests[-1].body).tokens

    provider = AutoContextCompaction()
    with FakeOpenAI(default=json.dumps({"place": "here", "note": "n"})) as server:
        counted, sent = asyncio.run(asked(server, provider, "s1", {}))
        counted_with, sent_with = asyncio.run(asked(server, provider, "s2", {"response_format": form}))
    assert sent_with - sent > 500
    assert -10 <= (counted_with - counted) - (sent_with - sent) <= 30


def test_what_other_providers_add_is_counted() -> None:
    """A search finds about 1,900 tokens for each run, which no request remembers."""

    class Passages(ContextProvider):
        async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
            found = "\n".join(f"passage {i}: the pump of hall {i} was serviced in week {i % 52}" for i in range(100))
            context.extend_messages(self, [Message("user", [found])])

    async def use(base_url: str) -> None:
        async with AsyncOpenAI(api_key="test-key", base_url=base_url, max_retries=0) as service:
            client = OpenAIChatCompletionClient("m", async_client=service)
            agent = Agent(client, context_providers=[Passages("search"), compaction])
            session = agent.create_session(session_id="s")
            for i in range(30):
                await agent.run(
                    f"Question {i}: " + f"detail {i} of the pump with valve {i * 7}. " * 40, session=session
                )

    compaction = AutoContextCompaction(config=AutoContextConfig.for_window(WINDOW))
    with FakeOpenAI(default="Very well.", window=WINDOW) as server:
        asyncio.run(use(server.base_url))
    assert server.refused == []
    assert compaction.memory("s").get_compression_events()
    assert all("passage 99" in json.dumps(request.body["messages"]) for request in server.requests)
