"""The entries of the log, and their JSON.

An entry says what happened and holds every message that came with it. Entries are immutable values.
"""

from __future__ import annotations

import functools
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from autocontext.errors import StoreCorruptError, one_line
from autocontext.events import CompressionEvent
from autocontext.history.edits import Edit
from autocontext.messages import LONGEST_NUMBER, Msg, Value, is_compressed


class _Entry(Value):
    # An entry writes itself, as choosing its class anew takes as long as writing it. NaN and infinity are kept.
    model_config = ConfigDict(ser_json_inf_nan="constants")


class Added(_Entry):
    """A message was added."""

    type: Literal["added"] = "added"
    message: Msg


class Edited(_Entry):
    """One strategy's edits, with one event each; already checked by `edits.apply`."""

    type: Literal["edited"] = "edited"
    edits: tuple[Edit, ...]
    events: tuple[CompressionEvent, ...]

    @property
    def only_recalls(self) -> bool:
        """Whether it takes nothing out of the view, and only puts recalled lines before messages of the user."""
        return bool(self.edits) and not any(edit.ids for edit in self.edits)


class NoteReplaced(_Entry):
    """The evidence ledger of release 0.1.0 was replaced or, without `message`, removed; the log passes over it."""

    type: Literal["noted"] = "noted"
    message: Msg | None
    after: str | None = None


class Removed(_Entry):
    """Messages left the working view; the originals keep them."""

    type: Literal["removed"] = "removed"
    ids: tuple[str, ...]
    taken_back: bool = Field(default=False, exclude_if=lambda taken_back: not taken_back)
    """Whether a framework's list had them no more: they come back into view when it has them again."""
    behind: tuple[str, ...] = Field(default=(), exclude_if=lambda behind: not behind)
    """Originals that it had no more either, and that stay behind a note which is also about others."""


class Restored(_Entry):
    """Messages came back into view: `ids` take the place of `note`, which may be one of them; "" in an empty view.

    `uuid` is that of the compression that was undone; "" for messages that had been taken back.
    """

    type: Literal["restored"] = "restored"
    uuid: str
    note: str
    ids: tuple[str, ...]
    behind: tuple[str, ...] = Field(default=(), exclude_if=lambda behind: not behind)
    """Originals that a framework's list has again, and that a note in view stands for."""


class Pinned(_Entry):
    """The agent pinned messages of the view, so that compressions leave them alone, or unpinned them."""

    type: Literal["pinned"] = "pinned"
    ids: tuple[str, ...]
    pinned: bool = True


class Offloaded(_Entry):
    """The caller stored messages under a key of their own."""

    type: Literal["offloaded"] = "offloaded"
    uuid: str
    messages: tuple[Msg, ...]


class Forgotten(_Entry):
    """The caller dropped an offload entry."""

    type: Literal["forgotten"] = "forgotten"
    uuid: str


class Ended(_Entry):
    """A run of the agent ended: what the user had asked is answered, also where no reply says so."""

    type: Literal["ended"] = "ended"


class Cleared(_Entry):
    """The memory was emptied."""

    type: Literal["cleared"] = "cleared"


class Snapshot(_Entry):
    """A whole state; it replaces everything before it."""

    type: Literal["snapshot"] = "snapshot"
    messages: dict[str, Msg]
    """Every message by its id in this log."""
    original: tuple[str, ...]
    view: tuple[str, ...]
    offloads: dict[str, tuple[str, ...]]
    events: tuple[CompressionEvent, ...]
    replaced: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=lambda replaced: not replaced)
    """Per note, the ids it replaced, if its offload entry does not end with them."""
    pinned: tuple[str, ...] = Field(default=(), exclude_if=lambda pinned: not pinned)
    """Messages that the agent has pinned."""
    taken_back: tuple[str, ...] = Field(default=(), exclude_if=lambda taken_back: not taken_back)
    """Originals that a framework's list had no more."""
    ended: int = Field(default=0, ge=0, exclude_if=lambda ended: not ended)
    """The originals that were there when a run ended last."""
    edited: tuple[str, ...] = Field(default=(), exclude_if=lambda edited: not edited)
    """UUIDs of offload entries whose note is gone: only the caller's own are returned with the notes in them."""

    @property
    def notes(self) -> frozenset[str]:
        """The messages that were made of others, here or in the reference, and may quote any of them.

        The reference does not mark all of its own: what is in view and was never added is one.
        """
        in_view = set(self.view)
        made = self.messages.keys() - set(self.original)
        return frozenset(id_ for id_ in made if id_ in in_view or is_compressed(self.messages[id_]))


class Sealed(_Entry):
    """An encrypted entry: `EncryptedSessionStore` opens it, `Log` refuses it."""

    type: Literal["sealed"] = "sealed"
    key_id: str
    nonce: str
    """Base64 of 96 random bits."""
    data: str
    """Base64 of the encrypted entry with its authentication tag."""


Entry: TypeAlias = Annotated[
    Added
    | Edited
    | NoteReplaced
    | Removed
    | Restored
    | Pinned
    | Offloaded
    | Forgotten
    | Ended
    | Cleared
    | Snapshot
    | Sealed,
    Field(discriminator="type"),
]
"""One change of a session, such as a message that was added or an edit of a pass."""


@functools.cache
def _entry_json() -> TypeAdapter[Entry]:
    # Built at first use, as it costs as much as importing the module. Pydantic caches keys only: caching all strings
    # would keep thousands of ids and timestamps in memory.
    return TypeAdapter(Entry, config=ConfigDict(cache_strings="keys"))


@functools.cache
def _entry_reader() -> Callable[[bytes], Entry]:
    # The validator itself: the adapter's own method takes longer than reading a short entry.
    return _entry_json().validator.validate_json


_WRAPPED = b'{"type":"base64","data":"'
"""Beginning of the line of an entry with lone surrogates, which neither JSON readers nor databases accept."""
_INTERRUPTED = ": KeyboardInterrupt:"
"""In Pydantic's words for an interrupt that came while it wrote."""
_REPLACED = "\ufffd".encode()
"""Pydantic writes this for each byte of a lone surrogate in a key; for one in a text it raises."""


def dump_entry(entry: Entry) -> str:
    """`entry_bytes` as a text."""
    return entry_bytes(entry).decode()


def entry_bytes(entry: Entry) -> bytes:
    """An entry as one line of JSON in UTF-8; `load_entry` reads it back.

    If a text holds a lone surrogate, the line holds the JSON in base64. Escapes would not do: two adjacent halves would
    be read back as one character.
    """
    line = None
    try:
        line = entry.__pydantic_serializer__.to_json(entry, warnings=False)
    except PydanticSerializationError as e:
        if _INTERRUPTED in str(e):  # it came while a function wrote a part, and Pydantic hides it
            raise KeyboardInterrupt from e
    if line is not None and (line.isascii() or _REPLACED not in line):
        return line
    text = json.dumps(_entry_json().dump_python(entry, warnings=False), ensure_ascii=False, separators=(",", ":"))
    try:
        whole = text.encode()
    except UnicodeEncodeError:
        return _WRAPPED + b64encode(text.encode("utf-8", "surrogatepass")) + b'"}'
    return whole if line is None else line


def same_entries(some: Iterable[Entry], others: Iterable[Entry]) -> bool:
    """Whether these are the same entries, as they are stored. Compared as values, NaN would differ from itself."""
    return list(map(entry_bytes, some)) == list(map(entry_bytes, others))


def load_entry(line: str | bytes) -> Entry:
    """The entry that `dump_entry` wrote, from its text or UTF-8. Raises StoreCorruptError naming the fault.

    Releases up to 0.9.0 also stored whole numbers that no JSON reader takes; each is read as a text of its digits.
    """
    try:
        body = line.encode() if isinstance(line, str) else line
        if body.startswith(_WRAPPED):
            whole = b64decode(body[len(_WRAPPED) : -2], validate=True).decode("utf-8", "surrogatepass")
        else:
            try:
                return _entry_reader()(body)
            except ValidationError as e:
                if "number out of range" not in str(e):
                    raise
            whole = body.decode()
        return _entry_json().validate_python(json.loads(whole, parse_int=_whole_number))
    except ValidationError as e:
        raise StoreCorruptError(one_line("entry", e.errors(include_url=False))) from None
    except ValueError as e:  # from base64, UTF-8, JSON, or a value inside
        raise StoreCorruptError(f"entry: {e}") from None


def _whole_number(digits: str) -> int | str:
    long = len(digits.removeprefix("-"))
    return int(digits) if long <= LONGEST_NUMBER else f"whole number of {long:,} digits: {digits}"
