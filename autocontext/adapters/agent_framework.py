"""agent-framework: history and compaction of an agent's sessions in one.

    agent = Agent(client, context_providers=[AutoContextCompaction.open("agent.db", window="100k")])

keeps the history, compresses before each call of the model, and gives the agent `context_reload` with its instructions.
In the narrower seat, `Agent(client, compaction_strategy=AutoContextCompaction(...))`, it compresses only; `tools` and
`instructions` are then the caller's to pass. Written against agent-framework-core 1.23.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from pydantic import BaseModel

from autocontext.adapters._sessions import Sessions
from autocontext.adapters.options import MemoryOptions, Openable, with_memory_options
from autocontext.errors import needs_extra
from autocontext.flows.logs import logger
from autocontext.formats.refusals import asent
from autocontext.formats.sendable import sendable
from autocontext.formats.usage import with_cached
from autocontext.memory import AutoContextMemory, learn_usage, offered_tools
from autocontext.messages import Msg
from autocontext.tools import INSTRUCTIONS

with needs_extra("autocontext.adapters.agent_framework", "agent-framework"):
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        FunctionTool,
        HistoryProvider,
        Message,
        ResponseStream,
    )

    from autocontext.adapters._agent_framework_history import MARK, Placed, follow, shown, unique
    from autocontext.adapters._agent_framework_messages import from_agent_framework, to_agent_framework

__all__ = ["AutoContextCompaction", "from_agent_framework", "to_agent_framework"]

_log = logger(__name__)


class AutoContextCompaction(Openable, HistoryProvider):
    """The history of an agent's sessions, of which each request holds the memory's view.

    With `memory` or `session_id` it serves that one conversation, otherwise one for each `AgentSession.session_id`:
    pass `session=` to `run`, or each run is a conversation of its own. Raises ConfigError when it is bound to one
    conversation and run with a second session.
    """

    @with_memory_options
    def __init__(
        self,
        memory: AutoContextMemory | None = None,
        *,
        source_id: str = "autocontext",
        **options: Unpack[MemoryOptions],
    ) -> None:
        super().__init__(source_id)
        self._sessions = Sessions(memory, **options)
        self._warned = False

    def memory(self, session_id: str = "") -> AutoContextMemory:
        """The memory of a session; of the one conversation when this is bound to it."""
        return self._sessions.bound or self._sessions.of(session_id)

    @property
    def tools(self) -> list[FunctionTool]:
        """The tools of the one conversation, for the narrower seat; a provider adds them by itself."""
        return [_function_tool(tool) for tool in offered_tools(self._sessions.one())]

    # ----------------------------------------------------------------------------------------- compaction strategy
    async def __call__(self, messages: list[Message]) -> bool:
        """Compress a list of messages in place; True when it was changed."""
        marks = (m.additional_properties.get(MARK) for m in messages)
        session = next((str(mark["session"]) for mark in marks if isinstance(mark, Mapping)), None)
        memory = self._sessions.one() if session is None or self._sessions.bound else self._sessions.of(session)
        before = len(memory.get_compression_events())
        placed = follow(memory, messages)
        view = shown(memory, session or memory.session.session_id, sendable(await memory.aget_messages()), placed)
        if len(memory.get_compression_events()) == before and len(view) == len(messages):
            return False
        messages[:] = view
        return True

    # ---------------------------------------------------------------------------------------------------- provider
    async def before_run(self, *, agent: Any, session: Any, context: Any, **_more: Any) -> None:
        """Give the run its history, `context_reload`, the instructions, and compression before each call."""
        memory = await self._sessions.abegin(session.session_id)
        self._warn_of(getattr(agent, "compaction_strategy", None))
        providers = getattr(agent, "context_providers", ())
        others = [p for p in providers if isinstance(p, HistoryProvider) and p is not self]
        if not any(p.load_messages for p in others):
            context.extend_messages(self, shown(memory, session.session_id, sendable(memory.messages), ()))
        context.extend_tools(self.source_id, [_function_tool(tool) for tool in offered_tools(memory)])
        context.extend_instructions(self.source_id, INSTRUCTIONS)
        histories = [self.source_id, *(p.source_id for p in others)]
        context.extend_middleware(self.source_id, _Compressing(memory, session.session_id, histories))
        context.metadata[self.source_id] = len(memory.get_original_memory_msgs())

    async def after_run(self, *, session: Any, context: Any, **_more: Any) -> None:
        """Keep what the run has said that no request held: its last answer."""
        memory = self._sessions.of(session.session_id)
        start = context.metadata.get(self.source_id, 0)
        answer = context.response.messages if context.response else ()
        held = memory.get_original_memory_msgs()[start:]
        known = Counter(("function_call", use.id) for m in held for use in m.tool_uses)
        known.update(("function_result", result.id) for m in held for result in m.tool_results)
        last = 0
        for i, message in enumerate(answer):
            said = Counter(_calls_and_results(message))
            if said and said <= known:  # services may use an id again
                known -= said
                last = i + 1
        memory.add_messages(_with_new_ids(memory, answer[last:]))
        memory.close_request()

    async def get_messages(self, session_id: str | None, **_more: Any) -> list[Message]:
        """The view of a session as it stands."""
        return to_agent_framework(self._sessions.of(session_id or "", kept=bool(session_id)).messages)

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **_more: Any) -> None:
        """Add messages at the end of a session."""
        memory = self._sessions.of(session_id or "", kept=bool(session_id))
        memory.add_messages(_with_new_ids(memory, messages))

    # --------------------------------------------------------------------------------------------------------- parts
    def _warn_of(self, strategy: object) -> None:
        if strategy is not None and strategy is not self and not self._warned:
            self._warned = True
            _log.warning(
                "this agent has a compaction_strategy (%s) next to AutoContextCompaction: two compressions rewrite "
                "each other's notes; leave compaction_strategy out",
                type(strategy).__name__,
            )


class _Compressing(ChatMiddleware):
    """Sends one run's calls of the model with the memory's view."""

    def __init__(self, memory: AutoContextMemory, session: str, histories: list[str]) -> None:
        self._memory, self._session, self._histories = memory, session, histories
        self._placed: list[Placed] = []
        self._view: list[Msg] = []
        self._is_streamed = False

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Exchange the messages; a conversation that the service itself keeps is left alone."""
        options = context.options or {}
        if options.get("conversation_id"):
            _log.warning("the service keeps this conversation, so nothing can be compressed; pass store=False")
            await call_next()
            return
        given, self._is_streamed = context.messages, context.stream

        async def ask() -> None:
            self._placed = follow(self._memory, given, self._histories, self._placed)
            self._memory.set_overhead(*(p.message.text for p in self._placed if p.id is None), *_besides(options))
            self._view = await self._memory.aget_messages()
            view = self._memory.as_sent(self._view)
            context.messages = shown(self._memory, self._session, view, self._placed)
            await call_next()

        context.stream_result_hooks.append(self._keep)
        await asent(ask, lambda: self._memory)
        if isinstance(context.result, ResponseStream):
            context.result = self._opened(context, context.result, ask)
        elif isinstance(context.result, ChatResponse):
            self._keep(context.result)

    def _opened(
        self, context: ChatContext, stream: ResponseStream[Any, Any], ask: Callable[[], Awaitable[None]]
    ) -> ResponseStream[Any, Any]:
        """The stream, which sends its request when it is read; once more if that is refused as too long."""
        answers: list[ChatResponse] = []

        async def updates() -> AsyncIterator[Any]:
            reading, begun = stream, False
            while not answers:
                try:
                    async with reading:
                        async for update in reading:
                            begun = True
                            yield update
                        answers.append(await reading.get_final_response())
                except Exception as e:
                    if begun or not await self._memory.arecover(e):
                        raise
                    await ask()
                    reading, begun = context.result, True

        return ResponseStream(updates(), finalizer=lambda _: answers[-1])

    def _keep(self, answer: ChatResponse) -> None:
        """Learn how the service has counted the request, and keep an answer that calls tools."""
        usage = _input_tokens(answer.usage_details or {}, is_streamed=self._is_streamed)
        learn_usage(self._memory, self._view, usage, [part for m in answer.messages for part in m.contents])
        # Before the tools run: a process that ends within one leaves the call in the memory.
        if any(kind == "function_call" for m in answer.messages for kind, _ in _calls_and_results(m)):
            self._memory.add_messages(_with_new_ids(self._memory, answer.messages))


def _input_tokens(details: Mapping[str, Any], *, is_streamed: bool) -> Any:
    """The input tokens of a request; None of Anthropic's stream, of which two that each tell the whole are added up."""
    beside = [n for key, n in details.items() if key.startswith("anthropic.cache_") and isinstance(n, int)]
    return None if beside and is_streamed else with_cached(details.get("input_token_count"), beside)


def _besides(options: Mapping[str, Any]) -> list[str | dict[str, Any]]:
    """What a request holds besides messages: instructions, and the schemas of tools and of the answer."""
    instructions = options.get("instructions") or ()
    texts = [instructions] if isinstance(instructions, str) else [str(part) for part in instructions]
    tools = options.get("tools") or ()
    schemas = [tool.to_json_schema_spec() for tool in tools if isinstance(tool, FunctionTool)]
    form = options.get("response_format")
    if isinstance(form, type) and issubclass(form, BaseModel):
        schema = {"name": form.__name__, "schema": form.model_json_schema(), "strict": True}
        form = {"type": "json_schema", "json_schema": schema}
    return [*texts, *schemas, *([form] if isinstance(form, Mapping) else [])]


def _function_tool(tool: Any) -> FunctionTool:
    schema = tool.schema()["function"]
    return FunctionTool(
        name=schema["name"], description=schema["description"], func=tool.acall, input_model=schema["parameters"]
    )


def _calls_and_results(message: Message) -> list[tuple[str, str]]:
    return [(c.type, str(c.call_id)) for c in message.contents if c.type in ("function_call", "function_result")]


def _with_new_ids(memory: AutoContextMemory, messages: Sequence[Message]) -> list[Msg]:
    taken = {m.id for m in memory.get_original_memory_msgs()}
    return [unique(msg, taken) for msg in from_agent_framework(messages) if not _is_empty(msg)]


def _is_empty(msg: Msg) -> bool:
    """Whether a message says nothing: strict services refuse it in the next request."""
    return all(b.type == "text" and not b.text.strip() for b in msg.content)
