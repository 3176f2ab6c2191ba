"""LangChain's own agent loop with AutoContextMiddleware, against the contract."""

from __future__ import annotations

from typing import Any

import httpx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from autocontext import AutoContextMemory
from autocontext.adapters.langchain import AutoContextMiddleware
from tests.adapters.contract.driver import Setup
from tests.adapters.contract.options import OptionsContract
from tests.adapters.contract.suite import AdapterContract
from tests.adapters.contract.usage import RefusalContract


def chat_openai(base_url: str, *, api_key: str = "test-key", max_retries: int = 0, **named: Any) -> ChatOpenAI:
    """A model whose connections end with each request.

    Those of its own clients stay open beyond the loop of a test, until they are garbage in some later test.
    """
    limits = httpx.Limits(max_keepalive_connections=0)
    return ChatOpenAI(
        model="m",
        base_url=base_url,
        api_key=api_key,
        max_retries=max_retries,
        http_client=httpx.Client(limits=limits),
        http_async_client=httpx.AsyncClient(limits=limits),
        **named,
    )


class LangchainDriver:
    """An agent without a checkpointer: the middleware alone holds the session."""

    modes = ("sync", "sync stream", "async", "async stream")

    def __init__(self, setup: Setup) -> None:
        model = chat_openai(
            setup.base_url,
            api_key=setup.api_key,
            timeout=setup.timeout,
            max_retries=setup.retries,
            stream_usage=True,
        )
        self._middleware = AutoContextMiddleware(**setup.adapter)
        self._agent = create_agent(model, [tool(setup.tool)], system_prompt=setup.system, middleware=[self._middleware])
        self._held: list[Any] = []

    @property
    def memory(self) -> AutoContextMemory:
        return self._middleware.memory()

    def ask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        if not stream:
            return self._answer(self._agent.invoke(_input(text, image), LIMIT))
        for mode, found in self._agent.stream(_input(text, image), LIMIT, stream_mode=["messages", "values"]):
            if mode == "values":
                last = found
        return self._answer(last)

    async def aask(self, text: str, *, stream: bool = False, image: str | None = None) -> str:
        if not stream:
            return self._answer(await self._agent.ainvoke(_input(text, image), LIMIT))
        async for mode, found in self._agent.astream(_input(text, image), LIMIT, stream_mode=["messages", "values"]):
            if mode == "values":
                last = found
        return self._answer(last)

    def _answer(self, state: Any) -> str:
        self._held = state["messages"]
        assert isinstance(self._held[-1], AIMessage)
        return str(self._held[-1].text)

    def history(self) -> Any:
        return [m.model_dump(mode="json") for m in self._held]

    async def aclose(self) -> None:
        """Nothing is open."""


LIMIT: Any = {"recursion_limit": 500}


def _input(text: str, image: str | None) -> Any:
    if image is None:
        return {"messages": [{"role": "user", "content": text}]}
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}]
    return {"messages": [{"role": "user", "content": parts}]}


class TestLangchain(AdapterContract):
    driver = LangchainDriver


class TestLangchainUsage(RefusalContract):
    driver = LangchainDriver


class TestLangChainOptions(OptionsContract):
    adapter = AutoContextMiddleware
