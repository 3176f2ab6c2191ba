"""The input costs of replays with prompt caching, for each way of keeping the context small.

Usage: `python benchmarks/cost.py [--json | --markdown] [--policy NAME]... [--windows 16000] [FILE.jsonl]...`.
The 30 longest conversations are replayed. Of each model call, the longest prefix of whole messages that it shares with
the call before costs 0.1 a token, as cached input does; the rest costs 1. Writing to the cache is free here; a second
figure counts it as 1.25. There is no smallest prefix and no expiry. What a paid model reads to write notes costs 1; the
embedded summariser asks none. Peers that summarise need a model, so what it reads is on their bill. A call's prefix
*broke* when something it had shared with the call before has changed.
*Cost* is the bill beside that of sending everything in a window without end; *median* is that of each conversation.
Exit code 1 when a message of this library cannot be retrieved or a context is invalid.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chat import Chat, Tokens, invalid, truncate
from policies import PEERS, Library, make
from replays import Column, Row, finish, kept_share, options, percent, progress, rows_beside_peers, turns

WINDOWS = (16_000,)
LONGEST = 30
CACHED, WRITTEN = 0.1, 1.25
WITHOUT = "everything"
COMPARED = (
    "truncate", "hysteresis 50", "hysteresis 75", "lines", "lines30", *PEERS,
    "autocontext, no ledger", "autocontext", "autocontext, prices", "autocontext, paid notes",
)  # fmt: skip
GOALS = {16_000: 0.22}
"""Cost of this library, at most."""


@dataclass
class Bill:
    """Input tokens of one replay."""

    cached: int = 0
    fresh: int = 0
    notes: int = 0
    """What a paid model read to write notes."""
    calls: int = 0
    broken: int = 0
    over: int = 0
    invalid: int = 0
    retrievable: float | None = None

    def add(self, before: Sequence[Chat], context: Sequence[Chat], count: Tokens) -> None:
        """Add a call; what it shares with the context of the call before is cached."""
        shared = shared_prefix(before, context)
        cached = count(context[:shared])
        self.calls += 1
        self.cached += cached
        self.fresh += count(context) - cached
        self.broken += shared < len(before)

    def price(self, *, cached: float = CACHED, fresh: float = 1.0) -> float:
        """The total, in tokens of plain input."""
        return cached * self.cached + fresh * self.fresh + self.notes


def shared_prefix(before: Sequence[Chat], now: Sequence[Chat]) -> int:
    """How many messages two prompts begin with alike, as they are sent."""
    pairs = zip(before, now, strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a is not b and _sent(a) != _sent(b)), min(len(before), len(now))
    )


def _sent(message: Chat) -> str:
    keys = ("role", "content", "tool_calls", "tool_call_id")
    return json.dumps({key: message.get(key) for key in keys}, sort_keys=True)


def bill(messages: Sequence[Chat], name: str, window: int, count: Tokens) -> Bill:
    """Replay a conversation and add up what its calls send."""
    policy, costs = make(name, window, count), Bill()
    before: list[Chat] = []
    for _, new in turns(messages):
        context = policy.step(new)
        if name != WITHOUT and count(context) > window:
            costs.over += 1
            context = truncate(context, window, count)
        costs.invalid += invalid(context)
        costs.add(before, context, count)
        before = context
    costs.notes = getattr(policy, "note_tokens", 0)
    if isinstance(policy, Library):
        costs.retrievable = policy.retrievable
    return costs


def measured(records: Sequence[Row], names: Sequence[str], windows: Sequence[int]) -> Iterator[Row]:
    """One row for each window and policy."""
    count = Tokens()
    longest = sorted((r["messages"] for r in records), key=count, reverse=True)[:LONGEST]
    for window in windows:
        bills: dict[str, list[Bill]] = {name: [] for name in dict.fromkeys((WITHOUT, *names))}
        for n, messages in enumerate(longest, 1):
            for name, entries in bills.items():
                progress(f"conversation {n} of {len(longest)}, window {window:,}, {name}")
                entries.append(bill(messages, name, window, count))
            count.forget()
        yield from (row(name, window, entries, bills[WITHOUT]) for name, entries in bills.items())


def row(name: str, window: int, bills: Sequence[Bill], without: Sequence[Bill]) -> Row:
    """The cost of a policy, compared with sending everything."""

    def ratio(cached: float, fresh: float) -> float:
        ours, theirs = (sum(b.price(cached=cached, fresh=fresh) for b in side) for side in (bills, without))
        return ours / theirs

    cached, calls = sum(b.cached for b in bills), sum(b.calls for b in bills)
    sent = cached + sum(b.fresh for b in bills)
    cost, goal = ratio(CACHED, 1.0), GOALS.get(window) if name == "autocontext" else None
    kept = [b.retrievable for b in bills if b.retrievable is not None]
    return {
        "policy": name,
        "window": window,
        "conversations": len(bills),
        "calls": calls,
        "sent": sent,
        "notes": sum(b.notes for b in bills),
        "cached": cached / sent,
        "broken": sum(b.broken for b in bills) / calls,
        "cost": cost,
        "goal": "" if goal is None else f"{goal:g}{'' if cost <= goal else ' missed'}",
        "with_writes": ratio(CACHED, WRITTEN),
        "without_cache": ratio(1.0, 1.0),
        "median": statistics.median(a.price() / b.price() for a, b in zip(bills, without, strict=True)),
        "over": sum(b.over for b in bills) / calls,
        "retrievable": min(kept) if kept else None,
        "invalid": sum(b.invalid for b in bills),
    }


def _millions(tokens: int) -> str:
    return f"{tokens / 1e6:.2f} M"


COLUMNS = (
    Column("policy", "policy"),
    Column("window", "window", "{:,}".format),
    Column("calls", "calls", "{:,}".format),
    Column("sent", "tokens sent", _millions),
    Column("notes", "for notes", _millions),
    Column("cached", "cached", percent),
    Column("broken", "prefix broke", percent),
    Column("cost", "cost", "{:.3f}".format),
    Column("goal", "goal"),
    Column("with_writes", "writes at 1.25", "{:.2f}".format),
    Column("without_cache", "no caching", "{:.2f}".format),
    Column("median", "median", "{:.2f}".format),
    Column("over", "over", percent),
    Column("retrievable", "retrievable", kept_share),
    Column("invalid", "invalid"),
)


if __name__ == "__main__":
    asked = options("cost", COMPARED, WINDOWS)
    sys.exit(finish("cost", rows_beside_peers("cost", measured, asked), COLUMNS, asked))
