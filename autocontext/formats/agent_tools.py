"""Tools that an agent's model calls: a schema, and a call that always answers with a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from autocontext import flows
from autocontext.errors import AutoContextError


class AgentTool(ABC):
    """A tool for the model: `name`, `description`, `schema()`, and a call that returns text.

    Wrong arguments return a text that the model can act on, never an exception; arguments it does not know are ignored.
    """

    refused: ClassVar[tuple[type[Exception], ...]] = (AutoContextError,)
    """What `_steps` raises for a call that cannot be done; its text is the answer."""

    def __init__(self, name: str, description: str, parameters: Mapping[str, Any], required: Sequence[str]) -> None:
        self.name, self.description, self.parameters, self.required = name, description, parameters, required

    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        return function_schema(self.name, self.description, dict(self.parameters), self.required)

    def __call__(self, /, **arguments: Any) -> str:
        """The answer of a call."""
        return flows.run(self._answer(arguments), flows.do)

    async def acall(self, /, **arguments: Any) -> str:
        """`__call__` for asynchronous agents: what has to read and to store does so without blocking the loop."""
        return await flows.arun(self._answer(arguments), flows.ado)

    def _answer(self, arguments: Mapping[str, Any]) -> flows.Flow[str]:
        if missing := [key for key in self.required if arguments.get(key) is None]:
            return f"Error: {', '.join(missing)}: must be passed."
        known = {key: value for key, value in arguments.items() if key in self.parameters and value is not None}
        try:
            return (yield from self._steps(known))
        except self.refused as e:
            return f"Error: {e}"

    @abstractmethod
    def _steps(self, arguments: dict[str, Any]) -> flows.Flow[str]:
        """Do what these arguments ask for, which the tool has, and return the answer."""


def function_schema(name: str, description: str, properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """A tool as an OpenAI function schema; `properties` are its parameters, in JSON Schema."""
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
