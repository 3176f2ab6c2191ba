"""pydantic-ai 2: a capability that keeps each request small; the run's own history stays complete.

    agent = Agent(model, tools=[...], capabilities=[AutoContextCapability.open("agent.db", window="100k")])
    await agent.run("Hello", conversation_id="42")

Before each call of the model or a tool, new messages of the run go to the memory, and the model gets the memory's view
in their place. Each `conversation_id` has a memory of its own, so no `message_history` is needed; with a store, another
process can go on. Written against pydantic-ai 2.68.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any, Unpack

from autocontext.adapters._following import first_new
from autocontext.adapters._sessions import Sessions, described
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import needs_extra
from autocontext.memory import AutoContextMemory, learn_usage
from autocontext.messages import Msg, is_compressed
from autocontext.stores.kept import Kept
from autocontext.tools import INSTRUCTIONS, offers_reload

with needs_extra("autocontext.adapters.pydantic_ai", "pydantic-ai"):
    from pydantic_ai import RetryModelRequest, RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
    from pydantic_ai.exceptions import ToolFailedError, ToolRetryError
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.output import OutputContext, PendingModelResponse
    from pydantic_ai.profiles import DEFAULT_PROMPTED_OUTPUT_TEMPLATE
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.toolsets import FunctionToolset

    from autocontext.adapters._pydantic_ai_runs import SKIPPED, Run, returned
    from autocontext.adapters.pydantic_ai_messages import (
        groups,
        is_dynamic,
        is_interrupted,
        is_prompt,
        opening_prompts,
        read_one,
        to_pydantic_ai,
    )

_MAX_RUNS = 1_000
"""Runs whose messages are held as they were read; of the others, they are read again."""


class AutoContextCapability(Openable, AbstractCapability[Any]):
    """Sends the model the memory's view instead of the whole history, and gives the agent `context_reload`.

    With `memory` or `session_id` it serves that one conversation; otherwise one memory for each `conversation_id` of
    the runs. A run with the `message_history` of its conversation is recognised: nothing is kept twice.
    """

    @with_memory_options
    def __init__(self, memory: AutoContextMemory | None = None, **options: Unpack[MemoryOptions]) -> None:
        self._sessions = Sessions(memory, **options)
        # A run that is broken off (`agent.iter`) tells nobody of its end.
        self._runs: Kept[str | None, Run] = Kept(_MAX_RUNS, forgotten=False)
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
        run = self._run(ctx)
        run.passed = {id(part) for message in ctx.messages for part in message.parts}
        history = _all(self._msgs(ctx, ctx.messages))
        run.learn(history, memory.get_original_memory_msgs())
        # A prompt that was evaluated anew stands where it was said last, far from its place in the history.
        memory.follow([run.same.get(msg.id, msg.id) for msg in history if not is_dynamic(msg)])

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the memory's view in the place of the messages, for this request."""
        run = self._run(ctx)
        run.request, run.is_refused = [], False
        return await self._with_view(ctx, request_context)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Put the smaller view in the place of the one that was refused."""
        return await self._with_view(ctx, request_context) if self._run(ctx).is_refused else request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, response: ModelResponse, **_more: Any
    ) -> ModelResponse:
        """Learn how the service has counted the request."""
        # Where the usage is the sum of several requests, the framework notes which one measures the context.
        marks = (response.metadata or {}).get("__pydantic_ai__") or {}
        measured = marks.get("context_input_tokens")
        usage, parts = (response.usage.input_tokens, response.parts) if measured is None else (measured, ())
        learn_usage(self._of(ctx), self._run(ctx).view, usage, parts)
        return response

    async def on_model_request_error(self, ctx: RunContext[Any], *, error: Exception, **_more: Any) -> ModelResponse:
        """Make smaller what the service refuses as too long, and send it once more."""
        run = self._run(ctx)
        if run.is_refused or not await self._of(ctx).arecover(error):
            raise error
        run.is_refused = True
        raise RetryModelRequest from error

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, args: Any, handler: WrapToolExecuteHandler, **_more: Any
    ) -> Any:
        """Keep the call before the tool runs: a process that ends within it leaves it there. Note the result."""
        self._follow(ctx, ctx.messages)
        results = self._run(ctx).results
        results[call.tool_call_id] = []
        try:
            result = await handler(args)
        except (ToolRetryError, ToolFailedError) as e:
            results[call.tool_call_id] = [e.tool_retry if isinstance(e, ToolRetryError) else e.tool_failed]
            raise
        results[call.tool_call_id] = returned(call, result)
        return result

    async def before_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """Keep the call of a function that takes the final output before it runs."""
        if output_context.has_function:
            self._follow(ctx, ctx.messages)
        return output

    async def after_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        """Note the result of a call that has given the final output."""
        if (call := output_context.tool_call) is not None and not ctx.partial_output:
            self._run(ctx).results[call.tool_call_id] = returned(call, "Final result processed.")
        return output

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        """Keep the final answer, and the results of tools that ran beside it."""
        is_over = not isinstance(result.output, DeferredToolRequests | PendingModelResponse)
        messages = result.all_messages()
        self._follow(ctx, [*messages, *self._run(ctx).beside(messages, SKIPPED if is_over else None)])
        if is_over:
            self._of(ctx).close_request()
        self._runs.drop(ctx.run_id)
        return result

    async def on_node_run_error(self, ctx: RunContext[Any], *, error: Exception, **_more: Any) -> Any:
        """Keep what a run that fails has come to."""
        self._follow(ctx, ctx.messages)
        raise error

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> Any:
        """Keep the results of tools that have ended, and forget the run."""
        run = self._run(ctx)
        try:
            if run.messages:
                self._follow(ctx, [*run.messages, *run.beside(run.messages)])
        finally:
            self._runs.drop(ctx.run_id)
        raise error

    # ------------------------------------------------------------------------------------------------------- parts
    async def _with_view(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> ModelRequestContext:
        memory, run = self._of(ctx), self._run(ctx)
        held = self._follow(ctx, ctx.messages)
        run.results.clear()  # a service may number the calls of each response from the start
        own = {id(m) for m in (*ctx.messages, *run.request)}
        passing = [m for m in request_context.messages if id(m) not in own]
        overhead = [msg.text for message in passing for msg in read_one(message)]
        parameters = _fitting(request_context.model_request_parameters)
        memory.set_overhead(*overhead, *_besides(parameters))
        run.view = await memory.aget_messages()
        sent = memory.as_sent(run.view)
        sent = run.ordered(sent, memory, self._of_others(ctx, held, sent))
        run.request = _request(run.view, sent, ctx.messages, held)
        return replace(request_context, messages=[*run.request, *passing], model_request_parameters=parameters)

    def _of(self, ctx: RunContext[Any]) -> AutoContextMemory:
        return self.memory(str(ctx.conversation_id))

    def _follow(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[list[Msg]]:
        """Add what is new; gives each message as Msgs."""
        memory, run = self._of(ctx), self._run(ctx)
        run.messages = messages
        if run.prompts is None and messages:
            self._start(ctx, messages)
        held = self._msgs(ctx, messages)
        msgs = _all(held)
        ids = [m.id for m in msgs]
        memory.add_messages(msgs[first_new(memory, ids) :])
        memory.bring_back(ids)
        return held

    def _start(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> None:
        """Know the history again as the framework has it now, and put the run's system prompts in the place of others.

        At a run's start the framework joins requests, completes what was interrupted and evaluates prompts anew.
        """
        memory, run = self._of(ctx), self._run(ctx)
        originals = memory.get_original_memory_msgs()
        is_resumed = any(id(part) in run.passed for part in messages[-1].parts)
        history = _all(self._msgs(ctx, messages if is_resumed else messages[:-1]))
        run.learn(history or [*takewhile(is_prompt, read_one(messages[0]))], originals)
        held, known = self._msgs(ctx, messages), {msg.id for msg in originals}
        for msg, after in reversed([*pairwise(_all(held))]):
            # The memory says so itself; what stands before messages that are known is not added.
            after_id = run.same.get(after.id, after.id)
            if is_interrupted(msg) and msg.id not in known and after_id in known:
                run.same[msg.id] = after_id
        anew = [msg for msg in _all(held[1:-1]) if is_prompt(msg) and msg.id not in known]
        own = {msg.id: msg for msg in [*takewhile(is_prompt, held[0]), *anew]}
        run.prompts = [*own]
        memory.add_messages(msg for id_, msg in own.items() if id_ not in known)
        memory.follow((), self._of_others(ctx, held, memory.messages))

    def _of_others(self, ctx: RunContext[Any], held: list[list[Msg]], view: list[Msg]) -> set[str]:
        """The ids of other runs' system prompts in a view."""
        memory, listed = self._of(ctx), {msg.id: msg for msg in _all(held)}
        shown = {msg.id for msg in view if is_prompt(msg)} - listed.keys()
        # A history without system prompts may have lost its beginning.
        if not shown or (self._run(ctx).passed and not any(map(is_prompt, listed.values()))):
            return set()
        return shown & opening_prompts(memory.get_original_memory_msgs()).keys()

    def _run(self, ctx: RunContext[Any]) -> Run:
        run = self._runs.get(ctx.run_id)
        if run is None:
            self._runs.put(ctx.run_id, run := Run())
        return run

    def _msgs(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[list[Msg]]:
        """Each message as Msgs. Messages do not change, so each is read once in a run."""
        run = self._run(ctx)
        msgs = []
        for message in messages:
            held = run.read.get(id(message))
            if held is None or held[0] is not message:
                held = run.read[id(message)] = (message, read_one(message))
            same = run.same
            msgs.append([m.model_copy(update={"id": same[m.id]}) if m.id in same else m for m in held[1]])
        return msgs


def _all(groups_of: list[list[Msg]]) -> list[Msg]:
    return [msg for group in groups_of for msg in group]


def _request(
    view: list[Msg], sent: list[Msg], messages: list[ModelMessage], held: list[list[Msg]]
) -> list[ModelMessage]:
    """The view as it is sent: the run's own messages where they are unchanged, others from what the memory has."""
    own = {tuple(msg.id for msg in msgs): message for message, msgs in zip(messages, held, strict=True)}
    in_view = {id(msg) for msg in view if not is_compressed(msg)}
    request: list[ModelMessage] = []
    for group in groups(sent):
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
    tools = (*parameters.function_tools, *parameters.output_tools)
    functions = [{"name": t.name, "description": t.description, "parameters": t.parameters_json_schema} for t in tools]
    return [{"type": "function", **f, "strict": t.strict is not False} for f, t in zip(functions, tools, strict=True)]


def _besides(parameters: Any) -> list[Any]:
    """What is sent besides the messages: instructions, and the schemas of tools and of the final answer."""
    instructions = [part.content for part in parameters.instruction_parts or ()]
    return [*instructions, *_schemas(parameters), *_output(parameters)]


def _output(parameters: Any) -> list[Any]:
    """The schema of the final answer where no tool takes it: for the provider, or in words."""
    output, template = parameters.output_object, parameters.prompted_output_template
    if output is None or parameters.output_mode not in ("native", "prompted"):
        return []
    if parameters.output_mode == "prompted" and template is None:
        template = DEFAULT_PROMPTED_OUTPUT_TEMPLATE
    told = replace(parameters, prompted_output_template=template).prompted_output_instructions or ""
    if parameters.output_mode == "prompted":
        return [told]
    schema = {"name": output.name, "description": output.description, "schema": output.json_schema, "strict": True}
    return [told, {"type": "json_schema", "json_schema": schema}]


def _tool(tool: dict[str, Any], capability: AutoContextCapability) -> Tool[Any]:
    async def call(ctx: RunContext[Any], **arguments: Any) -> str:
        [own] = capability.memory(str(ctx.conversation_id)).tools(tool["name"])
        return await own.acall(**arguments)

    return Tool.from_schema(call, tool["name"], tool["description"], tool["parameters"], takes_ctx=True)
