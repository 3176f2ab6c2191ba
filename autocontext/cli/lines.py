"""Files of JSON lines, one line at a time: one that cannot be read does not hide the others."""

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
    """A line that could not be read, and why."""

    line: int
    reason: str


def read(path: str, parse: Callable[[Any, int], T]) -> Iterator[T | BrokenLine]:
    """What `parse` makes of each line's value and number ("-": of standard input); blank lines are passed over.

    `parse` raises InvalidMessage for a value that is none of its kind. Raises OSError when the file cannot be read.
    """
    if path == "-":
        yield from read_lines(sys.stdin.buffer, parse)
    else:
        with open(path, "rb") as file:  # noqa: PTH123 (an OSError then names the path as it was given)
            yield from read_lines(file, parse)


def read_lines(file: BinaryIO, parse: Callable[[Any, int], T]) -> Iterator[T | BrokenLine]:
    """The same from an open file."""
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
