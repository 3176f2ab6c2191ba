"""The work ledger: what was said, changed, called and found in a history, as a value built by pure functions.

`WorkLedger.of(x + y) == WorkLedger.of(x) + WorkLedger.of(y)`: a note of a span, a fold of notes and the whole history
are the same thing at different sizes. It keeps no copies of texts but places in the messages, and lists in the order of
the history, so that a rendering can look at the newest of each kind without going through all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple

from autocontext.history.runs import Runs
from autocontext.ledger.calls import Call, Shape, call_of, shape_of
from autocontext.ledger.effects import Effect
from autocontext.ledger.fading import FADED, FADING, FLOOR
from autocontext.ledger.outcomes import outcome_of
from autocontext.ledger.sentences import CLAUSE, Sentence, of_agent, of_user
from autocontext.ledger.shapes import outliers
from autocontext.ledger.values import argument_values, values_in
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_compressed
from autocontext.plan import PlanLike, is_plan_call

_NEWEST = 3
"""Messages that are remembered for each value."""
_MOST_VALUES = 2_500
"""Distinct values that `trim` leaves room for."""
_LEFT = 1_800
_SAID = 3.0
"""What a value is worth that the user or the agent wrote, compared with one that a tool printed."""


_number, _name = attrgetter("number"), attrgetter("name")


class Seen(NamedTuple):
    """Where a value stands."""

    told: int
    """In how many messages of tools."""
    said: int
    """In how many texts of the user, the agent or its calls."""
    numbers: tuple[int, ...]
    """The newest messages that hold it, newest first."""


class Result(NamedTuple):
    """A result whose call is not in this history."""

    id: str
    number: int
    block: ToolResultBlock


class WorkLedger:
    """What a history tells about the work, ready to be rendered into a budget.

    Message k of the history has the number k, 1 for the first: `m1` in the text. Values: two ledgers are equal when
    they were made of equal histories. `effects` says what tools do, by name or by a word of their names, where the
    built-in table does not know: {"deploy": "changes"}.
    """

    __slots__ = (
        "_open", "_orphans", "calls", "changing", "effects", "examples", "messages", "outliers", "plan_calls",
        "remarks", "rules", "said", "values",
    )  # fmt: skip

    def __init__(self, effects: Mapping[str, Effect] | None = None) -> None:
        self.effects: Mapping[str, Effect] = effects or {}
        self.messages: list[Msg] = []
        self.calls: list[Call] = []
        self.changing: list[int] = []
        """Places in `calls` of those that change something if they succeed."""
        self.examples: dict[Shape, tuple[int, ToolUseBlock]] = {}
        """The newest call of each kind, with its message's number."""
        self.said: list[tuple[int, Sentence]] = []
        """The user's sentences, each with its message's number."""
        self.rules: list[int] = []
        """Places in `said` of those that give an instruction, a limit, a permission or a correction."""
        self.remarks: list[tuple[int, Sentence]] = []
        """The agent's."""
        self.outliers: list[tuple[int, int, int]] = []
        """Lines that stand out of repetitive results: message number, block in it, place in its text."""
        self.plan_calls: list[tuple[int, ToolUseBlock]] = []
        """Calls that make or change a plan, each with its place in `calls`."""
        self.values: dict[str, Seen] = {}
        self._open: dict[str, list[int]] = {}
        """Per id, the calls (places in `calls`) that have no result yet, oldest first."""
        self._orphans: list[Result] = []

    @classmethod
    def of(cls, messages: Iterable[Msg], *, effects: Mapping[str, Effect] | None = None) -> WorkLedger:
        """The ledger of these messages."""
        made = cls(effects)
        for m in messages:
            made.append(m)
        return made

    def __len__(self) -> int:
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkLedger) and all(getattr(self, k) == getattr(other, k) for k in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, later: WorkLedger) -> WorkLedger:
        """The ledger of one history followed by another."""
        made = WorkLedger(self.effects)
        made._extend(self)
        made._extend(later)
        return made

    def _extend(self, later: WorkLedger) -> None:
        shift, places = len(self.messages), len(self.calls)
        for result in later._orphans:
            self._answer(result.id, result.number + shift, result.block)
        self.messages += later.messages
        self.calls += [_shifted(call, shift) for call in later.calls]
        self.changing += [at + places for at in later.changing]
        self.examples.update({shape: (n + shift, use) for shape, (n, use) in later.examples.items()})
        self.rules += [at + len(self.said) for at in later.rules]
        self.said += [(n + shift, s) for n, s in later.said]
        self.remarks += [(n + shift, s) for n, s in later.remarks]
        self.outliers += [(n + shift, block, at) for n, block, at in later.outliers]
        self.plan_calls += [(at + places, use) for at, use in later.plan_calls]
        for value, seen in later.values.items():
            self._see(value, seen._replace(numbers=tuple([n + shift for n in seen.numbers])))
        for id_, calls in later._open.items():
            self._open.setdefault(id_, []).extend(i + places for i in calls)

    def append(self, msg: Msg) -> None:
        """Take in the next message, in place: for whoever builds a ledger step by step and shares it with nobody."""
        self.messages.append(msg)
        number = len(self.messages)
        told: set[str] = set()
        said: set[str] = set()
        self._append_blocks(msg, number, told, said)
        if is_compressed(msg) or msg.role == "system":
            return  # a system message stays in view; a copy of a note is nobody's words
        if text := msg.text:
            if msg.role == "user":
                for sentence in of_user(text):
                    if sentence.worth >= CLAUSE:
                        self.rules.append(len(self.said))
                    self.said.append((number, sentence))
            elif msg.role == "assistant":
                self.remarks += [(number, s) for s in of_agent(text)]
            (told if msg.role == "tool" else said).update(values_in(text))
        for value in sorted(told | said):  # the same order in every process
            self._see(value, Seen(value in told, value in said, (number,)))

    def _append_blocks(self, msg: Msg, number: int, told: set[str], said: set[str]) -> None:
        """The calls and results of a message; what they hold is put into `told` and `said`."""
        for i, block in enumerate(msg.content):  # results first: a message answers calls before it, never its own
            if block.type == "tool_result":
                self._answer(block.id, number, block)
                told |= values_in(block.text)
                self.outliers += [(number, i, at) for at in outliers(block.text)]
        for block in msg.content:
            if block.type == "tool_use":
                self._append_call(block, number)
                said |= argument_values(block.input)

    def _append_call(self, use: ToolUseBlock, number: int) -> None:
        call, place = call_of(use, number, self.effects), len(self.calls)
        self._open.setdefault(use.id, []).append(place)
        self.calls.append(call)
        self.examples[shape_of(use)] = (number, use)
        if call.changes:
            self.changing.append(place)
        if is_plan_call(use):
            self.plan_calls.append((place, use))

    def _answer(self, id_: str, number: int, block: ToolResultBlock) -> None:
        """Give a result to the latest open call with its id."""
        waiting = self._open.get(id_)
        if not waiting:
            self._orphans.append(Result(id_, number, block))
            return
        at = waiting.pop()
        if not waiting:
            del self._open[id_]
        call = self.calls[at]
        outcome = outcome_of(block.text, is_error=block.is_error, effect=call.effect)
        self.calls[at] = replace(call, result=number, outcome=outcome)

    def _see(self, value: str, seen: Seen) -> None:
        old = self.values.get(value)
        if old is not None:
            newest = (seen.numbers + old.numbers)[:_NEWEST]
            seen = Seen(old.told + seen.told, old.said + seen.said, newest)
        self.values[value] = seen

    def tools(self, only: Runs) -> Counter[str]:
        """How often each tool was called in some messages."""
        counts = Counter[str]()
        for first, last in only.pairs:
            start = bisect_left(self.calls, first, key=_number)
            counts.update(map(_name, self.calls[start : bisect_left(self.calls, last + 1, lo=start, key=_number)]))
        return counts

    def trim(self) -> None:
        """Forget, in place, the values that are worth least, when there are very many: what is kept stays small."""
        if len(self.values) > _MOST_VALUES:
            self.values = {value: self.values[value] for _, value in self.best_values(_LEFT)}

    def best_values(self, most: int) -> list[tuple[float, str]]:
        """The values that are likely to be needed again, with what they are worth, the best first."""
        now = len(self.messages)
        # One expression, as a rendering asks it of all values.
        ranked = [
            ((told + _SAID * said) * (FADING[now - n[0]] if now - n[0] < FADED else FLOOR), value)
            for value, (told, said, n) in self.values.items()
        ]
        return nlargest(most, ranked)

    def render(
        self,
        budget: int,
        count: Callable[[str], int],
        *,
        only: Container[int] | None = None,
        known: Container[int] | None = None,
        shown: Iterable[Msg] = (),
        plan: PlanLike | None = None,
        said_budget: int | None = None,
        quotes_budget: int | None = None,
    ) -> str:
        """The ledger as text of at most `budget` tokens; `count` gives the tokens of a text.

        `only` are the numbers of the messages to tell of (those that a reader does not see), by default all;
        `known` those that may be told of anywhere, which deleted ones are not, by default all;
        `shown` are messages that the reader does see: what stands there is not repeated. `said_budget` bounds the
        tokens of the user's words, `quotes_budget` is a size from which on no more lines are quoted, 0 for none at
        all. "" when nothing fits.
        """
        from autocontext.ledger.pages import Page  # noqa: PLC0415 (a page needs the ledger it is a page of)

        page = Page(
            self,
            budget,
            count,
            only=only,
            known=known,
            shown=shown,
            plan=plan,
            said_budget=said_budget,
            quotes_budget=quotes_budget,
        )
        return page.text()


def _shifted(call: Call, shift: int) -> Call:
    return replace(call, number=call.number + shift, result=call.result + shift if call.result else 0)
