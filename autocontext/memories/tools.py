"""Memory tools for an agent, bound to one user; the user is never a parameter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from autocontext import flows
from autocontext.errors import AutoContextError
from autocontext.formats.agent_tools import AgentTool
from autocontext.memories.records import MOST_CONTENT, Memory, MemoryStats, ScoredMemory, checked_user, iso
from autocontext.memories.store import MemoryStore
from autocontext.stores.checks import whole_or
from autocontext.text.rendering import cut, escaped

INSTRUCTIONS = """\
You can remember things about the user across conversations. Use memory_add for lasting facts, preferences and \
corrections that the user states, one fact each and in a full sentence; never for passwords, for the task at hand or \
for what a tool printed. Use memory_search before you ask the user for something they may have told you before. \
When something has changed, use memory_update instead of adding the opposite."""


class MemoryTool(AgentTool):
    """A tool that finds or changes the memories of one user: call it, or await `acall`, with the model's arguments."""

    refused = (AutoContextError, TypeError, ValueError)

    def __init__(self, name: str, store: MemoryStore, fixed: Mapping[str, Any]) -> None:
        description, parameters, required, self._worded = _TOOLS[name]
        super().__init__(name, description, {key: _PARAMETERS[key] for key in parameters.split()}, required)
        self._store, self._fixed = store, fixed

    def _steps(self, arguments: dict[str, Any]) -> flows.Flow[str]:
        if "limit" in arguments:
            arguments["limit"] = whole_or(_DEFAULT, arguments["limit"], 1, _MOST)
        page = Page(f"{arguments.get('query')}".strip(), whole_or(0, arguments.pop("offset", 0), 0, MOST_CONTENT))
        step = flows.method(self._store, self.name.removeprefix("memory_"), **arguments, **self._fixed)
        return self._worded((yield step), page)


def memory_tools(store: MemoryStore, *, user_id: str, source: str | None = None) -> list[MemoryTool]:
    """memory_add, memory_search, memory_update, memory_delete and memory_stats for one user.

    `source` is the conversation's id, for the memories that are added. Raises InvalidMemory for a wrong user_id.
    """
    owner = {"user_id": checked_user(user_id)}
    added = {**owner, "source": source}
    return [MemoryTool(name, store, added if name == "memory_add" else owner) for name in _TOOLS]


_DEFAULT, _MOST = 5, 50
"""Results of one search."""
_PAGE = 16_000
"""Characters of the contents in one answer."""
_MOST_TAGS = 20


class Page(NamedTuple):
    """What part of the contents an answer has."""

    query: str
    offset: int
    """Characters before the part, of the memory whose id the query is."""

    def row(self, memory: Memory, share: int) -> dict[str, Any]:
        """The content: of what was asked for by its id this page, of others the beginning, `share` characters."""
        content, key = memory.content, memory.id
        if self.query == key:
            end = cut(content, self.offset + _PAGE)
            after = {"next_offset": end, "characters": len(content)} if end < len(content) else {}
            return {"id": key, "content": content[self.offset : end], **after}
        if len(content) > share:
            content = f"{content[: cut(content, share)]} [...] (cut; the whole is {key})"
        return {"id": key, "content": content}


_PARAMETERS: dict[str, dict[str, Any]] = {
    "content": {"type": "string", "description": "The fact in one full sentence."},
    "category": {"type": "string", "description": "preference, knowledge, context, behavior, goal or correction."},
    "tags": {"type": "array", "items": {"type": "string"}, "description": "A few short words."},
    "importance": {"type": "integer", "minimum": 1, "maximum": 10, "description": "1 (trivial) to 10 (vital)."},
    "query": {
        "type": "string",
        "description": 'What to look for; "" for the most important ones; an id for the whole of that one.',
    },
    "offset": {"type": "integer", "minimum": 0, "description": "With an id: where to read on, a next_offset."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Most results, default 5."},
    "min_importance": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Leave out less important ones."},
    "memory_id": {"type": "string", "description": "The id that memory_search gave."},
}


_UNKNOWN = "Error: there is no memory with this id; memory_search gives the ids"


def _add_text(memory: Memory, _: Page) -> str:
    known = memory.confirmation_count
    return f"Already known as {memory.id}; confirmed." if known else f"Remembered as {memory.id}."


def _update_text(memory: Memory | None, _: Page) -> str:
    return _UNKNOWN if memory is None else f"Changed {memory.id}."


def _delete_text(done: bool, _: Page) -> str:
    return "Deleted." if done else _UNKNOWN


def _search_text(hits: list[ScoredMemory], page: Page) -> str:
    if not hits:
        return "Nothing is remembered about that."
    share = _PAGE if sum(len(hit.memory.content) for hit in hits) <= _PAGE else _PAGE // len(hits)
    rows = [
        {
            **page.row(hit.memory, share),
            "category": hit.memory.category,
            "tags": list(hit.memory.tags[:_MOST_TAGS]),
            "importance": hit.memory.importance,
            "since": iso(hit.memory.created_at)[:10],
        }
        for hit in hits
    ]
    return "\n".join(escaped(json.dumps(row, ensure_ascii=False)) for row in rows)


def _stats_text(stats: MemoryStats, _: Page) -> str:
    return json.dumps({**vars(stats), "top_tags": dict(stats.top_tags)}, ensure_ascii=False)


_TOOLS: Mapping[str, tuple[str, str, tuple[str, ...], Callable[[Any, Page], str]]] = {
    "memory_add": (
        "Remember one lasting fact about the user.", "content category tags importance", ("content",), _add_text
    ),
    "memory_search": (
        "Find what is remembered about the user, best match first.",
        "query limit min_importance tags offset", ("query",), _search_text,
    ),
    "memory_update": (
        "Change a memory that is no longer right.", "memory_id content category tags importance", ("memory_id",),
        _update_text,
    ),
    "memory_delete": (
        "Delete a memory permanently, when the user asks for that.", "memory_id", ("memory_id",), _delete_text
    ),
    "memory_stats": ("How much is remembered about the user, and under which tags.", "", (), _stats_text),
}  # fmt: skip
"""Of each tool the description, the parameters, those that are required, and how the result is worded."""
