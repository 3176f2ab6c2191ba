"""The share of the values that an agent needs next and that its context still shows.

Usage: `python benchmarks/recall.py [--json | --markdown] [--policy NAME]... [--windows 4000,8000] [FILE.jsonl]...`.
Real conversations are replayed. Before every assistant message the policy says what the model would see. Decisions
(see `needs`) are scored when the history before them is larger than the window. No model is asked. The anchors' figures
are the same in every run; this library's vary by some tenths of a point, as its random UUIDs differ in tokens. Peers
run in an environment of their own (see `peers`), their summaries written by the same embedded summariser.

A value is *visible* when a message that is shown, system messages aside, holds it; *in context* when moreover one of
its original surroundings is there, which a bare list of identifiers does not earn; *reachable* when it is visible or in
a text that one reload brings back. *Whole*: visible, over whole arguments only. *Old*: visible, over the values that
plain truncation does not show. A context larger than the window counts as *over*, for a real call would have failed; it
is truncated before it is scored. Shares are pooled over values; *per conversation* is the mean of their shares.
Exit code 1 when a message of this library cannot be retrieved or a context is invalid.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chat import Chat, Remembered, Tokens, invalid, truncate, visible_text
from needs import Decision, Need, decisions, fewest_reloads, occurs
from policies import PEERS, Library, Policy, make
from replays import Column, Row, finish, kept_share, options, percent, progress, rows_beside_peers, source_of, turns

WINDOWS = (4_000, 8_000, 16_000, 32_000)
COMPARED = (
    "truncate", "hysteresis 50", "hysteresis 75", "lines", "lines30", *PEERS,
    "autocontext, no ledger", "autocontext",
)  # fmt: skip
GOALS = {4_000: 0.91, 8_000: 0.96, 16_000: 0.98, 32_000: 0.99}
"""In context, at least, for this library."""


@dataclass
class Scores:
    """What a policy came to in one conversation."""

    source: str
    values: int = 0
    visible: int = 0
    in_context: int = 0
    reachable: int = 0
    whole: int = 0
    whole_visible: int = 0
    old: int = 0
    old_visible: int = 0
    over: int = 0
    invalid: int = 0
    used: list[float] = field(default_factory=list)
    reloads: list[int] = field(default_factory=list)
    seconds: float = 0.0
    retrievable: float | None = None

    def score(self, needs: Sequence[Need], text: str, plain: str, more: Iterable[str]) -> None:
        """Add one decision: what is shown, what plain truncation would show, and what a reload would bring back."""
        visible = [occurs(need.value, text) for need in needs]
        missing = [need for need, there in zip(needs, visible, strict=True) if not there]
        behind = "\n".join(more) if missing else ""
        self.values += len(needs)
        self.visible += sum(visible)
        self.reachable += sum(visible) + sum(occurs(need.value, behind) for need in missing)
        self.reloads.append(fewest_reloads(missing))
        for need, there in zip(needs, visible, strict=True):
            self.in_context += there and any(around in text for around in need.surroundings)
            self.whole += need.whole
            self.whole_visible += there and need.whole
            if not occurs(need.value, plain):
                self.old += 1
                self.old_visible += there


class Conversation:
    """One conversation, with what it takes to score any policy on it."""

    def __init__(self, record: Row, count: Tokens) -> None:
        self.messages: list[Chat] = record["messages"]
        self.source, self.count = source_of(record), count
        self.decisions = decisions(self.messages, count)
        self._visible_text = Remembered(visible_text)
        self._plain: dict[tuple[int, int], str] = {}

    def scored(self, window: int) -> dict[int, Decision]:
        """The decisions that count in a window, by position."""
        return {d.at: d for d in self.decisions if d.scored(window)}

    def text(self, context: Iterable[Chat]) -> str:
        """Where a value is visible: everything shown but the system messages."""
        return "\n".join(self._visible_text(m) for m in context if m["role"] != "system")

    def plain(self, at: int, window: int) -> str:
        """What plain truncation shows."""
        if (at, window) not in self._plain:
            self._plain[at, window] = self.text(truncate(self.messages[:at], window, self.count))
        return self._plain[at, window]

    def replay(self, policy: Policy, window: int) -> Scores:
        """Ask a policy before every assistant message, and score what it shows."""
        scores, scored = Scores(self.source), self.scored(window)
        for at, new in turns(self.messages):
            begun = time.perf_counter()
            context = policy.step(new)
            scores.seconds += time.perf_counter() - begun
            if at not in scored:
                continue
            if self.count(context) > window:
                scores.over += 1
                context = truncate(context, window, self.count)
            scores.invalid += invalid(context)
            scores.used.append(self.count(context) / window)
            more = policy.reachable() if isinstance(policy, Library) else ()
            scores.score(scored[at].needs, self.text(context), self.plain(at, window), more)
        if isinstance(policy, Library):
            scores.retrievable = policy.retrievable
        return scores


def measured(records: Sequence[Row], names: Sequence[str], windows: Sequence[int]) -> Iterator[Row]:
    """One row for each window and policy that had decisions to score."""
    count = Tokens()
    results: dict[tuple[int, str], list[Scores]] = {(w, name): [] for w in windows for name in names}
    for n, record in enumerate(records, 1):
        conversation = Conversation(record, count)
        for (window, name), scores in results.items():
            progress(f"conversation {n} of {len(records)}, window {window:,}, {name}")
            if conversation.scored(window):
                scores.append(conversation.replay(make(name, window, count), window))
        count.forget()
    for (window, name), scores in results.items():
        if scores:
            yield row(name, window, scores)


def row(name: str, window: int, scores: Sequence[Scores]) -> Row:
    """The shares of one policy in one window, pooled over the values of all conversations."""

    def total(key: str) -> int:
        return sum(getattr(s, key) for s in scores)

    values, decided = total("values"), sum(len(s.used) for s in scores)
    reloads = [n for s in scores for n in s.reloads]
    kept = [s.retrievable for s in scores if s.retrievable is not None]
    goal = GOALS.get(window) if name == "autocontext" else None
    return {
        "policy": name,
        "window": window,
        "conversations": len(scores),
        "decisions": decided,
        "values": values,
        "visible": total("visible") / values,
        "in_context": total("in_context") / values,
        "goal": "" if goal is None else f"{goal:.0%}{'' if total('in_context') >= goal * values else ' missed'}",
        "whole": total("whole_visible") / max(1, total("whole")),
        "per_conversation": statistics.mean(s.visible / s.values for s in scores),
        "old": total("old_visible") / max(1, total("old")),
        "old_values": total("old"),
        "reachable": total("reachable") / values,
        "used": statistics.mean(share for s in scores for share in s.used),
        "over": total("over") / decided,
        "reloads": statistics.mean(reloads),
        "no_reload": sum(n == 0 for n in reloads) / len(reloads),
        "seconds": sum(s.seconds for s in scores),
        "retrievable": min(kept) if kept else None,
        "invalid": total("invalid"),
        "sources": {source: _of_source(source, scores) for source in sorted({s.source for s in scores})},
    }


def _of_source(source: str, scores: Sequence[Scores]) -> Row:
    own = [s for s in scores if s.source == source]
    values = sum(s.values for s in own)
    return {"conversations": len(own), "values": values, "visible": sum(s.visible for s in own) / values}


COLUMNS = (
    Column("policy", "policy"),
    Column("window", "window", "{:,}".format),
    Column("values", "values", "{:,}".format),
    Column("visible", "visible", percent),
    Column("in_context", "in context", percent),
    Column("goal", "goal"),
    Column("whole", "whole", percent),
    Column("per_conversation", "per conv.", percent),
    Column("old", "old", percent),
    Column("reachable", "reachable", percent),
    Column("used", "used", "{:.0%}".format),
    Column("over", "over", percent),
    Column("retrievable", "retrievable", kept_share),
    Column("invalid", "invalid"),
)


if __name__ == "__main__":
    asked = options("recall", COMPARED, WINDOWS)
    sys.exit(finish("recall", rows_beside_peers("recall", measured, asked), COLUMNS, asked))
