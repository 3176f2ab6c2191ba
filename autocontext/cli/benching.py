"""`autocontext bench`: names the project's benchmarks, runs one, or measures the ranker on data of one's own.

The benchmarks are no part of the installed package: they stand in the folder `benchmarks` of a clone, with their data.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import autocontext
from autocontext.cli.layout import Column
from autocontext.cli.screen import Screen
from autocontext.errors import ConfigError

ELSEWHERE = """\
The benchmarks are not installed: they stand in the folder `benchmarks` of the project's repository, with their data. In
a clone of it, after `pip install -e .`, this command names and runs them. What works everywhere, on data of your own: \
`autocontext bench facts FILE`."""
_OWN_DATA = ("facts", "recall", "handover", "cost")


def add(commands: Any, parent: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bench",
        parents=[parent],
        help="measure: the project's benchmarks, or the ranker on data of your own",
        description="Without NAME the benchmarks are named; with one it is run, from a clone of the project. `bench "
        "facts FILE` ranks facts of your own for labelled queries and prints recall@5, @10 and @15 by category. A line "
        'of FILE: {"id", "facts": [{"id", "content"}], "queries": [{"text", "evidence": [ids], "category"}]}. recall, '
        "handover and cost take files of conversations in OpenAI chat form.",
    )
    parser.set_defaults(command=run, name="bench")
    parser.add_argument("benchmark", nargs="?", metavar="NAME", help="which one, e.g. recall; none: their names")
    parser.add_argument("files", nargs="*", metavar="FILE", help="data of your own; - reads standard input (facts)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a benchmark's rows as one JSON object")
    form.add_argument("--markdown", action="store_true", help="a benchmark's rows as a Markdown table")


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """Name the benchmarks or run one; whether it kept its promises. Raises ConfigError for one that cannot be run."""
    name, files = arguments.benchmark, arguments.files
    form = [word for word in ("--json", "--markdown") if getattr(arguments, word[2:])]
    if name == "facts" and files:
        return _facts(screen, arguments, [*files[1:], *form])
    known = named(clone())
    if name is None:
        show(screen, known)
        return True
    if not known:
        raise ConfigError(f"NAME: {ELSEWHERE}")
    if name not in known:
        raise ConfigError(f"NAME: no benchmark is called {name!r}; there are {', '.join(known)}")
    if files and name not in _OWN_DATA:
        raise ConfigError(f"FILE: {name} takes no data; {', '.join(_OWN_DATA)} do")
    screen.flush()
    # With its own folder first on the path, as when it is called by hand.
    script = [sys.executable, str(clone() / "benchmarks" / f"{name}.py")]
    command = [*script, *form, *map(_absolute, files)]
    return subprocess.run(command, cwd=clone(), check=False).returncode == 0  # noqa: S603 (a script of the clone)


def _facts(screen: Screen, arguments: argparse.Namespace, more: list[str]) -> bool:
    from autocontext.cli import facts  # noqa: PLC0415 (rankers are not needed by the other commands)

    if more:
        raise ConfigError(f"bench facts takes one FILE and prints one table; leave out {' '.join(more)}")
    arguments.file = arguments.files[0]
    return facts.run(screen, arguments)


def clone() -> Path:
    """Where the project's folders are when the package is used out of a clone."""
    return Path(autocontext.__file__).parent.parent


def named(folder: Path) -> dict[str, str]:
    """What each benchmark of a clone measures, by its name; {} where there is no clone."""
    page = folder / "benchmarks" / "page.py"
    if not page.is_file():
        return {}
    command = [sys.executable, str(page), "--list"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603 (the same)
    return dict(line.split("\t", 1) for line in listed.stdout.splitlines())


def show(screen: Screen, known: dict[str, str]) -> None:
    """The names, or where the benchmarks are."""
    if not known:
        screen.text(ELSEWHERE)
        return
    columns = (Column("benchmark", right=False), Column("measures", right=False))
    screen.table(columns, [[name, about] for name, about in known.items()])
    screen.text("Run one: autocontext bench NAME. Figures of a full run: docs/benchmarks.md and benchmarks/results.")


def _absolute(file: str) -> str:
    return file if file == "-" else str(Path(file).absolute())
