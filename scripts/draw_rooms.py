"""Draws docs/pictures/rooms.svg: the rooms (folders) of the package and which of them import which.

Usage: `python scripts/draw_rooms.py` writes the picture; `--check` exits with 1 when it is out of date.
Names, first docstring sentences and imports are read from the files, by the same code that tests the layers. An arrow
is left out where a longer way says the same: if A imports B and B imports C, no arrow runs from A to C.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import sys
import textwrap
from collections import defaultdict
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import test_layers as layers  # noqa: E402 (found by the line above)

PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"

# All sizes in pixels of the drawing, which is narrow so that a phone shows it without scrolling.
WIDTH, MARGIN = 440, 16
BOX_WIDTH, BOX_HEIGHT = 106, 32
LANE = 4
"""Width of the lane in which an arrow passes a row."""
GAP, ROW = 10, 64
NAME_COLUMN, LINE, LETTERS = 104, 17, 42
SWEEPS = 12
"""Times that the boxes are moved under what points to them."""

STYLE = """\
  .page { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #ffffff; stroke: #57606a; stroke-width: 1.5 }
  .pure { fill: #ddf4ff; stroke: #0969da }
  .arrow { fill: none; stroke: #6e7781; stroke-width: 1.4 }
  .head { fill: #6e7781 }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
  .name { font-weight: 600 }
  .note { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #30363d }
    .box { fill: #161b22; stroke: #8b949e }
    .pure { fill: #0c2d4a; stroke: #58a6ff }
    .arrow { stroke: #8b949e }
    .head { fill: #8b949e }
    text { fill: #e6edf3 }
    .note { fill: #9da7b1 }
  }
"""


class Node(NamedTuple):
    """A box, or the lane of a long arrow in a row that it passes (then `arrow` names its ends)."""

    level: int
    name: str
    arrow: tuple[str, str] | None = None

    @property
    def width(self) -> int:
        """How much of its row it takes."""
        return BOX_WIDTH if self.arrow is None else LANE


class House(NamedTuple):
    """What the folders say."""

    rooms: dict[str, str]
    """Each room, or module at the door that works with rooms, with its first docstring sentence."""
    values: list[str]
    """Modules at the door that import no room: any room may use them."""
    imports: dict[str, set[str]]


# --------------------------------------------------------------------------------------------------------- the folders
def house() -> House:
    """The rooms and their imports, those allowed to point up left out."""
    folders = {name for name in layers.LAYERS if (layers.PACKAGE / name).is_dir()}
    imports: dict[str, set[str]] = {name: set() for name in layers.LAYERS}
    aliases = set()
    for module, tree in layers.modules():
        own = layers.layer(module)
        for found in layers.imported(module, tree):
            other = layers.layer(found.module)
            if other and other != own and (module, other) not in layers.UPWARD:
                imports[own].add(other)
        if own == module not in folders and not any(isinstance(n, ast.ClassDef | ast.FunctionDef) for n in tree.body):
            aliases.add(module)
    for name in aliases:
        # It only gives names of other modules: who imports it imports those.
        for others in imports.values():
            others.update(imports[name] if name in others else ())
    importers = {name: {own for own, others in imports.items() if name in others} for name in layers.LAYERS}
    doors = [name for name in layers.LAYERS if name not in folders | aliases and not name.startswith("_")]
    # What one room imports only (helpers for tests: the command line) is not worth a box.
    working = {name for name in doors if imports[name] & folders and len(importers[name]) > 1}
    shown = [name for name in layers.LAYERS if (name in folders and importers[name]) or name in working]
    values = [name for name in doors if not imports[name] & folders]
    return House({name: sentence(name) for name in shown}, values, {name: imports[name] & {*shown} for name in shown})


def sentence(name: str) -> str:
    """The first sentence of a room's docstring, without its full stop."""
    path = layers.PACKAGE / name / "__init__.py"
    if not path.exists():
        path = layers.PACKAGE / f"{name}.py"
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.split("\n\n")[0].split()).replace("`", "").removesuffix(".")


def reduced(imports: dict[str, set[str]]) -> dict[str, list[str]]:
    """The arrows that no longer way replaces."""

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset().union(*({other} | reached(other) for other in imports[name]))

    return {
        name: sorted(b for b in others if not any(b in reached(c) for c in others)) for name, others in imports.items()
    }


# ---------------------------------------------------------------------------------------------------------- the layout
class Layout:
    """Boxes in rows by their longest way down, sorted and moved so that arrows are short and rarely cross."""

    def __init__(self, arrows: dict[str, list[str]]) -> None:
        self.down: dict[Node, list[Node]] = defaultdict(list)
        self.up: dict[Node, list[Node]] = defaultdict(list)
        self.paths: list[list[Node]] = []

        @cache
        def level(name: str) -> int:
            return 1 + max(map(level, arrows[name]), default=-1)

        rows: dict[int, list[Node]] = defaultdict(list)
        for name in arrows:
            rows[level(name)].append(Node(level(name), name))
        for name, others in arrows.items():
            for other in others:
                between = range(level(name) - 1, level(other), -1)
                lanes = [Node(n, "", (name, other)) for n in between]
                for lane in lanes:
                    rows[lane.level].append(lane)
                path = [Node(level(name), name), *lanes, Node(level(other), other)]
                self.paths.append(path)
                for above, below in itertools.pairwise(path):
                    self.down[above].append(below)
                    self.up[below].append(above)
        self.rows = [rows[n] for n in sorted(rows)]
        self._sort()
        self.x = self._places()

    def _sort(self) -> None:
        """Swap two nodes of a row as long as that leaves fewer crossings."""
        least, improved = self._crossings(), True
        while improved:
            improved = False
            for row, i, j in [(r, i, j) for r in self.rows for i, j in itertools.combinations(range(len(r)), 2)]:
                row[i], row[j] = row[j], row[i]
                if (crossings := self._crossings()) < least:
                    least, improved = crossings, True
                else:
                    row[i], row[j] = row[j], row[i]

    def _crossings(self) -> int:
        place = {node: i for row in self.rows for i, node in enumerate(row)}
        count = 0
        for row in self.rows:
            lines = [(place[node], place[below]) for node in row for below in self.down[node]]
            count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(lines, 2))
        return count

    def _places(self) -> dict[Node, float]:
        """The middle of each node: near those of its neighbours, in the row's order, inside the page."""
        x: dict[Node, float] = {}
        for row in self.rows:
            x.update(zip(row, spread([WIDTH / 2] * len(row), [node.width for node in row]), strict=True))
        for _ in range(SWEEPS):
            for row in (*self.rows, *reversed(self.rows)):
                wishes = [mean([x[n] for n in (*self.up[node], *self.down[node])], x[node]) for node in row]
                x.update(zip(row, spread(wishes, [node.width for node in row]), strict=True))
        return x


def spread(wishes: list[float], widths: list[int]) -> list[float]:
    """Places in order, as near to the wishes as widths, gaps and the page allow."""
    places = list(wishes)
    low = [sum(widths[:i]) + i * GAP + widths[i] / 2 + MARGIN for i in range(len(widths))]
    slack = WIDTH - 2 * MARGIN - sum(widths) - GAP * (len(widths) - 1)
    high = [place + slack for place in low]
    # What is left of each wish once everything is packed to the left never falls from one node to the next.
    moved = [min(max(place - left, 0), slack) for place, left in zip(places, low, strict=True)]
    rising = list(itertools.accumulate(moved, max))
    falling = list(itertools.accumulate(reversed(moved), min))[::-1]
    return [min(left + (a + b) / 2, right) for left, right, a, b in zip(low, high, rising, falling, strict=True)]


def mean(values: list[float], otherwise: float) -> float:
    """The mean of some values, or another one where there are none."""
    return sum(values) / len(values) if values else otherwise


# --------------------------------------------------------------------------------------------------------- the drawing
def drawing() -> str:
    """The picture as SVG."""
    seen = house()
    layout = Layout(reduced(seen.imports))
    top = MARGIN + 8
    y = {n: top + (len(layout.rows) - 1 - n) * ROW for n in range(len(layout.rows))}
    parts = [arrow([(layout.x[n], y[n.level]) for n in path]) for path in layout.paths]
    rooms = [node for row in layout.rows for node in row if node.arrow is None]
    parts += [box(node.name, layout.x[node] - BOX_WIDTH / 2, y[node.level]) for node in rooms]
    at = y[0] + BOX_HEIGHT + 22
    values = textwrap.wrap(", ".join(seen.values), LETTERS + 8)
    height = LINE * (len(values) + 1) + 18
    parts.append(
        f'<rect class="box pure" x="{MARGIN}" y="{at}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6"/>'
    )
    for i, line in enumerate(["Values of the top level, for every folder:", *values]):
        kind = "note" if i == 0 else ""
        parts.append(text(line, WIDTH / 2, at + 22 + i * LINE, kind, middle=True))
    at += height + 28
    drivers = ", ".join(sorted(f"{name.replace('.', '/')}.py" for name in layers.DRIVERS))
    note = f"Arrows are imports. Blue: no I/O, except in {drivers}."
    for line in textwrap.wrap(note, LETTERS + 12):
        parts.append(text(line, MARGIN, at, "note"))
        at += LINE
    for name in reversed(seen.rooms):
        at += 8
        parts.append(text(label(name), MARGIN, at + LINE, "name"))
        for line in textwrap.wrap(seen.rooms[name], LETTERS):
            at += LINE
            parts.append(text(line, MARGIN + NAME_COLUMN, at))
    height = at + MARGIN + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="The folders of autocontext and their imports">\n<style>\n{STYLE}</style>\n'
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker>\n'
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        + "".join(f"{part}\n" for part in parts)
        + "</svg>\n"
    )


def label(name: str) -> str:
    """A folder's name with a slash, a module's with its ending."""
    return f"{name}/" if (layers.PACKAGE / name).is_dir() else f"{name}.py"


def box(name: str, x: float, y: float) -> str:
    """A room."""
    kind = "box pure" if name in layers.CORE else "box"
    frame = f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>\n'
    return frame + text(label(name), x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2 + 5, "name", middle=True)


def arrow(points: list[tuple[float, float]]) -> str:
    """A line from the foot of the first box through its lanes to the head of the last."""
    (x, y), *lanes, (end, last) = points
    line = f"M{x:.1f} {y + BOX_HEIGHT:.0f}"
    at = (x, y + BOX_HEIGHT)
    for lane, row in lanes:
        line += _curve(at, (lane, row)) + f"V{row + BOX_HEIGHT:.0f}"
        at = (lane, row + BOX_HEIGHT)
    return f'<path class="arrow" d="{line}{_curve(at, (end, last))}" marker-end="url(#head)"/>'


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    middle = (start[1] + end[1]) / 2
    return f"C{start[0]:.1f} {middle:.0f} {end[0]:.1f} {middle:.0f} {end[0]:.1f} {end[1]:.0f}"


def text(line: str, x: float, y: float, kind: str = "", *, middle: bool = False) -> str:
    """One line of text."""
    attributes = (f' class="{kind}"' if kind else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x:.1f}" y="{y:.0f}"{attributes}>{escape(line)}</text>'


def main() -> int:
    """Write the picture, or compare it."""
    parser = argparse.ArgumentParser(description="Draw docs/pictures/rooms.svg from the folders of the package.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    new = drawing()
    if not parser.parse_args().check:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(new, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == new:
        return 0
    sys.stderr.write("docs/pictures/rooms.svg is not current: run python scripts/draw_rooms.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
