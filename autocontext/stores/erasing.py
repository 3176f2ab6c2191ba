"""Erases messages from a stored log, and the notes that may quote them; calls and results stay paired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.history.edits import Edit
from autocontext.history.entries import Added, Edited, Entry, NoteReplaced, Offloaded, Snapshot
from autocontext.history.log import Log
from autocontext.history.recorded import Stored
from autocontext.messages import (
    COMPACTION,
    COMPRESS_META,
    PINNED,
    WRITTEN,
    ContentBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    compacted_by,
)
from autocontext.text.rendering import with_tag

ERASED = "[redacted]"
_KEPT_METADATA = (COMPRESS_META, PINNED)


def erase_messages(
    entries: Iterable[Entry | Stored], ids: frozenset[str]
) -> tuple[dict[int, Entry], dict[int, Entry], frozenset[str]]:
    """The entries to rewrite, by number, as they are and as they shall be, and which of the ids the session has.

    A note loses its text if any message that it replaces is erased. Ledgers and providers' compactions may quote any
    line, so they lose it if any message before them is erased.
    """
    eraser = _Eraser(ids)
    old, changes = dict[int, Entry](), dict[int, Entry]()
    for number, entry in enumerate(entries):
        if isinstance(entry, Stored) and entry.id not in ids:
            eraser.log.take(entry)
            continue
        whole = Added(message=entry.message()) if isinstance(entry, Stored) else entry
        new = eraser.erase(whole)
        if new != whole:
            old[number], changes[number] = whole, new
    return old, changes, frozenset(eraser.erased_ids)


class _Eraser:
    """Follows a log from its start, to know which messages each note replaces."""

    def __init__(self, ids: frozenset[str]) -> None:
        self._ids = ids
        self.log = Log()
        """Follows messages that stay without reading them."""
        self._touched: set[str] = set()
        """Ids in the log of erased messages and of the notes that replace them."""
        self.erased_ids: set[str] = set()

    def erase(self, entry: Entry) -> Entry:
        change = self.log.record(entry)
        update: dict[str, Any] = {}
        match entry:
            case Added() if entry.message.id in self._ids:
                self._touched.update(change.added)
                update = {"message": self._tombstone(entry.message)}
            case Added() if self._touched and compacted_by(entry.message):
                self._touched.update(change.added)
                update = {"message": _without_compaction(entry.message)}
            case Edited():
                update = {"edits": tuple(map(self._edit, entry.edits))}
            case NoteReplaced(message=Msg() as ledger) if self._touched:
                update = {"message": tombstone(ledger)}
            case Offloaded():
                update = {"messages": self._all(entry.messages)}
            case Snapshot():
                update = {"messages": self._snapshot(entry.messages)}
        return entry.model_copy(update=update) if update else entry

    def _edit(self, edit: Edit) -> Edit:
        stands_for_erased = not self._touched.isdisjoint(edit.ids or edit.offload)  # or quotes them
        if stands_for_erased:
            self._touched.update(m.id for m in edit.messages)
        return edit.model_copy(update={"messages": self._all(edit.messages, notes=stands_for_erased)})

    def _snapshot(self, messages: Mapping[str, Msg]) -> dict[str, Msg]:
        has_erased = any(m.id in self._ids for m in messages.values())
        quoting = [key for key, m in messages.items() if m.id in self._ids or (has_erased and _may_quote(m))]
        self._touched.update(quoting)
        return dict(zip(messages, self._all(messages.values(), notes=has_erased), strict=True))

    def _all(self, messages: Iterable[Msg], *, notes: bool = False) -> tuple[Msg, ...]:
        """The messages with the chosen ones erased; with `notes` also the notes and providers' compactions."""
        return tuple(
            self._tombstone(m)
            if m.id in self._ids
            else tombstone(m)
            if notes and m.origin is not None
            else _without_compaction(m)
            if notes
            else m
            for m in messages
        )

    def _tombstone(self, msg: Msg) -> Msg:
        self.erased_ids.add(msg.id)
        return tombstone(msg)


def _may_quote(msg: Msg) -> bool:
    return msg.origin is not None or bool(compacted_by(msg))


def _without_compaction(msg: Msg) -> Msg:
    """The message without a provider's compaction, of which no part can be erased."""
    if not compacted_by(msg):
        return msg
    blocks = [TextBlock(text=ERASED) if COMPACTION in b.metadata else b for b in msg.content]
    return msg.model_copy(update={"content": tuple(blocks)})


def tombstone(msg: Msg) -> Msg:
    """The message without its texts; id, role, calls, results and the offload tag stay."""
    text = ERASED if msg.origin is None else with_tag(ERASED, msg.origin.uuid)
    kept = {key: msg.metadata[key] for key in _KEPT_METADATA if key in msg.metadata}
    if isinstance(mark := kept.get(COMPRESS_META), dict):
        kept[COMPRESS_META] = {key: value for key, value in mark.items() if key != WRITTEN}
    return Msg(
        id=msg.id,
        role=msg.role,
        name=msg.name,
        content=tuple(_emptied(block, text) for block in msg.content),
        metadata=kept,
        timestamp=msg.timestamp,
        origin=msg.origin,
    )


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
