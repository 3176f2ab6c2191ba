"""A plot in text: how large the context was at each model call, with and without compression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autocontext.cli.running import Turn
from autocontext.cli.screen import Line

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WITH, _WITHOUT, _OVER, _AXIS, _LIMIT = "green", "yellow", "red", "dim", "cyan"


def both(turns: Sequence[Turn], window: int, *, width: int, height: int = 11, unicode: bool = True) -> list[Line]:
    """The full conversation and the context that was sent, on one scale."""
    top = max(window, *(t.full for t in turns))
    canvas = _Canvas(turns, window, top, width, height, unicode=unicode)
    return [*canvas.rows(shade=True), canvas.axis()]


def enlarged(turns: Sequence[Turn], window: int, *, width: int, height: int = 7, unicode: bool = True) -> list[Line]:
    """The context that was sent alone, up to the window; lighter where only some calls of a column reach."""
    top = max(window, *(t.sent for t in turns))
    canvas = _Canvas(turns, window, top, width, height, unicode=unicode)
    return [*canvas.rows(shade=False), canvas.axis()]


class _Column(NamedTuple):
    """One or several neighbouring turns; their largest context sets the height, so that no peak is hidden."""

    low: int
    sent: int
    full: int


class _Canvas:
    """Turns drawn as columns from left to right."""

    def __init__(self, turns: Sequence[Turn], window: int, top: int, width: int, height: int, *, unicode: bool) -> None:
        self.label = max(len(f"{top:,}"), len(f"{window:,}"))
        self.columns = _columns(turns, max(10, width - self.label - 2))
        self.calls = len(turns)
        self.window, self.top, self.height, self.unicode = window, top, height, unicode
        self.step = top / height

    def rows(self, *, shade: bool) -> list[Line]:
        """From the top down."""
        return [self._row(r, shade=shade) for r in reversed(range(self.height))]

    def axis(self) -> Line:
        """The line below, with the first and last call."""
        size = len(self.columns)
        first, last = "call 1", f"{self.calls:,}"
        gap = max(1, size - len(first) - len(last))
        return ((" " * (self.label + 2), ""), (first + " " * gap + last, _AXIS))

    def _row(self, r: int, *, shade: bool) -> Line:
        mark = "┤" if self.unicode else "|"
        at_window = r == self._row_of(self.window)
        label = f"{self.window:,}" if at_window else f"{self.top:,}" if r == self.height - 1 else "0" if r == 0 else ""
        pieces = [(f"{label:>{self.label}} {mark}", _LIMIT if at_window else _AXIS)]
        for column in self.columns:
            glyph, style = self._cell(column, r, shade=shade)
            if glyph == " " and at_window:
                glyph, style = ("┄" if self.unicode else "-"), _LIMIT
            if pieces[-1][1] == style and len(pieces) > 1:
                pieces[-1] = (pieces[-1][0] + glyph, style)
            else:
                pieces.append((glyph, style))
        return tuple(pieces)

    def _row_of(self, value: float) -> int:
        return min(self.height - 1, math.ceil(value / self.step) - 1)

    def _cell(self, column: _Column, r: int, *, shade: bool) -> tuple[str, str]:
        sent = self._eighths(column.sent, r)
        covered = shade and column.full >= (r + 0.5) * self.step
        style = _OVER if column.sent > self.window else _WITH
        if not shade and sent == 8 and column.low < (r + 0.5) * self.step:
            return ("▒" if self.unicode else ":"), style
        if self.unicode:
            if sent and not (covered and sent < 4):
                return _EIGHTHS[sent], style
            return ("░", _WITHOUT) if covered else (" ", "")
        return ("#", style) if sent >= 4 or (sent and r == 0) else (".", _WITHOUT) if covered else (" ", "")

    def _eighths(self, value: int, r: int) -> int:
        """How many eighths of the cell in row `r` a column of this height fills."""
        return max(0, min(8, math.ceil((value / self.step - r) * 8)))


def _columns(turns: Sequence[Turn], width: int) -> list[_Column]:
    count = len(turns)
    groups = [turns[i * count // width : max((i + 1) * count // width, i * count // width + 1)] for i in range(width)]
    return [_Column(min(t.sent for t in g), max(t.sent for t in g), max(t.full for t in g)) for g in groups]
