"""`autocontext show`: prints the context that the model reads."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from autocontext import AutoContextConfig, AutoContextError, AutoContextMemory, Msg
from autocontext.cli import conversations, inspect, stored
from autocontext.cli.arguments import Commands, add_window
from autocontext.cli.conversations import Conversation
from autocontext.cli.layout import printable
from autocontext.cli.screen import Screen
from autocontext.errors import InvalidMessage
from autocontext.history.numbering import names
from autocontext.messages import is_note
from autocontext.text.rendering import head_and_tail, transcript

_ABOUT = """\
Prints the context that the model of a stored session sees now: one line per
message, or with --context the messages as they are sent, with calls, arguments
and results. Notes are printed whole, other long messages by head and tail;
--full prints everything.

With a file of conversations in OpenAI chat form (FILE.jsonl, or - for standard
input) it replays one of them in a window of --window tokens and prints the
context before the last assistant message. That needs no database and no model.
"""
_EXAMPLES = """\
examples:
  autocontext show agent.db 42 --user u1 --context
  autocontext show chats.jsonl --window 4000 --id chat-7
"""
_LONG = 2_400
"""Messages with more characters are shown by head and tail."""
_MOST_LINES = 40
"""Messages with more lines too."""
_LISTED = 5
"""Conversations to list if the requested one does not exist."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "show", run, "print the context that the model of a session or a replayed conversation reads",
        _ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    conversations.add_source(parser)
    parser.add_argument(
        "--context", action="store_true", help="the messages as they are sent, instead of one line each"
    )
    parser.add_argument("--full", action="store_true", help="long messages whole")
    add_window(parser)
    parser.add_argument("--id", metavar="ID", help="which conversation of the file (default: the first)")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Show a context; False if a line of the file could not be read."""
    if not stored.is_database(arguments.source, arguments.session):
        return _show_replay(screen, arguments)
    if arguments.id is not None:
        raise AutoContextError("--id selects a conversation in a file; for a database give SESSION")
    with stored.open_sessions(arguments.source) as store:
        session = stored.session_id(arguments)
        memory = stored.open_memory(store, stored.session_info(store, arguments.user, session))
        inspect.header(screen, memory)
        if arguments.context:
            context(screen, memory, memory.messages, full=arguments.full)
        else:
            inspect.messages(screen, memory, full=arguments.full)
    return True


def _show_replay(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Replay one conversation of a file and show its context."""
    lines = conversations.read(arguments.source, screen.complain)
    if arguments.session is not None:
        raise AutoContextError(f"{lines.name} is a file of conversations; select one with --id")
    conversation = _select(lines, lines.name, arguments.id)
    memory = AutoContextMemory(AutoContextConfig.for_window(arguments.window))
    messages = before_last_reply(memory, conversation.messages)
    added = len(memory.get_original_memory_msgs())
    screen.heading(f"{printable(conversation.title)}, window {arguments.window:,}")
    screen.line(f"{len(messages):,} messages in view of {added:,}, {memory.token_count:,} tokens")
    context(screen, memory, messages, full=arguments.full)
    return not lines.broken


def _select(lines: Iterable[Conversation], name: str, title: str | None) -> Conversation:
    """The conversation with this title (default: the first). Raises AutoContextError if there is none."""
    titles = []
    for conversation in lines:
        if title in (None, conversation.title):
            return conversation
        titles.append(repr(conversation.title))
    if not titles:
        raise InvalidMessage(f"{name}: contains no conversation")
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    some = ", ".join(titles[:_LISTED])
    raise AutoContextError(f"{name}: no conversation has the id {title!r}; choose one of {some}{more}")


def before_last_reply(memory: AutoContextMemory, messages: Sequence[Msg]) -> list[Msg]:
    """The context before the last assistant message, after asking for one before each of them."""
    last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=len(messages))
    for msg in messages[:last]:
        if msg.role == "assistant":
            memory.get_messages()
        memory.add_message(msg)
    return memory.get_messages()


def context(screen: Screen, memory: AutoContextMemory, messages: Sequence[Msg], *, full: bool) -> None:
    """Show the messages as they are sent, each under a heading with role, number and size."""
    for msg, numbers in inspect.numbered(memory, messages):
        screen.heading(_title(msg, names(numbers), memory.count([msg])))
        text = transcript(msg).removeprefix(f"[{msg.role}] ")
        for line in (text if full or is_note(msg) else shortened(text)).split("\n"):
            screen.line(printable(line.rstrip("\r")))


def shortened(text: str) -> str:
    """A text; a long one is cut to its head and tail."""
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        head, tail = lines[: _MOST_LINES * 2 // 3], lines[-(_MOST_LINES // 3) :]
        omitted = len(lines) - len(head) - len(tail)
        lines = [*head, f"[... {omitted} lines; --full shows them ...]", *tail]
    return head_and_tail("\n".join(lines), _LONG)


def _title(msg: Msg, behind: str, tokens: int) -> str:
    """The heading of a message: role, numbers and size."""
    size = f"{tokens:,} token{'s' if tokens != 1 else ''}"
    if msg.origin is None:
        return f"{msg.role} {behind}, {size}" if behind else f"{msg.role}, {size}"
    relation = "note of" if is_note(msg) else "in place of"
    return f"{msg.role}, {relation} {behind or 'other messages'}, {size}"
