"""Draws docs/pictures/sizes.svg: a small chart for each operation, with a line for each library.

Both axes are logarithmic; the vertical one has a line for each decade. `page.py` writes it from the table of
results/sizes.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from draw_handover import LINE, MARGIN, STYLE, WIDTH
from summary import OURS, Table, number, unit

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "sizes.svg"

Lines = dict[str, list[tuple[int, float]]]
"""By library, sizes and figures."""
COLUMNS = 2
LEFT, HEAD, PANEL, FOOT = 52, 40, 96, 30
COLUMN = (WIDTH - MARGIN) // COLUMNS
_TITLE = "Time of the processor at five sizes, lower is better"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LIBRARIES = {
    OURS: ("ours", "autocontext"),
    "openai-agents": ("agents", "openai-agents SQLiteSession"),
    "langgraph": ("graph", "langgraph, its savers"),
    "DeltaChannel": ("graph beta", "langgraph with DeltaChannel (beta)"),
    "qdrant": ("mem0", "mem0 with qdrant"),
    "faiss": ("mem0 beta", "mem0 with faiss"),
    "diskcache": ("disk", "diskcache"),
}
"""By a word in the name of a row: the style of a line, and its name; of several words the last one counts."""
_LINES = """\
  polyline { fill: none; stroke-width: 1.5 }
  .ours-line { stroke: #bc4c00; stroke-width: 2.5 }
  .agents-line { stroke: #0969da }
  .graph-line { stroke: #1a7f37 }
  .mem0-line { stroke: #8250df }
  .disk-line { stroke: #cf222e }
  .beta { stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    .ours-line { stroke: #f0883e }
    .agents-line { stroke: #4493f8 }
    .graph-line { stroke: #3fb950 }
    .mem0-line { stroke: #ab7df8 }
    .disk-line { stroke: #f85149 }
  }
"""


def picture(table: Table) -> str:
    """The whole drawing: the names, then the charts."""
    panels = _panels(table)
    shown = {library for lines in panels.values() for library in lines}
    parts, top = [f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{_TITLE}</text>'], MARGIN + 32
    for library in (library for library in _LIBRARIES if library in shown):
        parts.append(f'<polyline class="{_style(library)}" points="{MARGIN},{top - 4} {MARGIN + 26},{top - 4}"/>')
        parts.append(f'<text class="note" x="{MARGIN + 34}" y="{top}">{escape(_LIBRARIES[library][1])}</text>')
        top += LINE
    for n, (name, lines) in enumerate(panels.items()):
        row, column = divmod(n, COLUMNS)
        parts += _panel(name, lines, MARGIN // 2 + column * COLUMN, top + row * (HEAD + PANEL + FOOT))
    height = top + math.ceil(len(panels) / COLUMNS) * (HEAD + PANEL + FOOT) + MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    frame = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    style = f"<style>\n{STYLE}{_LINES}</style>"
    return "\n".join([f'{head} role="img">', f"<title>{_TITLE}</title>", style, frame, *parts, "</svg>"]) + "\n"


def _style(library: str) -> str:
    name, _, more = _LIBRARIES[library][0].partition(" ")
    return f"{name}-line {more}".strip()


def _panel(name: str, lines: Lines, left: int, top: int) -> Iterator[str]:
    """A chart; `name` has what is done, and what there are so many of."""
    sizes = sorted({size for points in lines.values() for size, _ in points})
    figures = [figure for points in lines.values() for _, figure in points]
    low, high = math.floor(math.log10(min(figures))), math.ceil(math.log10(max(figures)))
    high = max(high, low + 1)
    begin, end = math.log10(sizes[0]), math.log10(sizes[-1])
    right, foot = left + COLUMN - MARGIN, top + HEAD + PANEL

    def x(size: float) -> float:
        return left + LEFT + (math.log10(size) - begin) / (end - begin) * (right - left - LEFT)

    def y(figure: float) -> float:
        return foot - PANEL * (math.log10(figure) - low) / (high - low)

    what, _, of = name.rpartition(", ")
    yield f'<text class="note" x="{left + 4}" y="{top + 28}">{escape(what)}</text>'
    times = "disk" not in what
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line class="grid" x1="{left + LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>'
        if power in (low, high):
            label = _time(power) if times else f"{10.0**power:,g} x"
            yield f'<text class="note" x="{left + LEFT - 4}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'
    for size, anchor in ((sizes[0], "start"), (sizes[-1], "end")):
        label = _short(size) if size == sizes[0] else f"{_short(size)} {of}"
        yield f'<text class="note" x="{x(size):.1f}" y="{foot + 16}" text-anchor="{anchor}">{label}</text>'
    for library in sorted(lines, key=lambda library: library == OURS):  # this library's above the others'
        points = " ".join(f"{x(size):.1f},{y(figure):.1f}" for size, figure in lines[library])
        yield f'<polyline class="{_style(library)}" points="{points}"/>'


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 else str(size)


def _time(power: int) -> str:
    """A power of ten seconds."""
    for name, least in (("s", 0), ("ms", -3), ("us", -6)):
        if power >= least:
            return f"{10 ** (power - least):,} {name}"
    return f"{10.0 ** (power + 6):g} us"


def _panels(table: Table) -> dict[str, Lines]:
    """The lines of each chart."""
    panels: dict[str, Lines] = {}
    lines: Lines = {}
    size = 0
    for row in table:
        value = number(row["figure"]) * _SECONDS.get(unit(row["figure"]), 1.0)
        if match := re.fullmatch(r"(.+), (\w+): ([\d,]+)", row["what"]):
            lines, size = panels.setdefault(f"{match[1]}, {match[2]}", {}), int(number(match[3]))
            library = OURS
        else:
            library = [word for word in _LIBRARIES if word in row["what"]][-1]
        lines.setdefault(library, []).append((size, value))
    return panels
