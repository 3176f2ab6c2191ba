"""`autocontext show`: the context that the model reads, as a person can read it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autocontext import AutoContextConfig, AutoContextError, AutoContextMemory, Msg
from autocontext.cli import conversations, inspecting, stored
from autocontext.cli.arguments import add_window
from autocontext.cli.conversations import Conversation
from autocontext.cli.layout import harmless
from autocontext.cli.lines import BrokenLine
from autocontext.cli.screen import Screen
from autocontext.errors import InvalidMessage
from autocontext.history.numbering import names
from autocontext.messages import is_note
from autocontext.text.rendering import head_and_tail, transcript

_ABOUT = """\
Prints the context of a stored session as its model sees it now: one line for each message, or with --context the
messages as they are sent, with calls, arguments and results. Notes are always whole; of other long messages head and
tail are shown, with --full all of them.

Of a file of conversations in OpenAI chat form (FILE.jsonl, or - for standard input) it replays one in a window of
--window tokens and prints the context before the last message of the assistant. That needs no database and no model.
"""
_EXAMPLES = """\
examples:
  autocontext show agent.db 42 --user u1 --context
  autocontext show chats.jsonl --window 4000 --id chat-7
"""
_FILES = (".jsonl", ".json", ".ndjson")
"""How the names of conversation files end."""
_LONG = 2_400
"""Characters; of a longer message head and tail are shown."""
_MOST_LINES = 40
"""Lines; likewise."""
_NAMED = 5
"""Conversations that are named where the one that is asked for is not there."""


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "show", parents=[parent], help="the context as the model reads it, of a session or a replayed conversation",
        description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "source", metavar="DB|FILE.jsonl", help="a database file, a postgresql:// URL, or a file of conversations"
    )
    parser.add_argument("session", metavar="SESSION", nargs="?", help="of a database")
    stored.add_user(parser)
    parser.add_argument("--context", action="store_true", help="the messages as they are sent, not one line for each")
    parser.add_argument("--full", action="store_true", help="long messages whole")
    add_window(parser)
    parser.add_argument("--id", metavar="ID", help="which conversation of the file (default: the first)")
    parser.set_defaults(command=run, name="show")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Show a context; False when lines of the file could not be read."""
    if arguments.source == "-" or arguments.source.endswith(_FILES):
        return _replayed(screen, arguments)
    if arguments.id is not None:
        raise AutoContextError("--id names a conversation of a file; of a database give the session's name")
    with stored.opened(arguments.source) as store:
        if arguments.session is None:
            raise AutoContextError(f"which session? autocontext inspect {arguments.source} lists them")
        memory = stored.memory_of(store, stored.known(store, arguments.user, arguments.session))
        messages = memory.messages
        originals = len(memory.get_original_memory_msgs())
        screen.heading(f"session {harmless(memory.session.session_id)}")
        screen.line(f"{len(messages):,} messages in view of {originals:,}, {memory.token_count:,} tokens")
        if arguments.context:
            context(screen, memory, messages, full=arguments.full)
        else:
            for i, msg in enumerate(messages):
                inspecting.message(screen, i, msg, memory.count([msg]), full=arguments.full)
    return True


def _replayed(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Show what one conversation of a file comes to."""
    name = "stdin" if arguments.source == "-" else arguments.source
    if arguments.session is not None:
        raise AutoContextError(f"{name} is a file of conversations; --id says which one")
    search = _Search()
    for item in search.in_file(arguments.source, arguments.id):
        screen.complain(f"{name}:{item.line}: {item.reason}")
    if search.chosen is None:
        raise search.missing(name, arguments.id)
    memory = AutoContextMemory(AutoContextConfig.for_window(arguments.window))
    messages = before_last_reply(memory, search.chosen.messages)
    added = len(memory.get_original_memory_msgs())
    screen.heading(f"{harmless(search.chosen.title)}, window {arguments.window:,}")
    screen.line(f"{len(messages):,} messages in view of {added:,}, {memory.token_count:,} tokens")
    context(screen, memory, messages, full=arguments.full)
    return not search.broken


class _Search:
    """A search for one conversation in a file, and its result."""

    def __init__(self) -> None:
        self.chosen: Conversation | None = None
        self.titles: list[str] = []
        self.broken = 0

    def in_file(self, path: str, title: str | None) -> Iterator[BrokenLine]:
        """Read up to the conversation of this title; yield the lines that cannot be read."""
        for item in conversations.read(path):
            if isinstance(item, BrokenLine):
                self.broken += 1
                yield item
                continue
            self.titles.append(item.title)
            if title in (None, item.title):
                self.chosen = item
                return

    def missing(self, name: str, title: str | None) -> AutoContextError:
        """The error that says why there is no result."""
        if not self.titles:
            return InvalidMessage(f"{name}: holds no conversation")
        some = ", ".join(map(repr, self.titles[:_NAMED]))
        more = f" and {len(self.titles) - _NAMED} more" if len(self.titles) > _NAMED else ""
        return AutoContextError(f"{name}: no conversation has the id {title!r}; there are {some}{more}")


def before_last_reply(memory: AutoContextMemory, messages: Sequence[Msg]) -> list[Msg]:
    """The context before the last message of the assistant, when one is asked for before each of them."""
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=len(messages))
    for msg in messages[:last]:
        if msg.role == "assistant":
            memory.get_messages()
        memory.add_message(msg)
    return memory.get_messages()


def context(screen: Screen, memory: AutoContextMemory, messages: Sequence[Msg], *, full: bool) -> None:
    """The messages as they are sent, each under a line with its number, its role and its size."""
    places = {id(m): n for n, m in enumerate(memory.get_original_memory_msgs(), 1)}
    for msg in messages:
        screen.heading(_title(memory, msg, places))
        text = transcript(msg).removeprefix(f"[{msg.role}] ")
        for line in (text if full or is_note(msg) else shortened(text)).split("\n"):
            screen.line(harmless(line.rstrip("\r")))


def shortened(text: str) -> str:
    """A text, of a long one head and tail with the size of what is left out between them."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        head, tail = lines[: _MOST_LINES * 2 // 3], lines[-(_MOST_LINES // 3) :]
        gone = len(lines) - len(head) - len(tail)
        lines = [*head, f"[... {gone} lines; --full shows them ...]", *tail]
    return head_and_tail("\n".join(lines), _LONG)


def _title(memory: AutoContextMemory, msg: Msg, places: Mapping[int, int]) -> str:
    """The line above a message: role, numbers and size."""
    tokens = memory.count([msg])
    size = f"{tokens:,} token{'s' if tokens != 1 else ''}"
    if msg.origin is None:
        number = places.get(id(msg))
        return f"{msg.role} m{number}, {size}" if number else f"{msg.role}, {size}"
    behind = names(sorted(places[id(m)] for m in memory.reload(msg.origin.uuid) if id(m) in places))
    what = "note of" if is_note(msg) else "in place of"
    return f"{msg.role}, {what} {behind or 'other messages'}, {size}"
