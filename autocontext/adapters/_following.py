"""Keeping a memory in step with a framework that holds a list of messages of its own."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import TypeVar

from autocontext.flows.logs import logger
from autocontext.memory import AutoContextMemory

T = TypeVar("T")
_log = logger(__name__)
_warned: weakref.WeakSet[AutoContextMemory] = weakref.WeakSet()
"""Memories about which a second compression has been reported."""


def first_new(memory: AutoContextMemory, ids: Sequence[str], *, summarised: bool = False) -> int:
    """The index of the first message that the memory has not seen, by the ids of a framework's list.

    New is what stands behind the last message that is known. What somebody has put before it is left alone and reported
    in the log, once for a memory: it is another compression's summary, as a rule. `summarised` says that the first
    message is one, of what the memory knows; then it is not new either where nothing behind it is known.
    """
    known = {m.id for m in memory.get_original_memory_msgs()} | {m.id for m in memory.messages}
    start = max((i + 1 for i, id_ in enumerate(ids) if id_ in known), default=int(summarised))
    strange = sum(id_ not in known for id_ in ids[:start])
    if strange and memory not in _warned:
        _warned.add(memory)
        _log.warning(
            "session %r: %d messages were put into the history before others that were there: is there a second "
            "compression at work? Switch it off; this one leaves them out.",
            memory.session.session_id,
            strange,
        )
    return start


def with_guests(view: Iterable[tuple[str, Sequence[T]]], request: Iterable[tuple[T, str | None]]) -> list[T]:
    """The view's messages by id, and those of a request that only pass through (id None) before what they stand before.

    Behind all are those that stand before nothing in view.
    """
    before: dict[str, list[T]] = {}
    waiting: list[T] = []
    for message, id_ in request:
        if id_ is None:
            waiting.append(message)
        else:
            before.setdefault(id_, []).extend(waiting)
            waiting = []
    sent = [m for id_, messages in view for m in (*before.pop(id_, ()), *messages)]
    return [*sent, *(guest for guests in before.values() for guest in guests), *waiting]
