"""Erases messages, or a whole session, from every part: the log and its derived data, contents, cached results.

The session store erases the tables that `stores.places` lists. Contents and cached results belong to the user, not to
a session; this module finds them by the texts of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from autocontext.cache import leases, rows
from autocontext.cache.canonical import canonical
from autocontext.cache.invalidating import ToolCall
from autocontext.cache.marks import OWN, item_marks, loaded, text_mark, texts
from autocontext.content import placeholders, planning
from autocontext.content import queries as contents
from autocontext.content.contents import candidates
from autocontext.content.paging import packed
from autocontext.errors import StoreCorruptError, UncacheableError
from autocontext.history.entries import Entry
from autocontext.messages import Msg, ThinkingBlock, ToolResultBlock, texts_in
from autocontext.optimizer.replacements import CONTENT_REF
from autocontext.stores.checks import checked_ids
from autocontext.stores.database import Statement, Work, rows_of, safe
from autocontext.stores.erasing import results_that_quote
from autocontext.stores.protocol import SessionKey
from autocontext.stores.records import now
from autocontext.stores.search_index import messages_of
from autocontext.stores.session_statements import OF_SESSION
from autocontext.text.rendering import arguments, page_source

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
    rests: frozenset[str]
    """Handles of contents with the rest of a text; not those that a text only names."""
    handles: frozenset[str]
    """These, and those that contents with the texts have, unless another has that: a damaged one is known by nothing
    else."""
    messages: tuple[Msg, ...]

    @classmethod
    def of(cls, messages: Iterable[Msg]) -> Said:
        """The texts of these messages."""
        messages = tuple(messages)
        texts = frozenset(text for m in messages for text in _texts(m))
        rests = frozenset(handle for m in messages for handle in _rests(m))
        handles = rests.union(next(candidates(packed(text).sha256)) for text in texts)
        return cls(frozenset(m.id for m in messages), texts, rests, handles, messages)

    def holds(self, handle: str, text: str) -> bool:
        """Whether a content comes from these messages."""
        return (
            handle in self.handles
            or text in self.texts
            or (len(text) >= _LONG and any(text in said for said in self.texts))
            or any(id_ in self.ids for id_, _ in _messages_in(text))
        )


def erase(context: AutoContext, session: SessionKey, ids: Iterable[str] | None) -> int:
    """Erase messages (None: the whole session) from all parts; returns how many of them the session has. Then `scrub`.

    Contents and results are erased first, because the log is needed to find them. Contents stay that have a key, or the
    rest of a message that stays; when a whole session is erased, those that another session of the user has, too.
    """
    targets = None if ids is None else checked_ids(ids)
    log = list(context.sessions.read(session))
    whole = targets is None
    erased = frozenset(m.id for m in _messages(log)) if targets is None else targets
    pages = {page_source(result.text)[0] for m in _messages(log) for result in m.tool_results} - {""}
    gone = dict[str, str]()
    while True:
        said, stay = _parted(log, erased)
        # Pages of these contents quote the messages, too, and may themselves have been stored.
        if more := (said.handles.union(gone) - stay.rests) & pages - erased:
            erased |= more
            continue
        seen: dict[str, frozenset[str]] = {}
        new = _erase_contents(context, session, said, stay, seen, whole=whole)
        gone |= new
        if not new.keys() & pages - erased:
            break
    called = Called(said.messages, said.texts.union(gone.values()))
    forget = partial(forgetting, session, called, whole=whole)
    context.cache_of(session.user_id).discard(called.hold, marks=called.marks())
    context.database.write(forget)
    done = context.sessions.delete(session) and len(said.ids) if whole else context.sessions.erase(session, erased)
    # Until the log was erased, others could store what they had read of it. Now no put of theirs succeeds.
    said = said._replace(handles=said.handles.union(gone))
    _erase_contents(context, session, said, stay, seen, whole=whole)
    context.database.write(forget)
    return int(done)


def forget_answer(context: AutoContext, session: SessionKey, answer: Msg) -> None:
    """Erase what a tool call has stored for its answer, which its session did not take: it was deleted meanwhile."""
    said = Said.of([answer])
    stay = Said.of(_messages(context.sessions.read(session)))  # of a new session of this name
    _erase_contents(context, session, said, stay, {}, whole=True)
    context.database.write(partial(forgetting, session, Called(said.messages, said.texts), whole=False))
    context.scrub()


def _messages(entries: Iterable[Entry]) -> Iterator[Msg]:
    """The messages in entries, without notes."""
    return (m for entry in entries for m in messages_of(entry))


def _parted(log: list[Entry], erased: frozenset[str]) -> tuple[Said, Said]:
    """What is said by the messages to erase and by results that may quote them, and by what stays."""
    quoting = results_that_quote(log, erased)
    chosen, stay = list[Msg](), list[Msg]()
    for msg in _messages(log):
        calls = quoting.get(msg.id, ())
        if msg.id in erased:
            chosen.append(msg)
        elif calls:
            quotes = [b for b in msg.content if isinstance(b, ToolResultBlock) and b.id in calls]
            chosen.append(msg.model_copy(update={"content": tuple(quotes)}))
            stay.append(msg.model_copy(update={"content": tuple(b for b in msg.content if b not in quotes)}))
        else:
            stay.append(msg)
    return Said.of(chosen), Said.of(stay)


def _erase_contents(
    context: AutoContext, session: SessionKey, said: Said, stay: Said, seen: dict[str, frozenset[str]], *, whole: bool
) -> dict[str, str]:
    """Delete the contents that come from messages, also through summaries; returns their texts, by handle.

    Those that stay are `seen` the next time, each with the handles of the contents that its messages sum up.
    """
    namespace, found = context.namespace(session.user_id), dict[str, str]()
    context.content.purge_expired()
    handles = "SELECT ref FROM autocontext_content WHERE namespace = :ns ORDER BY ref"
    for (ref,) in context.database.read(partial(rows_of, handles, {"ns": safe(namespace)})):
        if ref in seen:
            continue
        text = _text(context, namespace, ref)
        seen[ref] = frozenset(handle for _, handle in _messages_in(text) if handle)
        if said.holds(ref, text):
            found[ref] = text
    sources = said.handles.union(found)
    while more := [ref for ref in seen.keys() - found.keys() if not sources.isdisjoint(seen[ref])]:
        found.update((ref, _text(context, namespace, ref)) for ref in more)
        sources = sources.union(more)
    if found:
        for other in (stay, *_others(context, session)):
            found = {
                ref: text
                for ref, text in found.items()
                if not (other.holds(ref, text) if whole else ref in other.rests)
            }
    for ref in found:
        context.database.write(partial(contents.release, namespace, ref, now()))
        del seen[ref]
    return found


def _text(context: AutoContext, namespace: str, ref: str) -> str:
    """The text of a content; "" if it is damaged, or gone."""
    try:
        page = context.content.read(ref, namespace=namespace)
    except StoreCorruptError:
        return ""
    return "" if page is None else page.text


def _others(context: AutoContext, session: SessionKey) -> Iterator[Said]:
    """The texts of each other session of the user that can be read, one session at a time."""
    for info in context.sessions.sessions(session.user_id):
        if info.key != session:
            with suppress(StoreCorruptError):  # what is damaged elsewhere keeps nothing from being erased
                yield Said.of(_messages(context.sessions.read(info.key)))


def _rests(msg: Msg) -> Iterator[str]:
    """The handles that stand in the message for the rest of its texts, also where the mark is lost."""
    for _, text, metadata in planning.texts(msg):
        mark = metadata.get(planning.PRUNED)
        if not isinstance(mark, Mapping):
            yield from placeholders.refs(text)
        elif "arguments" not in mark:  # otherwise it was a page of another message's text
            yield str(mark.get("ref", ""))


def _texts(msg: Msg) -> Iterator[str]:
    yield from (text for _, text, _ in planning.texts(msg))
    yield from (result.text for result in msg.tool_results)  # also those of several blocks, as one text
    yield from map(arguments, msg.tool_uses)
    yield from (block.thinking for block in msg.content if isinstance(block, ThinkingBlock))


def _messages_in(text: str) -> Iterator[tuple[str, str]]:
    """The ids of messages that were stored as JSON lines, each with the handle of what it sums up, or ""."""
    for line in text.splitlines() if text.startswith("{") else ():
        try:
            value = json.loads(line)
        except ValueError:
            return
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            metadata = value.get("metadata")
            handle = metadata.get(CONTENT_REF) if isinstance(metadata, dict) else None
            yield value["id"], handle if isinstance(handle, str) else ""


class Called:
    """The tool calls of some messages, and what they said.

    `Session.call_tool` notes what it asks the cache for, so those results are found whatever options they are stored
    by. Results of calls beside it are found by their arguments and texts.
    """

    def __init__(self, messages: Collection[Msg], said: Collection[str]) -> None:
        uses = [use for m in messages for use in m.tool_uses]
        self.ids = frozenset([use.id for use in uses] + [result.id for m in messages for result in m.tool_results])
        self.texts = frozenset(said)
        """The whole texts of the messages, and of the contents that hold their rest."""
        self._calls = [(use.name, arguments) for use in uses if (arguments := _arguments(use.input))]
        self._tasks = frozenset(name for name, _ in self._calls)
        values = [value for text in self.texts if (value := loaded(text)) is not None]
        self._results = [value for value in values if isinstance(value, dict)]
        parts = [*self.texts, *texts_in([values, *(use.input for use in uses)])]
        self._own = frozenset(text for text in parts if len(text) >= OWN)

    def marks(self) -> set[str]:
        """The marks of the results that `hold` may choose."""
        marks = {text_mark(text) for text in self.texts | self._own}
        marks.update(mark for name, arguments in self._calls for mark in item_marks(name, arguments))
        return marks.union(*(item_marks("", value) for value in self._results))

    def hold(self, entry: CacheEntry) -> bool:
        """Whether a result comes from these calls: some options store a part of the arguments, or of the result."""
        arguments = loaded(entry.args) or {}
        if entry.task in self._tasks and any(
            entry.task == name and arguments.items() <= theirs.items() for name, theirs in self._calls
        ):
            return True
        try:
            value = entry.value()
        except StoreCorruptError:
            value = None
        if isinstance(value, dict) and value and any(value.items() <= theirs.items() for theirs in self._results):
            return True
        return any(text in self.texts for text in texts(entry, value)) or not self._own.isdisjoint(
            texts_in([arguments, value])
        )


def forgetting(session: SessionKey, called: Called, *, whole: bool) -> Work[None]:
    """Remove what these calls have asked for, in all namespaces; with `whole` what any call of the session has."""
    params, calls = session._asdict(), {ToolCall.of(*session, id_).call for id_ in called.ids}
    noted = yield Statement(f"SELECT call, namespace, key FROM autocontext_cache_call WHERE {OF_SESSION}", params)
    for call, ns, key in noted:
        if whole or call in calls:
            one, its = "namespace = :ns AND key = :key", {"ns": ns, "key": key}
            yield from leases.end_all(one, its)
            yield from rows.remove(one, its, now())
            yield Statement(f"DELETE FROM autocontext_cache_call WHERE {OF_SESSION} AND {one}", {**params, **its})


def _arguments(inputs: Any) -> dict[str, Any]:
    """Arguments in the form of the cache, by name; {} if it cannot store them."""
    try:
        return {name: json.loads(canonical(value)) for name, value in inputs.items()}
    except UncacheableError:
        return {}
