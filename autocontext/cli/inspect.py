"""`autocontext inspect`: what the model of a session sees, what was compressed when, and a diff of a compression."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from autocontext import AutoContextError, AutoContextMemory, CompressionEvent, Msg
from autocontext.cli import figures, stored
from autocontext.cli.arguments import Commands
from autocontext.cli.layout import Column, printable
from autocontext.cli.screen import Screen
from autocontext.history.log import LEAST_PREFIX
from autocontext.stores import SessionInfo
from autocontext.text.rendering import transcript

_EVERY = 1.0
"""Seconds between two checks of --watch."""
_LEAST = 8
"""Cells: with less room, no text of a message is shown."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "inspect", run, "what the model of a stored session sees, and what was compressed",
        "Lists the sessions of a database, or shows the messages that the model of a session sees and what "
        "each compression saved. Example: autocontext inspect agent.db 42 --user ann",
    )  # fmt: skip
    stored.add_database(parser)
    parser.add_argument("session", metavar="SESSION", nargs="?", help="the session's id (default: list all)")
    stored.add_user(parser)
    parser.add_argument(
        "--diff",
        metavar="UUID",
        help="what one compression replaced, as a diff; its first 8 characters are enough, e.g. 5f3c09e1",
    )
    parser.add_argument("--full", action="store_true", help="whole messages instead of their first lines")
    parser.add_argument("--watch", action="store_true", help="update whenever the session changes, until Ctrl-C")


def run(screen: Screen, arguments: argparse.Namespace) -> None:
    """Show one session, or the list of all."""
    with stored.open_sessions(arguments.db) as store:
        if arguments.session is None:
            if arguments.diff or arguments.watch or arguments.full:
                raise AutoContextError("SESSION is missing: --diff, --watch and --full are about one")
            sessions(screen, stored.sessions_of(store, arguments.user or None))
            return
        memory = stored.open_memory(store, stored.session_info(store, arguments.user, arguments.session))
        if arguments.diff:
            diff(screen, memory, arguments.diff)
        elif arguments.watch:
            watch(screen, memory, full=arguments.full)
        else:
            view(screen, memory, full=arguments.full)


def watch(screen: Screen, memory: AutoContextMemory, *, full: bool) -> NoReturn:
    """Show a session and update it when it changes, until Ctrl-C."""
    with screen.live() as redraw:
        redraw(lambda: view(screen, memory, full=full))
        while True:
            time.sleep(_EVERY)
            if memory.refresh():
                redraw(lambda: view(screen, memory, full=full))


def sessions(screen: Screen, infos: Sequence[SessionInfo]) -> None:
    """One row per session, the most recent first."""
    if not infos:
        screen.text("The database has no sessions.")
        return
    columns = [Column("session", right=False), Column("user", right=False), Column("entries"), Column("last written")]
    rows = [
        [printable(i.session_id), printable(i.user_id), f"{i.entries:,}", stored.utc_time(i.updated_at)] for i in infos
    ]
    screen.table(columns, rows)


def view(screen: Screen, memory: AutoContextMemory, *, full: bool) -> None:
    """Show the working view, then the compressions."""
    header(screen, memory)
    screen.heading("what the model sees")
    messages(screen, memory, full=full)
    events = memory.get_compression_events()
    screen.heading("what was compressed")
    if not events:
        screen.text("Nothing yet.")
        return
    compressions(screen, memory, events)
    figures.show_repeats(screen, memory.repeats())


def header(screen: Screen, memory: AutoContextMemory) -> None:
    """Show the name and the size of a session."""
    originals = len(memory.get_original_memory_msgs())
    screen.heading(f"session {printable(memory.session.session_id)}")
    screen.line(f"{len(memory.messages):,} messages in view of {originals:,}, {memory.token_count:,} tokens")


def messages(screen: Screen, memory: AutoContextMemory, *, full: bool) -> None:
    """Show the messages in view, one line each or whole: number (of one original), role, size and text."""
    for msg, numbers in numbered(memory, memory.messages):
        number = f"m{numbers[0]}" if len(numbers) == 1 else ""
        note = f" {figures.origin_name(msg.origin.kind)} {msg.origin.uuid[:8]}" if msg.origin is not None else ""
        head = f"{number:>5} {msg.role:<9} {memory.count([msg]):>7,} "
        text = transcript(msg)
        if full:
            screen.line((head, "dim"), (note.strip(), "yellow"))
            for line in text.splitlines():
                screen.line("     ", printable(line))
            continue
        first = printable(" ".join(text.removeprefix(f"[{msg.role}] ").split()))
        room = screen.width - len(head) - len(note) - 1
        screen.line(
            (head, "dim"),
            (note.strip() + (" " if note else ""), "yellow"),
            screen.clip(first, room) if room > _LEAST else "",
        )


def numbered(memory: AutoContextMemory, messages: Iterable[Msg]) -> Iterator[tuple[Msg, list[int]]]:
    """Each message with the numbers of the originals that it is or stands for, ascending."""
    places = {id(m): n for n, m in enumerate(memory.get_original_memory_msgs(), 1)}
    for msg in messages:
        originals = [msg] if msg.origin is None else memory.reload(msg.origin.uuid)
        yield msg, sorted(places[id(m)] for m in originals if id(m) in places)


def compressions(screen: Screen, memory: AutoContextMemory, events: Sequence[CompressionEvent]) -> None:
    """Show one row per compression."""
    columns = [
        Column("strategy", right=False),
        Column("uuid", right=False),
        Column("tokens"),
        Column("after"),
        Column("when (UTC)", right=False, optional=True),
        Column("messages", optional=True),
        Column("model in/out", optional=True),
    ]
    uuids = {m.id: m.origin.uuid for msgs in memory.get_offload_context().values() for m in msgs if m.origin}
    uuids |= {m.id: m.origin.uuid for m in memory.messages if m.origin}
    rows = [
        [
            figures.strategy_name(event.event_type),
            uuids.get(event.compressed_message_id or "", "")[:8],
            *(f"{event.metadata.get(key, 0):,}" for key in ("tokenBefore", "tokenAfter")),
            stored.utc_time(event.timestamp),
            f"{event.compressed_message_count:,}",
            "/".join(f"{event.metadata.get(key, 0):,}" for key in ("inputToken", "outputToken")),
        ]
        for event in events
    ]
    screen.table(columns, rows)


def diff(screen: Screen, memory: AutoContextMemory, uuid: str) -> None:
    """Show what a compression replaced, and by what, as a diff."""
    handle = memory.handle(uuid)
    before = memory.get_offload_context().get(handle) or memory.reload(handle)
    if not before:
        raise AutoContextError(
            f"no compression {uuid!r} in this session; give at least the {LEAST_PREFIX} characters of a UUID "
            "that `autocontext inspect DB SESSION` lists"
        )
    messages = [*memory.messages, *(m for msgs in memory.get_offload_context().values() for m in msgs)]
    after = list({m.id: m for m in messages if m.origin is not None and m.origin.uuid == handle}.values())
    screen.heading(f"compression {handle}")
    count = f"{len(before)} message{'s' if len(before) != 1 else ''}"
    screen.line(f"{count}, {memory.count(before):,} tokens, replaced by {memory.count(after):,} tokens")
    old, new = (("\n".join(map(transcript, msgs))).splitlines() for msgs in (before, after))
    for line in difflib.unified_diff(old, new, "before", "after", lineterm="", n=2):
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        screen.line((printable(line), style))
