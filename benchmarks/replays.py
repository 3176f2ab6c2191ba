"""Real conversations to replay; the command line and the tables of the benchmarks that replay them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chat import Chat
from measure import ROOT, last_line, machine
from peers import ENVIRONMENTS, here, rows_from, versions
from policies import PEERS, POLICIES, plug_ins

from autocontext.errors import did_you_mean

DATA = ROOT / "tests" / "data" / "replay_dev.jsonl"
Row = dict[str, Any]
Measured = Callable[[Sequence[Row], Sequence[str], Sequence[int]], Iterable[Row]]
"""Conversations, names of policies and windows to rows."""


class Column(NamedTuple):
    """A column of a table: the key in a row, its heading, and how its value is written."""

    key: str
    heading: str
    write: Callable[[Any], str] = str


def percent(share: float) -> str:
    """A share as percent with one decimal; what is not all is not shown as 100."""
    return ">99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"


def kept_share(share: float | None) -> str:
    """Percent of the messages that can be retrieved; nothing for a policy that promises none."""
    return "" if share is None else f"{share:g} %"


def conversations(paths: Iterable[Path]) -> Iterator[Row]:
    """The conversations of JSON-lines files: {"id", "source", "messages"}."""
    for path in paths:
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.strip())


def source_of(conversation: Row) -> str:
    """The project a conversation was made with."""
    source = conversation.get("source", "")
    match = re.search(r"github:[^/\s]+/([^@/\s]+)", source)
    return match.group(1) if match else source.split("/")[0] or "?"


def turns(messages: Sequence[Chat]) -> Iterator[tuple[int, list[Chat]]]:
    """Index of every assistant message, with what came since the one before it."""
    last = 0
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            yield i, list(messages[last:i])
            last = i


def no_more(_: argparse.ArgumentParser) -> None:
    """A benchmark without options of its own."""


def options(
    name: str,
    policies: Sequence[str],
    windows: Sequence[int],
    arguments: Sequence[str] | None = None,
    *,
    also: Callable[[argparse.ArgumentParser], None] = no_more,
) -> argparse.Namespace:
    """The options of the command line; `policies` and `windows` are the defaults.

    `also` adds options of the benchmark's own.
    """
    parser = argparse.ArgumentParser(description=f"Benchmark: {name}.")
    parser.add_argument("files", nargs="*", type=Path, help="conversations in OpenAI chat form, one a line")
    parser.add_argument(
        "--policy",
        action="extend",
        type=_policies,
        metavar="NAME",
        dest="policies",
        help=f"one of {', '.join((*POLICIES, *PEERS)).replace('%', '%%')}; or a file of yours: mine.py, see "
        "benchmarks/README.md",
    )
    parser.add_argument("--windows", type=lambda text: [int(n) for n in text.split(",")], default=list(windows))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    form.add_argument("--markdown", action="store_true", help="the table for benchmarks/results")
    also(parser)
    options = parser.parse_args(arguments)
    options.files, options.policies = options.files or [DATA], options.policies or list(policies)
    return options


def _policies(text: str) -> list[str]:
    """The names that one --policy gives; a file's are known from then on."""
    file = Path(text)
    if file.suffix == ".py":
        try:
            mine = plug_ins(file.resolve())
        except (OSError, SyntaxError, ValueError) as e:
            raise argparse.ArgumentTypeError(str(e)) from e
        PEERS.update(mine)
        return list(mine)
    if text not in POLICIES and text not in PEERS:
        raise argparse.ArgumentTypeError(f"no policy {text!r}; {did_you_mean(text, [*POLICIES, *PEERS])}")
    return [text]


def rows_beside_peers(
    name: str, measured: Measured, asked: argparse.Namespace, passed_on: Sequence[str] = ()
) -> list[Row]:
    """The rows of this library and of its peers, each from an environment that has it; in the order asked for.

    Peers are left out where there is no such environment. `passed_on` are a benchmark's own options for them.
    """
    apart: dict[str, list[str]] = {}
    for policy in asked.policies:
        environment = PEERS[policy].environment if policy in PEERS else ""
        if environment:
            ENVIRONMENTS.setdefault(environment, PEERS[policy].requires)
        if environment and not here(environment):
            apart.setdefault(environment, []).append(policy)
    own = [policy for policy in asked.policies if not any(policy in names for names in apart.values())]
    rows = list(measured(list(conversations(asked.files)), own, asked.windows)) if own else []
    files = [str(path.resolve()) for path in asked.files]
    windows = ["--windows", ",".join(map(str, asked.windows))]
    beside = []
    for environment, names in apart.items():
        found = rows_from(environment, f"{name}.py", [*_chosen(names), *windows, *passed_on, *files])
        rows += [row for row in found if row["policy"] in names]
        beside.append(versions(environment))
    asked.beside = ", ".join(filter(None, beside))
    places = {policy: n for n, policy in enumerate(asked.policies)}
    return sorted(rows, key=lambda row: (asked.windows.index(row["window"]), places.get(row["policy"], -1)))


def _chosen(names: Sequence[str]) -> list[str]:
    """How an environment is told of policies of one file; of a file from elsewhere it knows no names, so takes all."""
    file = PEERS[names[0]].file
    policies = names if file.parent == Path(__file__).resolve().parent else [str(file)]
    return [word for policy in policies for word in ("--policy", policy)]


def progress(text: str) -> None:
    """One line on standard error that is written over by the next."""
    if sys.stderr.isatty():
        print(f"\r{text:<70}", end="", file=sys.stderr, flush=True)


def finish(name: str, rows: Sequence[Row], columns: Sequence[Column], form: argparse.Namespace) -> int:
    """Print the rows; 1 when a promise of this library is broken. What a peer's contexts are stays a figure."""
    progress("")
    if form.json:
        print(json.dumps({"benchmark": name, "machine": machine(), "rows": rows}, indent=1))
    else:
        cells = [[c.heading for c in columns], *([c.write(row[c.key]) for c in columns] for row in rows)]
        if form.markdown:
            cells.insert(1, ["---"] * len(columns))
            print("\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n")
        else:
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            for first, *others in cells:
                rest = "  ".join(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
                print(f"{first.ljust(widths[0])}  {rest}")
        print(", ".join(filter(None, [last_line(), getattr(form, "beside", "")])))
    ours = [row for row in rows if row["policy"] not in PEERS]
    return int(any(row["invalid"] or row["retrievable"] not in (None, 100.0) for row in ours))
