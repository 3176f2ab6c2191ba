"""LangChain 1: a middleware for `create_agent` that keeps each request small; the thread's state stays complete.

    agent = create_agent(model, tools, middleware=[AutoContextMiddleware.open("agent.db", window="100k")])

Before each call of the model or a tool, new messages of the state go to the memory, and the model gets the memory's
view in their place. Each `thread_id` has a memory of its own. Written against langchain 1.4.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Unpack

from pydantic import WithJsonSchema

from autocontext.adapters._following import first_new, take_back
from autocontext.adapters._sessions import Sessions, described
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import MissingExtraError
from autocontext.flows.forking import fork_lock
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg, is_compressed
from autocontext.plan import plan_of
from autocontext.tools import INSTRUCTIONS, offers_reload

try:
    from typing import NotRequired

    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        PrivateStateAttr,
        ToolCallRequest,
    )
    from langchain.tools import BaseTool, ToolRuntime
    from langchain_core.messages import BaseMessage, SystemMessage
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config

    from autocontext.adapters.langchain_messages import from_langchain, to_langchain
except ImportError as e:
    raise MissingExtraError("autocontext.adapters.langchain", "langchain") from e


class AutoContextState(AgentState):
    """The agent's state, and which session it belongs to."""

    autocontext_session: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]  # type: ignore[valid-type]  # Any here


class AutoContextMiddleware(Openable, AgentMiddleware):
    """Sends the model the memory's view instead of the whole state, and gives the agent `context_reload`.

    With `memory` or `session_id` it serves that one conversation; otherwise one memory for each `thread_id` (and
    `user_id`, where the run's `configurable` names one). A run without a thread has a memory for as long as it lasts.
    Raises ConfigError when it is bound to one conversation and run with a second thread.
    """

    state_schema = AutoContextState

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        super().__init__()
        self._sessions = Sessions(memory, **options)
        self._has_plan = options.get("plan") is not None
        self._schemas: tuple[list[Any], list[dict[str, Any]]] = ([], [])
        self._following = fork_lock()
        self.tools: Sequence[BaseTool] = [_tool(tool, self._memory_of) for tool in described(self._sessions.config)]

    def memory(self, thread_id: str = "", user_id: str | None = None) -> AutoContextMemory:
        """The memory of a thread; of the one conversation when the middleware is bound to it."""
        return self._sessions.bound or self._sessions.of(thread_id, user_id)

    # ------------------------------------------------------------------------------------------------------- hooks
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 (the hook's form)
        """Find out whose run this is; what the thread has taken back goes out of view."""
        session = _session_of(get_config())
        memory = self._sessions.begin(session["id"], session["user"], kept=session["kept"])
        take_back(memory, [m.id for m in state["messages"] if m.id])
        return {"autocontext_session": session}

    def after_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 (the hook's form)
        """Keep the final answer."""
        self._follow(state)
        session = _session_in(state)
        if not session["kept"]:
            self._sessions.forget(session["id"], session["user"])

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Call the model with the memory's view."""
        memory = self._prepare(request)
        return handler(self._request(request, memory.as_sent(memory.get_messages())))

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        """The same for asynchronous runs."""
        memory = self._prepare(request)
        return await handler(self._request(request, memory.as_sent(await memory.aget_messages())))

    # Here and not right after the model's answer: other middleware may still edit or redact the calls there.
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Keep the call before the tool runs: a process that ends within the tool leaves it in the memory."""
        self._follow(request.state)
        return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """The same for asynchronous runs."""
        self._follow(request.state)
        return await handler(request)

    # ------------------------------------------------------------------------------------------------------- parts
    def _memory_of(self, state: Any) -> AutoContextMemory:
        session = _session_in(state)
        return self._sessions.of(session["id"], session["user"], kept=session["kept"])

    def _follow(self, state: Any) -> AutoContextMemory:
        memory, messages = self._memory_of(state), state["messages"]
        with self._following:  # parallel calls of tools come from several threads
            memory.add_messages(from_langchain(messages[first_new(memory, [m.id for m in messages]) :]))
        return memory

    def _prepare(self, request: ModelRequest) -> AutoContextMemory:
        memory = self._follow(request.state)
        todos: Any = request.state.get("todos")
        if todos and not self._has_plan:
            memory.attach_plan_note(plan_of("to-do list", ((t["content"], t["status"]) for t in todos)))
        passing = _passing(request)
        schemas = self._tool_schemas(request.tools)
        system = self._system(request)
        memory.set_overhead("" if system is None else system.text, *(m.text for m in passing), *schemas)
        return memory

    def _request(self, request: ModelRequest, view: list[Msg]) -> ModelRequest:
        own = {m.id: m for m in request.state["messages"]}
        messages: list[Any] = []
        for msg in view:
            messages.extend(to_langchain([msg]) if is_compressed(msg) or msg.id not in own else [own[msg.id]])
        return request.override(messages=[*messages, *_passing(request)], system_message=self._system(request))

    def _system(self, request: ModelRequest) -> SystemMessage | None:
        """The system message with the instructions for tags at its end, where the request has the reload tool."""
        system = request.system_message
        if not offers_reload(self._tool_schemas(request.tools)):
            return system
        if system is None:
            return SystemMessage(content=INSTRUCTIONS)
        if isinstance(system.content, str):
            return system.model_copy(update={"content": f"{system.content}\n\n{INSTRUCTIONS}"})
        return system.model_copy(update={"content": [*system.content, {"type": "text", "text": INSTRUCTIONS}]})

    def _tool_schemas(self, tools: list[Any]) -> list[dict[str, Any]]:
        known, schemas = self._schemas
        if len(known) != len(tools) or any(a is not b for a, b in zip(known, tools, strict=True)):
            schemas = [convert_to_openai_tool(tool) for tool in tools]
            self._schemas = (list(tools), schemas)
        return schemas


def _session_in(state: Any) -> dict[str, Any]:
    """The session of a run. One that began before the middleware was added has gone past `before_agent`."""
    session: dict[str, Any] | None = state.get("autocontext_session")
    return session or _session_of(get_config())


def _session_of(config: Any) -> dict[str, Any]:
    """The session that a run belongs to. An agent that runs inside another one's thread has a session of its own."""
    settings = config.get("configurable") or {}
    thread, user = settings.get("thread_id"), settings.get("user_id")
    inside, _, _ = str(settings.get("checkpoint_ns") or "").rpartition("|")
    name = f"{thread}/{inside}" if inside else str(thread)
    kept = thread is not None
    return {"id": name if kept else uuid.uuid4().hex, "user": None if user is None else str(user), "kept": kept}


def _passing(request: ModelRequest) -> list[BaseMessage]:
    """What other middleware has put into this request alone: it is sent, and not remembered."""
    held = {id(m) for m in request.state["messages"]} | {m.id for m in request.state["messages"]}
    return [m for m in request.messages if id(m) not in held and (m.id is None or m.id not in held)]


def _tool(tool: dict[str, Any], memory_of: Callable[[Any], AutoContextMemory]) -> BaseTool:
    def call(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        [own] = memory_of(runtime.state).tools(tool["name"])
        return own(**{key: value for key, value in arguments.items() if value is not None})

    async def acall(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        [own] = memory_of(runtime.state).tools(tool["name"])
        return await own.acall(**{key: value for key, value in arguments.items() if value is not None})

    # The schema asks for certain types; the tool takes whatever the model passes, bare numbers too.
    types = {key: Annotated[Any, WithJsonSchema(schema)] for key, schema in tool["parameters"]["properties"].items()}
    required = tool["parameters"]["required"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("runtime", keyword, annotation=ToolRuntime[Any, Any])]
    for key, type_ in types.items():
        default = inspect.Parameter.empty if key in required else None
        parameters.append(inspect.Parameter(key, keyword, annotation=type_, default=default))
    for function in (call, acall):
        vars(function)["__signature__"] = inspect.Signature(parameters)  # what inspect, and so LangChain, reads
        function.__annotations__ = {"runtime": ToolRuntime[Any, Any], **types}
    return StructuredTool.from_function(call, acall, name=tool["name"], description=tool["description"])
