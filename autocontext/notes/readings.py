"""What a call asks for: two calls that ask for the same thing have the same subject."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from autocontext.messages import ToolUseBlock
from autocontext.notes.calls import PATH_KEYS, REMARKS, path_of
from autocontext.text.lines import DIGITS

_LEAST_LINES = 6
"""Lines; shorter texts are compared by their words."""
_OVERLAP = 0.6
"""Share of the older text that stands in the newer one if both are readings of the same thing."""
_COMPARED = 400_000
"""Characters of a text that are compared."""
_WORD = re.compile(r"\w+")
_MARGIN = " \t:|│→>-+"
"""Around line numbers."""
_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
"""Shared: `json.dumps` with an option makes a new encoder for every call."""


class Reading(NamedTuple):
    """What one call asks for."""

    subject: str
    """Equal for calls of one tool about one file, or with equal arguments."""
    part: str
    """The other arguments of a call about a file; "" if there are none."""
    of_file: bool
    """Whether it names a file: a newer text may then stand for most of an older one; otherwise only an equal text."""

    def covers(self, older: Reading) -> bool:
        """Whether this call asks for at least what an older one of the same subject asked for."""
        return self.subject == older.subject and self.part in ("", older.part)


def reading_of(use: ToolUseBlock) -> Reading:
    """What a call asks for."""
    arguments = {k: v for k, v in use.input.items() if k not in REMARKS}
    if path := path_of(arguments):
        others = {k: v for k, v in arguments.items() if k not in PATH_KEYS and v}
        part = _json(_canonical(others)) if others else ""
        return Reading(f"{use.name} {posixpath.normpath(path)}", part, of_file=True)
    return Reading(_json([use.name, _canonical(arguments)]), "", of_file=False)


def _canonical(value: Any) -> Any:
    """A JSON value in one spelling: 5 and "5" are the same, null is left out."""
    if isinstance(value, Mapping):
        return {k: _canonical(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_canonical(v) for v in value]
    return value if isinstance(value, bool) else str(value).strip()


class Outline(NamedTuple):
    """What a text consists of, to find most of it in another one."""

    lines: frozenset[str]
    """Without digits, so that line numbers do not matter."""
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Outline:
        """The outline of a text, of a very long one that of its beginning."""
        text = text[:_COMPARED]
        lines = (line.strip(_MARGIN) for line in text.translate(DIGITS).split("\n"))
        return cls(frozenset(filter(None, lines)), frozenset(_WORD.findall(text)))

    def still_shown(self, newer: Outline) -> bool:
        """Whether most of this text stands in a newer one, line by line or, if it is short, word by word.

        A file that was read again has changed in places only; its next page, or new output of a process, differs more.
        """
        own, other = (self.lines, newer.lines) if len(self.lines) >= _LEAST_LINES else (self.words, newer.words)
        return len(own & other) >= _OVERLAP * len(own)
