"""Plots the size of the context at each model call as text, with and without compression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autocontext.cli.replay_run import ModelCall
from autocontext.cli.screen import Line

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WITH, _WITHOUT, _OVER, _AXIS, _LIMIT = "green", "yellow", "red", "dim", "cyan"


_HEIGHT = 11
"""Rows."""


def plotted(calls: Sequence[ModelCall], window: int, *, width: int, unicode: bool = True) -> list[Line]:
    """The full conversation and the sent context on one scale: the rows, top first, and the axis."""
    return _Canvas(calls, window, width, unicode=unicode).lines()


class _Column(NamedTuple):
    """One or several consecutive calls. The largest context sets the height, so every peak is visible."""

    sent: int
    full: int


class _Canvas:
    """Calls as columns from left to right."""

    def __init__(self, calls: Sequence[ModelCall], window: int, width: int, *, unicode: bool) -> None:
        self.window, self.top, self.unicode = window, max(window, *(c.full for c in calls)), unicode
        self.label = len(f"{self.top:,}")
        self.columns = _columns(calls, max(10, width - self.label - 2))
        self.call_count = len(calls)
        self.step = self.top / _HEIGHT

    def lines(self) -> list[Line]:
        """The rows, top first, and the axis with the first and the last call."""
        first, last = "call 1", f"{self.call_count:,}"
        gap = max(1, len(self.columns) - len(first) - len(last))
        axis = ((" " * (self.label + 2), ""), (first + " " * gap + last, _AXIS))
        return [*map(self._row, reversed(range(_HEIGHT))), axis]

    def _row(self, r: int) -> Line:
        mark = "┤" if self.unicode else "|"
        at_window = r == self._row_of(self.window)
        label = f"{self.window:,}" if at_window else f"{self.top:,}" if r == _HEIGHT - 1 else "0" if r == 0 else ""
        pieces = [(f"{label:>{self.label}} {mark}", _LIMIT if at_window else _AXIS)]
        for column in self.columns:
            glyph, style = self._cell(column, r)
            if glyph == " " and at_window:
                glyph, style = ("┄" if self.unicode else "-"), _LIMIT
            if pieces[-1][1] == style and len(pieces) > 1:
                pieces[-1] = (pieces[-1][0] + glyph, style)
            else:
                pieces.append((glyph, style))
        return tuple(pieces)

    def _row_of(self, value: float) -> int:
        return min(_HEIGHT - 1, math.ceil(value / self.step) - 1)

    def _cell(self, column: _Column, r: int) -> tuple[str, str]:
        sent = self._eighths(column.sent, r)
        covered = column.full >= (r + 0.5) * self.step
        style = _OVER if column.sent > self.window else _WITH
        if self.unicode:
            if sent and not (covered and sent < 4):
                return _EIGHTHS[sent], style
            return ("░", _WITHOUT) if covered else (" ", "")
        return ("#", style) if sent >= 4 or (sent and r == 0) else (".", _WITHOUT) if covered else (" ", "")

    def _eighths(self, value: int, r: int) -> int:
        """How many eighths of the cell in row `r` a column with this value fills."""
        return max(0, min(8, math.ceil((value / self.step - r) * 8)))


def _columns(calls: Sequence[ModelCall], width: int) -> list[_Column]:
    count = len(calls)
    groups = [calls[i * count // width : max((i + 1) * count // width, i * count // width + 1)] for i in range(width)]
    return [_Column(max(t.sent for t in g), max(t.full for t in g)) for g in groups]
