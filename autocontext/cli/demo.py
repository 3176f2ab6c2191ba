"""`autocontext demo`: compresses a real conversation in a few seconds, with no network and no key."""

from __future__ import annotations

import argparse
import time

from autocontext import AutoContextConfig
from autocontext.cli import conversations, figures
from autocontext.cli.arguments import Commands, add_window
from autocontext.cli.figures import Figure
from autocontext.cli.replay_run import ModelCall, replay
from autocontext.cli.screen import Screen


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "demo",
        run,
        "compress a real 899-message coding conversation into a small window",
        "Replays a coding agent's conversation of 899 messages, shipped with this package. Shows what was "
        "compressed, how large the context was, and that nothing was lost. Needs no network and no key.",
    )
    add_window(parser)


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Replay the shipped conversation and show the result; False if a check failed."""
    started = time.perf_counter()
    window: int = arguments.window
    conversation = conversations.shipped()
    total = len(conversation.messages)
    title = f"{total} messages of a real coding session, window {window:,} tokens"
    screen.aside(("autocontext demo: ", "bold"), remark=title)
    screen.text(
        "Before each reply of the agent, the memory returns the context that the agent would send. Rules write the "
        "notes: no model, no network, no key. (Session of the agent pi, MIT, © 2025 Mario Zechner)"
    )

    screen.flush()

    def watch(turn: ModelCall, done: int) -> None:
        screen.progress(
            f"message {done:>3} of {total} · context {turn.sent:>6,} · without {turn.full:>7,}", done / total
        )

    result = replay(conversation, AutoContextConfig.for_window(window), None, watch)
    screen.done()

    figures.show_results(screen, [result], window)
    figures.show_figures(screen, [Figure("all of it took", f"{time.perf_counter() - started:.1f}", "seconds")])
    screen.line()
    screen.aside(("Your own conversations: ", ""), remark="autocontext replay FILE.jsonl")
    return result.passed
