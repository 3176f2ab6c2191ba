"""The library with a served model as its summariser, end to end, and what is left of goal and constraints.

    python -m benchmarks.model.summarise DATA.jsonl --only livemcp/work --window 2000 --to rows.jsonl

Conversations with four planted constraints each (see `planted`) are replayed. Each row is one way of writing notes:
*truncation* (none), *embedded* (the library without a model), and the library with a model that answers in its *own*
words, or says what is *wrong*, what is *vague*, *empty* things, or comes too *late*. Looked at before every assistant
message that has more before it than the window holds:

- *goal*: of the first five sentences of the first request, those that stand in the context word for word
- *constraints*: of the planted ones so far, those that stand there word for word
- *values*: of the values that the next call needs, those that the context shows
- *its words*: of the contexts, those with a sentence that the model wrote and that no message says

*replies* are what came back from the model, *cut off* those of them that ended at their limit of tokens, which the
library does not use, *by rules* the notes that the library wrote itself because it had no usable answer. Each way and
conversation is a line in the file of --to, with the replies; a second run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chat import COUNTERS, Chat, Tokens, content_text, invalid, truncate, visible_text
from needs import Decision, decisions, occurs
from planted import known, planted
from policies import Library, Policy, Truncate
from replays import Row, conversations, percent, turns
from texts import sentences, squeeze

from autocontext import AutoContextMemory, ChatModel, ModelReply, ModelRequest
from autocontext.models import OpenAIChatModel

from .endpoint import ADDRESS, Endpoint

SERVED = {"own": "model", "wrong": "wrong", "vague": "vague", "empty": "empty", "late": "late"}
"""Way of writing to what the server's option is called."""
WAYS = ("truncation", "embedded", *SERVED)
_GOAL_SENTENCES = 5


class Heard:
    """A model whose replies are kept."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.replies: list[ModelReply] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        reply = self._model.complete(request)
        self.replies.append(reply)
        return reply


def served(address: str, *, timeout: float, temperature: float, most: int | None) -> Heard:
    """The served model, as a user of the library configures it; `most` tokens instead of what the library asks for."""
    more = {} if most is None else {"max_tokens": most}
    model = OpenAIChatModel(
        "served", base_url=address, api_key="none", timeout=timeout, temperature=temperature, seed=1, **more
    )
    return Heard(model)


class Modelled(Library):
    """The library as in `policies`, with this model as its summariser; a failed call is not repeated."""

    def __init__(self, window: int, count: Tokens, model: ChatModel) -> None:
        super().__init__(window, count, model_retries=0)
        self.memory = AutoContextMemory(self.memory.config, model)


class Left:
    """What contexts still say of a conversation."""

    def __init__(self, messages: Sequence[Chat], where: dict[int, str], window: int, count: Tokens) -> None:
        self.messages, self.where, self.window, self.count = messages, where, window, count
        first = next((m for m in messages if m["role"] == "user"), {"role": "user", "content": ""})
        self.goal = sentences(content_text(first))[:_GOAL_SENTENCES]
        self.decisions: dict[int, Decision] = {d.at: d for d in decisions(messages, count) if d.scored(window)}
        self.counts = {name: [0, 0] for name in ("goal", "constraints", "values", "its words")}
        self.over = self.invalid = 0

    def look(self, at: int, context: Sequence[Chat], said: Iterable[str]) -> None:
        """Count what the context before the message at `at` shows; `said` are the model's replies so far."""
        self.over += self.count(context) > self.window
        self.invalid += invalid(context)
        text = "\n".join(map(visible_text, truncate(context, self.window, self.count)))
        flat = squeeze(text)
        planted_ = [wording for place, wording in self.where.items() if place < at]
        values = [need.value for need in self.decisions[at].needs] if at in self.decisions else []
        own = {s for reply in said for s in sentences(reply)}
        own -= {s for m in self.messages[:at] for s in sentences(visible_text(m))}
        self._put("goal", sum(s in flat for s in self.goal), len(self.goal))
        self._put("constraints", known(planted_, text), len(planted_))
        self._put("values", sum(occurs(value, text) for value in values), len(values))
        self._put("its words", int(any(s in flat for s in own)), 1)

    def _put(self, name: str, yes: int, of: int) -> None:
        self.counts[name][0] += yes
        self.counts[name][1] += of


def replay(conversation: Row, number: int, way: str, *, model: Heard | None, window: int, count: Tokens) -> Row:
    """A conversation's row for one way of writing notes; `number` chooses its constraints."""
    messages, where = planted(conversation["messages"], number)
    policy: Policy = Truncate(window, count) if way == "truncation" else Library(window, count)
    if model is not None:
        policy = Modelled(window, count, model)
    left, begun, contexts, total, last = Left(messages, where, window, count), time.monotonic(), 0, 0, 0
    for at, new in turns(messages):
        context = policy.step(new)
        total += count(messages[last:at])
        last = at
        if total > window:
            contexts += 1
            left.look(at, context, [reply.text for reply in model.replies] if model else ())
    row: Row = {"id": conversation["id"], "way": way, "contexts": contexts, **left.counts}
    row |= {"over": left.over, "invalid": left.invalid, "seconds": time.monotonic() - begun}
    if isinstance(policy, Library):
        usage = policy.memory.usage
        row |= {"passes": usage.passes, "calls": usage.model_calls, "by rules": usage.fallbacks}
        row |= {"retrievable": policy.retrievable, "model seconds": usage.seconds}
    replies = model.replies if model else []
    return {**row, "replies": [r.text for r in replies], "cut off": sum(r.truncated for r in replies)}


def table(rows: Sequence[Row]) -> str:
    """What is left, by way of writing, in Markdown; shares are pooled over the conversations."""
    shares = ("goal", "constraints", "values", "its words")
    counted = ("contexts", "passes", "calls", "cut off", "by rules", "over", "invalid")
    head = (
        "notes",
        *counted[:3],
        "replies",
        "cut off",
        "by rules",
        *shares,
        "over",
        "invalid",
        "retrievable",
        "seconds a call",
    )
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for way in dict.fromkeys(row["way"] for row in rows):
        mine = [row for row in rows if row["way"] == way]
        sums = {name: sum(row.get(name, 0) for row in mine) for name in counted}
        pooled = [[sum(row[name][k] for row in mine) for k in (0, 1)] for name in shares]
        kept = [row["retrievable"] for row in mine if "retrievable" in row]
        took = sum(row.get("model seconds", 0.0) for row in mine)
        cells = [way, *(sums[name] for name in counted[:3]), sum(len(row["replies"]) for row in mine)]
        cells += [sums["cut off"], sums["by rules"]]
        cells += [percent(yes / of) if of else "" for yes, of in pooled]
        cells += [sums["over"], sums["invalid"], f"{min(kept):g} %" if kept else ""]
        cells.append(f"{took / sums['calls']:.1f}" if sums["calls"] else "")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, help="conversations in OpenAI chat form, one a line")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the ids that are replayed")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--window", type=int, default=2_000)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that the model has for an answer")
    parser.add_argument("--late", type=float, default=1.0, help="the same for the late one")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the likeliest words")
    parser.add_argument("--most", type=int, help="tokens of a reply, in place of what the library asks for")
    parser.add_argument("--counter", choices=COUNTERS, default="o200k_base")
    parser.add_argument("--address", default=ADDRESS)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE.jsonl")
    return parser.parse_args(given)


def run(asked: argparse.Namespace) -> None:
    """Replay what the file does not have yet."""
    count, endpoint = Tokens(asked.counter), Endpoint(asked.address)
    done = {(row["way"], row["id"]) for row in read(asked.to)}
    given = [(n, c) for n, c in enumerate(conversations(asked.data)) if any(part in c["id"] for part in asked.only)]
    for way in asked.ways:
        for number, conversation in given:
            if (way, conversation["id"]) in done:
                continue
            model = None
            if way in SERVED:
                endpoint.answer_with(SERVED[way])
                timeout = asked.late if way == "late" else asked.timeout
                model = served(asked.address, timeout=timeout, temperature=asked.temperature, most=asked.most)
            row = replay(conversation, number, way, model=model, window=asked.window, count=count)
            with asked.to.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count.forget()


def read(file: Path) -> list[dict[str, Any]]:
    """The rows so far."""
    lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
    return [json.loads(line) for line in lines if line]


def main(given: Sequence[str] | None = None) -> None:
    asked = arguments(given)
    run(asked)
    print(table(read(asked.to)))


if __name__ == "__main__":
    main()
