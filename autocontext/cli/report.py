"""`autocontext report`: writes a self-contained HTML page about a stored session."""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate
from typing import Any

from autocontext import Msg, ToolResultBlock, ToolUseBlock, __version__
from autocontext.cli import figures, stored
from autocontext.cli.arguments import Commands, window_size
from autocontext.cli.screen import Screen
from autocontext.cli.session_history import KINDS, Pass, Point, SessionHistory, holders, kind_of, tool_sizes
from autocontext.history.runs import Runs
from autocontext.redaction import redact_secrets
from autocontext.stores import SessionKey
from autocontext.stores.private_files import write_private
from autocontext.text import rendering
from autocontext.tokens import TokenCounter

_NAMES = ("system", "user", "assistant", "tool calls", "tool results", "notes")
"""Labels of KINDS."""
_CAPS = (20_000, 10_000, 6_000, 4_000, 2_500, 1_500, 1_000, 600, 400, 250, 150, 80)
"""Lengths to cut texts at; the largest that keeps the page within its size is used."""
_ROOM = 1_400_000
"""Bytes of text in a page of up to 1,000 messages."""
_ROOM_PER_MESSAGE = 700
"""Additional bytes for each message above that."""
_POINTS = 2_500
"""Approximate number of plotted calls; no screen shows more."""
_IN_VIEW, _REMOVED = -1, -2
"""Where an original is, if not behind a note."""
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def data(
    history: SessionHistory,
    key: SessionKey,
    db: str,
    counter: TokenCounter,
    *,
    window: int | None = None,
    redact: Callable[[str], str] = redact_secrets,
) -> dict[str, Any]:
    """The data of the page's script; sizes in tokens, messages by their number, the originals first.

    `redact` applies to all texts of messages: pages are sent around.
    """
    log = history.log
    originals = list(log.original)
    notes = [id_ for id_ in history.messages if id_ not in log.place]
    number = {id_: i for i, id_ in enumerate((*originals, *notes))}
    messages = [_message(history.messages[id_], history.tokens_of(id_), redact) for id_ in number]
    cap, cut = _fit(messages, _ROOM + _ROOM_PER_MESSAGE * max(0, len(originals) - 1000))
    behind, in_view = holders(log), set(log.view_ids)
    states = [_IN_VIEW if id_ in in_view else number[behind[id_]] if id_ in behind else _REMOVED for id_ in originals]
    return {
        "session": key.session_id,
        "user": key.user_id,
        "db": _without_password(db),
        "version": __version__,
        "made": time.time_ns() // 1_000_000,
        "counter": counter.name,
        "exact": counter.exact,
        "window": window,
        "size": history.size,
        "full": history.full,
        "sent": vars(history.sent),
        "without": vars(history.without),
        "kinds": KINDS,
        "kind_names": _NAMES,
        "parts": history.parts,
        "tools": list(tool_sizes(log, counter).items()),
        "calls": _thinned(history.calls),
        "passes": [_pass(history, p, number) for p in history.passes],
        "originals": len(originals),
        "fallbacks": sum(m.origin is not None and m.origin.fallback for m in history.messages.values()),
        "repeats": history.repeats.model_dump(),
        "messages": messages,
        "states": states,
        "view": [number[id_] for id_ in log.view_ids],
        "cap": cap,
        "cut": cut,
    }


def _without_password(db: str) -> str:
    """The database for commands to copy: a URL without its password."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1@", re.sub(r"(?<=[?&])(ssl)?password=[^&]*&?", "", db))


def _message(msg: Msg, tokens: int, redact: Callable[[str], str]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "role": msg.role,
        "kind": kind_of(msg),
        "tokens": tokens,
        "time": msg.timestamp[:19].replace("T", " "),
        "blocks": [[kind, tool, redact(text)] for kind, tool, text in map(_block, msg.content)],
    }
    if msg.origin is not None:
        record |= {"made": figures.origin_name(msg.origin.kind), "uuid": msg.origin.uuid}
    return record


def _block(block: Any) -> tuple[str, str, str]:
    """Type, tool and text of a block."""
    if isinstance(block, ToolUseBlock):
        return "call", block.name, rendering.arguments(block)
    if isinstance(block, ToolResultBlock):
        return "error" if block.is_error else "result", block.name, block.text
    if block.type == "text":
        return "text", "", block.text
    return ("thinking", "", block.thinking) if block.type == "thinking" else ("media", block.type, "")


def _fit(messages: Sequence[dict[str, Any]], room: int) -> tuple[int, int]:
    """Cut texts to about `room` bytes in total; returns the maximum length and the number of texts cut."""
    blocks = [block for m in messages for block in m["blocks"]]
    cap = next((cap for cap in _CAPS if _within(blocks, cap, room)), _CAPS[-1])
    long = [block for block in blocks if len(block[2]) > cap]
    for block in long:
        block.append(len(block[2]))
        block[2] = block[2][: rendering.cut(block[2], cap)]
    return cap, len(long)


def _within(blocks: Iterable[list[Any]], cap: int, room: int) -> bool:
    """Whether the texts, cut at `cap`, take at most `room` bytes."""
    return all(used <= room for used in accumulate(len(script_json(block[2][:cap]).encode()) for block in blocks))


def _pass(history: SessionHistory, done: Pass, number: Mapping[str, int]) -> dict[str, Any]:
    def ranges(ids: Iterable[str]) -> list[tuple[int, int]]:
        return list(Runs.of(number[id_] for id_ in ids if id_ in number).pairs)

    records = []
    for edit, event in done.edits:
        meta = event.metadata
        records.append(
            {
                "label": re.sub(r"^[\d+] +", "", figures.strategy_name(event.event_type)),
                "uuid": edit.uuid,
                "count": event.compressed_message_count,
                "before": meta.get("tokenBefore", 0),
                "after": meta.get("tokenAfter", 0),
                "model": [meta.get("inputToken", 0), meta.get("outputToken", 0), meta.get("time", 0.0)],
                "removed": ranges(edit.ids),
                "added": ranges(m.id for m in edit.messages),
                "reload": ranges(history.originals_behind(edit.uuid)),
            }
        )
    return {
        "at": done.at,
        "time": done.edits[0][1].timestamp if done.edits else 0,
        "before": done.before,
        "after": done.after,
        "messages": [done.messages_before, done.messages_after],
        "kept": done.kept,
        "receipt": done.receipt,
        "edits": records,
    }


def _thinned(calls: Sequence[Point]) -> list[Point]:
    """The calls to plot: all, or a sample, the largest of each stretch and those around each drop."""
    step, last = len(calls) // _POINTS + 1, len(calls) - 1
    return [
        p for i, p in enumerate(calls)
        if i % step == 0 or i == last or p[1] > calls[i + 1][1] or (i and calls[i - 1][1] > p[1])
    ]  # fmt: skip


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element: characters with a meaning in HTML or JavaScript are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


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


def run(screen: Screen, arguments: argparse.Namespace) -> None:
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
