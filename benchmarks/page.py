"""Runs benchmarks and writes their tables to benchmarks/results/ with the commit, the date and the machine.

Usage: `python benchmarks/page.py [NAME]... [--policy P]...`, e.g. `recall cost`; without names, all. `--list` names
them. `--policy` measures only that policy, or those of that file, and puts their rows into the table. A table stands
between `<!-- begin NAME -->` and `<!-- end NAME -->` of NAME.md. After each, the summary of docs/benchmarks.md,
the rest of results/handover.md and the pictures (`three_ways`, `handover_page`, `draw_handover`, `draw_long`,
`draw_sizes`), and the figures that README.md and the documentation claim (see `claims`) are written from the tables;
`--summary` does only that, and `--check` only compares. Exit code 1 when a benchmark broke a promise or no table backs
a claim.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import draw_handover
import draw_long
import draw_sizes
import handover_page
import three_ways
from claims import UnbackedClaimError, filled, pages, unbacked
from summary import Table, summary, tables

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
SUMMARY = "summary"
BENCHMARKS = (
    "recall", "handover", "cost", "turn", "overhead", "long", "latency", "blocking", "storage", "sizes", "writers",
    "search", "many", "pruning", "cache", "optimiser", "facts", "injection",
)  # fmt: skip
"""In the order in which docs/benchmarks.md lists them."""
OF_POLICIES = ("recall", "handover", "cost")
"""Those whose rows are policies in windows."""


def places(page: str) -> list[str]:
    """The names of the places of a page, in order."""
    return re.findall(r"<!-- begin (\w+) -->\n(?:.*?)<!-- end \1 -->", page, re.DOTALL)


def put(page: str, name: str, table: str) -> str:
    """The page with a place filled."""
    before, rest = page.split(f"<!-- begin {name} -->\n", 1)
    return f"{before}{place(name, table)}{rest.split(f'<!-- end {name} -->', 1)[1]}"


def held(page: str, name: str) -> str:
    """What a place of a page holds."""
    return page.split(f"<!-- begin {name} -->\n", 1)[1].split(f"<!-- end {name} -->", 1)[0]


def place(name: str, table: str) -> str:
    """A table between its markers."""
    return f"<!-- begin {name} -->\n\n{table.strip()}\n\n<!-- end {name} -->"


def about(name: str) -> str:
    """What a benchmark measures: the first sentence of its file."""
    source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").split("\n\n", 1)[0].replace("\n", " ")


def commit() -> str:
    """The commit that was measured, and whether the library differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    measured = ["autocontext", "benchmarks", f":(exclude){RESULTS.relative_to(ROOT)}"]
    clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *measured], cwd=ROOT, check=False)
    return head.stdout.strip() + (" with changes" if clean.returncode else "")


def table(name: str, policies: Sequence[str] = ()) -> tuple[str, int]:
    """A benchmark's table and exit code; the table is "" when it could not be measured."""
    measured = commit()
    chosen = [word for policy in policies for word in ("--policy", policy)]
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--markdown", *chosen]
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=there, stdout=subprocess.PIPE, text=True, check=False)
    if not ran.stdout.startswith("|"):
        return "", ran.returncode or 1
    return f"{ran.stdout.strip()}, commit {measured}", ran.returncode


def joined(old: str, new: str, order: Sequence[str]) -> str:
    """A table of policies with the rows of another in their places, which are policies in `order` for each window.

    Below the line of the table's own run stands one for each later run of which rows are left.
    """
    rows = {_place_of(row): row for row in _rows(old)[2:]}
    measured = {_place_of(row): row for row in _rows(new)[2:]}
    if _rows(old)[:1] != _rows(new)[:1]:
        raise SystemExit("the table has other columns now; measure all of it")
    ranks = {name: n for n, name in enumerate(order)}
    rows |= measured
    places = sorted(rows, key=lambda at: (float(at[1].replace(",", "")), ranks.get(at[0], -1)))
    names = list(dict.fromkeys(name for name, _ in measured))
    first, *later = [line for line in old.splitlines() if line and not line.startswith("|")]
    runs = [(left, of.partition(": ")[2]) for of in later if (left := [n for n in _names(of) if n not in names])]
    runs.append((names, next(line for line in new.splitlines() if line and not line.startswith("|"))))
    said = [f"rows of {'; '.join(of)}: {run}" for of, run in runs]
    return "\n".join([*_rows(old)[:2], *(rows[at] for at in places), "", "\n\n".join([first, *said])])


def _rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line.startswith("|")]


def _place_of(row: str) -> tuple[str, str]:
    """The policy and the window of a row, its first two cells."""
    policy, window = (cell.strip() for cell in row.strip("|").split("|")[:2])
    return policy, window


def _names(line: str) -> list[str]:
    return line.removeprefix("rows of ").partition(": ")[0].split("; ")


def results() -> dict[str, Table]:
    """The tables of all benchmarks, by name."""
    return {name: rows for page in map(result, BENCHMARKS) for name, rows in tables(page.read_text("utf-8")).items()}


def result(name: str) -> Path:
    """The page of a benchmark."""
    return RESULTS / f"{name}.md"


def refresh(*, write: bool = True) -> int:
    """Write what is read from the tables, the summary and the claims, or only say where a page differs from them.

    1 when something measured is claimed that no table backs, or, without writing, when a page differs.
    """
    measured = results() | {"takeover": three_ways.table()}
    brief = summary(measured)
    measured |= tables(place(SUMMARY, brief))
    problems = [f"{path.relative_to(ROOT)} is not as the table has it" for path in _beside(measured, write=write)]
    for path in pages():
        old = path.read_text("utf-8")
        named = path.relative_to(ROOT)
        try:
            new = filled(put(old, SUMMARY, brief) if path == PAGE else old, measured)
        except UnbackedClaimError as error:
            problems.append(f"{named}: {error}")
            continue
        if write:
            path.write_text(new, "utf-8")
        elif new != old:
            lines = zip(old.splitlines(), new.splitlines(), strict=False)
            problems += [f"{named} says\n  {a}\nthe tables say\n  {b}" for a, b in lines if a != b]
        problems += [f"{named}: no table backs {claim!r}" for claim in unbacked(str(named), new)]
    print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
    return int(bool(problems))


def _beside(measured: dict[str, Table], *, write: bool) -> list[Path]:
    """Write what else shows the tables' figures, or name the files that differ from them."""
    page, seeds, table = result("handover"), result("takeover"), measured["handover"]
    now = {
        seeds: three_ways.filled(seeds.read_text("utf-8")),
        page: handover_page.filled(three_ways.filled(page.read_text("utf-8")), table),
        draw_handover.PICTURE: draw_handover.picture(table),
        draw_long.PICTURE: draw_long.picture(measured["long"]),
        draw_sizes.PICTURE: draw_sizes.picture(measured["sizes"]),
    }
    differ = [path for path, text in now.items() if not path.exists() or path.read_text("utf-8") != text]
    if not write:
        return differ
    for path in differ:
        path.write_text(now[path], "utf-8")
    return []


def main() -> int:
    """Run, fill in, and say how the worst of them ended; one that cannot be measured does not keep others from it."""
    parser = argparse.ArgumentParser(description="Run benchmarks and fill in benchmarks/results/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--policy", action="append", default=[], metavar="P", help="only the rows of this policy")
    parser.add_argument("--list", action="store_true", help="only name the benchmarks")
    parser.add_argument("--summary", action="store_true", help="only write the summary and the claims")
    parser.add_argument("--check", action="store_true", help="only compare the summary and the claims with the tables")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{name}\t{about(name)}" for name in BENCHMARKS))
        return 0
    if asked.summary or asked.check:
        return refresh(write=not asked.check)
    if unknown := [name for name in asked.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if asked.policy and not set(asked.names) <= set(OF_POLICIES):
        parser.error(f"--policy: only {', '.join(OF_POLICIES)} measure policies")
    worst = 0
    for name in asked.names or (OF_POLICIES if asked.policy else BENCHMARKS):
        print(f"{name} ...", file=sys.stderr, flush=True)
        text, code = table(name, asked.policy)
        if text:
            page = result(name).read_text("utf-8")
            if asked.policy:
                text = joined(held(page, name), text, importlib.import_module(name).COMPARED)
            result(name).write_text(put(page, name, text), "utf-8")
            code = max(code, refresh())
        else:
            print(f"{name}: not measured, its table stays as it is", file=sys.stderr)
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
