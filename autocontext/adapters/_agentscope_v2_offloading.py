"""What an AgentScope 2 agent takes out of its context, kept in the memory; and the tool that finds it again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Unpack

from agentscope.message import AssistantMsg, DataBlock, TextBlock, ToolResultBlock, ToolResultState, URLSource
from agentscope.message import Msg as AgentScopeMsg
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, ToolBase, ToolChunk

from autocontext.adapters._agentscope_v2_messages import from_agentscope
from autocontext.adapters._sessions import Sessions, described
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.memory import AutoContextMemory
from autocontext.text.rendering import tag

_ONLY_READ = ("context_reload", "context_status", "context_search")


class AutoContextOffloader(Openable):
    """Keeps in the memory what an AgentScope 2 agent takes out of its context; `context_reload` finds it.

    For an agent that compresses by itself: `Agent(..., offloader=AutoContextOffloader(memory))`. With the middleware
    there is no need of it.
    """

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        self._sessions = Sessions(memory, **options)
        self.tools: list[ToolBase] = tools_of(self._sessions)

    async def offload_data_block(self, block: DataBlock) -> DataBlock:
        """Keep a file; the block that takes its place names it by a UUID of the memory.

        The agent does not say whose file it is. An offloader that serves many sessions leaves it as it is.
        """
        memory = self._whose()
        if memory is None or isinstance(block.source, URLSource):
            return block
        key = self._keep(memory, [AgentScopeMsg(name="user", role="user", content=[block])])
        source = URLSource(url=f"autocontext://{key}", media_type=block.source.media_type)
        return DataBlock(id=block.id, source=source, name=block.name)

    async def offload_context(self, session_id: str, msgs: Sequence[AgentScopeMsg]) -> str:
        """Keep messages that were compressed; gives the tag with their UUID."""
        return tag(self._keep(self._sessions.of(session_id), msgs))

    async def offload_tool_result(self, session_id: str, tool_result: ToolResultBlock) -> str:
        """Keep the rest of a tool's result that was cut; gives the tag with its UUID."""
        kept = AssistantMsg(name="tool", content=[tool_result])
        return tag(self._keep(self._sessions.of(session_id), [kept]))

    def _whose(self) -> AutoContextMemory | None:
        return self._sessions.bound

    @staticmethod
    def _keep(memory: AutoContextMemory, msgs: Sequence[AgentScopeMsg]) -> str:
        key = str(uuid.uuid4())
        memory.offload(key, from_agentscope(msgs))
        return key


class AgentOffloader(AutoContextOffloader):
    """The offloader of one agent, whose state tells the session."""

    def __init__(self, sessions: Sessions, agent: Any) -> None:
        super().__init__()
        self._sessions, self._agent = sessions, agent

    def _whose(self) -> AutoContextMemory:
        return self._sessions.of(self._agent.state.session_id)


serving: ContextVar[tuple[Any, Sessions | None]] = ContextVar("serving", default=(None, None))
"""The state and the memories of the agent that is calling a tool: one that it shares with others may be another's."""


def tools_of(sessions: Sessions) -> list[ToolBase]:
    """The tools of the memories, for a toolkit; `context_reload` first."""
    return [_tool(tool, sessions) for tool in described(sessions.config)]


def _tool(tool: dict[str, Any], sessions: Sessions) -> ToolBase:
    async def call(_agent_state: Any = None, **arguments: Any) -> ToolChunk:
        state, theirs = serving.get()
        whose = theirs if theirs is not None and state is _agent_state else sessions
        memory = sessions.one() if _agent_state is None else whose.of(_agent_state.session_id)
        [own] = memory.tools(tool["name"])
        text = await own.acall(**arguments)
        return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.SUCCESS)

    return FunctionTool(
        call,
        name=tool["name"],
        description=tool["description"],
        input_schema=tool["parameters"],
        is_read_only=tool["name"] in _ONLY_READ,
        is_state_injected=True,
        permission=PermissionDecision(
            behavior=PermissionBehavior.ALLOW, message="It works on this conversation's own messages."
        ),
    )
