"""`autocontext replay FILE.jsonl`: the same for conversations of your own."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from autocontext import AutoContextConfig
from autocontext.cli import conversations, models, show
from autocontext.cli.arguments import add_window, positive
from autocontext.cli.conversations import Conversation
from autocontext.cli.layout import Column, harmless
from autocontext.cli.lines import BrokenLine
from autocontext.cli.models import Meter
from autocontext.cli.proof import Reloaded
from autocontext.cli.running import Replayed, Turn, Watcher, replay
from autocontext.cli.screen import Screen
from autocontext.errors import InvalidMessage

_NAMED = 50
"""Broken lines that are named one by one; of a file that is something else altogether the rest is counted."""


_ABOUT = """\
Replays conversations in OpenAI chat form, one JSON object per line: {"messages": [...]}, with an "id" if you like, or
a bare list of messages. Before each assistant message the memory is asked for the context, as an agent would; it is
counted and checked. Lines that cannot be read are named and left out.
"""


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "replay", parents=[parent], help="the same for conversations of your own", description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(command=run, name="replay")
    parser.add_argument("file", metavar="FILE.jsonl", help="one conversation per line; - reads standard input")
    parser.add_argument(
        "--model",
        default="extractive",
        metavar="MODEL",
        help="who writes the notes: openai:NAME, dashscope:NAME, or extractive (default: no model, no network)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N conversations")
    add_window(parser)


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Replay every conversation of a file; whether all could be read and everything held.

    Raises OSError for a file that cannot be read, InvalidMessage for one that holds nothing, ConfigError for a model.
    """
    meter = models.chosen(arguments.model)
    work = _Replays(screen, arguments.file, arguments.window, meter)
    items = conversations.read(arguments.file)
    try:
        work.all(items, arguments.limit)
    except KeyboardInterrupt:
        screen.done()
        if work.results:
            work.show("interrupted; so far")
        raise
    if not work.results and not work.problems:
        raise InvalidMessage(f"{arguments.file}: holds no conversation")
    if work.results:
        work.show("conversations")
    return work.finish()


class _Replays:
    """The replays of one file."""

    def __init__(self, screen: Screen, path: str, window: int, meter: Meter | None) -> None:
        self.screen, self.path, self.window, self.meter = screen, path, window, meter
        self.name = "stdin" if path == "-" else path
        self.config = AutoContextConfig.for_window(window)
        self.results: list[Replayed] = []
        self.problems = 0

    def all(self, items: Iterator[Conversation | BrokenLine], limit: int | None) -> None:
        """Replay one conversation after the other; what is wrong with one does not stop the rest."""
        left = sys.maxsize if limit is None else limit
        for item in items:
            if isinstance(item, BrokenLine):
                self._problem(item.line, item.reason)
                continue
            try:
                self.results.append(replay(item, self.config, self.meter, self._watch(item)))
            except OSError:  # of the output; a model's are answered for by the memory
                raise
            except Exception as e:  # noqa: BLE001 (a conversation that breaks something must not cost the others)
                self._problem(item.line, f"could not be replayed: {type(e).__name__}: {e}")
                if self.screen.debug:
                    traceback.print_exc()
            left -= 1
            if not left:
                break
        self.screen.done()

    def _problem(self, line: int, reason: str) -> None:
        self.problems += 1
        if self.problems <= _NAMED:
            self.screen.complain(f"{self.name}:{line}: {reason}")

    def _watch(self, conversation: Conversation) -> Watcher:
        total = len(conversation.messages)

        def watch(turn: Turn, done: int) -> None:
            self.screen.progress(
                f"line {conversation.line} · {conversation.title[:30]} · message {done} of {total} · "
                f"context {turn.sent:,} · without {turn.full:,}",
                done / total,
            )

        return watch

    def show(self, title: str) -> None:
        """One row per conversation and their total, then what `demo` shows, over all of them."""
        screen, results = self.screen, self.results
        screen.heading(f"{harmless(self.name)}: {title}")
        screen.table(_COLUMNS, [*map(_row, results), _total(results)], total=True)
        for r in results:
            for problem in _problems(r):
                screen.complain(f"{self.name}:{r.line}: {problem}")
        screen.heading("what was compressed")
        show.strategies(screen, results)
        longest = max(results, key=lambda r: r.tokens)
        if longest.turns:
            screen.heading(f"tokens in the context at each model call: {harmless(longest.title)[:30]}")
            show.context_plot(screen, longest, self.window)
        items = [item for r in results for item in r.reloaded]
        if items:
            good = sum(i.identical for i in items)
            screen.heading(f"reloaded and compared with what was added: {good:,} of {len(items):,} items identical")
            show.reloads(screen, _worth_showing(items))
        screen.heading("the numbers that matter")
        show.numbers(screen, show.figures(results, self.window, self.meter))

    def finish(self) -> bool:
        """Say what was left out and what the model failed at; whether everything went well."""
        if self.problems:
            more = "" if self.problems <= _NAMED else f" ({self.problems - _NAMED:,} of them not named)"
            self.screen.complain(
                f"{self.name}: {self.problems:,} line{'s' if self.problems > 1 else ''} left out{more}, "
                f"{len(self.results):,} conversation{'s' if len(self.results) != 1 else ''} replayed"
            )
        useless = self.meter is not None and self.meter.calls > 0 and self.meter.failures == self.meter.calls
        if self.meter is not None and self.meter.failures:
            self.screen.complain(
                f"{self.meter.model} failed at {self.meter.failures:,} of {self.meter.calls:,} calls; the last: "
                f"{self.meter.last_failure}"
            )
        return not self.problems and not useless and all(r.held for r in self.results)


_COLUMNS = (
    Column("conversation", right=False),
    Column("messages", optional=True),
    Column("calls", optional=True),
    Column("tokens"),
    Column("largest"),
    Column("sent", optional=True),
    Column("intact", optional=True),
    Column("", right=False),
)


def _row(r: Replayed) -> list[str]:
    numbers = (f"{r.messages:,}", f"{len(r.turns):,}", f"{r.tokens:,}", f"{r.largest:,}")
    held = ("✓" if r.held else "✗") if not r.came_broken else "came broken" if r.held else "✗"
    return [harmless(r.title), *numbers, _share(r.sent, r.sent_without), f"{r.intact:,}", held]


def _total(results: Sequence[Replayed]) -> list[str]:
    calls, full = sum(len(r.turns) for r in results), sum(r.tokens for r in results)
    share = _share(sum(r.sent for r in results), sum(r.sent_without for r in results))
    numbers = (
        f"{sum(r.messages for r in results):,}",
        f"{calls:,}",
        f"{full:,}",
        f"{max(r.largest for r in results):,}",
    )
    held = "✓" if all(r.held for r in results) else "✗"
    return [f"{len(results):,} in all", *numbers, share, f"{sum(r.intact for r in results):,}", held]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _problems(r: Replayed) -> Iterator[str]:
    """What did not hold, in words."""
    if r.over:
        yield f"{r.over} of {len(r.turns)} contexts over the window: {r.why_over}"
    if r.invalid:
        yield f"{r.invalid} of {len(r.turns)} contexts invalid: {r.why_invalid}"
    if r.intact < r.messages or r.reachable < r.messages:
        yield f"of {r.messages} messages {r.intact} are intact and {r.reachable} can be found from the view"
    if not all(item.identical for item in r.reloaded):
        yield "a reloaded item differs from what was added"


def _worth_showing(items: Sequence[Reloaded]) -> list[Reloaded]:
    """Three of them: what differs first, then the largest."""
    return sorted(items, key=lambda i: (i.identical, -i.characters))[:3]
