"""The figures that README.md and the documentation claim, each read from the table that backs it.

A claim is a number with a comment right behind it that names a table, the cells that identify one of its rows, and a
column: `79.7 %<!-- measured: handover; autocontext; 4,000; fair -->`. `page.py` writes the number, rounded to as many
places as the claim has; `page.py --check`, which tests/test_claims.py runs, compares it. A label after the column picks
a number inside the cell (`more: on disk`). The table `summary` is that of docs/benchmarks.md; in a cell such as
`diskcache: 98.9 us` the number behind the name counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from summary import Table, number

ROOT = Path(__file__).resolve().parent.parent
_CLAIM = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?)(?P<unit>(?: ?[^\s\d|<>]+)?)<!-- measured: (?P<source>[^>]+?) -->")
_UNITS = {"us": "µs", "x": "times"}
"""How the documentation writes a unit of the tables."""
_TABLE = re.compile(r"<!-- begin (\w+) -->.*?<!-- end \1 -->", re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_FIGURE = re.compile(
    r"\d[\d,]*(?:\.\d+)? ?(?:%|per ?cent\b|[µμu]s\b|ms\b)|\d\.\d+ (?:s|seconds|times|x)\b"
    r"|\b(?:micro|milli)seconds?\b|\b\w+ messages (?:a|per) second"
)
"""Shares, times and rates, as far as they do not look like a setting (`30 seconds`) or a count (`4 times`)."""
NOT_MEASURED = {
    "docs/benchmarks.md": ("2 %", "100 %"),  # what counts as equal, and the promise
    "docs/from-agentscope-java.md": ("milliseconds",),  # the unit of a field
    "docs/memories.md": ("milliseconds",),  # the unit of a field
    "docs/state-optimiser.md": ("80 %",),  # a setting
    "docs/testing.md": ("95.6 %",),  # the mutation score, dated there
}
"""Figures of a page that do not come from a benchmark."""


class UnbackedClaimError(ValueError):
    """A claim that no figure of a table backs."""


def pages() -> list[Path]:
    """The pages whose claims are kept."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(page: str, tables: Mapping[str, Table]) -> str:
    """The page with every claim as the tables have it. Raises UnbackedClaimError."""

    def claim(match: re.Match[str]) -> str:
        value, unit = measured(match["source"], tables)
        claimed = match["unit"].strip()
        if claimed and unit and claimed != unit:
            raise UnbackedClaimError(f"{match[0]}: the table's unit is {unit}")
        places = len(match["number"].partition(".")[2])
        return f"{value:,.{places}f}" + match[0][len(match["number"]) :]

    # A comment that is not read would be a claim that is never looked at.
    if page.count("<!-- measured:") != len(_CLAIM.findall(page)):
        raise UnbackedClaimError("a comment `measured` does not stand right behind a number")
    return _CLAIM.sub(claim, page)


def unbacked(name: str, page: str) -> list[str]:
    """What looks like a measured figure in a page's prose and is not a claim that names its table."""
    for backed in (_TABLE, _CODE, _CLAIM):
        page = backed.sub("()", page)
    return [match[0] for match in _FIGURE.finditer(page) if match[0] not in NOT_MEASURED.get(name, ())]


def measured(source: str, tables: Mapping[str, Table]) -> tuple[float, str]:
    """The figure that a claim names, and its unit as the documentation writes it. Raises UnbackedClaimError."""
    name, *cells, column = (part.strip() for part in source.split(";"))
    heading, _, label = column.partition(": ")
    rows = [row for row in tables.get(name, []) if set(cells) <= set(row.values())]
    if len(rows) != 1 or heading not in rows[0]:
        raise UnbackedClaimError(f"{source}: {len(rows)} rows of {name} have these cells; the column is {heading!r}")
    cell = rows[0][heading]
    if label:
        cell = cell.partition(f"{label} ")[2]
    elif not re.match(r">?-?\d", cell):
        cell = cell.rpartition(": ")[2]
    match = re.match(r">?-?[\d,.]+(?:e[+-]?\d+)? ?([^\s\d,]*)", cell)
    if match is None:
        raise UnbackedClaimError(f"{source}: no number in {rows[0][heading]!r}")
    return number(cell), _UNITS.get(match[1], match[1])
