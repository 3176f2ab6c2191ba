"""Conversations to replay: the one shipped with the package, and files of JSON lines."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from autocontext import AutoContextError, Msg
from autocontext.cli.json_lines import JsonLines
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_chat import from_openai


@dataclass(frozen=True)
class Conversation:
    """Messages with a title."""

    title: str
    messages: list[Msg]
    line: int = 1
    """Line number in its file, from 1."""


def shipped() -> Conversation:
    """The coding session in the package; its licence is beside it. Raises AutoContextError if it is damaged."""
    data = resources.files("autocontext.cli").joinpath("data", "conversation.json.xz")
    try:
        record = json.loads(lzma.decompress(data.read_bytes()))
    except (OSError, ValueError, lzma.LZMAError) as e:
        raise AutoContextError(f"the shipped conversation is damaged ({e}); reinstall the package") from e
    return Conversation(record["id"], from_openai(record["messages"]))


def read(path: str, report: Callable[[str], None]) -> JsonLines[Conversation]:
    """The conversations of a file of JSON lines ("-": standard input); broken lines go to `report`."""
    return JsonLines(path, conversation_in, report)


def conversation_in(record: Any, line: int) -> Conversation:
    """The conversation of a line. Raises InvalidMessage for anything else."""
    messages = record.get("messages") if isinstance(record, dict) else record
    if isinstance(record, dict) and "role" in record and messages is None:
        raise InvalidMessage("a single message; put the whole conversation on one line, as a list")
    if isinstance(record, dict) and "messages" not in record:
        raise InvalidMessage('an object without "messages"')
    if not isinstance(messages, list):
        raise InvalidMessage('neither {"messages": [...]} nor a list of messages')
    if not messages:
        raise InvalidMessage("a conversation without messages")
    title = record.get("id") if isinstance(record, dict) else None
    return Conversation(str(title) if title else f"line {line}", from_openai(messages), line)
