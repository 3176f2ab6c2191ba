"""`autocontext report`: one self-contained HTML page about a stored session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autocontext import AutoContextError
from autocontext.cli import stored
from autocontext.cli.history import History
from autocontext.cli.report_data import data
from autocontext.cli.report_page import written
from autocontext.cli.screen import Screen


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report", parents=[parent], help="one HTML page about a stored session",
        description="Writes one self-contained page: how large the context was over time, what each compression "
        "replaced and by what, what it cost, and every message with the way back to it.",
    )  # fmt: skip
    stored.add_database(parser)
    parser.add_argument("session", metavar="SESSION")
    stored.add_user(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: report.html")
    parser.add_argument("--window", type=int, metavar="N", help="tokens of the model's window, drawn as a line")
    parser.set_defaults(command=run, name="report")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Write the page."""
    if arguments.window is not None and arguments.window < 1:
        raise AutoContextError(f"--window is {arguments.window}; it is a number of tokens, at least 1")
    with stored.opened(arguments.db) as store:
        screen.progress("reading the session")
        info = stored.known(store, arguments.user, arguments.session)
        counter = stored.memory_of(store, info).counter
        screen.progress("following its log")
        history = History(store.read(info.key), counter)
    screen.progress("writing the page")
    page = written(data(history, info.key, arguments.db, counter, window=arguments.window))
    Path(arguments.output).write_text(page, encoding="utf-8")
    screen.done()
    figures = (
        f"{len(history.log.original):,} messages, {len(history.passes):,} compressions, {len(page.encode()):,} bytes"
    )
    screen.line(f"{arguments.output}: {figures}")
    return True
