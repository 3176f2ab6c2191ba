"""Runs benchmarks and puts their tables into docs/benchmarks.md, each with the commit, the date and the machine.

Usage: `python benchmarks/page.py [NAME]...`, e.g. `recall cost`; without names, all. `--list` names them; `--summary`
only writes the first table anew from the others. A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.
Exit code 1 when a benchmark broke a promise.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from summary import summary

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
SUMMARY = "summary"
BENCHMARKS = (
    "recall", "handover", "cost", "turn", "overhead", "latency", "blocking", "storage", "pruning", "cache", "optimiser",
    "facts", "injection",
)  # fmt: skip
"""In the order of the page."""


def places(page: str) -> list[str]:
    """Names of the benchmarks that have a place on the page, in order."""
    return re.findall(r"<!-- begin (\w+) -->\n(?:.*?)<!-- end \1 -->", page, re.DOTALL)


def put(page: str, name: str, table: str) -> str:
    """The page with a benchmark's place filled."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n{table.strip()}\n\n{end}{rest.split(end, 1)[1]}"


def about(name: str) -> str:
    """What a benchmark measures: the first sentence of its file."""
    source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").split("\n\n", 1)[0].replace("\n", " ")


def commit() -> str:
    """The commit that was measured, and whether the library differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "autocontext", "benchmarks"], cwd=ROOT, check=False)
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


def fill(name: str, text: str) -> None:
    """Write a table, and the summary of what the page then says."""
    page = put(PAGE.read_text(encoding="utf-8"), name, text)
    PAGE.write_text(put(page, SUMMARY, summary(page)), encoding="utf-8")


def main() -> int:
    """Run, fill in, and say how the worst of them ended; one that cannot be measured does not keep others from it."""
    parser = argparse.ArgumentParser(description="Run benchmarks and fill in docs/benchmarks.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--list", action="store_true", help="only name the benchmarks")
    parser.add_argument("--summary", action="store_true", help="only write the summary anew")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{name}\t{about(name)}" for name in BENCHMARKS))
        return 0
    if asked.summary:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(put(page, SUMMARY, summary(page)), encoding="utf-8")
        return 0
    if unknown := [name for name in asked.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    worst = 0
    for name in asked.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        text, code = table(name)
        if text:
            fill(name, text)
        else:
            print(f"{name}: not measured, its table stays as it is", file=sys.stderr)
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
