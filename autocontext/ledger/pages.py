"""A work ledger as text within a budget of tokens: which parts, in which order, and what goes first when room is short.

Parts stand in one order (the user's words, plan, changed, calls, found, said by the agent) and get their room in
another: rules that the user gave, then a first share for each part, then what is left, by importance. Every line begins
with a number of ours or "> ", so that nothing from a tool, the agent or the user can look like a heading of ours, a
number or somebody else's words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from autocontext.history.runs import Runs
from autocontext.ledger.calls import Call, Key, label_in, shortened
from autocontext.ledger.doings import LABEL, NARROW, Changed, Doings, Group, by_folder
from autocontext.ledger.lines import Quotes
from autocontext.ledger.room import Claim, Room
from autocontext.ledger.sentences import CLAUSE, GREETING, PASTE, PLAIN, RULE, Sentence
from autocontext.ledger.speech import Speech, remarks
from autocontext.ledger.values import known_values
from autocontext.messages import Msg, ToolUseBlock
from autocontext.plan import PlanLike, plan_lines
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, REMARKS = (
    "The user said:", "Plan:", "Changed:", "Calls (unmarked ones succeeded):", "Last call of its kind:", "Found:",
    "The agent said:",
)  # fmt: skip
HEADINGS = (SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, REMARKS)

_RULES_SHARE = 0.60
_RULES_LEAST = 150
"""Tokens of rules that go before anything else in a small note."""
_SHARES = {"changed": 0.20, "failures": 0.20, "calls": 0.25, "said": 0.25, "plan": 0.12}
"""What each part gets first, of the room that rules leave."""
_CLAIMS = ("plan", "changed", "said", "failures", "calls")
"""The order in which parts then take what is left. The last one gives up first."""
_WIDE_SHARE = 0.45
"""Of the room that rules leave: calls whose long labels take more get short ones."""
_NEWEST_CALLS = 60
"""Calls that are worth shorter labels, so that all of them are listed."""
_MOST_CALLS = 1_000
"""Calls, and failures, that are considered."""
_QUOTES_SHARE = 0.16
"""What quotes get in any case."""
_SPARE = 0.02
"""Share of a budget that may stay empty."""
_REFILLS = 4
"""How often what is left of a budget is worked out anew."""
_EXAMPLES_SHARE = 0.08
_REMARKS_SHARE = 0.06
_REMARKS_LEAST = 40
"""Tokens of the agent's conclusions in a small note."""
_PLAN_LINE = 120
"""Characters of a subtask."""


class Page:
    """One rendering."""

    def __init__(
        self,
        ledger: WorkLedger,
        budget: int,
        count: Callable[[str], int],
        *,
        only: Container[int] | None,
        known: Container[int] | None,
        shown: Iterable[Msg],
        plan: PlanLike | None,
        said_budget: int | None,
        quotes_budget: int | None,
    ) -> None:
        last = len(ledger.messages)
        self._ledger, self._budget, self._plan, self._shown = ledger, budget, plan, tuple(shown)
        self._only, self._known = Runs.within(only, last), Runs.within(known, last)
        self._said_budget = budget if said_budget is None else said_budget
        self._quotes_budget = budget if quotes_budget is None else min(budget, quotes_budget)
        self._room = Room(budget, count)
        self._parts: dict[str, list[str]] = {}
        self._speech = Speech(ledger, self._only, self._shown)
        self._doings = Doings(ledger, self._only)
        self._elsewhere = "\n".join(text for m in self._shown for text in m.texts())
        self._seen = frozenset[str]().union(*(known_values(text) for m in self._shown for text in m.texts()))
        """Values that the reader sees in other messages."""

    def text(self) -> str:
        """The rendering; "" when nothing fits."""
        room = self._room
        if room.left <= 0:
            return ""
        room.left -= room.cost(SAID)
        rules = max(int(self._budget * _RULES_SHARE), _RULES_LEAST)
        rules -= self._say(RULE, rules)
        self._say(CLAUSE, rules)
        reserved = min(int(self._budget * _QUOTES_SHARE), self._quotes_budget, max(0, room.left) // 2)
        room.left -= reserved + room.cost(CHANGED) + room.cost(CALLS)
        self._tell_doings()
        room.left = self._budget - self._size()
        if not self._quotes_budget:
            return self._within()
        self._add_examples()
        most = max(self._quotes_budget, self._budget - room.left + reserved)
        self._add_quotes(most + self._add_remarks())
        self._say(PASTE, room.left)
        self._say(GREETING, room.left)
        self._parts[SAID] = self._speech.lines()
        return self._within()

    def _joined(self) -> str:
        return "\n".join(line for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))

    def _size(self) -> int:
        """Tokens of the parts as they stand: at most, line by line, or exactly where that would be too many."""
        self._parts[SAID] = self._speech.lines()
        lines = (line for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))
        size = sum(map(self._room.cost, lines))
        return size if size <= self._budget else self._room.count(self._joined())

    def _within(self) -> str:
        """The text; what is worth least goes while it is too long."""
        while (text := self._joined()) and self._room.count(text) > self._budget:
            part = next((h for h in (FOUND, REMARKS, EXAMPLES, PLAN) if self._parts.get(h)), SAID)
            if part == SAID:
                if not self._parts[SAID]:
                    return ""
                self._speech.drop_oldest()
                self._parts[SAID] = self._speech.lines()
            else:
                self._parts[part].pop()
        return text

    # --------------------------------------------------------------------------------------------- the user's words
    def _say(self, worth: int, most: int) -> int:
        """Tell sentences that are worth so much, newest first, of at most `most` tokens; gives the tokens they take."""
        left = self._room.left
        claim, sentences = self._claim_said(worth)
        claim.take(min(most, self._said_budget))
        self._speech.choose(sentences[: claim.taken])
        self._said_budget -= left - self._room.left
        return left - self._room.left

    def _claim_said(self, worth: int) -> tuple[Claim, list[tuple[int, Sentence]]]:
        """A claim for sentences that are worth so much, newest first, and those that it looked at."""
        sentences: list[tuple[int, Sentence]] = []

        def texts() -> Iterator[str]:
            for sentence in self._speech.sentences(worth):
                sentences.append(sentence)
                yield self._speech.text(*sentence)

        return Claim(self._room, texts(), more=1), sentences

    # -------------------------------------------------------------------------------- plain words, plan, changes, calls
    def _tell_doings(self) -> None:
        """What has to be weighed against each other: plain words of the user, the plan, changes, failures, calls."""
        room, doings = self._room, self._doings
        groups = doings.groups()
        changes = doings.changes()
        failing = [g for g in reversed(groups) if g.newest.failed and not doings.repaired(g.newest)][:_MOST_CALLS]
        failed = {g.newest.key for g in failing}
        told = {(c.last.name, c.thing) for c in changes}
        listed = [g for g in reversed(groups) if g.newest.key not in failed and not _told(g, told)][:_MOST_CALLS]
        width = self._width(listed[:_NEWEST_CALLS])
        own = self._own_lines(failing)
        lines = self._change_lines(changes)
        said, sentences = self._claim_said(PLAIN)
        plan = [f"> {shortened(one_line(line), _PLAN_LINE)}" for line in plan_lines(self._plan, self._plan_calls())]
        claims = {
            "plan": Claim(room, plan),
            "changed": Claim(room, (line for line, _ in reversed(lines))),
            "said": said,
            "failures": Claim(room, own.values()),
            "calls": Claim(room, (doings.label(g, width) for g in listed)),
        }
        for part, share in _SHARES.items():
            claims[part].take(min(int(room.left * share), self._said_budget if part == "said" else room.left))
        for part in _CLAIMS:
            claims[part].take(self._said_budget if part == "said" else room.left)
        while True:
            self._speech.choose(sentences[: claims["said"].taken])
            self._parts[PLAN] = plan[: claims["plan"].taken]
            shown = lines[len(lines) - claims["changed"].taken :]
            hidden = sum(n for _, n in lines) - sum(n for _, n in shown)
            before = [f"and {hidden} more before"] if hidden and shown else []
            self._parts[CHANGED] = [*before, *(line for line, _ in shown)]
            chosen = {g.newest.key for g in failing[: claims["failures"].taken] + listed[: claims["calls"].taken]}
            self._list_calls(groups, changes[hidden:], chosen, own, width)
            excess = self._size() - self._budget
            if excess <= 0 or not any(claims[part].give_back(excess) for part in reversed(_CLAIMS) if part != "said"):
                return

    def _list_calls(
        self,
        groups: Sequence[Group],
        changes: Sequence[Changed],
        chosen: Container[Key],
        own: dict[Key, str],
        width: int,
    ) -> None:
        """Part 4: the calls that found room, and how many did not."""
        told = {(c.last.name, c.thing) for c in changes}
        listed = [g for g in groups if g.newest.key in chosen]
        changed = "\n".join(self._parts[CHANGED])
        paths = {g.newest.label for g in listed if "/" in g.newest.label}
        self._doings.seen_paths = {path for path in paths if path in self._seen or path in changed}
        self._parts[CALLS] = self._doings.folded(listed, own, width)
        told_of = sum(g.times for g in groups if g.newest.key in chosen or _told(g, told))
        hidden = sum(self._ledger.tools(self._only).values()) - told_of
        if hidden and listed:  # else the head's counts say as much
            self._parts[CALLS].insert(0, f"not listed: {hidden} earlier call{'s' if hidden > 1 else ''}")

    def _width(self, groups: Sequence[Group]) -> int:
        """Characters for the labels of these calls: fewer where they would not fit otherwise."""
        size = sum(self._room.cost(self._doings.label(g, LABEL)) for g in groups)
        return LABEL if size <= self._room.left * _WIDE_SHARE else NARROW

    def _own_lines(self, failing: Sequence[Group]) -> dict[Key, str]:
        """A line for each failure, shorter ones where they would not fit otherwise."""
        lines = self._doings.own_lines(failing, short=False)
        fits = sum(map(self._room.cost, lines.values())) <= self._room.left * _SHARES["failures"]
        return lines if fits else self._doings.own_lines(failing, short=True)

    def _change_lines(self, changes: Sequence[Changed]) -> list[tuple[str, int]]:
        """Lines about changes, each with how many things it tells; if they do not fit, those of a folder share one."""
        lines = [(change.line, 1) for change in changes]
        fits = sum(self._room.cost(line) for line, _ in lines) <= self._room.left * _SHARES["changed"]
        return lines if fits else by_folder(changes)

    def _plan_calls(self) -> list[ToolUseBlock]:
        """The calls that made the plan what it is now; [] where another note tells of the newest of them.

        A call that failed changed nothing.
        """
        made = [(self._ledger.calls[at], use) for at, use in self._ledger.plan_calls]
        made = [(call, use) for call, use in made if not call.failed and call.number in self._known]
        in_view = {use.id for m in self._shown for use in m.tool_uses}
        hidden = [call.number for call, use in made if use.id not in in_view]
        return [use for _, use in made] if hidden and hidden[-1] in self._only else []

    # ------------------------------------------------------------------------------------------------------ quotes
    def _add_examples(self) -> None:
        self._parts[EXAMPLES] = self._best(self._doings.examples(), int(self._budget * _EXAMPLES_SHARE))

    def _add_remarks(self) -> int:
        """What the agent concluded; gives the tokens that it takes."""
        left = self._room.left
        changing = {c.number for c in self._doings.calls if c.changes}
        said = remarks(self._ledger, self._only, changing)
        lines = ((number, f"m{number}: {text}") for number, text in said if text not in self._elsewhere)
        self._parts[REMARKS] = self._best(lines, max(_REMARKS_LEAST, int(self._budget * _REMARKS_SHARE)))
        return left - self._room.left

    def _best(self, lines: Iterable[tuple[int, str]], most: int) -> list[str]:
        """The first of these lines that have at most so many tokens together, by their messages' numbers."""
        ranked = list(lines)
        claim = Claim(self._room, (line for _, line in ranked))
        claim.take(most)
        return [line for _, line in sorted(ranked[: claim.taken])]

    def _add_quotes(self, most: int) -> None:
        """Lines of the originals, until the text has `most` tokens."""
        quotes = Quotes(
            self._ledger, self._only, self._seen, self._joined(), source=self._source, count=self._room.count
        )
        kept = max(0, self._budget - most)
        self._room.left -= kept
        quotes.choose(self._room)
        for _ in range(_REFILLS):
            self._parts[FOUND] = quotes.lines()
            # Lines together take less than one by one.
            self._room.left = self._budget - kept - self._room.count(self._joined())
            if self._room.left <= most * _SPARE or not quotes.go_on(self._room):
                break
        self._parts[FOUND] = quotes.lines()
        self._room.left = self._budget - self._size()

    def _source(self, number: int) -> str:
        """What a quoted message is, for the line above its quotes."""
        call = self._sources.get(number)
        if call is None:
            return f"m{number} {self._ledger.messages[number - 1].role}:"
        label = label_in(one_line(call.label), LABEL).rstrip(":")
        return f"m{number} {call.name} {label}".rstrip() + ":"

    @property
    def _sources(self) -> dict[int, Call]:
        """The first call of each message that holds calls or results."""
        if not hasattr(self, "_found_sources"):
            self._found_sources: dict[int, Call] = {}
            for call in self._doings.calls:
                self._found_sources.setdefault(call.number, call)
                self._found_sources.setdefault(call.result, call)
        return self._found_sources


def _told(group: Group, told: Container[tuple[str, str]]) -> bool:
    """Whether lines about changes tell of these calls: of one thing, by a tool that does nothing else."""
    call = group.newest
    things = {one_line(change.thing) for change in call.changes}
    return call.effect == "changes" and len(things) == 1 and (call.name, *things) in told
