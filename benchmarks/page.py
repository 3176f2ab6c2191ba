"""Runs benchmarks and puts their tables into docs/benchmarks.md, each with the commit, the date and the machine.

Usage: `python benchmarks/page.py [NAME]...`, e.g. `recall cost`; without names, all that have a place on the page: what
stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Exit code 1 when a benchmark broke a promise.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

from measure import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"


def places(page: str) -> list[str]:
    """Names of the benchmarks that have a place on the page, in order."""
    return re.findall(r"<!-- begin (\w+) -->\n(?:.*?)<!-- end \1 -->", page, re.DOTALL)


def put(page: str, name: str, table: str) -> str:
    """The page with a benchmark's place filled."""
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n{table.strip()}\n\n{end}{rest.split(end, 1)[1]}"


def commit() -> str:
    """The commit that was measured, and whether the library differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    clean = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "autocontext", "benchmarks"], cwd=ROOT, check=False)
    return head.stdout.strip() + (" with changes" if clean.returncode else "")


def main() -> int:
    """Run, fill in, and say how the worst of them ended."""
    parser = argparse.ArgumentParser(description="Run benchmarks and fill in docs/benchmarks.md.")
    parser.add_argument("names", nargs="*", help="benchmarks to run; all that have a place on the page by default")
    known = places(PAGE.read_text(encoding="utf-8"))
    names = parser.parse_args().names or known
    if unknown := set(names) - set(known):
        parser.error(f"no place on the page for {', '.join(sorted(unknown))}; there is one for {', '.join(known)}")
    worst = 0
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        measured = commit()
        command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--markdown"]
        ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if not ran.stdout.startswith("|"):
            return ran.returncode or 1
        worst = max(worst, ran.returncode)
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(put(page, name, f"{ran.stdout.strip()}, commit {measured}"), encoding="utf-8")
    return worst


if __name__ == "__main__":
    sys.exit(main())
