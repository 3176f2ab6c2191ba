"""Erases messages, or a whole session, from every part: the log and its derived data, contents, cached results.

The session store erases the tables that `stores.places` lists. Contents and cached results belong to the user, not to
a session; this module finds them by the texts of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from autocontext.content.contents import candidates
from autocontext.content.paging import packed
from autocontext.content.planning import PRUNED
from autocontext.content.records import REF
from autocontext.errors import StoreCorruptError
from autocontext.history.entries import Entry
from autocontext.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from autocontext.stores.checks import checked_ids
from autocontext.stores.database import Statement, Work, safe
from autocontext.stores.protocol import SessionKey
from autocontext.stores.search_index import messages_of
from autocontext.suite.erasing_results import Called, forgetting

if TYPE_CHECKING:
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
    messages: tuple[Msg, ...]

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
            # Also those that the texts themselves have: what is damaged is known by nothing else.
            frozenset(marked.union(map(_handle_of, texts), *(REF.findall(text) for text in texts))),
            tuple(messages),
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
    seen: set[str] = set()
    texts = _erase_contents(context, session, said, seen, whole=targets is None)
    called = Called(said.messages, texts | said.texts)
    forget = partial(forgetting, session, called, whole=targets is None)
    context.cache_of(session.user_id).discard(called.hold, marks=called.marks())
    context.database.write(forget)
    done = (
        context.sessions.delete(session) and len(said.ids)
        if targets is None
        else context.sessions.erase(session, targets)
    )
    # Until the log was erased, others could store what they had read of it. Now no put of theirs succeeds.
    _erase_contents(context, session, said, seen, whole=targets is None)
    context.database.write(forget)
    context.scrub()
    return int(done)


def _erase_contents(context: AutoContext, session: SessionKey, said: Said, seen: set[str], *, whole: bool) -> set[str]:
    """Delete the contents that come from messages; returns their texts. Those that stay are `seen` the next time."""
    namespace, found = context.namespace(session.user_id), {}
    context.content.purge_expired()
    for (ref,) in context.database.read(lambda: _handles(namespace)):
        if ref in seen:
            continue
        seen.add(ref)
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
        seen.remove(ref)
    return set(found.values())


def _others(context: AutoContext, session: SessionKey) -> Iterator[Said]:
    """The texts of each other session of the user, one session at a time."""
    for info in context.sessions.sessions(session.user_id):
        if info.key != session:
            yield Said.of(context.sessions.read(info.key))


def _handle_of(text: str) -> str:
    """The handle of a content with this text, unless another content has that."""
    return next(candidates(packed(text).sha256))


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


def _ids_in(text: str) -> Iterator[str]:
    """The ids of messages that were stored as JSON lines."""
    for line in text.splitlines() if text.startswith("{") else ():
        try:
            value = json.loads(line)
        except ValueError:
            return
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            yield value["id"]
