"""What was done, as lines of a work ledger: things that were changed, calls with their outcomes, calls as examples."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from autocontext.ledger.calls import Call, Key, label_in, shortened
from autocontext.messages import ToolUseBlock
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

MOST = 1_000
"""Calls, and calls that change something, that one text is made of: the newest. So it costs no more as work goes on."""
LABEL = 48
"""Characters of a call's label in a line of several."""
NARROW = 26
"""Characters of a label where room is short."""
_PATH = 120
"""Characters of a path that is given whole."""
ERROR = 110
"""Characters of an error line."""
_SHORT_ERROR = 60
"""Characters of an error line where room is short."""
LEAST_ERROR = 44
_FOLDED = 160
"""Characters of a line that several calls share."""
_OF_FOLDER = 8
"""Files that share a line with their folder."""
_EXAMPLE = 300
"""Characters of a call that is quoted as it was made."""
_EXAMPLE_VALUE = 72
"""Characters of one argument in it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Equal calls, of which the newest counts."""

    newest: Call
    times: int
    failed_before: bool


class Changed(NamedTuple):
    """A thing that was changed, and what was done to it."""

    thing: str
    done: str
    last: Call

    @property
    def line(self) -> str:
        """As a line of its own."""
        return f"m{self.last.number} {self.thing}: {self.done}"


class Doings:
    """The calls in some messages of a history."""

    def __init__(self, ledger: WorkLedger, only: Container[int]) -> None:
        self._ledger, self._only = ledger, only
        newest = ledger.calls[-MOST:]
        self.calls = [c for c in newest if c.number in only]
        self._successes = {c.key: c.number for c in newest if c.outcome is not None and not c.outcome.failed}
        """The last success of each call, be it in view or not."""
        self._labels: dict[tuple[Key, int, bool], str] = {}
        self.seen_paths: set[str] = set()
        """Files whose whole path the reader sees already."""

    def groups(self) -> list[Group]:
        """Distinct calls, the one made last at the end."""
        groups: dict[Key, Group] = {}
        for call in self.calls:
            old = groups.pop(call.key, None)
            before = old is not None and (old.failed_before or old.newest.failed)
            groups[call.key] = Group(call, 1 if old is None else old.times + 1, before)
        return list(groups.values())

    def repaired(self, call: Call) -> bool:
        """Whether the same was done again later with success, in view or not."""
        return self._successes.get(call.key, 0) > call.number

    # --------------------------------------------------------------------------------------------------- changes
    def changes(self) -> list[Changed]:
        """The things that were changed, the one changed last at the end."""
        things: dict[str, dict[str, int]] = {}
        last: dict[str, Call] = {}
        changing = (self._ledger.calls[at] for at in self._ledger.changing[-MOST:])
        for call in changing:
            if call.number not in self._only:
                continue
            for thing, done in call.changes:
                if call.outcome is None or (call.failed and thing not in last):
                    continue  # a failed change is no change; one without a result may be none
                dones = things.pop(thing, {})
                if not call.failed:
                    dones[done] = dones.pop(done, 0) + 1
                things[thing] = dones
                last[thing] = call
        return [
            Changed(one_line(thing), one_line(_done(dones, last[thing])), last[thing])
            for thing, dones in things.items()
        ]

    # ----------------------------------------------------------------------------------------------------- calls
    def own_lines(self, groups: Sequence[Group], *, short: bool) -> dict[Key, str]:
        """A line for each call, with its outcome."""
        width, longest = (NARROW + 8, _SHORT_ERROR) if short else (2 * LABEL, ERROR)
        return {g.newest.key: self._own_line(g, width, longest) for g in groups}

    def _own_line(self, group: Group, width: int, longest: int) -> str:
        call, outcome = group.newest, group.newest.outcome
        detail = f" [{one_line(call.detail)}]" if call.detail else ""
        times = f" {group.times}x" if group.times > 1 else ""
        head = f"m{call.number} {call.name}: {self._label_of(call, width)}{detail}{times}"
        if outcome is None or not outcome.error:
            return f"{head} -> failed"
        error = shortened(one_line(outcome.error), longest, LEAST_ERROR)
        telling = one_line(outcome.telling)
        both = f"{telling}; {error}" if telling and telling != error and longest > _SHORT_ERROR else error
        return f"{head} -> failed: {both if len(both) <= 2 * longest else error}"

    def label(self, group: Group, width: int) -> str:
        """What a line of several calls says of these."""
        place = group.newest.key, width, group.newest.label in self.seen_paths
        if place not in self._labels:
            self._labels[place] = self._label(group, width)
        return self._labels[place]

    def _label(self, group: Group, width: int) -> str:
        call = group.newest
        label = self._label_of(call, width)
        marked = f"`{label}`" if call.effect == "runs" else label
        times = f" {group.times}x" if group.times > 1 else ""
        if call.outcome is None:
            return f"{marked}{times} (no result yet)"
        return marked + times + (" (failed, then ok)" if group.failed_before or call.failed else "")

    def _label_of(self, call: Call, width: int) -> str:
        """A file's whole path where it stands nowhere else, else its end; of other labels beginning and end."""
        label = one_line(call.label)
        if "/" in label and " " not in label and len(label) <= _PATH and call.label not in self.seen_paths:
            return label
        return label_in(label, width)

    def folded(self, groups: Sequence[Group], lines: Mapping[Key, str], width: int) -> list[str]:
        """Lines in order: consecutive calls of one tool share a line, those with `lines` have their own."""
        folded: list[str] = []
        run: list[Group] = []
        size = 0
        for group in groups:
            own = lines.get(group.newest.key)
            label = group.newest.label
            other = bool(run) and run[0].newest.name != group.newest.name
            # One thing twice in a line, as an editor's view and edit, would be read as one.
            twice = any(g.newest.label == label for g in run)
            if run and (own is not None or other or twice or size > _FOLDED):
                folded.append(self._run(run, width))
                run, size = [], 0
            if own is not None:
                folded.append(own)
            else:
                run.append(group)
                size += len(self.label(group, width))
        return [*folded, *([self._run(run, width)] if run else [])]

    def _run(self, run: Sequence[Group], width: int) -> str:
        first, last = run[0].newest, run[-1].newest
        span = f"m{first.number}" + (f"-m{last.number}" if last.number != first.number else "")
        labels = "; ".join(filter(None, (self.label(g, width) for g in run)))
        return f"{span} {first.name}: {labels}" if labels else f"{span} {first.name}"

    def examples(self) -> Iterator[tuple[int, str]]:
        """The newest call of each kind as it was made, where none is in view: the next will be like it."""
        for number, use in sorted(self._ledger.examples.values(), key=lambda item: -item[0]):
            # Of a single argument the call's own line tells.
            if number in self._only and len(use.input) > 1:
                yield number, f"m{number} {one_line(use.name)[:60] or 'call'} {_example(use)}"


def _done(dones: dict[str, int], last: Call) -> str:
    """What was done to a thing, how often, and by which tool last, where that does not say it."""
    words = ", ".join(word if n == 1 else f"{word} {n}x" for word, n in dones.items())
    by = f" ({last.name})" if last.effect == "changes" and last.name not in words else ""
    return words + by + (", the last attempt failed" if last.failed else "")


def by_folder(changes: Sequence[Changed]) -> list[tuple[str, int]]:
    """Lines with the folder said once for files that follow each other in one, each with how many things it tells."""
    lines: list[tuple[str, list[Changed]]] = []
    for change in changes:
        folder, slash, _ = change.thing.rpartition("/")
        folder = folder if slash and " " not in folder else ""
        if not folder or not lines or lines[-1][0] != folder or len(lines[-1][1]) == _OF_FOLDER:
            lines.append((folder, []))
        lines[-1][1].append(change)
    return [(_of_folder(folder, inside), len(inside)) for folder, inside in lines]


def _of_folder(folder: str, changes: Sequence[Changed]) -> str:
    if len(changes) == 1:
        return changes[0].line
    numbers = sorted(c.last.number for c in changes)
    names = "; ".join(f"{c.thing[len(folder) + 1 :]} {c.done}" for c in changes)
    return f"m{numbers[0]}-m{numbers[-1]} {folder}/: {names}"


def _example(use: ToolUseBlock) -> str:
    """The arguments of a call as JSON, long ones cut."""
    values = {
        k[:_EXAMPLE_VALUE]: shortened(v, _EXAMPLE_VALUE) if isinstance(v, str) else v for k, v in use.input.items()
    }
    return shortened(one_line(json.dumps(values, ensure_ascii=False, default=str)[: 4 * _EXAMPLE]), _EXAMPLE)
