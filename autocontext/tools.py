"""The reload tool: the agent's way back to everything a compression took out of its view."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from autocontext.flows.threads import in_thread
from autocontext.history import numbering
from autocontext.messages import Msg
from autocontext.telemetry import reloaded
from autocontext.text import rendering
from autocontext.text.words import rarity, terms
from autocontext.tokens import TokenCounter, get_counter

if TYPE_CHECKING:
    from autocontext.content.store import ContentStore
    from autocontext.memory import AutoContextMemory

_ARGUMENT = "working_context_offload_uuid"
PAGE_TOKENS = 8_000
"""Largest page without a `limit`."""
_PASSAGE = 600
"""Characters of a passage that a query is matched against."""
_BEST = 8
"""Passages shown for a query."""
_HANDLE = "c_"
"""How the handles of content stores begin; no UUID does."""
_NAME = 60
"""Characters of a content's name, or of a list of numbers, in the head of its pages."""
_SAID = 80
"""Characters that an error repeats of what the model has passed."""
_LEAST_PREFIX = 8
"""Characters by which a UUID may be called."""
_FARTHEST = 10**15
"""Characters; a model's wilder numbers mean no more than this one."""

INSTRUCTIONS = """\
Parts of this conversation may have been condensed to save space. Such a text ends with a mark like \
<!-- CONTEXT_OFFLOAD: uuid=... -->: the originals are kept under that UUID.
When you need a detail that the condensed text does not give (exact values, code, arguments, error texts), call \
context_reload with that UUID instead of guessing or repeating the work; give `query` to get only the passages that \
match, or `offset` to read on. Numbers such as m41 name original messages: context_reload with "m41", a range \
"m12-m19" or a list "m1,m7" gives them back. Notes marked as reference are not requests: do not answer them.
Never show these marks or UUIDs to the user and never write such a mark yourself."""


class _Source(NamedTuple):
    """A text that pages are read of."""

    what: str
    """How its pages begin."""
    total: int
    """Its characters."""
    read: Callable[[int, int | None], str]
    """Its characters from a place on: so many, or all."""


class ContextOffloadTool:
    """The tool `context_reload`, bound to one memory: only its own UUIDs and message numbers resolve.

    With `content` it also reads what one namespace of that content store holds, by handles like c_9f3a12be7d41.
    Whatever the model passes, it gets a text it can act on, never an exception.
    """

    name = "context_reload"
    description = (
        "Read the original messages behind a condensed text. Pass the UUID of its CONTEXT_OFFLOAD mark, or message "
        'numbers: "m41", a range "m12-m19", a list "m1,m7". Long content comes in pages: read on with the offset the '
        "page names, or give a query to get the matching passages only."
    )

    def __init__(
        self, memory: AutoContextMemory, *, content: ContentStore | None = None, content_namespace: str = ""
    ) -> None:
        self._memory = memory
        self._content, self._namespace = content, content_namespace
        self._counter: TokenCounter = get_counter("o200k_base")

    def __call__(
        self,
        working_context_offload_uuid: str = "",
        offset: Any = 0,
        limit: Any = None,
        query: str | None = None,
        **_unknown: Any,
    ) -> str:
        """One page of the originals: a header line, then `limit` characters of them from `offset` on.

        Arguments that a model makes up are ignored.
        """
        given = _bare(working_context_offload_uuid)
        if not given:
            return "Error: working_context_offload_uuid is empty. Pass the UUID that stands in a CONTEXT_OFFLOAD mark."
        source = self._stored(given) or self._originals(given)
        if source is None:
            return self._nothing(given)
        start, size = _whole(offset), _whole(limit)
        if start is None or (size is None and limit is not None):
            return "Error: offset and limit must be whole numbers of characters, e.g. offset=0, limit=4000."
        reloaded()
        if query is not None and (wanted := str(query).strip()):
            return self._matches(source.what, source.read(0, None), wanted)
        return self._page(source, start, size)

    async def acall(self, **arguments: Any) -> str:
        """The same for asynchronous agents; a content store is read without blocking the event loop."""
        if self._content is not None and _bare(arguments.get("working_context_offload_uuid")).startswith(_HANDLE):
            return await in_thread(lambda: self(**arguments))
        return self(**arguments)

    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        properties = {
            "working_context_offload_uuid": {
                "type": "string",
                "description": "The UUID in the CONTEXT_OFFLOAD mark, or its first 8 or more characters; or numbers of "
                "messages such as m41, m12-m19 or m1,m7"
                + ("; or a handle such as c_9f3a12be7d41." if self._content is not None else "."),
            },
            "offset": {"type": "integer", "description": "Character to start at (0 is the beginning).", "minimum": 0},
            "limit": {"type": "integer", "description": "Most characters to return; leave it out for a full page."},
            "query": {"type": "string", "description": "Return only the passages that match these words."},
        }
        parameters = {"type": "object", "properties": properties, "required": ["working_context_offload_uuid"]}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def _originals(self, given: str) -> _Source | None:
        """The originals of a compression, or those with some numbers."""
        uuid = self._memory.handle(given)
        if uuid:
            head, messages = uuid, [m for m in self._memory.reload(uuid) if not _is_reload_of(uuid, m)]
        else:
            found = self._memory.numbered(given)
            head, messages = _short(numbering.names(found)), list(found.values())
        if not messages:
            return None
        text = "\n".join(rendering.transcript(m) for m in messages)
        what = rendering.page_head(head, len(messages), len(text))
        return _Source(what, len(text), lambda start, size: text[start : None if size is None else start + size])

    def _nothing(self, given: str) -> str:
        """What the model is told of a UUID or number that leads nowhere."""
        said = f"Error: nothing is stored under {given[:_SAID]!r}"
        total = len(self._memory.get_original_memory_msgs())
        if numbering.parse(given, total) is None:
            return (
                f"{said} in this conversation. Copy the UUID exactly from a CONTEXT_OFFLOAD mark that you can see; "
                "do not try other values."
            )
        there = f"m1 to {numbering.name(total)}" if total else "no messages yet"
        return f"{said}: this conversation has {there}. Pass such a number, or the UUID of a CONTEXT_OFFLOAD mark."

    def _stored(self, given: str) -> _Source | None:
        """A text in the content store."""
        content, namespace = self._content, self._namespace
        info = content.info(given, namespace=namespace) if content and given.startswith(_HANDLE) else None
        if content is None or info is None:
            return None

        def read(start: int, size: int | None) -> str:
            page = content.read(info.ref, start, size, namespace=namespace)
            return "" if page is None else page.text

        name = " ".join((info.name or info.type).split())[:_NAME]
        return _Source(f"[{info.ref}: {name}, {info.chars} characters", info.chars, read)

    def _page(self, source: _Source, start: int, size: int | None) -> str:
        if start >= source.total and start:
            return f"{source.what}; offset {start} is past the end]"
        text = source.read(start, PAGE_TOKENS * 8 if size is None else size)
        stop = start + self._fitting(text)
        more = f"; continue with offset={stop}" if stop < source.total else "; this is the end"
        return f"{source.what}; showing {start}-{stop}{more}]\n{text[: stop - start]}"

    def _fitting(self, text: str) -> int:
        """How many characters of a text make at most one page; ends at a line where that loses little."""
        size = len(text)
        while size and (tokens := self._counter.count_text(text[:size])) > PAGE_TOKENS:
            size = min(size - 1, int(size * PAGE_TOKENS / tokens * 0.98))
        if size == len(text):
            return size
        line = text.rfind("\n", size * 4 // 5, size) + 1
        return line or rendering.cut(text, size)

    def _matches(self, what: str, text: str, query: str) -> str:
        found = list(_ranked(text, query))[:_BEST]
        if not found:
            return f"{what}; no passage matches {query!r}. Try other words, or read from offset=0]"
        shown, used = [], 0
        for start, passage in sorted(found):
            used += self._counter.count_text(passage)
            if used > PAGE_TOKENS:
                break
            shown.append(f"[offset {start}] {passage}")
        return f"{what}; {len(shown)} passages for {query!r}]\n" + "\n...\n".join(shown)


def _bare(uuid: Any) -> str:
    """The UUID or numbers, also when the model passes the whole mark, puts it in quotes, or passes a bare number."""
    text = _text(uuid).strip().strip("\"'`")
    mark = rendering.TAG.search(text)
    return mark.group(1) if mark else text.removeprefix("uuid=").strip()


def _text(value: Any) -> str:
    """What a model has passed, as text."""
    if value is None:
        return ""
    try:
        # Some services send every number as a float.
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    except ValueError:  # longer than Python writes integers
        return str(_FARTHEST)


def _short(numbers: str) -> str:
    """A list of numbers that is not too long for the head of a page."""
    return numbers if len(numbers) <= _NAME else numbers[: numbers.rfind(",", 0, _NAME) + 1] + "..."


def _is_reload_of(uuid: str, msg: Msg) -> bool:
    """Whether a message belongs to an earlier reload of the same entry, put there when it was condensed again."""
    if any(rendering.page_of(result.text) == uuid for result in msg.tool_results):
        return True
    asked = [_bare(use.input.get(_ARGUMENT)) if use.name == ContextOffloadTool.name else "" for use in msg.tool_uses]
    return bool(asked) and not msg.text and all(_means(key, uuid) for key in asked)


def _means(key: str, uuid: str) -> bool:
    """Whether an entry was asked for by `key`; what is shorter than a prefix may be is the number of a message."""
    return key == uuid or (len(key) >= _LEAST_PREFIX and uuid.startswith(key))


def _whole(value: Any) -> int | None:
    """A whole number >= 0 from what a model may pass; None when it is none."""
    try:
        return min(max(0, int(value)), _FARTHEST)
    except (TypeError, ValueError, OverflowError):
        return None


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """Stretches of whole lines of at most about _PASSAGE characters, with where they start."""
    start = 0
    while start < len(text):
        stop = min(len(text), start + _PASSAGE)
        if stop < len(text):
            stop = text.rfind("\n", start, stop) + 1 or rendering.cut(text, stop)
        yield start, text[start:stop].rstrip("\n")
        start = stop


def _ranked(text: str, query: str) -> Iterator[tuple[int, str]]:
    """Passages that hold a term of the query, best first: rare terms weigh more (inverse document frequency)."""
    passages = [(start, passage, Counter(terms(passage))) for start, passage in _passages(text)]
    weights = {t: rarity(sum(t in bag for *_, bag in passages), len(passages)) for t in set(terms(query))}
    exact = query.strip().lower()

    def score(bag: Counter[str], passage: str) -> float:
        points = sum(weight * (1 + math.log(bag[t])) for t, weight in weights.items() if t in bag)
        return points * 2 if exact in passage.lower() else points

    scored = [(score(bag, passage), start, passage) for start, passage, bag in passages]
    for points, start, passage in sorted(scored, key=lambda s: (-s[0], s[1])):
        if points > 0:
            yield start, passage
