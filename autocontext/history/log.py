"""The append-only log and its four readings: working view, originals, offloads, events.

Each message is stored once; the readings hold its id. Only `record` changes them, so replaying the entries gives the
same state, and a crash between two entries leaves the state after the first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from copy import copy
from itertools import count
from typing import NamedTuple

from autocontext.errors import StoreError
from autocontext.events import CompressionEvent
from autocontext.history.edits import splice
from autocontext.history.entries import (
    Added,
    Cleared,
    Edited,
    Ended,
    Entry,
    Forgotten,
    Offloaded,
    Pinned,
    Removed,
    Restored,
    Snapshot,
)
from autocontext.history.recorded import First, Messages, Recorded, Stored
from autocontext.history.runs import Runs
from autocontext.history.view import View
from autocontext.messages import Msg, compacted_by, interned, is_ledger, is_recall, with_pin

LEAST_PREFIX = 8
"""Least characters of a UUID's prefix that may stand for the whole."""


class ViewChange(NamedTuple):
    """Ids that left and joined the working view; `all_new` if ids may now mean other messages."""

    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    all_new: bool = False


class Log:
    """Entries in order, and their readings; `record` keeps both in step."""

    def __init__(self, entries: Iterable[Entry | Stored] = ()) -> None:
        self.entries = Recorded()
        self._reset()
        for entry in entries:
            self.take(entry)

    def _reset(self) -> None:
        self.messages = Messages(self.entries)
        """Every message ever recorded, by id."""
        self._suffixes: dict[str, int] = {}
        """The last suffix that messages with the same id were given."""
        self.original: list[str] = []
        self.place: dict[str, int] = {}
        """Index of each original in `original`."""
        self.view_ids: list[str] = []
        self._view_messages: list[Msg] | None = []
        """None until they are needed, as reading stored ones takes time."""
        self.offloads: dict[str, tuple[str, ...]] = {}
        self.replaced: dict[str, tuple[str, ...]] = {}
        """The ids that each note or shortened message replaced.

        An added message is never a key, even if it is a copy of a note: it is an original."""
        self.pins: dict[str, Msg] = {}
        """The messages that the agent has pinned, with the mark that they carry in view; the originals do not."""
        self.taken_back: set[str] = set()
        """The originals that a framework's list had no more, out of view or behind a note that is also about others.

        What the caller removed is not among them."""
        self.ended = 0
        """How many originals there were when a run ended last."""
        self._numbers: dict[str, Runs] = {}
        """Per note, the numbers of the originals behind it."""
        self.events: list[CompressionEvent] = []
        self._edit_uuids: set[str] = set()
        """UUIDs of the offload entries that edits made."""
        self.compactions: set[str] = set()
        """Ids of the added messages that hold a provider's compaction."""

    def as_it_is(self) -> Log:
        """A reading of this log as it is now, while others go on recording here: what only grows is not copied.

        It follows entries that add nothing, such as Restored, to see what they lead to.
        """
        _ = self.view_messages  # read now, so that both hold the same objects: counts go by identity
        now = copy(self)
        for name, reading in vars(self).items():
            if name in ("entries", "original"):
                setattr(now, name, First(len(reading), reading.__getitem__))
            elif name not in ("messages", "place") and isinstance(reading, list | dict | set):
                setattr(now, name, reading.copy())
        return now

    def renew(self, log: Log) -> ViewChange:
        """What `log.as_it_is()` was, as it is now; return how the view changed."""
        before, place = self.view_ids, self.place
        self.__dict__ = log.as_it_is().__dict__
        old, new = set(before), set(self.view_ids)
        removed = tuple(id_ for id_ in before if id_ not in new)
        added = tuple(id_ for id_ in self.view_ids if id_ not in old)
        return ViewChange(removed, added, all_new=self.place is not place)

    def replace(self, entries: Iterable[Entry | Stored]) -> ViewChange:
        """Start over with other entries, and return how the view changed; an interrupt leaves everything as it was."""
        self.__dict__ = Log(entries).__dict__
        return ViewChange(added=tuple(self.view_ids), all_new=True)

    @property
    def view_messages(self) -> list[Msg]:
        """The messages in view."""
        if self._view_messages is None:
            self._view_messages = [self.pins.get(id_) or self.messages[id_] for id_ in self.view_ids]
        return self._view_messages

    @property
    def in_view(self) -> zip[tuple[str, Msg]]:
        """The messages in view with their ids, in order."""
        return zip(self.view_ids, self.view_messages, strict=True)

    def view(self, tokens: Callable[[str, Msg], int] | None = None) -> View:
        """The working view as it is now, with this counter."""
        return View(self.view_ids, self.view_messages, tokens)

    def record(self, entry: Entry) -> ViewChange:
        """Append an entry, update the readings, and return how the view changed."""
        self.append((entry,))
        return self.follow(entry)

    def take(self, entry: Entry | Stored) -> None:
        """`record` for what a store has, which need not be read yet."""
        if isinstance(entry, Stored):  # most of a long session
            self._add(entry.id, entry)
            self.entries.extend((entry,))
        else:
            self.record(entry)

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries, in one step; each has to be followed then. An interrupt in between calls for a new Log."""
        if any(entry.type == "sealed" for entry in entries):
            raise StoreError("this session is encrypted: open it through EncryptedSessionStore(store, key)")
        self.entries.extend(entries)

    def follow(self, entry: Entry) -> ViewChange:  # noqa: C901, PLR0911 (one case for each kind of entry)
        """Update the readings for an entry that was appended, and return how the view changed."""
        match entry:
            case Added():
                return ViewChange(added=(self._add(entry.message.id, entry.message),))
            case Edited():
                return self._edit(entry)
            case Removed():
                return self._remove(entry)
            case Restored():
                return self._restore(entry)
            case Pinned():
                self._pin(entry)
            case Offloaded():
                self._offload(entry)
            case Forgotten():
                self.offloads.pop(entry.uuid, None)
            case Ended():
                self.ended = len(self.original)
            case Cleared():
                self._reset()
                return ViewChange(all_new=True)
            case Snapshot():
                return self._restart(entry)
        return ViewChange()  # as for NoteReplaced: nobody reads an evidence ledger any more

    def _keep(self, id_: str, msg: Msg | Stored) -> str:
        """Store a message and return its id in this log: its own, with a suffix if that is in use."""
        key = unused(id_, self.messages, self._suffixes)
        self.messages[key] = msg
        if not isinstance(msg, Stored) and compacted_by(interned(msg)):
            self.compactions.add(key)
        return key

    def keys(self, ids: Iterable[str]) -> set[str]:
        """These ids of messages as they are in this log: one that was added again is also there with a suffix."""
        keys = {*ids}
        for id_ in ids:
            for n in count(2):
                key = f"{id_}~{n}"
                if key not in self.messages:
                    break
                if self.messages[key].id == id_:
                    keys.add(key)
        return keys

    def _add(self, id_: str, msg: Msg | Stored) -> str:
        key = self._keep(id_, msg)
        self.place[key] = len(self.original)
        self.original.append(key)
        self.view_ids.append(key)
        if isinstance(msg, Stored):
            self._view_messages = None
        elif self._view_messages is not None:
            self._view_messages.append(msg)
        return key

    def _edit(self, entry: Edited) -> ViewChange:
        for edit in entry.edits:
            for m in edit.messages:
                self.messages[m.id] = m
                self.replaced[m.id] = edit.ids
                self._numbers_of(m.id)
            # The UUID may have an entry already: a reloaded page that is shortened again keeps its UUID.
            self._edit_uuids.add(edit.uuid)
            self.offloads[edit.uuid] = tuple(dict.fromkeys((*self.offloads.get(edit.uuid, ()), *edit.offload)))
        self._set_view(splice(self.view_ids, entry.edits))
        self.events.extend(entry.events)
        removed = {id_ for edit in entry.edits for id_ in edit.ids}
        return ViewChange(tuple(removed), tuple(m.id for edit in entry.edits for m in edit.messages))

    def _remove(self, entry: Removed) -> ViewChange:
        removed = set(entry.ids)
        if not entry.taken_back:  # what comes back is as it was
            for id_ in removed:
                self.pins.pop(id_, None)
        change = ViewChange(removed=tuple(id_ for id_ in self.view_ids if id_ in removed))
        ids = {self.original[number - 1] for number in self.numbers(change.removed)}
        self.taken_back = self.taken_back | ids | {*entry.behind} if entry.taken_back else self.taken_back - ids
        self._set_view(id_ for id_ in self.view_ids if id_ not in removed)
        return change

    def _restore(self, entry: Restored) -> ViewChange:
        place = (entry.note,) if entry.note else ()  # an empty view has none
        at = self.view_ids.index(entry.note) if place else 0
        self._set_view([*self.view_ids[:at], *entry.ids, *self.view_ids[at + 1 :]])
        self.taken_back.difference_update((*entry.ids, *entry.behind))
        return ViewChange(place, entry.ids)

    def _pin(self, entry: Pinned) -> None:
        for id_ in entry.ids:
            if not entry.pinned:
                self.pins.pop(id_, None)
            elif id_ in self.messages:
                self.pins[id_] = with_pin(self.messages[id_])
        self._set_view(self.view_ids)

    def _offload(self, entry: Offloaded) -> None:
        ids: dict[str, None] = {}
        for m in entry.messages:
            # A message that occurs twice in the entry needs two ids: the entry is a list of ids.
            is_stored = m.id not in ids and self.messages.get(m.id) == m
            ids[m.id if is_stored else self._keep(m.id, m)] = None
        self.offloads[entry.uuid] = tuple(ids)

    def _restart(self, entry: Snapshot) -> ViewChange:
        self._reset()
        self.messages = Messages(self.entries, {id_: interned(m) for id_, m in entry.messages.items()})
        self.original = list(entry.original)
        self.place = {id_: i for i, id_ in enumerate(self.original)}
        self.pins = {id_: with_pin(self.messages[id_]) for id_ in entry.pinned if id_ in self.messages}
        self.taken_back, self.ended = {*entry.taken_back} - {*entry.view}, entry.ended
        # A ledger note that was added (copied from another memory's view) is an original, and stays.
        self._set_view(id_ for id_ in entry.view if id_ in self.place or not is_ledger(self.messages[id_]))
        self.offloads = dict(entry.offloads)
        self.events = list(entry.events)
        self._edit_uuids = _named_by(entry.events) | {*entry.edited}
        self.compactions = {id_ for id_, m in entry.messages.items() if compacted_by(m)}
        counts = {e.compressed_message_id: e.compressed_message_count for e in entry.events}
        for id_, m in entry.messages.items():
            if is_recall(m) and m.origin is not None and id_ in counts:
                self._edit_uuids.add(m.origin.uuid)
                self.replaced[id_] = ()
            elif m.origin is not None and counts.get(id_, 0) > 0:
                self._edit_uuids.add(m.origin.uuid)
                # The messages an edit replaced end its entry; context that stayed in view may precede them.
                tail = self.offloads.get(m.origin.uuid, ())[-counts[id_] :]
                self.replaced[id_] = entry.replaced.get(id_, tail)
        return ViewChange(added=tuple(self.view_ids), all_new=True)

    def orphaned(self, kept: Container[str]) -> tuple[str, ...]:
        """The entries that edits made, but for those that the messages that are kept, or events, name."""
        named = {m.origin.uuid for id_ in self.replaced if id_ in kept and (m := self.messages[id_]).origin is not None}
        named |= _named_by(self.events)
        return tuple(uuid for uuid in self.offloads if uuid in self._edit_uuids and uuid not in named)

    def shared(self) -> dict[str, tuple[str, ...]]:
        """The replaced ids of notes that share an offload entry with a later edit, whose ids come last in it."""
        shared = {}
        for id_, ids in self.replaced.items():
            origin = self.messages[id_].origin
            entry = self.offloads.get(origin.uuid, ()) if origin is not None else ()
            if ids and entry[-len(ids) :] != ids and set(ids) <= set(entry):
                shared[id_] = ids
        return shared

    def _set_view(self, ids: Iterable[str]) -> None:
        self.view_ids, self._view_messages = list(ids), None

    # --------------------------------------------------------------------------------------------------- readings
    def read(self, ids: Iterable[str]) -> list[Msg]:
        """The messages with these ids."""
        return [self.messages[id_] for id_ in ids]

    @property
    def originals(self) -> Sequence[Msg]:
        """The messages that were added, in order; a stored one is read when it is asked for."""
        return First(len(self.original), lambda at: self.messages[self.original[at]])

    def handle(self, uuid: str) -> str:
        """The full UUID of an offload entry for a UUID or prefix; "" if none fits, or more than one."""
        if uuid in self.offloads:
            return uuid
        if len(uuid) < LEAST_PREFIX:
            return ""
        fits = [handle for handle in self.offloads if handle.startswith(uuid)]
        return fits[0] if len(fits) == 1 else ""

    def originals_of(self, uuid: str) -> list[Msg]:
        """The messages of an offload entry; notes and shortened messages in it are expanded, recursively.

        So one reload returns every original that a note covers. An entry that the caller stored is returned unchanged.
        """
        ids = self.offloads.get(uuid, ())
        if uuid not in self._edit_uuids:
            return self.read(ids)
        originals: dict[str, None] = {}
        expanded: set[str] = set()
        todo = list(reversed(ids))
        while todo:
            id_ = todo.pop()
            origin = self.messages[id_].origin if id_ in self.replaced else None
            if origin is None or origin.uuid not in self.offloads:
                originals[id_] = None
            elif id_ not in expanded:
                expanded.add(id_)
                todo.extend(reversed(self.behind(id_)))
        return self.read(originals)

    def note_of(self, uuid: str) -> str | None:
        """Id of the note in view for an offload entry; None if it is no longer in view."""
        for id_, m in self.in_view:
            if id_ in self.replaced and m.origin is not None and m.origin.uuid == uuid:
                return id_
        return None

    def behind(self, id_: str) -> tuple[str, ...]:
        """Ids that a note or shortened message replaced."""
        return self.replaced.get(id_, ())

    def is_line(self, id_: str) -> bool:
        """Whether a message is a note that is about the message after it: recalled lines, or a pause."""
        return id_ in self.replaced and is_recall(self.messages[id_])

    def covered(self, ids: Iterable[str]) -> list[str]:
        """Ids of the originals that notes and shortened messages stand for, recursively, in order."""
        behind = self.numbers(id_ for id_ in ids if id_ in self.replaced)
        return [self.original[number - 1] for number in behind]

    def numbers(self, ids: Iterable[str]) -> Runs:
        """The numbers of the originals among these messages and behind them, recursively."""
        return Runs(self.runs_of(*ids))

    def held(self, ids: Iterable[str]) -> Runs:
        """`numbers` without what a framework's list had no more."""
        return self.numbers(ids).without(self.place[id_] + 1 for id_ in self.taken_back)

    def stands_for(self, id_: str, originals: Container[str]) -> bool:
        """Whether a message is one of these originals, or stands for nothing else."""
        numbers = self.numbers([id_])
        return bool(numbers) and all(self.original[number - 1] in originals for number in numbers)

    def runs_of(self, *ids: str) -> list[tuple[int, int]]:
        """`numbers` as runs, first and last of each, in the order of the messages; in a long view many are one."""
        runs: list[tuple[int, int]] = []
        for id_ in ids:
            if id_ in self.replaced:
                runs += self._numbers_of(id_).pairs
            elif (place := self.place.get(id_)) is not None:
                first = runs.pop()[0] if runs and runs[-1][1] == place else place + 1
                runs.append((first, place + 1))
        return runs

    def _numbers_of(self, id_: str) -> Runs:
        """The numbers behind a note; computed once, as what it replaced never changes."""
        todo = [id_]
        while todo:
            if todo[-1] in self._numbers:
                todo.pop()
                continue
            inner = self.replaced[todo[-1]]
            if missing := [i for i in inner if i in self.replaced and i not in self._numbers]:
                todo += missing
            else:
                self._numbers[todo.pop()] = Runs(self.runs_of(*inner))
        return self._numbers[id_]

    def snapshot(self) -> Snapshot:
        """The whole state as one entry."""
        return Snapshot(
            messages=dict(self.messages),
            original=tuple(self.original),
            view=tuple(self.view_ids),
            offloads=dict(self.offloads),
            events=tuple(self.events),
            replaced=self.shared(),
            pinned=tuple(self.pins),
            taken_back=tuple(id_ for id_ in self.original if id_ in self.taken_back),
            ended=self.ended,
            edited=self.orphaned(self.messages),
        )


def unused(id_: str, taken: Container[str], suffixes: dict[str, int]) -> str:
    """The id, with a suffix if that is taken; `suffixes` remembers the last of each id."""
    key, n = id_, suffixes.get(id_, 1)
    while key in taken:
        suffixes[id_] = n = n + 1
        key = f"{id_}~{n}"
    return key


def _named_by(events: Iterable[CompressionEvent]) -> set[str]:
    """The UUIDs of edits without a note, which their events name."""
    return {str(event.metadata["uuid"]) for event in events if "uuid" in event.metadata}
