"""Renders a work ledger as text within a budget of tokens.

The parts appear in one order (the user's words, plan, changes, calls, quotes, the agent's words) and get their room in
another: first the user's rules, then a share for each part, then the rest by importance. Every line begins with a
number or "> ", so that no text from a tool, the agent or the user can pass for a heading, a number or other words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from autocontext.history.cached import cached_property
from autocontext.history.runs import Runs
from autocontext.ledger.activity import LABEL, NARROW, Activity, ChangeSummary, Group, by_folder
from autocontext.ledger.calls import Call, Key, label_in, shorten
from autocontext.ledger.lines import Quotes
from autocontext.ledger.room import Claim, Room
from autocontext.ledger.sentences import CLAUSE, GREETING, PASTE, PLAIN, RULE, Sentence
from autocontext.ledger.shown import InView, Shown
from autocontext.ledger.speech import Speech, notes, remarks
from autocontext.messages import Msg, ToolUseBlock
from autocontext.plan import PlanLike, plan_lines
from autocontext.text.rendering import one_line
from autocontext.text.words import terms

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, NOTES, REMARKS = (
    "The user said:", "Plan:", "Changed:", "Calls (unmarked ones succeeded):", "Last call of its kind:", "Found:",
    "The agent noted:", "The agent said:",
)  # fmt: skip
HEADINGS = (SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, NOTES, REMARKS)

_RULES_SHARE = 0.60
_RULES_LEAST = 150
"""Tokens of rules that precede anything else in a small note."""
_SHARES = {"changed": 0.20, "failures": 0.20, "calls": 0.25, "said": 0.25, "plan": 0.12}
"""First share of each part in the room that the rules leave."""
_CLAIMS = ("plan", "changed", "said", "failures", "calls")
"""The order in which the parts then take the rest. The last one gives room back first."""
_WIDE_SHARE = 0.45
"""Calls whose long labels need more of the room get short ones."""
_NEWEST_CALLS = 60
"""Labels are shortened to fit this many calls."""
_MOST_CALLS = 1_000
"""Most calls, and most failures, to consider."""
_QUOTES_SHARE = 0.16
"""Least share of quotes."""
_SPARE = 0.02
"""Share of a budget that may stay empty."""
_REFILLS = 4
"""How often the room for quotes is measured again."""
_NOTES_SHARE = 0.30
"""Most of a budget that the agent's own notes take."""
_EXAMPLES_SHARE = 0.08
_REMARKS_SHARE = 0.06
_REMARKS_LEAST = 40
"""Least tokens for the agent's conclusions."""
_PLAN_LINE = 120
"""Characters of a subtask."""


class LedgerPage:
    """One rendering of a ledger; the arguments are those of `WorkLedger.render`."""

    def __init__(
        self,
        ledger: WorkLedger,
        budget: int,
        count: Callable[[str], int],
        *,
        only: Container[int] | None,
        known: Container[int] | None,
        shown: Iterable[Msg] | Shown,
        plan: PlanLike | None,
        said_budget: int | None,
        quotes_budget: int | None,
        focus: str,
    ) -> None:
        last = len(ledger.messages)
        self._ledger, self._budget, self._plan = ledger, budget, plan
        self._shown = shown if isinstance(shown, Shown) else InView(shown).without(0, 0, "")
        self._only, self._available = Runs.within(only, last), Runs.within(known, last)
        self._said_budget = budget if said_budget is None else said_budget
        self._quotes_budget = budget if quotes_budget is None else min(budget, quotes_budget)
        self._focus = frozenset(terms(focus))
        self._room = Room(budget, count)
        self._parts: dict[str, list[str]] = {}
        self._speech = Speech(ledger, self._only, self._shown)
        self._activity = Activity(ledger, self._only)

    def text(self) -> str:
        """The rendered text; "" if nothing fits."""
        room = self._room
        if room.left <= 0:
            return ""
        room.left -= room.cost(SAID)
        rules = max(int(self._budget * _RULES_SHARE), _RULES_LEAST)
        rules -= self._add_sentences(RULE, rules)
        self._add_sentences(CLAUSE, rules)
        self._add_notes()
        quote_room = min(int(self._budget * _QUOTES_SHARE), self._quotes_budget, max(0, room.left) // 2)
        room.left -= quote_room + room.cost(CHANGED) + room.cost(CALLS)
        self._add_activity()
        room.left = self._budget - self._size()
        if not self._quotes_budget:
            return self._fit()
        self._add_examples()
        most = max(self._quotes_budget, self._budget - room.left + quote_room)
        self._add_quotes(most + self._add_remarks())
        self._add_sentences(PASTE, room.left)
        self._add_sentences(GREETING, room.left)
        self._parts[SAID] = self._speech.lines()
        return self._fit()

    def _join(self) -> str:
        return "\n".join(line for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))

    def _size(self) -> int:
        """Tokens of the current parts: the sum over lines, an upper bound, or the exact count if that is too large."""
        self._parts[SAID] = self._speech.lines()
        lines = (line for h in HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))
        size = sum(map(self._room.cost, lines))
        return size if size <= self._budget else self._room.count(self._join())

    def _fit(self) -> str:
        """The text, without its least important lines if it is too long."""
        while (text := self._join()) and self._room.count(text) > self._budget:
            part = next((h for h in (FOUND, REMARKS, EXAMPLES, PLAN, NOTES) if self._parts.get(h)), SAID)
            if part == NOTES:
                self._parts[NOTES].pop(0)  # the oldest
            elif part == SAID:
                if not self._parts[SAID]:
                    return ""
                self._speech.drop_oldest()
                self._parts[SAID] = self._speech.lines()
            else:
                self._parts[part].pop()
        return text

    # --------------------------------------------------------------------------------------------- the user's words
    def _add_sentences(self, worth: int, most: int) -> int:
        """Add the user's sentences of this worth, newest first, up to `most` tokens; returns their tokens."""
        before = self._room.left
        claim, sentences = self._claim_sentences(worth)
        claim.take(min(most, self._said_budget))
        self._speech.choose(sentences[: claim.size])
        self._said_budget -= before - self._room.left
        return before - self._room.left

    def _claim_sentences(self, worth: int) -> tuple[Claim, list[tuple[int, Sentence]]]:
        """A claim for the user's sentences of this worth, newest first, and the sentences it measured."""
        sentences: list[tuple[int, Sentence]] = []

        def texts() -> Iterator[str]:
            for sentence in self._speech.sentences(worth):
                sentences.append(sentence)
                yield self._speech.text(*sentence)

        return Claim(self._room, texts(), more=1), sentences

    def _add_notes(self) -> None:
        """Add the agent's own notes, the newest as far as their share goes."""
        lines = notes(self._ledger, self._only, self._shown)
        self._parts[NOTES] = self._best(lines, int(self._budget * _NOTES_SHARE))
        self._room.left -= self._room.cost(NOTES) if self._parts[NOTES] else 0

    # -------------------------------------------------------------------------------- plain words, plan, changes, calls
    def _add_activity(self) -> None:
        """Add the parts that compete for room: plain sentences of the user, the plan, changes, failures, calls."""
        room, activity = self._room, self._activity
        groups = activity.groups()
        changes = activity.changes()
        latest = groups[::-1]
        failing = [g for g in latest if g.newest.failed and not activity.succeeded_later(g.newest)][:_MOST_CALLS]
        failing_keys = {g.newest.key for g in failing}
        covered = {(c.last.name, c.thing) for c in changes}
        others = [g for g in latest if g.newest.key not in failing_keys and not _is_covered(g, covered)][:_MOST_CALLS]
        width = self._width(others[:_NEWEST_CALLS])
        own = self._own_lines(failing)
        lines = self._change_lines(changes)
        speech, sentences = self._claim_sentences(PLAIN)
        plan = [
            f"> {shorten(one_line(line), _PLAN_LINE)}"
            for line in plan_lines(self._plan, self._plan_calls())
            if line != PLAN  # a plan without a name
        ]
        claims = {
            "plan": Claim(room, plan),
            "changed": Claim(room, (line for line, _ in reversed(lines))),
            "said": speech,
            "failures": Claim(room, own.values()),
            "calls": Claim(room, (activity.label(g, width) for g in others)),
        }
        for part, share in _SHARES.items():
            claims[part].take(min(int(room.left * share), self._said_budget if part == "said" else room.left))
        for part in _CLAIMS:
            claims[part].take(self._said_budget if part == "said" else room.left)
        while True:
            self._speech.choose(sentences[: claims["said"].size])
            self._parts[PLAN] = plan[: claims["plan"].size]
            visible = lines[len(lines) - claims["changed"].size :]
            hidden = sum(n for _, n in lines) - sum(n for _, n in visible)
            before = [f"and {hidden} more before"] if hidden and visible else []
            self._parts[CHANGED] = [*before, *(line for line, _ in visible)]
            chosen = {g.newest.key for g in failing[: claims["failures"].size] + others[: claims["calls"].size]}
            self._list_calls(groups, changes[hidden:], chosen, own, width)
            excess = self._size() - self._budget
            if excess <= 0 or not any(claims[part].give_back(excess) for part in reversed(_CLAIMS) if part != "said"):
                return

    def _list_calls(
        self,
        groups: Sequence[Group],
        changes: Sequence[ChangeSummary],
        selection: Container[Key],
        own: dict[Key, str],
        width: int,
    ) -> None:
        """List the chosen calls, and the number of the others."""
        covered = {(c.last.name, c.thing) for c in changes}
        visible = [g for g in groups if g.newest.key in selection]
        change_text = "\n".join(self._parts[CHANGED])
        paths = {g.newest.label for g in visible if "/" in g.newest.label}
        self._activity.paths_in_view = {path for path in paths if self._shown.has_value(path) or path in change_text}
        self._parts[CALLS] = self._activity.merge_lines(visible, own, width)
        count = sum(g.times for g in groups if g.newest.key in selection or _is_covered(g, covered))
        hidden = sum(self._ledger.tools(self._only).values()) - count
        if hidden and visible:
            self._parts[CALLS].insert(0, f"not listed: {hidden} earlier call{'s' if hidden > 1 else ''}")

    def _width(self, groups: Sequence[Group]) -> int:
        """Characters for the labels of these calls: fewer if they would not fit otherwise."""
        size = sum(self._room.cost(self._activity.label(g, LABEL)) for g in groups)
        return LABEL if size <= self._room.left * _WIDE_SHARE else NARROW

    def _own_lines(self, failing: Sequence[Group]) -> dict[Key, str]:
        """A line for each failure, shorter if they would not fit otherwise."""
        lines = self._activity.own_lines(failing, short=False)
        fits = sum(map(self._room.cost, lines.values())) <= self._room.left * _SHARES["failures"]
        return lines if fits else self._activity.own_lines(failing, short=True)

    def _change_lines(self, changes: Sequence[ChangeSummary]) -> list[tuple[str, int]]:
        """Lines about changes, each with its number of things; if they do not fit, those of a folder share a line."""
        lines = [(change.line, 1) for change in changes]
        fits = sum(self._room.cost(line) for line, _ in lines) <= self._room.left * _SHARES["changed"]
        return lines if fits else by_folder(changes)

    def _plan_calls(self) -> list[ToolUseBlock]:
        """The successful calls that made the current plan; [] if another note has the newest of them."""
        calls = [(self._ledger.calls[at], use) for at, use in self._ledger.plan_calls]
        calls = [(call, use) for call, use in calls if not call.failed and call.number in self._available]
        hidden = [call.number for call, use in calls if not self._shown.has(("call", use.id))]
        return [use for _, use in calls] if hidden and hidden[-1] in self._only else []

    # ------------------------------------------------------------------------------------------------------ quotes
    def _add_examples(self) -> None:
        self._parts[EXAMPLES] = self._best(self._activity.examples(), int(self._budget * _EXAMPLES_SHARE))

    def _add_remarks(self) -> int:
        """Add the agent's conclusions; returns their tokens."""
        before = self._room.left
        changing = {c.number for c in self._activity.calls if c.changes}
        sentences = remarks(self._ledger, self._only, changing, self._focus)
        lines = ((number, f"m{number}: {text}") for number, text in sentences if not self._shown.says(text))
        self._parts[REMARKS] = self._best(lines, max(_REMARKS_LEAST, int(self._budget * _REMARKS_SHARE)))
        return before - self._room.left

    def _best(self, lines: Iterable[tuple[int, str]], most: int) -> list[str]:
        """The first of these lines, up to `most` tokens, sorted by message number."""
        candidates = list(lines)
        claim = Claim(self._room, (line for _, line in candidates))
        claim.take(most)
        return [line for _, line in sorted(candidates[: claim.size])]

    def _add_quotes(self, most: int) -> None:
        """Lines of the originals, until the text has `most` tokens."""
        quotes = Quotes(
            self._ledger,
            self._only,
            self._shown,
            self._join(),
            source=self._source,
            count=self._room.count,
            focus=self._focus,
        )
        unused = max(0, self._budget - most)
        self._room.left -= unused
        quotes.choose(self._room)
        for _ in range(_REFILLS):
            self._parts[FOUND] = quotes.lines()
            # Joined lines take fewer tokens than their sum.
            self._room.left = self._budget - unused - self._room.count(self._join())
            if self._room.left <= most * _SPARE or not quotes.choose_more(self._room):
                break
        self._parts[FOUND] = quotes.lines()
        self._room.left = self._budget - self._size()

    def _source(self, number: int) -> str:
        """The line above a message's quotes."""
        call = self._sources.get(number)
        if call is None:
            return f"m{number} {self._ledger.messages[number - 1].role}:"
        label = label_in(one_line(call.label), LABEL).rstrip(":")
        return f"m{number} {call.name} {label}".rstrip() + ":"

    @cached_property
    def _sources(self) -> dict[int, Call]:
        """The first call of each message with calls or results."""
        sources: dict[int, Call] = {}
        for call in self._activity.calls:
            sources.setdefault(call.number, call)
            sources.setdefault(call.result, call)
        return sources


def _is_covered(group: Group, covered: Container[tuple[str, str]]) -> bool:
    """Whether a line about a change covers these calls: they change one thing and do nothing else."""
    call = group.newest
    things = {one_line(change.thing) for change in call.changes}
    return call.effect == "changes" and len(things) == 1 and (call.name, *things) in covered
