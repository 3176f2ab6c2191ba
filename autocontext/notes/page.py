"""Renders a work ledger as text within a budget of tokens.

The parts appear in one order (the user's words, the agent's answers, plan, what was done, what was looked at, the
agent's words, lines) and get their room in another: first the user's rules, then a share for each part, then the rest
by importance. A page states what is structure (who spoke, which call, what number) and quotes everything else. Every
line begins with a number or "> ", so that no text of a tool, the agent or the user can pass for a heading, a number or
other words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from autocontext.history.runs import Runs
from autocontext.messages import Msg, ToolUseBlock
from autocontext.notes.answers import unforged
from autocontext.notes.calls import Call
from autocontext.notes.deeds import Deeds, Group
from autocontext.notes.mentions import Line, lines_about
from autocontext.notes.plan_part import PlanPart
from autocontext.notes.room import Claim, Room
from autocontext.notes.sentences import ASIDE, CLAUSE, COLONS, GREETING, PASTE, RULE, Sentence
from autocontext.notes.shown import InView, Shown, plan_fact
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
_RULES = (RULE, CLAUSE)
_RULES_SHARE = 0.60
_STORIES_SHARE = 0.25
"""Most of a page for rules and longer sentences with something like a rule in them."""
_RULES_LEAST = 150
"""Tokens of rules that precede anything else in a small note."""
_SAID_SHARE, _TYPED_SHARE = 0.25, 0.5
"""Share of the user's words in the room that the rules leave, and most of it for what they have typed."""
_REPLIES_SHARE = 0.40
"""Share of what is left then for what the agent answered the user: what they say next is about it ("to your 2: no")."""
_SHARES = {"plan": 0.12, "done": 0.40, "reasons": 0.30, "looked": 0.10}
"""First share of each other part in what is left then."""
_CLAIMS = ("plan", "typed", "reasons", "done", "replies", "said", "looked")
"""The order in which the parts then take the rest. The last one gives room back first, the user's words none.

What the agent concluded says more of many calls than a line for each.
"""
_OF_USER = ("typed", "said")
_FOCUS_SHARE, _MOST_LINES = 0.35, 100
"""Most of a budget for lines about what it is to keep first, and how many of them are considered."""
_BEGINNING = 60
"""Characters of a conclusion that stand in an answer by no chance; the rest may be cut there."""
_NOTES_SHARE = 0.30
"""Most of a budget that the agent's own notes take."""
_OPEN_SHARE = 0.5
"""Most of a budget that is kept for the plan's open steps where they would go short otherwise."""
_STANDING_SHARE = 0.2
"""Most of a budget for where the agent is, what it has started, and which instructions it has read."""
_READ_LEAST = 48
"""Tokens for the instructions that it has read, in a small note."""
_NARROW, _WIDER = 56, (90, 160, 280)
"""Characters of a label, of what is written and of an answer: the least, and more where there is room, newest first."""
_MORE_SHARE = 0.08
"""Share of the tokens in which the files and records are named that others, which did something, were about."""

T = TypeVar("T")
_number = attrgetter("number")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a text about a ledger is to cover, and its room."""

    budget: int
    """Most tokens of the text."""
    count: Callable[[str], int]
    """Tokens of a text."""
    only: Container[int] | None = None
    """Numbers of the messages to cover (those out of view); None for all."""
    known: Container[int] | None = None
    """Numbers of the messages that may be mentioned at all (not the deleted ones); None for all."""
    shown: Iterable[Msg] | Shown = ()
    """The messages in view, which the text does not repeat."""
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
    return _Page(ledger, request, plan_first=True).text() if page.lacks_open_steps else text


class _Page:
    """One rendering of a ledger."""

    def __init__(self, ledger: WorkLedger, request: PageRequest, *, plan_first: bool = False) -> None:
        """`plan_first`: the plan's open steps get their room before anything else."""
        last = len(ledger.messages)
        self._ledger, self._budget = ledger, request.budget
        shown = request.shown
        self._shown = shown if isinstance(shown, Shown) else InView(shown).without(0, 0, "")
        self._only, self._available = Runs.within(request.only, last), Runs.within(request.known, last)
        self._said_budget = self._budget if request.said_budget is None else request.said_budget
        self._focus = frozenset(terms(request.focus))
        self._room = Room(self._budget, request.count)
        self._parts: dict[str, list[str]] = {}
        self._told: dict[str, list[Group]] = {}
        """The calls with a line, newest first, by part."""
        self._hidden: dict[str, list[Group]] = {}
        self._listed: dict[str, tuple[list[Group], list[str]]] = {}
        """By part, the calls with a line and their lines."""
        self._said_more: dict[str, tuple[list[Group], str]] = {}
        """By part, the calls without a line, and the line about them."""
        self._speech = Speech(ledger, self._only, self._shown, gaps=request.gaps)
        self._deeds = Deeds.of(ledger, self._only, _NARROW, self._available)
        self._states = request.state
        self._standing: set[Call] = set()
        """Those of the shown calls that have started something of which no end was seen, or read instructions."""
        self._plan = PlanPart(request.plan, [] if request.plan is not None else self._plan_calls())
        self._plan_first = plan_first
        self._answered: list[Reason] = []
        """The lines of what the agent answered the user, and how many of them it shows."""
        self._replies_size = 0
        self._plan_size = 0
        """Lines of the plan, the most important first."""

    @property
    def lacks_open_steps(self) -> bool:
        """Whether open steps of the plan had no room in the text."""
        return self._plan_size < self._plan.open

    def text(self) -> str:
        """The rendered text; "" if nothing fits."""
        room = self._room
        if room.left <= 0:
            return ""
        room.left -= room.cost(SAID)
        plan = self._claim_plan()
        self._add_standing()
        rules = max(int(self._budget * _RULES_SHARE), _RULES_LEAST)
        for worth in _RULES:
            rules -= self._add_sentences(worth, rules, brief=True)
        rules -= int(self._budget * (_RULES_SHARE - _STORIES_SHARE))
        for worth in _RULES:
            rules -= self._add_sentences(worth, rules, brief=False)
        self._add_notes()
        if self._focus:
            self._add_lines()
        self._add_activity(plan)
        self._widen(self._budget - self._size())
        room.left = self._budget - self._size()
        for worth in (PASTE, GREETING):
            self._add_sentences(worth, room.left)
        self._parts[SAID] = self._speech.lines()
        return self._fit()

    def _join(self) -> str:
        """The text as it leaves: escaped as a whole, since pieces of a line may form a tag only together."""
        return escape_tags("\n".join(line for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h])))

    def _size(self) -> int:
        """Tokens of the current parts: the sum over lines, an upper bound, or the exact count if that is too large."""
        self._parts[SAID] = self._speech.lines()
        size = sum(self._room.cost(line) for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))
        return size if size <= self._budget else self._room.count(self._join())

    def _fit(self) -> str:
        """The text, without its least important lines if it is too long."""
        while (text := self._join()) and (over := self._room.count(text) - self._budget) > 0:
            part = next((heading for heading in _GIVING if self._gives(heading)), SAID)
            if part == PLAN or (part == SAID and not self._parts[SAID] and self._plan_size):
                self._set_plan(self._plan_size - 1)
            elif part == SAID:
                if not self._parts[SAID]:
                    return ""
                self._speech.drop(over, self._room.cost)
                self._parts[SAID] = self._speech.lines()
            elif part == REPLIES:
                self._set_replies(self._replies_size - 1)
            elif self._told.get(part):
                self._hidden[part].append(self._told[part].pop())  # the oldest
                self._list_calls()
            else:
                self._parts[part].pop(0)
        return text

    def _gives(self, heading: str) -> bool:
        """Whether a part has lines that go before the user's words; the plan's open steps go after them."""
        return self._plan_size > self._plan.open if heading == PLAN else bool(self._parts.get(heading))

    # --------------------------------------------------------------------------------------------------- the plan
    def _claim_plan(self) -> Claim:
        """A claim for the plan's lines; its open steps keep theirs."""
        claim = Claim(self._room, self._plan.ranked, least=self._plan.open)
        if self._plan_first:
            claim.take(int(self._budget * _OPEN_SHARE))
        return claim

    def _set_plan(self, size: int) -> None:
        """Show so many lines of the plan."""
        self._plan_size = size
        self._parts[PLAN] = self._plan.lines(size)

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
        ledger, here = self._ledger, list[str]()
        started, read = list[Call](), dict(instructions_read(ledger, self._only))
        if self._states:
            here = [
                f"m{number}: {unforged(words)}"
                for number, words in ledger.of_newest_calls(where)
                if number in self._only
            ]
            started = ledger.remembered(running, lambda: running(ledger))
            covered = {*self._deeds.calls} if started else set[Call]()
            started = [call for call in started if call in covered]
        share = int(self._budget * _STANDING_SHARE)
        parts = {
            STARTED: [self._deeds.line(Group((call,), call)) for call in started],
            WHERE: here,
            READ: [f"m{call.result}: {unforged(label)}" for call, label in read.items()],
        }
        for part, lines in parts.items():
            before = self._room.left
            claim = Claim(self._room, reversed(lines))
            least = min(_READ_LEAST, self._room.left) if part == READ else 0
            claim.take(max(share, least) - self._room.cost(part))
            self._parts[part] = lines[len(lines) - claim.size :]
            self._room.left -= self._room.cost(part) if claim.size else 0
            share -= before - self._room.left
            told = {STARTED: started, READ: [*read]}.get(part, [])
            self._standing.update(told[len(told) - claim.size :])

    # --------------------------------------------------------------------------------------------- the user's words
    def _add_sentences(self, worth: int, most: int, *, brief: bool | None = None) -> int:
        """Add the user's sentences of this worth, newest first, up to `most` tokens; returns their tokens."""
        before = self._room.left
        items = self._speech.sentences(worth, brief=brief)
        # Of rules their words alone: for what stands before them, less important lines go.
        claim, sentences = self._claim(items, self._words) if worth in _RULES else self._claim_words(items)
        claim.take(min(most, self._said_budget))
        self._speech.choose(sentences[: claim.size])
        self._said_budget -= before - self._room.left
        return before - self._room.left

    def _words(self, item: tuple[int, Sentence]) -> str:
        return self._speech.text(*item)

    def _claim_words(self, items: Iterable[tuple[int, Sentence]]) -> tuple[Claim, list[tuple[int, Sentence]]]:
        """A claim for sentences of the user; without newlines, as an estimate rounds up the tokens of each short line.

        What that is too much goes again at the end.
        """
        return self._claim(items, self._speech.priced(), self._room.count)

    def _claim(
        self, items: Iterable[T], text: Callable[[T], str], cost: Callable[[str], int] | None = None
    ) -> tuple[Claim, list[T]]:
        """A claim for the lines of these, and those that it has measured: most would not fit, and are not read."""
        measured: list[T] = []

        def texts() -> Iterator[str]:
            for item in items:
                measured.append(item)
                yield text(item)

        return Claim(self._room, texts(), cost=cost), measured

    def _add_notes(self) -> None:
        """Add the agent's own notes, the newest as far as their share goes."""
        lines = list(notes(self._ledger, self._only, self._shown))
        claim = Claim(self._room, (line for _, line in lines))
        claim.take(int(self._budget * _NOTES_SHARE))
        self._parts[NOTES] = [line for _, line in sorted(lines[: claim.size])]
        self._room.left -= self._room.cost(NOTES) if self._parts[NOTES] else 0

    # ------------------------------------------------------------------------------ plain words, plan, calls, reasons
    def _add_activity(self, plan: Claim) -> None:
        """Add the parts that compete for room: plain sentences of the user, the plan, calls, the agent's reasons."""
        room, deeds = self._room, self._deeds
        latest = [g for g in reversed(deeds.groups) if not g.newest.plans and not self._standing.issuperset(g.calls)]
        done = [group for group in latest if not group.newest.looks]
        looked = [group for group in latest if group.newest.looks]
        said = reasons(self._ledger, self._only, self._shown, focus=self._focus)
        answered = self._answered = list(replies(self._ledger, self._only, self._shown))
        typed, typed_sentences = self._claim_words(self._speech.typed())
        pasted, pasted_sentences = self._claim_words(self._speech.sentences(ASIDE))
        headed = ((CALLS, done), (LOOKED, looked), (REASONS, said), (REPLIES, answered))
        room.left -= sum(room.cost(heading) for heading, lines in headed if lines)
        whole = room.left
        typed.take(min(int(whole * _TYPED_SHARE), self._said_budget))
        used = whole - room.left
        pasted.take(min(int(whole * _SAID_SHARE), self._said_budget) - used)
        told = Claim(room, map(_row, answered))
        told.take(int(room.left * _REPLIES_SHARE))
        said = [*_not_in(answered[: told.size], said)]
        claims = {
            "plan": plan,
            "typed": typed,
            "said": pasted,
            "replies": told,
            "done": Claim(room, (deeds.line(group) for group in done)),
            "reasons": Claim(room, map(_reason, said)),
            "looked": Claim(room, (deeds.line(group) for group in looked)),
        }
        shares = _SHARES if done else {**_SHARES, "looked": _SHARES["done"]}
        for part, share in shares.items():
            claims[part].take(int(room.left * share))
        for part in _CLAIMS:
            claims[part].take(self._said_budget - used if part in _OF_USER else room.left)

        def excess() -> int:
            """Show what is claimed; the tokens over the budget."""
            self._speech.choose((*typed_sentences[: typed.size], *pasted_sentences[: pasted.size]))
            self._set_plan(plan.size)
            self._told = {CALLS: done[: claims["done"].size], LOOKED: looked[: claims["looked"].size]}
            self._hidden = {CALLS: done[claims["done"].size :], LOOKED: looked[claims["looked"].size :]}
            self._list_calls()
            self._set_replies(claims["replies"].size)
            reasons_left = _not_in(answered[: claims["replies"].size], said[: claims["reasons"].size])
            self._parts[REASONS] = [*map(_reason, sorted(reasons_left))]
            return self._size() - self._budget

        while (over := excess()) > 0:
            if not any(claims[part].give_back(over) for part in reversed(_CLAIMS) if part not in _OF_USER):
                return

    def _set_replies(self, size: int) -> None:
        """Show so many lines of what the agent answered the user, of the newest answers."""
        self._replies_size = size
        self._parts[REPLIES] = [*_under_numbers(self._answered, size)]

    def _list_calls(self) -> None:
        """List the chosen calls, and the number of the others."""
        for part, groups in self._told.items():
            if part not in self._listed or self._listed[part][0] != groups:
                self._listed[part] = [*groups], self._deeds.lines(groups[::-1])
            lines = self._listed[part][1]
            hidden = self._hidden[part]
            # Also of calls that only looked and have no line: those above would seem to be all.
            counted = lines or (part == LOOKED and self._hidden[CALLS] and self._told[CALLS])
            self._parts[part] = [self._more(part, hidden), *lines] if hidden and counted else lines

    def _more(self, part: str, hidden: Sequence[Group]) -> str:
        """The line about calls without one; written anew when these are others than before."""
        if part not in self._said_more or self._said_more[part][0] != hidden:
            calls = [call for group in hidden for call in group.calls]
            self._said_more[part] = [*hidden], self._say_more(calls, named=part == CALLS)
        return self._said_more[part][1]

    def _say_more(self, hidden: Sequence[Call], *, named: bool) -> str:
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
        left, lines = int(self._budget * _MORE_SHARE), list[str]()
        for what, calls in sorted(things.items(), key=lambda item: (-len(item[1]), -item[1][-1].number)):
            line = self._deeds.in_short(what, calls)
            left -= self._room.cost(line)
            if left < 0:
                break
            lines.append(line)
        # Behind another name, an answer would seem to be that of both; without a mark, a few names would be all.
        yield from sorted(lines, key=lambda line: " -> " not in line)
        if 0 < len(lines) < len(things):
            yield "…"

    def _widen(self, room: int) -> None:
        """Give the lines of calls more characters while there is room, the newest first."""
        newest = sorted((g for groups in self._told.values() for g in groups), key=lambda g: -g.newest.number)
        sizes = [self._room.count(self._deeds.line(group)) for group in newest]
        for width in _WIDER:
            for i, group in enumerate(newest):
                size = self._room.count(self._deeds.line(group, width))
                if size - sizes[i] <= room:
                    room -= max(0, size - sizes[i])
                    sizes[i] = size
                    self._deeds.width[id(group.newest)] = width
                    self._listed.clear()
        self._list_calls()

    # ---------------------------------------------------------------------------------------------------- the focus
    def _add_lines(self) -> None:
        """Add lines of the originals with words of the focus: those with most of them, the newest first."""
        found: dict[str, Line] = {}
        about = lines_about(self._focus, self._ledger.messages, self._only)
        for _, line in sorted(about, key=lambda item: (-item[0], -item[1].number)):
            found.setdefault(line.text.strip(), line)
        # Each is searched for in all that is in view.
        unseen = (line for text, line in islice(found.items(), _MOST_LINES) if not self._shown.says(text))
        claim, chosen = self._claim(unseen, Line.shown)
        claim.take(int(self._budget * _FOCUS_SHARE) - self._room.cost(LINES))
        self._parts[LINES] = [line.shown() for line in sorted(chosen[: claim.size])]
        self._room.left -= self._room.cost(LINES) if claim.size else 0


def _not_in(rows: Sequence[Reason], said: Iterable[Reason]) -> Iterator[Reason]:
    """Those of the agent's conclusions that do not begin in these rows of its answers."""
    shown = " ".join(row.text for row in rows)
    return (r for r in said if not all(part.strip()[:_BEGINNING] in shown for part in r.text.split("…")))


def _row(line: Reason) -> str:
    return f"> {line.text}"


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
