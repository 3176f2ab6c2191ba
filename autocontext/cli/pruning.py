"""`autocontext prune`: what pruning would make of conversations of one's own; nothing is changed."""

from __future__ import annotations

import argparse
from typing import Any

from autocontext.cli.conversations import read
from autocontext.cli.layout import Column, harmless
from autocontext.cli.lines import BrokenLine
from autocontext.cli.screen import Screen
from autocontext.content import PrunePolicy, SqliteContentStore, prune_messages, restore_messages


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "prune", parents=[parent], help="what pruning without a model makes of your conversations",
        description="Replaces large old texts of each conversation by handles, in memory only, and compares.",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE.jsonl", help="one conversation per line; - reads standard input")
    parser.add_argument("--keep-last", type=int, default=4, metavar="N", help="messages kept whole (default: 4)")
    parser.set_defaults(command=run, name="prune")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """One row per conversation; false when a line could not be read or a text did not come back as it was."""
    policy, rows, held = PrunePolicy(keep_last=arguments.keep_last), [], True
    before = after = 0
    for item in read(arguments.file):
        if isinstance(item, BrokenLine):
            screen.complain(f"{arguments.file}:{item.line}: {item.reason}")
            held = False
            continue
        screen.progress(f"{item.title}")
        store = SqliteContentStore(":memory:")
        result = prune_messages(item.messages, store=store, policy=policy)
        whole = restore_messages(result.messages, store=store) == item.messages
        store.close()
        held = held and whole
        before, after = before + result.chars_before, after + result.chars_after
        sizes = [f"{n:,}" for n in (len(item.messages), result.chars_before, result.chars_after)]
        rows.append([harmless(item.title), *sizes, f"{result.reduction:.1%}", "yes" if whole else "NO"])
    screen.done()
    if not rows:
        screen.text("There was no conversation to prune.")
        return held
    share = f"{1 - after / before:.1%}" if before else "0.0%"
    rows.append([f"{len(rows)} in all", "", f"{before:,}", f"{after:,}", share, "yes" if held else "NO"])
    columns = [Column("conversation", right=False), Column("messages", optional=True), Column("characters")]
    screen.table([*columns, Column("after"), Column("less"), Column("all restored")], rows, total=True)
    return held
