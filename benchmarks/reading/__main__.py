"""The command line: lay readings, note a reader's judgement, tell what all of them say."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import string
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chat import COUNTERS, Chat, Tokens
from replays import conversations, progress, source_of

from .contexts import chosen, context_at
from .draw import Reading, drawn
from .judgements import KEY, key_of, note, noted, table
from .pages import history, html_page, text_page, what_came_next


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=sys.modules[__package__].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    lay_ = commands.add_parser("lay", help="write the pages and their key")
    lay_.add_argument("data", nargs="+", type=Path, help="conversations in OpenAI chat form, one a line")
    lay_.add_argument("--policy", action="append", default=[], metavar="NAME=FILE.py:Class")
    lay_.add_argument("--windows", nargs="+", type=int, default=[4_000, 8_000, 16_000])
    lay_.add_argument("--count", type=int, default=24, help="readings")
    lay_.add_argument("--seed", type=int, default=1)
    lay_.add_argument("--counter", choices=COUNTERS, default="o200k_base")
    lay_.add_argument("--form", choices=("html", "text"), default="html")
    lay_.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    judge_ = commands.add_parser("judge", help="append a reader's JSON line")
    judge_.add_argument("folder", type=Path)
    judge_.add_argument("line", nargs="?", help="the line; without it, lines are read from standard input")
    tell_ = commands.add_parser("tell", help="join the judgements with the key")
    tell_.add_argument("folder", type=Path)
    return parser.parse_args(given)


def lay(asked: argparse.Namespace) -> None:
    """Write a page and the history of each reading, and the key."""
    policies, count, dice = chosen(asked.policy), Tokens(asked.counter), random.Random(asked.seed)
    readings = drawn(list(conversations(asked.data)), asked.windows, asked.count, dice, count)
    asked.to.mkdir(parents=True, exist_ok=True)
    orders = _orders(list(policies), dice)
    key = {}
    for n, reading in enumerate(readings, start=1):
        name = f"{n:02}"
        progress(f"{n} of {len(readings)}")
        letters = dict(zip(string.ascii_uppercase, next(orders), strict=False))
        contexts = {
            letter: context_at(reading.conversation["messages"], reading.place, policies[policy], reading.window, count)
            for letter, policy in letters.items()
        }
        _write(asked.to, name, reading, contexts, asked.form)
        tokens = {letter: count(context) for letter, context in contexts.items()}
        key[name] = {
            "letters": letters, "id": reading.conversation["id"], "window": reading.window, "place": reading.place,
            "tokens": tokens,
        }  # fmt: skip
        count.forget()
    (asked.to / KEY).write_text(json.dumps(key, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    progress("")
    print(f"{len(key)} of {asked.count} readings in {asked.to}; do not open {KEY} before you have judged")


def _orders(names: Sequence[str], dice: random.Random) -> Iterator[tuple[str, ...]]:
    """Orders of the names without end, drawn so that each order comes equally often."""
    orders = list(itertools.permutations(names))
    while True:
        dice.shuffle(orders)
        yield from orders


def _write(folder: Path, name: str, reading: Reading, contexts: Mapping[str, Sequence[Chat]], form: str) -> None:
    """Write a reading's page, and the history before its place."""
    conversation, window, place = reading
    messages = conversation["messages"]
    page, suffix = (html_page, "html") if form == "html" else (text_page, "md")
    title = f"Reading {name}: {source_of(conversation)}, before m{place + 1}, window {window:,}"
    text = page(title, contexts, what_came_next(messages, place))
    (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8", errors="replace")
    (folder / f"{name}.history.txt").write_text(history(messages[:place]), encoding="utf-8", errors="replace")


def main(given: Sequence[str] | None = None) -> None:
    asked = arguments(given)
    try:
        if asked.command == "lay":
            lay(asked)
        elif asked.command == "judge":
            lines = [asked.line] if asked.line else sys.stdin.read().split("\n")
            print(f"{note(asked.folder, lines)} noted")
        else:
            print(table(key_of(asked.folder), noted(asked.folder)))
    except (OSError, ValueError) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
