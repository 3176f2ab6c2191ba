"""A work ledger as text within a budget of tokens: which parts, in which order, and what goes first when room is short.

Parts stand in one order (the user's words, plan, changed, calls, found, said by the agent) and get their room in
another: rules that the user gave, failures that still stand, changes, then the rest, each up to a share of the budget.
What comes from a tool, the agent or the user stands behind a number of ours or behind "> ", so that no line of it can
look like a heading, a number or another speaker's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autocontext.ledger.calls import Call, shortened
from autocontext.ledger.lines import Quotes, cleaned
from autocontext.ledger.sentences import GREETING, PASTE, PLAIN, RULE, Sentence
from autocontext.plan import PlanLike, plan_lines

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

SAID, PLAN, CHANGED, CALLS, FOUND, REMARKS = (
    "The user said:", "Plan:", "Changed:", "Calls (unmarked ones succeeded):", "Found:", "The agent said:",
)  # fmt: skip
_HEADINGS = (SAID, PLAN, CHANGED, CALLS, FOUND, REMARKS)

_RULES_SHARE = 0.60
_PLAN_SHARE = 0.12
_FAILURES_SHARE = 0.25
_CHANGES_SHARE = 0.20
_SAID_SHARE = 0.35
_CALLS_SHARE = 0.36
_REMARKS_SHARE = 0.06
_LABEL = 48
"""Characters of a call's label in a line of several; `_LEAST_LABEL` at least."""
_LEAST_LABEL = 28
_ERROR = 110
"""Characters of an error line."""
_FOLDED = 160
"""Characters of a line that several calls share."""


class Room:
    """What is left of a budget."""

    def __init__(self, tokens: int, count: Callable[[str], int]) -> None:
        self.left = tokens
        self._count = count

    def cost(self, line: str) -> int:
        """Tokens of a line with its end."""
        return self._count(line) + 1

    def take(self, line: str, cap: int | None = None) -> bool:
        """Whether the line fits, in what is left and under `cap`; its room is then taken."""
        cost = self.cost(line)
        if cost > self.left or (cap is not None and cost > cap):
            return False
        self.left -= cost
        return True


@dataclass
class Group:
    """Equal calls: the same tool with the same arguments."""

    newest: Call
    times: int = 1
    failed_before: bool = False
    numbers: list[int] = field(default_factory=list)


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
    ) -> None:
        self._ledger, self._budget, self._count = ledger, budget, count
        self._only: Container[int] = range(1, len(ledger.messages) + 1) if only is None else only
        self._elsewhere, self._plan = elsewhere, plan
        self._said_budget = budget if said_budget is None else said_budget
        self._room = Room(budget, count)
        self._parts: dict[str, list[str]] = {}
        self._said: dict[int, set[Sentence]] = {}
        self._calls = [c for c in ledger.calls if c.number in self._only]

    def text(self) -> str:
        """The rendering; "" when nothing fits."""
        for heading in (CALLS, FOUND):
            self._room.take(heading)
        self._choose_said(RULE, _RULES_SHARE)
        groups = self._groups()
        failing = [g for g in groups if g.newest.failed and not self._repaired(g.newest)]
        failures = self._choose_failures(failing)
        self._choose_changes()
        self._choose_plan()
        self._choose_said(PLAIN, _SAID_SHARE)
        lines = self._choose_calls(groups, failures)
        self._choose_remarks()
        self._parts[CALLS] = lines
        self._choose_found()
        self._choose_said(PASTE, 1.0)
        self._choose_said(GREETING, 1.0)
        self._parts[SAID] = self._said_lines()
        return self._within()

    def _within(self) -> str:
        """The parts in their order; the last quotes go while it is too long, as lines together may take more than apart."""
        while True:
            lines = [line for h in _HEADINGS if self._parts.get(h) for line in (h, *self._parts[h])]
            text = "\n".join(lines)
            if self._count(text) <= self._budget or not lines:
                return text
            last = next((self._parts[h] for h in (FOUND, REMARKS, CALLS, CHANGED, PLAN, SAID) if self._parts.get(h)))
            last.pop(0 if last is self._parts.get(CALLS) else -1)

    # -------------------------------------------------------------------------------------------- the user's words
    def _choose_said(self, worth: int, share: float) -> None:
        """Sentences of the user, newest first, up to a share of the budget."""
        cap = min(int(self._budget * share), self._said_budget)
        for number, sentence in reversed(self._ledger.said):
            if sentence.worth != worth or number not in self._only:
                continue
            text = self._sentence(number, sentence)
            if not text or (self._elsewhere and text in self._elsewhere):
                continue
            cost = self._room.cost(text) + (0 if number in self._said else 2)
            if cost > cap or cost > self._room.left:
                break
            cap -= cost
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
        groups: dict[tuple[str, int], Group] = {}
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
        again = self._last_success.get((call.name, call.label), 0)
        return again > call.number

    @property
    def _last_success(self) -> dict[tuple[str, str], int]:
        if not hasattr(self, "_successes"):
            self._successes = {
                (c.name, c.label): c.number for c in self._ledger.calls if c.outcome is not None and not c.outcome.failed
            }
        return self._successes

    def _choose_failures(self, failing: Sequence[Group]) -> dict[tuple[str, int], str]:
        """A line for each failure that still stands, newest first."""
        cap = int(self._budget * _FAILURES_SHARE)
        lines: dict[tuple[str, int], str] = {}
        for group in reversed(failing):
            line = self._own_line(group)
            before = self._room.left
            if not self._room.take(line, cap):
                break
            cap -= before - self._room.left
            lines[group.newest.key] = line
        return lines

    def _own_line(self, group: Group) -> str:
        """A call on a line of its own, with its outcome."""
        call, outcome = group.newest, group.newest.outcome
        label = shortened(cleaned(call.label), 2 * _LABEL, _LEAST_LABEL)
        times = f" {group.times}x" if group.times > 1 else ""
        head = f"m{call.number} {call.name}: {label}{times}"
        if outcome is None:
            return f"{head} -> no result yet"
        said = f": {shortened(cleaned(outcome.error), _ERROR, 44)}" if outcome.error else ""
        if outcome.failed:
            return f"{head} -> failed{said}"
        if group.failed_before:
            return f"{head} -> ok now, failed before"
        return f"{head} -> shows{said}" if said else f"{head} -> ok, {outcome.lines} lines"

    def _choose_changes(self) -> None:
        cap = int(self._budget * _CHANGES_SHARE)
        lines: list[tuple[int, str]] = []
        for number, line in reversed(self._changes()):
            before = self._room.left
            if not self._room.take(line, cap):
                break
            cap -= before - self._room.left
            lines.append((number, line))
        if lines:
            self._parts[CHANGED] = [line for _, line in reversed(lines)]

    def _changes(self) -> list[tuple[int, str]]:
        """A line for each thing that was changed, with the number of the last call that did it, the last one last."""
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
        return [(last[thing].number, self._change_line(thing, dones, last[thing])) for thing, dones in things.items()]

    def _change_line(self, thing: str, dones: dict[str, int], call: Call) -> str:
        done = ", ".join(word if n == 1 else f"{word} {n}x" for word, n in dones.items())
        failed = ", the last attempt failed" if call.failed else ""
        return f"{cleaned(thing)}: {cleaned(done)} (m{call.number}{failed})"

    def _choose_plan(self) -> None:
        cap = int(self._budget * _PLAN_SHARE)
        for line in plan_lines(self._plan, self._ledger.plan_calls):
            text = shortened(cleaned(line), 120)
            before = self._room.left
            if not self._room.take(text, cap):
                break
            cap -= before - self._room.left
            self._parts.setdefault(PLAN, []).append(text)

    def _choose_calls(self, groups: Sequence[Group], failures: dict[tuple[str, int], str]) -> list[str]:
        """The lines of part 4: failures that still stand, and as many of the newest other calls as fit, folded."""
        cap = min(int(self._budget * _CALLS_SHARE), self._room.left)
        chosen: list[Group] = []
        for group in reversed(groups):
            if group.newest.key in failures:
                chosen.append(group)
                continue
            cost = self._count(self._label(group)) + 1
            if cost > cap:
                break
            cap -= cost
            self._room.left -= cost
            chosen.append(group)
        lines = self._folded(chosen[::-1], failures)
        if dropped := [g for g in groups if g not in chosen]:
            tools = Counter[str]()
            for group in dropped:
                tools[group.newest.name] += group.times
            names = ", ".join(f"{cleaned(name)} {n}x" for name, n in tools.most_common(6))
            lines.insert(0, f"earlier, not listed: {sum(tools.values())} calls ({names})")
        spent = sum(map(self._room.cost, lines)) - sum(map(self._room.cost, failures.values()))
        self._room.left += sum(self._count(self._label(g)) + 1 for g in chosen if g.newest.key not in failures) - spent
        return lines

    def _label(self, group: Group) -> str:
        call = group.newest
        label = shortened(cleaned(call.label), _LABEL, _LEAST_LABEL)
        marked = f"`{label}`" if call.effect == "runs" else label
        times = f" {group.times}x" if group.times > 1 else ""
        if call.outcome is None:
            return f"{marked}{times} (no result yet)"
        return marked + times + (" (failed, then ok)" if group.failed_before or call.failed else "")

    def _folded(self, groups: Sequence[Group], failures: dict[tuple[str, int], str]) -> list[str]:
        """Lines in order: consecutive calls of one tool share a line, failures have their own."""
        lines: list[str] = []
        run: list[Group] = []

        def close() -> None:
            if run:
                first, last = run[0].newest, run[-1].newest
                span = f"m{first.number}" + (f"-m{last.number}" if last.number != first.number else "")
                lines.append(f"{span} {first.name}: {', '.join(map(self._label, run))}")
                run.clear()

        for group in groups:
            if group.newest.key in failures:
                close()
                lines.append(failures[group.newest.key])
                continue
            if run and (run[0].newest.name != group.newest.name or sum(len(self._label(g)) for g in run) > _FOLDED):
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
            before = self._room.left
            if not self._room.take(line, cap):
                break
            cap -= before - self._room.left
            found.append((number, line))
        if found:
            self._parts[REMARKS] = [line for _, line in sorted(found)]

    def _choose_found(self) -> None:
        told = "\n".join(line for lines in self._parts.values() for line in lines)
        quotes = Quotes(self._ledger, self._only, "\n".join((self._elsewhere, told)), self._source)
        self._parts[FOUND] = quotes.choose(self._room)

    def _source(self, number: int) -> str:
        """What a quoted message is, for the line above its quotes."""
        calls = self._by_result.get(number) or self._by_call.get(number)
        if calls:
            call = calls[0]
            return f"m{number} {call.name} {shortened(cleaned(call.label), _LABEL, _LEAST_LABEL)}:"
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


def lines_of(parts: Iterable[str]) -> int:
    """How many lines some texts have together."""
    return sum(part.count("\n") + 1 for part in parts)
