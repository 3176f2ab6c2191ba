"""pydantic-ai's own loop with AutoContextCapability, against the contract."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.capabilities import PrepareTools
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from autocontext import AutoContextMemory
from autocontext.adapters.pydantic_ai import AutoContextCapability
from tests.adapters.contract.driver import IMAGE, Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract
from tests.adapters.contract.usage import RefusalContract
from tests.fakes.http_server import Reply
from tests.fakes.openai_server import FakeOpenAI

LIMITS = UsageLimits(request_limit=200)


class PydanticDriver:
    """An agent without a message history: the capability alone holds the session."""

    modes = ("sync", "async", "async stream")
    model: ClassVar[Any] = OpenAIChatModel

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._capability = AutoContextCapability(**setup.adapter)
        self._client: AsyncOpenAI | None = None
        self._held: list[Any] = []

    @property
    def memory(self) -> AutoContextMemory:
        return self._capability.memory()

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        try:
            result = self._agent().run_sync(_input(text, image), usage_limits=LIMITS)
        finally:
            # run_sync keeps a loop open for each thread.
            loop = asyncio.get_event_loop_policy().get_event_loop()
            loop.run_until_complete(self.aclose())
            loop.close()
            asyncio.set_event_loop(None)
        self._held = result.all_messages()
        return str(result.output)

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        # Not run_stream: it takes the first text for the answer, also beside tool calls.
        handler = _watch if stream else None
        result = await self._agent().run(_input(text, image), usage_limits=LIMITS, event_stream_handler=handler)
        self._held = result.all_messages()
        return str(result.output)

    def _agent(self) -> Agent[Any, str]:
        setup = self._setup
        if self._client is None:
            self._client = AsyncOpenAI(
                api_key=setup.api_key, base_url=setup.base_url, timeout=setup.timeout, max_retries=setup.retries
            )
        model = self.model("m", provider=OpenAIProvider(openai_client=self._client))
        return Agent(model, instructions=setup.system, tools=[setup.tool], capabilities=[self._capability])

    def history(self) -> Any:
        return ModelMessagesTypeAdapter.dump_python(self._held, mode="json")

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


async def _watch(_ctx: Any, events: Any) -> None:
    """With a handler of events, pydantic-ai streams."""
    async for _ in events:
        pass


def _input(text: str, image: str | None) -> Any:
    return text if image is None else [text, BinaryContent(data=IMAGE, media_type="image/png")]


class ResponsesDriver(PydanticDriver):
    model = OpenAIResponsesModel


class TestChatCompletions(AdapterContract):
    driver = PydanticDriver


class TestResponses(AdapterContract):
    driver = ResponsesDriver


class TestChatCompletionsUsage(RefusalContract):
    driver = PydanticDriver


class TestResponsesUsage(RefusalContract):
    driver = ResponsesDriver


async def _without_reload(_ctx: Any, tools: list[Any]) -> list[Any]:
    return [tool for tool in tools if tool.name != "context_reload"]


@pytest.mark.parametrize("others", [[], [PrepareTools(_without_reload)]])
def test_instructions_name_the_tool_only_where_it_is(others: list[Any]) -> None:
    async def asked(base_url: str) -> None:
        async with AsyncOpenAI(api_key="test-key", base_url=base_url) as client:
            model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, instructions="Be brief.", capabilities=[AutoContextCapability(), *others])
            await agent.run("Hello.")

    with FakeOpenAI(default=Reply(text="Hello.")) as server:
        asyncio.run(asked(server.base_url))
    sent = str(server.requests[0].body)
    assert "Be brief." in sent
    assert ("context_reload" in sent) is (not others)


class TestCapabilityOptions(OptionsContract):
    adapter = AutoContextCapability
