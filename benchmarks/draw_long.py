"""Draws docs/pictures/long.svg: processor seconds of each operation against the messages of a session.

Both axes are logarithmic. A level line costs the same at any length; one that rises by a decade for each decade is
linear. `page.py` writes it from the table of results/long.md.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

from draw_handover import LINE, MARGIN, STYLE, WIDTH
from summary import Table, number, unit

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "long.svg"

LEFT, RIGHT, TOP, PANEL, FOOT = 44, 168, 34, 430, 44
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LEAST = 1e-5
"""Seconds; a shorter time is drawn as this."""
_TITLE = "Processor seconds, by messages of the session"
_FLAT = ("next view", "the next messages, each", "a pass", "reload m3", "reload m3, just opened", "next search")
"""What should not grow, in the stronger colour."""


def picture(table: Table) -> str:
    """The whole drawing: a line for each operation, with its name at the end."""
    lines = _lines(table)
    sizes = sorted({size for points in lines.values() for size, _ in points})
    times = [time for points in lines.values() for _, time in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    height = TOP + PANEL + FOOT
    begin, end = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - begin) / (end - begin) * (WIDTH - RIGHT - LEFT)

    def y(time: float) -> float:
        return TOP + PANEL * (high - math.log10(time)) / (high - low)

    parts = [f'<text class="title" x="{MARGIN}" y="{TOP - 16}">{_TITLE}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        label = f"{10.0**power:g}"
        parts.append(f'<text class="note" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for size in sizes:
        named = f"{size // 1000}k"
        parts.append(f'<text class="note" x="{x(size):.1f}" y="{TOP + PANEL + 17}" text-anchor="middle">{named}</text>')
    places = _apart({name: y(points[-1][1]) for name, points in lines.items()})
    for name, points in lines.items():
        kind = "flat" if name in _FLAT else "grows"
        path = " ".join(f"{x(size):.1f},{y(time):.1f}" for size, time in points)
        lead = f"{WIDTH - RIGHT},{y(points[-1][1]):.1f} {WIDTH - RIGHT + 10},{places[name]:.1f}"
        parts.append(f'<polyline class="{kind}" points="{path}"/>')
        parts.append(f'<polyline class="lead" points="{lead}"/>')
        parts.append(f'<text class="note" x="{WIDTH - RIGHT + 14}" y="{places[name] + 4:.1f}">{escape(name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    style = (
        f"{STYLE}  .flat {{ stroke: #bc4c00; stroke-width: 2 }}\n  .grows {{ stroke: #0969da; stroke-width: 1.5 }}\n"
    )
    frame = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    style += "  polyline { fill: none }\n"
    whole = [f'{head} role="img">', f"<title>{_TITLE}</title>", f"<style>\n{style}</style>", frame, *parts, "</svg>"]
    return "\n".join(whole) + "\n"


def _lines(table: Table) -> dict[str, list[tuple[int, float]]]:
    """By operation, the sizes of sessions with the seconds that it took."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in table:
        match = re.fullmatch(r"(.+), ([\d,]+) messages", row["what"])
        if match and unit(row["figure"]) in _SECONDS:
            seconds = number(row["figure"]) * _SECONDS[unit(row["figure"])]
            lines.setdefault(match[1], []).append((int(number(match[2])), max(seconds, _LEAST)))
    return lines


def _apart(places: dict[str, float]) -> dict[str, float]:
    """The places of the names, so far apart that each can be read, all within the panel."""
    moved: dict[str, float] = {}
    last = -math.inf
    for name, place in sorted(places.items(), key=lambda item: item[1]):
        moved[name] = last = max(place, last + LINE)
    limit = float(TOP + PANEL)
    for name in reversed([*moved]):
        moved[name] = limit = min(moved[name], limit)
        limit -= LINE
    return moved
