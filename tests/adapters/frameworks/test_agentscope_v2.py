"""AgentScope 2's own agent loop with AutoContextMiddleware, against the contract."""

from __future__ import annotations

from typing import Any

import httpx
from agentscope.agent import Agent, ReActConfig
from agentscope.credential import OpenAICredential
from agentscope.message import Base64Source, DataBlock, TextBlock, UserMsg
from agentscope.model import AnthropicChatModel, ChatUsage, OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit

from autocontext import AutoContextMemory
from autocontext.adapters.agentscope_v2 import AutoContextMiddleware, AutoContextOffloader, _input_tokens
from tests.adapters.contract.driver import WINDOW, Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract
from tests.adapters.contract.usage import RefusalContract

ALLOW = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="It only reads.")


class AgentScopeDriver:
    """An agent whose state is not saved: the middleware alone holds the session."""

    modes = ("async", "async stream")

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._http: httpx.AsyncClient | None = None
        self._middleware = AutoContextMiddleware(**setup.adapter)
        self._agent = Agent(
            name="agent",
            system_prompt=setup.system,
            model=self._model(stream=False),
            toolkit=Toolkit(tools=[FunctionTool(setup.tool, permission=ALLOW)]),
            middlewares=[self._middleware],
            react_config=ReActConfig(max_iters=100),
        )

    def _model(self, *, stream: bool) -> OpenAIChatModel:
        setup = self._setup
        return OpenAIChatModel(
            credential=OpenAICredential(api_key=setup.api_key, base_url=setup.base_url),
            model="m",
            stream=stream,
            context_size=WINDOW,
            max_retries=setup.retries,
            # A client of ours: the model makes one for each call and never closes it.
            client_kwargs={"timeout": setup.timeout, "max_retries": setup.retries, "http_client": self._http},
        )

    @property
    def memory(self) -> AutoContextMemory:
        return self._middleware.memory()

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        raise NotImplementedError

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        self._http = self._http or httpx.AsyncClient()
        self._agent.model = self._model(stream=stream)
        content: Any = text
        if image is not None:
            media_type, data = image.removeprefix("data:").split(";base64,")
            content = [TextBlock(text=text), DataBlock(source=Base64Source(data=data, media_type=media_type))]
        if not stream:
            return str((await self._agent.reply(UserMsg("user", content))).get_text_content())
        async for item in self._agent.reply_stream(UserMsg("user", content), yield_final_msg=True):
            last = item
        return str(last.get_text_content())

    def history(self) -> Any:
        return [m.model_dump(mode="json") for m in self._agent.state.context]

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()


class TestAgentScope2Usage(RefusalContract):
    driver = AgentScopeDriver


class TestAgentScope2(AdapterContract):
    driver = AgentScopeDriver


class TestMiddlewareOptions(OptionsContract):
    adapter = AutoContextMiddleware


class TestOffloaderOptions(OptionsContract):
    adapter = AutoContextOffloader


def test_what_anthropic_s_cache_had_counts() -> None:
    """Of the others it is a part of the input."""
    usage = ChatUsage(50, 7, 0.1, cache_creation_input_tokens=50, cache_input_tokens=800)
    models = [kind.__new__(kind) for kind in (AnthropicChatModel, OpenAIChatModel)]
    assert [_input_tokens(usage, model) for model in models] == [900, 50]
    assert _input_tokens(None, models[0]) is None
