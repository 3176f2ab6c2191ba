"""Renders a work ledger as text within a budget of tokens.

The parts appear in one order (the user's words, the agent's answers, plan, what was done, what was looked at, the
agent's words, lines) and get their room in another: first the user's rules, then a share for each part, then the rest
by importance. A page states what is structure (who spoke, which call, what number) and quotes everything else. Every
line begins with a number or "> ", so that no text of a tool, the agent or the user can pass for a heading, a number or
other words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from autocontext.history.runs import Runs
from autocontext.messages import ToolUseBlock
from autocontext.notes.answers import unforged
from autocontext.notes.calls import MOST_MESSAGES, Call
from autocontext.notes.deeds import Deeds, Group
from autocontext.notes.mentions import Line, lines_about
from autocontext.notes.plan_part import PlanPart
from autocontext.notes.room import Claim, Room
from autocontext.notes.sentences import ASIDE, CLAUSE, COLONS, GREETING, PASTE, RULE, Sentence
from autocontext.notes.shown import NOTHING_SHOWN, Shown, plan_fact
from autocontext.notes.speech import Reason, Speech, notes, reasons, replies, under
from autocontext.notes.standing import instructions_read, running, where
from autocontext.plan import PlanLike, lists_steps
from autocontext.text.failures import is_failure_text
from autocontext.text.rendering import escape_tags, numbers_of
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.notes.work import WorkLedger

SAID, REPLIES, PLAN, READ, WHERE, STARTED, CALLS, LOOKED, REASONS, LINES, NOTES = (
    "The user said:", "The agent answered:", "Plan:", "Instructions read:", "Where:", "Started, no end seen:", "Calls:",
    "Looked at:", "The agent said:", "Lines:", "The agent noted:",
)  # fmt: skip
HEADINGS = (SAID, REPLIES, PLAN, READ, WHERE, STARTED, CALLS, LOOKED, REASONS, NOTES, LINES)

_GIVING = (LINES, LOOKED, REASONS, CALLS, REPLIES, PLAN, NOTES, READ, WHERE, STARTED)
"""The order in which parts lose lines if the text is too long, before the user's words."""
_TYPED, _PASTED = "typed", "pasted"
"""The user's other words."""
_MOST = {
    "rules": 0.60,
    "rules and stories": 0.25,  # those, and longer sentences with something like a rule in them
    "open steps": 0.50,  # of the plan, where they would go short otherwise
    "standing": 0.20,  # where the agent is, what it has started, and which instructions it has read
    "notes": 0.30,  # the agent's own
    "focus": 0.35,  # lines about what it is to keep first
    "more": 0.08,  # the names of the files and records that further calls, which did something, were about
}
"""Most of a budget for each of these."""
_FIRST = {_TYPED: 0.50, _PASTED: 0.25, REPLIES: 0.40, PLAN: 0.12, CALLS: 0.40, REASONS: 0.30, LOOKED: 0.10}
"""First share of each other part in what is left then: of both the user's words together, and each of the others.

What the user says next is about what the agent answered them ("to your 2: no").
"""
_RULES_LEAST, _READ_LEAST = 150, 48
"""Tokens of rules that precede anything else in a small note, and of the instructions that it has read."""
_MOST_LINES = 100
"""Lines about what it is to keep first that are considered."""
_BEGINNING = 60
"""Characters of a conclusion that stand in an answer by no chance; the rest may be cut there."""
_NARROW, _WIDER = 56, (90, 160, 280)
"""Characters of a label, of what is written and of an answer: the least, and more where there is room, newest first."""

_number = attrgetter("number")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a text about a ledger is to cover, and its room."""

    budget: int
    """Most tokens of the text."""
    count: Callable[[str], int]
    """Tokens of a text."""
    only: Runs | None = None
    """Numbers of the messages to cover (those out of view); None for all."""
    known: Runs | None = None
    """Numbers of the messages that may be mentioned at all (not the deleted ones); None for all."""
    shown: Shown = NOTHING_SHOWN
    """What is in view, which the text does not repeat."""
    plan: PlanLike | None = None
    said_budget: int | None = None
    """Most tokens of the user's words."""
    focus: str = ""
    """Reasons with words of it come first, and lines of the originals with them are quoted."""
    state: bool = True
    """Whether it says where the agent is and what it has started."""
    gaps: bool = False
    """Whether it says how much later the user went on after a long pause."""


def render(ledger: WorkLedger, request: PageRequest) -> str:
    """The ledger as text of at most `budget` tokens; "" if nothing fits."""
    page = _Page(ledger, request)
    text = page.text()
    return _Page(ledger, request).text(plan_first=True) if page.lacks_open_steps else text


class _Page:
    """One rendering of a ledger."""

    def __init__(self, ledger: WorkLedger, request: PageRequest) -> None:
        self._ledger, self._budget, self._shown = ledger, request.budget, request.shown
        everything = Runs([(1, len(ledger))] if len(ledger) else ())
        self._only = everything if request.only is None else request.only
        self._available = everything if request.known is None else request.known
        self._said_budget = self._budget if request.said_budget is None else request.said_budget
        self._focus = frozenset(terms(request.focus))
        self._room = Room(self._budget, request.count)
        self._parts: dict[str, list[str]] = {}
        self._speech = Speech(ledger, self._only, self._shown, gaps=request.gaps)
        self._deeds = Deeds.of(ledger, self._only, _NARROW, self._available)
        self._states = request.state
        self._standing: set[Call] = set()
        """Those of the shown calls that have started something of which no end was seen, or read instructions."""
        self._plan = PlanPart(request.plan, [] if request.plan is not None else self._plan_calls())
        self._calls: dict[str, list[Group]] = {}
        """By part, the calls that it may tell of, newest first."""
        self._answered: list[Reason] = []
        """The lines of what the agent answered the user."""
        self._sizes: dict[str, int] = {}
        """By part, how many of its steps, calls or lines it tells of, the most important ones."""

    @property
    def lacks_open_steps(self) -> bool:
        """Whether open steps of the plan had no room in the text."""
        return self._sizes.get(PLAN, 0) < self._plan.open

    def text(self, *, plan_first: bool = False) -> str:
        """The rendered text; "" if nothing fits. `plan_first`: the plan's open steps get room before all else."""
        room = self._room
        if room.left <= 0:
            return ""
        room.left -= room.cost(SAID)
        plan = Claim(room, self._plan.ranked, room.cost, least=self._plan.open)
        if plan_first:
            plan.take(self._most("open steps"))
        self._add_standing()
        rules = max(self._most("rules"), _RULES_LEAST)
        for brief in (True, False):
            for worth in (RULE, CLAUSE):
                told = self._speech.rules(worth, brief=brief)
                # Of their words alone: for what stands before them, less important lines go.
                rules -= self._add_sentences(Claim(room, told, lambda item: room.cost(self._speech.text(*item))), rules)
            rules -= int(self._budget * (_MOST["rules"] - _MOST["rules and stories"]))
        self._add_notes()
        if self._focus:
            self._add_lines()
        self._add_activity(plan)
        self._widen(self._budget - self._size())
        room.left = self._budget - self._size()
        for worth in (PASTE, GREETING):
            self._add_sentences(self._claim_words(self._speech.sentences(worth)), room.left)
        self._write()
        return self._fit()

    def _most(self, what: str) -> int:
        """Most tokens for this."""
        return int(self._budget * _MOST[what])

    def _show(self, part: str, lines: list[str]) -> None:
        """Show a part, and take the room of its heading."""
        self._parts[part] = lines
        self._room.left -= self._room.cost(part) if lines else 0

    def _write(self) -> None:
        """Write the parts that may have got longer or shorter."""
        self._parts[SAID] = self._speech.lines()
        self._parts[PLAN] = self._plan.lines(self._sizes[PLAN])
        self._parts[REPLIES] = [*_under_numbers(self._answered, self._sizes[REPLIES])]
        for part in (CALLS, LOOKED):
            self._parts[part] = self._lines_about_calls(part)

    def _rows(self) -> Iterator[str]:
        return (line for part in HEADINGS if self._parts.get(part) for line in (part, *self._parts[part]))

    def _join(self) -> str:
        """The text as it leaves: escaped as a whole, since pieces of a line may form a tag only together."""
        return escape_tags("\n".join(self._rows()))

    def _size(self) -> int:
        """Tokens of the current parts: the sum over lines, an upper bound, or the exact count if that is too large."""
        size = sum(map(self._room.cost, self._rows()))
        return size if size <= self._budget else self._room.count(self._join())

    def _fit(self) -> str:
        """The text, without its least important lines if it is too long; the plan's open steps go last."""
        while (text := self._join()) and (over := self._room.count(text) - self._budget) > 0:
            last = SAID if self._parts[SAID] else PLAN
            part = next((heading for heading in _GIVING if self._gives(heading)), last)
            if part != SAID and not self._sizes.get(part):
                self._parts[part].pop(0)
                continue
            if part == SAID:
                self._speech.drop(over, self._room.cost)
            else:
                self._sizes[part] -= 1
            self._write()
        return text

    def _gives(self, heading: str) -> bool:
        """Whether a part has lines that go before the user's words; the plan's open steps go after them."""
        return self._sizes[PLAN] > self._plan.open if heading == PLAN else bool(self._parts.get(heading))

    # --------------------------------------------------------------------------------------------------- the plan
    def _plan_calls(self) -> list[ToolUseBlock]:
        """The calls that made the current plan; [] if another note has the newest, or it is in view and lists all."""
        calls = [(self._ledger.calls[at], use) for at, use in self._ledger.plan_calls]
        calls = [(call, use) for call, use in calls if call.number in self._available and not self._failed(call)]
        if calls and lists_steps(newest := calls[-1][1]) and self._shown.has(plan_fact(newest)):
            return []
        hidden = [call.number for call, use in calls if not self._shown.has(plan_fact(use))]
        return [use for _, use in calls] if hidden and hidden[-1] in self._only else []

    def _failed(self, call: Call) -> bool:
        """Whether a call of a plan tool has changed nothing; many services mark no result as an error."""
        ledger = self._ledger
        return call.is_error or ledger.read(("failed", call), lambda: is_failure_text(ledger.result_of(call)))

    # ------------------------------------------------------------------------------------------- what still stands
    def _add_standing(self) -> None:
        """Add what the agent has started, where it is and what it has to follow, the newest as far as there is room."""
        ledger = self._ledger
        here, started = list[tuple[int, str]](), list[Call]()
        if self._states:
            here = [place for place in ledger.of_newest_calls(where) if place[0] in self._only]
            covered = {*self._deeds.calls}
            started = [call for call in ledger.remembered(running, lambda: running(ledger)) if call in covered]
        read = instructions_read(ledger, self._only)
        parts: dict[str, list[tuple[str, Call | None]]] = {
            STARTED: [(self._deeds.line(Group((call,), call)), call) for call in started],
            WHERE: [(f"m{number}: {unforged(words)}", None) for number, words in here],
            READ: [(f"m{call.result}: {unforged(label)}", call) for call, label in read],
        }
        share = self._most("standing")
        for part, lines in parts.items():
            before = self._room.left
            claim = Claim(self._room, reversed(lines), lambda item: self._room.cost(item[0]))
            least = min(_READ_LEAST, self._room.left) if part == READ else 0
            claim.take(max(share, least) - self._room.cost(part))
            self._show(part, [line for line, _ in reversed(claim.chosen)])
            share -= before - self._room.left
            self._standing.update(call for _, call in claim.chosen if call is not None)

    # --------------------------------------------------------------------------------------------- the user's words
    def _add_sentences(self, claim: Claim[tuple[int, Sentence]], most: int) -> int:
        """Add sentences of the user up to `most` tokens; returns their tokens."""
        before = self._room.left
        claim.take(min(most, self._said_budget))
        self._speech.choose(claim.chosen)
        self._said_budget -= before - self._room.left
        return before - self._room.left

    def _claim_words(self, items: Iterable[tuple[int, Sentence]]) -> Claim[tuple[int, Sentence]]:
        """A claim for sentences of the user; without newlines, as an estimate rounds up the tokens of each short line.

        What that is too much goes again at the end.
        """
        line = self._speech.priced()
        return Claim(self._room, items, lambda item: self._room.count(line(item)))

    def _add_notes(self) -> None:
        """Add the agent's own notes, the newest as far as their share goes."""
        told = notes(self._ledger, self._only, self._shown)
        claim = Claim(self._room, told, lambda note: self._room.cost(note[1]))
        claim.take(self._most("notes"))
        self._show(NOTES, [line for _, line in sorted(claim.chosen)])

    # ------------------------------------------------------------------------------ plain words, plan, calls, reasons
    def _add_activity(self, plan: Claim[str]) -> None:
        """Add the parts that compete for room: plain sentences of the user, the plan, calls, the agent's reasons."""
        room, deeds = self._room, self._deeds
        latest = [g for g in reversed(deeds.groups) if not g.newest.plans and not self._standing.issuperset(g.calls)]
        done = [group for group in latest if not group.newest.looks]
        self._calls = {CALLS: done, LOOKED: [group for group in latest if group.newest.looks]}
        said = reasons(self._ledger, self._only, self._shown, focus=self._focus)
        answered = self._answered = list(replies(self._ledger, self._only, self._shown))
        typed, pasted = self._claim_words(self._speech.typed()), self._claim_words(self._speech.sentences(ASIDE))
        headed = {**self._calls, REASONS: said, REPLIES: answered}
        room.left -= sum(room.cost(heading) for heading, lines in headed.items() if lines)
        whole = room.left
        typed.take(min(int(whole * _FIRST[_TYPED]), self._said_budget))
        used = whole - room.left
        pasted.take(min(int(whole * _FIRST[_PASTED]), self._said_budget) - used)
        told = Claim(room, answered, lambda row: room.cost(f"> {row.text}"))
        told.take(int(room.left * _FIRST[REPLIES]))
        # In the order in which they then take the rest. What the agent concluded says more of many calls than a line
        # for each. The last one gives room back first, the user's words none.
        claims: dict[str, Claim[Any]] = {
            PLAN: plan,
            _TYPED: typed,
            REASONS: Claim(room, _not_in(told.chosen, said), lambda reason: room.cost(_reason(reason))),
            CALLS: Claim(room, done, lambda group: room.cost(deeds.line(group))),
            REPLIES: told,
            _PASTED: pasted,
            LOOKED: Claim(room, self._calls[LOOKED], lambda group: room.cost(deeds.line(group))),
        }
        shares = _FIRST if done else {**_FIRST, LOOKED: _FIRST[CALLS]}
        for part in (PLAN, CALLS, REASONS, LOOKED):
            claims[part].take(int(room.left * shares[part]))
        for part, claim in claims.items():
            claim.take(self._said_budget - used if part in (_TYPED, _PASTED) else room.left)
        giving = [claim for part, claim in reversed(claims.items()) if part not in (_TYPED, _PASTED)]
        self._speech.choose((*typed.chosen, *pasted.chosen))
        while True:
            self._sizes = {part: claims[part].size for part in (PLAN, REPLIES, CALLS, LOOKED)}
            self._write()
            self._parts[REASONS] = [*map(_reason, sorted(_not_in(told.chosen, claims[REASONS].chosen)))]
            over = self._size() - self._budget
            if over <= 0 or not any(claim.give_back(over) for claim in giving):
                return

    def _lines_about_calls(self, part: str) -> list[str]:
        """The lines of the calls with one, and the number of the others."""
        shown, hidden = self._shown_calls(part), self._calls[part][self._sizes[part] :]
        lines = self._deeds.lines(shown[::-1])
        # Also of calls that only looked and have no line: those above would seem to be all.
        counted = lines or (part == LOOKED and 0 < self._sizes[CALLS] < len(self._calls[CALLS]))
        calls = [call for group in hidden for call in group.calls]
        return [self._more(calls, named=part == CALLS), *lines] if hidden and counted else lines

    def _shown_calls(self, part: str) -> list[Group]:
        return self._calls[part][: self._sizes[part]]

    def _more(self, hidden: Sequence[Call], *, named: bool) -> str:
        """How many calls have no line; of those that did something, which files and records they were about."""
        numbers = [*map(_number, hidden)]
        more = f"{numbers_of(min(numbers), max(numbers))}: {len(hidden)} more call{'s' if len(hidden) > 1 else ''}"
        return ": ".join(filter(None, (more, "; ".join(self._others(hidden) if named else ()))))

    def _others(self, hidden: Sequence[Call]) -> Iterator[str]:
        """The files and records that these calls are about, the most first, as far as the share for them goes."""
        things: dict[str, list[Call]] = {}
        for call in hidden:
            things.setdefault(self._deeds.thing(call), []).append(call)
        things.pop("", None)
        most_first = sorted(things.items(), key=lambda item: (-len(item[1]), -item[1][-1].number))
        most = self._most("more")
        claim = Claim(Room(most, self._room.count), starmap(self._deeds.in_short, most_first), self._room.cost)
        claim.take(most)
        # Behind another name, an answer would seem to be that of both; without a mark, a few names would be all.
        yield from sorted(claim.chosen, key=lambda line: " -> " not in line)
        if 0 < claim.size < len(things):
            yield "…"

    def _widen(self, room: int) -> None:
        """Give the lines of calls more characters while there is room, the newest first."""
        told = (*self._shown_calls(CALLS), *self._shown_calls(LOOKED))
        newest = sorted(told, key=lambda group: -group.newest.number)
        count, line = self._room.count, self._deeds.line
        for width in _WIDER:
            for group in newest:
                more = count(line(group, width)) - count(line(group))
                if more <= room:
                    room -= max(0, more)
                    self._deeds.width[id(group.newest)] = width
        self._write()

    # ---------------------------------------------------------------------------------------------------- the focus
    def _add_lines(self) -> None:
        """Add lines of the originals with words of the focus: those with most of them, the newest first."""
        found: dict[str, Line] = {}
        newest = islice(reversed(self._only), MOST_MESSAGES)
        about = lines_about(self._focus, self._ledger.messages, newest)
        for _, line in sorted(about, key=lambda item: (-item[0], -item[1].number)):
            found.setdefault(line.text.strip(), line)
        # Each is searched for in all that is in view.
        unseen = (line for text, line in islice(found.items(), _MOST_LINES) if not self._shown.says(text))
        claim = Claim(self._room, unseen, lambda line: self._room.cost(line.shown()))
        claim.take(self._most("focus") - self._room.cost(LINES))
        self._show(LINES, [line.shown() for line in sorted(claim.chosen)])


def _not_in(rows: Sequence[Reason], said: Iterable[Reason]) -> Iterator[Reason]:
    """Those of the agent's conclusions that do not begin in these rows of its answers."""
    shown = " ".join(row.text for row in rows)
    return (r for r in said if not all(part.strip()[:_BEGINNING] in shown for part in r.text.split("…")))


def _under_numbers(rows: Sequence[Reason], size: int) -> Iterator[str]:
    """The first rows under the numbers of their messages, in the order of the history, with "…" where one is cut.

    Not behind a row that only announces the next one.
    """
    while 0 < size < len(rows) and rows[size - 1].text.endswith(COLONS) and rows[size - 1].number == rows[size].number:
        size -= 1
    for number, of_one in groupby(sorted(rows[:size]), key=_number):
        texts = [row.text for row in of_one]
        texts[-1] += " …" * (size < len(rows) and rows[size].number == number)
        yield from under(f"m{number}:", texts)


def _reason(reason: Reason) -> str:
    return f"m{reason.number}: {reason.text}"
