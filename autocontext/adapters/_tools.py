"""The memory's tools that an adapter gives to an agent, as its options say: `context_reload`, with `steering` all."""

from __future__ import annotations

from typing import Any, NamedTuple

from autocontext.config import AutoContextConfig
from autocontext.memory import AutoContextMemory, offered_tools


class Described(NamedTuple):
    """A tool without a memory: what a framework asks for before it knows the conversation."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""


def described(config: AutoContextConfig | None) -> list[Described]:
    """The tools over any memory with this configuration."""
    schemas = [tool.schema()["function"] for tool in offered_tools(AutoContextMemory(config))]
    return [Described(schema["name"], schema["description"], schema["parameters"]) for schema in schemas]
