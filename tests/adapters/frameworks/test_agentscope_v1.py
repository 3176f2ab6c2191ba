"""AgentScope 1's own agent loop with AutoContextAgentScopeMemory, against the contract."""

from __future__ import annotations

from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock
from agentscope.model import OpenAIChatModel
from agentscope.tool import Toolkit, ToolResponse

from autocontext import AutoContextMemory
from autocontext.adapters.agentscope_v1 import AutoContextAgentScopeMemory
from tests.adapters.contract.driver import Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract


class AgentScopeDriver:
    """An agent with this memory and nothing else that holds the conversation."""

    modes = ("async", "async stream")

    def __init__(self, setup: Setup) -> None:
        read_part = setup.tool

        async def wrapped(number: int, command: str = "") -> ToolResponse:
            text = await read_part(number, command) if setup.waiting else read_part(number, command)
            return ToolResponse(content=[TextBlock(type="text", text=text)])

        wrapped.__name__, wrapped.__doc__ = "read_part", read_part.__doc__
        toolkit = Toolkit()
        toolkit.register_tool_function(wrapped)
        self._setup = setup
        self._memory = AutoContextAgentScopeMemory(**setup.adapter)
        self._agent = ReActAgent(
            name="agent",
            sys_prompt=setup.system,
            model=self._model(stream=False),
            formatter=OpenAIChatFormatter(),
            toolkit=toolkit,
            max_iters=100,
        )
        self._agent.set_console_output_enabled(False)
        self._memory.attach(self._agent)

    def _model(self, *, stream: bool) -> OpenAIChatModel:
        client = {
            "base_url": self._setup.base_url,
            "timeout": self._setup.timeout,
            "max_retries": self._setup.retries,
        }
        return OpenAIChatModel("m", api_key=self._setup.api_key, stream=stream, client_kwargs=client)

    @property
    def memory(self) -> AutoContextMemory:
        return self._memory.memory

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        raise NotImplementedError

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        model = self._agent.model = self._model(stream=stream)
        content: Any = text
        if image is not None:
            media_type, data = image.removeprefix("data:").split(";base64,")
            source = {"type": "base64", "media_type": media_type, "data": data}
            content = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        try:
            return str((await self._agent(Msg("user", content, "user"))).get_text_content())
        finally:
            await model.client.close()

    def history(self) -> Any:
        return None

    async def aclose(self) -> None:
        """Each question has closed its client."""


class TestAgentScope1(AdapterContract):
    driver = AgentScopeDriver


class TestMemoryOptions(OptionsContract):
    adapter = AutoContextAgentScopeMemory
