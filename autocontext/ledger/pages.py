"""A work ledger as text within a budget of tokens: which parts, in which order, and what goes first when room is short.

Parts stand in one order (the user's words, plan, changed, calls, found, said by the agent) and get their room in
another: rules that the user gave, failures that still stand, changes, then the rest, each up to a share of the budget.
What comes from a tool, the agent or the user stands behind a number of ours or behind "> ", so that no line of it can
look like a heading, a number or another speaker's words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from autocontext.ledger.calls import Call, label_in, shortened
from autocontext.ledger.effects import path_of
from autocontext.ledger.lines import Quotes, cleaned
from autocontext.ledger.sentences import GREETING, PASTE, PLAIN, RULE, Sentence
from autocontext.messages import ToolUseBlock
from autocontext.plan import PlanLike, plan_lines

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, REMARKS = (
    "The user said:", "Plan:", "Changed:", "Calls (unmarked ones succeeded):", "Last call of its kind:", "Found:",
    "The agent said:",
)  # fmt: skip
_HEADINGS = (SAID, PLAN, CHANGED, CALLS, EXAMPLES, FOUND, REMARKS)

_RULES_SHARE = 0.60
_SHARES = {CHANGED: 0.20, CALLS: 0.25, "failures": 0.20, "plain": 0.25, PLAN: 0.12}
"""What each part gets first, of the room that rules leave; then each takes what is left, in the order of `_CLAIMS`."""
_CLAIMS = (PLAN, CHANGED, "plain", "failures", CALLS)
_WIDE_SHARE = 0.45
"""Of the room that rules leave: calls whose long labels take more get short ones."""
_QUOTES_SHARE = 0.25
"""What quotes get in any case, of the size up to which lines are quoted."""
_EXAMPLES_SHARE = 0.08
_REMARKS_SHARE = 0.06
_LABEL = 48
"""Characters of a call's label in a line of several."""
_ERROR = 110
"""Characters of an error line."""
_SHORT_ERROR = 60
"""Characters of an error line where room is short."""
_FOLDED = 160
"""Characters of a line that several calls share."""
_PATH = 120
"""Characters of a path that is given whole."""
_NARROW = 26
"""Characters of a label where room is short."""
_NEWEST_CALLS = 60
"""Calls that are worth shorter labels, so that all of them are listed."""
_EXAMPLE = 300
"""Characters of a call that is quoted as it was made."""
_EXAMPLE_VALUE = 72
"""Characters of one argument in it."""
_EXAMPLES_SHARE = 0.12


class Room:
    """What is left of a budget."""

    def __init__(self, tokens: int, count: Callable[[str], int]) -> None:
        self.left = tokens
        self._count = count

    def cost(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self._count(line) + 1


@dataclass
class Claim:
    """What a part would like to say, the most important first, and how much of it has found room."""

    costs: list[int]
    taken: int = 0

    def take(self, room: Room, most: int) -> None:
        """Take room for further items, in order, of at most `most` tokens."""
        while self.taken < len(self.costs) and self.costs[self.taken] <= min(room.left, most):
            room.left -= self.costs[self.taken]
            most -= self.costs[self.taken]
            self.taken += 1


@dataclass
class Group:
    """Equal calls: the same tool with the same arguments."""

    newest: Call
    times: int = 1
    failed_before: bool = False
    numbers: list[int] = field(default_factory=list)


class Changed(NamedTuple):
    """A thing that was changed, and what was done to it."""

    thing: str
    done: str
    tool: str
    """The last one that changed it."""

    @property
    def line(self) -> str:
        """As a line of its own."""
        return f"{self.thing}: {self.done}"


class Page:
    """One rendering."""

    def __init__(
        self,
        ledger: WorkLedger,
        budget: int,
        count: Callable[[str], int],
        *,
        only: Container[int] | None,
        elsewhere: str,
        plan: PlanLike | None,
        said_budget: int | None,
        quotes_budget: int | None,
    ) -> None:
        self._ledger, self._budget, self._count = ledger, budget, count
        self._only: Container[int] = range(1, len(ledger.messages) + 1) if only is None else only
        self._elsewhere, self._plan = elsewhere, plan
        self._said_budget = budget if said_budget is None else said_budget
        self._quotes_budget = budget if quotes_budget is None else min(budget, quotes_budget)
        self._room = Room(budget, count)
        self._parts: dict[str, list[str]] = {}
        self._said: dict[int, set[Sentence]] = {}
        self._paths: set[str] = set()
        """Files whose whole path a reader sees already."""
        self._calls = [c for c in ledger.calls if c.number in self._only]

    def text(self) -> str:
        """The rendering; "" when nothing fits."""
        room, share = self._room, self._quotes_budget
        for heading in (SAID, CHANGED, CALLS):
            room.left -= room.cost(heading)
        reserved = int(share * _QUOTES_SHARE)
        room.left -= reserved
        rules = self._sentences(RULE)
        self._say(rules, int(self._budget * _RULES_SHARE))
        groups = self._groups()
        failing = [g for g in reversed(groups) if g.newest.failed and not self._repaired(g.newest)]
        changed = self._changes()
        self._told_by_change = {(c.tool, c.thing) for c in changed}
        listed = [g for g in reversed(groups) if g not in failing and not self._told(g)]
        width = self._width(listed[:_NEWEST_CALLS], int(room.left * _WIDE_SHARE))
        lines = self._own_lines(failing, int(room.left * _SHARES["failures"]))
        changes = self._change_lines(changed, int(room.left * _SHARES[CHANGED]))
        plan = [shortened(cleaned(line), 120) for line in plan_lines(self._plan, self._ledger.plan_calls)]
        plain = self._sentences(PLAIN)
        claims = {
            PLAN: Claim([room.cost(line) for line in plan]),
            CHANGED: Claim([room.cost(line) for line in reversed(changes)]),
            "plain": Claim([cost for *_, cost in plain]),
            "failures": Claim([room.cost(line) for line in lines.values()]),
            CALLS: Claim([room.cost(self._label(g, width)) for g in listed]),
        }
        for part, first in _SHARES.items():
            claims[part].take(room, int(room.left * first))
        for part in _CLAIMS:
            claims[part].take(room, self._said_budget if part == "plain" else room.left)
        room.left += reserved
        self._parts[PLAN] = plan[: claims[PLAN].taken]
        self._parts[CHANGED] = self._newest(changes, claims[CHANGED].taken)
        told = "\n".join((self._elsewhere, *self._parts[CHANGED]))
        self._paths = {c.label for g in groups if "/" in (c := g.newest).label and c.label in told}
        for number, sentence, _ in plain[: claims["plain"].taken]:
            self._said.setdefault(number, set()).add(sentence)
        chosen = {g.newest.key for g in (*failing[: claims["failures"].taken], *listed[: claims[CALLS].taken])}
        self._parts[CALLS] = self._folded([g for g in groups if g.newest.key in chosen], lines, width)
        self._tell_unlisted([g for g in groups if g.newest.key not in chosen and not self._told(g)])
        self._settle()
        self._choose_examples()
        self._choose_found(max(share, self._budget - self._room.left + reserved))
        self._choose_remarks()
        self._say(self._sentences(PASTE), self._budget)
        self._say(self._sentences(GREETING), self._budget)
        self._parts[SAID] = self._said_lines()
        return self._within()

    def _settle(self) -> None:
        """Set what is left by what the parts take as they stand, folded and with their headings."""
        self._parts[SAID] = self._said_lines()
        self._room.left = self._budget - self._count(self._joined())

    def _joined(self) -> str:
        return "\n".join(line for h in _HEADINGS if self._parts.get(h) for line in (h, *self._parts[h]))

    def _within(self) -> str:
        """The text; the least important lines go while it is too long, as lines together may take more than apart."""
        while True:
            text = self._joined()
            if not text or self._count(text) <= self._budget:
                return text
            last = next(h for h in (FOUND, REMARKS, EXAMPLES, CALLS, CHANGED, PLAN, SAID) if self._parts.get(h))
            self._parts[last].pop(0 if last in (CALLS, CHANGED) else -1)

    # -------------------------------------------------------------------------------------------- the user's words
    def _sentences(self, worth: int) -> list[tuple[int, Sentence, int]]:
        """The user's sentences that are worth so much and stand nowhere else, newest first, with their costs."""
        found: list[tuple[int, Sentence, int]] = []
        for number, sentence in reversed(self._ledger.said):
            if sentence.worth == worth and number in self._only:
                text = self._sentence(number, sentence)
                if text and not (self._elsewhere and text in self._elsewhere):
                    found.append((number, sentence, self._room.cost(text) + 1))
        return found

    def _say(self, sentences: Sequence[tuple[int, Sentence, int]], most: int) -> None:
        """Choose sentences, in order, of at most `most` tokens."""
        most = min(most, self._said_budget)
        for number, sentence, cost in sentences:
            if cost > min(most, self._room.left):
                break
            most -= cost
            self._said_budget -= cost
            self._room.left -= cost
            self._said.setdefault(number, set()).add(sentence)

    def _sentence(self, number: int, sentence: Sentence) -> str:
        return cleaned(self._ledger.messages[number - 1].text[sentence.start : sentence.stop])

    def _said_lines(self) -> list[str]:
        """What was chosen, in order: a message's sentences together, "…" where some between are left out."""
        lines: list[str] = []
        for number in sorted(self._said):
            chosen = self._said[number]
            everything = [s for n, s in self._ledger.said if n == number]
            rows = list(self._rows(number, everything, chosen))
            if len(rows) == 1:
                lines.append(f"m{number}: {rows[0]}")
            else:
                lines += [f"m{number}:", *(f"> {row}" for row in rows)]
        return lines

    def _rows(self, number: int, everything: Sequence[Sentence], chosen: set[Sentence]) -> Iterator[str]:
        """The lines of a message with the sentences that were chosen."""
        text = self._ledger.messages[number - 1].text
        row, stop, gap = "", 0, False
        for sentence in everything:
            if sentence not in chosen:
                gap = True
                continue
            new_line = "\n" in text[stop : sentence.start]
            if row and new_line:
                yield row + (" …" if gap else "")
                row, gap = "", False
            if gap and not row:
                row = "…"
            elif gap:
                row += " …"
            row = f"{row} {self._sentence(number, sentence)}".strip()
            stop, gap = sentence.stop, False
        if row:
            yield row + (" …" if gap else "")

    # ---------------------------------------------------------------------------------------------- calls, changes
    def _groups(self) -> list[Group]:
        """Distinct calls, the one made last at the end."""
        groups: dict[tuple[str, str], Group] = {}
        for call in self._calls:
            group = groups.pop(call.key, None)
            if group is None:
                group = Group(call, numbers=[call.number])
            else:
                group = Group(call, group.times + 1, group.failed_before or group.newest.failed, [*group.numbers, call.number])
            groups[call.key] = group
        return list(groups.values())

    def _repaired(self, call: Call) -> bool:
        """Whether the same was done again later with success, be it in view or not."""
        return self._last_success.get(call.key, 0) > call.number

    @property
    def _last_success(self) -> dict[tuple[str, str], int]:
        if not hasattr(self, "_successes"):
            self._successes = {
                c.key: c.number for c in self._ledger.calls if c.outcome is not None and not c.outcome.failed
            }
        return self._successes

    def _own_lines(self, groups: Sequence[Group], cap: int) -> dict[tuple[str, str], str]:
        """A line for each call, shorter ones where they would not fit otherwise."""
        lines = {g.newest.key: self._own_line(g, 2 * _LABEL, _ERROR) for g in groups}
        if sum(map(self._room.cost, lines.values())) > cap:
            lines = {g.newest.key: self._own_line(g, _NARROW + 8, _SHORT_ERROR) for g in groups}
        return lines

    def _own_line(self, group: Group, width: int, longest: int) -> str:
        """A call on a line of its own, with its outcome."""
        call, outcome = group.newest, group.newest.outcome
        label = self._label_of(call, width)
        label += f" [{cleaned(call.detail)}]" if call.detail else ""
        times = f" {group.times}x" if group.times > 1 else ""
        head = f"m{call.number} {call.name}: {label}{times}"
        if outcome is None:
            return f"{head} -> no result yet"
        said = f": {shortened(cleaned(outcome.error), longest, 44)}" if outcome.error else ""
        if outcome.failed:
            return f"{head} -> failed{said}"
        if group.failed_before:
            return f"{head} -> ok now, failed before"
        return f"{head} -> shows{said}" if said else f"{head} -> ok, {outcome.lines} lines"

    def _told(self, group: Group) -> bool:
        """Whether a line about a change tells of these calls already: of one thing, by a tool that does nothing else."""
        call = group.newest
        things = {change.thing for change in call.changes}
        return call.effect == "changes" and len(things) == 1 and (call.name, *things) in self._told_by_change

    def _change_lines(self, changes: Sequence[Changed], cap: int) -> list[str]:
        """A line for each thing that was changed; where they do not fit, those of a folder share one."""
        lines = [change.line for change in changes]
        return lines if sum(map(self._room.cost, lines)) <= cap else _by_folder(changes)

    def _newest(self, lines: list[str], taken: int) -> list[str]:
        """The last lines, and how many are left out."""
        left = len(lines) - taken
        return [*([f"and {left} more before"] if left else []), *lines[left:]]

    def _changes(self) -> list[Changed]:
        """The things that were changed, the one changed last at the end."""
        things: dict[str, dict[str, int]] = {}
        last: dict[str, Call] = {}
        for call in self._calls:
            for thing, done in call.changes:
                if call.outcome is None or (call.failed and thing not in last):
                    continue  # a failed change is no change; one without a result may be none
                dones = things.pop(thing, {})
                if not call.failed:
                    dones[done] = dones.pop(done, 0) + 1
                things[thing] = dones
                last[thing] = call
        return [
            Changed(cleaned(thing), cleaned(_done(dones, last[thing])), last[thing].name)
            for thing, dones in things.items()
        ]

    def _width(self, groups: Sequence[Group], room: int) -> int:
        """Characters for the labels of these calls: fewer where they would not fit otherwise."""
        return _LABEL if sum(self._room.cost(self._label(g, _LABEL)) for g in groups) <= room else _NARROW

    def _tell_unlisted(self, groups: Sequence[Group]) -> None:
        if groups:
            self._parts[CALLS].insert(0, f"not listed: {sum(group.times for group in groups)} earlier calls")

    def _label(self, group: Group, width: int) -> str:
        call = group.newest
        label = self._label_of(call, width)
        marked = f"`{label}`" if call.effect == "runs" else label
        times = f" {group.times}x" if group.times > 1 else ""
        if call.outcome is None:
            return f"{marked}{times} (no result yet)"
        return marked + times + (" (failed, then ok)" if group.failed_before or call.failed else "")

    def _label_of(self, call: Call, width: int) -> str:
        """A call's label: a file's whole path where it stands nowhere else, else its end."""
        label = cleaned(call.label)
        if "/" in label and " " not in label and len(label) <= _PATH and label not in self._paths:
            return label
        return label_in(label, width)

    def _folded(self, groups: Sequence[Group], failures: Mapping[tuple[str, str], str], width: int) -> list[str]:
        """Lines in order: consecutive calls of one tool share a line, failures have their own."""
        lines: list[str] = []
        run: list[Group] = []

        def close() -> None:
            if run:
                first, last = run[0].newest, run[-1].newest
                span = f"m{first.number}" + (f"-m{last.number}" if last.number != first.number else "")
                lines.append(f"{span} {first.name}: {'; '.join(self._label(g, width) for g in run)}")
                run.clear()

        for group in groups:
            if group.newest.key in failures:
                close()
                lines.append(failures[group.newest.key])
                continue
            if run and (run[0].newest.name != group.newest.name or sum(len(self._label(g, width)) for g in run) > _FOLDED):
                close()
            run.append(group)
        close()
        return lines

    # ------------------------------------------------------------------------------------------------------ quotes
    def _choose_remarks(self) -> None:
        """What the agent concluded, newest first."""
        cap = int(self._budget * _REMARKS_SHARE)
        changing = {c.number for c in self._calls if c.changes}
        found: list[tuple[int, str]] = []
        ranked = sorted(
            (item for item in self._ledger.remarks if item[0] in self._only),
            key=lambda item: (item[1].worth + (item[0] in changing), item[0], item[1].start),
            reverse=True,
        )
        for number, sentence in ranked[:40]:
            text = self._sentence(number, sentence)
            line = f"m{number}: {shortened(text, 240)}"
            if text in self._elsewhere:
                continue
            cost = self._room.cost(line)
            if cost > min(cap, self._room.left):
                break
            cap -= cost
            self._room.left -= cost
            found.append((number, line))
        if found:
            self._parts[REMARKS] = [line for _, line in sorted(found)]

    def _choose_examples(self) -> None:
        """The newest call of each kind as it was made, where none like it is in view: the next one will be like it."""
        cap = min(int(self._budget * _EXAMPLES_SHARE), self._room.left)
        newest: dict[tuple[str, str, tuple[str, ...]], tuple[int, ToolUseBlock]] = {}
        for number, uses in self._ledger.uses():
            for use in uses:
                if len(use.input) > 1:  # of a single argument the call's own line tells
                    newest[_shape(use)] = (number, use)
        lines: list[tuple[int, str]] = []
        for number, use in sorted(newest.values(), key=lambda item: -item[0]):
            line = f"m{number} {cleaned(use.name)} {_example(use)}"
            cost = self._room.cost(line)
            if number in self._only and cost <= min(cap, self._room.left):
                cap -= cost
                self._room.left -= cost
                lines.append((number, line))
        self._parts[EXAMPLES] = [line for _, line in sorted(lines)]

    def _choose_found(self, most: int) -> None:
        told = "\n".join(line for lines in self._parts.values() for line in lines)
        quotes = Quotes(self._ledger, self._only, "\n".join((self._elsewhere, told)), self._source, self._count)
        held = max(0, self._budget - most)
        self._room.left -= held
        quotes.choose(self._room)
        self._parts[FOUND] = quotes.lines()
        # Lines together take less than one by one.
        self._room.left = self._budget - held - self._count(self._joined())
        quotes.go_on(self._room)
        self._parts[FOUND] = quotes.lines()
        self._room.left += held

    def _source(self, number: int) -> str:
        """What a quoted message is, for the line above its quotes."""
        calls = self._by_result.get(number) or self._by_call.get(number)
        if calls:
            call = calls[0]
            return f"m{number} {cleaned(call.name)} {label_in(cleaned(call.label), _LABEL)}:"
        return f"m{number} {self._ledger.messages[number - 1].role}:"

    @property
    def _by_result(self) -> dict[int, list[Call]]:
        if not hasattr(self, "_results"):
            self._results: dict[int, list[Call]] = {}
            self._own: dict[int, list[Call]] = {}
            for call in self._calls:
                self._own.setdefault(call.number, []).append(call)
                if call.result:
                    self._results.setdefault(call.result, []).append(call)
        return self._results

    @property
    def _by_call(self) -> dict[int, list[Call]]:
        return self._own


def _done(dones: dict[str, int], last: Call) -> str:
    """What was done to a thing, how often, and by which call last."""
    words = ", ".join(word if n == 1 else f"{word} {n}x" for word, n in dones.items())
    by = f"{last.name} " if last.effect == "changes" and last.name not in words else ""
    return f"{words} ({by}m{last.number}{', the last attempt failed' if last.failed else ''})"


def _by_folder(changes: Sequence[Changed]) -> list[str]:
    """Changed files with the folder said once: a line for those that follow each other in one."""
    lines: list[tuple[str, list[str]]] = []
    for thing, done, _ in changes:
        folder, slash, name = thing.rpartition("/")
        if slash and " " not in folder:
            if not lines or lines[-1][0] != folder:
                lines.append((folder, []))
            lines[-1][1].append(f"{name} {done}")
        else:
            lines.append(("", [f"{thing}: {done}"]))
    return [f"{folder}/: {'; '.join(done)}" if folder else done[0] for folder, done in lines]


def _shape(use: ToolUseBlock) -> tuple[str, str, tuple[str, ...]]:
    """Which kind of call it is: the tool, an editor's own command, the names of the arguments."""
    command = use.input.get("command") if path_of(use.input) else None
    return use.name, command if isinstance(command, str) else "", tuple(sorted(use.input))


def _example(use: ToolUseBlock) -> str:
    """The arguments of a call as JSON, long ones cut."""
    values = {k: shortened(v, _EXAMPLE_VALUE) if isinstance(v, str) else v for k, v in use.input.items()}
    return shortened(cleaned(json.dumps(values, ensure_ascii=False, default=str)), _EXAMPLE)
