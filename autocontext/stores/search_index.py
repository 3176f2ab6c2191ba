"""A segment of the search index: the messages in consecutive entries of a session, and their texts as blocks."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Added, Entry, Offloaded, Snapshot
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, texts_in
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_blocks import Block, BlockWriter, signs

LONGEST = 1024
"""Maximum number of entries in a segment."""
FULL = 256
"""A segment with this many entries is complete; a shorter last one is rebuilt when the session has grown."""
_LARGEST = 2_000_000
"""Characters after which a segment ends: it is rebuilt as a whole while the session grows."""
BEFORE = 32
"""Entries before a segment that may have the calls for its first results."""
FORMAT = 4
"""Increase it when `terms` or what is left out changes: stores rebuild segments of another format."""
_HEAD = struct.Struct("<II")
"""The checksum of everything after it, and the length of the head."""
_LEVEL = 2
"""Of zlib."""
_BLOCKS = 3
"""Number of parts before those of the blocks."""


class DamagedIndex(StoreCorruptError):
    """The index is damaged or of another format; it is made anew from the entries."""


class Messages(NamedTuple):
    """The messages of a segment, as columns."""

    sequences: list[int]
    """Numbers of their entries."""
    numbers: list[int]
    """Numbers among the originals of this segment, from 1; 0 for other messages."""
    lengths: list[int]
    """In words."""
    times: list[int | None]
    """Their timestamps in milliseconds since 1970; None if that is another text."""


class Segment:
    """The index of consecutive entries, from the last one that cleared the session on."""

    def __init__(self, head: Sequence[int], parts: int, load: Callable[[int], Any]) -> None:
        """`load` returns one of the parts: columns of messages, ids, tools, then those of each block."""
        self.count, self.total, self.emptied, self.originals = head
        """Number of messages, their length in words, the entry that cleared the session or -1, number of originals."""
        self._parts, self._load = parts, load
        size = len(Block.ENCODINGS)
        self._blocks = [Block(partial(_shifted, load, at)) for at in range(_BLOCKS, parts, size)]

    @cached_property
    def messages(self) -> Messages:
        """The messages, in order."""
        return Messages(*json.loads(self._load(0)))

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the messages."""
        return list(json.loads(self._load(1)))

    @cached_property
    def _tools(self) -> Mapping[str, list[int]]:
        return dict(json.loads(self._load(2)))

    def of_tool(self, name: str) -> Collection[int]:
        """The places of the messages that call a tool or have a result of it."""
        return frozenset(self._tools.get(name, ()))

    def only_of(self, endings: tuple[str, ...]) -> Collection[int]:
        """The places of the messages that call only tools whose names end so, or have only results of them."""
        ours, others = set[int](), set[int]()
        for name, places in self._tools.items():
            (ours if name.endswith(endings) else others).update(places)
        return frozenset(ours - others)

    def holders(self, term: str) -> Mapping[int, int]:
        """The number of occurrences of a term in each message, by place in the columns of `messages`."""
        if len(self._blocks) == 1:  # mostly
            return self._blocks[0].holders(term)
        counts: Counter[int] = Counter()
        for block in self._blocks:
            counts.update(block.holders(term))
        return counts

    def words(self) -> bytes:
        """A text with one of `signs_of((term,))` in it if any message has this term."""
        return b"\n".join(block.words() for block in self._blocks)

    def packed(self, session: SessionKey, start: int, until: int) -> bytes:
        """The stored form of the segment, bound to its place."""
        parts = [zlib.compress(_bytes(self._load(i), i), _LEVEL) for i in range(self._parts)]
        fields = (self.count, self.total, self.emptied, self.originals)
        head = json.dumps([FORMAT, *session, start, until, fields, list(map(len, parts))]).encode()
        rest = b"".join((head, *parts))
        return _HEAD.pack(zlib.crc32(rest), len(head)) + rest

    @classmethod
    def unpacked(cls, session: SessionKey, start: int, until: int, body: bytes) -> Segment:
        """The segment in the bytes that are stored at its place.

        Raises DamagedIndex when they have changed, stood in another place, or are of another format.
        """
        if isinstance(body, bytes) and len(body) >= _HEAD.size:  # SQLite's columns hold any type
            checksum, length = _HEAD.unpack_from(body)
            at = _HEAD.size + length
            if zlib.crc32(memoryview(body)[_HEAD.size :]) == checksum:
                try:
                    *place, fields, sizes = json.loads(body[_HEAD.size : at])
                except ValueError:  # the length has changed, which the checksum does not cover
                    place = []
                if place == [FORMAT, *session, start, until]:
                    ends = list(accumulate(sizes, initial=at))
                    return cls(fields, len(sizes), lambda i: _loaded(body[ends[i] : ends[i + 1]], i))
        raise DamagedIndex(f"the search index of session {session[1]!r} is damaged or old at entry {start}")


def signs_of(terms: Iterable[str]) -> list[bytes]:
    """Texts of which `Segment.words` has one if the segment has one of the terms."""
    return list(dict.fromkeys(sign for term in terms for sign in signs(term)))


def segments(start: int, entries: Iterable[Entry], before: Iterable[Entry] = ()) -> Iterator[tuple[int, Segment]]:
    """The segments of a session's entries from number `start` on, each with the number where it ends.

    `before` are some entries before them, for the names of tools whose results come first.
    """
    calls = {use.id: use.name for entry in before for msg in messages_of(entry) for use in msg.tool_uses}
    writer = _Writer(calls)
    until = begin = start
    for until, entry in enumerate(entries, start + 1):
        writer.add(until - 1, entry)
        if until - begin == LONGEST or writer.size >= _LARGEST:
            yield until, writer.segment()
            writer, begin = _Writer(calls), until
    if until > begin:
        yield until, writer.segment()


class _Writer:
    """Builds one segment."""

    def __init__(self, calls: dict[str, str]) -> None:
        self._calls = calls
        self.size = 0
        """Characters."""
        self._empty(-1)

    def _empty(self, sequence: int) -> None:
        self._emptied, self._originals = sequence, 0
        self._blocks = BlockWriter()
        self._messages = Messages([], [], [], [])
        self._ids: list[str] = []
        self._tools: dict[str, list[int]] = {}

    def add(self, sequence: int, entry: Entry) -> None:
        """Add an entry."""
        if entry.type == "added":
            self._originals += 1
            self._put(sequence, entry.message, self._originals)
        elif entry.type == "offloaded":
            for msg in entry.messages:
                self._put(sequence, msg, 0)
        elif entry.type == "cleared":
            self._empty(sequence)
        elif entry.type == "snapshot":
            self._empty(sequence)
            numbers = {id_: number for number, id_ in enumerate(entry.original, 1)}
            self._originals = len(numbers)
            notes = entry.notes
            for id_, msg in entry.messages.items():
                if id_ not in notes:
                    self._put(sequence, msg, numbers.get(id_, 0))

    def _put(self, sequence: int, msg: Msg, number: int) -> None:
        text = searchable(msg)
        self.size += len(text)
        place = len(self._ids)
        for name in self._tools_of(msg):
            self._tools.setdefault(name, []).append(place)
        columns = self._messages
        columns.sequences.append(sequence)
        columns.numbers.append(number)
        columns.lengths.append(self._blocks.add(text))
        columns.times.append(milliseconds(msg.timestamp))
        self._ids.append(msg.id)

    def _tools_of(self, msg: Msg) -> set[str]:
        names = set()
        for block in msg.content:
            if block.type == "tool_use":
                self._calls[block.id] = block.name
                names.add(block.name)
            elif block.type == "tool_result":
                names.add(block.name or self._calls.get(block.id, ""))
        return names

    def segment(self) -> Segment:
        """The segment of what was added."""
        head = (len(self._ids), sum(self._messages.lengths), self._emptied, self._originals)
        blocks = (part for block in self._blocks.blocks() for part in block)
        parts = [json.dumps(self._messages), json.dumps(self._ids), json.dumps(self._tools), *blocks]
        return Segment(head, len(parts), parts.__getitem__)


def milliseconds(timestamp: str) -> int | None:
    """An ISO 8601 time (UTC without a zone) in milliseconds since 1970; None for any other text."""
    try:
        time = datetime.fromisoformat(timestamp)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _shifted(load: Callable[[int], Any], start: int, i: int) -> Any:
    return load(start + i)


def _encoding(part: int) -> str | None:
    """None: bytes that are stored as they are."""
    return "utf-8" if part < _BLOCKS else Block.ENCODINGS[(part - _BLOCKS) % len(Block.ENCODINGS)]


def _bytes(loaded: Any, part: int) -> bytes:
    encoding = _encoding(part)
    return loaded.encode(encoding, "surrogatepass") if encoding else loaded  # type: ignore[no-any-return]


def _loaded(body: bytes, part: int) -> Any:
    encoding, plain = _encoding(part), zlib.decompress(body)
    return plain.decode(encoding, "surrogatepass") if encoding else plain


def messages_of(entry: Entry) -> Iterable[Msg]:
    """The messages in an entry, without notes."""
    match entry:
        case Added():
            return (entry.message,)
        case Offloaded():
            return entry.messages
        case Snapshot():
            notes = entry.notes
            return [m for id_, m in entry.messages.items() if id_ not in notes]
    return ()


def searchable(msg: Msg) -> str:
    """The text of a message, with calls and results."""
    texts = []
    for block in msg.content:
        match block:
            case TextBlock() | ToolResultBlock():
                texts.append(block.text)
            case ThinkingBlock():
                texts.append(block.thinking)
            case ToolUseBlock():
                texts += [block.name, *texts_in(block.input)]
    return "\n".join(texts)
