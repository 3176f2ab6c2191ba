"""Where results are shown: in colour on a terminal when rich is installed, as plain text otherwise.

A line is a tuple of (text, style) pieces, a style one of rich's ("bold", "green", ...); plain text leaves styles out.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeAlias

from autocontext.cli.layout import Column, cells, column_widths, fitting, harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Line: TypeAlias = tuple[tuple[str, str], ...]
Show: TypeAlias = Callable[[Callable[[], None]], None]
"""Shows what a function puts on the screen, in the place of what it put there before."""

_NARROWEST, _WIDEST = 40, 100
_LEAST_LINES = 12
_NEEDED = "░▒█▁…─┄┤✓✗·"
"""What has to be encodable for output to use more than ASCII."""
_SAYS_LESS = {"…": "...", "·": "-", "✓": "ok", "✗": "NO", "─": "-", "©": "(c)"}


class Screen:
    """Plain text on stdout, progress and complaints on stderr."""

    def __init__(self, *, width: int, unicode: bool, debug: bool = False) -> None:
        self.width = width
        self.unicode = unicode
        self.debug = debug
        self._progress = Progress(self)

    def line(self, *pieces: tuple[str, str] | str) -> None:
        """Show one line."""
        print("".join(text for text, _ in self.ready(pieces)).rstrip())

    def text(self, text: str) -> None:
        """Show a paragraph, broken into lines."""
        print(textwrap.fill(self.plain(text), self.width))

    def heading(self, title: str) -> None:
        """Begin a part."""
        title = self.clip(title, self.width - 4)
        rule = "─" * (self.width - cells(title) - 4)
        self.line()
        self.line(("── ", "dim"), (title, "bold"), (f" {rule}", "dim"))

    def aside(self, *pieces: tuple[str, str], beside: str) -> None:
        """Show one line with a remark beside it, or below where there is no room."""
        taken = sum(cells(text) for text, _ in pieces)
        if taken + cells(beside) <= self.width:
            self.line(*pieces, (beside, "dim"))
        else:
            self.line(*pieces)
            self.line((textwrap.indent(textwrap.fill(self.plain(beside), self.width - 6), " " * 6), "dim"))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, total: bool = False) -> None:
        """Show rows of texts under the columns' titles; with `total` the last is a sum. A long first text is cut."""
        columns, rows = fitting(columns, rows, self.width)
        widths = column_widths(columns, rows, self.width)
        self._row(columns, [c.title for c in columns], widths, ["dim"] * len(columns))
        for i, row in enumerate(rows):
            last = total and i == len(rows) - 1
            if last:
                self.line(("─" * (sum(widths) + 2 * len(widths) - 2), "dim"))
            self._row(columns, row, widths, ["bold" if last else ""] * len(row))

    def _row(self, columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> None:
        pieces: list[tuple[str, str]] = []
        for column, text, width, style in zip(columns, row, widths, styles, strict=True):
            shown = self.clip(text, width)
            gap = " " * (width - cells(shown))
            pieces.append(((gap + shown if column.right else shown + gap) + "  ", style))
        self.line(*pieces)

    def progress(self, text: str, share: float | None = None) -> None:
        """Say how far things are: `share` of all, from 0 to 1."""
        self._progress.show(text, share)

    def done(self) -> None:
        """Take the progress line away."""
        self._progress.clear()

    def flush(self) -> None:
        """Let what was shown so far be seen, before work that takes its time."""
        sys.stdout.flush()

    def clear(self) -> None:
        """Begin at the top of an empty terminal; elsewhere after an empty line."""
        print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "")

    @contextmanager
    def living(self) -> Iterator[Show]:
        """For what changes: each showing takes the place of the one before; where there is no terminal it follows."""
        shown_before = False

        def shown(draw: Callable[[], None]) -> None:
            nonlocal shown_before
            if shown_before:
                self.clear()
            draw()
            self.flush()
            shown_before = True

        yield shown

    def complain(self, problem: str) -> None:
        """Name a problem on stderr, in one line."""
        self.done()
        sys.stdout.flush()
        print(self.plain(harmless(problem)), file=sys.stderr, flush=True)

    def draw(self, text: str, stream: TextIO) -> None:
        """Write a progress line over the one before."""
        stream.write(f"\r{text}")
        stream.flush()

    def ready(self, pieces: Sequence[tuple[str, str] | str]) -> list[tuple[str, str]]:
        """The pieces with what this terminal can show of them."""
        pairs = [(p, "") if isinstance(p, str) else p for p in pieces]
        return [(self.plain(text), style) for text, style in pairs]

    def plain(self, text: str) -> str:
        """The text in ASCII, where the terminal needs that."""
        if not self.unicode:
            for mark, instead in _SAYS_LESS.items():
                text = text.replace(mark, instead)
        return text

    def clip(self, text: str, width: int) -> str:
        """The text in at most `width` cells."""
        if cells(text) <= width:
            return text
        end = "…" if self.unicode else "..."
        while text and cells(text) + len(end) > width:
            text = text[:-1]
        return text + end


class RichScreen(Screen):
    """The same through rich: colours, and lines that know how wide characters are."""

    def __init__(self, console: Console, *, width: int, unicode: bool, debug: bool = False) -> None:
        super().__init__(width=width, unicode=unicode, debug=debug)
        self._console = console
        self._lines: list[Text] | None = None
        """Lines that are gathered before they are shown together; None: each is shown at once."""

    def line(self, *pieces: tuple[str, str] | str) -> None:
        """Show one line."""
        from rich.text import Text  # noqa: PLC0415 (optional)

        line = Text.assemble(*self.ready(pieces))
        if self._lines is None:
            self._console.print(line, soft_wrap=True)
        else:
            self._lines.append(line)

    def text(self, text: str) -> None:
        """Show a paragraph, broken into lines."""
        if self._lines is None:
            self._console.print(self.plain(text), width=self.width, markup=False, highlight=False)
            return
        for line in textwrap.wrap(text, self.width):
            self.line(line)

    @contextmanager
    def living(self) -> Iterator[Show]:
        """For what changes: the terminal is drawn over in one go, without flicker, and given back at the end."""
        from rich.live import Live  # noqa: PLC0415 (optional)
        from rich.text import Text  # noqa: PLC0415 (optional)

        with Live(console=self._console, screen=True, auto_refresh=False) as live:

            def shown(draw: Callable[[], None]) -> None:
                lines: list[Text] = []
                self._lines = lines
                try:
                    draw()
                finally:
                    self._lines = None
                live.update(Text("\n").join(self._fitting(lines)), refresh=True)

            yield shown

    def _fitting(self, lines: list[Text]) -> list[Text]:
        """As many lines as the terminal has: where there are more, the first few and the newest."""
        from rich.text import Text  # noqa: PLC0415 (optional)

        room, head = max(_LEAST_LINES, self._console.size.height), 4
        for line in lines:
            line.truncate(self._console.size.width)
        if len(lines) <= room:
            return lines
        gap = Text(self.plain(f"     … {len(lines) - room + 1:,} more lines"), style="dim")
        return [*lines[:head], gap, *lines[len(lines) - (room - head - 1) :]]


class Progress:
    """One line that is written over on a terminal; elsewhere a line every few seconds, so that a log shows life."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = sys.stderr.isatty()
        self._every = 0.08 if self._live else 2.0
        self._last = time.monotonic() - (self._every if self._live else 0)
        self._drawn = 0

    def show(self, text: str, share: float | None) -> None:
        """Draw the line if the last one has stood long enough."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        percent = "" if share is None else f"{min(1.0, max(0.0, share)):4.0%} "
        if not self._live:
            print(self._screen.plain(harmless(percent + text)).strip(), file=sys.stderr, flush=True)
            return
        width = min(self._screen.width, shutil.get_terminal_size().columns) - 1
        shown = self._screen.clip(self._screen.plain(self._bar(share) + percent + harmless(text)), width)
        self._screen.draw(shown + " " * (self._drawn - cells(shown)), sys.stderr)
        self._drawn = cells(shown)

    def clear(self) -> None:
        """Leave the line empty."""
        if self._drawn:
            self._screen.draw(" " * self._drawn + "\r", sys.stderr)
            self._drawn = 0

    def _bar(self, share: float | None, width: int = 16) -> str:
        if share is None:
            return ""
        full = round(min(1.0, max(0.0, share)) * width)
        block, rest = ("█", "░") if self._screen.unicode else ("#", ".")
        return block * full + rest * (width - full)


def open_screen(*, debug: bool = False) -> Screen:
    """The screen for this process: rich's, if stdout is a terminal and rich is installed."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))
    unicode = _encodable(sys.stdout) and _encodable(sys.stderr)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        try:
            from rich.console import Console  # noqa: PLC0415 (optional, and only worth its import on a terminal)
        except ImportError:
            pass
        else:
            return RichScreen(Console(highlight=False), width=width, unicode=unicode, debug=debug)
    return Screen(width=width, unicode=unicode, debug=debug)


def _encodable(stream: TextIO) -> bool:
    try:
        _NEEDED.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
