"""Erases messages, or a whole session, from every part: the log and its derived data, contents, cached results.

The session store erases the tables that `stores.places` lists. Contents and cached results belong to the user, not to
a session; this module finds them by the texts of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from autocontext.cache.canonical import canonical
from autocontext.content.planning import PRUNED
from autocontext.content.records import REF
from autocontext.errors import StoreCorruptError, UncacheableError
from autocontext.history.entries import Entry
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.stores.checks import checked_ids
from autocontext.stores.database import Statement, Work, safe
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_index import messages_of

if TYPE_CHECKING:
    from autocontext.cache.namespace import CacheEntry
    from autocontext.suite import AutoContext

_LONG = 200
"""Minimum length of a text to look for inside others: shorter ones may be there by chance."""


class Said(NamedTuple):
    """The texts of some messages, and where else they may be stored."""

    ids: frozenset[str]
    texts: frozenset[str]
    """The whole texts of their blocks."""
    handles: frozenset[str]
    """Handles of contents with the rest of a text."""
    calls: frozenset[tuple[str, str]]
    """Tools, and their arguments in the form of the cache."""

    @classmethod
    def of(cls, entries: Iterable[Entry], ids: frozenset[str] | None = None) -> Said:
        """The texts of the messages with these ids (None: all)."""
        messages = [m for entry in entries for m in messages_of(entry) if ids is None or m.id in ids]
        texts = frozenset(text for m in messages for text in _texts(m))
        marked = {
            str(block.metadata[PRUNED]["ref"]) for m in messages for block in m.tool_results if PRUNED in block.metadata
        }
        return cls(
            frozenset(m.id for m in messages),
            texts,
            frozenset(marked.union(*(REF.findall(text) for text in texts))),
            frozenset(call for m in messages for use in m.tool_uses for call in _call(use)),
        )

    def holds(self, handle: str, text: str) -> bool:
        """Whether a content comes from these messages."""
        return (
            handle in self.handles
            or text in self.texts
            or (len(text) >= _LONG and any(text in said for said in self.texts))
            or not self.ids.isdisjoint(_ids_in(text))
        )


def erase(context: AutoContext, session: SessionKey, ids: Iterable[str] | None) -> int:
    """Erase messages (None: the whole session) from all parts; returns how many of them the session has.

    Contents and results are erased first, because the log is needed to find them. When a whole session is erased,
    contents that another session of the user has, too, stay.
    """
    targets = None if ids is None else checked_ids(ids)
    said = Said.of(context.sessions.read(session), targets)
    texts = _erase_contents(context, session, said, whole=targets is None)

    def is_of(entry: CacheEntry) -> bool:
        return (entry.task, entry.args) in said.calls or any(
            text in texts or text in said.texts for text in _results(entry)
        )

    context.cache_of(session.user_id).discard(is_of)
    done = (
        context.sessions.delete(session) and len(said.ids)
        if targets is None
        else context.sessions.erase(session, targets)
    )
    context.scrub()
    return int(done)


def _erase_contents(context: AutoContext, session: SessionKey, said: Said, *, whole: bool) -> set[str]:
    """Delete the contents that come from messages; returns their texts."""
    namespace, found = context.namespace(session.user_id), {}
    context.content.purge_expired()
    for (ref,) in context.database.read(lambda: _handles(namespace)):
        try:
            page = context.content.read(ref, namespace=namespace)
            text = "" if page is None else page.text
        except StoreCorruptError:
            text = ""
        if said.holds(ref, text):
            found[ref] = text
    if whole and found:
        for other in _others(context, session):
            found = {ref: text for ref, text in found.items() if not other.holds(ref, text)}
    for ref in found:
        context.content.delete(ref, namespace=namespace)
    return set(found.values())


def _others(context: AutoContext, session: SessionKey) -> Iterator[Said]:
    """The texts of each other session of the user, one session at a time."""
    for info in context.sessions.sessions(session.user_id):
        if info.key != session:
            yield Said.of(context.sessions.read(info.key))


def _handles(namespace: str) -> Work[list[Any]]:
    return (
        yield Statement(
            "SELECT ref FROM autocontext_content WHERE namespace = :ns ORDER BY ref", {"ns": safe(namespace)}
        )
    )


def _texts(msg: Msg) -> Iterator[str]:
    for block in msg.content:
        match block:
            case TextBlock():
                yield block.text
            case ThinkingBlock():
                yield block.thinking
            case ToolUseBlock():
                yield json.dumps(dict(block.input), ensure_ascii=False, default=str)
            case ToolResultBlock():
                yield block.text
                if not isinstance(block.output, str):
                    yield from (part.text for part in block.output if isinstance(part, TextBlock))


def _call(use: ToolUseBlock) -> Sequence[tuple[str, str]]:
    try:
        arguments = [f"{canonical(name)}:{canonical(value)}" for name, value in use.input.items()]
    except UncacheableError:
        return ()
    return ((use.name, "{" + ",".join(sorted(arguments)) + "}"),)


def _results(entry: CacheEntry) -> Iterator[str]:
    """The texts that a message with this result may have."""
    try:
        value = entry.value()
    except StoreCorruptError:
        return
    yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if entry.kind == "error":
        yield from (f"Error: {value['error'].rpartition('.')[2]}: {argument}" for argument in value["args"])


def _ids_in(text: str) -> Iterator[str]:
    """The ids of messages that were stored as JSON lines."""
    for line in text.splitlines() if text.startswith("{") else ():
        try:
            value = json.loads(line)
        except ValueError:
            return
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            yield value["id"]
