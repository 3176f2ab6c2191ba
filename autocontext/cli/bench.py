"""`autocontext bench`: lists the project's benchmarks, runs one, or measures the ranker on your data.

The benchmarks and their data are in the folder `benchmarks` of a clone; the installed package does not contain them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import autocontext
from autocontext.cli.arguments import Commands
from autocontext.cli.layout import Column
from autocontext.cli.screen import Screen
from autocontext.errors import ConfigError

NOT_INSTALLED = """\
The benchmarks are not part of the installed package. Clone the project's repository and run `pip install -e .` there; \
this command then lists and runs them. Without a clone, `autocontext bench facts FILE` works on your own data."""
_REFUSED = 2
"""Exit code of a benchmark for arguments that it does not take; it has said which."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add(
        "bench",
        run,
        "run the project's benchmarks, or measure the ranker on your data",
        "Lists the benchmarks of a clone, or runs the one named NAME. `bench facts FILE` ranks your own "
        "facts for labelled queries and prints recall@5, @10 and @15 by category. A line of FILE: "
        '{"id", "facts": [{"id", "content"}], "queries": [{"text", "evidence": [ids], "category"}]}. recall, handover '
        "and cost take files of conversations in OpenAI chat form.",
    )
    parser.add_argument(
        "benchmark", nargs="?", metavar="NAME", help="the benchmark to run, e.g. recall (default: list all)"
    )
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...",
        help="what it takes: your own data (with facts, - reads standard input) and options, which NAME --help lists",
    )  # fmt: skip


def run(screen: Screen, arguments: argparse.Namespace) -> bool:
    """List the benchmarks or run one; False if it failed. Raises ConfigError for an unknown one, or what it refuses."""
    name, words = arguments.benchmark, arguments.words
    files = [word for word in words if word == "-" or not word.startswith("-")]
    if name == "facts" and files:
        return _facts(screen, files[0], [*files[1:], *(word for word in words if word not in files)])
    benchmarks = list_benchmarks(clone())
    if name is None:
        show(screen, benchmarks)
        return True
    if not benchmarks:
        raise ConfigError(f"{'FILE is missing' if name == 'facts' else 'NAME'}: {NOT_INSTALLED}")
    if name not in benchmarks:
        raise ConfigError(f"NAME: no benchmark is called {name!r}; choose one of {', '.join(benchmarks)}")
    screen.flush()
    command = [sys.executable, str(clone() / "benchmarks" / f"{name}.py"), *words]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 (a script of the clone)
    if code == _REFUSED:
        raise ConfigError(f"{name} does not take this; `autocontext bench {name} --help` says what it takes")
    return code == 0


def _facts(screen: Screen, file: str, surplus: list[str]) -> bool:
    from autocontext.cli import facts  # noqa: PLC0415 (imports rankers, which other commands do not need)

    if surplus:
        raise ConfigError(f"bench facts takes one FILE and prints one table; leave out {' '.join(surplus)}")
    return facts.run(screen, file)


def clone() -> Path:
    """The root of the clone, if the package runs from one."""
    return Path(autocontext.__file__).parent.parent


def list_benchmarks(folder: Path) -> dict[str, str]:
    """What each benchmark of a clone measures, by name; {} without a clone."""
    page = folder / "benchmarks" / "page.py"
    if not page.is_file():
        return {}
    command = [sys.executable, str(page), "--list"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603 (the same)
    return dict(line.split("\t", 1) for line in listing.stdout.splitlines())


def show(screen: Screen, benchmarks: dict[str, str]) -> None:
    """Show the benchmarks, or where to get them."""
    if not benchmarks:
        screen.text(NOT_INSTALLED)
        return
    columns = (Column("benchmark", right=False), Column("measures", right=False))
    screen.table(columns, [[name, about] for name, about in benchmarks.items()])
    screen.text("Run one: autocontext bench NAME. Figures of a full run: docs/benchmarks.md and benchmarks/results.")
