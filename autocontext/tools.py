"""The reload tool, with which an agent reads the originals of compressed messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from autocontext.compression.telemetry import count_reload
from autocontext.flows.threads import in_thread
from autocontext.formats.agent_tools import function_schema
from autocontext.history import numbering
from autocontext.history.children import split
from autocontext.history.log import LEAST_PREFIX
from autocontext.messages import ImageBlock, Msg, TextBlock, is_compressed
from autocontext.stores.checks import whole_or
from autocontext.text import rendering
from autocontext.text.quoting import quoted
from autocontext.text.words import rarity, terms
from autocontext.tokens import TokenCounter, get_counter
from autocontext.tokens.request_size import images_in

if TYPE_CHECKING:
    from autocontext.config import AutoContextConfig
    from autocontext.content.store import ContentStore
    from autocontext.stores.protocol import SessionKey

_ARGUMENT = "working_context_offload_uuid"
PAGE_TOKENS = 8_000
"""Largest page, in tokens."""
_OF_WINDOW = 0.4
"""Largest page as a share of the memory's window: with more, its middle would be cut before the model reads it."""
_PASSAGE = 600
"""Characters of a passage for a query."""
_BEST = 8
"""Passages shown for a query."""
_HANDLE = "c_"
"""Prefix of content stores' handles; no UUID has it."""
_IMAGES = 5
"""Images shown at once."""
_LONG_PAGE = 1_000
"""Characters; a shorter page costs hardly more than the line that says where it stands."""
_STANDS = "this page is in your context already, whole, as the result of an earlier call of this tool; read it there"
_NAME = 60
"""Characters of a content's name, or of a list of numbers, in the head of a page."""
_ECHO = 80
"""Characters of the model's argument that an error repeats."""
_FARTHEST = 10**15
"""Characters; larger numbers are reduced to this one."""

INSTRUCTIONS = """\
Parts of this conversation may have been condensed to save space. Such a text ends with a mark like \
<!-- CONTEXT_OFFLOAD: uuid=... -->: the originals are kept under that UUID; or, where a message is shown in part, like \
[m42: 3,412 of 3,657 characters left out]: message m42 has all of it.
When you need a detail that the condensed text does not give (exact values, code, arguments, error texts), call \
context_reload with that UUID instead of guessing or repeating the work; give `query` to get only the passages that \
match, or `offset` to read on. Numbers such as m41 name original messages: context_reload with "m41", a range \
"m12-m19" or a list "m1,m7" gives them back. Notes marked as reference are not requests: do not answer them.
Never show these marks or UUIDs to the user and never write such a mark yourself."""


class _Source(NamedTuple):
    """A text to read pages from."""

    what: str
    """The beginning of its pages."""
    total: int
    """Length in characters."""
    read: Callable[[int, int | None], str]
    """Reads from a start, up to a number of characters or to the end."""
    foreign: bool
    """Whether none of its lines is ours; otherwise it is a transcript, whose heads are."""

    def shown(self, start: int, text: str) -> str:
        """What was read from a start as it is shown: nothing in it looks like a head that is not ours."""
        if self.foreign:
            return quoted(text)
        # A page may begin within a line that goes on like a head.
        if not start or not text or self.read(start - 1, 1) == "\n":
            return text
        first, end, rest = text.partition("\n")
        return quoted(first) + end + rest


class Originals(Protocol):
    """The memory that a tool reads: an AutoContextMemory."""

    def handle(self, uuid: str) -> str:
        """The full UUID for a UUID or prefix."""

    def reload(self, uuid: str) -> list[Msg]:
        """The original messages of an offload entry."""

    def numbered(self, numbers: str) -> dict[int, Msg]:
        """The originals with these numbers."""

    def get_original_memory_msgs(self) -> list[Msg]:
        """Every message ever added."""

    @property
    def messages(self) -> list[Msg]:
        """The messages in view."""
        ...


class ContextOffloadTool:
    """The tool `context_reload` of one memory; it accepts only this memory's UUIDs and message numbers.

    With `content` it also reads one namespace of that content store, by handles like c_9f3a12be7d41. Wrong arguments
    of a model return a text it can act on, never an exception.

        tool = ContextOffloadTool(memory)
        tools = [tool.schema()]                    # pass to the model
        text = tool(**call.input)                  # answer a call
    """

    name = "context_reload"
    description = (
        "Read the original messages behind a condensed text. Pass the UUID of its CONTEXT_OFFLOAD mark, or message "
        'numbers: "m41", a range "m12-m19", a list "m1,m7". Long content comes in pages: read on with the offset the '
        "page names, or give a query to get the matching passages only."
    )

    def __init__(self, memory: Originals, *, content: ContentStore | None = None, content_namespace: str = "") -> None:
        self._memory = memory
        self.session: SessionKey | None = getattr(memory, "session", None)
        """Whose originals it reads."""
        self._content, self._namespace = content, content_namespace
        self._counter: TokenCounter = get_counter("o200k_base")

    def of(self, memory: Originals) -> ContextOffloadTool:
        """The same for another memory, with the same content store."""
        return ContextOffloadTool(memory, content=self._content, content_namespace=self._namespace)

    def __call__(
        self,
        /,  # a model's argument may have any name
        working_context_offload_uuid: str = "",
        offset: Any = 0,
        limit: Any = None,
        query: str | None = None,
        **_unknown: Any,
    ) -> str:
        """What `page` returns, for the agent: one line if an earlier call gave the same, and it is whole in view.

        With `content` it is always the page, since a request may leave out pages that stand in view. Unknown arguments
        are ignored.
        """
        page = self.page(working_context_offload_uuid, offset, limit, query)
        if self._content is not None or len(page) <= _LONG_PAGE or not self._stands(page):
            return page
        return f"{page.partition('; ')[0]}; {_STANDS}]"

    def page(
        self, working_context_offload_uuid: str = "", offset: Any = 0, limit: Any = None, query: str | None = None
    ) -> str:
        """One page of the originals: a header line, then `limit` characters of them from `offset` on."""
        key = _bare(working_context_offload_uuid)
        if not key:
            return "Error: working_context_offload_uuid is empty. Pass the UUID that stands in a CONTEXT_OFFLOAD mark."
        source = self._from_content_store(key) or self._from_originals(key)
        if source is None:
            return self._nothing(key)
        start, size = _whole(offset), _whole(limit)
        if start is None or (limit is not None and not size):
            return "Error: offset and limit must be whole numbers of characters, limit above 0: offset=0, limit=4000."
        count_reload()
        if query is not None and (words := str(query).strip()):
            return self._matches(source, words)
        return self._page(source, start, size)

    def blocks(
        self, /, working_context_offload_uuid: str = "", **arguments: Any
    ) -> str | tuple[TextBlock | ImageBlock, ...]:
        """What `__call__` returns, with the first page followed by the images of its messages, at most five.

        For a ToolResultBlock's `output`, where the model sees images; a text where there are none.
        """
        text = self(working_context_offload_uuid, **arguments)
        begins = not _whole(arguments.get("offset", 0)) and not str(arguments.get("query") or "").strip()
        _, messages = self._messages(_bare(working_context_offload_uuid)) if begins else ("", [])
        images = [image for m in messages for _, image in images_in(m)]
        if not images or text.endswith(f"; {_STANDS}]"):
            return text
        more = f"\n[{_IMAGES} of {len(images)} images; name fewer messages for the others]" if images[_IMAGES:] else ""
        return (TextBlock(text=text + more), *images[:_IMAGES])

    async def acall(self, /, **arguments: Any) -> str:
        """`__call__` for asynchronous agents: in a thread, as a large text takes long to read and to search."""
        return await in_thread(lambda: self(**arguments))

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
        return function_schema(self.name, self.description, properties, ["working_context_offload_uuid"])

    def _stands(self, page: str) -> bool:
        """Whether an earlier call gave this very page, and it is in view as it was given."""
        results = (r for m in self._memory.messages if not is_compressed(m) for r in m.tool_results)
        return any(result.text == page for result in results)

    def _from_originals(self, key: str) -> _Source | None:
        """Their transcript."""
        head, messages = self._messages(key)
        if not messages:
            return None
        text = "\n".join(map(rendering.transcript, messages))

        def read(start: int, size: int | None) -> str:
            return text[start : None if size is None else start + size]

        return _Source(rendering.page_head(head, len(messages), len(text)), len(text), read, foreign=False)

    def _messages(self, key: str) -> tuple[str, list[Msg]]:
        """The originals of a compression, or those with these numbers, and what to call them."""
        uuid = self._memory.handle(key)
        if uuid:
            return uuid, [m for m in self._memory.reload(uuid) if not _is_reload_of(uuid, m)]
        numbered = self._memory.numbered(key)
        path = split(key)[0] if numbered else ""
        return path + numbering.short_list(numbered, _NAME), list(numbered.values())

    def _nothing(self, key: str) -> str:
        """The error for an unknown UUID or number."""
        error = f"Error: nothing is stored under {key[:_ECHO]!r}"
        total = len(self._memory.get_original_memory_msgs())
        path, _ = split(key)
        if path and (theirs := self._memory.numbered(f"{path}1-{_FARTHEST}")):
            there = f"{path}m1 to {path}{numbering.name(max(theirs))}"
            return f"{error}: of this sub-agent there are {there}. Pass such a number."
        if numbering.parse(key, total) is None:
            return (
                f"{error} in this conversation. Copy the UUID exactly from a CONTEXT_OFFLOAD mark that you can see; "
                "do not try other values."
            )
        there = f"m1 to {numbering.name(total)}" if total else "no messages yet"
        return f"{error}: this conversation has {there}. Pass such a number, or the UUID of a CONTEXT_OFFLOAD mark."

    def _from_content_store(self, handle: str) -> _Source | None:
        """A text in the content store."""
        content, namespace = self._content, self._namespace
        info = content.info(handle, namespace=namespace) if content and handle.startswith(_HANDLE) else None
        if content is None or info is None:
            return None

        def read(start: int, size: int | None) -> str:
            page = content.read(info.ref, start, size, namespace=namespace)
            return "" if page is None else page.text

        name = " ".join((info.name or info.type).split())[:_NAME]
        return _Source(f"[{info.ref}: {name}, {info.chars} characters", info.chars, read, foreign=True)

    def _page(self, source: _Source, start: int, size: int | None) -> str:
        if start >= source.total and start:
            return f"{source.what}; offset {start} is past the end]"
        text = source.read(start, PAGE_TOKENS * 8 if size is None else size)
        text = text[: self._fitting(text, lambda part: source.shown(start, part))]
        stop = start + len(text)
        more = f"; continue with offset={stop}" if stop < source.total else "; this is the end"
        return f"{source.what}; showing {start}-{stop}{more}]\n{source.shown(start, text)}"

    @property
    def _page_tokens(self) -> int:
        """Tokens of the largest page."""
        config: AutoContextConfig | None = getattr(self._memory, "config", None)
        return PAGE_TOKENS if config is None else min(PAGE_TOKENS, int(config.max_token * _OF_WINDOW))

    def _fitting(self, text: str, shown: Callable[[str], str]) -> int:
        """The number of characters for one page as it is shown; ends after a line if that costs little."""
        size, most = len(text), self._page_tokens
        while size and (tokens := self._counter.count_text(shown(text[:size]))) > most:
            size = min(size - 1, int(size * most / tokens * 0.98))
        if size == len(text):
            return size
        line = text.rfind("\n", size * 4 // 5, size) + 1
        return line or rendering.cut(text, size)

    def _matches(self, source: _Source, query: str) -> str:
        passages = list(_rank(source.read(0, None), query))[:_BEST]
        if not passages:
            return f"{source.what}; no passage matches {query!r}. Try other words, or read from offset=0]"
        shown: dict[int, str] = {}
        tokens, most = 0, self._page_tokens
        for start, passage in passages:  # the best first, until the page is full
            text = source.shown(start, passage)
            tokens += self._counter.count_text(text)
            if tokens > most:
                if shown:
                    break
                text = source.shown(start, passage[: self._fitting(passage, partial(source.shown, start))])
            shown[start] = text
        lines = [f"[offset {start}] {text}" for start, text in sorted(shown.items())]
        return f"{source.what}; {len(lines)} passages for {query!r}]\n" + "\n...\n".join(lines)


def offers_reload(schemas: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the reload tool is among tools, by their schemas; servers of tools may put something before its name."""
    return any(_name_in(schema).endswith(ContextOffloadTool.name) for schema in schemas)


def lacks_reload(parts: Iterable[str | Mapping[str, Any]]) -> bool:
    """Whether these parts of a request hold schemas of tools, and not that of the reload tool."""
    schemas = [part for part in parts if not isinstance(part, str) and _name_in(part)]
    return bool(schemas) and not offers_reload(schemas)


def _name_in(schema: Mapping[str, Any]) -> str:
    """The tool's name in a schema of the chat completions, Responses or Messages API; "" if it is none."""
    function = schema.get("function", schema)
    named = isinstance(function, Mapping) and ("parameters" in function or "input_schema" in function)
    return str(function.get("name", "")) if named else ""


def _bare(uuid: Any) -> str:
    """The UUID or numbers in an argument, which may be the whole mark, in quotes, or an int."""
    text = as_text(uuid)
    if left_out := rendering.LEFT_OUT.search(text):
        return left_out[left_out.lastindex or 1]
    mark = rendering.TAG.search(text)
    return mark.group(1) if mark else text.removeprefix("uuid=").strip()


def as_text(value: Any) -> str:
    """An argument of a model as text: some pass numbers, also as floats, or lists."""
    if isinstance(value, list | tuple):
        inner = (list, tuple, dict)
        texts = (f"a {type(v).__name__}" if isinstance(v, inner) else as_text(v) for v in value[:1_000])
        return ",".join(texts)
    try:
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        return "" if value is None else str(value).strip().strip("\"'`")
    except ValueError:  # longer than Python writes integers
        return str(_FARTHEST)
    except RecursionError:
        return f"a {type(value).__name__} nested too deep"


def _is_reload_of(uuid: str, msg: Msg) -> bool:
    """Whether a message is part of an earlier reload of the same entry that was compressed in turn."""
    if any(rendering.page_of(result.text) == uuid for result in msg.tool_results):
        return True
    keys = [_bare(use.input.get(_ARGUMENT)) if use.name == ContextOffloadTool.name else "" for use in msg.tool_uses]
    return bool(keys) and not msg.text and all(_means(key, uuid) for key in keys)


def _means(key: str, uuid: str) -> bool:
    """Whether `key` is the UUID or a prefix of it; shorter keys are message numbers."""
    return key == uuid or (len(key) >= LEAST_PREFIX and uuid.startswith(key))


def _whole(value: Any) -> int | None:
    """An argument as a whole number >= 0; None if it is no number."""
    return whole_or(None, value, 0, _FARTHEST)


def _rank(text: str, query: str) -> Iterator[tuple[int, str]]:
    """Passages with a term of the query, best first: rare terms weigh more (inverse document frequency)."""
    passages = [(start, p.rstrip("\n"), Counter(terms(p))) for start, p in rendering.passages(text, _PASSAGE)]
    asked = dict.fromkeys(terms(query))
    holders = Counter(t for *_, bag in passages for t in bag if t in asked)
    weights = {t: rarity(n, len(passages)) for t, n in holders.items()}
    exact = query.strip().lower()

    def score(bag: Counter[str], passage: str) -> float:
        points = sum(weights[t] * (1 + math.log(n)) for t, n in bag.items() if t in weights)
        return points * 2 if exact in passage.lower() else points

    scores = [(score(bag, passage), start, passage) for start, passage, bag in passages]
    for points, start, passage in sorted(scores, key=lambda s: (-s[0], s[1])):
        if points > 0:
            yield start, passage
