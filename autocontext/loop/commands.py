"""What a user may type in place of a message: /compact, with what the notes are to keep first."""

from __future__ import annotations

import re

from autocontext.compression.receipt import told
from autocontext.flows.threads import in_thread
from autocontext.memory import AutoContextMemory
from autocontext.messages import is_user_turn

_COMPACT = re.compile(r"\s*/compact(?:\s+(.*))?", re.DOTALL)


def compact(memory: AutoContextMemory) -> str | None:
    """Condense the context if the user's last message says so; what came of it, None for any other message."""
    focus = _take_command(memory)
    return None if focus is None else told(memory.compress_if_needed(force=True, focus=focus))


async def acompact(memory: AutoContextMemory) -> str | None:
    """`compact` for asynchronous callers."""
    focus = await in_thread(lambda: _take_command(memory))
    return None if focus is None else told(await memory.acompress_if_needed(force=True, focus=focus))


def _take_command(memory: AutoContextMemory) -> str | None:
    """What stands behind /compact, which leaves the view: it is nothing for the model to answer."""
    view = memory.messages
    command = _COMPACT.fullmatch(view[-1].text) if view and is_user_turn(view[-1]) else None
    if command is None:
        return None
    memory.delete_message(len(view) - 1)
    return (command[1] or "").strip()
