"""Reads files of JSON lines; a broken line does not stop the rest."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from io import BufferedReader
from typing import Any, BinaryIO, Generic, TypeVar, cast

from autocontext.cli import file_kinds
from autocontext.errors import InvalidMessage

T = TypeVar("T")


class JsonLines(Generic[T]):
    """The values of a file ("-": standard input), parsed. Broken lines go to `report`, as "FILE:LINE: REASON"."""

    def __init__(self, path: str, parse: Callable[[Any, int], T], report: Callable[[str], None]) -> None:
        self.name = "stdin" if path == "-" else path
        self.broken = 0
        """Number of broken lines so far."""
        self._path, self._parse, self._report = path, parse, report

    def at(self, line: int) -> str:
        """Where a line stands, for messages about it."""
        return f"{self.name}:{line}"

    def __iter__(self) -> Iterator[T]:
        """Read line by line.

        Raises OSError if the file cannot be read, and InvalidMessage if it is another kind of file as a whole.
        """
        # `open`, not Path.open: an OSError then names the path as the user wrote it.
        stdin = cast("BufferedReader", sys.stdin.buffer)
        with nullcontext(stdin) if self._path == "-" else open(self._path, "rb") as file:  # noqa: PTH123
            other = file_kinds.not_json_lines(file.peek(file_kinds.HEAD)[: file_kinds.HEAD])
            if other:
                raise InvalidMessage(f"{self.name}: not JSON lines; it looks like {file_kinds.named(other, self.name)}")
            yield from read_lines(file, self._parse, self._broken)

    def _broken(self, line: int, reason: str) -> None:
        self.broken += 1
        self._report(f"{self.at(line)}: {reason}")


def read_lines(file: BinaryIO, parse: Callable[[Any, int], T], broken: Callable[[int, str], None]) -> Iterator[T]:
    """Parse each line's value and number, skipping blank lines; `parse` raises InvalidMessage for a wrong value.

    The number of a line that cannot be read goes to `broken`, with the reason.
    """
    for number, raw in enumerate(file, 1):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
        if not line:
            continue
        try:
            value = parse(json.loads(line.decode("utf-8")), number)
        except InvalidMessage as e:
            broken(number, str(e))
        except UnicodeDecodeError as e:
            broken(number, f"not UTF-8: byte {e.start + 1} is 0x{line[e.start]:02x}")
        except json.JSONDecodeError as e:
            broken(number, f"not JSON: {e.msg} at character {e.colno}")
        except (ValueError, RecursionError) as e:  # numbers of thousands of digits, thousands of nested lists
            broken(number, f"not readable as JSON: {e}")
        else:
            yield value
