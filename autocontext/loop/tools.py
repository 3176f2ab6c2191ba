"""The tools of a loop: schemas from type hints, calls, and what the model reads of their results and errors."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from itertools import takewhile
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError, validate_call

from autocontext.errors import AutoContextError, ConfigError, did_you_mean, one_line, short, told
from autocontext.flows import lazy
from autocontext.flows.threads import LONGEST_WAIT, in_thread
from autocontext.formats.openai_parts import hints
from autocontext.memory import AutoContextMemory, offered_tools
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock
from autocontext.stores.checks import json_text
from autocontext.stores.protocol import SessionKey
from autocontext.text.results import Output, result_output
from autocontext.tools import ContextOffloadTool


class ToolObject(Protocol):
    """A tool that has its own schema, such as ContextOffloadTool."""

    name: str

    def schema(self) -> dict[str, Any]:
        """The tool as the chat completions API takes it."""

    def __call__(self, **arguments: Any) -> Any:
        """The result of a call."""


_OWN = '{"type": "function", "function": {"name": ..., "parameters": ...}}'
Tool: TypeAlias = Callable[..., Any] | ToolObject
"""A function with type hints and a docstring, sync or async, or an object with a schema."""


def with_memory(tools: Iterable[Tool] | None, memory: AutoContextMemory) -> list[Tool]:
    """The tools, with those of the memory that are not among them: `context_reload`, with `steering` all.

    Another session's, as in a list that was made for that session, would read and steer that one: they are replaced.
    Raises ConfigError for what is no list.
    """
    tools = () if tools is None else tools
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise ConfigError(f"tools must be a list of functions, such as [read_log] (got {short(tools)})")
    given = [_of_session(tool, memory) for tool in tools]
    names = {getattr(tool, "name", "") for tool in given}
    return [*given, *(tool for tool in offered_tools(memory) if tool.name not in names)]


def _of_session(tool: Tool, memory: AutoContextMemory) -> Tool:
    """The tool; in the place of another session's reload or steering tool that of this memory."""
    session = getattr(tool, "session", None)
    if not isinstance(session, SessionKey) or session == memory.session:
        return tool
    if isinstance(tool, ContextOffloadTool):
        return tool.of(memory)  # with the content store that it reads
    [own] = memory.tools(getattr(tool, "name", ""))
    return own


class Toolset:
    """Tools by name. What a model does wrong, and what a tool raises, becomes a text that the model can act on."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}
        self.schemas: list[dict[str, Any]] = []
        for number, tool in enumerate(tools):
            schema, function = _prepared(tool, f"tools[{number}]")
            name = schema["function"]["name"]
            if name in self._tools:
                raise ConfigError(f"tools[{number}]: another one is called {name!r}, too; rename one of them")
            self._tools[name] = function
            self.schemas.append(schema)

    def call(self, use: ToolUseBlock) -> tuple[Output, bool]:
        """The result of a call as text or blocks, and whether it is an error. What is no Exception goes through."""
        outcome = self._run(use)
        if isinstance(outcome, tuple):
            return outcome
        if inspect.iscoroutine(outcome):
            outcome.close()
        return "Error: TypeError: this tool is a coroutine function, which only arun and astream await", True

    async def acall(self, use: ToolUseBlock) -> tuple[Output, bool]:
        """`call` without blocking the event loop: coroutine functions are awaited, others run in a thread.

        Of an object that has one, `acall` is awaited.
        """
        tool = self._tools.get(use.name, _prepared)
        function = getattr(tool, "acall", tool)
        if inspect.iscoroutinefunction(inspect.unwrap(function)):
            outcome = self._run(use, function)
        else:
            outcome = await in_thread(lambda: self._run(use))
        if isinstance(outcome, tuple):
            return outcome
        try:
            return result_output(await outcome), False
        except Exception as e:  # noqa: BLE001 (as below)
            return _problem(use.name, e), True

    def _run(
        self, use: ToolUseBlock, function: Callable[..., Any] | None = None
    ) -> tuple[Output, bool] | Awaitable[Any]:
        try:
            tool = self._tool(use)
            result = (function or tool)(**use.input)
            if hasattr(type(result), "__await__"):
                return cast("Awaitable[Any]", result)
            return result_output(result), False
        except Exception as e:  # noqa: BLE001 (whatever a tool raises is for the model)
            return _problem(use.name, e), True

    def _tool(self, use: ToolUseBlock) -> Callable[..., Any]:
        if use.name not in self._tools:
            raise LookupError(f"there is no tool {use.name!r}; {did_you_mean(use.name, self._tools)}")
        if hints(use).get("text"):  # as a model leaves it that is cut off
            raise ValueError(f"{use.name}: the arguments are not a JSON object: {short(use.input['arguments'])}")
        return self._tools[use.name]


def _prepared(tool: Tool, field: str) -> tuple[dict[str, Any], Callable[..., Any]]:
    """A tool's schema and what to call. Raises ConfigError naming the field, the tool and the reason."""
    if hasattr(tool, "schema") and not isinstance(tool, type):
        return _own_schema(tool, field), tool.blocks if isinstance(tool, ContextOffloadTool) else tool
    name = getattr(tool, "__name__", "")
    if not callable(tool) or not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(
            f"{field}: {short(tool)} is not a tool; pass a function with a name, type hints and a docstring"
        )
    try:
        parameters, function = TypeAdapter(tool).json_schema(), validate_call(tool)  # type: ignore[arg-type]  # functions are types to pydantic
    except Exception as e:  # of pydantic, of a type's own code, or a name that a hint does not find
        reason = told(e).split(". ")[0].splitlines()[0]
        raise ConfigError(f"{field}: {name}: its signature has no JSON schema; change it ({reason})") from e
    if parameters.get("type") != "object":
        raise ConfigError(f"{field}: {name}: a model names each argument; take none by position only (`*args`, `/`)")
    described = {"name": name, "description": inspect.getdoc(tool) or name, "parameters": parameters}
    return {"type": "function", "function": described}, function


def _own_schema(tool: Any, field: str) -> dict[str, Any]:
    """The schema that a tool gives, with a name in it."""
    try:
        schema: Any = tool.schema()
        json_text(field, schema)
        name = schema["function"]["name"] if callable(tool) else None
    except Exception as e:
        raise ConfigError(f"{field}: {short(tool)}: schema() must return {_OWN} ({told(e)})") from e
    if not isinstance(name, str):
        raise ConfigError(f"{field}: {short(tool)} must be callable, and its schema() return {_OWN}")
    return cast("dict[str, Any]", schema)


def _problem(name: str, error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"Error: {one_line(name, error.errors(include_url=False))}"
    return f"Error: {told(error)}"


class Calls:
    """The calls of the message `asked`, the last one in the memory."""

    def __init__(self, memory: AutoContextMemory, tools: Toolset, asked: Msg) -> None:
        self._memory, self._tools, self._asked = memory, tools, asked
        self._finished: list[tuple[ToolUseBlock, tuple[Output, bool] | BaseException]] = []
        """In the order in which they finished: the output and whether it is an error, or what ended the tool."""
        self._stored = 0
        """How many of them are in the memory."""
        self._begun = -1
        """The one whose storing has begun: an interrupt may come when it is in the memory and not yet in `_stored`."""
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run the calls in threads, to the end; then raise what a tool raised that is no Exception.

        The threads are daemons: a tool that hangs keeps no program from ending.
        """
        finished: SimpleQueue[None] = SimpleQueue()

        def work(use: ToolUseBlock) -> None:
            try:
                self._finished.append((use, self._tools.call(use)))
            except BaseException as e:  # noqa: BLE001 (raised by `run`)
                self._finished.append((use, e))
            finished.put(None)

        try:
            for use in self._asked.tool_uses:
                threading.Thread(target=copy_context().run, args=(work, use), daemon=True).start()
            left = len(self._asked.tool_uses)
            while left:
                with suppress(Empty):
                    finished.get(timeout=LONGEST_WAIT)
                    left -= 1
                    with suppress(AutoContextError):  # tried again when the others have finished
                        self._store()
            self._store()
        except BaseException:
            with suppress(AutoContextError):  # what ends the run is what the caller hears of
                self._store()
            raise
        self._raise()

    async def arun(self) -> None:
        """`run` for asynchronous callers: coroutine functions are awaited, other tools run in threads."""
        asyncio = lazy.asyncio

        async def work(use: ToolUseBlock) -> None:
            try:
                self._finished.append((use, await self._tools.acall(use)))
            except BaseException as e:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # this runs in a task
                    raise
                self._finished.append((use, e))

        tasks = [asyncio.create_task(work(use)) for use in self._asked.tool_uses]
        try:
            running = set(tasks)
            while running:
                _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                with suppress(AutoContextError):
                    await in_thread(self._store)
            await in_thread(self._store)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)  # until they have cleaned up
            with suppress(AutoContextError):
                await in_thread(self._store)
            raise
        self._raise()

    def _store(self) -> None:
        """Store each result that is there and not in the memory yet."""
        with self._lock:
            while self._stored < len(self._finished):
                number = self._stored
                use, outcome = self._finished[number]
                if not isinstance(outcome, BaseException) and not (self._begun == number and self._is_stored(number)):
                    self._begun = number
                    output, failed = outcome
                    block = ToolResultBlock(id=use.id, name=use.name, output=output, is_error=failed)
                    self._memory.add_message(Msg(role="tool", content=(block,)))
                self._stored = number + 1

    def _is_stored(self, number: int) -> bool:
        """Whether the memory has the result of this number: only asked after a failure, as it reads every message."""
        id_ = self._finished[number][0].id
        before = [outcome for use, outcome in self._finished[:number] if use.id == id_]
        since = takewhile(lambda m: m.id != self._asked.id, reversed(self._memory.get_original_memory_msgs()))
        there = sum(block.id == id_ for msg in since for block in msg.tool_results)
        return there > sum(not isinstance(outcome, BaseException) for outcome in before)

    def _raise(self) -> None:
        for _, outcome in self._finished:
            if isinstance(outcome, BaseException):
                raise outcome
