"""AgentScope 2: a middleware that sends the model the memory's view; the agent's own state stays complete.

    agent = Agent(..., middlewares=[AutoContextMiddleware.open("agent.db", window="100k")])

It takes the place of the agent's own compression, puts `context_reload` into the toolkit and its instructions into the
system prompt. Each session id of an AgentState has a memory of its own. Written against 2.0.10.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Unpack

from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import needs_extra
from autocontext.formats.refusals import asent
from autocontext.formats.usage import with_cached
from autocontext.memory import AutoContextMemory, learn_usage
from autocontext.plan import plan_of
from autocontext.tools import INSTRUCTIONS

with needs_extra("autocontext.adapters.agentscope_v2", "agentscope"):
    from agentscope.message import AssistantMsg
    from agentscope.message import Msg as AgentScopeMsg
    from agentscope.middleware import MiddlewareBase
    from agentscope.model import AnthropicChatModel
    from agentscope.tool import ToolBase

    from autocontext.adapters._agentscope_v2_messages import (
        changed_parts,
        from_agentscope,
        seen_blocks,
        to_agentscope,
        trailing_hints,
        without_length,
    )
    from autocontext.adapters._agentscope_v2_offloading import AgentOffloader, AutoContextOffloader, serving, tools_of

__all__ = ["AutoContextMiddleware", "AutoContextOffloader", "from_agentscope", "to_agentscope"]


class AutoContextMiddleware(Openable, MiddlewareBase):
    """Sends the model the memory's view instead of the whole context, and gives the agent `context_reload`.

    With `memory` or `session_id` it serves that one conversation, otherwise one for each `AgentState.session_id`. An
    agent without an offloader gets one that keeps what it cuts off large tool results. Raises ConfigError when the
    middleware is bound to one conversation and run with a second session.
    """

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        self._sessions = Sessions(memory, **options)
        self._has_plan = options.get("plan") is not None
        self._seen: dict[str, dict[str, int]] = {}
        self.tools: list[ToolBase] = tools_of(self._sessions)

    def memory(self, session_id: str = "") -> AutoContextMemory:
        """The memory of a session; of the one conversation when the middleware is bound to it."""
        return self._sessions.bound or self._sessions.of(session_id)

    async def list_tools(self) -> list[ToolBase]:
        """The memory's tools; the middleware puts them into the agent's toolkit by itself."""
        return self.tools

    # ------------------------------------------------------------------------------------------------------- hooks
    async def on_reply(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Equip the agent; at the end keep what it has said."""
        await self._sessions.abegin(agent.state.session_id)
        self._seen.pop(agent.state.session_id, None)
        for tool in self.tools:
            if await agent.toolkit.get_tool(tool.name) is None:
                await agent.toolkit.add_tool(tool)
        if agent.offloader is None:
            agent.offloader = AgentOffloader(self._sessions, agent)
        ended = ""
        try:
            async for item in next_handler(**input_kwargs):
                ended = getattr(item, "finished_reason", ended)
                yield item
        except BaseException:
            self._follow(agent)
            raise
        memory = self._follow(agent)
        if ended == "completed":  # and not interrupted, or out of iterations
            memory.close_request()

    async def on_compress_context(
        self,
        agent: Any,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., Any],  # noqa: ARG002 (not called: this replaces the agent's own compression)
    ) -> None:
        """In place of the agent's own compression; one that is asked for by hand is done at once."""
        memory = self._follow(agent)
        if any(value is not None for value in input_kwargs.values()):
            await memory.acompress_if_needed(force=True)

    async def on_system_prompt(self, agent: Any, current_prompt: str) -> str:  # noqa: ARG002 (the hook's form)
        """Add the instructions for tags."""
        return f"{current_prompt}\n\n{INSTRUCTIONS}"

    async def on_model_call(self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]) -> Any:
        """Call the model with the memory's view; what is refused as too long is made smaller and sent once more."""
        ask = partial(self._ask, agent, input_kwargs, next_handler)
        return await asent(ask, lambda: self._sessions.of(agent.state.session_id))

    async def on_acting(
        self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """Keep the call before the tool runs: a process that ends within the tool leaves it in the memory.

        The memory's tools are answered from this agent's memory, also where agents share a toolkit.
        """
        self._follow(agent)
        serving.set((agent.state, self._sessions))
        async for item in next_handler(**input_kwargs):
            yield item

    # ------------------------------------------------------------------------------------------------------- parts
    async def _ask(self, agent: Any, input_kwargs: dict[str, Any], next_handler: Callable[..., Any]) -> Any:
        memory = self._follow(agent)
        head, tail = _passing(agent.state.context, input_kwargs["messages"])
        if hints := trailing_hints(agent.state.context, agent.injection_config.injection_source):
            tail.insert(0, AssistantMsg(name=agent.name, content=[without_length(hint) for hint in hints]))
        if not self._has_plan and (tasks := agent.state.tasks_context.tasks):
            memory.attach_plan_note(plan_of("task list", ((t.subject, t.state) for t in tasks)))
        besides = [b for m in (*head, *tail) for b in m.content]
        overhead = [b.text if b.type == "text" else str(b.hint) for b in besides if b.type in ("text", "hint")]
        memory.set_overhead(*overhead, *input_kwargs["tools"])
        view = await memory.aget_messages()
        messages = [*head, *to_agentscope(memory.as_sent(view)), *tail]
        answer = await next_handler(**{**input_kwargs, "messages": messages})

        def learn(answer: Any) -> None:
            learn_usage(memory, view, _input_tokens(getattr(answer, "usage", None), input_kwargs.get("current_model")))

        if isinstance(answer, AsyncGenerator):
            return _watched(answer, learn)
        learn(answer)
        return answer

    def _follow(self, agent: Any) -> AutoContextMemory:
        """Add what is new in the agent's context, block by block; a call that the user has corrected is read anew."""
        session = agent.state.session_id
        memory = self._sessions.of(session)
        if session not in self._seen:
            self._seen[session] = seen_blocks(memory.get_original_memory_msgs())
        seen = self._seen[session]
        start, changed = changed_parts(agent.state.context, memory.messages)
        if changed:
            memory.follow((), gone=[m.id for m in changed])
            seen[agent.state.context[-1].id] = start
        new = from_agentscope(agent.state.context, seen, runtime=agent.injection_config.injection_source)
        if new:
            memory.add_messages(new)
            for id_, until in seen_blocks(new).items():
                seen[id_] = max(until, seen.get(id_, 0))
        return memory


def _passing(
    context: Sequence[AgentScopeMsg], messages: Sequence[AgentScopeMsg]
) -> tuple[list[AgentScopeMsg], list[AgentScopeMsg]]:
    """What stands in a request before the context (system prompt, summary), and what others have put in behind."""
    own = {m.id for m in context}
    first = next((i for i, m in enumerate(messages) if m.id in own), len(messages))
    return list(messages[:first]), [m for m in messages[first:] if m.id not in own]


async def _watched(answer: AsyncGenerator[Any, None], learn: Callable[[Any], None]) -> AsyncGenerator[Any, None]:
    """A streamed answer; `learn` gets its last chunk, which holds all."""
    async with aclosing(answer):
        async for chunk in answer:
            if chunk.is_last:
                learn(chunk)
            yield chunk


def _input_tokens(usage: Any, model: object) -> Any:
    """The input tokens of a request, by whichever model."""
    if usage is None or not isinstance(model, AnthropicChatModel):
        return getattr(usage, "input_tokens", None)
    return with_cached(usage.input_tokens, (usage.cache_creation_input_tokens, usage.cache_input_tokens))
