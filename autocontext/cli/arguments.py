"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from autocontext import AutoContextConfig, AutoContextError
from autocontext.cli.screen import Screen
from autocontext.config import parse_window
from autocontext.errors import did_you_mean

Run = Callable[[Screen, argparse.Namespace], bool | None]
"""Runs a command; False if it did only a part of its work."""
_NAME = r"[\w-]+"
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


class Parser(argparse.ArgumentParser):
    """Names the nearest command or option for one that does not exist."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, with the usage before it, and exit with 2."""
        wrong, _, choices = message.partition(": invalid choice: ")
        if choices and "choose from " in choices:
            name, _, known = choices.partition(" (choose from ")
            wrong = "no command" if wrong == "argument COMMAND" else f"{wrong}: there is no"
            message = f"{wrong} {name}; {did_you_mean(name.strip(chr(39)), re.findall(_NAME, known))}"
        super().error(message)


class Commands:
    """The commands of a parser; `parent` has the options that all of them take."""

    def __init__(self, parser: argparse.ArgumentParser, parent: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
        self._parent = parent

    def add(self, name: str, run: Run, summary: str, description: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command that calls `run`; returns its parser."""
        parser = self._subparsers.add_parser(
            name, parents=[self._parent], help=summary, description=description, **options
        )
        parser.set_defaults(command=run, name=name)
        return parser

    def refuse(self, name: str, surplus: Sequence[str]) -> NoReturn:
        """Say which of a command's arguments it does not take, and exit with 2."""
        parser = self._subparsers.choices[name]
        option = next((word.partition("=")[0] for word in surplus if word.startswith("-")), "")
        if option:
            known = sorted(set(_OPTION.findall(parser.format_help())))
            parser.error(f"no option {option}; {did_you_mean(option, known)}")
        parser.error(f"too many arguments: {' '.join(surplus)}; quote one that contains blanks")


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add --window."""
    parser.add_argument(
        "--window",
        type=window_size,
        default=16_000,
        metavar="N",
        help="context window of the model in tokens, e.g. 8000 or 32k (default: 16000)",
    )


def window_size(text: str) -> int:
    """Tokens of a window: 8000 or 8k."""
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
