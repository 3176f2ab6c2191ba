"""OpenAI Agents SDK: a session whose history stays small, and a filter that keeps a long run small.

    session = AutoContextSession.open("agent.db", window="100k", session_id="42")
    await session.run(agent, "Hello")

is short for the parts:

    agent = agent.clone(tools=[*agent.tools, *session.tools])
    await Runner.run(agent, "Hello", session=session, run_config=session.run_config())

The SDK reads a session once, at the start of a run: there the session gives the memory's view. Within the run only
`call_model_input_filter` sees each request: `model_input_filter` puts the view in the place of what was sent so far.

The SDK writes a session after a turn's tools have run. So that a process that ends within a tool leaves the call in the
memory, the filter puts a hook before the agent's own `hooks`, which go on being called; it keeps each answer that calls
tools before they run. Written against openai-agents 0.24.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from itertools import count
from typing import Any, Unpack

from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import MissingExtraError
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.memory import AutoContextMemory, offered_tools
from autocontext.messages import Msg, is_compressed
from autocontext.tools import INSTRUCTIONS, ContextOffloadTool

try:
    from agents import (
        Agent,
        AgentHooks,
        FunctionTool,
        HostedMCPTool,
        ModelResponse,
        RunConfig,
        Runner,
        RunResult,
        RunResultStreaming,
        SessionSettings,
    )
    from agents.run import CallModelData, ModelInputData
except ImportError as e:
    raise MissingExtraError("autocontext.adapters.openai_agents", "openai-agents") from e

_NOT_WORDS = ("id", "status", "type", "phase")
"""Keys in which the SDK's copy of an item may differ from the item."""
_KEPT_EARLY = "_openai_agents"
"""In the metadata of an answer that was kept before its tools ran: the SDK adds its items once more afterwards."""


class AutoContextSession(Openable):
    """A `Session` of the SDK over one memory: `get_items` gives the view, `add_items` adds to it.

    One session serves one conversation, one run at a time. `run`, `run_sync` and `run_streamed` are the Runner's, with
    everything that belongs to the session. Or give the agent `tools`, and each run of the Runner `session` and
    `run_config()` (or a RunConfig of your own with `call_model_input_filter=session.model_input_filter`).
    """

    session_settings: SessionSettings | None = None
    """The SDK's settings of a session; a `limit` in it holds for `get_items` without one."""

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        self.memory = Sessions(memory, **options).one()
        self.session_id = self.memory.session.session_id
        self.tools = [_function_tool(tool) for tool in offered_tools(self.memory)]
        self._in_run: Counter[str] = Counter()
        """The items of the run that the memory holds: what `get_items` returned, and what was added since."""
        self._in_use = False
        """Whether the SDK has read or written this session, and not only its filter is used."""
        self._asking: object = None
        """The agent whose request was filtered last, until its answer is there."""

    def run_config(self, **fields: Any) -> RunConfig:
        """A RunConfig with the filter; `fields` are further fields of it."""
        return RunConfig(**fields, call_model_input_filter=self.model_input_filter)

    # ------------------------------------------------------------------------------------------------------- runs
    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 (the Runner's name)
        """`Runner.run` with this session; the agent gets `context_reload` for this run. `options` are the Runner's."""
        return await Runner.run(self._equipped(agent), input, **self._arguments(options))

    def run_sync(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """`Runner.run_sync` in the same way."""
        return Runner.run_sync(self._equipped(agent), input, **self._arguments(options))

    def run_streamed(self, agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:  # noqa: A002
        """`Runner.run_streamed` in the same way."""
        return Runner.run_streamed(self._equipped(agent), input, **self._arguments(options))

    def _equipped(self, agent: Agent[Any]) -> Agent[Any]:
        # An agent may have been given another session's tools, which read that session.
        own = {tool.name for tool in self.tools}
        others = [tool for tool in agent.tools if tool.name not in own]
        return agent.clone(tools=[*others, *self.tools])

    def _arguments(self, options: dict[str, Any]) -> dict[str, Any]:
        config = options.get("run_config") or RunConfig()
        if config.call_model_input_filter is None:
            config = replace(config, call_model_input_filter=self.model_input_filter)
        return {**options, "session": self, "run_config": config}

    # ------------------------------------------------------------------------------------------------- the session
    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The view as Responses items, compressed first when it is due; with a `limit` the newest so many."""
        await asyncio.to_thread(self.memory.refresh)  # what other processes have added
        items = to_responses(await self.memory.aget_messages())
        limit = self.session_settings.limit if limit is None and self.session_settings is not None else limit
        if limit is not None:
            items = items[-limit:] if limit > 0 else []
        self._in_run = Counter(map(_words, items))
        self._in_use = True
        return items

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end."""
        self._in_use = True
        self.memory.add_messages(self._without_kept(from_responses(items)))
        self._in_run.update(map(_words, items))

    async def pop_item(self) -> Any | None:
        """Take the newest item out of the view and give it; None when there is none. The original memory keeps it."""
        view = self.memory.messages
        if not view:
            return None
        last = view[-1]
        items = to_responses(self.memory.reload(_uuid(last)) if is_compressed(last) else [last])
        popped = items[-1] if items else None
        # A call and its results go together; what was not asked for is put back.
        removed = to_responses(self.memory.delete_message(len(view) - 1))
        self.memory.add_messages(from_responses(removed[:-1]))
        if popped is not None:
            self._in_run.subtract([_words(popped)])
        return popped

    async def clear_session(self) -> None:
        """Drop everything, the originals and offloads as well."""
        self.memory.clear()
        self._in_run.clear()

    # -------------------------------------------------------------------------------------------------- the filter
    async def model_input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """What this request sends: the memory's view, then what the run has and the memory does not have yet."""
        self._watch(data.agent)
        pending = self._without_kept(from_responses(self._pending(data.model_data.input)))
        # An agent that a handoff leads to may have no context_reload, and must not be told to call it.
        ours = INSTRUCTIONS if _can_reload(data.agent) else None
        instructions = "\n\n".join(filter(None, (data.model_data.instructions, ours)))
        waiting = (json.dumps(item, ensure_ascii=False) for item in to_responses(pending))
        self.memory.set_overhead(instructions, *_schemas(data.agent), *waiting)
        view = await self.memory.aget_messages()
        sent: Any = _with_own_call_ids(to_responses(self.memory.as_sent([*view, *pending])))
        return ModelInputData(input=sent, instructions=instructions)

    def _pending(self, items: Iterable[Any]) -> list[Any]:
        held = self._in_run.copy()
        pending = []
        for item in items:
            words = _words(item)
            if held[words] > 0:
                held[words] -= 1
            else:
                pending.append(item)
        return pending

    # ---------------------------------------------------------------------------------------------- calls in flight
    def _watch(self, agent: Any) -> None:
        if not isinstance(agent.hooks, _Recording):
            agent.hooks = _Recording(agent.hooks)
        self._asking = agent
        _keeping.set(self._keep)

    def _keep(self, agent: object, answer: ModelResponse) -> None:
        """Keep the answer to this session's request, if it calls tools; others the SDK adds once they are checked."""
        if self._asking is not agent or not self._in_use:
            return  # an agent that runs inside a tool of this one, or without this session
        self._asking = None
        msgs = from_responses(answer.to_input_items())
        if any(m.tool_uses for m in msgs):
            self.memory.add_messages(Msg(**{**dict(m), "metadata": {**m.metadata, _KEPT_EARLY: True}}) for m in msgs)

    def _without_kept(self, msgs: list[Msg]) -> list[Msg]:
        """The messages without the answer that was kept before its tools ran."""
        kept = self._open_calls()
        return [m for m in msgs if not m.tool_uses or not {use.id for use in m.tool_uses} <= kept]

    def _open_calls(self) -> set[str]:
        """The calls of the last answer, if it was kept early and a result is still missing."""
        answered: set[str] = set()
        for msg in reversed(self.memory.get_original_memory_msgs()):
            answered |= {result.id for result in msg.tool_results}
            if msg.tool_uses or msg.role == "user":
                calls = {use.id for use in msg.tool_uses} if _KEPT_EARLY in msg.metadata else set()
                return set() if calls <= answered else calls
        return set()


_keeping: ContextVar[Callable[[object, ModelResponse], None] | None] = ContextVar("keeping", default=None)
"""`_keep` of the session whose filter has made the request that is being answered: sessions may share an agent."""


class _Recording(AgentHooks[Any]):
    """The hooks of an agent; before them the session keeps what the model has answered."""

    def __init__(self, own: Any) -> None:
        self._own = AgentHooks[Any]() if own is None else own
        for name in dir(AgentHooks):
            if name.startswith("on_") and name != "on_llm_end":
                setattr(self, name, getattr(self._own, name))

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        keep = _keeping.get()
        if keep is not None:
            keep(agent, response)
        await self._own.on_llm_end(context, agent, response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)


def _words(item: Mapping[str, Any]) -> str:
    """What an item says, apart from what the SDK changes on its way into and out of a session."""
    said = {k: v for k, v in item.items() if k not in _NOT_WORDS and v is not None}
    return json.dumps(said, sort_keys=True, default=str)


def _with_own_call_ids(items: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The items; where a call id comes again, as some services have it, the call and its result get one of their own.

    Of each id the SDK sends only one call and one result, not next to each other.
    """
    items = list(items)
    taken = {item.get("call_id") for item in items}
    last: dict[str, str] = {}
    unanswered: dict[str, list[str]] = {}
    sent: list[Any] = []
    for item in items:
        if not (id_ := item.get("call_id")):
            sent.append(item)
            continue
        if str(item.get("type")).endswith("_output"):
            own = unanswered[id_].pop() if unanswered.get(id_) else last.get(id_, id_)
        else:
            names = (f"{id_}-{n}" for n in count(2))
            own = next(name for name in names if name not in taken) if id_ in last else id_
            taken.add(own)
            last[id_] = own
            unanswered.setdefault(id_, []).append(own)
        sent.append({**item, "call_id": own} if own != id_ else item)
    return sent


def _uuid(msg: Msg) -> str:
    return msg.origin.uuid if msg.origin is not None else str(msg.metadata["_compress_meta"].get("offloaduuid"))


def _can_reload(agent: Any) -> bool:
    return any(tool.name == ContextOffloadTool.name for tool in agent.tools)


def _schemas(agent: Any) -> list[Any]:
    """What an agent's own tools look like to the model; as texts, from which no tool is missed, if servers add others.

    Listing those would ask the servers once more for each request.
    """
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    functions = [{"name": t.name, "description": t.description, "parameters": t.params_json_schema} for t in tools]
    schemas = [{"type": "function", "function": function} for function in functions]
    open_ended = agent.mcp_servers or any(isinstance(tool, HostedMCPTool) for tool in agent.tools)
    return [json.dumps(schema, ensure_ascii=False) for schema in schemas] if open_ended else schemas


def _function_tool(tool: Any) -> FunctionTool:
    schema = tool.schema()["function"]

    async def invoke(_context: Any, arguments: str) -> str:
        try:
            values = json.loads(arguments or "{}")
        except ValueError:
            return f"Error: the arguments are no JSON object: {arguments[:200]!r}"
        answer: str = await tool.acall(**(values if isinstance(values, dict) else {}))
        return answer

    return FunctionTool(
        name=schema["name"],
        description=schema["description"],
        params_json_schema=schema["parameters"],
        on_invoke_tool=invoke,
        # Optional parameters: the strict form knows none.
        strict_json_schema=False,
    )
