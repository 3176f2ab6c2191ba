"""Conversations to replay: the one shipped with the package, and files of JSON lines."""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any

from autocontext import AutoContextError, Msg
from autocontext.cli import stored
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


class StoredConversation:
    """The originals of a stored session, as one conversation."""

    broken = 0

    def __init__(self, db: str, user: str, session_id: str) -> None:
        with stored.open_sessions(db) as store:
            info = stored.session_info(store, user, session_id)
            self.name = f"{store.database.name}, session {stored.session_name(info)}"
            originals = stored.open_memory(store, info).get_original_memory_msgs()
        if not originals:
            raise AutoContextError(f"{self.name}: has no messages")
        self._conversation = Conversation(session_id, originals)

    def at(self, line: int) -> str:  # noqa: ARG002 (a session is one conversation)
        """Where a conversation stands, for messages about it."""
        return self.name

    def __iter__(self) -> Iterator[Conversation]:
        yield self._conversation


def shipped() -> Conversation:
    """The coding session in the package; its licence is beside it. Raises AutoContextError if it is damaged."""
    data = resources.files("autocontext.cli").joinpath("data", "conversation.json.xz")
    try:
        record = json.loads(lzma.decompress(data.read_bytes()))
    except (OSError, ValueError, lzma.LZMAError) as e:
        raise AutoContextError(f"the shipped conversation is damaged ({e}); reinstall the package") from e
    return Conversation(record["id"], from_openai(record["messages"]))


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add what `read_source` reads: a file of conversations, or a database with a session."""
    parser.add_argument(
        "source", metavar="FILE.jsonl|DB",
        help="one conversation per line (- reads standard input), or a database file or postgresql:// URL",
    )  # fmt: skip
    parser.add_argument("session", metavar="SESSION", nargs="?", help="the session's id, in a database")
    stored.add_user(parser)


def read_source(
    arguments: argparse.Namespace, report: Callable[[str], None]
) -> JsonLines[Conversation] | StoredConversation:
    """The conversations that the arguments name; broken lines go to `report`. Raises AutoContextError."""
    if stored.is_database(arguments.source, arguments.session):
        return StoredConversation(arguments.source, arguments.user, stored.session_id(arguments))
    lines = read(arguments.source, report)
    if arguments.session is not None:
        raise AutoContextError(f"{lines.name}: a file of conversations has no sessions; leave {arguments.session} out")
    return lines


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
