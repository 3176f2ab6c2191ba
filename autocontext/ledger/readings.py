"""What a call reads: the file or record, and which part of it. Two readings of the same thing have the same subject."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from autocontext.ledger import shell
from autocontext.ledger.effects import (
    PATH_KEYS,
    Effect,
    command_line,
    effect_of,
    path_of,
    verb_of,
)
from autocontext.ledger.shapes import shape
from autocontext.messages import ToolUseBlock, leaves

_CONTENT = frozenset({"read", "view", "open", "cat", "show", "load", "get", "fetch", "retrieve", "inspect"})
"""Verbs of tools that return the content of the file they name: all of them read the same."""
_MOVES_ON = frozenset({"scroll", "goto", "ask", "think", "calculate", "browse", "status"})
"""Verbs of reading tools that may give something else each time."""
_REMARKS = frozenset({"description", "explanation", "reason", "thought", "security_risk", "encoding"})
"""Arguments that say why or how, not what."""
_LEAST_LINES = 6
"""Lines; shorter texts are compared by their words."""
_OVERLAP = 0.6
"""Share of the older text that stands in the newer one if both are readings of the same thing."""
_COMPARED = 400_000
"""Characters of a text that are compared."""
_WORD = re.compile(r"\w+")
_MARGIN = " \t:|│→>-+"
"""Around line numbers."""


class Reading(NamedTuple):
    """What one call reads."""

    subject: str
    """Equal for calls that read the same thing in the same way."""
    part: str
    """Which part of it; "" for all of it."""
    things: frozenset[str]
    """Names under which it may be changed: its path, or the values of the arguments."""
    repeats: bool
    """Whether a later call with another result reads the same thing again; otherwise only an equal result tells."""

    def covers(self, older: Reading) -> bool:
        """Whether this reading has at least the part that an older one of the same subject has."""
        return self.subject == older.subject and self.part in ("", older.part)


def reading_of(use: ToolUseBlock, effects: Mapping[str, Effect] | None = None) -> Reading | None:
    """What a call reads; None if it changes something. A call that runs something counts as its own subject."""
    arguments = {k: v for k, v in use.input.items() if k not in _REMARKS}
    effect = effect_of(use.name, arguments, effects)
    if effect == "changes":
        return None
    call = json.dumps([use.name, _canonical(arguments)], ensure_ascii=False, sort_keys=True)
    line = command_line(arguments) if effect == "runs" else ""
    if line:
        return _of_command(line, call)
    if effect != "reads":
        return Reading(call, "", frozenset(), repeats=False)
    path = normal_path(path_of(arguments))
    if path and verb_of(use.name) in _CONTENT:
        others = {k: v for k, v in arguments.items() if k not in PATH_KEYS and k != "command" and v}
        part = json.dumps([use.name, _canonical(others)], ensure_ascii=False, sort_keys=True) if others else ""
        return Reading(f"file {path}", part, frozenset({path}), repeats=True)
    things = frozenset({path} if path else (text for text in leaves(arguments) if len(text) > 1))
    return Reading(call, "", things, repeats=verb_of(use.name) not in _MOVES_ON)


def _of_command(line: str, call: str) -> Reading | None:
    if shell.changes(line):
        return None
    files = shell.files_read(line)
    if files is None:
        return Reading(call, "", frozenset(), repeats=False)
    paths = frozenset(map(normal_path, files.paths))
    if len(paths) == 1 and files.program in ("cat", "nl", "bat", "open", "less", "more", "head", "tail", "sed"):
        # Only `cat` and the like without further words show the whole file.
        return Reading(f"file {next(iter(paths))}", "" if files.whole else call, paths, repeats=True)
    return Reading(call, "", paths, repeats=True)


def normal_path(path: str) -> str:
    """A path without detours: "./src/../a.py" is "a.py"; "" stays ""."""
    return posixpath.normpath(path.strip()) if path.strip() else ""


def _canonical(value: Any) -> Any:
    """A JSON value in one spelling: 5 and "5" are the same, null is left out."""
    if isinstance(value, dict):
        return {k: _canonical(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_canonical(v) for v in value]
    return value if isinstance(value, bool) else str(value).strip()


def is_about(thing: str, things: Collection[str]) -> bool:
    """Whether a changed thing is one of these; a relative path is the same as a longer one with that end."""
    name = normal_path(thing)
    return any(t in (thing, name) or name.endswith("/" + t) or t.endswith("/" + name) for t in things)


class Outline(NamedTuple):
    """What a text consists of, to find most of it in another one."""

    lines: frozenset[str]
    """Without digits, so that line numbers do not matter."""
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Outline:
        """The outline of a text, of a very long one that of its beginning."""
        text = text[:_COMPARED]
        lines = (line.strip(_MARGIN) for line in shape(text).split("\n"))
        return cls(frozenset(filter(None, lines)), frozenset(_WORD.findall(text)))

    def still_shown(self, newer: Outline) -> bool:
        """Whether most of this text stands in a newer one, line by line or, if it is short, word by word.

        A file that was read again has changed in places only; its next page, or new output of a process, differs more.
        """
        own, other = (self.lines, newer.lines) if len(self.lines) >= _LEAST_LINES else (self.words, newer.words)
        return len(own & other) >= _OVERLAP * len(own)
