"""Conversations to replay: the one shipped with the package, and files of JSON lines."""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import resources
from io import BufferedReader
from itertools import chain, islice
from typing import Any, Generic, TypeVar, cast

from autocontext import AutoContextError, Msg
from autocontext.cli import file_kinds, stored
from autocontext.errors import InvalidMessage
from autocontext.formats.openai_chat import from_openai

T = TypeVar("T")

_FIRST = 10
"""Lines that decide whether a file is of another kind as a whole."""


class JsonLines(Generic[T]):
    """The values of a file ("-": standard input), parsed. Broken lines go to `report`, as "FILE:LINE: REASON"."""

    def __init__(
        self,
        path: str,
        parse: Callable[[Any, int], T],
        report: Callable[[str], None],
        other_kind: Callable[[list[bytes]], str] = lambda _: "",
    ) -> None:
        """`other_kind` says what a file with such first lines looks like that `parse` does not read at all."""
        self.name = "stdin" if path == "-" else path
        self.broken = 0
        self._path, self._parse, self._report, self._other_kind = path, parse, report, other_kind

    def at(self, line: int) -> str:
        """Where a line stands, for messages about it."""
        return f"{self.name}:{line}"

    def __iter__(self) -> Iterator[T]:
        """Read line by line.

        Raises OSError if the file cannot be read, and InvalidMessage if it is another kind of file as a whole.
        """
        # `open`, not Path.open: an OSError then names the path as the user wrote it.
        stdin = cast("BufferedReader", sys.stdin.buffer)
        with nullcontext(stdin) if self._path == "-" else open(self._path, "rb") as file:  # noqa: PTH123
            head = file.peek(file_kinds.HEAD)
            if other := file_kinds.not_json_lines(head[: file_kinds.HEAD]):
                raise InvalidMessage(f"{self.name}: not JSON lines; it looks like {file_kinds.named(other, self.name)}")
            # A stream may wait for its next line: of that, only what is there already.
            first = [*islice(file, _FIRST)] if file.seekable() else []
            if other := self._other_kind(first or head.splitlines(keepends=True)[:_FIRST]):
                raise InvalidMessage(
                    f"{self.name}: no conversations; it looks like {file_kinds.named(other, self.name)}"
                )
            yield from read_lines(chain(first, file), self._parse, self._broken)

    def _broken(self, line: int, reason: str) -> None:
        self.broken += 1
        self._report(f"{self.at(line)}: {reason}")


def read_lines(
    file: Iterable[bytes], parse: Callable[[Any, int], T], broken: Callable[[int, str], None]
) -> Iterator[T]:
    """Parse each line's value and number, skipping blank lines; `parse` raises InvalidMessage for a wrong value.

    The number of a line that cannot be read goes to `broken`, with the reason.
    """
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
        if not line:
            continue
        try:
            value = parse(json.loads(line.decode("utf-8")), number)
        except InvalidMessage as e:
            broken(number, str(e))
        except UnicodeDecodeError as e:
            broken(number, f"not UTF-8: byte {e.start + 1} is 0x{line[e.start]:02x}")
        except json.JSONDecodeError as e:
            broken(number, f"not JSON: {e.msg} at character {e.colno}")
        except (ValueError, RecursionError) as e:  # numbers of thousands of digits, thousands of nested lists
            broken(number, f"not readable as JSON: {e}")
        else:
            yield value


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
    return JsonLines(path, conversation_in, report, file_kinds.not_conversations)


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
