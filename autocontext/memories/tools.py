"""Memory tools for an agent, bound to one user; the user is never a parameter."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autocontext import flows
from autocontext.errors import AutoContextError
from autocontext.formats.openai_parts import function_schema
from autocontext.memories.records import Memory, MemoryStats, ScoredMemory, checked_user, iso
from autocontext.memories.store import MemoryStore
from autocontext.text.rendering import escaped

INSTRUCTIONS = """\
You can remember things about the user across conversations. Use memory_add for lasting facts, preferences and \
corrections that the user states, one fact each and in a full sentence; never for passwords, for the task at hand or \
for what a tool printed. Use memory_search before you ask the user for something they may have told you before. \
When something has changed, use memory_update instead of adding the opposite."""


@dataclass(frozen=True)
class MemoryTool:
    """One tool: call it, or await `acall`, with the model's arguments; it always returns text."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    required: tuple[str, ...]
    run: Callable[..., str]
    arun: Callable[..., Awaitable[str]]

    def __call__(self, /, **arguments: Any) -> str:
        """The result for the model; a mistake in the arguments is returned as text, not raised."""
        return flows.run(self._answer(arguments), flows.do)

    async def acall(self, /, **arguments: Any) -> str:
        """`__call__` for asynchronous agents."""
        return await flows.arun(self._answer(arguments), flows.ado)

    def _answer(self, arguments: Mapping[str, Any]) -> flows.Flow[str]:
        try:
            result: str = yield flows.operation(self.run, self.arun, **self._known_arguments(arguments))
        except (AutoContextError, TypeError, ValueError) as e:
            return f"Error: {e}"
        return result

    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        return function_schema(self.name, self.description, dict(self.parameters), self.required)

    def _known_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The known arguments; anything else that a model makes up, above all a user_id, is ignored."""
        missing = [name for name in self.required if arguments.get(name) in (None, "")]
        if missing:
            raise ValueError(f"missing arguments: {', '.join(missing)}")
        return {key: value for key, value in arguments.items() if key in self.parameters and value is not None}


def memory_tools(store: MemoryStore, *, user_id: str) -> list[MemoryTool]:
    """memory_add, memory_search, memory_update, memory_delete and memory_stats for one user.

    Raises InvalidMemory for a wrong user_id.
    """
    owner = {"user_id": checked_user(user_id)}
    unknown = "there is no memory with this id; memory_search gives the ids"

    def tool(  # noqa: PLR0917 (a table of tools reads best in columns)
        name: str,
        description: str,
        names: str,
        required: tuple[str, ...],
        wording: Callable[[Any], str],
        sync_: Any,
        async_: Any,
    ) -> MemoryTool:
        def run(**arguments: Any) -> str:
            return wording(sync_(**arguments, **owner))

        async def arun(**arguments: Any) -> str:
            return wording(await async_(**arguments, **owner))

        parameters = {key: _PARAMETERS[key] for key in names.split()}
        return MemoryTool(name, description, parameters, required, run, arun)

    return [
        tool(
            "memory_add", "Remember one lasting fact about the user.",
            "content category tags importance", ("content",), _add_text, store.add, store.aadd,
        ),
        tool(
            "memory_search", "Find what is remembered about the user, best match first.",
            "query limit min_importance tags", ("query",), _search_text, store.search, store.asearch,
        ),
        tool(
            "memory_update", "Change a memory that is no longer right.",
            "memory_id content category tags importance", ("memory_id",), lambda m: _update_text(m, unknown),
            store.update, store.aupdate,
        ),
        tool(
            "memory_delete", "Delete a memory permanently, when the user asks for that.",
            "memory_id", ("memory_id",), lambda done: "Deleted." if done else f"Error: {unknown}",
            store.delete, store.adelete,
        ),
        tool(
            "memory_stats", "How much is remembered about the user, and under which tags.",
            "", (), _stats_text,
            store.stats, store.astats,
        ),
    ]  # fmt: skip


_PARAMETERS: dict[str, dict[str, Any]] = {
    "content": {"type": "string", "description": "The fact in one full sentence."},
    "category": {
        "type": "string",
        "description": "preference, knowledge, context, behavior, goal or correction.",
    },
    "tags": {"type": "array", "items": {"type": "string"}, "description": "A few short words."},
    "importance": {"type": "integer", "minimum": 1, "maximum": 10, "description": "1 (trivial) to 10 (vital)."},
    "query": {"type": "string", "description": 'What to look for; "" for the most important ones.'},
    "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of results, default 5."},
    "min_importance": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Leave out less important ones."},
    "memory_id": {"type": "string", "description": "The id that memory_search gave."},
}


def _add_text(memory: Memory) -> str:
    return (
        f"Remembered as {memory.id}." if not memory.confirmation_count else f"Already known as {memory.id}; confirmed."
    )


def _update_text(memory: Memory | None, unknown: str) -> str:
    return f"Error: {unknown}" if memory is None else f"Changed {memory.id}."


def _search_text(hits: list[ScoredMemory]) -> str:
    if not hits:
        return "Nothing is remembered about that."
    rows = [
        {
            "id": hit.memory.id,
            "content": hit.memory.content,
            "category": hit.memory.category,
            "tags": list(hit.memory.tags),
            "importance": hit.memory.importance,
            "since": iso(hit.memory.created_at)[:10],
        }
        for hit in hits
    ]
    return "\n".join(escaped(json.dumps(row, ensure_ascii=False)) for row in rows)


def _stats_text(stats: MemoryStats) -> str:
    return json.dumps(
        {
            "total_memories": stats.total_memories,
            "average_importance": stats.average_importance,
            "top_tags": dict(stats.top_tags),
        },
        ensure_ascii=False,
    )
