"""Which messages of a request a memory knows, where the framework gives most of them no ids.

What a memory has handed out carries a mark (`_autocontext` among a message's additional properties, where the framework
keeps its own compaction marks as well). Messages without a mark are looked for among the originals, in order, behind
the last one of them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_framework import Message

from autocontext.adapters._agent_framework_messages import SILENT, from_agent_framework, to_agent_framework
from autocontext.adapters._following import with_guests
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg

MARK = "_autocontext"


@dataclass(frozen=True)
class Placed:
    """A message of a request, and the id it has in the memory; None: it is only passing through."""

    message: Message
    id: str | None


def follow(
    memory: AutoContextMemory, messages: Sequence[Message], histories: Sequence[str] = (), before: Sequence[Placed] = ()
) -> list[Placed]:
    """Add the messages that the memory has not seen; what context providers other than `histories` put in passes by.

    `before` is what came of the request before this one: messages that are still there need no second look.
    """
    originals = memory.get_original_memory_msgs()
    places = {m.id: i for i, m in enumerate(originals)}
    known = {id(p.message): p.id for p in before if p.id in places}
    placed: list[Placed] = []
    new: list[Msg] = []
    taken = {*places, *(m.id for m in memory.messages)}
    pointer = 0
    for i, message in enumerate(messages):
        mark, own = message.additional_properties.get(MARK), known.get(id(message))
        if isinstance(mark, Mapping):
            pointer, own = max(pointer, int(mark["until"])), str(mark["id"])
        elif own is not None:
            pointer = max(pointer, places[own] + 1)
        elif not _passing(message, histories):
            [msg] = from_agent_framework([message])
            at = _find(originals, pointer, msg, last=i == len(messages) - 1)
            if at is None:
                new.append(unique(msg, taken))
                own = new[-1].id
            else:
                pointer, own = at + 1, originals[at].id
        placed.append(Placed(message, own))
    memory.add_messages(new)
    return placed


def unique(msg: Msg, taken: set[str]) -> Msg:
    """The message, under a new id if its own is taken: services repeat theirs, and two would become one."""
    new = msg if msg.id not in taken else Msg(**{k: v for k, v in msg if k != "id"})
    taken.add(new.id)
    return new


def _find(originals: Sequence[Msg], start: int, msg: Msg, *, last: bool) -> int | None:
    """Where a message stands among the originals. The last of a request is the newest there is, or new."""
    first = max(start, len(originals) - 1) if last else start
    essence, calls = _essence(msg), _calls(msg)
    for i in range(first, len(originals)):
        # An answer that calls tools is kept before they run. Other middleware may reword it; its calls stay its calls.
        if (calls and _calls(originals[i]) == calls) or _essence(originals[i]) == essence:
            return i
    return None


def _calls(msg: Msg) -> list[str]:
    return [use.id for use in msg.tool_uses]


def _essence(msg: Msg) -> tuple[Any, ...]:
    """What a message says; ids and notes about its form may differ from one time to the next."""
    return (msg.role, *(block.model_dump(exclude={"metadata"}) for block in msg.content))


def _passing(message: Message, histories: Sequence[str]) -> bool:
    attribution = message.additional_properties.get("_attribution")
    if not isinstance(attribution, Mapping):
        return False
    known = "History" in str(attribution.get("source_type", "")) or attribution.get("source_id") in histories
    return not known


def shown(memory: AutoContextMemory, session: str, view: Sequence[Msg], placed: Sequence[Placed]) -> list[Message]:
    """The view as messages, marked; the framework's own where they are as they were, others' in their places."""
    own = {p.id: p.message for p in placed if p.id is not None}
    originals = memory.get_original_memory_msgs()
    said = {m.id: m.content for m in originals}
    places = {m.id: i + 1 for i, m in enumerate(originals)}
    written: list[tuple[str, list[Message]]] = []
    until = 0
    for msg in view:
        behind = [msg] if msg.origin is None else memory.reload(msg.origin.uuid)
        until = max([until, *(places.get(m.id, 0) for m in behind)])
        # A part of a message may have its id: a repaired history has each result in a message of its own.
        kept = own.get(msg.id) if said.get(msg.id) == msg.content else None
        message = copy.copy(kept) if kept is not None and _whole(kept, msg) else to_agent_framework([msg])[0]
        mark = {"session": session, "id": msg.id, "until": until}
        message.additional_properties = {**message.additional_properties, MARK: mark}
        written.append((msg.id, [message]))
    return with_guests(written, ((p.message, p.id) for p in placed))


def _whole(message: Message, msg: Msg) -> bool:
    """Whether it is all of the message: what was handed out while a call was open may be a part of it, or more."""
    handed_out = MARK in message.additional_properties
    return not handed_out or sum(c.type not in SILENT for c in message.contents) == len(msg.content)
