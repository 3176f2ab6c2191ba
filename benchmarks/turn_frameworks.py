"""The checks and passes of langchain, AgentScope 2, agent-framework and openai-agents, as `turn` measures them."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peer_agent_framework as maf
import peer_langchain as lc
from agent_framework import (
    ContextWindowCompactionStrategy,
    Message,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    apply_compaction,
)
from agents import SQLiteSession
from chat import Chat, Tokens
from langchain.agents.middleware import ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from peer_agentscope import AgentScope2

FAR = 10**9
"""A trigger in tokens that is never reached."""


def langchain_messages(chat: list[Chat]) -> list[BaseMessage]:
    return [lc.from_chat(m, f"m{i}") for i, m in enumerate(chat)]


def langchain_summarization(chat: list[Chat]) -> Callable[[], object]:
    """SummarizationMiddleware.before_model with its approximate counter."""
    middleware = SummarizationMiddleware(model=FakeListChatModel(responses=["-"]), trigger=("tokens", FAR))
    state: Any = {"messages": langchain_messages(chat)}
    return lambda: middleware.before_model(state, None)


def langchain_editing(chat: list[Chat]) -> Callable[[], object]:
    """ContextEditingMiddleware.wrap_model_call with its default trigger of 100,000 tokens moved out of reach."""
    middleware = ContextEditingMiddleware(edits=[lc.ClearToolUsesEdit(trigger=FAR)])
    model = FakeListChatModel(responses=["-"])
    request = ModelRequest(model=model, messages=langchain_messages(chat), state={"messages": []})
    return lambda: middleware.wrap_model_call(request, lambda request_: request_)  # type: ignore[arg-type,return-value]


class _Bytes(Tokens):
    """AgentScope 2 estimates tokens from bytes; so does this."""

    def __init__(self) -> None:
        super().__init__()
        self.text = lambda text: len(text.encode()) // 4


def agentscope_2(chat: list[Chat]) -> Callable[[], object]:
    """Agent.compress_context, tokens estimated from bytes as its own counter does."""
    policy = AgentScope2(FAR, _Bytes())
    policy.step(chat)
    assert policy.agent is not None
    return policy.agent.compress_context


def framework_messages(chat: list[Chat]) -> list[Message]:
    return [maf.from_chat(m, f"m{i}") for i, m in enumerate(chat)]


def compaction(strategy_of: Callable[[Any], Any]) -> Callable[[list[Chat]], Callable[[], object]]:
    """A turn of agent-framework: one more message, then the strategy; earlier ones are annotated already."""

    def prepared(chat: list[Chat]) -> Callable[[], object]:
        counting = maf.Counting(Tokens())
        strategy, messages = strategy_of(counting), framework_messages(chat)

        async def check() -> object:
            messages.append(maf.from_chat({"role": "user", "content": "one more"}, f"m{len(messages)}"))
            return await apply_compaction(messages, strategy=strategy, tokenizer=counting)

        return check

    return prepared


def context_window(counting: Any) -> Any:
    return ContextWindowCompactionStrategy(max_context_window_tokens=FAR, max_output_tokens=0, tokenizer=counting)


def token_budget(counting: Any) -> Any:
    return TokenBudgetComposedStrategy(
        token_budget=FAR, tokenizer=counting, strategies=[ToolResultCompactionStrategy(keep_last_tool_call_groups=4)]
    )


def openai_session(chat: list[Chat]) -> Callable[[], object]:
    """SQLiteSession.get_items out of a file; it checks nothing."""
    folder = tempfile.TemporaryDirectory()
    session = SQLiteSession("turn", Path(folder.name) / "session.db")
    roles = {"tool": "user"}
    items: Any = [{"role": roles.get(m["role"], m["role"]), "content": str(m.get("content"))} for m in chat]
    asyncio.run(session.add_items(items))

    async def check() -> object:
        assert folder  # kept as long as the check
        return await session.get_items()

    return check


def langchain_pass(chat: list[Chat], latency: float) -> tuple[float, dict[str, Any]]:
    """One summary of everything but the newest 20 messages."""
    calls = 0

    async def summary(_: object) -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(latency)
        return "What came before."

    middleware = SummarizationMiddleware(
        model=FakeListChatModel(responses=["-"]), trigger=("messages", 50), summarizer=summary
    )
    state: Any = {"messages": langchain_messages(chat)}
    begun = time.perf_counter()
    changed = asyncio.run(middleware.abefore_model(state, None))  # type: ignore[arg-type]
    elapsed = time.perf_counter() - begun
    assert changed is not None
    return elapsed, {"calls": calls, "messages left": len(changed["messages"]) - 1, "of": len(chat)}


def framework_pass(chat: list[Chat], latency: float) -> tuple[float, dict[str, Any]]:
    """SummarizationStrategy with its defaults, again and again until nothing is left to summarise."""
    calls = 0

    class Slow:
        async def get_response(self, *_: Any, **__: Any) -> maf.Reply:
            nonlocal calls
            calls += 1
            await asyncio.sleep(latency)
            return maf.Reply("What came before.")

    strategy, messages = SummarizationStrategy(client=Slow()), framework_messages(chat)
    begun = time.perf_counter()
    left = asyncio.run(apply_compaction(messages, strategy=strategy))
    elapsed = time.perf_counter() - begun
    return elapsed, {"calls": calls, "messages left": len(left), "of": len(chat)}


CHECKS = {
    "langchain SummarizationMiddleware": langchain_summarization,
    "langchain ContextEditingMiddleware": langchain_editing,
    "agentscope 2 compress_context": agentscope_2,
    "agent-framework ContextWindow": compaction(context_window),
    "agent-framework TokenBudget": compaction(token_budget),
    "openai-agents SQLiteSession, no check": openai_session,
}
PASSES = {
    "langchain SummarizationMiddleware": langchain_pass,
    "agent-framework SummarizationStrategy": framework_pass,
}
