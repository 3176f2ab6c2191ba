"""The search index of a stretch of a session: its words, and which messages have them.

One tokeniser for every store: stems of words, technical names with their parts, and pairs of characters where a script
writes no spaces (Chinese, Japanese, Korean), which is what full-text engines miss. A segment is kept as text, a line a
term, so that looking a term up is one search for a substring.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Added, Cleared, Entry, Offloaded, Snapshot
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.stores.protocol import SessionKey
from autocontext.text.words import is_cjk, terms

LONGEST = 256
"""Entries of one segment at most: what is read again when a session has grown by one message."""
FORMAT = 2
"""Raise it when `terms` changes: stores rebuild segments of another format."""


class Document(NamedTuple):
    """A message in a segment: where it was stored, its id, how many terms it has."""

    sequence: int
    message_id: str
    length: int


class Hit(NamedTuple):
    """A document that holds a term, and how often."""

    document: Document
    times: int


class Segment:
    """The index of some entries that follow each other."""

    def __init__(self, text: str) -> None:
        head, self._documents, self._terms = text.split("\n", 2)
        self.count, self.total, self.emptied = map(int, head.split(" "))
        self._known: list[Document] | None = None

    @classmethod
    def unpacked(cls, session: SessionKey, start: int, until: int, body: bytes) -> Segment:
        """A segment from the bytes that are stored in its place.

        Raises StoreCorruptError when they have changed, stood in another place, or are of another format.
        """
        try:
            place, _, text = zlib.decompress(body).decode("utf-8", "surrogatepass").partition("\n")
        except (zlib.error, TypeError, UnicodeDecodeError):  # SQLite's columns hold any type
            place = text = ""
        if place != _place(session, start, until):
            raise StoreCorruptError(f"the search index of session {session[1]!r} is damaged or old at entry {start}")
        return cls(text)

    def holders(self, term: str) -> list[Hit]:
        """The documents that hold a term; a single sign of a script without spaces is found in any pair."""
        if len(term) == 1 and is_cjk(term):
            lines = re.findall(rf"^(?:{term}.?|.{term})\t(.*)$", self._terms, re.MULTILINE)
        else:
            at = self._terms.find(f"\n{term}\t")
            if at < 0:
                return []
            at += len(term) + 2
            lines = [self._terms[at : self._terms.find("\n", at)]]
        counts: Counter[int] = Counter()
        for line in lines:
            for posting in line.split(" "):
                document, _, count = posting.partition("*")
                counts[int(document)] += int(count or 1)
        known = self._known = self._known or [Document(*d) for d in json.loads(self._documents)]
        return [Hit(known[i], n) for i, n in counts.items()]


def packed(session: SessionKey, start: int, entries: Sequence[Entry]) -> bytes:
    """The segment of a session's entries from number `start` on, as it is stored: its place, then its text."""
    text = f"{_place(session, start, start + len(entries))}\n{segment_text(start, entries)}"
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 4)


def _place(session: SessionKey, start: int, until: int) -> str:
    return json.dumps([FORMAT, *session, start, until])


def segment_text(start: int, entries: Sequence[Entry]) -> str:
    """The segment as text: counts, documents, then a line for each term."""
    documents: list[Document] = []
    postings: dict[str, str] = {}
    emptied = -1
    for sequence, entry in enumerate(entries, start):
        if isinstance(entry, Cleared | Snapshot):
            emptied = sequence
        for msg in messages_of(entry):
            counts = Counter(terms(searchable(msg)))
            number = len(documents)
            for term, n in counts.items():
                place = f" {number}*{n}" if n > 1 else f" {number}"
                known = postings.get(term)
                # Texts, not lists: of a million terms the garbage collector has nothing to look through.
                postings[term] = place if known is None else known + place
            documents.append(Document(sequence, msg.id, counts.total()))
    head = f"{len(documents)} {sum(d.length for d in documents)} {emptied}"
    lines = (f"\n{term}\t{postings[term][1:]}" for term in sorted(postings))
    return f"{head}\n{json.dumps(documents)}\n{''.join(lines)}\n"


def messages_of(entry: Entry) -> Iterable[Msg]:
    """The messages that came with an entry, without what compressions have made."""
    match entry:
        case Added():
            return (entry.message,)
        case Offloaded():
            return entry.messages
        case Snapshot():
            return [m for m in entry.messages.values() if m.origin is None]
    return ()


def searchable(msg: Msg) -> str:
    """All that a message says, its calls and results included."""
    texts = []
    for block in msg.content:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ThinkingBlock():
                texts.append(block.thinking)
            case ToolUseBlock():
                texts += [block.name, *_texts(block.input)]
            case ToolResultBlock():
                texts.append(block.text)
    return "\n".join(texts)


def _texts(value: object) -> Iterator[str]:
    """The texts within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
