"""What a reader of the compressed context alone knows about the work so far.

Usage: `python benchmarks/handover.py [--json | --markdown] [--policy NAME]... [--windows 4000,8000] [--half tuning]
[--show ID] [--counter bytes4] [FILE.jsonl]...`.
Real conversations are replayed as in `recall`, which asks for single values and gives full marks to a heap of
fragments. This asks what a colleague who takes over would ask (`questions`), before up to 12 assistant messages of each
conversation, and knows the answers from the conversation itself. No model is asked. Answered means (`answers`):

- *needs*: the value stands in a whole line of its original, or in a piece of a long one, and it is clear where that
  comes from: in an original, or with the source named in the line, in the 30 above it, or by the message's role
- *changes*: a call that changed the thing is shown, or a line of a note has its name and says that it was changed
- *failures*: the failed result is shown, or its call is named with the error's own words in the 12 lines below
- *requests*: the sentence stands word for word; weighed by characters
- *done*: the call is shown, or a line of a note has its tool and label

*Fair* is the mean of the five, for a first glance. *Broken*: of the lines of notes that quote an original, those cut
off inside a word without an ellipsis. *Later*: of the characters of such lines, those in lines with a value that a
later call uses, a sign of noise where it is low. *Notes* and *used*: shares of the window. *Reachable*: of the needed
values those that are visible, or in a text that one call of the library's own reload tool brings back, where it has
one. A context larger than the window counts as *over* and is truncated before it is asked. Shares are pooled; *per
conv.* is the mean of the five over conversations.
*Planted*: of the constraints that a user states once in a second replay (`planted`), the share that stands word for
word at each later probe. *Bill*: what the calls' input costs with prompt caching, beside sending everything (`cost`).

`--half` takes one part of the shared conversations, for tuning on the one and looking at the other. `--show ID` prints
the notes of a conversation's contexts, and how each answers. `--model openai:NAME` lets that model write the notes, the
peers' and ours, with your key in OPENAI_API_KEY.
Exit code 1 when this library loses a message, a value is not reachable, or a context is invalid.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from answers import View
from chat import COUNTERS, Chat, Tokens, invalid, truncate, visible_text
from cost import Bill
from needs import occurs
from peer_notes import MODEL, named
from planted import known, planted
from policies import PEERS, Everything, Library, Policy, Reloading, make
from questions import QUESTIONS, Probes
from replays import (
    DATA,
    Column,
    Row,
    conversations,
    finish,
    kept_share,
    options,
    percent,
    progress,
    rows_beside_peers,
    turns,
)

WINDOWS = (4_000, 8_000, 16_000, 32_000)
COMPARED = ("truncate", "casefile", "lines30", *PEERS, "autocontext")
_BROKEN = 0.003
GOALS: dict[int, dict[str, float]] = {
    4_000: {"needs": 0.95, "changes": 0.88, "failures": 0.62, "requests": 0.75, "done": 0.95, "notes": 0.28},
    8_000: {"needs": 0.985, "changes": 1.0, "failures": 0.78, "requests": 0.85, "done": 1.0, "notes": 0.22},
    16_000: {"needs": 0.985, "changes": 1.0, "failures": 0.96, "requests": 0.96, "done": 1.0, "notes": 0.18},
    32_000: {"notes": 0.15},
}
"""For this library, on the shared conversations: of each question at least, of the notes at most."""
HALVES = ("all", "tuning", "held-out")

Show = Callable[[str], None]


@dataclass
class Share:
    """How much of what was asked is answered."""

    yes: int = 0
    of: int = 0

    def add(self, yes: int, of: int) -> None:
        self.yes += yes
        self.of += of

    def __add__(self, other: Share) -> Share:
        return Share(self.yes + other.yes, self.of + other.of)

    @property
    def value(self) -> float:
        """0 where nothing was asked."""
        return self.yes / self.of if self.of else 0.0


def _shares() -> dict[str, Share]:
    return {question: Share() for question in QUESTIONS}


@dataclass
class Scores:
    """What a policy came to in one conversation."""

    answers: dict[str, Share] = field(default_factory=_shares)
    broken: Share = field(default_factory=Share)
    """Of the quoted lines."""
    later: Share = field(default_factory=Share)
    """Of the quoted characters."""
    reachable: Share = field(default_factory=Share)
    """Of the needed values."""
    planted: Share = field(default_factory=Share)
    bill: Bill = field(default_factory=Bill)
    everything: float = 0.0
    """What sending everything costs."""
    probes: int = 0
    over: int = 0
    invalid: int = 0
    notes: int = 0
    """Tokens, as is `used`."""
    used: int = 0
    seconds: float = 0.0
    retrievable: float | None = None

    def score(self, view: View, more: Iterable[str]) -> None:
        """Add what a context answers, and what a reload would bring back."""
        for question, (yes, of) in view.answers().items():
            self.answers[question].add(yes, of)
        for quote in view.quotes():
            self.broken.add(quote.broken, 1)
            self.later.add(quote.chars * quote.useful, quote.chars)
        missing = [value for value in view.probe.needs if not occurs(value, view.text)]
        behind = "\n".join(more) if missing else ""
        lost = sum(not occurs(value, behind) for value in missing)
        self.reachable.add(len(view.probe.needs) - lost, len(view.probe.needs))


class Conversation:
    """One conversation, with what it takes to score any policy on it."""

    def __init__(self, messages: Sequence[Chat], count: Tokens, number: int = 0) -> None:
        self.messages, self.count = messages, count
        self.probes = Probes(messages, count)
        self.with_planted, self.planted = planted(messages, number)
        self._places = Probes(self.with_planted, count)
        self.everything = self._bill(Everything(0, count))

    def replay(self, policy: Policy, window: int, show: Show | None = None) -> Scores:
        """Ask a policy before every assistant message, and score what it shows at the probes."""
        scores, places = Scores(everything=self.everything), set(self.probes.places(window))
        before: list[Chat] = []
        for at, new in turns(self.messages):
            begun = time.perf_counter()
            context = policy.step(new)
            scores.seconds += time.perf_counter() - begun
            over = self.count(context) > window
            context = truncate(context, window, self.count)
            scores.bill.add(before, context, self.count)
            before = context
            if at not in places:
                continue
            scores.over += over
            view = View(context, self.probes.at(at))
            self._weigh(scores, context, view)
            scores.score(view, policy.reachable() if isinstance(policy, Reloading) else ())
            if show:
                show(view_text(view))
        scores.bill.notes = getattr(policy, "note_tokens", 0)
        if isinstance(policy, Library):
            scores.retrievable = policy.retrievable
        return scores

    def replay_planted(self, policy: Policy, window: int) -> Share:
        """Ask a policy again, about constraints that a user states once."""
        share, places = Share(), set(self._places.places(window))
        for at, new in turns(self.with_planted):
            context = policy.step(new)
            if at in places:
                text = "\n".join(map(visible_text, truncate(context, window, self.count)))
                said = [constraint for place, constraint in self.planted.items() if place < at]
                share.add(known(said, text), len(said))
        return share

    def _bill(self, policy: Policy) -> float:
        bill, before = Bill(), list[Chat]()
        for _, new in turns(self.messages):
            context = policy.step(new)
            bill.add(before, context, self.count)
            before = context
        return bill.price()

    def _weigh(self, scores: Scores, context: Sequence[Chat], view: View) -> None:
        """Add what a context and its notes take up, and whether a model would accept it."""
        scores.probes += 1
        scores.invalid += invalid(context)
        scores.used += self.count(context)
        scores.notes += sum(self.count.text("\n".join(note.lines)) for note in view.notes)


def view_text(view: View) -> str:
    """The notes of a context, and how it answers."""
    answers = ", ".join(f"{question} {yes} of {of}" for question, (yes, of) in view.answers().items())
    lines = (f"[{note.role}] {line}" for note in view.notes for line in note.lines)
    return "\n".join([f"--- before message {view.probe.at}", *lines, answers])


def measured(
    records: Sequence[Row],
    names: Sequence[str],
    windows: Sequence[int],
    *,
    half: str = "all",
    counter: str = "o200k_base",
    only: str = "",
    show: Show | None = None,
) -> Iterator[Row]:
    """One row for each window and policy that had something to answer; `only` is a part of a conversation's id."""
    count = Tokens(counter)
    results: dict[tuple[int, str], list[Scores]] = {(w, name): [] for w in windows for name in names}
    records = [r for r in of_half(records, half) if only in r["id"]]
    for n, record in enumerate(records, 1):
        conversation = Conversation(record["messages"], count, n - 1)
        for (window, name), scores in results.items():
            progress(f"conversation {n} of {len(records)}, window {window:,}, {name}")
            if conversation.probes.places(window):
                if show:
                    show(f"=== {record['id']}, window {window:,}, {name}")
                scores.append(conversation.replay(make(name, window, count), window, show))
                scores[-1].planted = conversation.replay_planted(make(name, window, count), window)
        count.forget()
    for (window, name), scores in results.items():
        if scores:
            yield row(name, window, scores)


def of_half(records: Iterable[Row], half: str) -> list[Row]:
    """The records of one half of the shared conversations; others are in no half, only in all.

    Every second one is held out. The first, by far the longest, is for tuning, or it would decide the other half alone.
    """
    if half == "all":
        return list(records)
    parity = HALVES.index(half) - 1
    ids = {record["id"] for n, record in enumerate(conversations([DATA])) if n % 2 == parity}
    return [record for record in records if record["id"] in ids]


def row(name: str, window: int, scores: Sequence[Scores]) -> Row:
    """The shares of one policy in one window, pooled over all conversations."""
    probes = sum(s.probes for s in scores)
    pooled = {q: sum((s.answers[q] for s in scores), Share()) for q in QUESTIONS}
    each = {q: [s.answers[q].value for s in scores if s.answers[q].of] for q in QUESTIONS}
    means = {q: statistics.mean(values) if values else 0.0 for q, values in each.items()}
    retrievable = [s.retrievable for s in scores if s.retrievable is not None]
    columns = {
        "policy": name,
        "window": window,
        "conversations": len(scores),
        "probes": probes,
        **{q: share.value for q, share in pooled.items()},
        "fair": statistics.mean(share.value for share in pooled.values()),
        "per_conversation": statistics.mean(means.values()),
        "means": means,
        "asked": {q: share.of for q, share in pooled.items()},
        "planted": sum((s.planted for s in scores), Share()).value,
        "bill": sum(s.bill.price() for s in scores) / (sum(s.everything for s in scores) or 1),
        "broken": sum((s.broken for s in scores), Share()).value,
        "later": sum((s.later for s in scores), Share()).value,
        "notes": sum(s.notes for s in scores) / probes / window,
        "used": sum(s.used for s in scores) / probes / window,
        "over": sum(s.over for s in scores) / probes,
        "reachable": sum((s.reachable for s in scores), Share()).value,
        "seconds": sum(s.seconds for s in scores),
        "retrievable": min(retrievable) if retrievable else None,
        "invalid": sum(s.invalid for s in scores),
    }
    # The goals are for the embedded summariser.
    return {**columns, "goal": verdict(columns) if name == "autocontext" and not os.environ.get(MODEL) else ""}


def verdict(columns: Row) -> str:
    """Which goals of its window a row misses."""
    goals = GOALS.get(columns["window"])
    if goals is None:
        return ""
    missed = [f"{key} {100 * goal:g}" for key, goal in goals.items() if key in QUESTIONS and columns[key] < goal]
    most = {"notes": goals["notes"], "broken": _BROKEN}
    missed += [f"{key} {100 * goal:g}" for key, goal in most.items() if columns[key] > goal]
    return f"MISSED: {', '.join(missed)}" if missed else "met"


COLUMNS = (
    Column("policy", "policy"),
    Column("window", "window", "{:,}".format),
    Column("probes", "probes"),
    *(Column(question, question, percent) for question in QUESTIONS),
    Column("fair", "fair", percent),
    Column("per_conversation", "per conv.", percent),
    Column("planted", "planted", percent),
    Column("bill", "bill", "{:.2f}".format),
    Column("broken", "broken", percent),
    Column("later", "later", "{:.0%}".format),
    Column("notes", "notes", "{:.0%}".format),
    Column("used", "used", "{:.0%}".format),
    Column("over", "over", percent),
    Column("reachable", "reachable", percent),
    Column("goal", "goal"),
    Column("retrievable", "retrievable", kept_share),
    Column("invalid", "invalid"),
)


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--half", choices=HALVES, default="all", help="one half of the shared conversations")
    parser.add_argument("--counter", choices=COUNTERS, default="o200k_base", help="what counts tokens")
    parser.add_argument(
        "--show", metavar="ID", default="", help="print the notes of the conversations with this in their id"
    )
    parser.add_argument(
        "--model", type=_model, help="what writes the notes, such as openai:gpt-4.1-mini (your key, your bill)"
    )


def _model(text: str) -> str:
    try:
        return named(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e


def main() -> int:
    """Measure, print, and say whether this library's promises hold."""
    asked = options("handover", COMPARED, WINDOWS, also=_own_options)
    if asked.model:
        os.environ[MODEL] = asked.model  # read where notes are written, in the peers' environments too
    # A table that is read by another program stays alone on standard output.
    aside = sys.stderr if asked.json or asked.markdown else sys.stdout
    show = partial(print, file=aside) if asked.show else None
    measure = partial(measured, half=asked.half, counter=asked.counter, only=asked.show, show=show)
    passed_on = ["--half", asked.half, "--counter", asked.counter, "--show", asked.show]
    rows = rows_beside_peers("handover", measure, asked, passed_on)
    broken = any(row["retrievable"] is not None and row["reachable"] < 1 for row in rows)
    asked.beside = ", ".join(filter(None, [asked.beside, f"notes by {asked.model}" if asked.model else ""]))
    return int(finish("handover", rows, COLUMNS, asked) or broken)


if __name__ == "__main__":
    sys.exit(main())
