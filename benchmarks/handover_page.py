"""What results/handover.md says besides its whole table: a table for a window, and who is ahead of this library.

Nothing is measured here; all of it is read from the whole table. `draw_handover` makes the picture of the same figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from questions import QUESTIONS
from summary import PLAIN, Table, number

WINDOWS = ("4,000", "16,000")
MORE, LESS = (*QUESTIONS, "mean", "planted", "reachable"), ("bill",)
"""Columns in which more is better, and less."""
SHOWN = (*MORE, *LESS, "over", "invalid", "used")
_NAMES = {"mean": "fair"}
"""What a column is called in the whole table."""
_CLOSE_POINTS, _CLOSE_SHARE = 0.2, 0.02
"""Shares that differ by less and bills that differ by less count as equal."""
_PLACE = "<!-- read {window} -->"
_PLACES = re.compile(r"<!-- read ([\d,]+) -->\n.*?<!-- end read -->", re.DOTALL)


def filled(page: str, table: Table) -> str:
    """The page with its places filled."""

    def place(match: re.Match[str]) -> str:
        return f"{_PLACE.format(window=match[1])}\n\n{view(table, match[1])}\n\n<!-- end read -->"

    return _PLACES.sub(place, page)


def view(table: Table, window: str) -> str:
    """The table of one window, the best mean first, and who is ahead."""
    rows = {row["policy"]: cells(row) for row in table if row["window"] == window}
    if "autocontext" not in rows:
        return "not measured"
    ours = rows["autocontext"]
    order = sorted(rows, key=lambda name: -number(rows[name]["mean"]))
    lines = [f"| library | {' | '.join(SHOWN)} |", f"| --- |{' ---: |' * len(SHOWN)}"]
    for name in order:
        marked = (f"**{v}**" if ahead(c, v, ours[c]) else v for c, v in rows[name].items())
        lines.append(f"| {_shown(name)} | {' | '.join(marked)} |")
    return "\n".join([*lines, "", *leaders(rows, ours)])


def cells(row: dict[str, str]) -> dict[str, str]:
    """The cells of a row that are shown."""
    found = {column: row[_NAMES.get(column, column)] for column in SHOWN}
    return {**found, "invalid": f"{found['invalid']} of {row['probes']}" if found["invalid"] != "0" else "0"}


def ahead(column: str, theirs: str, ours: str) -> bool:
    """Whether somebody is better than this library in a column."""
    if column in MORE:
        return number(theirs) > number(ours) + _CLOSE_POINTS
    return column in LESS and number(theirs) < number(ours) * (1 - _CLOSE_SHARE)


def leaders(rows: dict[str, dict[str, str]], ours: dict[str, str]) -> Iterator[str]:
    """For each column everybody who is ahead of this library, the best first."""
    yield "Ahead of this library:"
    yield ""
    for column in (*MORE, *LESS):
        better = [name for name, row in rows.items() if ahead(column, row[column], ours[column])]
        better.sort(key=lambda name: number(rows[name][column]) * (1 if column in LESS else -1))
        named = ", ".join(f"{_plainly(name)} ({rows[name][column]})" for name in better)
        yield f"- {column}: {named or 'nobody'}; this library {ours[column]}"


def _shown(name: str) -> str:
    return "**this library**" if name == "autocontext" else _plainly(name)


def _plainly(name: str) -> str:
    """A plain method is named as one."""
    return f"*{name}*" if name in PLAIN else name
