"""Runs benchmarks and writes their tables to benchmarks/results/ with the commit, the date and the machine.

Usage: `python benchmarks/page.py [NAME]...`, e.g. `recall cost`; without names, all. `--list` names them. A table
stands between `<!-- begin NAME -->` and `<!-- end NAME -->` of NAME.md. After each, the summary of docs/benchmarks.md,
the rest of results/handover.md and the pictures (`three_ways`, `handover_page`, `draw_handover`, `draw_long`,
`draw_sizes`), and the figures that README.md and the documentation claim (see `claims`) are written from the tables;
`--summary` does only that, and `--check` only compares. Exit code 1 when a benchmark broke a promise or no table backs
a claim.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
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


def places(page: str) -> list[str]:
    """The names of the places of a page, in order."""
    return re.findall(r"<!-- begin (\w+) -->\n(?:.*?)<!-- end \1 -->", page, re.DOTALL)


def put(page: str, name: str, table: str) -> str:
    """The page with a place filled."""
    before, rest = page.split(f"<!-- begin {name} -->\n", 1)
    return f"{before}{place(name, table)}{rest.split(f'<!-- end {name} -->', 1)[1]}"


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


def table(name: str) -> tuple[str, int]:
    """A benchmark's table and exit code; the table is "" when it could not be measured."""
    measured = commit()
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--markdown"]
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=there, stdout=subprocess.PIPE, text=True, check=False)
    if not ran.stdout.startswith("|"):
        return "", ran.returncode or 1
    return f"{ran.stdout.strip()}, commit {measured}", ran.returncode


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
    worst = 0
    for name in asked.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        text, code = table(name)
        if text:
            result(name).write_text(put(result(name).read_text("utf-8"), name, text), "utf-8")
            code = max(code, refresh())
        else:
            print(f"{name}: not measured, its table stays as it is", file=sys.stderr)
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
