"""Plots the size of the context at each model call as text, with and without compression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autocontext.cli.replay_run import ModelCall
from autocontext.cli.screen import Line

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WITH, _WITHOUT, _OVER, _AXIS, _LIMIT = "green", "yellow", "red", "dim", "cyan"


def both(calls: Sequence[ModelCall], window: int, *, width: int, height: int = 11, unicode: bool = True) -> list[Line]:
    """The full conversation and the sent context on one scale."""
    top = max(window, *(c.full for c in calls))
    return _Canvas(calls, window, top, width, height, unicode=unicode).lines(shade=True)


def enlarged(
    calls: Sequence[ModelCall], window: int, *, width: int, height: int = 7, unicode: bool = True
) -> list[Line]:
    """The sent context alone, up to the window; lighter where only some calls of a column reach."""
    top = max(window, *(c.sent for c in calls))
    return _Canvas(calls, window, top, width, height, unicode=unicode).lines(shade=False)


class _Column(NamedTuple):
    """One or several consecutive calls. The largest context sets the height, so every peak is visible."""

    low: int
    sent: int
    full: int


class _Canvas:
    """Calls as columns from left to right."""

    def __init__(
        self, calls: Sequence[ModelCall], window: int, top: int, width: int, height: int, *, unicode: bool
    ) -> None:
        self.label = max(len(f"{top:,}"), len(f"{window:,}"))
        self.columns = _columns(calls, max(10, width - self.label - 2))
        self.call_count = len(calls)
        self.window, self.top, self.height, self.unicode = window, top, height, unicode
        self.step = top / height

    def lines(self, *, shade: bool) -> list[Line]:
        """The rows, top first, and the axis with the first and the last call."""
        first, last = "call 1", f"{self.call_count:,}"
        gap = max(1, len(self.columns) - len(first) - len(last))
        axis = ((" " * (self.label + 2), ""), (first + " " * gap + last, _AXIS))
        return [*(self._row(r, shade=shade) for r in reversed(range(self.height))), axis]

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
        """How many eighths of the cell in row `r` a column with this value fills."""
        return max(0, min(8, math.ceil((value / self.step - r) * 8)))


def _columns(calls: Sequence[ModelCall], width: int) -> list[_Column]:
    count = len(calls)
    groups = [calls[i * count // width : max((i + 1) * count // width, i * count // width + 1)] for i in range(width)]
    return [_Column(min(t.sent for t in g), max(t.sent for t in g), max(t.full for t in g)) for g in groups]
