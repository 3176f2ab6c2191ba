"""Calls as lines of a work ledger: what they changed, how they ended, and examples of them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from autocontext.ledger.calls import Call, Key, label_in, shorten
from autocontext.ledger.notes import is_note_tool
from autocontext.messages import ToolUseBlock
from autocontext.text.rendering import one_line

if TYPE_CHECKING:
    from autocontext.ledger.work import WorkLedger

MOST = 1_000
"""One text uses the newest calls and the newest changing calls, so its cost does not grow with the history."""
LABEL = 48
"""Characters of a call's label in a line with several."""
NARROW = 26
"""Characters of a label if room is short."""
_PATH = 120
"""Characters of the longest path that is not cut."""
ERROR = 110
"""Characters of an error line."""
_SHORT_ERROR = 60
"""Characters of an error line if room is short."""
LEAST_ERROR = 44
_LONGEST_RUN = 160
"""Characters of labels after which a line with several calls ends."""
_OF_FOLDER = 8
"""Most files of a folder in one line."""
_EXAMPLE = 300
"""Characters of a call that is quoted as an example."""
_EXAMPLE_VALUE = 72
"""Characters of one argument in an example."""


@dataclass(frozen=True, slots=True)
class Group:
    """Equal calls, represented by the newest."""

    newest: Call
    times: int
    failed_before: bool


class ChangeSummary(NamedTuple):
    """A changed thing, what was done to it, and the call that did it last."""

    thing: str
    actions: str
    last: Call

    @property
    def line(self) -> str:
        """The change as a line of text."""
        return f"m{self.last.number} {self.thing}: {self.actions}"


class Activity:
    """The calls in some messages of a history."""

    def __init__(self, ledger: WorkLedger, only: Container[int]) -> None:
        self._ledger, self._only = ledger, only
        newest = ledger.calls[-MOST:]
        self.calls = [c for c in newest if c.number in only and not is_note_tool(c.name)]
        self._successes = {c.key: c.number for c in newest if c.outcome is not None and not c.outcome.failed}
        """The last success of each call, in view or not."""
        self._labels: dict[tuple[Key, int, bool], str] = {}
        self.paths_in_view: set[str] = set()
        """Files whose full path the reader already sees."""

    def groups(self) -> list[Group]:
        """Distinct calls, the latest at the end."""
        groups: dict[Key, Group] = {}
        for call in self.calls:
            old = groups.pop(call.key, None)
            before = old is not None and (old.failed_before or old.newest.failed)
            groups[call.key] = Group(call, 1 if old is None else old.times + 1, before)
        return list(groups.values())

    def succeeded_later(self, call: Call) -> bool:
        """Whether an equal call succeeded later, in view or not."""
        return self._successes.get(call.key, 0) > call.number

    # --------------------------------------------------------------------------------------------------- changes
    def changes(self) -> list[ChangeSummary]:
        """The changed things, the latest at the end."""
        things: dict[str, dict[str, int]] = {}
        last: dict[str, Call] = {}
        changing = (self._ledger.calls[at] for at in self._ledger.changing[-MOST:])
        for call in changing:
            if call.number not in self._only:
                continue
            for thing, action in call.changes:
                made = thing in call.made
                if call.outcome is None or (call.failed and not made and thing not in last):
                    continue  # a failed call changed nothing, and one without a result perhaps nothing
                actions = things.pop(thing, {})
                if made or not call.failed:
                    actions[action] = actions.pop(action, 0) + 1
                things[thing] = actions
                last[thing] = call
        return [
            ChangeSummary(one_line(thing), one_line(_describe_actions(thing, actions, last[thing])), last[thing])
            for thing, actions in things.items()
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
        error = shorten(one_line(outcome.error), longest, LEAST_ERROR)
        cause = one_line(outcome.cause)
        both = f"{cause}; {error}" if cause and cause != error and longest > _SHORT_ERROR else error
        return f"{head} -> failed: {both if len(both) <= 2 * longest else error}"

    def label(self, group: Group, width: int) -> str:
        """The calls' label in a line with several."""
        place = group.newest.key, width, group.newest.label in self.paths_in_view
        if place not in self._labels:
            self._labels[place] = self._label(group, width)
        return self._labels[place]

    def _label(self, group: Group, width: int) -> str:
        call = group.newest
        label = self._label_of(call, width)
        name = f"`{label}`" if call.effect == "runs" and label else label
        times = f" {group.times}x" if group.times > 1 else ""
        if call.outcome is None:
            times += " (no result yet)"
        elif group.failed_before or call.failed:
            times += " (failed, then ok)"
        return (name + times).strip()

    def _label_of(self, call: Call, width: int) -> str:
        """A file's full path, or its end if the path is in view; beginning and end of other labels."""
        label = one_line(call.label)
        if "/" in label and " " not in label and len(label) <= _PATH and call.label not in self.paths_in_view:
            return label
        return label_in(label, width)

    def merge_lines(self, groups: Sequence[Group], own_lines: Mapping[Key, str], width: int) -> list[str]:
        """Lines in order: consecutive calls of one tool share a line, except those with a line in `own_lines`."""
        lines: list[str] = []
        run: list[Group] = []
        size = 0
        for group in groups:
            own_line = own_lines.get(group.newest.key)
            label = group.newest.label
            other = bool(run) and run[0].newest.name != group.newest.name
            # The same label twice in a line, as for an editor's view and edit, would be misleading.
            twice = any(g.newest.label == label for g in run)
            if run and (own_line is not None or other or twice or size > _LONGEST_RUN):
                lines.append(self._run_line(run, width))
                run, size = [], 0
            if own_line is not None:
                lines.append(own_line)
            else:
                run.append(group)
                size += len(self.label(group, width))
        return [*lines, *([self._run_line(run, width)] if run else [])]

    def _run_line(self, run: Sequence[Group], width: int) -> str:
        first, last = run[0].newest, run[-1].newest
        span = f"m{first.number}" + (f"-m{last.number}" if last.number != first.number else "")
        labels = "; ".join(filter(None, (self.label(g, width) for g in run)))
        return f"{span} {first.name}: {labels}" if labels else f"{span} {first.name}"

    def examples(self) -> Iterator[tuple[int, str]]:
        """The newest call of each kind, unless it is in view, with its arguments: the next will look like it."""
        for number, use in sorted(self._ledger.examples.values(), key=lambda item: -item[0]):
            # A single argument is in the call's own line.
            if number in self._only and len(use.input) > 1:
                yield number, f"m{number} {one_line(use.name)[:60] or 'call'} {_example(use)}"


def _describe_actions(thing: str, actions: dict[str, int], last: Call) -> str:
    """What was done to a thing, how often, and by which tool last, unless the words name it."""
    words = ", ".join(word if n == 1 else f"{word} {n}x" for word, n in actions.items())
    by = f" ({last.name})" if last.effect == "changes" and last.name not in words else ""
    if not last.failed:
        return words + by
    return words + by + (", then the command failed" if thing in last.made else ", the last attempt failed")


def by_folder(changes: Sequence[ChangeSummary]) -> list[tuple[str, int]]:
    """Lines that name a folder once for consecutive files in it, each with the number of its things."""
    lines: list[tuple[str, list[ChangeSummary]]] = []
    for change in changes:
        folder, slash, _ = change.thing.rpartition("/")
        folder = folder if slash and " " not in folder else ""
        if not folder or not lines or lines[-1][0] != folder or len(lines[-1][1]) == _OF_FOLDER:
            lines.append((folder, []))
        lines[-1][1].append(change)
    return [(_of_folder(folder, inside), len(inside)) for folder, inside in lines]


def _of_folder(folder: str, changes: Sequence[ChangeSummary]) -> str:
    if len(changes) == 1:
        return changes[0].line
    numbers = sorted(c.last.number for c in changes)
    names = "; ".join(f"{c.thing[len(folder) + 1 :]} {c.actions}" for c in changes)
    return f"m{numbers[0]}-m{numbers[-1]} {folder}/: {names}"


def _example(use: ToolUseBlock) -> str:
    """The arguments of a call as JSON, long ones cut."""
    values = {k[:_EXAMPLE_VALUE]: shorten(v, _EXAMPLE_VALUE) if isinstance(v, str) else v for k, v in use.input.items()}
    return shorten(one_line(json.dumps(values, ensure_ascii=False, default=str)[: 4 * _EXAMPLE]), _EXAMPLE)
