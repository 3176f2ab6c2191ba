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
from typing import Any, NamedTuple, TypeAlias

from autocontext import __version__
from autocontext.errors import AutoContextError, MissingExtraError
from autocontext.stores.checks import whole_or
from autocontext.suite import AutoContext
from autocontext.text.quoting import quoted
from autocontext.tools import INSTRUCTIONS, ContextOffloadTool

try:
    from anyio import wrap_file
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
except ImportError as e:
    raise MissingExtraError("autocontext.adapters.mcp_server", "mcp") from e

__all__ = ["AutoContextTools", "create_server", "serve"]

Answering: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[list[types.TextContent]]]
"""The answer to a call of a tool, by its name and arguments."""
_MOST = 50
"""Results of one search."""


class Offered(NamedTuple):
    """A tool of the server: its description for the model, and the function that answers."""

    tool: types.Tool
    answer: Callable[[Mapping[str, Any]], Awaitable[str]]


class AutoContextTools:
    """The tools over one session and one user; `offered` by name.

    Whatever a model passes, the answer is a text that it can act on.
    """

    def __init__(self, context: AutoContext, session_id: str, user_id: str = "") -> None:
        session = context.session(session_id, user_id=user_id)
        self._context, self._user = context, user_id
        self._memory = session.memory
        self._namespace = context.namespace(user_id)
        self.offered = {offer.tool.name: offer for offer in self._offers()}

    def _offers(self) -> list[Offered]:
        reload = ContextOffloadTool(self._memory, content=self._context.content, content_namespace=self._namespace)
        steering = self._memory.tools()[1:] if self._memory.config.steering else []
        offers = [self._of_memory(tool) for tool in (reload, *steering)]
        offers.append(Offered(_CONTENT_SEARCH, self._content_search))
        if self._user:
            offers += [Offered(_MEMORY_SEARCH, self._memory_search), Offered(_MEMORY_ADD, self._memory_add)]
        return offers

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool says; an error is a text as well."""
        offer = self.offered.get(name)
        if offer is None:
            return f"Error: there is no tool {name!r}; there are {', '.join(self.offered)}."
        try:
            return await offer.answer(arguments)
        except AutoContextError as e:
            return f"Error: {e}"

    def _of_memory(self, tool: Any) -> Offered:
        schema = tool.schema()["function"]

        async def answer(arguments: Mapping[str, Any]) -> str:
            # The agent goes on in its own process: what it has compressed since must be readable too.
            await asyncio.to_thread(self._memory.refresh)
            text: str = await tool.acall(**arguments)
            return text

        described = types.Tool(name=schema["name"], description=schema["description"], inputSchema=schema["parameters"])
        return Offered(described, answer)

    async def _content_search(self, arguments: Mapping[str, Any]) -> str:
        query, limit = str(arguments["query"]), _limit(arguments)
        ref = str(arguments["ref"]) if arguments.get("ref") else None
        store = self._context.content
        hits = await asyncio.to_thread(lambda: store.search(query, ref, limit, namespace=self._namespace))
        if not hits:
            return f"Nothing that is stored matches {query!r}. Try other words."
        passages = (
            f"[{hit.ref}{f' ({hit.name})' if hit.name else ''}, offset {hit.offset}]\n{quoted(hit.text)}"
            for hit in hits
        )
        return "\n\n".join([*passages, "Read on with context_reload: pass the handle and an offset."])

    async def _memory_search(self, arguments: Mapping[str, Any]) -> str:
        query = str(arguments["query"])
        tags = arguments.get("tags") or ()
        memories = await self._context.memories.asearch(query, user_id=self._user, limit=_limit(arguments), tags=tags)
        if not memories:
            return f"Nothing is remembered that matches {query!r}."
        return "\n".join(_line(scored.memory) for scored in memories)

    async def _memory_add(self, arguments: Mapping[str, Any]) -> str:
        allowed = ("content", "category", "tags", "importance")
        fields: dict[str, Any] = {k: arguments[k] for k in allowed if arguments.get(k) is not None}
        source = self._memory.session.session_id
        added = await self._context.memories.aadd(**fields, user_id=self._user, source=source)
        return f"Remembered: {_line(added)}"


def create_server(context: AutoContext, session_id: str, user_id: str = "") -> Server[Any, Any]:
    """A server for one session of one user, to be run on any of MCP's transports."""
    tools = AutoContextTools(context, session_id, user_id)

    # Arguments are checked by the tools, whose words a model understands better than a schema's.
    async def answer(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        missing = [k for k in _required(tools, name) if arguments.get(k) is None]
        text = f"Error: {', '.join(missing)}: must be passed." if missing else await tools.call(name, arguments)
        return [types.TextContent(type="text", text=text)]

    return _first_version(tools, answer) if hasattr(Server, "list_tools") else _second_version(tools, answer)


def _first_version(tools: AutoContextTools, answer: Answering) -> Server[Any, Any]:
    """The server for mcp 1, where decorators register what it does."""
    server: Server[Any, Any] = Server("autocontext", __version__, instructions=INSTRUCTIONS)

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [offer.tool for offer in tools.offered.values()]

    server.call_tool(validate_input=False)(answer)
    return server


def _second_version(tools: AutoContextTools, answer: Answering) -> Any:
    """The server for mcp 2, which takes what it does when it is made."""

    async def list_tools(_context: Any, _params: Any) -> Any:
        return types.ListToolsResult(tools=[offer.tool for offer in tools.offered.values()])

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


def _required(tools: AutoContextTools, name: str) -> list[str]:
    offer = tools.offered.get(name)
    # By its name on the wire, since the two versions of mcp name the attribute differently.
    return list(offer.tool.model_dump(by_alias=True)["inputSchema"].get("required", ())) if offer else []


def _limit(arguments: Mapping[str, Any]) -> int:
    """The number of results to return, from whatever a model passes."""
    return whole_or(5, arguments.get("limit") or 5, 1, _MOST)


def _line(memory: Any) -> str:
    tags = f" #{' #'.join(memory.tags)}" if memory.tags else ""
    return f"- {memory.content} ({memory.category}, importance {memory.importance}{tags})"


def _tool(name: str, description: str, required: list[str], **properties: Any) -> types.Tool:
    schema = {"type": "object", "properties": properties, "required": required}
    return types.Tool(name=name, description=description, inputSchema=schema)


_QUERY = {"type": "string", "description": "Words to look for."}
_LIMIT = {"type": "integer", "description": "Most results, 5 if left out.", "minimum": 1, "maximum": _MOST}
_TAGS = {"type": "array", "items": {"type": "string"}}
_CONTENT_SEARCH = _tool(
    "content_search",
    "Search the large texts that were stored outside the conversation (tool results, files), by words.",
    ["query"],
    query=_QUERY,
    ref={"type": "string", "description": "Search only the text with this handle, such as c_9f3a12be7d41."},
    limit=_LIMIT,
)
_MEMORY_SEARCH = _tool(
    "memory_search",
    "Search what is remembered about the user from earlier conversations.",
    ["query"],
    query=_QUERY,
    tags={**_TAGS, "description": "Only memories with one of these tags."},
    limit=_LIMIT,
)
_MEMORY_ADD = _tool(
    "memory_add",
    "Remember something about the user for later conversations: a preference, a fact, a correction. One at a time.",
    ["content"],
    content={"type": "string", "description": "What to remember, as a sentence that is understood by itself."},
    category={"type": "string", "description": "A word for its kind, e.g. preference, knowledge, correction."},
    tags=_TAGS,
    importance={"type": "integer", "description": "1 to 10; 5 if left out.", "minimum": 1, "maximum": 10},
)
