"""The tools of a loop: schemas from type hints, calls, and what the model reads of their results and errors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from pydantic import PydanticUserError, TypeAdapter, ValidationError, validate_call

from autocontext.errors import ConfigError, did_you_mean, one_line, short
from autocontext.flows.threads import in_thread
from autocontext.memory import AutoContextMemory, offered_tools
from autocontext.messages import ToolUseBlock


class ToolObject(Protocol):
    """A tool that has its own schema, such as ContextOffloadTool."""

    name: str

    def schema(self) -> dict[str, Any]:
        """The tool as the chat completions API takes it."""
        ...

    def __call__(self, **arguments: Any) -> Any:
        """The result of a call."""
        ...


Tool: TypeAlias = Callable[..., Any] | ToolObject
"""A function with type hints and a docstring, sync or async, or an object with a schema."""


def with_memory(tools: Iterable[Tool], memory: AutoContextMemory) -> list[Tool]:
    """The tools, with those of the memory that are not among them: `context_reload`, with `steering` all."""
    given = list(tools)
    names = {getattr(tool, "name", "") for tool in given}
    return [*given, *(tool for tool in offered_tools(memory) if tool.name not in names)]


class Toolset:
    """Tools by name. What a model does wrong, and what a tool raises, becomes a text that the model can act on."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Callable[..., Any]] = {}
        self.schemas: list[dict[str, Any]] = []
        for tool in tools:
            schema = _schema_of(tool)
            name = schema["function"]["name"]
            if name in self._tools:
                raise ConfigError(f"tools: two of them are called {name!r}")
            self._tools[name] = tool if hasattr(tool, "schema") else validate_call(tool)
            self.schemas.append(schema)

    def call(self, use: ToolUseBlock) -> tuple[str, bool]:
        """The result of a call as text, and whether it is an error."""
        try:
            tool = self._find(use.name)
            if _is_async(tool):
                raise TypeError("this tool is a coroutine function, which only arun and astream await")  # noqa: TRY301 (as below)
            return _text(tool(**use.input)), False
        except Exception as e:  # noqa: BLE001 (whatever a tool raises is for the model)
            return _problem(use.name, e), True

    async def acall(self, use: ToolUseBlock) -> tuple[str, bool]:
        """`call` without blocking the event loop: coroutine functions are awaited, others run in a thread."""
        try:
            tool = self._find(use.name)
            if _is_async(tool):
                return _text(await tool(**use.input)), False
        except Exception as e:  # noqa: BLE001 (as above)
            return _problem(use.name, e), True
        return await in_thread(lambda: self.call(use))

    def _find(self, name: str) -> Callable[..., Any]:
        if name not in self._tools:
            raise LookupError(f"there is no tool {name!r}; {did_you_mean(name, self._tools)}")
        return self._tools[name]


def _schema_of(tool: Tool) -> dict[str, Any]:
    if hasattr(tool, "schema"):
        return tool.schema()
    name = getattr(tool, "__name__", "")
    if not callable(tool) or not name.isidentifier():
        raise ConfigError(
            f"tools: {short(tool)} is not a tool; pass a function with a name, type hints and a docstring"
        )
    try:
        parameters = TypeAdapter(tool).json_schema()  # type: ignore[arg-type]  # functions are types to pydantic
    except PydanticUserError as e:
        reason = str(e).split(". ")[0].splitlines()[0]
        raise ConfigError(f"tools: {name}: a type in its signature has no JSON schema; change it ({reason})") from e
    function = {"name": name, "description": inspect.getdoc(tool) or name, "parameters": parameters}
    return {"type": "function", "function": function}


def _is_async(tool: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(tool))


def _text(result: Any) -> str:
    """A result as the model reads it: text as it is, anything else as JSON where it can be."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


def _problem(name: str, error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"Error: {one_line(name, error.errors(include_url=False))}"
    return f"Error: {type(error).__name__}: {error}"
