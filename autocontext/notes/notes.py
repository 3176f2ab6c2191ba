"""The agent's own notes: calls of `context_note`, whose text stands in every work ledger word for word."""

from __future__ import annotations

from autocontext.messages import ToolUseBlock

NOTE_TOOL = "context_note"
LOOKING = (
    "context_search", "context_status", "context_reload", "context_archive", "context_restore", "context_pin",
    "context_condense",
)  # fmt: skip
"""How the names of the other tools of a memory end: their calls and results only repeat what was said."""
LONGEST_NOTE = 1_000
"""Characters of a note; the tool refuses longer ones."""


def is_note_tool(name: str) -> bool:
    """Whether this is the tool's name, possibly behind a server's: "mcp__autocontext__context_note"."""
    head = name.removesuffix(NOTE_TOOL)
    return head != name and not head[-1:].isalnum()


def note_of(use: ToolUseBlock) -> str:
    """The text of a call that notes something; "" for any other call, and for a note that the tool refuses."""
    text = use.input.get("text") if is_note_tool(use.name) else None
    return text.strip() if isinstance(text, str) and len(text.strip()) <= LONGEST_NOTE else ""
