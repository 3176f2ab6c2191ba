"""Puts originals back into the view: those behind a provider's compaction, and those that a larger window holds."""

from __future__ import annotations

from autocontext.compression.accounting import edited
from autocontext.compression.token_sum import TokenSum
from autocontext.config import AutoContextConfig
from autocontext.events import IMAGES_LEFT_OUT, PROVIDER_COMPACTION
from autocontext.history.edits import apply
from autocontext.history.entries import Entry, Restored
from autocontext.history.log import Log
from autocontext.history.proposals import build
from autocontext.history.undoing import still_held, undo_entry
from autocontext.messages import COMPACTION, ENCRYPTED, Msg


def is_readable(msg: Msg, provider: str) -> bool:
    """Whether a provider can read all compactions in a message: its own, and those of others that are plain text."""
    marks = [b.metadata for b in msg.content if COMPACTION in b.metadata]
    return all(mark[COMPACTION] == provider or ENCRYPTED not in mark for mark in marks)


def restore_entries(log: Log, token_sum: TokenSum, config: AutoContextConfig) -> list[Entry]:
    """The entries that replace all providers' compactions in view by their originals.

    A compaction stays if its originals are not in this memory.
    """
    from autocontext.strategies.provider_compaction import ProviderCompaction  # noqa: PLC0415 (see `pass_run`)

    fork = log.as_it_is()
    entries: list[Entry] = [entry for uuid, place in _compacted(log) if (entry := _restored(fork, uuid, place))]
    counts = token_sum.fork(fork)
    view = fork.view(counts.count)
    proposals = ProviderCompaction(config.model_copy(update={"provider_compaction": "instead"})).propose(view)
    edits = [build(p, [], strategy=ProviderCompaction.name) for p in proposals]
    done = apply(view, edits, counts.of)
    return [*entries, edited(view, done.edits, counts.of, config.max_token)] if done.edits else entries


def made_for_less(log: Log, config: AutoContextConfig) -> bool:
    """Whether the last compression of a log was made in a smaller window."""
    return bool(log.events) and 0 < int(log.events[-1].metadata.get("window", 0)) < config.max_token


def enlarging_entries(log: Log, token_sum: TokenSum, config: AutoContextConfig) -> list[Entry]:
    """The entries that undo compressions in view, the newest parts first, while the view takes half of the window.

    What the agent has archived stays so, and images whose place a line has taken: a window is not what they lacked.
    """
    fork = log.as_it_is()
    counts = token_sum.fork(fork)
    entries: list[Entry] = []
    todo = list(fork.view_ids)
    without_images = {e.compressed_message_id for e in log.events if e.event_type == IMAGES_LEFT_OUT}
    tokens = config.max_token // 2 - counts.total()
    places = config.msg_threshold // 2 - len(todo)
    while todo:
        note = todo.pop()
        origin = fork.messages[note].origin
        stays = origin is None or origin.kind == "archive" or note in without_images
        if stays or (entry := undo_entry(fork, note)) is None:
            continue
        ids = entry.ids
        tokens -= sum(counts.count(i, fork.messages[i]) for i in ids) - counts.count(note, fork.messages[note])
        places -= len(ids) - 1
        if tokens < 0 or places < 0:
            break
        fork.follow(entry)
        entries.append(entry)
        todo += ids
    return entries


def _compacted(log: Log) -> list[tuple[str, str | None]]:
    """The offload entries that compactions replaced, newest first, each with the id of the message after it."""
    spans = [e for e in log.events if e.event_type == PROVIDER_COMPACTION and "uuid" in e.metadata]
    returned = {entry.uuid for entry in log.entries.of(Restored)}
    return [(uuid, e.next_message_id) for e in reversed(spans) if (uuid := str(e.metadata["uuid"])) not in returned]


def _restored(fork: Log, uuid: str, place: str | None) -> Restored | None:
    """The entry that puts a span back before the message that followed it, else before the last compaction."""
    ids = still_held(fork, fork.offloads.get(uuid, ()))
    last = fork.view().compacted
    before = place if place in fork.view_ids else fork.view_ids[last] if last >= 0 else None
    in_view = fork.numbers(fork.view_ids)  # also behind notes: a snapshot may have forgotten that they came back
    if before is None or not ids or any(number in in_view for number in fork.numbers(ids)):
        return None
    entry = Restored(uuid=uuid, note=before, ids=(*ids, before))
    fork.follow(entry)
    return entry
