"""Draws docs/pictures/handover.svg: what each policy costs and how much its contexts answer, one dot a policy.

`page.py` writes it from the table of results/handover.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from handover_page import WINDOWS
from summary import PLAIN, Table, number

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "handover.svg"

# All sizes in pixels of the drawing, which is narrow so that a phone shows it without scrolling.
WIDTH, MARGIN, LEFT = 440, 12, 44
PANEL, HEAD, FOOT = 470, 34, 40
RADIUS, APART = 7.5, 15.5
LINE = 18
_TICKS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
_STEPS = 400
_NOTE = "Circles that would overlap are moved apart."

STYLE = """\
  .page { fill: #ffffff; stroke: #d0d7de }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .lead { stroke: #8c959f; stroke-width: 1 }
  .plain { fill: #6e7781 }
  .peer { fill: #0969da }
  .ours { fill: #bc4c00 }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
  .title { font-weight: 600 }
  .note { fill: #57606a; font-size: 12px }
  .number { fill: #ffffff; font-size: 9.5px; font-weight: 600; text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    .grid { stroke: #21262d }
    .lead { stroke: #6e7681 }
    .plain { fill: #8b949e }
    .peer { fill: #4493f8 }
    .ours { fill: #f0883e }
    text { fill: #e6edf3 }
    .note { fill: #9da7b1 }
    .number { fill: #0d1117 }
  }
"""


class Dot(NamedTuple):
    """A policy in a panel."""

    name: str
    bill: float
    mean: float


def picture(table: Table) -> str:
    """The whole drawing: a panel for each window, and the names."""
    panels = {w: [_dot(row) for row in table if row["window"] == w] for w in WINDOWS}
    order = sorted(panels[WINDOWS[-1]], key=lambda dot: -dot.mean)
    numbers = {dot.name: n for n, dot in enumerate(order, 1)}
    for dots in panels.values():
        for dot in dots:
            numbers.setdefault(dot.name, len(numbers) + 1)
    bills = [dot.bill for dots in panels.values() for dot in dots]
    low = max((t for t in _TICKS if t <= min(bills)), default=_TICKS[0])
    high = min((t for t in _TICKS if t >= max(bills)), default=_TICKS[-1])
    parts, top = list[str](), MARGIN
    for window, dots in panels.items():
        parts += _panel(window, dots, numbers, (low, high), top)
        top += HEAD + PANEL + FOOT
    parts.append(f'<text class="note" x="{MARGIN}" y="{top + LINE}">{_NOTE}</text>')
    top += 2 * LINE + 4
    parts += _names(numbers, top)
    height = top + LINE * (len(numbers) + 1) + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    title = "What each library's contexts cost and how much they answer"
    frame = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    lines = [f'{head} role="img">', f"<title>{title}</title>", f"<style>\n{STYLE}</style>", frame, *parts, "</svg>"]
    return "\n".join(lines) + "\n"


def _dot(row: dict[str, str]) -> Dot:
    return Dot(row["policy"], number(row["bill"]), number(row["fair"]))


def _kind(name: str) -> str:
    return "ours" if name == "autocontext" else "plain" if name in PLAIN else "peer"


def _panel(
    window: str, dots: Sequence[Dot], numbers: dict[str, int], bills: tuple[float, float], top: float
) -> Iterator[str]:
    """One window: axes, dots where they belong, and their numbers where there is room."""
    low, high = (math.log(bill) for bill in bills)
    y0, right = top + HEAD, WIDTH - MARGIN - 6

    def x(bill: float) -> float:
        return LEFT + (math.log(bill) - low) / (high - low) * (right - LEFT)

    def y(mean: float) -> float:
        return y0 + PANEL * (1 - mean / 100)

    yield f'<text class="title" x="{MARGIN}" y="{top + 15}">Window of {window} tokens: answered, in %</text>'
    for mean in range(0, 101, 20):
        yield f'<line class="grid" x1="{LEFT}" y1="{y(mean):.1f}" x2="{right}" y2="{y(mean):.1f}"/>'
        yield f'<text class="note" x="{LEFT - 6}" y="{y(mean) + 4:.1f}" text-anchor="end">{mean}</text>'
    for bill in _TICKS:
        if bills[0] <= bill <= bills[1]:
            yield f'<line class="grid" x1="{x(bill):.1f}" y1="{y0}" x2="{x(bill):.1f}" y2="{y0 + PANEL}"/>'
            yield f'<text class="note" x="{x(bill):.1f}" y="{y0 + PANEL + 15}" text-anchor="middle">{bill:g}</text>'
    axis = "bill, where sending everything is 1 (less is better)"
    yield f'<text class="note" x="{right}" y="{y0 + PANEL + 31}" text-anchor="end">{axis}</text>'
    places = [(x(dot.bill), y(dot.mean)) for dot in dots]
    moved = spread(places, (LEFT + RADIUS, y0 + RADIUS, right - RADIUS, y0 + PANEL - RADIUS))
    for dot, (x1, y1), (x2, y2) in zip(dots, places, moved, strict=True):
        if math.hypot(x1 - x2, y1 - y2) > 2:
            yield f'<line class="lead" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
            yield f'<circle class="{_kind(dot.name)}" cx="{x1:.1f}" cy="{y1:.1f}" r="2.5"/>'
    for dot, (x2, y2) in zip(dots, moved, strict=True):
        yield f'<circle class="{_kind(dot.name)}" cx="{x2:.1f}" cy="{y2:.1f}" r="{RADIUS}"/>'
        yield f'<text class="number" x="{x2:.1f}" y="{y2 + 3.4:.1f}">{numbers[dot.name]}</text>'


def spread(places: Sequence[tuple[float, float]], box: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """The places moved apart as little as it takes for circles at them not to overlap; always the same."""
    moved = [list(place) for place in places]
    for _ in range(_STEPS):
        for i, one in enumerate(moved):
            for n, other in enumerate(moved[:i]):
                dx, dy = one[0] - other[0], one[1] - other[1]
                distance = math.hypot(dx, dy)
                if distance >= APART:
                    continue
                if distance < 0.01:  # the same place: a direction of their own for each pair
                    dx, dy, distance = math.cos(i + n), math.sin(i + n), 1.0
                push = (APART - distance) / 2 / distance
                for point, sign in ((one, 1), (other, -1)):
                    point[0] = min(max(point[0] + sign * push * dx, box[0]), box[2])
                    point[1] = min(max(point[1] + sign * push * dy, box[1]), box[3])
    return [(a, b) for a, b in moved]


def _names(numbers: dict[str, int], top: float) -> Iterator[str]:
    """Which number is whose."""
    for name, n in sorted(numbers.items(), key=lambda item: item[1]):
        y = top + LINE * (n - 1) + 10
        shown = "this library" if name == "autocontext" else name
        style = ' class="title"' if name == "autocontext" else ""
        yield f'<circle class="{_kind(name)}" cx="{MARGIN + 10}" cy="{y}" r="{RADIUS}"/>'
        yield f'<text class="number" x="{MARGIN + 10}" y="{y + 3.4:.1f}">{n}</text>'
        yield f'<text{style} x="{MARGIN + 28}" y="{y + 4.5}">{escape(shown)}</text>'
