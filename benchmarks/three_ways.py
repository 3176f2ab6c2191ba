"""What results/handover.md says of the takeover questions, of readers and of a real model; nothing is measured here.

Usage: `python benchmarks/three_ways.py SET SEED OUT.json...` takes in what `takeover.py --json` wrote of a set of
conversations, into results/takeover.json: one line a policy, window and seed. `page.py --summary` then writes the
tables. A place `<!-- asked KIND SET WINDOW -->` is filled from the first seed, by `_VIEWS`.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from peers import ENVIRONMENTS, versions
from policies import PEERS
from summary import Table

HERE = Path(__file__).resolve().parent
RECORDS = HERE / "results" / "takeover.json"
READINGS = HERE / "reading"
MODEL = HERE / "results" / "model.md"
OURS = "autocontext"
OTHERS = {
    "policy_autocontext.py:AutoContext": OURS,
    "graded.py:Graded": "Graded",
    "casefile.py:CaseFile": "CaseFile",
    "truncate": "truncation",
}
"""Policies that are no peers, by how `takeover.py` is told of them."""
PLAIN = tuple(name for name in OTHERS.values() if name != OURS)
QUESTIONS = ("next", "outcomes", "edits", "why", "requests", "done")
COSTS = ("false", "noise", "notes", "recent", "used", "over", "invalid")
"""Percent: of claims, of quoted characters, of the window (three times), of contexts (twice)."""
MORE, LESS = ("mean", *QUESTIONS, "recent"), ("false", "noise")
KINDS = {
    "cochise": "penetration tests",
    "specstory": "Claude Code, Codex",
    "magentic": "web and file team",
    "livemcp": "MCP servers",
    "deerflow": "deep research",
}
"""The kinds of work that nobody tuned on, by how the conversations' ids begin."""
KNOWN = "replay_dev"
"""The set that the library was developed on."""
_SEED = 1
_CLAIMS = 100
"""From how many claims on their share of false and of useless ones is shown."""
_CLOSE = 0.2
"""Points that count as equal."""
_PLACES = re.compile(r"<!-- asked (\w+)(?: (\w+) ([\d,]+))? -->\n.*?<!-- end asked -->", re.DOTALL)
Record = dict[str, Any]


# ---------------------------------------------------------------------------------------------------------- taking in
def take(set_: str, seed: int, outputs: Iterable[Path]) -> None:
    """Add what the measure wrote to the records, in place of what they had of the same."""
    kept = {_key(record): record for record in records()}
    for output in outputs:
        for run in json.loads(output.read_text("utf-8")):
            record = condensed(run, set_, seed)
            kept[_key(record)] = record
    lines = (json.dumps(kept[key], ensure_ascii=False) for key in sorted(kept))
    RECORDS.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def condensed(run: Mapping[str, Any], set_: str, seed: int) -> Record:
    """One line of the measure: means over conversations as it prints them, and the mean of each kind of work."""
    rows = [row for row in run["rows"] if row["probes"]]
    probes, window = sum(row["probes"] for row in rows), run["window"]
    cost = sum((Counter(row["cost"]) for row in rows), Counter[str]())
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["id"].split("/")[0], []).append(row)
    policy, requires = named(run["policy"])
    return {
        "set": set_,
        "window": window,
        "policy": policy,
        "seed": seed,
        "asked": run["policy"].rpartition("/")[2],
        "version": installed(requires),
        "conversations": len(rows),
        "contexts": probes,
        "mean": round(statistics.mean(_shares(rows).values()), 2),
        **{question: round(share, 2) for question, share in _shares(rows).items()},
        "false": _percent(cost["wrong"], cost["claims"]),
        "noise": _percent(cost["useless"], cost["chars"]),
        "claims": cost["claims"],
        "notes": _percent(sum(row["notes"] for row in rows), probes * window),
        "recent": _percent(cost["recent"], probes * window),
        "used": _percent(sum(row["used"] for row in rows), probes * window),
        "over": _percent(sum(row["over"] for row in rows), probes),
        "invalid": _percent(sum(row["invalid"] for row in rows), probes),
        "kinds": {kind: round(statistics.mean(_shares(of).values()), 2) for kind, of in sorted(kinds.items())},
    }


def named(asked: str) -> tuple[str, tuple[str, ...]]:
    """A policy's name, and the distributions it needs."""
    asked = asked.rpartition("/")[2]
    for name, peer in PEERS.items():
        if asked == f"{peer.file.name}:{peer.class_name}":
            return name, peer.requires
    return OTHERS[asked], ()


def installed(requires: tuple[str, ...]) -> str:
    """The versions that a peer's environment has."""
    environment = next((peer.environment for peer in PEERS.values() if requires and peer.requires == requires), "")
    if not environment:
        return ""
    ENVIRONMENTS.setdefault(environment, requires)
    return versions(environment)


def _shares(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Of each question that was asked, the mean over conversations in percent."""
    shares = {q: [100 * yes / of for row in rows for yes, of in [row["got"][q]] if of] for q in QUESTIONS}
    return {question: statistics.mean(found) for question, found in shares.items() if found}


def _percent(part: float, whole: float) -> float | None:
    """None where there was nothing that it could be a part of."""
    return round(100 * part / whole, 2) if whole else None


def _key(record: Record) -> tuple[str, int, str, int]:
    return record["set"], record["window"], record["policy"], record["seed"]


# -------------------------------------------------------------------------------------------------------------- views
def records() -> list[Record]:
    """All that was taken in."""
    found: list[Record] = json.loads(RECORDS.read_text("utf-8")) if RECORDS.exists() else []
    return found


def table() -> Table:
    """The records of the first seed as cells, for what the documentation claims."""
    return [
        {"set": r["set"], "window": f"{r['window']:,}", "policy": r["policy"]}
        | {column: _cell(r[column]) for column in ("mean", *QUESTIONS, *COSTS)}
        for r in records()
        if r["seed"] == _SEED
    ]


def filled(page: str) -> str:
    """The page with its places filled."""

    def place(match: re.Match[str]) -> str:
        kind, set_, window = match.groups()
        rows = [] if set_ is None else of(set_, int(window.replace(",", "")))
        head = match[0].partition("\n")[0]
        return f"{head}\n\n" + "\n".join(_VIEWS[kind](rows)) + "\n\n<!-- end asked -->"

    return _PLACES.sub(place, page)


def of(set_: str, window: int) -> list[Record]:
    """What the first seed has of a set and a window, the best mean first."""
    found = [r for r in records() if (r["set"], r["window"], r["seed"]) == (set_, window, _SEED)]
    return sorted(found, key=lambda record: -record["mean"])


def questions(rows: list[Record]) -> Iterator[str]:
    """The six questions and the costs, and who is ahead."""
    columns = ("mean", *QUESTIONS, *COSTS)
    yield from _table(rows, {c: c for c in columns}, told)
    yield ""
    yield from leaders(rows, (*MORE, *LESS), told)


def told(record: Record, column: str) -> float | None:
    """A figure; None for one about a note's claims where there are too few to say anything."""
    few = column in LESS and record["claims"] < _CLAIMS
    return None if few else record[column]


def kinds(rows: list[Record]) -> Iterator[str]:
    """The mean of each kind of work, and who is ahead."""
    heads = {kind: name for kind, name in KINDS.items() if any(kind in record["kinds"] for record in rows)}
    yield from _table(rows, heads, lambda record, kind: record["kinds"].get(kind))
    yield ""
    yield from leaders(rows, heads, lambda record, kind: record["kinds"].get(kind))


def lead(_: list[Record]) -> Iterator[str]:
    """The mean of each set and window, and who is ahead of this library."""
    heads = [*map(_shown, (OURS, *PLAIN)), "best other library", "ahead of this library"]
    yield f"| conversations | window | {' | '.join(heads)} |"
    yield "| --- |" + " ---: |" * (len(PLAIN) + 2) + " --- | --- |"
    for set_, window in sorted({(r["set"], r["window"]) for r in records()}, key=lambda at: (at[0] == KNOWN, at)):
        rows = of(set_, window)
        means = {r["policy"]: r["mean"] for r in rows}
        best = next((name for name in means if name in PEERS), "")
        better = [_shown(name) for name, mean in means.items() if ahead("mean", mean, means[OURS])]
        cells = [_cell(means[name]) for name in (OURS, *PLAIN)]
        cells += [f"{best} {_cell(means.get(best))}", ", ".join(better) or "nobody"]
        yield f"| {set_} | {window:,} | {' | '.join(cells)} |"


def seeds(_: list[Record]) -> Iterator[str]:
    """Means over seeds of whoever was asked with several, the means of each in brackets."""
    columns = (*QUESTIONS, "mean", "false", "notes", "recent")
    yield f"| set | window | policy | {' | '.join(columns)} |"
    yield "| --- | ---: | --- |" + " ---: |" * len(columns)
    found: dict[tuple[str, int, str], list[Record]] = {}
    for record in records():
        found.setdefault((record["set"], record["window"], record["policy"]), []).append(record)
    order = (OURS, *PLAIN)
    several = [key for key, of_ in found.items() if len(of_) > 1]
    for set_, window, policy in sorted(several, key=lambda k: (k[0] == KNOWN, k[1], order.index(k[2]))):
        same = found[set_, window, policy]
        cells = [_cell(statistics.mean(record[column] or 0.0 for record in same)) for column in columns]
        each = ", ".join(_cell(record["mean"]) for record in sorted(same, key=lambda record: record["seed"]))
        cells[columns.index("mean")] = f"**{cells[columns.index('mean')]}** ({each})"
        yield f"| {set_} | {window:,} | {_shown(policy)} | {' | '.join(cells)} |"


def runs(_: list[Record]) -> Iterator[str]:
    """How each policy is named to the measure, and what was installed."""
    yield "| library | `--policy` | installed |"
    yield "| --- | --- | --- |"
    seen = {r["policy"]: r for r in records() if r["seed"] == _SEED}
    for name in sorted(seen, key=lambda name: (name != OURS, name not in PLAIN, name.lower())):
        yield f"| {_shown(name)} | `{seen[name]['asked']}` | {seen[name]['version']} |"


def readings(_: list[Record]) -> Iterator[str]:
    """How often each policy came first and last, for each round whose notes are kept."""
    names = ("ours", "graded", "truncation")
    heads = [f"{name} {place}" for place in ("first", "last") for name in names]
    yield f"| round | places | {' | '.join(heads)} | first where nobody tuned |"
    yield "| --- |" + " ---: |" * (len(heads) + 2)
    all_: list[Record] = []
    for path in sorted(READINGS.glob("*-round-*.jsonl")):
        judged = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        all_ += judged
        yield _round(path.stem.rpartition("-")[2], judged, names)
    yield _round("all that are kept", all_, names)


def _round(label: str, judged: list[Record], names: Iterable[str]) -> str:
    first, last = (Counter(j["order"][at] for j in judged) for at in (0, -1))
    new = [j for j in judged if j["id"].split("/")[0] in KINDS]
    there = Counter(j["order"][0] for j in new)
    cells = [len(judged), *(first[n] for n in names), *(last[n] for n in names)]
    split = ", ".join(f"{name} {there[name]}" for name in names)
    return f"| {label} | {' | '.join(map(str, cells))} | {split} of {len(new)} |"


def model(_: list[Record]) -> Iterator[str]:
    """The first table of the model's page."""
    table = re.search(r"(?:^\|.*\n)+", MODEL.read_text("utf-8"), re.MULTILINE)
    assert table is not None
    yield from table[0].splitlines()


_VIEWS: dict[str, Callable[[list[Record]], Iterator[str]]] = {
    "lead": lead, "questions": questions, "kinds": kinds, "seeds": seeds, "runs": runs, "readings": readings,
    "model": model,
}  # fmt: skip
Figure = Callable[[Record, str], float | None]


def _table(rows: list[Record], heads: Mapping[str, str], figure: Figure) -> Iterator[str]:
    """A row a policy; whoever is ahead of this library is bold."""
    yield f"| library | {' | '.join(heads.values())} |"
    yield "| --- |" + " ---: |" * len(heads)
    ours = next((r for r in rows if r["policy"] == OURS), None)
    for record in rows:
        cells = [
            f"**{_cell(figure(record, c))}**"
            if ours and ahead(c, figure(record, c), figure(ours, c))
            else _cell(figure(record, c))
            for c in heads
        ]
        yield f"| {_shown(record['policy'])} | {' | '.join(cells)} |"


def leaders(rows: list[Record], columns: Iterable[str], figure: Figure) -> Iterator[str]:
    """For each column everybody who is ahead of this library, the best first."""
    ours = next((r for r in rows if r["policy"] == OURS), None)
    if ours is None:
        return
    yield "Ahead of this library:"
    yield ""
    for column in columns:
        mine = figure(ours, column)
        better = [r for r in rows if ahead(column, figure(r, column), mine)]
        better.sort(key=lambda r: (figure(r, column) or 0.0) * (1 if column in LESS else -1))
        who = ", ".join(f"{_shown(r['policy'])} ({_cell(figure(r, column))})" for r in better)
        yield f"- {KINDS.get(column, column)}: {who or 'nobody'}; this library {_cell(mine)}"


def ahead(column: str, theirs: float | None, ours: float | None) -> bool:
    """Whether somebody is better than this library in a column; kinds of work are means, so more is better."""
    if theirs is None or ours is None or column in set(COSTS) - {*MORE, *LESS}:
        return False
    gain = ours - theirs if column in LESS else theirs - ours
    return gain > _CLOSE


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _shown(name: str) -> str:
    if name == OURS:
        return "**this library**"
    return f"*{name}*" if name in PLAIN else name


if __name__ == "__main__":
    take(sys.argv[1], int(sys.argv[2]), map(Path, sys.argv[3:]))
