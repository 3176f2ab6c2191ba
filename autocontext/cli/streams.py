"""What reaches a terminal: texts that cannot steer it.

Stored texts may hold anything, and so may file names, ids and the texts of errors. Whoever writes need not think of it:
on a terminal `sys.stdout` and `sys.stderr` show control characters as escapes. Only colours, which are ours, go past.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_STEERING = re.compile(
    "[\0-\b\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # directions, and what has no width
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def escaped(text: str) -> str:
    r"""The text with characters that could steer a terminal, or turn the direction of its lines, as `\x1b`."""
    if text.isprintable():
        return text
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


class Shown:
    """A terminal's stream that shows control characters as escapes."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal
        """The stream itself, for colours and lines that are drawn over."""

    def write(self, text: str) -> int:
        """Write the text with escapes; returns how many characters of it were written: all."""
        self.terminal.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)


def terminal_of(stream: TextIO) -> TextIO:
    """The terminal itself behind a stream that escapes; any other stream as it is."""
    return stream.terminal if isinstance(stream, Shown) else stream


def as_utf8(stream: TextIO) -> TextIO:
    """A stream that a program reads or has written, as UTF-8 whatever the locale says; a terminal as it is."""
    if not stream.isatty():
        getattr(stream, "reconfigure", lambda **_: None)(encoding="utf-8")
    return stream


@contextmanager
def shown_safely() -> Iterator[None]:
    """Within the block, what is written to a terminal cannot steer it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Shown(s)) if s.isatty() else s for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
