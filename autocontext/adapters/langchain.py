"""LangChain 1: a middleware for `create_agent` that keeps each request small; the thread's state stays complete.

    agent = create_agent(model, tools, middleware=[AutoContextMiddleware.open("agent.db", window="100k")])

Before each call of the model or a tool, new messages of the state go to the memory, and the model gets the memory's
view in their place. Each `thread_id` has a memory of its own. Written against langchain 1.4.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Unpack

from autocontext.adapters._following import first_new, with_guests
from autocontext.adapters._sessions import Sessions, described
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import needs_extra
from autocontext.flows import DoesSteps, Flow, method, operation, sync_and_async
from autocontext.flows.forking import fork_lock
from autocontext.formats.refusals import sending
from autocontext.memory import AutoContextMemory, learn_usage
from autocontext.messages import Msg, is_compressed
from autocontext.plan import plan_of
from autocontext.stores.kept import Kept
from autocontext.tools import INSTRUCTIONS, offers_reload

with needs_extra("autocontext.adapters.langchain", "langchain"):
    from typing import NotRequired

    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        PrivateStateAttr,
        ToolCallRequest,
    )
    from langchain.agents.structured_output import AutoStrategy, OutputToolBinding, ProviderStrategy, ToolStrategy
    from langchain.tools import BaseTool, ToolRuntime
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config

    from autocontext.adapters.langchain_messages import from_langchain, to_langchain


_MAX_HELD = 200_000
"""Ids of messages in the lists of open runs that are remembered; beyond it, a run goes on as in another process."""
_THREAD = "_langchain_thread"
"""In the metadata of what comes from a thread's state; the application may have added the rest."""


class AutoContextState(AgentState):
    """The agent's state, its session and run, and the ids of the messages that it `held` after the last run."""

    autocontext_session: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]  # type: ignore[valid-type]  # Any here


class AutoContextMiddleware(Openable, DoesSteps, AgentMiddleware):
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
        self._following = fork_lock()
        self._held: Kept[str, frozenset[str]] = Kept(_MAX_HELD, forgotten=False)
        self.tools: Sequence[BaseTool] = [_tool(tool, self._memory_of) for tool in described(self._sessions.config)]

    def memory(self, thread_id: str = "", user_id: str | None = None) -> AutoContextMemory:
        """The memory of a thread; of the one conversation when the middleware is bound to it."""
        return self._sessions.bound or self._sessions.of(thread_id, user_id)

    # ------------------------------------------------------------------------------------------------------- hooks
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 (the hook's form)
        """Find out whose run this is; what the thread has taken back goes out of view."""
        session, last = _session_of(get_config()), state.get("autocontext_session") or {}
        # What a checkpoint had at the end of a run of this session and has no more was removed, wherever it stood.
        same = (last.get("id"), last.get("user")) == (session["id"], session["user"])
        session = {**session, "held": last.get("held", []) if same else [], "run": uuid.uuid4().hex}
        ids = [m.id for m in state["messages"] if m.id]
        # A run that failed may have left a summary in the place of what the last one had: nobody took that back.
        replaced = _begins_with_summary(state["messages"]) and ids[0] not in session["held"]
        self._refreshed(session).follow(ids, gone=() if replaced else session["held"])
        self._held.put(session["run"], frozenset(ids), len(ids))
        return {"autocontext_session": session}

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:  # noqa: ARG002 (the hook's form)
        """Keep the final answer."""
        self._follow(state, state["messages"])
        session = _session_in(state)
        self._held.drop(session["run"])
        self._memory_of(state).close_request()
        if not session["kept"]:
            self._sessions.forget(session["id"], session["user"])
        return {"autocontext_session": {**session, "held": [m.id for m in state["messages"]]}}

    def _wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Flow[Any]:
        """Call the model with the memory's view; what is refused as too long is made smaller and sent once more."""

        def ask() -> Flow[Any]:
            memory, history, system = self._prepare(request)
            view = yield method(memory, "get_messages")
            messages = _sent(request, history, view, memory.as_sent(view))
            response = yield operation(handler, handler, request.override(messages=messages, system_message=system))
            learn_usage(memory, view, *_usage(response))
            return response

        return (yield from sending(ask, partial(self._memory_of, request.state)))

    wrap_model_call, awrap_model_call = sync_and_async(_wrap_model_call)

    # Here and not right after the model's answer: other middleware may still edit or redact the calls there.
    def _wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Flow[Any]:
        """Keep the call before the tool runs: a process that ends within the tool leaves it in the memory."""
        self._follow(request.state, request.state["messages"])
        return (yield operation(handler, handler, request))

    wrap_tool_call, awrap_tool_call = sync_and_async(_wrap_tool_call)

    # ------------------------------------------------------------------------------------------------------- parts
    def _memory_of(self, state: Any) -> AutoContextMemory:
        session = _session_in(state)
        return self._sessions.of(session["id"], session["user"], kept=session["kept"])

    def _refreshed(self, session: dict[str, Any]) -> AutoContextMemory:
        return self._sessions.begin(session["id"], session["user"], kept=session["kept"])

    def _follow(self, state: Any, messages: Sequence[BaseMessage]) -> AutoContextMemory:
        session, ids = _session_in(state), [m.id or "" for m in messages]
        with self._following:  # parallel calls of tools come from several threads
            held, now = self._held.get(session["run"]), frozenset(ids)
            if held is None or not held < now:
                self._go_on(session, messages, session["held"] if held is None else held)
            memory = self._memory_of(state)
            new = _new(memory, messages)
            if len(new) > 1 and any(isinstance(m, AIMessage) for m in new):  # a step that another process may have kept
                memory = self._refreshed(session)
                new = _new(memory, messages)
            memory.add_messages(_of_thread(new))
            memory.bring_back(ids)
            self._held.put(session["run"], now, len(now))
        return memory

    def _go_on(self, session: dict[str, Any], messages: Sequence[BaseMessage], held: Collection[str]) -> None:
        """Take out of view what the thread has taken back within a run that has waited, or is gone back to.

        Such a run does not come past `before_agent`. What the application has said meanwhile stays.
        """
        memory, ids = self._refreshed(session), [m.id or "" for m in messages]
        known = {m.id: _THREAD in m.metadata for m in memory.get_original_memory_msgs()}
        # What a second compression has put a summary in the place of is not taken back: the summary is left out.
        kept = {*ids[:1]} <= known.keys()
        memory.follow(ids, gone=held if kept else (), own=[id_ for id_, own in known.items() if own])
        start = _called_anew(messages, memory.messages)
        if start < len(messages):
            said_anew = {*ids[start:]}
            while (at := next((i for i, m in enumerate(memory.messages) if m.id in said_anew), None)) is not None:
                memory.delete_message(at)
            memory.add_messages(_of_thread(messages[start:]))

    def _prepare(self, request: ModelRequest) -> tuple[AutoContextMemory, list[BaseMessage], SystemMessage | None]:
        """The memory with all that the history says, and with what else is sent counted; history and system message."""
        history = _history(request)
        memory = self._follow(request.state, history)
        todos: Any = request.state.get("todos")
        if todos and not self._has_plan:
            memory.attach_plan_note(plan_of("to-do list", ((t["content"], t["status"]) for t in todos)))
        besides = [*(m.text for m in _passing(request, history)), *_longer(request, history, memory.messages)]
        # With a schema for the provider, LangChain makes those of the tools strict, too, which adds to them.
        strict = None if isinstance(request.response_format, ToolStrategy | None) else True
        tools = [convert_to_openai_tool(tool, strict=strict) for tool in request.tools]
        system = _instructed(request.system_message) if offers_reload(tools) else request.system_message
        outputs = _output_schemas(request.response_format)
        memory.set_overhead("" if system is None else system.text, *besides, *tools, *outputs)
        return memory, history, system


def _sent(request: ModelRequest, history: list[BaseMessage], view: list[Msg], sent: list[Msg]) -> list[BaseMessage]:
    """The messages of the request in which `sent`, made of the view, is the history."""
    # The state's own messages go where nothing is repaired, and the copies of other middleware in any case.
    unchanged, said = {id(msg) for msg in view}, {m.id: m for m in history}
    own = {msg.id: said[msg.id] for msg in sent if id(msg) in unchanged and msg.id in said}
    own |= _copies(request, said)
    passing, shown = {id(m) for m in _passing(request, history)}, {msg.id for msg in sent}
    # Nothing goes between a call and its results: what stood there may be out of view by now.
    placed = [
        (m, None if id(m) in passing else str(m.id))
        for m in request.messages
        if id(m) in passing or (m.id in shown and not isinstance(m, ToolMessage))
    ]
    written = [
        (msg.id, to_langchain([msg]) if is_compressed(msg) or msg.id not in own else [own[msg.id]]) for msg in sent
    ]
    return with_guests(written, placed)


def _instructed(system: SystemMessage | None) -> SystemMessage:
    """The system message with the instructions for tags at its end."""
    if system is None:
        return SystemMessage(content=INSTRUCTIONS)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{INSTRUCTIONS}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": INSTRUCTIONS}]})


def _output_schemas(form: Any) -> list[dict[str, Any]]:
    """What the final answer must look like: a schema for the provider, or one tool for each schema."""
    if form is None:
        return []
    if isinstance(form, ProviderStrategy):
        return [form.to_model_kwargs()["response_format"]]
    if not isinstance(form, ToolStrategy):  # it depends on the model: the larger of the two
        form = ToolStrategy(form.schema if isinstance(form, AutoStrategy) else form)
    bindings = [OutputToolBinding.from_schema_spec(spec) for spec in form.schema_specs]
    return [convert_to_openai_tool(binding.tool) for binding in bindings]


def _session_in(state: Any) -> dict[str, Any]:
    """The session of a run. One that began before the middleware was added has gone past `before_agent`."""
    session: dict[str, Any] = state.get("autocontext_session") or _session_of(get_config())
    return {"held": [], "run": session["id"], **session}


def _begins_with_summary(messages: Sequence[BaseMessage]) -> bool:
    """Whether LangChain's `SummarizationMiddleware` has put a summary in the place of what was said before."""
    return bool(messages) and messages[0].additional_kwargs.get("lc_source") == "summarization"


def _new(memory: AutoContextMemory, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """What the memory has not seen. A summary is new only where the memory has nothing of what it stands for."""
    summarised = _begins_with_summary(messages) and any(
        _THREAD in m.metadata for m in memory.get_original_memory_msgs()
    )
    return messages[first_new(memory, [m.id or "" for m in messages], summarised=summarised) :]


def _of_thread(messages: Sequence[BaseMessage]) -> list[Msg]:
    return [m.model_copy(update={"metadata": {**m.metadata, _THREAD: True}}) for m in from_langchain(messages)]


def _called_anew(messages: Sequence[BaseMessage], view: Sequence[Msg]) -> int:
    """The index of the first message that has other calls than the one in view under its id: results go by them."""
    shown = {m.id: {use.id for use in m.tool_uses} for m in view if m.role == "assistant" and not is_compressed(m)}
    for i, message in enumerate(messages):
        if isinstance(message, AIMessage) and message.id in shown:
            calls = {call["id"] or "" for call in [*message.tool_calls, *message.invalid_tool_calls]}
            if calls != shown[message.id]:
                return i
    return len(messages)


def _session_of(config: Any) -> dict[str, Any]:
    """The session that a run belongs to. An agent that runs inside another one's thread has a session of its own."""
    settings = config.get("configurable") or {}
    thread, user = settings.get("thread_id"), settings.get("user_id")
    inside, _, _ = str(settings.get("checkpoint_ns") or "").rpartition("|")
    name = f"{thread}/{inside}" if inside else str(thread)
    kept = thread is not None
    return {"id": name if kept else uuid.uuid4().hex, "user": None if user is None else str(user), "kept": kept}


def _usage(response: Any) -> tuple[Any, Sequence[Any]]:
    """What the model says the request was, and the answer; None where it says nothing, or other middleware answers."""
    answer = next((m for m in getattr(response, "result", [response]) if isinstance(m, AIMessage)), None)
    return (answer.usage_metadata, answer.content) if answer else (None, ())


def _history(request: ModelRequest) -> list[BaseMessage]:
    """The state's messages, and the answers to malformed calls that LangChain adds to this request and to the state.

    They get an id here that is the same when the request is tried again; the state would give them another each time.
    """
    messages = request.state["messages"]
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    answers = {m.tool_call_id: m for m in request.messages if isinstance(m, ToolMessage)}
    history: list[BaseMessage] = []
    for message in messages:
        history.append(message)
        for call in message.invalid_tool_calls if isinstance(message, AIMessage) else ():
            if (call_id := call["id"]) in answers and call_id not in answered:
                answered.add(call_id)
                answers[call_id].id = answers[call_id].id or f"{message.id}.{call_id}"
                history.append(answers[call_id])
    return history


def _passing(request: ModelRequest, history: list[BaseMessage]) -> list[BaseMessage]:
    """What other middleware has put into this request alone: it is sent, and not remembered."""
    held = {id(m) for m in history} | {m.id for m in history}
    return [m for m in request.messages if id(m) not in held and (m.id is None or m.id not in held)]


def _longer(request: ModelRequest, history: list[BaseMessage], view: list[Msg]) -> list[str]:
    """By what the copies of other middleware are longer than the messages in view that they stand for."""
    shown = {msg.id for msg in view}
    said = {m.id: m for m in history if m.id in shown}
    copies = _copies(request, said)
    return [m.text[len(said[id_].text) :] for id_, m in copies.items() if len(m.text) > len(said[id_].text)]


def _copies(request: ModelRequest, said: Mapping[str | None, BaseMessage]) -> dict[str, BaseMessage]:
    """By id, what other middleware has put in the place of a message for this request, with a name taken out, say."""
    return {m.id: m for m in request.messages if m.id is not None and m.id in said and m is not said[m.id]}


def _tool(tool: dict[str, Any], memory_of: Callable[[Any], AutoContextMemory]) -> BaseTool:
    def call(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        [own] = memory_of(runtime.state).tools(tool["name"])
        return own(**{key: value for key, value in arguments.items() if value is not None})

    async def acall(runtime: ToolRuntime[Any, Any], **arguments: Any) -> str:
        [own] = memory_of(runtime.state).tools(tool["name"])
        return await own.acall(**{key: value for key, value in arguments.items() if value is not None})

    # By a schema in JSON, LangChain checks no arguments: the tool takes whatever the model passes, bare numbers too.
    return _Tool(
        name=tool["name"], description=tool["description"], func=call, coroutine=acall, args_schema=tool["parameters"]
    )


class _Tool(StructuredTool):
    """A tool that gets what its schema names; a model may make up others, such as `self`."""

    def invoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002 (LangChain's name)
        return super().invoke(self.named(input), config, **more)

    async def ainvoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002
        return await super().ainvoke(self.named(input), config, **more)

    def named(self, given: Any) -> Any:
        """The arguments, or the call with those, that the schema has."""
        if isinstance(given, dict) and isinstance(given.get("args"), dict):
            return {**given, "args": self.named(given["args"])}
        known = {*self.args, "runtime"}
        return {name: value for name, value in given.items() if name in known} if isinstance(given, dict) else given
