"""An exported session: a line that says how many entries follow, with their checksum, then a line of JSON for each."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence

from autocontext.errors import InvalidMessage, StoreCorruptError
from autocontext.history.entries import Entry, dump_entry, load_entry

_HEAD = re.compile(r'\{"type":"session","entries":(\d{1,18}),"checksum":(\d{1,10})\}')


def dump_lines(entries: Sequence[Entry]) -> list[str]:
    """The lines of an export, each with its line end."""
    lines = [dump_entry(entry) for entry in entries]
    head = {"type": "session", "entries": len(lines), "checksum": _checksum(lines)}
    return [line + "\n" for line in (json.dumps(head, separators=(",", ":")), *lines)]


def load_lines(lines: Iterable[str], name: str) -> list[Entry]:
    """The entries of an export. Lines without the first one, as earlier releases wrote them, are taken as they are.

    Raises InvalidMessage that begins with `name`: for a line that cannot be read, and when lines were left out, moved,
    changed or cut off.
    """
    head = None
    entries: list[Entry] = []
    texts: list[str] = []
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        if not line.strip():
            continue
        if not entries and head is None and (head := _HEAD.fullmatch(line)):
            continue
        try:
            entries.append(load_entry(line))
        except StoreCorruptError as e:
            raise InvalidMessage(f"{name}:{number}: {e}") from None
        texts.append(line)
    if head is not None and _checksum(texts) != int(head[2]):
        raise InvalidMessage(
            f"{name}: its {len(texts)} entries are not the {head[1]} that were exported: some were left out, moved, "
            "changed or cut off. Without the first line they are imported as they are"
        )
    return entries


def _checksum(lines: Iterable[str]) -> int:
    checksum = 0
    for line in lines:
        checksum = zlib.crc32(line.encode() + b"\n", checksum)
    return checksum
