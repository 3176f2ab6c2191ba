"""The work ledger: what was said, called and answered in a history.

`WorkLedger.of(x + y) == WorkLedger.of(x) + WorkLedger.of(y)`, so ledgers of spans add up to that of the history. It
stores places in the messages instead of copies, in lists in the order of the history, so that a rendering can read the
newest of each kind first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from autocontext.history.runs import Runs
from autocontext.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock, is_compressed, words_of_user
from autocontext.notes.answers import answer_of
from autocontext.notes.calls import AROUND, MOST_CALLS, Call, Effect, call_of, facts_of
from autocontext.notes.commands import goes_on, reached
from autocontext.notes.instructions import Instructions, instructions_of
from autocontext.notes.notes import is_note_tool, note_of
from autocontext.notes.sentences import CLAUSE, Sentence, of_agent, of_user
from autocontext.notes.typed import typed_call
from autocontext.notes.values import KEPT, MOST_VALUES, argument_values, known_values
from autocontext.plan import is_plan_call
from autocontext.text.gaps import gap
from autocontext.text.protocol_results import printed

_LOOKED_BACK = 200
"""Calls before one among which another on the same thing is looked for."""
_HOUR = len("2026-11-26T09")
"""Characters of a time up to its hour."""
_OFTEN = 3
"""A value that so many messages name is as good as any."""


T = TypeVar("T")

_number = attrgetter("number")


class WorkLedger:
    """The facts of a history, to be rendered into a budget of tokens.

    Message k of the history has the number k, from 1: `m1` in the text. Ledgers of equal histories are equal. `effects`
    extends the built-in table of what tools do, by name or by a word of their names: {"deploy": "changes"}.

        render(WorkLedger.of(messages), PageRequest(500, get_counter("gpt-4o").count_text))
    """

    __slots__ = (
        "_memo", "_open", "_places", "_readings", "calls", "effects", "instructions", "messages", "notes", "pauses",
        "plan_calls", "remarks", "rules", "sources", "typed", "user_sentences",
    )  # fmt: skip

    def __init__(self, effects: Mapping[str, Effect] | None = None, sources: tuple[str, ...] = ()) -> None:
        """`sources` are those of instructions: see `AutoContextConfig.instruction_sources`."""
        self.effects: Mapping[str, Effect] = effects or {}
        self.sources = sources
        self.messages: list[Msg] = []
        self.pauses: list[tuple[int, str]] = []
        """Messages that came long after the ones before them, each with how much later."""
        self.calls: list[Call] = []
        self.typed = 0
        """How many of them are commands in texts of the agent."""
        self.user_sentences: list[tuple[int, Sentence]] = []
        """The user's sentences, each with its message's number."""
        self.rules: list[tuple[int, Sentence]] = []
        """Those of them that are instructions, limits, permissions and corrections."""
        self.remarks: list[tuple[int, Sentence]] = []
        """The agent's conclusions, each with its message's number."""
        self.notes: list[tuple[int, str]] = []
        """The agent's own notes, each with its message's number."""
        self.plan_calls: list[tuple[int, ToolUseBlock]] = []
        """Calls that make or change a plan, each with its index in `calls`."""
        self.instructions: list[tuple[int, Instructions]] = []
        """What calls read of instructions, each with the call's index in `calls`."""
        self._open: dict[str, list[int]] = {}
        """Per id, the calls (indices in `calls`) without a result, oldest first."""
        self._places: dict[tuple[str, bool], list[int]] = {}
        """Per tool, and whether typed, where its calls are in `calls`."""
        self._memo: dict[Hashable, Any] = {}
        """What notes have worked out about these messages; a further message empties it."""
        self._readings: dict[Hashable, Any] = {}
        """What they have read in messages, and in those around them, once that changes no more."""

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
        return isinstance(other, WorkLedger) and all(
            getattr(self, k) == getattr(other, k) for k in ("effects", "messages", "sources")
        )

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, later: WorkLedger) -> WorkLedger:
        """The ledger of one history followed by another."""
        ledger = WorkLedger(self.effects, self.sources)
        for m in (*self.messages, *later.messages):
            ledger.append(m)
        return ledger

    def append(self, msg: Msg) -> None:
        """Add the next message, in place."""
        self._memo.clear()
        if self.messages:
            self._append_following(self.messages[-1], msg, len(self.messages))
        self.messages.append(msg)
        number = len(self.messages)
        self._append_blocks(msg, number)
        if is_compressed(msg):
            return  # a copied note is not what somebody said
        if words := words_of_user(msg):
            said = [(number, sentence) for sentence in of_user(words)]
            self.user_sentences += said
            self.rules += [item for item in said if item[1].worth >= CLAUSE]
        if msg.role == "assistant" and (text := msg.text):
            self.remarks += [(number, s) for s in of_agent(text)]

    def _append_blocks(self, msg: Msg, number: int) -> None:
        """Add the calls and results of a message."""
        for i, block in enumerate(msg.content):  # results first: a message answers calls before it, never its own
            if block.type == "tool_result":
                self._answer(number, i, block)
        for block in msg.content:
            if block.type == "tool_use":
                self._append_call(block, number)

    def _append_call(self, use: ToolUseBlock, number: int) -> None:
        place = len(self.calls)
        self._open.setdefault(use.id, []).append(place)
        self._keep(call_of(use, number, self.effects))
        if text := note_of(use):
            self.notes.append((number, text))
        if is_plan_call(use):
            self.plan_calls.append((place, use))
        if (what := instructions_of(use, self.sources)) is not None:
            self.instructions.append((place, what))

    def _append_following(self, asked: Msg, answered: Msg, number: int) -> None:
        """Add the call that message `number` makes in its text, and the pause after it, if there are any."""
        before, own = asked.timestamp, answered.timestamp
        # Most times differ in their minutes only, and need not be read.
        if before[:_HOUR] != own[:_HOUR] and (later := gap(before, own)):
            self.pauses.append((number + 1, later))
        if (use := typed_call(asked, answered)) is not None:
            at, text = next((i, block.text) for i, block in enumerate(answered.content) if isinstance(block, TextBlock))
            answer = answer_of(ToolResultBlock(id=use.id, output=text))
            call = call_of(use, number, self.effects)
            places = reached(call.places, text, call.command)
            self._keep(replace(call, result=number + 1, block=at, answer=answer, typed=True, places=places))
            self.typed += 1

    def _keep(self, call: Call) -> None:
        self._places.setdefault((call.name, call.typed), []).append(len(self.calls))
        self.calls.append(call)

    def _answer(self, number: int, at: int, block: ToolResultBlock) -> None:
        """Match a result with the latest open call of its id."""
        waiting = self._open.get(block.id)
        if not waiting:
            return  # its call is not in this history
        place = waiting.pop()
        if not waiting:
            del self._open[block.id]
        call = self.calls[place]
        text = "" if call.looks and not call.places else printed(block.text)
        self.calls[place] = replace(
            call,
            result=number,
            block=at,
            is_error=block.is_error,
            answer=answer_of(block),
            places=reached(call.places, text, call.command),
            starts=call.starts or (not call.looks and goes_on(call.label, text)),
        )

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, worked out once until another message comes: a pass writes many notes."""
        if key not in self._memo:
            self._memo[key] = make()
        found: T = self._memo[key]
        return found

    def read(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` reads that never changes, kept for the next notes."""
        if key not in self._readings:
            self._readings[key] = make()
            if len(self._readings) > KEPT:
                del self._readings[next(iter(self._readings))]
        found: T = self._readings[key]
        return found

    def read_later(self, key: Hashable, number: int, make: Callable[[], T]) -> T:
        """What `make` reads in a message by `used_around`: kept once the messages around it are complete."""
        return (self.read if len(self.messages) >= _last_around(number) else self.remembered)(key, make)

    @property
    def _tells_all(self) -> bool:
        """Whether notes tell of all calls: of the agent's own, or, where it has no tools, of the typed ones."""
        return self.typed in (0, len(self.calls))

    @property
    def told_calls(self) -> list[Call]:
        """The calls that notes tell of: where the agent has tools, commands in its texts are examples."""
        if self._tells_all:
            return self.calls
        return self.remembered("told calls", lambda: [call for call in self.calls if not call.typed])

    @property
    def newest_calls(self) -> list[Call]:
        """The calls that one note looks at for what they say of others."""
        return self.remembered("newest calls", lambda: self.told_calls[-MOST_CALLS:])

    def of_newest_calls(self, make: Callable[[list[Call]], T]) -> T:
        """What a function makes of the newest calls, remembered."""
        return self.remembered(make, lambda: make(self.newest_calls))

    def calls_in(self, only: Runs) -> list[Call]:
        """The newest calls in these messages."""
        return _newest(self.told_calls, only, MOST_CALLS, _number)

    def calls_beside(self, call: Call, most: int) -> tuple[list[Call], list[Call]]:
        """The calls of the same tool just before and just after one, up to so many of each."""
        places = self._places[call.name, call.typed]
        at = bisect_left(places, self._place_of(call))
        before, after = places[max(0, at - most) : at], places[at + 1 : at + 1 + most]
        return [self.calls[place] for place in before], [self.calls[place] for place in after]

    def call_before(self, call: Call) -> Call | None:
        """The last call before one, not long before, that is equal or names the same thing; None if there is none."""
        place = self._place_of(call)
        for other in reversed(self.calls[max(0, place - _LOOKED_BACK) : place]):
            same = other.digest == call.digest or (call.thing and other.thing == call.thing)
            if same and other.typed == call.typed:
                return other
        return None

    def _place_of(self, call: Call) -> int:
        at = bisect_left(self.calls, call.number, key=_number)
        return self.calls.index(call, at)

    @staticmethod
    def newest(items: Sequence[tuple[int, T]], only: Runs, most: int) -> list[tuple[int, T]]:
        """The newest of some items that lie in these messages, each with its message's number."""
        return _newest(items, only, most, itemgetter(0))

    def result_of(self, call: Call) -> str:
        """The text that came back from a call; "" without an answer."""
        block = self.messages[call.result - 1].content[call.block] if call.result else None
        return block.text if isinstance(block, TextBlock | ToolResultBlock) else ""

    def tools(self, only: Runs) -> Counter[str]:
        """How often each tool was called in these messages, notes left out; the cost is bounded by the tools."""
        told = (False, True) if self._tells_all else (False,)
        firsts, counts = dict[str, int](), Counter[str]()
        for first, last in only.pairs:
            start = bisect_left(self.calls, first, key=_number)
            stop = bisect_right(self.calls, last, lo=start, key=_number)
            for (name, typed), places in self._places.items():
                at = bisect_left(places, start)
                if typed in told and (called := bisect_left(places, stop, lo=at) - at):
                    firsts[name] = min(firsts.get(name, stop), places[at])
                    counts[name] += called
        names = sorted(counts, key=firsts.__getitem__)
        return Counter({name: counts[name] for name in names if not is_note_tool(name)})

    def used_around(self, *numbers: int) -> Callable[[frozenset[str]], float]:
        """How much the messages around these name some values, together: up to 1 for each, and to 2 for all."""
        first = numbers[0]
        times = self.remembered(("around", first // AROUND), lambda: self._times_around(first))
        own = Counter(value for number in numbers for value in self._named(number))

        def used(values: frozenset[str]) -> float:
            # A call may be far from its late result, and then is not among the messages around it.
            return min(2.0, sum(min(max(0, times[value] - own[value]), _OFTEN) for value in values) / _OFTEN)

        return used

    def _times_around(self, number: int) -> Counter[str]:
        """How many messages of the stretch with this one, of the one before and of the next one name each value."""
        first = number // AROUND * AROUND
        around = range(max(1, first - AROUND), min(len(self.messages), _last_around(number)) + 1)
        return Counter(value for other in around for value in self._named(other))

    def _named(self, number: int) -> frozenset[str]:
        """The values that the user, the agent or its calls name in a message."""
        return self.read(("named", number), lambda: _named(self.messages[number - 1]))


def _last_around(number: int) -> int:
    """The last message of the stretch after that with this one."""
    return (number // AROUND + 2) * AROUND - 1


def _named(msg: Msg) -> frozenset[str]:
    if msg.role in ("tool", "system") or is_compressed(msg):
        return frozenset()
    words = known_values(msg.text if msg.role == "assistant" else words_of_user(msg))
    values = words.union(*(argument_values(facts_of(use)) for use in msg.tool_uses))
    return values if len(values) <= MOST_VALUES else frozenset(nsmallest(MOST_VALUES, values))


def _newest(items: Sequence[T], only: Runs, most: int, number: Callable[[T], int]) -> list[T]:
    """The last `most` of items that lie in these messages; the cost grows with those, not with all."""
    parts: list[Sequence[T]] = []
    for first, last in reversed(only.pairs):
        stop = bisect_right(items, last, key=number)
        start = bisect_left(items, first, hi=stop, key=number)
        parts.append(items[max(start, stop - most) : stop])
        most -= len(parts[-1])
        if most <= 0:
            break
    return [item for part in reversed(parts) for item in part]
