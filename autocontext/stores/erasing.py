"""Erases messages from a stored log, and the notes that may quote them; calls and results stay paired."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from autocontext.text.rendering import with_tag

ERASED = "[redacted]"
_KEPT_METADATA = (COMPRESS_META, PINNED)


def erase_messages(
    entries: Iterable[Entry | Stored], ids: frozenset[str]
) -> tuple[dict[int, Entry], dict[int, Entry], frozenset[str]]:
    """The entries to rewrite, by number, as they are and as they shall be, and which of the ids the session has.

    A note loses its text if any message that it replaces is erased. Ledgers and providers' compactions may quote any
    line, so they lose it if any message before them is erased. So do the notes of a loaded state, if any message in it
    is: what they replaced may not be known.
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
                update = {"messages": tuple(map(self._message, entry.messages))}
            case Snapshot() if any(m.id in self._ids for m in entry.messages.values()):
                update = {"messages": self._snapshot(entry)}
        return entry.model_copy(update=update) if update else entry

    def _edit(self, edit: Edit) -> Edit:
        stands_for_erased = not self._touched.isdisjoint(edit.ids or edit.offload)  # or quotes them
        if stands_for_erased:
            self._touched.update(m.id for m in edit.messages)
        erased = self._quoting if stands_for_erased else self._message
        return edit.model_copy(update={"messages": tuple(map(erased, edit.messages))})

    def _snapshot(self, entry: Snapshot) -> dict[str, Msg]:
        """The messages of a state with a chosen one, which any of its notes may quote."""
        notes = entry.notes
        messages = {id_: self._quoting(m, note=id_ in notes) for id_, m in entry.messages.items()}
        self._touched.update(id_ for id_, m in messages.items() if m is not entry.messages[id_])
        return messages

    def _message(self, msg: Msg) -> Msg:
        """A message that quotes no other, erased if it is a chosen one."""
        return self._tombstone(msg) if msg.id in self._ids else msg

    def _quoting(self, msg: Msg, *, note: bool = False) -> Msg:
        """A message that may quote a chosen one if it is a note or has a provider's compaction: without those words."""
        if msg.id in self._ids:
            return self._tombstone(msg)
        if note or is_compressed(msg):
            return tombstone(msg)
        return _without_compaction(msg) if compacted_by(msg) else msg

    def _tombstone(self, msg: Msg) -> Msg:
        self.erased_ids.add(msg.id)
        return tombstone(msg)


def _without_compaction(msg: Msg) -> Msg:
    """The message without a provider's compaction, of which no part can be erased."""
    blocks = [TextBlock(text=ERASED) if COMPACTION in b.metadata else b for b in msg.content]
    return msg.model_copy(update={"content": tuple(blocks)})


def tombstone(msg: Msg) -> Msg:
    """The message without its texts; id, role, calls, results and the offload tag stay."""
    kept = {key: msg.metadata[key] for key in _KEPT_METADATA if key in msg.metadata}
    uuid = "" if msg.origin is None else msg.origin.uuid
    if isinstance(mark := kept.get(COMPRESS_META), dict):
        kept[COMPRESS_META] = {key: value for key, value in mark.items() if key != WRITTEN}
        uuid = uuid or str(mark.get(OFFLOAD_UUID, ""))
    text = with_tag(ERASED, uuid) if uuid else ERASED
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
