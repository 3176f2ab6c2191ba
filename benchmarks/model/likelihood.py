"""How likely a real model finds the agent's true next call under each policy's context.

    python -m benchmarks.model.likelihood DATA.jsonl --policy graded=FILE.py:Graded --window 2000 --to rows.jsonl

The prompt is the context (see `prompts`), the continuation the agent's next calls without its words before them, their
first 1,200 characters. Tokens are split in *old* ones, of values that occurred before and that truncation's context
does not show, and all *other* ones. A figure is the mean over places of the loss in nats a token (the negative
logarithm of the probability), and the difference from truncation's: below 0 is better than truncation. The interval
holds 95 % of 2,000 bootstrap samples of conversations, each with all of its places. *whole* is the unshortened history,
where it fits into the model and has at most --whole tokens; its difference is that of the same places.

Each place is a line in the file of --to as soon as it is measured; a second run goes on from there, and `--tell` prints
the tables only.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chat import COUNTERS, Chat, Tokens, visible_text
from needs import Decision, decisions, occurs
from reading.contexts import Factory, chosen, context_at
from replays import Row, conversations

from .endpoint import ADDRESS, Endpoint, Token
from .prompts import calls_text, plain_chat

BASE, WHOLE = "truncation", "whole"
KINDS = ("old", "other")
_CHARS = 1_200
_SAMPLES = 2_000


class Place(NamedTuple):
    """A decision of a conversation."""

    conversation: Row
    decision: Decision


def places(given: Sequence[Row], window: int, count: Tokens, each: int) -> list[Place]:
    """Up to `each` decisions of each conversation, evenly from all that are larger than the window.

    All conversations' middle ones come first, so that a run that ends early saw each conversation.
    """
    rounds: list[list[Place]] = [[] for _ in range(each)]
    for conversation in given:
        scored = [d for d in decisions(conversation["messages"], count) if d.scored(window)]
        for n, decision in enumerate(_spread(scored, each)):
            rounds[n].append(Place(conversation, decision))
    return [place for round_ in rounds for place in round_]


def _spread(scored: Sequence[Decision], each: int) -> list[Decision]:
    """Up to `each`, at even distances, the one nearest to the middle first."""
    number = min(each, len(scored))
    at = [len(scored) * (2 * n + 1) // (2 * number) for n in range(number)]
    return [scored[n] for n in sorted(at, key=lambda n: abs(n - len(scored) / 2))]


def old_values(decision: Decision, truncated: Iterable[Chat]) -> list[str]:
    """The values of a decision that truncation's context does not show."""
    text = "\n".join(map(visible_text, truncated))
    return [need.value for need in decision.needs if not occurs(need.value, text)]


def losses(tokens: Sequence[Token], continuation: str, old: Sequence[str]) -> dict[str, list[float]]:
    """The loss of each token, by kind; a token that holds a part of an old value is old."""
    spans = [span for value in old for span in _spans(json.dumps(value, ensure_ascii=False)[1:-1], continuation)]
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for start, end, logprob in tokens:
        # Several tokens can be the bytes of one character; all but the last of them have no width.
        held = any(start < stop and begin < max(end, start + 1) for begin, stop in spans)
        found["old" if held else "other"].append(-logprob)
    return found


def _spans(value: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + len(value))


def contexts_of(
    place: Place, policies: Mapping[str, Factory], window: int, whole: int, count: Tokens
) -> dict[str, list[Chat]]:
    """The context of each policy, and the whole history if it has at most `whole` tokens."""
    messages, at = place.conversation["messages"], place.decision.at
    contexts = {name: context_at(messages, at, make, window, count) for name, make in policies.items()}
    return contexts | ({WHOLE: messages[:at]} if place.decision.tokens <= whole else {})


def measured(place: Place, contexts: Mapping[str, Sequence[Chat]], model: Endpoint) -> Row:
    """The losses of a place under each context; one that does not fit into the model is missing."""
    messages, at = place.conversation["messages"], place.decision.at
    old = old_values(place.decision, contexts[BASE])
    continuation = calls_text(messages[at])[:_CHARS]
    rows = {}
    for name, context in contexts.items():
        tokens = model.tokens(plain_chat(context), continuation)
        if tokens is not None:
            rows[name] = losses(tokens, continuation, old)
    return {"id": place.conversation["id"], "at": at, "old": old, "losses": rows}


def differences(rows: Iterable[Row], policy: str, kind: str, base: str) -> dict[str, list[float]]:
    """By conversation: at each place with tokens of that kind, a policy's loss a token less the base's."""
    found: dict[str, list[float]] = {}
    for row in rows:
        mine, theirs = (row["losses"].get(name, {}).get(kind) for name in (policy, base))
        if mine and theirs:
            found.setdefault(row["id"], []).append(statistics.fmean(mine) - statistics.fmean(theirs))
    return found


def interval(groups: Mapping[str, Sequence[float]], dice: random.Random) -> tuple[float, float]:
    """What holds 95 % of the means of bootstrap samples of whole groups."""
    values = list(groups.values())
    means = sorted(
        statistics.fmean(x for group in dice.choices(values, k=len(values)) for x in group) for _ in range(_SAMPLES)
    )
    return means[int(0.025 * _SAMPLES)], means[int(0.975 * _SAMPLES) - 1]


def table(rows: Sequence[Row]) -> str:
    """Each policy's loss and its difference from truncation's, by kind of token, in Markdown."""
    names = list(dict.fromkeys(name for row in rows for name in row["losses"]))
    lines = [
        "| context | tokens | places | conversations | nats a token | against truncation | 95 % |",
        "|" + "---|" * 7,
    ]
    for kind in KINDS:
        for name in names:
            apart = differences(rows, name, kind, BASE)
            if not apart:
                continue
            mine = [
                statistics.fmean(row["losses"][name][kind]) for row in rows if row["losses"].get(name, {}).get(kind)
            ]
            flat = [x for group in apart.values() for x in group]
            low, high = interval(apart, random.Random(1))
            against = "| |" if name == BASE else f"| {statistics.fmean(flat):+.2f} | [{low:+.2f}, {high:+.2f}]"
            lines.append(f"| {name} | {kind} | {len(flat)} | {len(apart)} | {statistics.fmean(mine):.2f} {against} |")
    return "\n".join(lines)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, help="conversations in OpenAI chat form, one a line")
    parser.add_argument("--policy", action="append", default=[], metavar="NAME=FILE.py:Class")
    parser.add_argument("--window", type=int, default=2_000)
    parser.add_argument("--whole", type=int, default=4_000, help="tokens of the longest history that is measured whole")
    parser.add_argument("--each", type=int, default=2, help="places of a conversation")
    parser.add_argument("--minutes", type=float, default=9.0, help="no new place after so many")
    parser.add_argument("--counter", choices=COUNTERS, default="o200k_base")
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--tell", action="store_true", help="measure nothing, print the tables")
    return parser.parse_args(given)


def run(asked: argparse.Namespace) -> int:
    """Measure the places that the file does not have yet; how many are left undone."""
    count, policies, model = Tokens(asked.counter), chosen(asked.policy), Endpoint(asked.address)
    done = {(row["id"], row["at"]) for row in read(asked.to)}
    found = places(list(conversations(asked.data)), asked.window, count, asked.each)
    left = [p for p in found if (p.conversation["id"], p.decision.at) not in done]
    begun = time.monotonic()
    while left and time.monotonic() - begun < 60 * asked.minutes:
        place = left.pop(0)
        row = measured(place, contexts_of(place, policies, asked.window, asked.whole, count), model)
        with asked.to.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        count.forget()
    return len(left)


def read(file: Path) -> list[dict[str, Any]]:
    """The places measured so far."""
    lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
    return [json.loads(line) for line in lines if line]


def main(given: Sequence[str] | None = None) -> None:
    asked = arguments(given)
    left = 0 if asked.tell else run(asked)
    print(table(read(asked.to)))
    if left:
        print(f"\n{left} places are not measured yet; run it again to go on")


if __name__ == "__main__":
    main()
