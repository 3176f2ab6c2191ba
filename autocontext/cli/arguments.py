"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import re

from autocontext import AutoContextConfig, AutoContextError


def add_window(parser: argparse.ArgumentParser) -> None:
    """Declare --window."""
    parser.add_argument(
        "--window",
        type=_window,
        default=16_000,
        metavar="N",
        help="tokens of the model's context window, e.g. 8000 or 32k (default: 16000)",
    )


def _window(text: str) -> int:
    match = re.fullmatch(r"(\d[\d_,]*)(k?)", text.strip().lower())
    if match is None or len(text) > 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens; write 16000 or 16k")
    tokens = int(re.sub("[_,]", "", match[1])) * (1000 if match[2] else 1)
    try:
        AutoContextConfig.for_window(tokens)
    except AutoContextError as e:
        raise argparse.ArgumentTypeError(str(e).partition(": ")[2]) from None
    return tokens


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or len(text) > 20 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)
