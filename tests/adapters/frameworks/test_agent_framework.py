"""agent-framework's own agent loop with AutoContextCompaction, against the contract."""

from __future__ import annotations

from typing import Any

from agent_framework import Agent, Content, Message, tool
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from autocontext import AutoContextMemory
from autocontext.adapters.agent_framework import AutoContextCompaction, _input_tokens
from tests.adapters.contract.driver import Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract
from tests.adapters.contract.usage import RefusalContract


class AgentFrameworkDriver:
    """An agent whose session is not saved: the provider alone holds the conversation."""

    modes = ("async", "async stream")

    def __init__(self, setup: Setup) -> None:
        self._client = AsyncOpenAI(
            api_key=setup.api_key, base_url=setup.base_url, timeout=setup.timeout, max_retries=setup.retries
        )
        self._compaction = AutoContextCompaction(**setup.adapter)
        client = OpenAIChatCompletionClient(model="m", async_client=self._client)
        client.function_invocation_configuration["max_iterations"] = 100
        self._agent = Agent(
            client,
            instructions=setup.system,
            tools=[tool(approval_mode="never_require")(setup.tool)],
            context_providers=[self._compaction],
        )
        self._session = self._agent.create_session(session_id=setup.session_id)

    @property
    def memory(self) -> AutoContextMemory:
        return self._compaction.memory()

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        raise NotImplementedError

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        given: Any = text
        if image is not None:
            given = Message("user", [text, Content.from_uri(image, media_type="image/png")])
        if not stream:
            return (await self._agent.run(given, session=self._session)).messages[-1].text
        streamed = self._agent.run(given, session=self._session, stream=True)
        async for _ in streamed:
            pass
        return (await streamed.get_final_response()).messages[-1].text

    def history(self) -> Any:
        return None

    async def aclose(self) -> None:
        await self._client.close()


class TestAgentFramework(AdapterContract):
    driver = AgentFrameworkDriver
    lets_numbers_pass = False  # it holds what the model passes against the schema itself


class TestAgentFrameworkUsage(RefusalContract):
    driver = AgentFrameworkDriver


class TestCompactionOptions(OptionsContract):
    adapter = AutoContextCompaction
    own_options = ("source_id",)


def test_what_anthropic_s_cache_had_counts_and_two_counts_of_a_stream_do_not() -> None:
    """The keys are those of agent-framework-anthropic, in which each event of a stream tells the whole."""
    openai = {"input_token_count": 900, "cache_read_input_token_count": 800}
    cached = {"anthropic.cache_read_input_tokens": 800, "anthropic.cache_creation_input_tokens": 50}
    anthropic = {"input_token_count": 50, "cache_read_input_token_count": 800, **cached}
    assert [_input_tokens(usage, is_streamed=False) for usage in (openai, anthropic, {})] == [900, 900, None]
    assert [_input_tokens(usage, is_streamed=True) for usage in (openai, anthropic, {})] == [900, None, None]
