"""The table of docs/benchmarks.md: our figure, the best peer's, and who is better, read from benchmarks/results/.

Nothing is measured here, so the summary says nothing that those tables do not say.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

Table = list[dict[str, str]]
"""The rows of a table, each by heading."""
OURS = "this library"
LIBRARIES = (
    r"langchain|agent-framework|agentscope|deepagents|strands|pydantic-ai|openai-agents|headroom|llmslim"
    r"|summarization-pydantic-ai|compact-middleware|cliffcompaction|contextpress|secondwind|trimtok"
)
PLAIN = ("everything", "truncate", "hysteresis 50", "hysteresis 75", "lines", "lines30", "casefile")
"""Methods that need no library."""
_CLOSE = 0.02
"""Figures that differ by less than this share count as equal."""


@dataclass(frozen=True)
class Comparison:
    """One line of the summary before it is written."""

    what: str
    ours: float
    peers: dict[str, float]
    unit: str
    more_is_better: bool = False
    note: str = ""

    def line(self) -> str:
        """As a row: what, ours, the best peer, and who is better."""
        best = (max if self.more_is_better else min)(self.peers, key=self.peers.__getitem__)
        ahead = [name for name in self.peers if self._better(self.peers[name], self.ours)]
        behind = self._better(self.ours, self.peers[best])
        who = OURS if behind else f"**{'; '.join(ahead)}**" if ahead else "equal"
        note = f" ({self.note})" if self.note else ""
        peer = f"{best}: {written(self.peers[best], self.unit)}"
        return f"| {self.what} | {written(self.ours, self.unit)} | {peer} | {who}{note} |"

    def _better(self, one: float, other: float) -> bool:
        gain = one - other if self.more_is_better else other - one
        return gain > _CLOSE * abs(other) / (10 if self.unit == "%" else 1)


def written(value: float, unit: str) -> str:
    """A figure with its unit."""
    figure = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if unit == "%" else f"{value:.3g}"
    return f"{figure} {unit}".strip()


def tables(page: str) -> dict[str, Table]:
    """The filled tables of a page, by the name of their place."""
    tables = {}
    for name, text in re.findall(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", page, re.DOTALL):
        lines = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in text.splitlines()
            if line.startswith("|")
        ]
        if len(lines) > 2:
            tables[name] = [dict(zip(lines[0], line, strict=False)) for line in lines[2:]]
    return tables


def number(text: str) -> float:
    """The number a cell begins with."""
    match = re.match(r">?(-?[\d,.]+(?:e[+-]?\d+)?)", text)
    if match is None:
        raise ValueError(f"no number in {text!r}")
    return float(match[1].replace(",", ""))


def unit(text: str) -> str:
    """The text after the number."""
    return text.partition(" ")[2]


# ------------------------------------------------------------------------------------------------------ comparisons
def recall(table: Table) -> Iterator[Comparison]:
    return _by_window(table, "in context", "what the next calls need, in context")


def handover(table: Table) -> Iterator[Comparison]:
    return _by_window(table, "fair", "five older questions")


def takeover(table: Table) -> Iterator[Comparison]:
    kinds = {"replay_more": "new kinds of work", "replay_dev": "known kinds of work"}
    for set_, of in kinds.items():
        what = f"a colleague's six questions, {of}"
        yield from _by_window([row for row in table if row["set"] == set_], "mean", what)


def _by_window(table: Table, heading: str, what: str) -> Iterator[Comparison]:
    """A share of which more is better, compared with other libraries and with plain methods."""
    for window in ("4,000", "16,000", "32,000"):
        rows = {row["policy"]: number(row[heading]) for row in table if row["window"] == window}
        if "autocontext" not in rows:
            continue
        libraries = {name: value for name, value in rows.items() if re.match(LIBRARIES, name)}
        plain = {name: value for name, value in rows.items() if name not in libraries and "autocontext" not in name}
        for peers, beside in ((libraries, ""), (plain, ", plain methods")):
            if peers:
                line = f"{what}, window {window}{beside}"
                yield Comparison(line, rows["autocontext"], peers, "%", more_is_better=True)


def cost(table: Table) -> Iterator[Comparison]:
    rows = {row["policy"]: number(row["cost"]) for row in table if row["window"] == "16,000"}
    peers = {name: value for name, value in rows.items() if re.match(LIBRARIES, name)}
    plain: dict[str, float] = {
        name: rows[name] for name in ("truncate", "hysteresis 50", "lines", "lines30") if name in rows
    }
    what = "input bill, window 16,000, of sending everything"
    for name, ours in (("notes by rules", "autocontext"), ("paid notes", "autocontext, paid notes")):
        if ours in rows and peers:
            yield Comparison(f"{what}, {name}", rows[ours], peers, "x")
    if "autocontext" in rows and plain:
        yield Comparison(f"{what}, plain methods", rows["autocontext"], plain, "x")


def turn(table: Table) -> Iterator[Comparison]:
    for size in ("100", "1,000", "10,000"):
        yield from _of_turn(table, f"check at {size} messages")
    calls = "theirs is one summary of everything, ours one for each round"
    yield from _of_turn(table, "a pass over 16 rounds", calls)


def _of_turn(table: Table, what: str, note: str = "") -> Iterator[Comparison]:
    rows = {row["what"].removeprefix(f"{what}: "): row for row in table if row["what"].startswith(f"{what}: ")}
    peers = {
        name: number(row["figure"])
        for name, row in rows.items()
        if name != "autocontext" and not name.endswith("no check")
    }
    if "autocontext" in rows and peers:
        figure = rows["autocontext"]["figure"]
        yield Comparison(f"a turn: {what}", number(figure), peers, unit(figure), note=note)


def storage(table: Table) -> Iterator[Comparison]:
    opening = ("open 1,000 messages", "open 1,000 messages and read every one")
    for name in ("save one message durably", "bytes on disk per byte of text", *opening, "eight writers on one file"):
        at = next((i for i, row in enumerate(table) if row["what"] == name), None)
        if at is None:
            continue
        peers = {}
        for row in table[at + 1 :]:
            if not re.match("openai-agents|langgraph", row["what"]):
                break
            peers[row["what"]] = number(row["figure"])
        if peers:
            figure = table[at]["figure"]
            more = name.startswith("eight")
            yield Comparison(name, number(figure), peers, unit(figure), more_is_better=more)


def cache(table: Table) -> Iterator[Comparison]:
    for row in table:
        ratio, _, peer = row["compared, in the same run"].partition(" x ")
        if "diskcache" in peer:
            ours = number(row["figure"])
            name = f"result cache: {row['what']}"
            yield Comparison(name, ours, {peer.partition("=")[0]: ours / float(ratio)}, unit(row["figure"]))


def facts(table: Table) -> Iterator[Comparison]:
    shares: dict[str, list[float]] = {}
    for row in table:
        if "recall@10" in row["figure"]:
            shares.setdefault(row["what"].partition(": ")[2], []).append(100 * number(row["figure"]))
    means = {name: statistics.mean(values) for name, values in shares.items()}
    peers = {name: mean for name, mean in means.items() if re.match("scikit-learn|bm25s", name)}
    if "default_ranker" in means and peers:
        what = "facts that a question is about, among the first 10, mean of the sets"
        yield Comparison(what, means["default_ranker"], peers, "%", more_is_better=True)


def optimiser(table: Table) -> Iterator[Comparison]:
    for ours, theirs in pairwise(table):
        if ours["what"].endswith(", autocontext") and theirs["what"].endswith(", the original's way"):
            lost = 100 - number(theirs["more"].partition("retrievable ")[2])
            case = ours["what"].partition(": ")[2].partition(",")[0]
            yield Comparison(
                f"optimised state of {case}", number(ours["figure"]), {"the original": number(theirs["figure"])},
                "bytes", note=f"the original loses {lost:.0f} % of the messages for good, this library none",
            )  # fmt: skip


def pruning(table: Table) -> Iterator[Comparison]:
    for row in table:
        match = re.search(r"the original (?:[\d,]+ )?to ([\d,]+)", row["more"])
        if match and row["what"].startswith(("b", "c: compressed")):
            peers = {"the original, as published": number(match[1])}
            yield Comparison(f"pruning, {row['what'][3:]}", number(row["figure"]), peers, "characters")


COMPARED: dict[str, Callable[[Table], Iterator[Comparison]]] = {
    "recall": recall, "takeover": takeover, "handover": handover, "cost": cost, "turn": turn, "storage": storage,
    "pruning": pruning, "cache": cache, "optimiser": optimiser, "facts": facts,
}  # fmt: skip


def summary(filled: Mapping[str, Table]) -> str:
    """The table, with a line for each comparison that the benchmarks' tables allow."""
    lines = [c.line() for name, compared in COMPARED.items() if name in filled for c in compared(filled[name])]
    return "\n".join(["| what | this library | best of the others | better |", "|---|---|---|---|", *lines])
