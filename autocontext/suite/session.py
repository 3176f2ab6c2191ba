"""One conversation of one user; everything it stores is in the database of its AutoContext."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from autocontext.content.policy import PrunePolicy
from autocontext.content.pruning import Known, PruneResult, aprune_messages, prune_messages
from autocontext.errors import SessionGone, told
from autocontext.flows import DoesSteps, Flow, Operation, compute, operation, sync_and_async
from autocontext.flows.threads import afinished, finished
from autocontext.formats.reading import Message
from autocontext.history.answering import Answering, holds, open_calls
from autocontext.history.cached import cached_property
from autocontext.history.log import Log
from autocontext.memory import add_unless, in_log, offered_tools
from autocontext.messages import Msg, ToolResultBlock
from autocontext.stores import SessionKey
from autocontext.stores.checks import check_texts
from autocontext.stores.closing import awaitable
from autocontext.suite.preparing import Preparation, Prepared, holding
from autocontext.suite.saving import SaveReport, Saving
from autocontext.text.protocol_results import parsed, said
from autocontext.text.results import result_output
from autocontext.tools import INSTRUCTIONS, ContextOffloadTool

if TYPE_CHECKING:
    from autocontext.cache import ResultCache
    from autocontext.content.store import DatabaseContentStore
    from autocontext.memories import MemoryInjector
    from autocontext.memory import AutoContextMemory
    from autocontext.sessions import SessionState
    from autocontext.suite import AutoContext


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for the model: its OpenAI function schema, and the functions that take its arguments."""

    name: str
    schema: dict[str, Any]
    call: Callable[..., Any]
    acall: Callable[..., Awaitable[Any]]


class Session(DoesSteps):
    """A conversation, opened by `AutoContext.session`. `memory` is its AutoContextMemory; every change is durable."""

    def __init__(self, context: AutoContext, memory: AutoContextMemory) -> None:
        self.memory = memory
        self._context = context
        self._namespace = context.namespace(memory.session.user_id)
        self._known = Known()
        self._answering = Answering()
        self._unstored: dict[tuple[str, int], Msg] = {}
        """Answers that the log has not taken yet, by call id and number of the message with the call, in view."""
        self._reload = ContextOffloadTool(memory, content=context.content, content_namespace=self._namespace)

    @property
    def session_id(self) -> str:
        """The conversation's id."""
        return self.memory.session.session_id

    @property
    def user_id(self) -> str:
        """The user it belongs to; "" for none."""
        return self.memory.session.user_id

    # ------------------------------------------------------------------------------------------------------ messages
    def add(self, msg: Message | Iterable[Message], *, said_by_user: str | bool = False) -> None:
        """Add one message or several, as `AutoContextMemory.add`; what `call_tool` returned and added is skipped."""
        given = self.memory.read(msg)
        new = in_log(self.memory, lambda log: [m for m in given if not (m.role == "tool" and holds(log, m))])
        self.memory.add(new, said_by_user=said_by_user)

    aadd = awaitable(add)

    def _prepare(self, query: str | None = None, max_tokens: int | None = None) -> Flow[Prepared]:
        """Return the context for the next model call, valid and within `max_tokens` (default: the config's).

        Compresses if a threshold is reached, replaces large old texts by handles, and injects the memories relevant
        to `query` (default: the last turns). `report` says what was done, and whether the context fits.

            reply = client.chat.completions.create(messages=session.prepare().to_openai(), ...)
        """
        most = self.memory.config.max_token if max_tokens is None else max_tokens
        check_texts(query=query)
        preparation = Preparation(self.memory, self._context, self._known, self._injector, query, most)
        return (yield from preparation.flow())

    prepare, aprepare = sync_and_async(_prepare, in_threads=True)

    # --------------------------------------------------------------------------------------------------------- tools
    def _call_tool(
        self,
        /,
        fn: Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        call_id: str = "",
        *,
        name: str | None = None,
        cacheable: bool | None = None,
        **cache_options: Any,
    ) -> Flow[Msg]:
        """Run a tool for the call `call_id` and return the message that answers it; `acall_tool` runs it in a thread.

        A tool may be asynchronous: what it returns is awaited.

        If the conversation waits for that call, the message is added at once. If the call has an answer, the answer is
        returned and the tool does not run again; nor does it when you repeat the call because adding the message
        failed. An exception of the tool becomes an error result. A large result goes to the content store; the message
        shows its beginning and a handle. Raises SessionGone, StoreError, and ConfigError or TypeError for an option.

        With `cacheable=True` (or `fn.cacheable`) the result is cached for all sessions of the user; the tool must not
        have side effects. It is found by the tool's arguments and source, and by the object of a method; when these
        have no canonical form, the tool runs each time. With `name` it is found by name and arguments alone.
        `cache_options` are those of `ResultCache.get_or_compute`, e.g. `ttl`; they cache, too, unless `cacheable` or
        `fn.cacheable` is False. All fields of arguments and results count (`per_call=None`). What the tool raises, or
        returns marked as an error (`{"isError": True}`), is not cached.
        """
        if cache_options:  # here, as what is raised while the tool runs is its result
            from autocontext.cache.namespace import completed  # noqa: PLC0415 (only needed for caching)

            checked: dict[str, Any] = {**completed(cache_options)}  # which has read iterators to their end
            cache_options = {name: checked[name] for name in cache_options}
        answer, asked = None, self._asked(call_id)
        if asked and (unstored := self._unstored.get(asked)):
            return (yield from self._added(asked, unstored))
        if call_id and not asked:
            answer = yield from compute(lambda: self._answer(call_id))  # it may read the whole history
        if answer is not None:
            return answer
        if cacheable is None:
            cacheable = bool(getattr(fn, "cacheable", cache_options))
        call = ToolCall(
            fn=fn,
            args=args or {},
            session=self.memory.session,
            call_id=call_id or f"call_{len(self.memory.messages)}",
            name=name or str(getattr(fn, "name", "") or getattr(fn, "__name__", "tool")),
            cache=(yield from compute(lambda: self._cache)),  # opening it reads the database
            cache_options=cache_options if cacheable else None,
            by_name=name is not None,
        )
        content = yield from holding(self.memory, self._context.content)
        msg = yield from self._shown((yield from call.flow()), content)
        return (yield from self._added(asked, msg)) if asked else msg

    call_tool, acall_tool = sync_and_async(_call_tool, in_threads=True)

    def tools(self) -> list[Tool]:
        """The tools for the model: context_reload, with `steering` all of the memory's, then the user's memories'."""
        _, *steering = offered_tools(self.memory)  # the reload tool of a session also reads the content store
        own = [Tool(tool.name, tool.schema(), tool, tool.acall) for tool in (self._reload, *steering)]
        return [*own, *self._context.memory_tools(self.user_id, self.session_id)]

    @property
    def instructions(self) -> str:
        """Text for the system prompt about these tools."""
        if not self.user_id:
            return INSTRUCTIONS
        from autocontext.memories import INSTRUCTIONS as OF_MEMORIES  # noqa: PLC0415 (imports rankers)

        return f"{INSTRUCTIONS}\n\n{OF_MEMORIES}"

    # -------------------------------------------------------------------------------------------------------- saving
    def _save(self) -> Flow[SaveReport]:
        """Save an optimised copy of the working state. Messages do not need it: the log is durable at every change."""
        return (yield from self._saving.flow())

    save, asave = sync_and_async(_save, in_threads=True)

    def state(self, revision: int | None = None) -> SessionState | None:
        """The state saved last, or one revision; None before the first `save`."""
        return self._saving.latest(revision)

    # --------------------------------------------------------------------------------------------------------- inner
    @cached_property
    def _injector(self) -> MemoryInjector | None:
        return self._context.injector(self.user_id, self.memory.counter)

    @cached_property
    def _cache(self) -> ResultCache:
        return self._context.cache_of(self.user_id)

    @cached_property
    def _saving(self) -> Saving:
        return Saving(self.memory, self._context.content, self._namespace)

    def _answer(self, call_id: str) -> Msg | None:
        """The message that answers the newest call of this id, as it was added; None without one, or if it went."""

        def find(log: Log) -> Msg | None:
            found = self._answering.answer(log, call_id)
            return found if found is not None and holds(log, found) else None

        return in_log(self.memory, find)

    def _asked(self, call_id: str) -> tuple[str, int] | None:
        """The call, and the number of the message that makes it, if it has no answer in view."""
        unstored = list(self._unstored)
        waiting = in_log(self.memory, open_calls)
        for id_, number in unstored:
            if waiting.get(id_) != number:
                self._unstored.pop((id_, number), None)
        return (call_id, waiting[call_id]) if call_id in waiting else None

    def _shown(self, result: ToolResultBlock, content: DatabaseContentStore) -> Flow[Msg]:
        """The message with a result; one over `large_payload_threshold` characters is stored, and its beginning shown.

        `content` takes it, unless the session was deleted.
        """
        msg, large = Msg(role="tool", name=result.name, content=[result]), self.memory.config.large_payload_threshold
        policy = PrunePolicy(keep_last=1, large_tool_chars=large, recent_tool_keep_chars=min(_HEAD, large))
        pruned: PruneResult = yield operation(
            prune_messages, aprune_messages, [msg], store=content, policy=policy, namespace=self._namespace
        )
        return pruned.messages[0]

    def _added(self, call: tuple[str, int], msg: Msg) -> Flow[Msg]:
        """Add the answer of a call; it is kept until the log has it, as the tool may not be one to run twice.

        If it has one by now, that is returned: the thread of a call that was cancelled goes on adding.
        """
        self._unstored[call] = msg
        try:
            added = yield from compute(lambda: self._add_once(call[0], msg))
        except SessionGone:
            from autocontext.suite.erasing import forget_answer  # noqa: PLC0415 (imports the cache)

            self._unstored.pop(call, None)
            yield from compute(lambda: forget_answer(self._context, self.memory.session, msg))
            raise
        self._unstored.pop(call, None)
        return added

    def _add_once(self, call_id: str, msg: Msg) -> Msg:
        add_unless(self.memory, msg, lambda: self._answer(call_id))
        return self._answer(call_id) or msg


_HEAD = 1_000
"""Characters of a large result that the message shows."""


@dataclass(slots=True)
class ToolCall:
    """One call in progress. With `cache_options` None the tool runs every time."""

    fn: Callable[..., Any]
    args: Mapping[str, Any]
    session: SessionKey
    call_id: str
    name: str
    cache: ResultCache
    cache_options: Mapping[str, Any] | None
    by_name: bool
    """Whether the caller has named the tool, and so told it apart from others."""

    def flow(self) -> Flow[ToolResultBlock]:
        """Look up or run the tool: texts and blocks are its result unchanged, other values as JSON, errors as such."""
        try:
            value = yield Operation(self._run, self._arun)
        except _ErrorReturned as e:
            value = e.value
        except Exception as e:  # noqa: BLE001 (any tool error is a result: the turn goes on)
            return ToolResultBlock(id=self.call_id, name=self.name, output=f"Error: {told(e)}", is_error=True)
        if isinstance(value, ToolResultBlock):
            return value.model_copy(update={"id": self.call_id, "name": self.name})
        return ToolResultBlock(id=self.call_id, name=self.name, output=result_output(value))

    def _run(self) -> Any:
        return copy_context().run(self._do)

    def _do(self) -> Any:
        self._begin()
        if self.cache_options is None:
            return finished(partial(self.fn, **self.args))

        @wraps(self.fn)  # with its signature, by which the cache tells a wrong argument
        def call(**args: Any) -> Any:
            return _to_keep(finished(partial(self.fn, **args)))

        params, fn, options = self._lookup(call, self.cache_options)
        return self.cache.get_or_compute(self.name, params, fn, **options)

    async def _arun(self) -> Any:
        calling, before = self._begin()
        try:
            if self.cache_options is None:
                return await afinished(partial(self.fn, **self.args))

            async def call(**args: Any) -> Any:
                return _to_keep(await afinished(partial(self.fn, **args)))

            params, fn, options = self._lookup(call, self.cache_options)
            return await self.cache.aget_or_compute(self.name, params, fn, **options)
        finally:
            calling.set(before)

    def _lookup(
        self, fn: Callable[..., Any], options: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Callable[..., Any], dict[str, Any]]:
        """Parameters, function and options for `get_or_compute`."""
        options = {"per_call": None, **options}
        if self.by_name:
            return self.args, fn, options
        from autocontext.cache.versions import identified  # noqa: PLC0415 (only needed for caching)

        params, version = identified(self.fn, self.args)
        if options.get("version") is None:
            options["version"] = version
        return params, lambda **given: fn(**{name: self.args[name] for name in self.args if name in given}), options

    def _begin(self) -> tuple[ContextVar[Any], Any]:
        """Let the cache know whose call asks it, for erasing; returns what to set back."""
        from autocontext.cache.invalidating import ToolCall as Call  # noqa: PLC0415 (only needed for caching)
        from autocontext.cache.invalidating import calling  # noqa: PLC0415 (as above)

        before = calling.get()
        calling.set(Call.of(*self.session, self.call_id))
        return calling, before


class _ErrorReturned(Exception):
    """What a tool has returned as an error: raised past the cache, which stores only exceptions that it is told to."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def _to_keep(value: Any) -> Any:
    """A result that may be stored. Raises _ErrorReturned for one that is marked as an error."""
    is_marked = isinstance(value, str) and ("isError" in value or "is_error" in value)
    fields = parsed(value, len(value)) if is_marked else value
    is_error = isinstance(fields, dict) and (fields.get("isError") is True or fields.get("is_error") is True)
    if is_error or (is_marked and said(value).is_error):
        raise _ErrorReturned(value)
    return value
