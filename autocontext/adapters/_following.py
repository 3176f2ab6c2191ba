"""Keeping a memory in step with a framework that holds a list of messages of its own."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

from autocontext.flows.logs import logger
from autocontext.memory import AutoContextMemory
from autocontext.messages import Msg, is_compressed

_log = logger(__name__)
_warned: weakref.WeakSet[AutoContextMemory] = weakref.WeakSet()
"""Memories about which a second compression has been reported."""


def first_new(memory: AutoContextMemory, ids: Sequence[str]) -> int:
    """The index of the first message that the memory has not seen, by the ids of a framework's list.

    New is what stands behind the last message that is known. What somebody has put before it is left alone and reported
    in the log, once for a memory: it is another compression's summary, as a rule.
    """
    known = {m.id for m in memory.get_original_memory_msgs()} | {m.id for m in memory.messages}
    start = max((i + 1 for i, id_ in enumerate(ids) if id_ in known), default=0)
    strange = sum(id_ not in known for id_ in ids[:start])
    if strange and memory not in _warned:
        _warned.add(memory)
        _log.warning(
            "session %r: %d messages were put into the history before messages that are known: is there a second "
            "compression at work? Switch it off; this one leaves them out.",
            memory.session.session_id,
            strange,
        )
    return start


def take_back(memory: AutoContextMemory, ids: Sequence[str]) -> None:
    """Take out of the view what a framework's list has no more: a turn that is tried again, a branch that was left.

    `ids` are those of the list at the start of a run. Only what stands behind the last message they share is taken, and
    only if it is in view as it was said; a list that shares nothing is new input, not a history. The originals stay.

    A turn that called tools and was cut off before its answer stays in view: the list never heard of it, because its
    process ended or it was cancelled, and what its tools have done is done.
    """
    current = set(ids)
    originals = memory.get_original_memory_msgs()
    shared = max((i for i, m in enumerate(originals) if m.id in current), default=-1)
    turns = _turns(originals[shared + 1 :]) if shared >= 0 else []
    left = {m.id for turn in turns if not _cut_off(turn) for m in turn}
    while True:
        view = memory.messages
        at = next((i for i, m in enumerate(view) if m.id in left and not is_compressed(m)), None)
        if at is None:
            return
        memory.delete_message(at)


def _turns(messages: Iterable[Msg]) -> list[list[Msg]]:
    """Each with what a user says at its beginning."""
    turns: list[list[Msg]] = []
    for msg in messages:
        if not turns or (msg.role == "user" and turns[-1][-1].role != "user"):
            turns.append([])
        turns[-1].append(msg)
    return turns


def _cut_off(turn: Sequence[Msg]) -> bool:
    answered = turn[-1].role == "assistant" and not turn[-1].tool_uses
    return not answered and any(m.tool_uses for m in turn)
