"""An MCP server over one session and one user of a database: what was said, what was stored, what is remembered.

    python -m autocontext mcp --db agent.db --session chat-7 --user ann

Its tools are context_reload, content_search, memory_search and memory_add (the last two where a user is named); with
`steering` in the configuration those that steer the context. Session and user are fixed when it starts: nothing that a
model passes leads to another's. Written against mcp 1.30 and 2.3.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from autocontext import __version__
from autocontext.errors import AutoContextError, needs_extra
from autocontext.flows import Flow, compute
from autocontext.formats.agent_tools import AgentTool
from autocontext.memories import memory_tools
from autocontext.stores.checks import whole_or
from autocontext.suite import AutoContext
from autocontext.text.quoting import quoted
from autocontext.tools import INSTRUCTIONS, ContextOffloadTool

with needs_extra("autocontext.adapters.mcp_server", "mcp"):
    from anyio import wrap_file
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from autocontext.content.store import ContentStore

__all__ = ["AutoContextTools", "create_server", "serve"]

Answering: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[list[types.TextContent]]]
"""The answer to a call of a tool, by its name and arguments."""
_MOST = 50
"""Results of one search."""


_PARAMETERS = {
    "query": {"type": "string", "description": "Words to look for."},
    "ref": {"type": "string", "description": "Search only the text with this handle, such as c_9f3a12be7d41."},
    "limit": {"type": "integer", "description": "Most results, 5 if left out.", "minimum": 1, "maximum": _MOST},
}


class _ContentSearch(AgentTool):
    """Searches the texts that were stored for one user."""

    def __init__(self, store: ContentStore, namespace: str) -> None:
        about = "Search the large texts that were stored outside the conversation (tool results, files), by words."
        super().__init__("content_search", about, _PARAMETERS, ["query"])
        self._store, self._namespace = store, namespace

    def _steps(self, arguments: dict[str, Any]) -> Flow[str]:
        query, ref = str(arguments["query"]), str(arguments.get("ref") or "") or None
        limit = whole_or(5, arguments.get("limit") or 5, 1, _MOST)
        hits = yield from compute(lambda: self._store.search(query, ref, limit, namespace=self._namespace))
        if not hits:
            return f"Nothing that is stored matches {query!r}. Try other words."
        passages = (
            f"[{hit.ref}{f' ({hit.name})' if hit.name else ''}, offset {hit.offset}]\n{quoted(hit.text)}"
            for hit in hits
        )
        return "\n\n".join([*passages, "Read on with context_reload: pass the handle and an offset."])


class AutoContextTools:
    """The tools over one session and one user; `offered` by name.

    Whatever a model passes, the answer is a text that it can act on.
    """

    def __init__(self, context: AutoContext, session_id: str, user_id: str = "") -> None:
        self._memory = memory = context.session(session_id, user_id=user_id).memory
        namespace = context.namespace(user_id)
        reload = ContextOffloadTool(memory, content=context.content, content_namespace=namespace)
        steering = memory.tools()[1:] if memory.config.steering else []
        tools: list[Any] = [reload, *steering, _ContentSearch(context.content, namespace)]
        if user_id:
            made = {tool.name: tool for tool in memory_tools(context.memories, user_id=user_id, source=session_id)}
            tools += [made["memory_search"], made["memory_add"]]
        self._tools = {tool.name: tool for tool in tools}
        self.offered = [_described(tool) for tool in tools]
        """Their descriptions for the model."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool says; an error is a text as well."""
        tool = self._tools.get(name)
        if tool is None:
            return f"Error: there is no tool {name!r}; there are {', '.join(self._tools)}."
        try:
            # The agent goes on in its own process: what it has compressed since must be readable too.
            await asyncio.to_thread(self._memory.refresh)
            text: str = await tool.acall(**arguments)
        except AutoContextError as e:
            return f"Error: {e}"
        return text


def _described(tool: Any) -> types.Tool:
    function = tool.schema()["function"]
    return types.Tool(name=function["name"], description=function["description"], inputSchema=function["parameters"])


def create_server(context: AutoContext, session_id: str, user_id: str = "") -> Server[Any, Any]:
    """A server for one session of one user, to be run on any of MCP's transports."""
    tools = AutoContextTools(context, session_id, user_id)

    # Arguments are checked by the tools, whose words a model understands better than a schema's.
    async def answer(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        return [types.TextContent(type="text", text=await tools.call(name, arguments))]

    return _first_version(tools, answer) if hasattr(Server, "list_tools") else _second_version(tools, answer)


def _first_version(tools: AutoContextTools, answer: Answering) -> Server[Any, Any]:
    """The server for mcp 1, where decorators register what it does."""
    server: Server[Any, Any] = Server("autocontext", __version__, instructions=INSTRUCTIONS)

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return tools.offered

    server.call_tool(validate_input=False)(answer)
    return server


def _second_version(tools: AutoContextTools, answer: Answering) -> Any:
    """The server for mcp 2, which takes what it does when it is made."""

    async def list_tools(_context: Any, _params: Any) -> Any:
        return types.ListToolsResult(tools=tools.offered)

    async def call_tool(_context: Any, params: Any) -> Any:
        return types.CallToolResult(content=list(await answer(params.name, params.arguments or {})))

    make: Any = Server
    return make(
        "autocontext", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


async def serve(context: AutoContext, session_id: str, user_id: str = "") -> None:
    """Serve on standard input and output until the client is gone."""
    server = create_server(context, session_id, user_id)
    # Copies, because the transport closes what it reads and writes, and these two are not its own.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8", errors="replace") as stdin,
        os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as stdout,
    ):
        async with stdio_server(wrap_file(stdin), wrap_file(stdout)) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
