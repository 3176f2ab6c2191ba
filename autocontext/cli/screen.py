"""Output: in colour on a terminal if rich is installed, otherwise as plain text.

A line is a tuple of (text, style) pieces with the styles of rich ("bold", "green", ...); plain text ignores styles.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO, TypeAlias

from autocontext.cli.layout import Column, cells, fitted, printable
from autocontext.cli.streams import escaped, terminal_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


class Interrupts:
    """Notes each SIGINT while a command runs, besides raising KeyboardInterrupt, so that no Ctrl-C is lost.

    Python raises KeyboardInterrupt wherever the main thread is. In a destructor it is printed and ignored; in a
    callback of pydantic's C code it becomes another error, or is ignored too.
    """

    came = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """While this lasts, an interrupt is noted; other handlers than Python's own are left alone."""
        in_main = threading.current_thread() is threading.main_thread()
        ours = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (a handler's signature)
        self.came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if one came and the command went on all the same."""
        if self.came:
            raise KeyboardInterrupt


Line: TypeAlias = tuple[tuple[str, str], ...]
Redraw: TypeAlias = Callable[[Callable[[], None]], None]
"""Calls a function that writes to the screen; its output replaces that of the previous call."""

_NARROWEST, _WIDEST = 40, 100
_LEAST_LINES = 12
_NON_ASCII = "░█▁…─┄┤✓✗·"
"""If a stream cannot encode these, the output is ASCII."""
_ASCII = {"…": "...", "·": "-", "✓": "ok", "✗": "NO", "─": "-", "©": "(c)"}


class Screen:
    """Plain text on stdout; progress and problems on stderr."""

    def __init__(self, *, width: int, unicode: bool, debug: bool = False) -> None:
        self.width = width
        self.unicode = unicode
        self.debug = debug
        self.interrupts = Interrupts()
        self._overwrites = sys.stderr.isatty()
        """Whether progress is a line that is overwritten; elsewhere it is a new line every two seconds, for logs."""
        self._every = 0.08 if self._overwrites else 2.0
        self._last = time.monotonic() - (self._every if self._overwrites else 0)
        self._drawn = 0
        """Cells of that line."""

    def line(self, *pieces: tuple[str, str] | str) -> None:
        """Show one line."""
        print("".join(text for text, _ in self._printable_pieces(pieces)).rstrip())

    def text(self, text: str) -> None:
        """Show a paragraph, wrapped."""
        for line in textwrap.wrap(self.plain(text), self.width):
            self.line(line)

    def heading(self, title: str) -> None:
        """Start a section."""
        title = self.clip(title, self.width - 4)
        rule = "─" * (self.width - cells(title) - 4)
        self.line()
        self.line(("── ", "dim"), (title, "bold"), (f" {rule}", "dim"))

    def aside(self, *pieces: tuple[str, str], remark: str) -> None:
        """Show one line with a remark next to it, or below it if there is no room."""
        width = sum(cells(text) for text, _ in pieces)
        if width + cells(remark) <= self.width:
            self.line(*pieces, (remark, "dim"))
        else:
            self.line(*pieces)
            self.line((textwrap.indent(textwrap.fill(self.plain(remark), self.width - 6), " " * 6), "dim"))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, total: bool = False) -> None:
        """Show a table; with `total` the last row is a sum. The first column is cut if necessary."""
        columns, rows, widths = fitted(columns, rows, self.width)
        self._row(columns, [c.title for c in columns], widths, "dim")
        for i, row in enumerate(rows):
            last = total and i == len(rows) - 1
            if last:
                self.line(("─" * (sum(widths) + 2 * len(widths) - 2), "dim"))
            self._row(columns, row, widths, "bold" if last else "")

    def _row(self, columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], style: str) -> None:
        pieces: list[tuple[str, str]] = []
        for column, text, width in zip(columns, row, widths, strict=True):
            clipped = self.clip(text, width)
            gap = " " * (width - cells(clipped))
            pieces.append(((gap + clipped if column.right else clipped + gap) + "  ", style))
        self.line(*pieces)

    def progress(self, text: str, share: float | None = None) -> None:
        """Show progress, unless it was shown just before; `share` is from 0 to 1.

        Raises KeyboardInterrupt if one was lost.
        """
        self.interrupts.check()
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        percent = "" if share is None else f"{min(1.0, max(0.0, share)):4.0%} "
        if not self._overwrites:
            print(self.plain(printable(percent + text)).strip(), file=sys.stderr, flush=True)
            return
        width = min(self.width, shutil.get_terminal_size().columns) - 1
        line = self.clip(self.plain(self._bar(share) + percent + printable(text)), width)
        self._draw(line + " " * (self._drawn - cells(line)))
        self._drawn = cells(line)

    def done(self) -> None:
        """Remove the progress line."""
        if self._drawn:
            self._draw(" " * self._drawn + "\r")
            self._drawn = 0

    def _draw(self, text: str) -> None:
        """Overwrite the progress line with a text that is printable."""
        terminal_of(sys.stderr).write(f"\r{text}")
        sys.stderr.flush()

    def _bar(self, share: float | None, width: int = 16) -> str:
        if share is None:
            return ""
        full = round(min(1.0, max(0.0, share)) * width)
        block, rest = ("█", "░") if self.unicode else ("#", ".")
        return block * full + rest * (width - full)

    def flush(self) -> None:
        """Flush stdout, before slow work."""
        sys.stdout.flush()

    @contextmanager
    def live(self) -> Iterator[Redraw]:
        """For output that changes: on a terminal each redraw replaces the last, elsewhere it follows."""
        first = True

        def redraw(draw: Callable[[], None]) -> None:
            nonlocal first
            if not first:
                print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "", file=terminal_of(sys.stdout))
            draw()
            self.flush()
            first = False

        yield redraw

    def complain(self, problem: str) -> None:
        """Report a problem on stderr, in one line."""
        self.done()
        sys.stdout.flush()
        print(self.plain(printable(problem)), file=sys.stderr, flush=True)

    def _printable_pieces(self, pieces: Sequence[tuple[str, str] | str]) -> list[tuple[str, str]]:
        """The pieces in characters that this terminal can show."""
        pairs = [(p, "") if isinstance(p, str) else p for p in pieces]
        return [(self.plain(text), style) for text, style in pairs]

    def plain(self, text: str) -> str:
        """The text, in ASCII if the terminal needs that."""
        if not self.unicode:
            for mark, replacement in _ASCII.items():
                text = text.replace(mark, replacement)
        return text

    def clip(self, text: str, width: int) -> str:
        """The text, cut to `width` cells."""
        if cells(text) <= width:
            return text
        end = "…" if self.unicode else "..."
        while text and cells(text) + len(end) > width:
            text = text[:-1]
        return text + end


class RichScreen(Screen):
    """Output through rich, in colour."""

    def __init__(self, console: Console, *, width: int, unicode: bool, debug: bool = False) -> None:
        super().__init__(width=width, unicode=unicode, debug=debug)
        self._console = console
        self._lines: list[Text] | None = None
        """Lines collected for the next redraw; None: lines are shown immediately."""

    def line(self, *pieces: tuple[str, str] | str) -> None:
        """Show one line."""
        from rich.text import Text  # noqa: PLC0415 (optional)

        line = Text.assemble(*((escaped(text), style) for text, style in self._printable_pieces(pieces)))
        if self._lines is None:
            self._console.print(line, soft_wrap=True)
        else:
            self._lines.append(line)

    @contextmanager
    def live(self) -> Iterator[Redraw]:
        """For output that changes: uses the whole terminal, without flicker, and restores it at the end."""
        from rich.live import Live  # noqa: PLC0415 (optional)
        from rich.text import Text  # noqa: PLC0415 (optional)

        with Live(console=self._console, screen=True, auto_refresh=False) as live:

            def redraw(draw: Callable[[], None]) -> None:
                lines: list[Text] = []
                self._lines = lines
                try:
                    draw()
                finally:
                    self._lines = None
                live.update(Text("\n").join(self._fit(lines)), refresh=True)

            yield redraw

    def _fit(self, lines: list[Text]) -> list[Text]:
        """As many lines as the terminal has: the first few and the newest."""
        from rich.text import Text  # noqa: PLC0415 (optional)

        room, head = max(_LEAST_LINES, self._console.size.height), 4
        for line in lines:
            line.truncate(self._console.size.width)
        if len(lines) <= room:
            return lines
        gap = Text(self.plain(f"     … {len(lines) - room + 1:,} more lines"), style="dim")
        return [*lines[:head], gap, *lines[len(lines) - (room - head - 1) :]]


def open_screen(*, debug: bool = False) -> Screen:
    """The screen of this process: RichScreen if stdout is a terminal and rich is installed."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
    unicode = _encodable(sys.stdout) and _encodable(sys.stderr)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        try:
            from rich.console import Console  # noqa: PLC0415 (optional, and slow to import)
        except ImportError:
            pass
        else:
            return RichScreen(
                Console(file=terminal_of(sys.stdout), highlight=False), width=width, unicode=unicode, debug=debug
            )
    return Screen(width=width, unicode=unicode, debug=debug)


def _encodable(stream: TextIO) -> bool:
    try:
        _NON_ASCII.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
