"""pydantic-ai 2: a capability that keeps each request small; the run's own history stays complete.

    agent = Agent(model, tools=[...], capabilities=[AutoContextCapability.open("agent.db", window="100k")])
    await agent.run("Hello", conversation_id="42")

Before each call of the model or a tool, new messages of the run go to the memory, and the model gets the memory's view
in their place. Each `conversation_id` has a memory of its own, so no `message_history` is needed; with a store, another
process can go on. Written against pydantic-ai 2.68.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from autocontext.adapters._following import first_new, take_back
from autocontext.adapters._sessions import Sessions, described
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import MissingExtraError
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg, is_compressed
from autocontext.tools import INSTRUCTIONS, offers_reload

try:
    from pydantic_ai import RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability, AgentNode
    from pydantic_ai.messages import ModelMessage, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.output import OutputContext
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import FunctionToolset

    from autocontext.adapters.pydantic_ai_messages import groups, read_one, to_pydantic_ai
except ImportError as e:
    raise MissingExtraError("autocontext.adapters.pydantic_ai", "pydantic-ai") from e


class AutoContextCapability(Openable, AbstractCapability[Any]):
    """Sends the model the memory's view instead of the whole history, and gives the agent `context_reload`.

    With `memory` or `session_id` it serves that one conversation; otherwise one memory for each `conversation_id` of
    the runs. A run with the `message_history` of its conversation is recognised: nothing is kept twice.
    """

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        self._sessions = Sessions(memory, **options)
        self._read: dict[str | None, dict[int, tuple[ModelMessage, list[Msg]]]] = {}
        """For each run, what its messages were read as, by a message's identity; each is held, so that it stays its."""
        self.tools = [_tool(tool, self) for tool in described(self._sessions.config)]

    def memory(self, conversation_id: str = "") -> AutoContextMemory:
        """The memory of a conversation; the one memory when the capability is bound to it."""
        return self._sessions.bound or self._sessions.of(conversation_id)

    # ------------------------------------------------------------------------------------------------------- hooks
    def get_instructions(self) -> str:
        """What the model has to know about tags; pydantic-ai adds it to the agent's instructions."""
        return INSTRUCTIONS

    def get_toolset(self) -> FunctionToolset[Any]:
        """The toolset that holds `context_reload`."""
        return FunctionToolset(self.tools)

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """What the history that is passed has taken back goes out of view."""
        # A capability that is bound to one conversation serves it under every id.
        memory = await self._sessions.abegin(str(ctx.conversation_id), kept=self._sessions.bound is None)
        take_back(memory, [msg.id for msg in _all(self._msgs(ctx, ctx.messages))])

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the memory's view in the place of the messages, for this request."""
        memory = self._of(ctx)
        held = self._follow(ctx, ctx.messages)
        own = {id(m) for m in ctx.messages}
        passing = [m for m in request_context.messages if id(m) not in own]
        overhead = [msg.text for message in passing for msg in read_one(message)]
        parameters = _fitting(request_context.model_request_parameters)
        memory.set_overhead(*overhead, *_besides(parameters))
        view = await memory.aget_messages()
        messages = [*_request(memory.as_sent(view), ctx.messages, held), *passing]
        return replace(request_context, messages=messages, model_request_parameters=parameters)

    async def before_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,  # noqa: ARG002 (the hook's form)
        tool_def: ToolDefinition,  # noqa: ARG002
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Keep the call before the tool runs: a process that ends within the tool leaves it in the memory."""
        self._follow(ctx, ctx.messages)
        return args

    async def before_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """The same for a function that takes the final output."""
        if output_context.has_function:
            self._follow(ctx, ctx.messages)
        return output

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Keep the final answer."""
        self._follow(ctx, result.all_messages())
        self._read.pop(ctx.run_id, None)
        return result

    async def on_node_run_error(self, ctx: RunContext[Any], *, node: AgentNode[Any], error: Exception) -> Any:  # noqa: ARG002 (the hook's form)
        """Keep what a run that fails has come to."""
        self._follow(ctx, ctx.messages)
        raise error

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        """Forget the run."""
        self._read.pop(ctx.run_id, None)
        raise error

    # ------------------------------------------------------------------------------------------------------- parts
    def _of(self, ctx: RunContext[Any]) -> AutoContextMemory:
        return self.memory(str(ctx.conversation_id))

    def _follow(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[list[Msg]]:
        """Add what is new; gives each message as Msgs."""
        memory, held = self._of(ctx), self._msgs(ctx, messages)
        msgs = _all(held)
        memory.add_messages(msgs[first_new(memory, [m.id for m in msgs]) :])
        return held

    def _msgs(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[list[Msg]]:
        """Each message as Msgs. Messages do not change, so each is read once in a run."""
        read = self._read.setdefault(ctx.run_id, {})
        msgs = []
        for message in messages:
            held = read.get(id(message))
            if held is None or held[0] is not message:
                held = read[id(message)] = (message, read_one(message))
            msgs.append(held[1])
        return msgs


def _all(groups_of: list[list[Msg]]) -> list[Msg]:
    return [msg for group in groups_of for msg in group]


def _request(view: list[Msg], messages: list[ModelMessage], held: list[list[Msg]]) -> list[ModelMessage]:
    """The view as messages: the run's own where they are unchanged, others built from what the memory has."""
    own = {tuple(msg.id for msg in msgs): message for message, msgs in zip(messages, held, strict=True)}
    in_view = {id(msg) for msg in view if not is_compressed(msg)}
    request: list[ModelMessage] = []
    for group in groups(view):
        same = own.get(tuple(msg.id for msg in group)) if all(id(msg) in in_view for msg in group) else None
        request.extend(to_pydantic_ai(group) if same is None else [same])
    return request


def _fitting(parameters: Any) -> Any:
    """The parameters of a request; without our instructions if the tool that they name was taken out."""
    if offers_reload(_schemas(parameters)):
        return parameters
    parts = [part for part in parameters.instruction_parts or () if part.content != INSTRUCTIONS]
    return replace(parameters, instruction_parts=parts or None)


def _schemas(parameters: Any) -> list[dict[str, Any]]:
    """The schemas of the tools in a request, in the form of OpenAI's APIs."""
    return [
        {
            "type": "function",
            "name": t.name,
            "description": t.description,
            "parameters": t.parameters_json_schema,
            "strict": t.strict is not False,
        }
        for t in (*parameters.function_tools, *parameters.output_tools)
    ]


def _besides(parameters: Any) -> list[Any]:
    """What is sent besides the messages: instructions and the schemas of tools."""
    return [*(part.content for part in parameters.instruction_parts or ()), *_schemas(parameters)]


def _tool(tool: dict[str, Any], capability: AutoContextCapability) -> Tool[Any]:
    async def call(ctx: RunContext[Any], **arguments: Any) -> str:
        [own] = capability.memory(str(ctx.conversation_id)).tools(tool["name"])
        return await own.acall(**arguments)

    return Tool.from_schema(call, tool["name"], tool["description"], tool["parameters"], takes_ctx=True)
