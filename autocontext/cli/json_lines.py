"""Reads files of JSON lines; a broken line does not stop the rest."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from autocontext.errors import InvalidMessage

T = TypeVar("T")


@dataclass(frozen=True)
class BrokenLine:
    """A line that cannot be read, and why."""

    line: int
    reason: str


def read(path: str, parse: Callable[[Any, int], T]) -> Iterator[T | BrokenLine]:
    """Parse each line's value and number ("-": standard input), skipping blank lines.

    `parse` raises InvalidMessage for a wrong value. Raises OSError if the file cannot be read.
    """
    if path == "-":
        yield from read_lines(sys.stdin.buffer, parse)
    else:
        with open(path, "rb") as file:  # noqa: PTH123 (so that an OSError names this path)
            yield from read_lines(file, parse)


def read_lines(file: BinaryIO, parse: Callable[[Any, int], T]) -> Iterator[T | BrokenLine]:
    """`read` for an open file."""
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
        if line:
            try:
                yield parse(json.loads(line.decode("utf-8")), number)
            except InvalidMessage as e:
                yield BrokenLine(number, str(e))
            except UnicodeDecodeError as e:
                yield BrokenLine(number, f"not UTF-8: byte {e.start + 1} is 0x{line[e.start]:02x}")
            except json.JSONDecodeError as e:
                yield BrokenLine(number, f"not JSON: {e.msg} at character {e.colno}")
            except (ValueError, RecursionError) as e:  # numbers of thousands of digits, thousands of nested lists
                yield BrokenLine(number, f"not readable as JSON: {e}")
