"""Erases messages from a stored log, and the notes and pages that may quote them; calls and results stay paired."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autocontext.history import numbering
from autocontext.history.edits import Edit
from autocontext.history.entries import Added, Edited, Entry, NoteReplaced, Offloaded, Snapshot
from autocontext.history.log import Log
from autocontext.history.recorded import Stored
from autocontext.messages import (
    COMPACTION,
    COMPRESS_META,
    OFFLOAD_UUID,
    PINNED,
    WRITTEN,
    ContentBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    compacted_by,
    is_compressed,
)
from autocontext.text.rendering import page_source, with_tag

ERASED = "[redacted]"
_KEPT_METADATA = (COMPRESS_META, PINNED)
_RELOAD = "context_reload"
_READING = (_RELOAD, "context_search", "context_status")
"""How the names of the tools end whose results quote messages: servers put something before them."""


def erase_messages(
    entries: Iterable[Entry | Stored], ids: frozenset[str]
) -> tuple[dict[int, Entry], dict[int, Entry], frozenset[str]]:
    """The entries to rewrite, by number, as they are and as they shall be, and which of the ids the session has.

    A note loses its text if any message that it replaces is erased. Ledgers and providers' compactions may quote any
    line, so they lose it if any message before them is erased. So do the notes of a loaded state, if any message in it
    is: what they replaced may not be known.

    Pages of `context_reload` lose their text if they give an erased message, what `context_search` and `context_status`
    have answered since if any is erased. An id may also be the handle of a content, whose pages lose it then.
    """
    eraser = _Eraser(ids)
    old, changes = dict[int, Entry](), dict[int, Entry]()
    for number, entry in enumerate(entries):
        if isinstance(entry, Stored) and eraser.leaves(entry):
            eraser.log.take(entry)
            continue
        whole = Added(message=entry.message()) if isinstance(entry, Stored) else entry
        new = eraser.erase(whole)
        if new != whole:
            old[number], changes[number] = whole, new
    return old, changes, frozenset(eraser.erased_ids)


def results_that_quote(entries: Iterable[Entry], ids: frozenset[str]) -> dict[str, set[str]]:
    """The results that `erase_messages` erases because they may quote these messages: their calls' ids, by message."""
    eraser = _Eraser(ids)
    for entry in entries:
        eraser.erase(entry)
    return eraser.quoting


class _Eraser:
    """Follows a log from its start, to know which messages each note replaces."""

    def __init__(self, ids: frozenset[str]) -> None:
        self._ids = ids
        self.log = Log()
        """Follows messages that stay without reading them."""
        self._touched: set[str] = set()
        """Ids in the log of erased messages and of the notes that replace them."""
        self.erased_ids: set[str] = set()
        self._calls: dict[str, str] = {}
        """The reading tools' calls: some frameworks' results do not name their tool."""
        self.quoting: dict[str, set[str]] = {}
        """The calls of results that may quote an erased message, by the result's message."""

    def leaves(self, entry: Stored) -> bool:
        """Whether the message stays as it is, which is known without reading it."""
        if entry.id in self._ids:
            return False
        json = entry.json()
        return not any(name in json for name in (*_READING, *self._calls))

    def erase(self, entry: Entry) -> Entry:
        change = self.log.record(entry)
        update: dict[str, Any] = {}
        match entry:
            case Added():
                self._note_calls(entry.message)
                if (new := self._added(entry.message)) is not entry.message:
                    self._touched.update(change.added)
                    update = {"message": new}
            case Edited():
                update = {"edits": tuple(map(self._edit, entry.edits))}
            case NoteReplaced(message=Msg() as ledger) if self._touched:
                update = {"message": tombstone(ledger)}
            case Offloaded():
                update = {"messages": tuple(map(self._message, entry.messages))}
            case Snapshot() if any(m.id in self._ids for m in entry.messages.values()):
                update = {"messages": self._snapshot(entry)}
        return entry.model_copy(update=update) if update else entry

    def _added(self, msg: Msg) -> Msg:
        msg = self._message(msg)
        return _without_compaction(msg) if self._touched and compacted_by(msg) else msg

    def _edit(self, edit: Edit) -> Edit:
        stands_for_erased = not self._touched.isdisjoint(edit.ids or edit.offload)  # or quotes them
        if stands_for_erased:
            self._touched.update(m.id for m in edit.messages)
        messages = tuple(self._message(m, quotes=stands_for_erased) for m in edit.messages)
        return edit.model_copy(update={"messages": messages})

    def _snapshot(self, entry: Snapshot) -> dict[str, Msg]:
        """The messages of a state with a chosen one, which any of its notes may quote."""
        notes, messages = entry.notes, dict(entry.messages)
        for id_, m in messages.items():
            self._note_calls(m)
            if id_ in notes or m.id in self._ids:
                self._touched.add(id_)
        for id_ in sorted(messages, key=lambda id_: self.log.place.get(id_, 0)):  # a page may be of an earlier page
            messages[id_] = self._message(messages[id_], quotes=True, note=id_ in notes)
            if messages[id_] is not entry.messages[id_]:
                self._touched.add(id_)
        return messages

    def _message(self, msg: Msg, *, quotes: bool = False, note: bool = False) -> Msg:
        """A message: erased if it is a chosen one, otherwise without results that may quote one.

        With `quotes` it also does if it is a note or has a provider's compaction: then it loses those words.
        """
        if msg.id in self._ids:
            self.erased_ids.add(msg.id)
            return tombstone(msg)
        if quotes and (note or is_compressed(msg)):
            return tombstone(msg)
        return _without_compaction(msg) if quotes and compacted_by(msg) else self._without_quotes(msg)

    def _without_quotes(self, msg: Msg) -> Msg:
        """The message without results of reading tools that may quote an erased one."""
        quotes = [b for b in msg.content if isinstance(b, ToolResultBlock) and self._may_quote(b)]
        if not quotes:
            return msg
        self.quoting.setdefault(msg.id, set()).update(b.id for b in quotes)
        content = tuple(_emptied(b, _erased_page(b.text)) if b in quotes else b for b in msg.content)
        update: dict[str, Any] = {"content": content}
        if len(quotes) == len(content):
            update["metadata"] = {key: msg.metadata[key] for key in _KEPT_METADATA if key in msg.metadata}
        return msg.model_copy(update=update)

    def _may_quote(self, result: ToolResultBlock) -> bool:
        name = result.name or self._calls.get(result.id, "")
        if not name.endswith(_READING):
            return False
        if not name.endswith(_RELOAD):
            return bool(self._touched)
        source, _ = page_source(result.text)
        if not source or source.startswith("c_"):
            return source != "" and source in self._ids
        if source in self.log.offloads:
            ids = self.log.offloads[source]
            return any(id_ in self._touched or self.log.messages[id_].id in self._ids for id_ in ids)
        listed = numbering.parse(source.removesuffix("..."), len(self.log.original))
        if listed is None:  # a UUID that was forgotten before the state was loaded
            return bool(self._touched)
        erased = [self.log.place[id_] + 1 for id_ in self._touched if id_ in self.log.place]
        more = listed.pairs[-1][1] if listed and source.endswith("...") else len(self.log.original)
        return any(number in listed or number > more for number in erased)

    def _note_calls(self, msg: Msg) -> None:
        self._calls.update((use.id, use.name) for use in msg.tool_uses if use.name.endswith(_READING))


def _without_compaction(msg: Msg) -> Msg:
    """The message without a provider's compaction, of which no part can be erased."""
    blocks = [TextBlock(text=ERASED) if COMPACTION in b.metadata else b for b in msg.content]
    return msg.model_copy(update={"content": tuple(blocks)})


def _erased_page(text: str) -> str:
    """What stays of a result that quotes: of a page what it was of, so that it is known when erasing again."""
    _, head = page_source(text)
    return f"{head}]\n{ERASED}" if head else ERASED


def tombstone(msg: Msg) -> Msg:
    """The message without its texts; id, role, calls, results and the offload tag stay."""
    kept = {key: msg.metadata[key] for key in _KEPT_METADATA if key in msg.metadata}
    uuid = "" if msg.origin is None else msg.origin.uuid
    if isinstance(mark := kept.get(COMPRESS_META), dict):
        kept[COMPRESS_META] = {key: value for key, value in mark.items() if key != WRITTEN}
        uuid = uuid or str(mark.get(OFFLOAD_UUID, ""))
    text = with_tag(ERASED, uuid) if uuid else ERASED
    return msg.model_copy(update={"content": tuple(_emptied(b, text) for b in msg.content), "metadata": kept})


def _emptied(block: ContentBlock, text: str) -> ContentBlock:
    """The block without its texts, or with this one in their place."""
    match block:
        case ToolUseBlock():
            return ToolUseBlock(id=block.id, name=block.name)
        case ToolResultBlock():
            return ToolResultBlock(id=block.id, name=block.name, output=text, is_error=block.is_error)
        case ThinkingBlock():
            return ThinkingBlock(thinking=ERASED)
    return TextBlock(text=text)
