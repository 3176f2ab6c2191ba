"""Whether an agent repeats itself after a pass: its calls around each pass that were made, or that read, before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from autocontext.events import CallCounts, Repeats
from autocontext.history.entries import Added, Cleared, Edited, Entry, Snapshot
from autocontext.messages import ToolUseBlock
from autocontext.notes.calls import REMARKS, command_line, digest_of, looks, thing_of
from autocontext.strategies.selection import RELOAD_TOOL
from autocontext.text.protocol_results import RECORD_KEY

NEAR = 10
"""Calls before and after each pass that are compared."""


class RepeatMeter:
    """Follows a session's entries, each once, and counts the tool calls around its passes.

    A call belongs to the `NEAR` after the last pass, or else to those before the next one, or to neither: never to two.
    """

    def __init__(self) -> None:
        self.entries = 0
        """Number of entries followed."""
        self.repeats = Repeats()
        """What was counted so far; calls before a pass count when it comes."""
        self._made: set[tuple[str, int]] = set()
        self._read: set[tuple[str, int]] = set()
        self._recent: deque[CallCounts] = deque(maxlen=NEAR)
        """The newest calls that are not near after a pass."""
        self._since = NEAR
        """Calls since the last pass, as far as they are near."""

    def follow(self, entries: Iterable[Entry]) -> None:
        """Go on with the next entries."""
        for entry in entries:
            self.entries += 1
            match entry:
                case Added():
                    for use in entry.message.tool_uses:
                        self._count(self._look(use))
                case Edited() if not entry.only_recalls:
                    before = sum(self._recent, self.repeats.before)
                    self.repeats = Repeats(before=before, after=self.repeats.after)
                    self._recent.clear()
                    self._since = 0
                case Cleared():
                    self._forget()
                case Snapshot():  # it does not say where its passes were
                    self._forget()
                    for id_ in entry.original:
                        for use in entry.messages[id_].tool_uses:
                            self._look(use)

    def _forget(self) -> None:
        """Begin another conversation."""
        self._made, self._read = set(), set()
        self._recent.clear()
        self._since = NEAR

    def _count(self, call: CallCounts) -> None:
        if self._since < NEAR:
            self._since += 1
            self.repeats = Repeats(before=self.repeats.before, after=self.repeats.after + call)
        else:
            self._recent.append(call)

    def _look(self, use: ToolUseBlock) -> CallCounts:
        """What a call is, compared with those before it."""
        made, read = _call_key(use), _reading_key(use)
        reload = use.name.endswith(RELOAD_TOOL)  # servers put their name before it
        repeated, reread = int(made in self._made), int(reload or read in self._read)
        self._made.add(made)
        if read is not None:
            self._read.add(read)
        return CallCounts(calls=1, repeated=repeated, reread=reread, reloads=int(reload))


def _call_key(use: ToolUseBlock) -> tuple[str, int]:
    """Equal for calls of one tool with equal arguments; what only explains a command does not count."""
    arguments = use.input
    return use.name, digest_of(_without_remarks(arguments) if command_line(arguments) else arguments)


def _reading_key(use: ToolUseBlock) -> tuple[str, int] | None:
    """Equal for calls that read the same thing, or parts of the same file or record; None for one that does not read.

    Numbers name a part (lines, an offset, a page), except in a record's key.
    """
    if not looks(use.name, use.input):
        return None
    arguments = _without_remarks(use.input)
    if thing_of(use.input):
        arguments = {k: v for k, v in arguments.items() if RECORD_KEY.search(k) or not _is_number(v)}
    return use.name, digest_of(arguments or use.input)


def _without_remarks(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in arguments.items() if k not in REMARKS}


def _is_number(value: Any) -> bool:
    """Whether a value is a number, a list of them, a flag or nothing."""
    if isinstance(value, list | tuple):
        return all(map(_is_number, value))
    return value is None or isinstance(value, int | float)
