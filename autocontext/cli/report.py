"""`autocontext report`: writes a self-contained HTML page about a stored session."""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from autocontext.cli import figures, stored
from autocontext.cli.arguments import Commands, window_size
from autocontext.cli.report_data import data, script_json
from autocontext.cli.screen import Screen
from autocontext.cli.session_history import SessionHistory
from autocontext.redaction import redact_secrets
from autocontext.stores.private_files import write_private


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "report", run, "write an HTML page about a stored session",
        "Writes a self-contained page: the size of the context over time, what each compression replaced "
        "and by what, what it cost, and every message. Example: autocontext report agent.db 42 --user ann -o page.html",
    )  # fmt: skip
    stored.add_database(parser)
    parser.add_argument("session", metavar="SESSION", help="the session's id")
    stored.add_user(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="the page to write (default: report.html)"
    )
    parser.add_argument(
        "--window", type=window_size, metavar="N", help="tokens of the model's window, drawn as a line, e.g. 16k"
    )
    parser.add_argument("--secrets", action="store_true", help="keys and passwords as they are, not as [redacted]")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Write the page."""
    with stored.open_sessions(arguments.db) as store:
        screen.progress("reading the session")
        info = stored.session_info(store, arguments.user, arguments.session)
        counter = stored.open_memory(store, info).counter
        screen.progress("replaying its log")
        history = SessionHistory(store.read(info.key), counter)
    screen.progress("writing the page")
    redact = str if arguments.secrets else redact_secrets
    values = data(history, info.key, arguments.db, counter, window=arguments.window, redact=redact)
    page = render_page(values)
    write_private(arguments.output, page)
    screen.done()
    written = (
        f"{len(history.log.original):,} messages, {len(history.passes):,} compressions, {len(page.encode()):,} bytes"
    )
    if failed := values["fallbacks"]:
        screen.line(f"The summarising model failed: {failed:,} notes are written by rules alone.")
    screen.line(f"{arguments.output}: {written}")
    figures.show_repeats(screen, history.repeats)
    return True


def render_page(values: Mapping[str, Any]) -> str:
    """Fill the data, the style and the script into `data/report.html`.

    Nothing in the data can end the script element, the script shows every text as a text node, and the page's
    Content-Security-Policy blocks other scripts and all loading.
    """
    folder = resources.files("autocontext.cli").joinpath("data")
    template, css, js = (folder.joinpath(f"report.{end}").read_text("utf-8") for end in ("html", "css", "js"))
    parts = {
        "title": html.escape(f"autocontext: session {values['session']}".encode("utf-8", "replace").decode()),
        "css": css,
        "css_hash": _hash(css),
        "js": js,
        "js_hash": _hash(js),
        "data": script_json(values),
    }
    # In one pass, so that placeholders in the data are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
