"""`autocontext demo`: the main job on real input, in a few seconds, without network and key."""

from __future__ import annotations

import argparse
import time
from typing import Any

from autocontext import AutoContextConfig
from autocontext.cli import conversations, show
from autocontext.cli.arguments import add_window
from autocontext.cli.running import Turn, replay
from autocontext.cli.screen import Screen
from autocontext.cli.show import Figure


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        parents=[parent],
        help="a real 899-message coding conversation in a small window",
        description="Replays a real coding-agent conversation of 899 messages, shipped with this package: offline, "
        "no key. Shows what was compressed, how large the context was, and that nothing was lost.",
    )
    parser.set_defaults(command=run, name="demo")
    add_window(parser)


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Replay the shipped conversation and show what became of it; whether everything held."""
    started = time.perf_counter()
    window: int = arguments.window
    conversation = conversations.shipped()
    total = len(conversation.messages)
    what = f"{total} messages of a real coding session, window {window:,} tokens"
    screen.aside(("autocontext demo: ", "bold"), beside=what)
    screen.text(
        "Before each reply of the agent the memory is asked for the context, as the agent would. Notes are written "
        "by rules: no model, no network, no key. (Session of the agent pi, MIT, © 2025 Mario Zechner)"
    )

    screen.flush()

    def watch(turn: Turn, done: int) -> None:
        screen.progress(
            f"message {done:>3} of {total} · context {turn.sent:>6,} · without {turn.full:>7,}", done / total
        )

    result = replay(conversation, AutoContextConfig.for_window(window), None, watch)
    screen.done()

    screen.heading("what was compressed")
    show.strategies(screen, [result])
    screen.heading(f"tokens in the context at each of {len(result.turns)} model calls")
    show.context_plot(screen, result, window)
    if result.reloaded:
        screen.heading("reloaded, and compared with what was added (sha256)")
        show.reloads(screen, result.reloaded)
    screen.heading("the numbers that matter")
    figures = list(show.figures([result], window, None))
    show.numbers(screen, [*figures, Figure("all of it took", f"{time.perf_counter() - started:.1f}", "seconds")])
    screen.line()
    screen.aside(("Your own conversations: ", ""), beside="autocontext replay FILE.jsonl")
    return result.held
