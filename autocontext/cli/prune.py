"""`autocontext prune`: shows what pruning would remove from conversations, and changes nothing."""

from __future__ import annotations

import argparse
from functools import partial

from autocontext.cli.arguments import Commands
from autocontext.cli.conversations import add_source, read_source
from autocontext.cli.layout import Column, printable
from autocontext.cli.screen import Screen
from autocontext.content import PrunePolicy, SqliteContentStore, prune_messages, restore_messages
from autocontext.content.pruning import reloaded, unmarked


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "prune", run, "show what pruning would remove from your conversations",
        "Replaces large old texts of each conversation by handles, in memory only, restores them, and "
        "compares. Needs no model. Example: autocontext prune agent.db 42 --keep-last 8",
    )  # fmt: skip
    add_source(parser)
    parser.add_argument(
        "--keep-last", type=int, default=4, metavar="N", help="newest messages to keep whole (default: 4)"
    )


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Show one row per conversation; False if a line could not be read or a text was not restored exactly."""
    policy, rows, restored = PrunePolicy(keep_last=arguments.keep_last), [], True
    before = after = 0
    conversations = read_source(arguments, screen.complain)
    for item in conversations:
        screen.progress(f"{item.title}")
        store = SqliteContentStore(":memory:")
        messages = unmarked(item.messages)  # the rest of what `call_tool` has cut is not in this store
        result = prune_messages(messages, store=store, policy=policy)
        page = partial(next, reloaded(messages, result.messages))  # of messages that this store does not have
        whole = restore_messages(result.messages, store=store, reload=lambda *_, page=page, **__: page()) == messages
        store.close()
        restored = restored and whole
        before, after = before + result.chars_before, after + result.chars_after
        sizes = [f"{n:,}" for n in (len(item.messages), result.chars_before, result.chars_after)]
        rows.append([printable(item.title), *sizes, f"{result.reduction:.1%}", "yes" if whole else "NO"])
    screen.done()
    if not rows:
        screen.text("No conversation to prune.")
        return not conversations.broken
    share = f"{1 - after / before:.1%}" if before else "0.0%"
    rows.append([f"{len(rows)} in all", "", f"{before:,}", f"{after:,}", share, "yes" if restored else "NO"])
    columns = [Column("conversation", right=False), Column("messages", optional=True), Column("characters")]
    screen.table([*columns, Column("after"), Column("less"), Column("all restored")], rows, total=True)
    return restored and not conversations.broken
