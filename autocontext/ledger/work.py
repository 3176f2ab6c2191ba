"""The work ledger: what was said, changed, called and found in a history.

`WorkLedger.of(x + y) == WorkLedger.of(x) + WorkLedger.of(y)`, so ledgers of spans add up to that of the history. It
stores places in the messages instead of copies, in lists in the order of the history, so that a rendering can read the
newest of each kind first.
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
from autocontext.ledger import shell
from autocontext.ledger.calls import Call, Shape, call_of, facts_of, shape_of
from autocontext.ledger.effects import Effect, command_line, with_open_file
from autocontext.ledger.notes import is_note_tool, note_of
from autocontext.ledger.outcomes import SHORT, outcome_of
from autocontext.ledger.sentences import CLAUSE, Sentence, of_agent, of_user
from autocontext.ledger.shapes import outliers
from autocontext.ledger.shown import Shown
from autocontext.ledger.values import FADED, FADING, FLOOR, argument_values, values_in
from autocontext.messages import Msg, ToolResultBlock, ToolUseBlock, is_compressed
from autocontext.plan import PlanLike, is_plan_call

_NEWEST = 3
"""Newest messages stored for each value."""
_MOST_VALUES = 2_500
"""`trim` reduces more distinct values than this."""
_VALUES_AFTER_TRIM = 1_800
_SPEECH_WORTH = 3.0
"""Worth of a value that the user or the agent wrote, relative to one in a tool's result."""


_number, _name = attrgetter("number"), attrgetter("name")


class Occurrences(NamedTuple):
    """Where a value occurs."""

    in_results: int
    """Number of results with it."""
    in_speech: int
    """Number of texts of the user, the agent and its calls with it."""
    numbers: tuple[int, ...]
    """The newest messages with it, newest first."""


class Result(NamedTuple):
    """A result without its call in this history."""

    id: str
    number: int
    block: ToolResultBlock


class WorkLedger:
    """The facts of a history, to be rendered into a budget of tokens.

    Message k of the history has the number k, from 1: `m1` in the text. Ledgers of equal histories are equal. `effects`
    extends the built-in table of what tools do, by name or by a word of their names: {"deploy": "changes"}.

        WorkLedger.of(messages).render(500, get_counter("gpt-4o").count_text)
    """

    __slots__ = (
        "_open", "_orphans", "calls", "changing", "effects", "examples", "messages", "notes", "outliers",
        "plan_calls", "remarks", "rules", "user_sentences", "values",
    )  # fmt: skip

    def __init__(self, effects: Mapping[str, Effect] | None = None) -> None:
        self.effects: Mapping[str, Effect] = effects or {}
        self.messages: list[Msg] = []
        self.calls: list[Call] = []
        self.changing: list[int] = []
        """Indices in `calls` of those that change something if they succeed."""
        self.examples: dict[Shape, tuple[int, ToolUseBlock]] = {}
        """The newest call of each kind, with its message's number."""
        self.user_sentences: list[tuple[int, Sentence]] = []
        """The user's sentences, each with its message's number."""
        self.rules: list[int] = []
        """Indices in `user_sentences` of instructions, limits, permissions and corrections."""
        self.remarks: list[tuple[int, Sentence]] = []
        """The agent's conclusions, each with its message's number."""
        self.notes: list[tuple[int, str]] = []
        """The agent's own notes, each with its message's number."""
        self.outliers: list[tuple[int, int, int]] = []
        """Lines that stand out in repetitive results: message number, block in it, place in its text."""
        self.plan_calls: list[tuple[int, ToolUseBlock]] = []
        """Calls that make or change a plan, each with its index in `calls`."""
        self.values: dict[str, Occurrences] = {}
        self._open: dict[str, list[int]] = {}
        """Per id, the calls (indices in `calls`) without a result, oldest first."""
        self._orphans: list[Result] = []

    @classmethod
    def of(cls, messages: Iterable[Msg], *, effects: Mapping[str, Effect] | None = None) -> WorkLedger:
        """The ledger of these messages."""
        ledger = cls(effects)
        for m in messages:
            ledger.append(m)
        return ledger

    def __len__(self) -> int:
        return len(self.messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkLedger) and all(getattr(self, k) == getattr(other, k) for k in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, later: WorkLedger) -> WorkLedger:
        """The ledger of one history followed by another."""
        ledger = WorkLedger(self.effects)
        ledger._extend(self)
        ledger._extend(later)
        return ledger

    def _extend(self, later: WorkLedger) -> None:
        shift, places = len(self.messages), len(self.calls)
        for result in later._orphans:
            self._answer(result.id, result.number + shift, result.block)
        self.messages += later.messages
        self.calls += [_shift(call, shift) for call in later.calls]
        self.changing += [at + places for at in later.changing]
        self.examples.update({shape: (n + shift, use) for shape, (n, use) in later.examples.items()})
        self.rules += [at + len(self.user_sentences) for at in later.rules]
        self.user_sentences += [(n + shift, s) for n, s in later.user_sentences]
        self.remarks += [(n + shift, s) for n, s in later.remarks]
        self.notes += [(n + shift, text) for n, text in later.notes]
        self.outliers += [(n + shift, block, at) for n, block, at in later.outliers]
        self.plan_calls += [(at + places, use) for at, use in later.plan_calls]
        for value, occurrences in later.values.items():
            self._add_occurrences(value, occurrences._replace(numbers=tuple([n + shift for n in occurrences.numbers])))
        for id_, calls in later._open.items():
            self._open.setdefault(id_, []).extend(i + places for i in calls)

    def append(self, msg: Msg) -> None:
        """Add the next message, in place."""
        self.messages.append(msg)
        number = len(self.messages)
        result_values: set[str] = set()
        speech_values: set[str] = set()
        self._append_blocks(msg, number, result_values, speech_values)
        if is_compressed(msg) or msg.role == "system":
            return  # system messages stay in view, and a copied note is not what somebody said
        if text := msg.text:
            if msg.role == "user":
                for sentence in of_user(text):
                    if sentence.worth >= CLAUSE:
                        self.rules.append(len(self.user_sentences))
                    self.user_sentences.append((number, sentence))
            elif msg.role == "assistant":
                self.remarks += [(number, s) for s in of_agent(text)]
            (result_values if msg.role == "tool" else speech_values).update(values_in(text))
        for value in sorted(result_values | speech_values):  # the same order in every process
            self._add_occurrences(value, Occurrences(value in result_values, value in speech_values, (number,)))

    def _append_blocks(self, msg: Msg, number: int, result_values: set[str], speech_values: set[str]) -> None:
        """Add the calls and results of a message, and their values to `result_values` and `speech_values`."""
        for i, block in enumerate(msg.content):  # results first: a message answers calls before it, never its own
            if block.type == "tool_result":
                self._answer(block.id, number, block)
                result_values |= values_in(block.text)
                self.outliers += [(number, i, at) for at in outliers(block.text)]
        for block in msg.content:
            if block.type == "tool_use":
                self._append_call(block, number)
                speech_values |= argument_values(facts_of(block.input))

    def _append_call(self, use: ToolUseBlock, number: int) -> None:
        call, place = call_of(use, number, self.effects), len(self.calls)
        self._open.setdefault(use.id, []).append(place)
        self.calls.append(call)
        if not is_note_tool(use.name) and not is_plan_call(use):
            self.examples[shape_of(use)] = (number, use)
        if call.changes:
            self.changing.append(place)
        if text := note_of(use):
            self.notes.append((number, text))
        if is_plan_call(use):
            self.plan_calls.append((place, use))

    def _answer(self, id_: str, number: int, block: ToolResultBlock) -> None:
        """Match a result with the latest open call of its id."""
        waiting = self._open.get(id_)
        if not waiting:
            self._orphans.append(Result(id_, number, block))
            return
        at = waiting.pop()
        if not waiting:
            del self._open[id_]
        call = self.calls[at]
        outcome = outcome_of(block.text, is_error=block.is_error, effect=call.effect)
        changes, made = call.changes, frozenset[str]()
        if call.effect == "runs" and changes:
            changes = with_open_file(changes, block.text)
            if outcome.failed and (use := self._use(id_, call.number)):
                made = shell.changed_before_failure(command_line(use.input), block.text)
        elif call.effect == "runs" and outcome.failed and outcome.lines > SHORT and shell.only_shows(call.label):
            outcome = outcome_of(block.text, is_error=block.is_error, effect="reads")
        self.calls[at] = replace(call, result=number, outcome=outcome, changes=changes, made=made)

    def _use(self, id_: str, number: int) -> ToolUseBlock | None:
        """The call with this id in a message."""
        return next((use for use in self.messages[number - 1].tool_uses if use.id == id_), None)

    def _add_occurrences(self, value: str, occurrences: Occurrences) -> None:
        old = self.values.get(value)
        if old is not None:
            newest = (occurrences.numbers + old.numbers)[:_NEWEST]
            occurrences = Occurrences(
                old.in_results + occurrences.in_results, old.in_speech + occurrences.in_speech, newest
            )
        self.values[value] = occurrences

    def tools(self, only: Runs) -> Counter[str]:
        """How often each tool was called in these messages, notes left out."""
        counts = Counter[str]()
        for first, last in only.pairs:
            start = bisect_left(self.calls, first, key=_number)
            counts.update(map(_name, self.calls[start : bisect_left(self.calls, last + 1, lo=start, key=_number)]))
        return Counter({name: n for name, n in counts.items() if not is_note_tool(name)})

    def trim(self) -> None:
        """Drop the least important values, in place, if there are very many."""
        if len(self.values) > _MOST_VALUES:
            self.values = {value: self.values[value] for _, value in self.best_values(_VALUES_AFTER_TRIM)}

    def best_values(self, most: int) -> list[tuple[float, str]]:
        """The `most` values with the highest worth, best first."""
        now = len(self.messages)
        # One expression, for speed: every rendering rates all values.
        candidates = [
            ((results + _SPEECH_WORTH * speech) * (FADING[now - n[0]] if now - n[0] < FADED else FLOOR), value)
            for value, (results, speech, n) in self.values.items()
        ]
        return nlargest(most, candidates)

    def render(
        self,
        budget: int,
        count: Callable[[str], int],
        *,
        only: Container[int] | None = None,
        known: Container[int] | None = None,
        shown: Iterable[Msg] | Shown = (),
        plan: PlanLike | None = None,
        said_budget: int | None = None,
        quotes_budget: int | None = None,
        focus: str = "",
    ) -> str:
        """The ledger as text of at most `budget` tokens; "" if nothing fits. `count` returns the tokens of a text.

        `only` are the numbers of the messages to cover (those out of view), by default all; `known` those that may be
        mentioned at all (not the deleted ones), by default all; `shown` are the messages in view, which the text does
        not repeat. `said_budget` limits the tokens of the user's words. No more lines are quoted once the text has
        `quotes_budget` tokens; 0 for no quotes. Lines and conclusions with words of `focus` come first.
        """
        from autocontext.ledger.pages import LedgerPage  # noqa: PLC0415 (`pages` imports this module)

        page = LedgerPage(
            self,
            budget,
            count,
            only=only,
            known=known,
            shown=shown,
            plan=plan,
            said_budget=said_budget,
            quotes_budget=quotes_budget,
            focus=focus,
        )
        return page.text()


def _shift(call: Call, shift: int) -> Call:
    return replace(call, number=call.number + shift, result=call.result + shift if call.result else 0)
