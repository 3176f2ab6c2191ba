"""The OpenAI Agents SDK's own loop with AutoContextSession, over chat completions and over the Responses API."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from autocontext import AutoContextMemory
from autocontext.adapters.openai_agents import AutoContextSession
from tests.adapters.contract.driver import Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract
from tests.adapters.contract.usage import UsageContract

set_tracing_disabled(disabled=True)


class AgentsDriver:
    """An agent with a session, and the session's filter."""

    modes = ("sync", "async", "async stream")
    model: ClassVar[type[Any]] = OpenAIChatCompletionsModel

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._session = AutoContextSession(**setup.adapter)
        self._client: AsyncOpenAI | None = None

    @property
    def memory(self) -> AutoContextMemory:
        return self._session.memory

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        try:
            return str(Runner.run_sync(self._agent(), _input(text, image), **self._run).final_output)
        finally:
            # The SDK keeps a loop open for each thread that calls run_sync.
            loop = asyncio.get_event_loop_policy().get_event_loop()
            loop.run_until_complete(self.aclose())
            loop.close()
            asyncio.set_event_loop(None)

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        if not stream:
            return str((await Runner.run(self._agent(), _input(text, image), **self._run)).final_output)
        result = Runner.run_streamed(self._agent(), _input(text, image), **self._run)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    @property
    def _run(self) -> dict[str, Any]:
        return {"session": self._session, "run_config": self._session.run_config(), "max_turns": 100}

    def _agent(self) -> Agent[Any]:
        setup = self._setup
        if self._client is None:
            self._client = AsyncOpenAI(
                api_key=setup.api_key, base_url=setup.base_url, timeout=setup.timeout, max_retries=setup.retries
            )
        return Agent(
            name="reader",
            instructions=setup.system,
            model=self.model("m", openai_client=self._client),
            model_settings=ModelSettings(include_usage=True),
            tools=[function_tool(setup.tool, failure_error_function=None), *self._session.tools],
        )

    def history(self) -> Any:
        return None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def _input(text: str, image: str | None) -> Any:
    if image is None:
        return text
    parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": image, "detail": "auto"}]
    return [{"role": "user", "content": parts}]


class ResponsesDriver(AgentsDriver):
    model = OpenAIResponsesModel


class TestChatCompletions(AdapterContract):
    driver = AgentsDriver


class TestResponses(AdapterContract):
    driver = ResponsesDriver


class TestChatCompletionsUsage(UsageContract):
    driver = AgentsDriver


class TestResponsesUsage(UsageContract):
    driver = ResponsesDriver


class TestSessionOptions(OptionsContract):
    adapter = AutoContextSession
