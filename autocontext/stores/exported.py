"""Exported sessions: a first line with the number of entries and their checksum, then one line of JSON per entry."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TextIO

from autocontext.errors import InvalidMessage, StoreCorruptError
from autocontext.history.entries import Entry, dump_entry, load_entry

_HEAD = re.compile(r'\{"type":"session","entries":(\d{1,18}),"checksum":(\d{1,10})\}')
_CHAT: Final = "`autocontext import --openai` reads OpenAI chat messages, and memory.add takes them in a program"
"""What is said of a line that may be messages: an export holds a log, with its notes."""


def dump_lines(entries: Sequence[Entry]) -> list[str]:
    """The lines of an export, each with its line end."""
    lines = [dump_entry(entry) for entry in entries]
    head = {"type": "session", "entries": len(lines), "checksum": _checksum(lines)}
    return [line + "\n" for line in (json.dumps(head, separators=(",", ":")), *lines)]


def load(source: str | Path | TextIO) -> list[Entry]:
    """The entries of an exported file, or of an open one. Raises InvalidMessage that names it, as in `load_lines`."""
    if isinstance(source, str | Path):
        with Path(source).open(encoding="utf-8") as file:
            return load_lines(file, str(source))
    return load_lines(source, "line")


def load_lines(lines: Iterable[str], name: str) -> list[Entry]:
    """The entries of an export. Without the first line, nothing is checked against it.

    Raises InvalidMessage that begins with `name`: for a line that cannot be read, if lines are missing, moved, changed
    or cut off, and if there is no entry.
    """
    try:
        every = [line.rstrip("\r\n") for line in lines]
    except UnicodeDecodeError as e:
        raise InvalidMessage(f"{name}: not an exported session: it is not UTF-8 ({e.reason})") from None
    head = None
    entries: list[Entry] = []
    texts: list[str] = []
    for number, line in enumerate(every, 1):
        if not line.strip():
            continue
        if not entries and head is None and (head := _HEAD.fullmatch(line)):
            continue
        try:
            entries.append(load_entry(line))
        except StoreCorruptError as e:
            problem = _CHAT if _may_be_chat(line) else str(e)
            raise InvalidMessage(f"{name}:{number}: not a line of an exported session: {problem}") from None
        texts.append(line)
    if head is not None and _checksum(texts) != int(head[2]):
        raise InvalidMessage(
            f"{name}: its {len(texts)} entries are not the {head[1]} that were exported: some were left out, moved, "
            "changed or cut off. Without the first line they are imported as they are"
        )
    if not entries:
        raise InvalidMessage(f"{name}: not an exported session: it has no entries")
    return entries


def _may_be_chat(line: str) -> bool:
    """Whether a line that is no entry is a list, or an object with a chat message's keys, or begins one of several."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line.strip() in ("[", "{")
    return isinstance(value, list) or (isinstance(value, dict) and not {"role", "messages"}.isdisjoint(value))


def _checksum(lines: Iterable[str]) -> int:
    return zlib.crc32("".join(f"{line}\n" for line in lines).encode())
