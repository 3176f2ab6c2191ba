"""A run that ends with a tool's result instead of a reply leaves no request open: the next question is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import agents
import httpx
import pydantic_ai
import pytest
from agentscope.agent import Agent as AgentScopeAgent
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langgraph.checkpoint.memory import InMemorySaver
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai.models.openai import OpenAIChatModel as PydanticModel
from pydantic_ai.providers.openai import OpenAIProvider

from autocontext.adapters.agentscope_v2 import AutoContextMiddleware as AgentScopeMiddleware
from autocontext.adapters.langchain import AutoContextMiddleware as LangChainMiddleware
from autocontext.adapters.openai_agents import AutoContextSession
from autocontext.adapters.pydantic_ai import AutoContextCapability
from tests.adapters.frameworks.test_langchain import chat_openai
from tests.fakes.openai_server import FakeOpenAI, Reply, Turn

agents.set_tracing_disabled(disabled=True)
pytestmark = pytest.mark.anyio


class Disks(BaseModel):
    """The failed disks."""

    failed: int


@agents.function_tool
def submit(failed: int) -> str:
    """Submit the failed disks."""
    return f"{failed} submitted"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    def answer(turn: Turn) -> Reply:
        own = [name for name in turn.tools if not name.startswith("context_")]
        if not own:
            return Reply(text='{"failed": 3}')
        function = {"name": own[0], "arguments": json.dumps({"failed": 3})}
        call = {"id": f"c{len(service.requests)}", "type": "function", "function": function}
        return Reply(text=None, finish="tool_calls", tool_calls=[call])

    with FakeOpenAI(default=answer) as service:
        yield service


ALLOW = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It only submits.")
QUESTIONS = ("Which disks failed on Monday?", "And on Tuesday?")


def check(server: FakeOpenAI, *, open_request: Any) -> None:
    assert not server.refused
    assert open_request is None
    assert QUESTIONS[1] in json.dumps(server.requests[-1].body)


async def test_openai_agents(server: FakeOpenAI) -> None:
    session = AutoContextSession()
    async with AsyncOpenAI(base_url=server.base_url, api_key="test-key", max_retries=0) as client:
        model = agents.OpenAIChatCompletionsModel("m", client)
        ends = agents.StopAtTools(stop_at_tool_names=["submit"])
        agent: Any = agents.Agent("a", model=model, tools=[submit], tool_use_behavior=ends)
        for question in QUESTIONS:
            is_open = session.memory.open_request is not None
            assert (await session.run(agent, [] if is_open else question)).final_output == "3 submitted"
    check(server, open_request=session.memory.open_request)


async def test_pydantic_ai(server: FakeOpenAI) -> None:
    capability = AutoContextCapability()
    async with AsyncOpenAI(base_url=server.base_url, api_key="test-key", max_retries=0) as client:
        model = PydanticModel("m", provider=OpenAIProvider(openai_client=client))
        agent = pydantic_ai.Agent(model, output_type=Disks, capabilities=[capability])
        for question in QUESTIONS:
            is_open = capability.memory("42").open_request is not None
            assert (await agent.run(None if is_open else question, conversation_id="42")).output == Disks(failed=3)
    check(server, open_request=capability.memory("42").open_request)


def test_langchain(server: FakeOpenAI) -> None:
    middleware = LangChainMiddleware()
    model = chat_openai(server.base_url)
    form = ToolStrategy(Disks)
    agent: Any = create_agent(model, [], middleware=[middleware], response_format=form, checkpointer=InMemorySaver())
    for question in QUESTIONS:
        is_open = middleware.memory("42").open_request is not None
        said = [] if is_open else [{"role": "user", "content": question}]
        result = agent.invoke({"messages": said}, {"configurable": {"thread_id": "42"}})
        assert result["structured_response"] == Disks(failed=3)
    check(server, open_request=middleware.memory("42").open_request)


async def test_agentscope(server: FakeOpenAI) -> None:
    middleware = AgentScopeMiddleware()
    async with httpx.AsyncClient() as http:
        model = OpenAIChatModel(
            credential=OpenAICredential(api_key="test-key", base_url=server.base_url),
            model="m",
            stream=False,
            client_kwargs={"http_client": http},
        )
        for question in QUESTIONS:
            agent = AgentScopeAgent(
                name="a",
                system_prompt="x",
                model=model,
                toolkit=Toolkit(tools=[]),
                middlewares=[middleware],
                state=AgentState(session_id="42"),
            )
            is_open = middleware.memory("42").open_request is not None
            await agent.reply(None if is_open else UserMsg("user", question), structured_schema=Disks)
    check(server, open_request=middleware.memory("42").open_request)


async def test_agentscope_ends_a_cancelled_run_as_if_it_had_an_answer(server: FakeOpenAI) -> None:
    middleware, begun = AgentScopeMiddleware(), asyncio.Event()

    async def submit(failed: int) -> str:
        """Submit the failed disks."""
        begun.set()
        await asyncio.sleep(60)
        return str(failed)

    async with httpx.AsyncClient() as http:
        agent = AgentScopeAgent(
            name="a",
            system_prompt="x",
            model=OpenAIChatModel(
                credential=OpenAICredential(api_key="test-key", base_url=server.base_url),
                model="m",
                stream=False,
                client_kwargs={"http_client": http},
            ),
            toolkit=Toolkit(tools=[FunctionTool(submit, permission=ALLOW)]),
            middlewares=[middleware],
            state=AgentState(session_id="42"),
        )
        run = asyncio.ensure_future(agent.reply(UserMsg("user", QUESTIONS[0])))
        await asyncio.wait_for(begun.wait(), 30)
        run.cancel()
        await asyncio.wait([run])
    request = middleware.memory("42").open_request
    assert request is not None
    assert request.text == QUESTIONS[0]
