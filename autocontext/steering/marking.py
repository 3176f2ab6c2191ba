"""Pinning messages, so that no compression takes them, and the agent's own notes."""

from __future__ import annotations

import uuid
from typing import Any

from autocontext.history.entries import Added, Pinned
from autocontext.history.numbering import name, short_list, with_exchanges
from autocontext.history.runs import Runs
from autocontext.history.view import View
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_pinned
from autocontext.notes.notes import LONGEST_NOTE, NOTE_TOOL, note_of
from autocontext.steering.parts import MemoryParts, Refusal, as_bool, counted

_MOST_PINNED = 0.25
"""Largest share of the window for pinned messages: the rest has to fit beside them."""
_NEWEST = 200
"""Newest messages in which the call of a note is looked for."""


def pin(memory: MemoryParts, messages: Any, unpin: Any = False) -> str:
    """Pin messages of the view, a call with its results, or unpin them."""
    unpin = as_bool("unpin", unpin)
    with memory.lock:
        log = memory.log
        numbers = memory.numbers(messages)
        wanted = Runs.of(with_exchanges(numbers, log.originals))
        ids = [log.original[n - 1] for n in wanted]
        if unpin:
            held = [id_ for id_ in ids if id_ in log.pins]
            if not held:
                raise Refusal(
                    f"{short_list(numbers)}: nothing of that was pinned with this tool. Pinned: {_pinned(memory)}."
                )
            memory.journal.append_with_retry(Pinned(ids=tuple(held), pinned=False))
            return f"Unpinned {short_list(log.numbers(held))}. Pinned: {_pinned(memory)}."
        # The call of this tool may be among them; without its result it cannot be pinned.
        originals = View(log.original, log.originals)
        wanted = Runs.of(n for n in wanted if not originals.is_running(n - 1))
        ids = [log.original[n - 1] for n in wanted]
        if not ids:
            raise Refusal(f"{short_list(numbers)} is a call without a result: pin both when the result is there.")
        if away := [n for n in wanted if n not in memory.in_view()]:
            raise Refusal(
                f"{short_list(Runs.of(away))} is not in view in full, so it cannot be pinned; "
                f'context_restore("{name(away[0])}") puts it back first.'
            )
        _check_room(memory, set(ids), numbers)
        memory.journal.append_with_retry(Pinned(ids=tuple(ids)))
        return f"Pinned {short_list(wanted)}: no compression takes it out of the context. Pinned: {_pinned(memory)}."


def _check_room(memory: MemoryParts, new: set[str], numbers: Runs) -> None:
    count = memory.token_sum.count
    tokens = sum(count(id_, m) for id_, m in memory.log.in_view if id_ in new or is_pinned(m))
    most = int(memory.config.max_token * _MOST_PINNED)
    if tokens > most:
        raise Refusal(
            f"with {short_list(numbers)}, {counted(tokens, 'token')} would be pinned and {most:,} may be. Unpin "
            f"something (pinned: {_pinned(memory)}), or keep the essence with {NOTE_TOOL}."
        )


def _pinned(memory: MemoryParts) -> str:
    return short_list(memory.log.numbers(id_ for id_ in memory.log.view_ids if id_ in memory.log.pins)) or "nothing"


def note(memory: MemoryParts, text: Any) -> str:
    """Keep a note: the call of this tool is the note, so one that is not in the conversation yet is added to it."""
    use = ToolUseBlock(id=f"note_{uuid.uuid4().hex[:12]}", name=NOTE_TOOL, input={"text": text})
    if not isinstance(text, str):
        raise Refusal(f"text must be one text, and is of type {type(text).__name__}. Nothing was noted.")
    if not text.strip():
        raise Refusal('the note is empty. Pass what is to be remembered, such as "decision: keep the old lock".')
    if not (wanted := note_of(use)):
        raise Refusal(f"the note has {len(text.strip()):,} characters and may have {LONGEST_NOTE:,}: write several.")
    with memory.lock:
        number = _number_of(memory, wanted)
        if number is None:
            if memory.log.view().is_waiting:
                raise Refusal("a call of this conversation is still running; write the note when it has ended.")
            done = ToolResultBlock(id=use.id, name=NOTE_TOOL, output="Noted.")
            exchange = Msg(role="assistant", content=(use,)), Msg(role="tool", content=(done,))
            memory.journal.append_with_retry(*(Added(message=m) for m in exchange))
            number = len(memory.log.original) - 1
    return f"Noted ({name(number)}). It stays word for word when this part of the conversation is condensed."


def _number_of(memory: MemoryParts, text: str) -> int | None:
    """The number of the call that noted this."""
    original = memory.log.original
    for number in range(len(original), max(0, len(original) - _NEWEST), -1):
        if any(note_of(use) == text for use in memory.log.messages[original[number - 1]].tool_uses):
            return number
    return None
