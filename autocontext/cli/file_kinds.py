"""What a file is by its first bytes, for one clear error when it is not what a command reads."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Any

from autocontext.stores.private_files import SQLITE

HEAD = 4096
"""Bytes that are looked at."""

_MAGIC = (
    (b'{"type":"session",', "an exported session; `autocontext import agent.db FILE SESSION` makes one of it again"),
    (b"\x1f\x8b", "a gzip file; unpack it first: gunzip -k FILE"),
    (b"\xfd7zXZ\0", "an xz file; unpack it first: unxz -k FILE"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file; unpack it first: zstd -d FILE"),
    (b"BZh", "a bzip2 file; unpack it first: bunzip2 -k FILE"),
    (b"PK\x03\x04", "a zip file (or a document of an office program); unpack or export it first"),
    (b"PAR1", "a Parquet file; export it as JSON lines first"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe", "text in UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16; save it as UTF-8"),
)

_LINES = (
    (("role",), "one message a line; put each conversation on a line of its own, as a list: jq -sc . FILE"),
    (("type", "sessionId"), "a Claude Code transcript"),
    (("type", "timestamp", "payload"), "a Codex session"),
    (("prompt", "completion"), "prompt and completion pairs"),
    (("instruction", "output"), "instruction and output pairs"),
    (("conversations",), 'conversations of "from" and "value" (ShareGPT)'),
    (("custom_id", "body"), "requests of a batch; take their bodies: jq -c .body FILE"),
)
"""By fields that an object has which is no conversation, what a file of such lines is."""


def named(kind: str, file: str) -> str:
    """What a file looks like, with its name in the commands that are advised, as a shell takes it."""
    return kind.replace("FILE", shlex.quote(file))


def is_database(head: bytes) -> bool:
    """Whether this is the beginning of a SQLite database."""
    return head.startswith(SQLITE)


def not_json_lines(head: bytes) -> str:
    """What a file looks like that has no JSON lines at all; "" for JSON lines, even with broken ones among them."""
    if is_database(head):
        return "a SQLite database; `autocontext inspect FILE` lists its sessions"
    if kind := _known(head):
        return kind
    head = head.removeprefix(b"\xef\xbb\xbf")
    lines = _whole_lines(head)
    if not lines:
        return ""
    if not any(line.lstrip()[:1] in (b"{", b"[") for line in head.splitlines()):  # the last may be cut off
        return _text(lines)
    pretty = len(lines) > 1 and lines[0][:1] in (b"{", b"[") and lines[1][:1] in (b" ", b"\t", b"]")
    if pretty and _json(lines[0]) is None:
        return "one JSON document over several lines; put each conversation on a line of its own: jq -c . FILE"
    return ""


def not_conversations(lines: Iterable[bytes]) -> str:
    """What a file of JSON lines looks like of whose first ones none is a conversation; "" for any other file."""
    kinds: list[str] = []
    for line in filter(bytes.strip, lines):
        kinds.append(_no_conversation(line))
        if not kinds[-1]:
            return ""
    # Of a single line its own error says enough. A transcript may begin with lines of another kind.
    return Counter(kinds).most_common(1)[0][0] if len(kinds) > 1 else ""


def _no_conversation(line: bytes) -> str:
    """What an object without messages is; "" for any other line."""
    record = _json(line.removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(record, dict) or "messages" in record:
        return ""
    return next((kind for fields, kind in _LINES if record.keys() >= {*fields}), 'objects without "messages"')


def not_a_database(head: bytes) -> str:
    """What a file looks like that is no SQLite database; "" for one, and for an empty file."""
    if not head or is_database(head):
        return ""
    if kind := _known(head):
        return "binary data; if it was a database, restore it from a backup" if kind == "binary data" else kind
    lines = _whole_lines(head)
    if any(line.lstrip()[:1] in (b"{", b"[") for line in lines[:1]):
        return "JSON" if not_json_lines(head) else "JSON; `autocontext replay FILE` reads conversations"
    return _text(lines)


def _known(head: bytes) -> str:
    """What a file is by its first bytes; "" for a text."""
    kind = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
    return kind or ("binary data" if b"\0" in head else "")


def _whole_lines(head: bytes) -> list[bytes]:
    """The lines of the head that are not blank; the last one is left out where it may go on behind it."""
    lines = head.splitlines()
    return list(filter(bytes.strip, lines[:-1] if len(head) >= HEAD and len(lines) > 1 else lines))


def _json(line: bytes) -> Any:
    """The value of a line; None if it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _text(lines: list[bytes]) -> str:
    first = lines[0].lstrip() if lines else b""
    if first.startswith(b"<"):
        return "HTML or XML"
    for separator, name in ((b"\t", "tab-separated values"), (b",", "comma-separated values")):
        if len(lines) > 1 and first.count(separator) and first.count(separator) == lines[1].count(separator):
            return name
    return "plain text"
