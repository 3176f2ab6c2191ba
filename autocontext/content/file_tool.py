"""The paged file reader for agents: `get_file_content`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocontext.content.paging import PAGE_CHARS, window
from autocontext.content.records import Page
from autocontext.content.store import ContentStore, checked_content_store
from autocontext.flows.threads import in_thread
from autocontext.formats.agent_tools import function_schema
from autocontext.stores.checks import whole_or

DEFAULT_LENGTH = 5_000
MAX_LENGTH = 10_000
_LISTED = 50
"""File names in an error; more would cost more context than they help."""
_FARTHEST = 10**15
"""Characters; a model's wilder numbers mean no more than this one."""


class FileContentTool:
    """Reads a stored file in chunks of at most 10,000 characters; wrong arguments get an answer, not an exception."""

    name = "get_file_content"
    description = (
        "Read a chunk of a stored file: the characters from start_char on. While has_more is true, read on with "
        "start_char set to the end_char of the last chunk."
    )

    def __init__(
        self, store: ContentStore | None, *, namespace: str = "", fallback: Mapping[str, str] | None = None
    ) -> None:
        self._store = None if store is None else checked_content_store(store, type(self).__name__)
        self._namespace = namespace
        self._fallback = fallback or {}

    def __call__(
        self, /, file_name: Any = "", start_char: Any = 0, length: Any = DEFAULT_LENGTH, **_unknown: Any
    ) -> dict[str, Any]:
        """A dict: file_name, chunk, start_char, end_char, total_length, has_more, and `notice` if it was clamped.

        For an unknown name, or one that several files have: error, available_files.
        """
        name, start = str(file_name), whole_or(0, start_char, -_FARTHEST, _FARTHEST)
        size = whole_or(DEFAULT_LENGTH, length, 0, _FARTHEST) or DEFAULT_LENGTH  # a chunk of none leads nowhere
        store = self._store
        matches = store.find(name, namespace=self._namespace) if store is not None and name else []
        if len(matches) > 1:
            names = sorted(each.key or each.ref for each in matches)
            return {"error": f"File {name!r} is ambiguous: give one of the full names.", "available_files": names}
        if store is not None and matches:
            key = matches[0].key or matches[0].ref
            page = store.read(key, start, min(size, MAX_LENGTH), namespace=self._namespace)
        else:
            page = self._in_state(name, start, size)
        if page is None:
            return {"error": f"File {name!r} not found in the content store.", "available_files": self._available()}
        notices = [page.notice, f"length {size} is over {MAX_LENGTH}, which was taken" if size > MAX_LENGTH else ""]
        notice = "; ".join(filter(None, notices))
        return {
            "file_name": name, "chunk": page.text, "start_char": page.offset, "end_char": page.end,
            "total_length": page.total, "has_more": page.has_more,
        } | ({"notice": notice} if notice else {})  # fmt: skip

    async def acall(self, /, **arguments: Any) -> dict[str, Any]:
        """`__call__` without blocking the event loop."""
        return await in_thread(lambda: self(**arguments))

    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        properties = {
            "file_name": {"type": "string", "description": "Name or full path of the file."},
            "start_char": {"type": "integer", "minimum": 0, "description": "First character, default 0."},
            "length": {
                "type": "integer", "minimum": 1, "maximum": MAX_LENGTH,
                "description": f"Characters to read, default {DEFAULT_LENGTH}, at most {MAX_LENGTH}.",
            },
        }  # fmt: skip
        return function_schema(self.name, self.description, properties, ["file_name"])

    def _in_state(self, name: str, start: int, size: int) -> Page | None:
        """A chunk of a file from `fallback`, for names that the store does not have."""
        text = self._fallback.get(name)
        if text is None:
            return None
        span = window(len(text), start, min(size, MAX_LENGTH))
        return span.page("", text[span.first * PAGE_CHARS :])

    def _available(self) -> list[str]:
        stored = [] if self._store is None else self._store.keys(namespace=self._namespace, limit=_LISTED)
        return sorted({*stored, *self._fallback})[:_LISTED]


def get_file_content_tool(
    store: ContentStore | None, *, namespace: str = "", fallback: Mapping[str, str] | None = None
) -> FileContentTool:
    """The tool `get_file_content` for an agent: reads files of one namespace of a store.

    `fallback` maps file names to texts, for files that the store does not have.
    """
    return FileContentTool(store, namespace=namespace, fallback=fallback)
