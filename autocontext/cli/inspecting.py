"""`autocontext inspect`: what the model sees now, what was compressed when, and a diff of any compression."""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from autocontext import AutoContextError, AutoContextMemory, CompressionEvent, Msg
from autocontext.cli import show, stored
from autocontext.cli.layout import Column, harmless
from autocontext.cli.screen import Screen
from autocontext.stores import SessionInfo
from autocontext.text.rendering import transcript

_EVERY = 1.0
"""Seconds between two looks of --watch."""
_LEAST = 8
"""Cells: where less is left for a message's text, none of it is shown."""


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "inspect", parents=[parent], help="what the model of a stored session sees, and what was compressed",
        description="Shows the working view of a session message by message, and every compression with its cost.",
    )  # fmt: skip
    stored.add_database(parser)
    parser.add_argument("session", metavar="SESSION", nargs="?", help="leave it out to list the sessions")
    stored.add_user(parser)
    parser.add_argument("--diff", metavar="UUID", help="show what one compression replaced, and by what")
    parser.add_argument("--full", action="store_true", help="show each message whole, not its first line")
    parser.add_argument("--watch", action="store_true", help="show it again whenever the session changes")
    parser.set_defaults(command=run, name="inspect")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Show one session, or the list of them."""
    with stored.opened(arguments.db) as store:
        if arguments.session is None:
            sessions(screen, store.sessions(arguments.user or None))
            return True
        memory = stored.memory_of(store, stored.known(store, arguments.user, arguments.session))
        if arguments.diff:
            diff(screen, memory, arguments.diff)
            return True
        if arguments.watch:
            watch(screen, memory, full=arguments.full)
        view(screen, memory, full=arguments.full)
    return True


def watch(screen: Screen, memory: AutoContextMemory, *, full: bool) -> NoReturn:
    """Show a session, and again whenever it has changed, until Ctrl-C."""
    with screen.living() as shown:
        shown(lambda: view(screen, memory, full=full))
        while True:
            time.sleep(_EVERY)
            if memory.refresh():
                shown(lambda: view(screen, memory, full=full))


def sessions(screen: Screen, infos: Sequence[SessionInfo]) -> None:
    """One row per session, the one written to last first."""
    if not infos:
        screen.text("The database has no sessions.")
        return
    columns = [Column("session", right=False), Column("user", right=False), Column("entries"), Column("last written")]
    rows = [[harmless(i.session_id), harmless(i.user_id), f"{i.entries:,}", stored.day(i.updated_at)] for i in infos]
    screen.table(columns, rows)


def view(screen: Screen, memory: AutoContextMemory, *, full: bool) -> None:
    """The working view, then the compressions."""
    messages = memory.messages
    originals = len(memory.get_original_memory_msgs())
    screen.heading(f"session {harmless(memory.session.session_id)}")
    screen.line(f"{len(messages):,} messages in view of {originals:,}, {memory.token_count:,} tokens")
    screen.heading("what the model sees")
    for i, msg in enumerate(messages):
        message(screen, i, msg, memory.count([msg]), full=full)
    events = memory.get_compression_events()
    screen.heading("what was compressed")
    if not events:
        screen.text("Nothing yet.")
        return
    compressions(screen, memory, events)


def message(screen: Screen, index: int, msg: Msg, tokens: int, *, full: bool) -> None:
    """One message: its place, role, size, and its first line or all of it."""
    note = f" {show.kind(msg.origin.kind)} {msg.origin.uuid[:8]}" if msg.origin is not None else ""
    head = f"{index:>4} {msg.role:<9} {tokens:>7,} "
    text = transcript(msg)
    if full:
        screen.line((head, "dim"), (note.strip(), "yellow"))
        for line in text.splitlines():
            screen.line("     ", harmless(line))
        return
    first = harmless(" ".join(text.removeprefix(f"[{msg.role}] ").split()))
    room = screen.width - len(head) - len(note) - 1
    screen.line(
        (head, "dim"),
        (note.strip() + (" " if note else ""), "yellow"),
        screen.clip(first, room) if room > _LEAST else "",
    )


def compressions(screen: Screen, memory: AutoContextMemory, events: Sequence[CompressionEvent]) -> None:
    """One row per compression."""
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
            show.strategy(event.event_type),
            uuids.get(event.compressed_message_id or "", "")[:8],
            *(f"{event.metadata.get(key, 0):,}" for key in ("tokenBefore", "tokenAfter")),
            stored.day(event.timestamp),
            f"{event.compressed_message_count:,}",
            "/".join(f"{event.metadata.get(key, 0):,}" for key in ("inputToken", "outputToken")),
        ]
        for event in events
    ]
    screen.table(columns, rows)


def diff(screen: Screen, memory: AutoContextMemory, uuid: str) -> None:
    """What stood in the view before a compression, and what stands there after it."""
    handle = memory.handle(uuid)
    before = memory.get_offload_context().get(handle) or memory.reload(handle)
    if not before:
        raise AutoContextError(f"nothing is stored under {uuid!r} in this session")
    everywhere = [*memory.messages, *(m for msgs in memory.get_offload_context().values() for m in msgs)]
    after = list({m.id: m for m in everywhere if m.origin is not None and m.origin.uuid == handle}.values())
    screen.heading(f"compression {handle}")
    screen.line(f"{len(before)} messages, {memory.count(before):,} tokens, gave way to {memory.count(after):,} tokens")
    old, new = (("\n".join(map(transcript, msgs))).splitlines() for msgs in (before, after))
    for line in difflib.unified_diff(old, new, "before", "after", lineterm="", n=2):
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        screen.line((harmless(line), style))
