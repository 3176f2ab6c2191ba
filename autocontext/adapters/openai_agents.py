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
from itertools import pairwise
from typing import Any, NamedTuple, Unpack

from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import ConfigError, needs_extra
from autocontext.formats.call_ids import with_own_ids
from autocontext.formats.openai_responses import from_responses, to_responses
from autocontext.memory import AutoContextMemory, in_log, learn_usage, offered_tools
from autocontext.messages import Msg, ToolUseBlock, is_compressed
from autocontext.tools import INSTRUCTIONS, ContextOffloadTool

with needs_extra("autocontext.adapters.openai_agents", "openai-agents"):
    from agents import (
        Agent,
        AgentHooks,
        AgentOutputSchema,
        AgentOutputSchemaBase,
        FunctionTool,
        Handoff,
        HostedMCPTool,
        ModelResponse,
        RunConfig,
        Runner,
        RunResult,
        RunResultStreaming,
        SessionSettings,
    )
    from agents.run import CallModelData, ModelInputData

_NOT_WORDS = ("id", "status", "type", "phase")
"""Keys in which the SDK's copy of an item may differ from the item."""
_KEPT_EARLY = "_openai_agents"
"""In the metadata of an answer that was kept before its tools ran: the SDK adds its items once more afterwards."""
_OWNER = "autocontext_memory"
"""Of a tool, what returns the memory that it reads."""


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
        self._branch: AutoContextMemory | None = None
        """What the run goes on with after a handoff whose filter has kept something back: a memory of what it left."""
        self.tools = [_function_tool(tool, lambda: self._branch or self.memory) for tool in offered_tools(self.memory)]
        self._read: list[Any] | None = None
        """What `get_items` returned last, until it is known whether a run begins with it."""
        self._in_run: Counter[str] = Counter()
        """The items of the run that the memory, or the branch, holds: what was read, and what was added since."""
        self._in_use = False
        """Whether the SDK has read or written this session, and not only its filter is used."""
        self._tools_run = True
        """Whether an open call is one whose tool may be running: the session was not read since it was made."""
        self._asking: Any = None
        """The agent whose request was filtered last, until its answer is there."""
        self._view: list[Msg] = []
        """The view in that request."""
        self._may_lack = False
        """Whether the run may lack some of what the memory has: it was handed over, or goes on after others."""

    def run_config(self, **fields: Any) -> RunConfig:
        """A RunConfig with the filter; `fields` are further fields of it."""
        return RunConfig(**fields, call_model_input_filter=self.model_input_filter)

    # ------------------------------------------------------------------------------------------------------- runs
    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 (the Runner's name)
        """`Runner.run` with this session; the agent gets `context_reload` for this run. `options` are the Runner's.

        Where it ends because the service has refused a request as too long, the next run's are smaller.
        """
        try:
            result = await Runner.run(self._equipped(agent), input, **self._arguments(options))
        except Exception as e:
            if self._asking is not None:  # else it is another run's request, of an agent that is a tool
                await self.memory.arecover(e)
            raise
        return self._ended(result)

    def run_sync(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """`Runner.run_sync` in the same way."""
        try:
            result = Runner.run_sync(self._equipped(agent), input, **self._arguments(options))
        except Exception as e:
            if self._asking is not None:
                self.memory.recover(e)
            raise
        return self._ended(result)

    def _ended(self, result: RunResult) -> RunResult:
        """The result; a run that a tool has ended leaves no request open."""
        if not result.interruptions:
            self.memory.close_request()
        return result

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
        self._in_use = True
        most = self.session_settings.limit if limit is None and self.session_settings is not None else limit
        self._read = read = items if most is None else items[-most:] if most > 0 else []
        if limit is None:  # else it may be within a run, where the SDK reads the end before it adds to it
            self._begin()
        return read

    def _begin(self) -> None:
        """A run begins with what was read last, if anything was since the last one began."""
        if self._read is not None:
            self._in_run, self._read = Counter(map(_words, self._read)), None
            self._tools_run = self._may_lack = False
            self._branch = None

    async def add_items(self, items: list[Any]) -> None:
        """Add items at the end."""
        self._in_use = True
        first = items[0] if items else {}
        unknown = self.memory.open_request is None or not self._in_run
        if first.get("role") in ("user", "system", "developer"):
            self._begin()
        elif unknown and str(first.get("type")).endswith(("_output", "_response")) and not self._asks_in_branch(items):
            # A run that has waited for an approval goes on, which this object has not seen begin, or after others.
            self._in_run, self._may_lack = Counter(map(_words, to_responses(self.memory.messages))), True
            self._branch = None
        self._read = None
        self._add(self._without_kept(from_responses(items)))
        self._in_run.update(map(_words, items))

    def _asks_in_branch(self, outputs: list[Any]) -> bool:
        """Whether the branch shows the calls that these outputs answer, and is not that of another run."""
        shown = {use.id for m in self._branch.messages for use in m.tool_uses} if self._branch is not None else set()
        return not shown.isdisjoint(item.get("call_id") for item in outputs)

    def _add(self, msgs: list[Msg]) -> None:
        self.memory.add_messages(msgs)
        if self._branch is not None:
            self._branch.add_messages(msgs)

    async def pop_item(self) -> Any | None:
        """Take the newest item out of the view and give it; None when there is none. The original memory keeps it."""
        view = self.memory.messages
        if not view:
            return None
        last = _originals(self.memory, view[-1])
        items = to_responses(last)
        popped = items[-1] if items else None
        # A call and its results go together; what was not asked for is put back as it was. A note goes as a whole.
        before = self.memory.delete_message(len(view) - 1)[:-1]
        left = [original for msg in before for original in _originals(self.memory, msg)]
        rest = to_responses([*left, *last])[:-1] if len(last) == 1 else to_responses(left)
        self.memory.add_messages(from_responses(rest))
        if popped is not None:
            self._in_run.subtract([_words(popped)])
        return popped

    async def clear_session(self) -> None:
        """Drop everything, the originals and offloads as well."""
        self.memory.clear()
        self._in_run.clear()
        self._branch = None

    # -------------------------------------------------------------------------------------------------- the filter
    async def model_input_filter(self, data: CallModelData[Any]) -> ModelInputData:
        """What this request sends: the memory's view, then what the run has and the memory does not have yet.

        The SDK hands the filter on to an agent that runs as a tool (`agent.as_tool`): its requests stay as they are.
        """
        items = data.model_data.input
        if not self._may_lack and self._is_within_tool(items):
            return data.model_data
        self._watch(data.agent)
        if self.memory.open_request is None:
            self._begin()
        self._read = None
        if self._may_lack:
            self._may_lack = False
            await asyncio.to_thread(self._branch_off, items)
        self._check_tools(data.agent)
        pending = self._without_kept(from_responses(_without(items, self._in_run)))
        memory = self._branch or self.memory
        # An agent that a handoff leads to may have no context_reload, and must not be told to call it.
        ours = INSTRUCTIONS if any(tool.name == ContextOffloadTool.name for tool in data.agent.tools) else None
        instructions = "\n\n".join(filter(None, (data.model_data.instructions, ours)))
        waiting = (json.dumps(item, ensure_ascii=False) for item in to_responses(pending))
        memory.set_overhead(instructions, *_schemas(data.agent), *_answer_schema(data.agent), *waiting)
        self._view = await memory.aget_messages()
        # Of each id the SDK sends only one call and one result; some services use ids again.
        sent: Any = to_responses(with_own_ids(memory.as_sent([*self._view, *pending]), in_all=True))
        return ModelInputData(input=sent, instructions=instructions)

    def _check_tools(self, agent: Any) -> None:
        """Raises ConfigError for an agent with the tools of another session, which would read that one."""
        for tool in agent.tools:
            owner = getattr(tool, _OWNER, None)
            if owner is not None and tool not in self.tools and not _reads(owner(), self.memory):
                raise ConfigError(
                    f"{tool.name} of agent {agent.name!r} is that of session {owner().session.session_id!r}, and this "
                    f"run is of {self.memory.session.session_id!r}: clone the agent with this session's tools for each "
                    "session, or use session.run, which does"
                )

    def _branch_off(self, items: list[Any]) -> None:
        """If `items` lack some of what the run had, as after a handoff's filter, go on with a memory of them alone.

        Of the view stays what they begin with, notes included; all else is added as they have it: it may be rewritten.
        """
        missing = self._in_run - Counter(map(_words, items))
        run = {words: json.loads(words) for words in self._in_run}
        answered = {item.get("call_id") for item in run.values() if "output" in item}
        # Of a call that nobody has answered the SDK sends nothing.
        if not self._open_calls() and not any(run[w].get("call_id") in {None, *answered} for w in missing):
            return
        branch = (self._branch or self.memory).branch()
        left = _led_on(to_responses(branch.get_original_memory_msgs()), items)
        branch.add_messages(from_responses(left[self._cut(branch, [*map(_words, left)]) :]))
        self._branch, self._in_run = branch, Counter(map(_words, items))

    def _cut(self, branch: AutoContextMemory, words: list[str]) -> int:
        """Take out of the view all that is not in these words from their beginning on; the number of those that are."""
        at = place = end = closed = 0
        shared: list[Msg] = []
        waiting: set[str] = set()
        while place < len(view := branch.messages):
            msg = view[place]
            forms = [[*map(_words, to_responses(form))] for form in ([msg], _originals(branch, msg))]
            if said := next((form for form in forms if words[at : at + len(form)] == form), None):
                at, place = at + len(said), place + 1
                shared.append(msg)
                waiting = (waiting | {use.id for use in msg.tool_uses}) - {result.id for result in msg.tool_results}
                if not waiting:  # notes read a call together with its result as it was: both stay, or none
                    end, closed = at, len(shared)
            # A note of this run may be about what is left, too.
            elif not is_compressed(msg) or any(self._in_run[w] for w in forms[0]) or not branch.undo(_uuid(msg)):
                place += 1
        kept = {m.id for msg in shared[:closed] for m in (msg, *_originals(branch, msg))}
        gone = [m.id for msg in view for m in _originals(branch, msg) if m.id not in kept]
        branch.follow(kept, gone, own=())
        return end

    def _is_within_tool(self, items: list[Any]) -> bool:
        """Whether a request is another run's: a call of this session waits for its result, and `items` lack it."""
        waiting = self._open_calls()
        if waiting and self._tools_run:
            # Call ids alone do not tell: services count them anew in each run.
            held = [(use.id, use.name, use.input) for m in from_responses(items) for use in m.tool_uses]
            return not all((use.id, use.name, use.input) in held for use in waiting)
        # Of a call that an earlier run has left open, the SDK sends nothing; the rest of that run it does send.
        return not any(self._in_run[_words(item)] > 0 for item in items) and self._awaits_results()

    def _awaits_results(self) -> bool:
        """Whether any answer that was kept early lacks a result, such as one that waits for an approval."""
        originals = self.memory.get_original_memory_msgs()
        answered = {result.id for m in originals for result in m.tool_results}
        return any(_KEPT_EARLY in m.metadata and not {use.id for use in m.tool_uses} <= answered for m in originals)

    # ---------------------------------------------------------------------------------------------- calls in flight
    def _watch(self, agent: Any) -> None:
        if not isinstance(agent.hooks, _Recording):
            agent.hooks = _Recording(agent.hooks)
        self._asking = agent
        _listener.set(_Listener(self._keep, self._hand_over))

    def _hand_over(self) -> None:
        self._may_lack = True

    def _keep(self, agent: Any, answer: ModelResponse) -> None:
        """Learn from the answer to this session's request how the service has counted it.

        Keep it if it calls tools; others the SDK adds once they are checked.

        What only hands the run over waits for the SDK, too: a filter of the handoff may keep it out of the session.
        """
        if self._asking is not agent:
            return  # an agent that runs inside a tool of this one
        self._asking = None
        learn_usage(self._branch or self.memory, self._view, answer.usage, answer.output)
        if not self._in_use:
            return
        msgs = from_responses(answer.to_input_items())
        handing_over = {h.tool_name if isinstance(h, Handoff) else Handoff.default_tool_name(h) for h in agent.handoffs}
        if any(use.name not in handing_over for m in msgs for use in m.tool_uses):
            self._tools_run = True
            self._add([m.model_copy(update={"metadata": {**m.metadata, _KEPT_EARLY: True}}) for m in msgs])

    def _without_kept(self, msgs: list[Msg]) -> list[Msg]:
        """The messages without the answer that was kept before its tools ran."""
        kept = {use.id for use in self._open_calls()}
        return [m for m in msgs if not m.tool_uses or not {use.id for use in m.tool_uses} <= kept]

    def _open_calls(self) -> list[ToolUseBlock]:
        """The calls of the last answer, if it was kept early and a result is still missing."""
        answered: set[str] = set()
        for msg in reversed(self.memory.get_original_memory_msgs()):
            answered |= {result.id for result in msg.tool_results}
            if msg.tool_uses or msg.role == "user":
                calls = list(msg.tool_uses) if _KEPT_EARLY in msg.metadata else []
                return [] if {use.id for use in calls} <= answered else calls
        return []


class _Listener(NamedTuple):
    """What a session wants to hear of a run."""

    answered: Callable[[Any, ModelResponse], None]
    handed_over: Callable[[], None]


_listener: ContextVar[_Listener | None] = ContextVar("listener", default=None)
"""Of the session whose filter has made the request that is being answered: sessions may share an agent."""


class _Recording(AgentHooks[Any]):
    """The hooks of an agent; before them the session keeps what the model has answered, and learns of a handoff."""

    def __init__(self, own: Any) -> None:
        self._own = AgentHooks[Any]() if own is None else own
        for name in dir(AgentHooks):
            if name.startswith("on_") and name not in ("on_llm_end", "on_handoff"):
                setattr(self, name, getattr(self._own, name))

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        if (listener := _listener.get()) is not None:
            listener.answered(agent, response)
        await self._own.on_llm_end(context, agent, response)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        if (listener := _listener.get()) is not None:
            listener.handed_over()
        await self._own.on_handoff(context, agent=agent, source=source)

    def __getattr__(self, name: str) -> Any:
        if name == "_own":  # a copy that is just being made: what is asked of it must not look for its own hooks
            raise AttributeError(name)
        return getattr(self._own, name)


def _words(item: Mapping[str, Any]) -> str:
    """What an item says, apart from what the SDK changes on its way into and out of a session."""
    said = {k: v for k, v in item.items() if k not in _NOT_WORDS and v is not None}
    return json.dumps(said, sort_keys=True, default=str)


def _without(items: Iterable[Any], held: Counter[str]) -> list[Any]:
    """The items that are not among those that `held` counts."""
    held = held.copy()
    rest = []
    for item in items:
        words = _words(item)
        if held[words] > 0:
            held[words] -= 1
        else:
            rest.append(item)
    return rest


def _led_on(said: list[Any], left: list[Any]) -> list[Any]:
    """What is left, without reasoning that led to what is not, as it was said: services refuse it alone."""
    led_to: dict[tuple[Any, str], set[str]] = {}
    for item, following in pairwise(said):
        led_to.setdefault((item.get("id"), _words(item)), set()).add(_words(following))
    shown: list[Any] = []
    for item in reversed(left):
        behind = {_words(shown[-1])} if shown else set()
        if item.get("type") != "reasoning" or behind & led_to.get((item.get("id"), _words(item)), behind):
            shown.append(item)
    return shown[::-1]


def _originals(memory: AutoContextMemory, msg: Msg) -> list[Msg]:
    """What a message of the view stands for; itself, if its offload was cleared."""
    return (memory.reload(_uuid(msg)) if is_compressed(msg) else []) or [msg]


def _uuid(msg: Msg) -> str:
    return msg.origin.uuid if msg.origin is not None else str(msg.metadata["_compress_meta"].get("offloaduuid"))


def _reads(memory: AutoContextMemory, session: AutoContextMemory) -> bool:
    """Whether a memory has nothing, or what a session has: another database may have a session of the same name."""
    first = in_log(memory, lambda log: log.original[:1])
    return memory.session == session.session and first in ([], in_log(session, lambda log: log.original[:1]))


def _schemas(agent: Any) -> list[Any]:
    """What an agent's own tools look like to the model; as texts, from which no tool is missed, if servers add others.

    Listing those would ask the servers once more for each request.
    """
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    functions = [{"name": t.name, "description": t.description, "parameters": t.params_json_schema} for t in tools]
    schemas = [{"type": "function", "function": function} for function in functions]
    open_ended = agent.mcp_servers or any(isinstance(tool, HostedMCPTool) for tool in agent.tools)
    return [json.dumps(schema, ensure_ascii=False) for schema in schemas] if open_ended else schemas


def _answer_schema(agent: Any) -> list[str]:
    """The schema of structured output, as a text: it is no tool; [] if the agent answers in words."""
    if agent.output_type in (None, str):
        return []
    own = isinstance(agent.output_type, AgentOutputSchemaBase)
    schema = agent.output_type if own else AgentOutputSchema(agent.output_type)
    if schema.is_plain_text():
        return []
    sent = {"name": "final_output", "strict": schema.is_strict_json_schema(), "schema": schema.json_schema()}
    return [json.dumps({"type": "json_schema", "json_schema": sent}, ensure_ascii=False)]


def _function_tool(tool: Any, memory: Callable[[], AutoContextMemory]) -> FunctionTool:
    schema = tool.schema()["function"]

    async def invoke(_context: Any, arguments: str) -> str:
        try:
            values = json.loads(arguments or "{}")
        except ValueError:
            return f"Error: the arguments are no JSON object: {arguments[:200]!r}"
        (now,) = memory().tools(tool.name)
        return await now.acall(**(values if isinstance(values, dict) else {}))

    made = FunctionTool(
        name=schema["name"],
        description=schema["description"],
        params_json_schema=schema["parameters"],
        on_invoke_tool=invoke,
        # Optional parameters: the strict form knows none.
        strict_json_schema=False,
    )
    setattr(made, _OWNER, memory)
    return made
