"""`autocontext replay FILE.jsonl`: `demo` for your own conversations."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator, Sequence

from autocontext import AutoContextConfig, ChatModel
from autocontext.cli import conversations, figures
from autocontext.cli.arguments import Commands, add_window, positive
from autocontext.cli.conversations import Conversation
from autocontext.cli.layout import Column, printable
from autocontext.cli.replay_run import ModelCall, ReplayResult, Watcher, replay
from autocontext.cli.screen import Screen
from autocontext.errors import ConfigError, InvalidMessage
from autocontext.models import DashScopeChatModel, OpenAIChatModel
from autocontext.models.opening import service_of, unknown_model

_REPORTED = 50
"""Broken lines to report one by one; the rest are counted."""

_ABOUT = """\
Replays conversations in OpenAI chat form, one per line: a list of messages, or
{"messages": [...], "id": "optional"}. Before each assistant message it asks the
memory for the context, as an agent would, and counts and checks it. Lines that
cannot be read are reported and skipped. With a database it replays the originals
of one session.

examples:
  autocontext replay chats.jsonl --window 8k --model gpt-4.1-mini
  autocontext replay agent.db 42
"""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "replay", run, "the same for your own conversations", _ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    conversations.add_source(parser)
    parser.add_argument(
        "--model",
        default="extractive",
        metavar="MODEL",
        help="writes the notes: a model of OpenAI or DashScope, e.g. gpt-4.1-mini or qwen-plus, openai:NAME for one of "
        "another name, or extractive (default: rules, no network)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="replay only the first N conversations")
    add_window(parser)


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Replay every conversation of a file; False if a line could not be read, a check failed or one came broken.

    Raises OSError for an unreadable file, InvalidMessage for an empty one, ConfigError for a wrong model.
    """
    replays = _Replays(screen, arguments, open_model(arguments.model))
    try:
        replays.all(arguments.limit)
    except KeyboardInterrupt:
        screen.done()
        if replays.results:
            replays.show("interrupted; so far")
        raise
    if not replays.results and not replays.problems:
        raise InvalidMessage(f"{arguments.source}: contains no conversation")
    if replays.results:
        replays.show("conversations")
    return replays.finish()


def open_model(spec: str) -> OpenAIChatModel | DashScopeChatModel | None:
    """The model of a `--model` argument; None for the built-in summariser.

    A name is that of a model as `AutoContextMemory.open(model=...)` takes it, and chooses the same token counter.
    Raises ConfigError for a wrong name or a missing key, MissingExtraError without the SDK.
    """
    if spec == "extractive":
        return None
    service, _, name = spec.partition(":")
    if service not in ("openai", "dashscope"):
        service, name = service_of(spec), spec
    if service == "openai" and name:
        return OpenAIChatModel(name)
    if service == "dashscope" and name:
        return DashScopeChatModel(name)
    way_out = "write openai:NAME, dashscope:NAME or extractive"
    raise ConfigError(f"--model {spec}: {unknown_model(name, way_out) if name else way_out}")


class _Replays:
    """The replays of a file."""

    def __init__(self, screen: Screen, arguments: argparse.Namespace, model: ChatModel | None) -> None:
        self.screen, self.window, self.model = screen, arguments.window, model
        self.conversations = conversations.read_source(arguments, self._problem)
        self.name = self.conversations.name
        self.config = AutoContextConfig.for_window(self.window)
        self.results: list[ReplayResult] = []
        self.problems = 0

    def all(self, limit: int | None) -> None:
        """Replay one conversation after another; an error in one does not stop the rest."""
        remaining = sys.maxsize if limit is None else limit
        for item in self.conversations:
            try:
                self.results.append(replay(item, self.config, self.model, self._watch(item)))
            except OSError:  # of the output; the memory handles a model's errors
                raise
            except Exception as e:  # noqa: BLE001 (one failing conversation must not stop the others)
                self._problem(f"{self.conversations.at(item.line)}: could not be replayed: {type(e).__name__}: {e}")
                if self.screen.debug:
                    traceback.print_exc()
            remaining -= 1
            if not remaining:
                break
        self.screen.done()

    def _problem(self, text: str) -> None:
        self.problems += 1
        if self.problems <= _REPORTED:
            self.screen.complain(text)

    def _watch(self, conversation: Conversation) -> Watcher:
        total = len(conversation.messages)

        def watch(turn: ModelCall, done: int) -> None:
            self.screen.progress(
                f"line {conversation.line} · {conversation.title[:30]} · message {done} of {total} · "
                f"context {turn.sent:,} · without {turn.full:,}",
                done / total,
            )

        return watch

    def show(self, title: str) -> None:
        """Show one row per conversation and a total, then what `demo` shows, for all of them."""
        screen, results = self.screen, self.results
        screen.heading(f"{printable(self.name)}: {title}")
        rows = [_row(r.title, [r]) for r in results]
        screen.table(_COLUMNS, [*rows, _row(f"{len(results):,} in all", results)], total=True)
        for r in results:
            for problem in _problems(r):
                screen.complain(f"{self.conversations.at(r.line)}: {problem}")
        figures.show_results(screen, results, self.window)

    def finish(self) -> bool:
        """Report skipped lines and failed questions; False if a line, a check or every question to the model failed."""
        if self.problems:
            more = "" if self.problems <= _REPORTED else f" ({self.problems - _REPORTED:,} of them not listed)"
            self.screen.complain(
                f"{self.name}: {self.problems:,} line{'s' if self.problems > 1 else ''} left out{more}, "
                f"{len(self.results):,} conversation{'s' if len(self.results) != 1 else ''} replayed"
            )
        told = [r.health for r in self.results]
        answered, failed = sum(h.answered for h in told), sum(h.failed for h in told)
        if failed:
            last = next(h for h in reversed(told) if h.failed)
            self.screen.complain(
                f"{last.model} failed in {failed:,} of {answered + failed:,} questions; the last: {last.last_failure}"
            )
        model_failed = failed > 0 and not answered
        broken = any(r.came_broken for r in self.results)
        return not self.problems and not model_failed and not broken and all(r.passed for r in self.results)


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


def _row(title: str, results: Sequence[ReplayResult]) -> list[str]:
    """The figures of one conversation, or of several together."""
    calls, full = sum(len(r.calls) for r in results), sum(r.tokens for r in results)
    sent, without = sum(r.sent for r in results), sum(r.sent_without for r in results)
    share = f"{sent / without:.0%}" if without else "-"
    largest = max(r.largest for r in results)
    numbers = (f"{sum(r.messages for r in results):,}", f"{calls:,}", f"{full:,}", f"{largest:,}")
    broken = any(r.came_broken for r in results)
    verdict = "✗" if not all(r.passed for r in results) else "was broken" if broken else "✓"
    return [printable(title), *numbers, share, f"{sum(r.intact for r in results):,}", verdict]


def _problems(r: ReplayResult) -> Iterator[str]:
    """What failed, in words."""
    if r.over:
        yield f"{r.over} of {len(r.calls)} contexts over the window: {r.why_over}"
    if r.invalid:
        yield f"{len(r.invalid)} of {len(r.calls)} contexts invalid: {r.invalid[0]}"
    if r.came_broken:
        yield (
            f"{len(r.came_broken)} of {len(r.calls)} contexts invalid, because the conversation itself is: "
            f"{r.came_broken[0]}; strict services refuse it"
        )
    if r.intact < r.messages or r.reachable < r.messages:
        yield f"of {r.messages} messages, {r.intact} are intact and {r.reachable} reachable from the view"
    if not all(item.identical for item in r.reloaded):
        yield "a reloaded item differs from what was added"
