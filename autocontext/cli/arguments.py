"""Arguments that several commands take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from autocontext import AutoContextConfig, AutoContextError
from autocontext.cli.screen import Screen
from autocontext.config import parse_window

Run = Callable[[Screen, argparse.Namespace], bool]
"""Runs a command; False if it did only a part of its work."""


class Commands:
    """The commands of a parser; `parent` has the options that all of them take."""

    def __init__(self, parser: argparse.ArgumentParser, parent: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
        self._parent = parent

    def add(self, name: str, run: Run, summary: str, description: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command that calls `run`; returns its parser."""
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            name, parents=[self._parent], help=summary, description=description, **options
        )
        parser.set_defaults(command=run, name=name)
        return parser


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add --window."""
    parser.add_argument(
        "--window",
        type=_window,
        default=16_000,
        metavar="N",
        help="context window of the model in tokens, e.g. 8000 or 32k (default: 16000)",
    )


def _window(text: str) -> int:
    try:
        tokens = parse_window(text)
        AutoContextConfig.for_window(tokens)
    except AutoContextError as e:
        raise argparse.ArgumentTypeError(str(e).partition(": ")[2]) from None
    return tokens


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or len(text) > 20 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
