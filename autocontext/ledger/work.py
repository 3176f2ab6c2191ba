"""The work ledger: what was said, changed, called and found in a history, as a value built by pure functions.

`WorkLedger.of(x + y) == WorkLedger.of(x) + WorkLedger.of(y)`: a note of a span, a fold of notes and the whole history
are the same thing at different sizes. It keeps no copies of texts but places in the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import nlargest
from typing import NamedTuple

from autocontext.ledger.calls import Call, call_of
from autocontext.ledger.effects import Effect
from autocontext.ledger.outcomes import outcome_of
from autocontext.ledger.sentences import Sentence, of_agent, of_user
from autocontext.ledger.shapes import outliers
from autocontext.ledger.values import argument_values, values_in
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_compressed
from autocontext.plan import PlanLike, is_plan_call

_NEWEST = 3
"""Messages that are remembered for each value."""
_MOST_VALUES = 8_000
"""Distinct values that `trim` leaves room for."""
_LEFT = 6_000


_SAID = 3.0
_FLOOR = 0.1
_HALF = 40.0


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
        "_open",
        "_orphans",
        "calls",
        "effects",
        "messages",
        "outliers",
        "plan_calls",
        "remarks",
        "said",
        "values",
    )

    def __init__(self, effects: Mapping[str, Effect] | None = None) -> None:
        self.effects: Mapping[str, Effect] = effects or {}
        self.messages: list[Msg] = []
        self.calls: list[Call] = []
        self.said: list[tuple[int, Sentence]] = []
        """The user's sentences, each with its message's number."""
        self.remarks: list[tuple[int, Sentence]] = []
        """The agent's."""
        self.outliers: list[tuple[int, int, int]] = []
        """Lines that stand out of repetitive results: a message's number, the block's place there, the line's in it."""
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
        made = self._copy()
        made._extend(later)
        return made

    def _copy(self) -> WorkLedger:
        made = WorkLedger(self.effects)
        made.messages, made.calls = self.messages.copy(), self.calls.copy()
        made.said, made.remarks = self.said.copy(), self.remarks.copy()
        made.outliers = self.outliers.copy()
        made.plan_calls, made.values = self.plan_calls.copy(), self.values.copy()
        made._open = {id_: places.copy() for id_, places in self._open.items()}
        made._orphans = self._orphans.copy()
        return made

    def _extend(self, later: WorkLedger) -> None:
        shift, places = len(self.messages), len(self.calls)
        for result in later._orphans:
            self._answer(result.id, result.number + shift, result.block)
        self.messages += later.messages
        self.calls += [_shifted(call, shift) for call in later.calls]
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
        if is_compressed(msg) or msg.role == "system":
            # A system message stays in view. A copy of a note is nobody's words.
            self._append_blocks(msg, number, set(), set())
            return
        told: set[str] = set()
        said: set[str] = set()
        self._append_blocks(msg, number, told, said)
        if text := msg.text:
            if msg.role == "user":
                self.said += [(number, s) for s in of_user(text)]
            elif msg.role == "assistant":
                self.remarks += [(number, s) for s in of_agent(text)]
            (told if msg.role == "tool" else said).update(values_in(text))
        for value in sorted(told | said):  # the same order in every process
            self._see(value, Seen(value in told, value in said, (number,)))

    def uses(self) -> Iterator[tuple[int, ToolUseBlock]]:
        """The call blocks, with their messages' numbers, in order."""
        last = 0
        for call in self.calls:
            if call.number != last:
                last = call.number
                yield from ((last, use) for use in self.messages[last - 1].tool_uses)

    def _append_blocks(self, msg: Msg, number: int, told: set[str], said: set[str]) -> None:
        """The calls and results of a message; what they hold is put into `told` and `said`."""
        for i, block in enumerate(msg.content):  # results first: a message answers calls before it, never its own
            if block.type == "tool_result":
                self._answer(block.id, number, block)
                told |= values_in(block.text)
                self.outliers += [(number, i, at) for at in outliers(block.text)]
        for block in msg.content:
            if block.type == "tool_use":
                self._open.setdefault(block.id, []).append(len(self.calls))
                if is_plan_call(block):
                    self.plan_calls.append((len(self.calls), block))
                self.calls.append(call_of(block, number, self.effects))
                said |= argument_values(block.input)

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

    def trim(self) -> None:
        """Forget, in place, the values that are worth least, when there are very many: what is kept stays small."""
        if len(self.values) > _MOST_VALUES:
            now = len(self.messages)
            best = nlargest(_LEFT, self.values.items(), key=lambda item: (worth(item[1], now), item[0]))
            self.values = dict(best)

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
        tokens of the user's words, `quotes_budget` is a size from which on no more lines are quoted. "" when nothing
        fits.
        """
        from autocontext.ledger.pages import Page  # noqa: PLC0415 (a page needs the ledger it is a page of)

        return Page(
            self,
            budget,
            count,
            only=only,
            known=known,
            shown=shown,
            plan=plan,
            said_budget=said_budget,
            quotes_budget=quotes_budget,
        ).text()


def worth(seen: Seen, now: int) -> float:
    """How likely a value is needed again: by who wrote it, in how many messages, and how long ago."""
    return (seen.told + _SAID * seen.said) * fading(seen.numbers[0], now)


def fading(number: int, now: int) -> float:
    """The share of its worth that something keeps that was last seen in this message."""
    share: float = _FLOOR + 0.5 ** ((now - number) / _HALF)
    return share


def _shifted(call: Call, shift: int) -> Call:
    return replace(call, number=call.number + shift, result=call.result + shift if call.result else 0)
